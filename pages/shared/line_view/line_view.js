// Lines between queries (left) and keys (right). Pointing at a word shows its own lines with numbers.

const ROW = 20;
const COLUMN = 190;
const GAP = 260;

/** A label cut in the middle, so that its start and its end can be told apart; whole in the tooltip. */
function shortened(label, most) {
  const letters = [...label];
  return letters.length <= most ? label : `${letters.slice(0, most / 2).join("")}…${letters.slice(1 - most / 2).join("")}`;
}

class LineView {
  constructor(root) {
    this.readout = make("div", "lv-readout");
    this.readout.setAttribute("role", "status");
    this.scroll = make("div", "lv-scroll");
    this.scroll.tabIndex = 0;
    root.append(this.readout, this.scroll);
    this.scroll.addEventListener("keydown", (event) => this.onKey(event));
  }

  update(data, report) {
    this.data = data;
    this.report = report;
    const rows = Math.max(data.left.length, data.right.length);
    const width = 2 * COLUMN + GAP;
    this.picture = shape("svg", { width, height: (rows + 1) * ROW + 6, viewBox: `0 0 ${width} ${(rows + 1) * ROW + 6}`, role: "img" });
    this.picture.setAttribute("aria-label", `Lines from queries to keys of head ${data.head}; the table below has the numbers.`);
    const lines = shape("g", { class: "lv-lines" });
    const middle = (at) => (at + 1.5) * ROW;
    const top = data.lines.length ? data.lines[data.lines.length - 1][2] : 1;
    this.lines = data.lines.map(([row, key, weight]) => {
      const share = Math.sqrt(weight / top);
      const line = shape("line", {
        x1: COLUMN + 4, y1: middle(row), x2: COLUMN + GAP - 4, y2: middle(key),
        "stroke-opacity": (0.06 + 0.94 * share).toFixed(3), "stroke-width": (0.6 + 2.4 * share).toFixed(2),
      });
      lines.append(line);
      return line;
    });
    this.words = [this.column(data.left, 0, "query"), this.column(data.right, 1, "key")];
    this.picture.append(lines, ...this.words.flat());
    this.scroll.replaceChildren(this.picture);
    this.show(data.chosen === null ? null : [0, data.chosen]);
    if (data.chosen !== null) this.scroll.scrollTop = Math.max(0, middle(data.chosen) - 150);
    this.takeBack?.();
    this.takeBack = offerPicture(data.picture, () => this.saved());
  }

  /** The whole picture, on the background of the page. */
  saved() {
    const [width, height] = ["width", "height"].map((side) => Number(this.picture.getAttribute(side)));
    const background = getComputedStyle(this.scroll).getPropertyValue("--st-background-color").trim() || "#ffffff";
    const ground = `<rect width="100%" height="100%" fill="${background}"/>`;
    return { text: standalone(this.picture).replace(/^<svg[^>]*>/, (start) => start + ground), width, height };
  }

  destroy() {
    this.takeBack?.();
    [this.readout, this.scroll].forEach((element) => element.remove());
  }

  column(labels, side, title) {
    const x = side === 0 ? COLUMN : COLUMN + GAP;
    const anchor = side === 0 ? "end" : "start";
    const head = shape("text", { x, y: ROW * 0.8, "text-anchor": anchor, class: "lv-title" });
    head.textContent = title;
    const special = new Set(this.data.special[side]);
    const words = labels.map((label, at) => {
      const text = shape("text", { x, y: (at + 1.7) * ROW, "text-anchor": anchor, class: special.has(at) ? "lv-word lv-special" : "lv-word" });
      const number = at + this.data.first[side];
      const words = shortened(label, 18);
      text.textContent = side === 0 ? `${words}  ${number}` : `${number}  ${words}`;
      const whole = shape("title", {});
      whole.textContent = `${title} ${number} “${label}”`;
      text.append(whole);
      text.addEventListener("pointerenter", () => this.show([side, at]));
      text.addEventListener("pointerleave", () => this.show(this.data.chosen === null ? null : [0, this.data.chosen]));
      if (side === 0) text.addEventListener("click", () => this.report("choose", { token: this.data.starts[at] }));
      return text;
    });
    return [head, ...words];
  }

  /** Only the lines of one word, with the strongest in words; null: all lines. */
  show(point) {
    const { data } = this;
    this.words.forEach((column, side) => column.forEach((word, at) => word.classList.toggle("lv-here", point !== null && point[0] === side && at - 1 === point[1])));
    const own = [];
    data.lines.forEach((line, at) => {
      const mine = point === null || line[point[0]] === point[1];
      this.lines[at].classList.toggle("lv-off", !mine);
      if (mine && point !== null) own.push(line);
    });
    if (point === null) {
      this.readout.textContent = `${data.lines.length} lines of head ${data.head}; point at a word for its own`;
      return;
    }
    const [side, at] = point;
    const other = 1 - side;
    const names = [data.left, data.right];
    const best = own.reverse().slice(0, 5).map((line) => `${line[other] + data.first[other]} “${shortened(names[other][line[other]], 18)}” ${number(line[2], 4)}`);
    const what = side === 0 ? ["query", "→ key"] : ["key", "← query"];
    this.readout.textContent = `Head ${data.head}, ${what[0]} ${at + data.first[side]} “${shortened(names[side][at], 18)}” ${what[1]} ${best.join(", ") || "no line drawn"}`;
  }

  onKey(event) {
    const steps = { ArrowUp: -1, ArrowDown: 1 };
    if (!(event.key in steps)) return;
    const now = this.data.chosen ?? -1;
    const at = Math.max(0, Math.min(this.data.left.length - 1, now + steps[event.key]));
    this.data.chosen = at;
    this.show([0, at]);
    this.words[0][at + 1].scrollIntoView({ block: "nearest" });
    event.preventDefault();
    event.stopPropagation(); // the keys of the page move heads
  }
}

const views = new WeakMap();

export default function (component) {
  const { data, parentElement, setTriggerValue } = component;
  let view = views.get(parentElement);
  if (!view) {
    view = new LineView(parentElement);
    views.set(parentElement, view);
  }
  view.update(data, setTriggerValue);
  return () => {
    view.destroy();
    views.delete(parentElement);
  };
}
