// All heads at a glance: layers down, heads across, or by the measure, largest first; each a small map, or one number as
// a colour. Heads below a chosen value are veiled, or left out of the order by value.
//
// Small maps come as one picture per layer, loaded when its row comes into sight. Numbers are drawn here.

const PICTURE_GAP = 2; // pixels between two heads in the picture of a layer
const PICTURE_SIZES = [32, 64, 128]; // they divide the stored pooled maps, so nothing is computed anew
const CELL = { least: 14, most: 60 };
const GAP = 2;
const PICTURES_AT_ONCE = 2;
const PICK_MS = 120;
const ARRANGE_MS = 250;
const SMALL_MAPS =
  "Small maps: colour is the square root of the weight over the largest of its own head. Grey: not visible.";
const WITHOUT_SINKS = "Darker grey: columns of sinks, in no colour.";
const MODES = [["maps", "Small maps"], ["values", "Measure"]];
// What may have the focus while arrows choose heads: nothing that has a use for arrows itself.
const WITHOUT_ARROWS = "body, #stMain, button:not([role=radio], [role=tab]), a, summary"; // a click on the page focuses stMain
const ORDERS = [["layers", "By layer"], ["value", "By value"]];

class HeadGrid {
  constructor(root) {
    this.root = root;
    this.selected = null;
    this.hover = null;
    this.reported = []; // arrangements on their way to the page
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
    this.found = make("div", "hg-found");
    this.frame.append(this.readout, this.controls(), this.found, this.scroll, this.bar);
    root.append(this.frame);
    this.listen();
    this.watcher = new ResizeObserver(() => this.layout());
    this.watcher.observe(this.frame);
    window.dispatchEvent(new Event("headwater-labels-wanted"));
  }

  /** How the heads are ordered, which of them count, and the button that keeps one beside the map. */
  controls() {
    const controls = make("div", "hg-controls");
    this.choices = [
      this.choice("Cells show", MODES, "mode"),
      this.choice("Order of the heads", ORDERS, "order"),
    ];
    this.pinButton = this.button("Pin", () => this.selected && this.report("pin", this.selected));
    this.least = make("input", "hg-least");
    Object.assign(this.least, { type: "range", min: 0, max: 100, step: 1, title: "Only heads with at least this value" });
    this.least.setAttribute("aria-label", "Only heads with at least this value");
    this.least.addEventListener("input", () => {
      const share = Number(this.least.value) / 100;
      const value = this.smallest + share * (this.largest - this.smallest);
      this.arrange({ least: share === 0 ? null : Number(value.toPrecision(3)) });
    });
    controls.append(...this.choices.map(({ element }) => element), this.pinButton, this.least);
    return controls;
  }

  choice(label, options, name) {
    const element = make("span", "hg-choice");
    element.setAttribute("role", "group");
    element.setAttribute("aria-label", label);
    const buttons = options.map(([value, text]) => [value, this.button(text, () => this.arrange({ [name]: value }))]);
    element.append(...buttons.map(([, button]) => button));
    const show = () => buttons.forEach(([value, button]) => button.setAttribute("aria-pressed", value === this.arranged[name]));
    return { element, show };
  }

  button(text, act) {
    const button = make("button", "hg-button", text);
    button.type = "button";
    button.addEventListener("click", act);
    return button;
  }

  arrange(change) {
    this.arranged = { ...this.arranged, ...change };
    this.layout();
    this.say();
    clearTimeout(this.arrangeTimer);
    this.arrangeTimer = setTimeout(() => {
      const { mode, order, least } = this.arranged;
      this.reported.push(JSON.stringify([mode, order, least]));
      this.report("arrange", this.arranged);
    }, ARRANGE_MS);
  }

  update(data, report) {
    this.report = report;
    this.data = data;
    const told = JSON.stringify([data.mode, data.order, data.least]);
    const echo = this.reported.indexOf(told); // an answer to an older choice does not undo a newer one
    if (echo >= 0) this.reported.splice(0, echo + 1);
    else if (told !== this.toldArranged) {
      this.reported = [];
      this.arranged = { mode: data.mode, order: data.order, least: data.least };
    }
    this.toldArranged = told;
    this.pinButton.hidden = data.pins === null;
    this.pins = new Set((data.pins ?? []).map(([layer, head]) => `${layer}.${head}`));
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
    this.low = Math.min(0, ...numbers);
    this.smallest = numbers.length ? Math.min(...numbers) : 0;
    this.largest = numbers.length ? Math.max(...numbers) : 1;
    const label = `All heads, layers down and heads across, by ${data.measure}. Arrows choose a head.`;
    this.scroll.setAttribute("aria-label", label);
    this.layout();
    if (news) this.reveal();
    this.say();
    this.takeBack ??= offerPicture(data.picture, () => gridPicture(this));
  }

  /** Size of a cell: as large as the room allows, between CELL.least and CELL.most. */
  layout() {
    if (!this.data) return;
    const room = this.scroll.clientWidth - (this.head.firstChild?.offsetWidth || 24) - 6;
    if (room <= 0) return;
    const widest = Math.max(...this.data.layers.map((row) => row.values.length));
    this.cell = Math.round(Math.max(CELL.least, Math.min(CELL.most, room / widest - GAP)));
    this.showControls();
    const { palette, measure, url, layers } = this.data;
    const { sinkFree, note } = this.data;
    const wanted = JSON.stringify([this.cell, palette, measure, url, this.background, layers, this.arranged, sinkFree, note]);
    if (wanted !== this.drawn) {
      this.drawn = wanted;
      this.draw(widest);
    }
    const tallest = window.innerWidth < 640 ? 0.35 * window.innerHeight : window.innerHeight - this.data.reserve;
    this.scroll.style.maxHeight = `${Math.max(160, tallest)}px`;
    this.mark();
  }

  showControls() {
    this.choices.forEach(({ show }) => show());
    const { least } = this.arranged;
    const room = this.largest - this.smallest || 1;
    const share = least === null ? 0 : Math.round((100 * (least - this.smallest)) / room);
    if (Number(this.least.value) !== share) this.least.value = share;
    const all = this.ranked();
    const kept = all.filter((one) => this.counts(one.value)).length;
    const said = least === null ? "all heads" : `${kept} of ${all.length} heads have at least ${shortNumber(least)}`;
    this.found.textContent = least === null ? "" : said;
    this.least.setAttribute("aria-valuetext", said);
  }

  /** Every head with its value, largest first, undefined ones last. */
  ranked() {
    const all = this.data.layers.flatMap(({ layer, values }) => values.map((value, head) => ({ layer, head, value })));
    return all.sort((a, b) => (b.value ?? -Infinity) - (a.value ?? -Infinity));
  }

  counts(value) {
    return this.arranged.least === null || (value !== null && value >= this.arranged.least);
  }

  draw(widest) {
    this.byValue = this.arranged.order === "value";
    this.cells = new Map(); // "layer.head" -> its element, where heads are ordered by value
    this.across = widest;
    const step = this.cell + GAP;
    const every = step >= 22 || widest < 10 ? 1 : widest < 24 ? 2 : 4;
    this.head.replaceChildren(make("span", "hg-label", ""));
    for (let head = 0; head < widest; head++) {
      const name = make("span", "hg-number", head % every === 0 && !this.byValue ? String(head) : "");
      name.style.width = `${step}px`;
      this.head.append(name);
    }
    this.strips = new Map();
    this.waiting = new Set();
    this.loading = new Set();
    this.sight?.disconnect();
    const seen = (entries) => entries.forEach((one) => this.pictureSeen(one.target, one.isIntersecting));
    this.sight = new IntersectionObserver(seen, { rootMargin: "120px" });
    this.body.replaceChildren(...(this.byValue ? this.rankedRows() : this.data.layers.map((row) => this.row(row))));
    this.drawBar();
  }

  /** Rows of single heads, largest value first; before each row the place of its first head. */
  rankedRows() {
    this.order = this.ranked().filter((one) => this.counts(one.value));
    const rows = [];
    for (let start = 0; start < this.order.length; start += this.across) {
      const element = make("div", "hg-row");
      element.style.marginBottom = `${GAP}px`;
      const cells = this.order.slice(start, start + this.across).map((one) => this.single(one));
      element.append(make("span", "hg-label", String(start + 1)), ...cells);
      rows.push(element);
    }
    return rows;
  }

  single(one) {
    const row = { layer: one.layer, values: [one.value], heads: this.values.get(one.layer).values.length, head: one.head };
    const cell = this.arranged.mode === "maps" ? this.pictureStrip(row) : this.valueStrip(row);
    cell.classList.add("hg-single");
    cell.dataset.layer = one.layer;
    cell.dataset.head = one.head;
    Object.assign(cell.style, { width: `${this.cell}px`, height: `${this.cell}px`, marginRight: `${GAP}px` });
    this.cells.set(`${one.layer}.${one.head}`, cell);
    return cell;
  }

  row(row) {
    const element = make("div", "hg-row");
    const strip = this.arranged.mode === "maps" ? this.pictureStrip(row) : this.valueStrip(row);
    strip.classList.add("hg-strip");
    strip.style.width = `${row.values.length * (this.cell + GAP) - GAP}px`;
    strip.style.height = `${this.cell}px`;
    element.append(make("span", "hg-label", String(row.layer)), strip);
    element.style.marginBottom = `${GAP}px`;
    this.strips.set(row.layer, strip);
    row.values.forEach((value, head) => {
      if (this.counts(value)) return;
      const veil = make("div", "hg-veil");
      veil.style.left = `${head * (this.cell + GAP)}px`;
      veil.style.width = `${this.cell}px`;
      strip.append(veil);
    });
    return element;
  }

  pictureStrip(row) {
    const strip = make("div", "");
    const picture = make("img", "hg-picture");
    const pixels = this.cell * (window.devicePixelRatio || 1);
    const size = PICTURE_SIZES.find((one) => one >= pixels) || PICTURE_SIZES[PICTURE_SIZES.length - 1];
    picture.alt = "";
    picture.draggable = false;
    const heads = row.heads ?? row.values.length;
    // One head of the picture and its gap lie exactly over one cell and its gap.
    const scale = (this.cell + GAP) / (size + PICTURE_GAP);
    picture.style.width = `${(heads * (size + PICTURE_GAP) - PICTURE_GAP) * scale}px`;
    picture.style.height = `${size * scale}px`;
    picture.style.left = `${-(row.head ?? 0) * (this.cell + GAP)}px`;
    const theme = this.ramp.dark ? "dark" : "light";
    const sinks = this.data.sinkFree ? "&sinks=hide" : "";
    const look = `size=${size}&palette=${this.ramp.name}&theme=${theme}${sinks}`;
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
      const share = (value - this.low) / (this.top - this.low);
      context.fillStyle = value === null ? hatch : css(this.ramp.rgb[rampStep(share)]);
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
    const { note, sinkFree } = this.data;
    if (this.arranged.mode === "maps") {
      this.bar.replaceChildren(make("span", "", [SMALL_MAPS, sinkFree ? WITHOUT_SINKS : "", note].filter(Boolean).join(" ")));
      return;
    }
    const ramp = make("span", "hg-ramp");
    const shares = Array.from({ length: 17 }, (_, at) => at / 16);
    const stops = shares.map((share) => `${css(this.ramp.rgb[rampStep(share)])} ${share * 100}%`);
    ramp.style.background = `linear-gradient(to right, ${stops.join(",")})`;
    const ends = [signed(this.low, shortNumber), `${shortNumber(this.top)} ${this.data.unit}`].map((end) => make("span", "", end));
    this.bar.replaceChildren(ends[0], ramp, ends[1], ...(note ? [make("span", "", note)] : []));
  }

  /** The element a head is drawn in, and where in it. */
  placeOf({ layer, head }) {
    if (this.byValue) return { parent: this.cells?.get(`${layer}.${head}`), left: 0 };
    return { parent: this.strips?.get(layer), left: head * (this.cell + GAP) };
  }

  mark() {
    for (const [name, cell] of [["selected", this.selected], ["hover", this.hover]]) {
      const box = (this[`${name}Box`] ||= make("div", `hg-mark hg-${name}`));
      const { parent, left } = cell ? this.placeOf(cell) : {};
      if (!parent) {
        box.remove();
        continue;
      }
      if (box.parentNode !== parent) parent.append(box);
      const side = `${this.cell}px`;
      Object.assign(box.style, { left: `${left - 2}px`, width: side, height: side });
    }
    (this.pinMarks ||= []).forEach((mark) => mark.remove());
    this.pinMarks = (this.data.pins ?? []).flatMap(([layer, head]) => {
      const { parent, left } = this.placeOf({ layer, head });
      if (!parent) return [];
      const mark = make("div", "hg-pin");
      mark.style.left = `${left}px`;
      parent.append(mark);
      return [mark];
    });
    const pinned = this.selected && this.pins.has(`${this.selected.layer}.${this.selected.head}`);
    this.pinButton.setAttribute("aria-pressed", pinned === true);
    this.pinButton.title = pinned ? "Take this head away from those beside the map" : "Keep this head beside the map";
  }

  say() {
    const cell = this.hover || this.selected;
    if (!cell) return;
    const value = this.values.get(cell.layer)?.values[cell.head];
    const told = value === null || value === undefined ? "undefined here" : `${number(value, 4)} ${this.data.unit}`;
    const name = `${cell.layer}.${cell.head}`;
    const labels = this.told?.url === this.data.url ? this.told.labels : null; // they come later than the grid
    const said = labels ? ` · ${labels[name] ?? "no label"}` : "";
    this.readout.replaceChildren(make("strong", "", name), ` ${this.data.measure}: ${told}${said}`);
  }

  cellAt(event) {
    if (this.byValue) {
      const cell = event.target.closest(".hg-single");
      return cell && { layer: Number(cell.dataset.layer), head: Number(cell.dataset.head) };
    }
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
    // The large map does not wait for the page: it is told at once, and the page's answer finds it there.
    const head = { url: this.data.url, layer: cell.layer, head: cell.head };
    window.dispatchEvent(new CustomEvent("headwater-head", { detail: head }));
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.report("pick", cell), PICK_MS);
  }

  /** The next head in a direction, keeping inside the layer's own number of heads. */
  step(layers, heads) {
    if (this.byValue) {
      const from = this.order.findIndex((one) => one.layer === this.selected?.layer && one.head === this.selected?.head);
      const next = this.order[Math.min(Math.max(from + layers * this.across + heads, 0), this.order.length - 1)];
      if (next) this.pick({ layer: next.layer, head: next.head });
      return;
    }
    const order = this.data.layers.map((row) => row.layer);
    const from = this.selected || { layer: order[0], head: 0 };
    const at = Math.min(Math.max(order.indexOf(from.layer) + layers, 0), order.length - 1);
    const most = this.values.get(order[at]).values.length - 1;
    this.pick({ layer: order[at], head: Math.min(Math.max(from.head + heads, 0), most) });
  }

  /** Scrolls the grid, and only the grid, until the selected head is in sight. */
  reveal() {
    const strip = this.selected && this.placeOf(this.selected).parent;
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
      if (cell && event.shiftKey && this.data.pins) this.report("pin", cell);
      else if (cell) this.pick(cell);
    });
    this.onLabels = ({ detail }) => {
      this.told = detail;
      if (this.data) this.say();
    };
    window.addEventListener("headwater-labels", this.onLabels);
    const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    // Arrows choose heads from anywhere on the page, unless something that uses arrows itself has the focus.
    this.onKey = (event) => {
      const step = steps[event.key];
      const path = event.composedPath();
      const inside = path.includes(this.scroll) || path.some((one) => one.classList?.contains("hw-over")); // a map that is whole
      if (!step || event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
      if (!inside && !path[0]?.matches?.(WITHOUT_ARROWS)) return;
      event.preventDefault();
      this.step(...step);
    };
    document.addEventListener("keydown", this.onKey);
  }

  destroy() {
    clearTimeout(this.timer);
    clearTimeout(this.arrangeTimer);
    this.watcher.disconnect();
    this.sight?.disconnect();
    document.removeEventListener("keydown", this.onKey);
    window.removeEventListener("headwater-labels", this.onLabels);
    this.takeBack?.();
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
