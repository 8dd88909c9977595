// A picture that a component draws is saved by the buttons of save_picture too: they ask for it by name.

const CONTROLS = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g; // XML cannot hold them
const STYLED = "text, tspan, line"; // what takes its ink from style sheets
const INK = ["font-family", "font-size", "font-weight", "font-style", "fill", "stroke", "visibility"];

const SVG = "http://www.w3.org/2000/svg";

/** An element of an SVG, with literal text. */
function shape(tag, attributes, text) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

/** Answers to `name` with `draw()`: {text, width, height} of an SVG, or a promise of it. Returns what takes it back. */
function offerPicture(name, draw) {
  const answer = (event) => {
    if (event.detail.name === name) event.detail.picture = draw();
  };
  window.addEventListener("headwater-picture", answer);
  return () => window.removeEventListener("headwater-picture", answer);
}

/** A copy of an SVG as text that needs no style sheet: what the page's styles give is written into it. */
function standalone(svg) {
  const copy = svg.cloneNode(true);
  const parts = copy.querySelectorAll(STYLED);
  svg.querySelectorAll(STYLED).forEach((part, number) => {
    const style = window.getComputedStyle(part);
    for (const name of INK) parts[number].style.setProperty(name, style.getPropertyValue(name));
  });
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  return new XMLSerializer().serializeToString(copy).replace(CONTROLS, "\ufffd");
}
