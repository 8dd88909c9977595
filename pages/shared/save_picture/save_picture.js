// Saves the chart of a container as SVG or PNG.

const SCALE = 2; // PNG pixels per pixel of the screen
const INK = ["font-family", "font-size", "font-weight", "fill", "stroke"];

// A copy that needs no style sheet: what the page's styles give to the texts is written into it.
function standalone(svg) {
  const copy = svg.cloneNode(true);
  const texts = copy.querySelectorAll("text");
  svg.querySelectorAll("text").forEach((text, number) => {
    const style = window.getComputedStyle(text);
    for (const name of INK) texts[number].style.setProperty(name, style.getPropertyValue(name));
  });
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  return new XMLSerializer().serializeToString(copy);
}

function download(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  window.setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

function png(text, svg) {
  const { width, height } = svg.getBoundingClientRect();
  const image = new Image();
  const address = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
  return new Promise((resolve, reject) => {
    image.onload = () => {
      const canvas = document.createElement("canvas");
      canvas.width = Math.ceil(width * SCALE);
      canvas.height = Math.ceil(height * SCALE);
      canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
      URL.revokeObjectURL(address);
      canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error("empty picture"))), "image/png");
    };
    image.onerror = () => reject(new Error("the picture could not be drawn"));
    image.src = address;
  });
}

export default function (component) {
  const { data, parentElement } = component;
  const status = parentElement.querySelector('[role="status"]');

  const save = async (event) => {
    const form = event.target.dataset?.form;
    if (!form) return;
    const svg = document.querySelector(`.st-key-${data.container} .vega-embed svg`);
    if (!svg) {
      status.textContent = "There is no chart to save yet.";
      return;
    }
    status.textContent = "";
    const text = standalone(svg);
    try {
      const blob = form === "svg" ? new Blob([text], { type: "image/svg+xml" }) : await png(text, svg);
      download(blob, `${data.name}.${form}`);
    } catch (error) {
      status.textContent = `The chart could not be saved as ${form.toUpperCase()}: ${error.message}.`;
    }
  };
  parentElement.addEventListener("click", save);
  return () => parentElement.removeEventListener("click", save);
}
