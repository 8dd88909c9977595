// All heads at a glance: layers down, heads across; each a small map, or one number as a colour.
//
// Small maps come as one picture per layer, loaded when its row comes into sight. Numbers are drawn here.

const PICTURE_GAP = 2; // pixels between two heads in the picture of a layer
const PICTURE_SIZES = [32, 64, 128]; // they divide the stored pooled maps, so nothing is computed anew
const CELL = { least: 14, most: 60 };
const GAP = 2;
const PICTURES_AT_ONCE = 2;
const PICK_MS = 120;
const SMALL_MAPS =
  "Small maps: colour is the square root of the weight over the largest of its own head. Grey: not visible.";

class HeadGrid {
  constructor(root) {
    this.root = root;
    this.selected = null;
    this.hover = null;
    this.frame = make("div", "hg-frame");
    this.scroll = make("div", "hg-scroll");
    this.scroll.tabIndex = 0;
    this.scroll.setAttribute("role", "application");
    this.scroll.setAttribute("aria-roledescription", "grid of heads");
    this.head = make("div", "hg-row hg-head");
    this.body = make("div", "hg-body");
    this.scroll.append(this.head, this.body);
    this.readout = make("div", "hg-readout");
    this.readout.setAttribute("role", "status");
    this.bar = make("div", "hg-bar");
    this.frame.append(this.readout, this.scroll, this.bar);
    root.append(this.frame);
    this.listen();
    this.watcher = new ResizeObserver(() => this.layout());
    this.watcher.observe(this.frame);
  }

  update(data, report) {
    this.report = report;
    this.data = data;
    this.values = new Map(data.layers.map((row) => [row.layer, row]));
    const given = JSON.stringify(data.selected);
    const news = given !== this.given; // an answer to an older click does not move the mark back
    if (news) this.selected = data.selected;
    this.given = given;
    const style = getComputedStyle(this.frame);
    this.background = toRgb(style.getPropertyValue("--st-background-color") || "#ffffff");
    this.text = toRgb(style.getPropertyValue("--st-text-color") || "#31333f");
    this.ramp = makeRamp(data.palette, this.background);
    const numbers = data.layers.flatMap((row) => row.values).filter((value) => value !== null);
    this.top = niceCeiling(Math.max(0, ...numbers));
    const label = `All heads, layers down and heads across, by ${data.measure}. Arrows choose a head.`;
    this.scroll.setAttribute("aria-label", label);
    this.layout();
    if (news) this.reveal();
    this.say();
  }

  /** Size of a cell: as large as the room allows, between CELL.least and CELL.most. */
  layout() {
    if (!this.data) return;
    const room = this.scroll.clientWidth - 30;
    if (room <= 0) return;
    const widest = Math.max(...this.data.layers.map((row) => row.values.length));
    this.cell = Math.round(Math.max(CELL.least, Math.min(CELL.most, room / widest - GAP)));
    const { mode, palette, measure, url, layers } = this.data;
    const wanted = JSON.stringify([this.cell, mode, palette, measure, url, this.background, layers]);
    if (wanted !== this.drawn) {
      this.drawn = wanted;
      this.draw(widest);
    }
    const tallest = window.innerWidth < 640 ? 0.35 * window.innerHeight : window.innerHeight - this.data.reserve;
    this.scroll.style.maxHeight = `${Math.max(160, tallest)}px`;
    this.mark();
  }

  draw(widest) {
    const step = this.cell + GAP;
    const every = step >= 22 || widest < 10 ? 1 : widest < 24 ? 2 : 4;
    this.head.replaceChildren(make("span", "hg-label", ""));
    for (let head = 0; head < widest; head++) {
      const name = make("span", "hg-number", head % every === 0 ? String(head) : "");
      name.style.width = `${step}px`;
      this.head.append(name);
    }
    this.strips = new Map();
    this.waiting = new Set();
    this.loading = new Set();
    this.sight?.disconnect();
    const seen = (entries) => entries.forEach((one) => this.pictureSeen(one.target, one.isIntersecting));
    this.sight = new IntersectionObserver(seen, { rootMargin: "120px" });
    this.body.replaceChildren(...this.data.layers.map((row) => this.row(row)));
    this.drawBar();
  }

  row(row) {
    const element = make("div", "hg-row");
    const strip = this.data.mode === "maps" ? this.pictureStrip(row) : this.valueStrip(row);
    strip.classList.add("hg-strip");
    strip.style.width = `${row.values.length * (this.cell + GAP) - GAP}px`;
    strip.style.height = `${this.cell}px`;
    element.append(make("span", "hg-label", String(row.layer)), strip);
    element.style.marginBottom = `${GAP}px`;
    this.strips.set(row.layer, strip);
    return element;
  }

  pictureStrip(row) {
    const strip = make("div", "");
    const picture = make("img", "hg-picture");
    const pixels = this.cell * (window.devicePixelRatio || 1);
    const size = PICTURE_SIZES.find((one) => one >= pixels) || PICTURE_SIZES[PICTURE_SIZES.length - 1];
    picture.alt = "";
    picture.draggable = false;
    const heads = row.values.length;
    // One head of the picture and its gap lie exactly over one cell and its gap.
    const scale = (this.cell + GAP) / (size + PICTURE_GAP);
    picture.style.width = `${(heads * (size + PICTURE_GAP) - PICTURE_GAP) * scale}px`;
    picture.style.height = `${size * scale}px`;
    const theme = this.ramp.dark ? "dark" : "light";
    const look = `size=${size}&palette=${this.ramp.name}&theme=${theme}`;
    picture.dataset.address = `${address(this.data.url)}/${row.layer}.png?${look}`;
    picture.addEventListener("load", () => this.pictureDone(picture));
    picture.addEventListener("error", () => {
      strip.classList.add("hg-missing");
      picture.remove();
      this.pictureDone(picture);
    });
    strip.append(picture);
    this.sight.observe(picture);
    return strip;
  }

  /** Rows in sight load two at a time: the large map's requests must find the way free. */
  pictureSeen(picture, seen) {
    if (picture.src) return;
    if (seen) this.waiting.add(picture);
    else this.waiting.delete(picture);
    this.loadPictures();
  }

  pictureDone(picture) {
    this.sight.unobserve(picture);
    this.loading.delete(picture);
    this.loadPictures();
  }

  loadPictures() {
    for (const picture of this.waiting) {
      if (this.loading.size >= PICTURES_AT_ONCE) return;
      this.waiting.delete(picture);
      this.loading.add(picture);
      picture.src = picture.dataset.address;
    }
  }

  valueStrip(row) {
    const canvas = document.createElement("canvas");
    const ratio = window.devicePixelRatio || 1;
    const step = this.cell + GAP;
    canvas.width = (row.values.length * step - GAP) * ratio;
    canvas.height = this.cell * ratio;
    const context = canvas.getContext("2d");
    context.scale(ratio, ratio);
    const tint = (share) => css(mix(this.background, this.text, share));
    const hatch = hatchPattern(context, { hidden: tint(0.1), hatch: tint(0.3) });
    row.values.forEach((value, head) => {
      context.fillStyle = value === null ? hatch : css(this.ramp.rgb[rampStep(value / this.top)]);
      context.fillRect(head * step, 0, this.cell, this.cell);
      context.strokeStyle = tint(0.14);
      context.strokeRect(head * step + 0.5, 0.5, this.cell - 1, this.cell - 1);
    });
    const strip = make("div", "");
    canvas.style.width = "100%";
    canvas.style.height = "100%";
    strip.append(canvas);
    return strip;
  }

  drawBar() {
    if (this.data.mode === "maps") {
      this.bar.replaceChildren(make("span", "", SMALL_MAPS));
      return;
    }
    const ramp = make("span", "hg-ramp");
    const shares = Array.from({ length: 17 }, (_, at) => at / 16);
    const stops = shares.map((share) => `${css(this.ramp.rgb[rampStep(share)])} ${share * 100}%`);
    ramp.style.background = `linear-gradient(to right, ${stops.join(",")})`;
    this.bar.replaceChildren(make("span", "", "0"), ramp, make("span", "", `${shortNumber(this.top)} ${this.data.unit}`));
  }

  mark() {
    for (const [name, cell] of [["selected", this.selected], ["hover", this.hover]]) {
      const box = (this[`${name}Box`] ||= make("div", `hg-mark hg-${name}`));
      const strip = cell && this.strips?.get(cell.layer);
      if (!strip) {
        box.remove();
        continue;
      }
      if (box.parentNode !== strip) strip.append(box);
      const side = `${this.cell}px`;
      Object.assign(box.style, { left: `${cell.head * (this.cell + GAP) - 2}px`, width: side, height: side });
    }
  }

  say() {
    const cell = this.hover || this.selected;
    if (!cell) return;
    const value = this.values.get(cell.layer)?.values[cell.head];
    const told = value === null || value === undefined ? "undefined here" : `${number(value, 4)} ${this.data.unit}`;
    this.readout.replaceChildren(make("strong", "", `${cell.layer}.${cell.head}`), ` ${this.data.measure}: ${told}`);
  }

  cellAt(event) {
    for (const [layer, strip] of this.strips) {
      const bounds = strip.getBoundingClientRect();
      if (event.clientY < bounds.top || event.clientY >= bounds.bottom + GAP) continue;
      const head = Math.floor((event.clientX - bounds.left) / (this.cell + GAP));
      return head >= 0 && head < this.values.get(layer).values.length ? { layer, head } : null;
    }
    return null;
  }

  pick(cell) {
    this.selected = cell;
    this.mark();
    this.reveal();
    this.say();
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.report("pick", cell), PICK_MS);
  }

  /** The next head in a direction, keeping inside the layer's own number of heads. */
  step(layers, heads) {
    const order = this.data.layers.map((row) => row.layer);
    const from = this.selected || { layer: order[0], head: 0 };
    const at = Math.min(Math.max(order.indexOf(from.layer) + layers, 0), order.length - 1);
    const most = this.values.get(order[at]).values.length - 1;
    this.pick({ layer: order[at], head: Math.min(Math.max(from.head + heads, 0), most) });
  }

  /** Scrolls the grid, and only the grid, until the selected head is in sight. */
  reveal() {
    const strip = this.selected && this.strips?.get(this.selected.layer);
    if (!strip) return;
    const [seen, row] = [this.scroll.getBoundingClientRect(), strip.getBoundingClientRect()];
    const above = seen.top + this.head.offsetHeight - row.top;
    const below = row.bottom - seen.top - this.scroll.clientHeight;
    if (above > 0) this.scroll.scrollTop -= above + this.cell;
    else if (below > 0) this.scroll.scrollTop += below + this.cell;
  }

  listen() {
    this.body.addEventListener("pointermove", (event) => {
      this.hover = this.cellAt(event);
      this.mark();
      this.say();
    });
    this.body.addEventListener("pointerleave", () => {
      this.hover = null;
      this.mark();
      this.say();
    });
    this.body.addEventListener("click", (event) => {
      const cell = this.cellAt(event);
      if (cell) this.pick(cell);
    });
    const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    // Arrows choose heads from anywhere on the page, unless something that uses arrows itself has the focus.
    this.onKey = (event) => {
      const step = steps[event.key];
      const inside = event.composedPath().includes(this.scroll);
      if (!step || event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
      if (!inside && !document.activeElement?.matches("body, #stMain")) return; // a click on the page focuses stMain
      event.preventDefault();
      this.step(...step);
    };
    document.addEventListener("keydown", this.onKey);
  }

  destroy() {
    clearTimeout(this.timer);
    this.watcher.disconnect();
    this.sight?.disconnect();
    document.removeEventListener("keydown", this.onKey);
    this.frame.remove();
  }
}

// ------------------------------------------------------------- Streamlit's side

const grids = new WeakMap(); // parent element -> HeadGrid

export default function ({ data, parentElement, setTriggerValue }) {
  let grid = grids.get(parentElement);
  if (!grid) {
    grid = new HeadGrid(parentElement);
    grids.set(parentElement, grid);
  }
  grid.update(data, setTriggerValue);
  return () => {
    grid.destroy();
    grids.delete(parentElement);
  };
}
