// Text in reading order. A click chooses one unit, a click with Shift or Ctrl adds one or takes it away.
//
// A click says which tokens are chosen from now on, not which unit was clicked: it means the same whatever the page shows
// by the time it hears of it, and it builds on the click before, answered or not.

const RAMP_PARTS = 40; // rectangles of the colour bar in a saved picture

/** The lines of a text node as they are laid out: their text and where each stands. */
function linesOf(node) {
  const range = document.createRange();
  range.selectNodeContents(node);
  if (range.getClientRects().length === 1) return [{ text: node.data, rect: range.getBoundingClientRect() }];
  const lines = [];
  let at = 0;
  for (const letter of node.data) {
    range.setStart(node, at);
    range.setEnd(node, (at += letter.length));
    const rect = range.getBoundingClientRect();
    const last = lines[lines.length - 1];
    if (last && Math.abs(last.rect.top - rect.top) < 2) last.text += letter;
    else lines.push({ text: letter, rect });
  }
  return lines;
}

class TextView {
  constructor(root) {
    this.readout = make("div", "tv-readout");
    this.readout.setAttribute("role", "status");
    this.text = make("div", "tv-text");
    this.text.setAttribute("role", "listbox");
    this.text.setAttribute("aria-multiselectable", "true");
    this.text.tabIndex = 0;
    this.bar = make("div", "tv-bar");
    this.reported = []; // choices on their way to the page
    root.append(this.readout, this.text, this.bar);
    this.text.addEventListener("pointerover", (event) => this.say(this.unitAt(event)));
    this.text.addEventListener("pointerleave", () => this.say(null));
    this.text.addEventListener("click", (event) => this.choose(this.unitAt(event), event.shiftKey || event.ctrlKey || event.metaKey));
    this.text.addEventListener("keydown", (event) => this.onKey(event));
  }

  update(data, report) {
    this.takeChosen(data);
    this.data = data;
    this.report = report;
    const style = getComputedStyle(this.text);
    const background = toRgb(style.getPropertyValue("--st-background-color") || "#ffffff");
    const ink = toRgb(style.getPropertyValue("--st-text-color") || "#1c2430");
    this.ramp = makeRamp(data.palette, background);
    this.background = background;
    this.ink = ink;
    this.leftOut = new Set(data.leftOut);
    const shown = data.values.filter((value, at) => value !== null && !this.leftOut.has(at + data.first));
    this.top = niceCeiling(Math.max(0, ...shown));
    this.scale = makeScale("root", 0, this.top);
    const special = new Set(data.special);
    const parts = [];
    if (data.first > 0) parts.push(make("p", "tv-more", `units 0 to ${data.first - 1} are not drawn`));
    this.spans = data.labels.map((label, at) => {
      const unit = at + data.first;
      const span = make("span", "tv-unit", label);
      span.dataset.unit = unit;
      span.setAttribute("role", "option");
      span.classList.toggle("tv-special", special.has(unit));
      this.colour(span, data.values[at], this.leftOut.has(unit));
      parts.push(span);
      if (label.endsWith("↵")) parts.push(document.createElement("br"));
      return span;
    });
    const last = data.first + data.labels.length;
    if (last < data.all) parts.push(make("p", "tv-more", `units ${last} to ${data.all - 1} are not drawn`));
    this.text.replaceChildren(...parts);
    this.text.setAttribute("aria-label", `The text, coloured by ${data.words}. Arrows move, Enter chooses, with Shift adds.`);
    this.at = Math.max(0, data.starts.indexOf(this.chosen[0]));
    this.mark();
    this.say(null);
    this.drawBar();
    this.takeBack?.();
    this.takeBack = offerPicture(data.picture, () => this.picture());
  }

  /** The page echoes what was reported; an answer to an older click does not undo a newer one. */
  takeChosen(data) {
    const given = JSON.stringify(data.chosen);
    const text = JSON.stringify([data.starts, data.most]);
    const echo = text === this.textKey ? this.reported.indexOf(given) : -1;
    if (echo >= 0) this.reported.splice(0, echo + 1);
    else if (given !== this.given || text !== this.textKey) {
      this.reported = [];
      this.chosen = data.chosen;
    }
    this.given = given;
    this.textKey = text;
  }

  mark() {
    const chosen = new Set(this.chosen);
    this.spans.forEach((span, at) => {
      const mine = chosen.has(this.data.starts[at]);
      span.classList.toggle("tv-chosen", mine);
      span.setAttribute("aria-selected", String(mine));
    });
  }

  colour(span, value, leftOut) {
    if (value === null || leftOut) {
      span.classList.add(leftOut ? "tv-left-out" : "tv-unseen");
      return;
    }
    const rgb = this.ramp.rgb[rampStep(this.scale.share(value))];
    span.style.backgroundColor = css(rgb);
    span.style.color = luminance(rgb) < 0.5 ? "#ffffff" : "#111111";
  }

  unitAt(event) {
    const span = event.target.closest("[data-unit]");
    return span ? Number(span.dataset.unit) : null;
  }

  say(unit) {
    const { data } = this;
    if (unit === null || !data) {
      const how = data && data.most ? "; a click chooses, with Shift or Ctrl several" : "";
      this.readout.textContent = data ? data.words + how : "";
      return;
    }
    const at = unit - data.first;
    const value = data.values[at];
    const what = value === null ? (this.leftOut.has(unit) ? "a sink, taken out" : "not visible") : number(value, 4);
    this.readout.textContent = `${unit} “${data.labels[at]}”: ${what}`;
  }

  choose(unit, add) {
    if (unit === null || !this.data.most) return;
    const token = this.data.starts[unit - this.data.first];
    const chosen = new Set(this.chosen);
    if (!add) {
      chosen.clear();
      chosen.add(token);
    } else if (chosen.has(token)) {
      if (chosen.size > 1) chosen.delete(token);
    } else if (chosen.size < this.data.most) {
      chosen.add(token);
    }
    this.chosen = [...chosen].sort((a, b) => a - b);
    this.mark();
    this.reported.push(JSON.stringify(this.chosen));
    this.report("choose", { tokens: this.chosen });
  }

  onKey(event) {
    const steps = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 };
    if (event.key in steps) {
      this.at = Math.max(0, Math.min(this.spans.length - 1, this.at + steps[event.key]));
      this.text.querySelectorAll(".tv-here").forEach((span) => span.classList.remove("tv-here"));
      this.spans[this.at].classList.add("tv-here");
      this.spans[this.at].scrollIntoView({ block: "nearest" });
      this.say(this.at + this.data.first);
    } else if (event.key === "Enter" || event.key === " ") {
      this.choose(this.at + this.data.first, event.shiftKey || event.ctrlKey);
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation(); // the keys of the page move heads
  }

  drawBar() {
    const stops = [0, 0.25, 0.5, 0.75, 1].map((share) => css(this.ramp.rgb[rampStep(share)]));
    const strip = make("span", "tv-strip");
    strip.style.background = `linear-gradient(to right, ${stops.join(",")})`;
    this.bar.replaceChildren(make("span", "", "0"), strip, make("span", "", shortNumber(this.top)), make("span", "tv-hint", "colour is the square root of the share of the top"));
  }

  // ------------------------------------------------------------------ a picture

  /** The whole text as it is laid out, with what the colours mean above it and the colour bar below. */
  picture() {
    const edge = this.text.getBoundingClientRect();
    const shift = [this.text.scrollLeft - edge.left + 8, this.text.scrollTop - edge.top + 30];
    const [width, height] = [this.text.scrollWidth + 16, this.text.scrollHeight + 64];
    const svg = shape("svg", { width, height, viewBox: `0 0 ${width} ${height}` });
    const ink = css(this.ink);
    svg.append(shape("rect", { width, height, fill: css(this.background) }));
    svg.append(shape("text", { x: 8, y: 18, fill: ink, "font-family": "sans-serif", "font-size": 14 }, this.data.words));
    for (const span of this.text.querySelectorAll(".tv-unit, .tv-more")) svg.append(...this.drawn(span, shift));
    svg.append(...this.drawnBar(8, height - 24, ink));
    return { text: standalone(svg), width, height };
  }

  /** One unit as shapes. */
  drawn(span, [left, top]) {
    const style = getComputedStyle(span);
    const shapes = [];
    const box = span.getBoundingClientRect();
    const [x, y] = [box.left + left, box.top + top];
    const clear = style.backgroundColor === "rgba(0, 0, 0, 0)";
    if (!clear) shapes.push(shape("rect", { x, y, width: box.width, height: box.height, rx: 2, fill: style.backgroundColor }));
    if (span.classList.contains("tv-chosen")) {
      shapes.push(shape("rect", { x, y, width: box.width, height: box.height, fill: "none", stroke: SELECTED, "stroke-width": 2 }));
    }
    for (const { text, rect } of span.firstChild ? linesOf(span.firstChild) : []) {
      shapes.push(shape("text", {
        x: rect.left + left, y: rect.top + top + rect.height * 0.78, fill: style.color, opacity: style.opacity,
        "font-family": style.fontFamily, "font-size": style.fontSize, "font-style": style.fontStyle,
        "text-decoration": style.textDecorationLine, "xml:space": "preserve",
      }, text));
    }
    return shapes;
  }

  drawnBar(x, y, ink) {
    const width = 160 / RAMP_PARTS;
    const shapes = Array.from({ length: RAMP_PARTS }, (_, at) =>
      shape("rect", { x: x + 20 + at * width, y, width: width + 0.5, height: 12, fill: css(this.ramp.rgb[rampStep(at / (RAMP_PARTS - 1))]) }));
    const say = (at, text) => shape("text", { x: at, y: y + 11, fill: ink, "font-family": "sans-serif", "font-size": 12 }, text);
    return [say(x, "0"), ...shapes, say(x + 188, `${shortNumber(this.top)}; colour is the square root of the share of the top`)];
  }

  destroy() {
    this.takeBack?.();
    [this.readout, this.text, this.bar].forEach((element) => element.remove());
  }
}

const views = new WeakMap();

export default function (component) {
  const { data, parentElement, setTriggerValue } = component;
  let view = views.get(parentElement);
  if (!view) {
    view = new TextView(parentElement);
    views.set(parentElement, view);
  }
  view.update(data, setTriggerValue);
  return () => {
    view.destroy();
    views.delete(parentElement);
  };
}
