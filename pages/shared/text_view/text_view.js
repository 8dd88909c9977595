// Text in reading order. A click chooses one unit, a click with Shift or Ctrl adds one or takes it away.

class TextView {
  constructor(root) {
    this.readout = make("div", "tv-readout");
    this.readout.setAttribute("role", "status");
    this.text = make("div", "tv-text");
    this.text.setAttribute("role", "listbox");
    this.text.setAttribute("aria-multiselectable", "true");
    this.text.tabIndex = 0;
    this.bar = make("div", "tv-bar");
    root.append(this.readout, this.text, this.bar);
    this.text.addEventListener("pointerover", (event) => this.say(this.unitAt(event)));
    this.text.addEventListener("pointerleave", () => this.say(null));
    this.text.addEventListener("click", (event) => this.choose(this.unitAt(event), event.shiftKey || event.ctrlKey || event.metaKey));
    this.text.addEventListener("keydown", (event) => this.onKey(event));
  }

  update(data, report) {
    this.data = data;
    this.report = report;
    const style = getComputedStyle(this.text);
    const background = toRgb(style.getPropertyValue("--st-background-color") || "#ffffff");
    const ink = toRgb(style.getPropertyValue("--st-text-color") || "#1c2430");
    this.ramp = makeRamp(data.palette, background);
    this.background = background;
    this.ink = ink;
    const leftOut = new Set(data.leftOut);
    const shown = data.values.filter((value, at) => value !== null && !leftOut.has(at + data.first));
    this.top = niceCeiling(Math.max(0, ...shown));
    this.scale = makeScale("root", 0, this.top);
    const special = new Set(data.special);
    const chosen = new Set(data.chosen);
    const parts = [];
    if (data.first > 0) parts.push(make("p", "tv-more", `units 0 to ${data.first - 1} are not drawn`));
    this.spans = data.labels.map((label, at) => {
      const unit = at + data.first;
      const span = make("span", "tv-unit", label);
      span.dataset.unit = unit;
      span.setAttribute("role", "option");
      span.setAttribute("aria-selected", String(chosen.has(unit)));
      span.classList.toggle("tv-special", special.has(unit));
      span.classList.toggle("tv-chosen", chosen.has(unit));
      this.colour(span, data.values[at], leftOut.has(unit));
      parts.push(span);
      if (label.endsWith("↵")) parts.push(document.createElement("br"));
      return span;
    });
    const last = data.first + data.labels.length;
    if (last < data.all) parts.push(make("p", "tv-more", `units ${last} to ${data.all - 1} are not drawn`));
    this.text.replaceChildren(...parts);
    this.text.setAttribute("aria-label", `The text, coloured by ${data.words}. Arrows move, Enter chooses, with Shift adds.`);
    this.at = data.chosen.length ? data.chosen[0] - data.first : 0;
    this.say(null);
    this.drawBar();
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
    const what = value === null ? "not visible" : number(value, 4);
    this.readout.textContent = `${unit} “${data.labels[at]}”: ${what}`;
  }

  choose(unit, add) {
    if (unit === null || !this.data.most) return;
    const chosen = new Set(this.data.chosen);
    if (!add) {
      chosen.clear();
      chosen.add(unit);
    } else if (chosen.has(unit)) {
      if (chosen.size > 1) chosen.delete(unit);
    } else if (chosen.size < this.data.most) {
      chosen.add(unit);
    }
    this.report("choose", { units: [...chosen].sort((a, b) => a - b) });
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
}
