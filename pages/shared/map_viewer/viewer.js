// The map viewer: one canvas that behaves like an online map, a readout, and the text beside it.
//
// State: `view` = [first row, last row, first key, last key] in cells, fractions allowed; `focus` = the cell under the
// pointer, else the picked one, else the last row. The page gives data with update(); the viewer reports what the
// person did through `report(name, value)`.

const LEAST_SPAN = 3; // cells
const REPORT_MS = 450;
const PROFILE_MS = 50;
const SETTLE_MS = 80;
const CLICK_PIXELS = 4;
const SCALES = [["root", "Root"], ["linear", "Linear"], ["log", "Log"], ["row", "Per row"]];
const HOWS = [["mean", "Mean"], ["max", "Max"]];

class MapViewer {
  constructor(root) {
    this.root = root;
    this.hover = null;
    this.pinned = null;
    this.view = null;
    this.rowTops = new RowTops();
    this.timers = {};
    this.reported = {}; // name -> values on their way to the page
    this.store = new TileStore((path) => this.arrived(path), (reason) => this.say(`The map could not be loaded: ${reason}. Move the map to try again.`));
    this.profiles = new TileStore(() => this.showFocus(), (reason) => this.say(`The row could not be loaded: ${reason}.`));
    this.build();
    this.listen();
    this.watcher = new ResizeObserver(() => this.layout());
    this.watcher.observe(this.frame);
  }

  // ---------------------------------------------------------------- building

  build() {
    this.frame = make("div", "hw-viewer");
    this.bar = make("div", "hw-bar");
    this.scaleButtons = this.choice("Colour", SCALES, (value) => this.setLook({ scale: value }));
    this.howButtons = this.choice("From afar", HOWS, (value) => this.setLook({ how: value }));
    this.sinkButton = this.button("Hide sinks", () => this.setLook({ hide: !this.look.hide }));
    const zoom = make("div", "hw-zoom");
    zoom.append(
      this.button("−", () => this.zoomAt(2), "Zoom out"),
      this.button("+", () => this.zoomAt(0.5), "Zoom in"),
      this.button("All", () => this.setView(this.whole()), "Show the whole map"),
    );
    this.bar.append(this.scaleButtons.element, this.howButtons.element, this.sinkButton);
    this.box = make("div", "hw-map");
    this.base = make("canvas", "hw-canvas");
    this.over = make("canvas", "hw-canvas hw-over");
    this.over.tabIndex = 0;
    this.over.setAttribute("role", "application");
    this.over.setAttribute("aria-roledescription", "zoomable map");
    this.box.append(this.base, this.over, zoom);
    this.readout = make("div", "hw-readout");
    this.readout.setAttribute("role", "status");
    this.readout.setAttribute("aria-live", "polite");
    this.note = make("div", "hw-note");
    this.text = new TextPanel((index) => this.pointText(index), (index) => this.pickText(index));
    this.directions = this.choice("Attention", [["from", "from token"], ["to", "to token"]], (value) => this.setLook({ direction: value }));
    this.sentence = make("div", "hw-sentence");
    const left = make("div", "hw-left");
    left.append(this.bar, this.box, this.readout, this.note);
    const right = make("div", "hw-right");
    right.append(this.directions.element, this.sentence, this.text.element);
    this.frame.append(left, right);
    this.root.append(this.frame);
  }

  button(label, action, title) {
    const button = make("button", "hw-button", label);
    button.type = "button";
    if (title) {
      button.title = title;
      button.setAttribute("aria-label", title);
    }
    button.addEventListener("click", action);
    return button;
  }

  choice(label, options, choose) {
    const element = make("div", "hw-choice");
    element.setAttribute("role", "group");
    element.setAttribute("aria-label", label);
    element.append(make("span", "hw-choice-label", label));
    const buttons = options.map(([value, text]) => [value, this.button(text, () => choose(value))]);
    buttons.forEach(([, button]) => element.append(button));
    const show = (chosen) => buttons.forEach(([value, button]) => button.setAttribute("aria-pressed", value === chosen));
    return { element, show };
  }

  // ------------------------------------------------- what the page wants shown

  update(data, report) {
    this.report = report;
    const before = this.data;
    this.data = data;
    this.sinks = new Set(data.sinks);
    this.takeTokens(data);
    const sameShape = before && String(before.shape) === String(data.shape);
    this.look = this.merge("look", data.look);
    this.source = new MapSource(address(data.map), data.shape[0], data.shape[1], data.exact, this.look.how);
    this.takeWindow(data.window, sameShape);
    if (!sameShape) this.hover = null;
    this.takeCell(data.cell);
    this.over.setAttribute("aria-label", `Attention map of ${data.name}: ${data.shape[0]} queries down, ${data.shape[1]} keys across. `
      + "Arrows move the window, with Shift the marked cell; plus and minus zoom, Home shows all.");
    this.readTheme();
    this.showControls();
    this.layout();
    this.refresh();
    this.showFocus();
  }

  /** Labels come from the analysis' token table, fetched once; until they are here, positions stand for them. */
  takeTokens(data) {
    const wanted = JSON.stringify([data.tokens, data.sides, data.segments]);
    if (this.tokensKey === wanted) return;
    this.tokensKey = wanted;
    const [query, key] = data.sides.map((side, axis) => new Tokens(side, data.shape[axis], data.segments));
    this.tokens = { query, key: data.sides[0] === data.sides[1] ? query : key };
    tokenRows(address(data.tokens)).then((rows) => {
      if (this.tokensKey !== wanted) return;
      new Set([this.tokens.query, this.tokens.key]).forEach((side) => side.fill(rows));
      this.text.tokens = null; // drawn anew with the labels
      this.showControls();
      this.draw();
      this.showFocus();
    }, (error) => this.say(`The tokens could not be loaded: ${error.message}. Reload the page.`));
  }

  /** The page echoes what the viewer reported; only a value that is news to both sides is taken from the page. */
  merge(name, given) {
    const key = JSON.stringify(given);
    const pending = (this.reported[name] ||= []);
    const at = pending.indexOf(key);
    if (at >= 0) pending.splice(0, at + 1);
    else if (this.reported[`${name} given`] !== key || this[name] === undefined) {
      pending.length = 0;
      this.reported[`${name} given`] = key;
      return given;
    }
    this.reported[`${name} given`] = key;
    return this[name];
  }

  takeWindow(given, sameShape) {
    if (!sameShape) {
      this.window = undefined;
      this.reported.window = [];
    }
    const window = this.merge("window", given);
    if (window !== this.window || !this.view) {
      this.window = window;
      const [rows, columns] = [window?.rows || [0, this.source.rows], window?.columns || [0, this.source.columns]];
      this.view = this.clamp([...rows, ...columns]);
    }
  }

  takeCell(given) {
    const cell = this.merge("cell", given);
    this.cell = cell;
    const inside = cell && (cell.query === null || cell.query < this.source.rows) && (cell.key === null || cell.key < this.source.columns);
    this.pinned = inside ? { row: cell.query, column: cell.key } : null;
  }

  tell(name, value, wait = REPORT_MS) {
    clearTimeout(this.timers[name]);
    this.timers[name] = setTimeout(() => {
      const key = JSON.stringify(value);
      const pending = (this.reported[name] ||= []);
      const known = pending.length ? pending[pending.length - 1] : this.reported[`${name} given`];
      if (known === key) return;
      pending.push(key);
      this.report(name, value);
    }, wait);
  }

  setLook(change) {
    this.look = { ...this.look, ...change };
    if (change.how) this.source = new MapSource(address(this.data.map), ...this.data.shape, this.data.exact, this.look.how);
    this.tell("look", this.look, 150);
    this.showControls();
    this.refresh();
    this.showFocus();
  }

  showControls() {
    this.scaleButtons.show(this.look.scale);
    this.howButtons.show(this.look.how);
    this.directions.show(this.look.direction);
    this.sinkButton.setAttribute("aria-pressed", this.look.hide);
    this.sinkButton.disabled = this.sinks.size === 0;
    this.sinkButton.title = this.sinks.size ? "Leaves the sink columns out of colour and scale" : "This head has no sink column";
    const names = [...this.sinks].slice(0, 4).map((key) => this.tokens.key.name(key)).join(", ");
    const notes = [];
    if (this.data.note) notes.push(this.data.note);
    if (this.hidden().length) {
      notes.push(`Hidden from colour and scale: ${this.sinks.size === 1 ? "sink key" : `${this.sinks.size} sink keys`} ${names}. Numbers on hover are unchanged.`);
    }
    this.note.textContent = notes.join(" ");
  }

  hidden() {
    return this.look.hide ? [...this.sinks] : [];
  }

  readTheme() {
    const style = getComputedStyle(this.frame);
    const read = (name, otherwise) => style.getPropertyValue(name).trim() || otherwise;
    const background = toRgb(read("--st-background-color", "#ffffff"));
    const text = toRgb(read("--st-text-color", "#31333f"));
    this.theme = {
      text: css(text),
      line: css(mix(background, text, 0.45)),
      grid: css(mix(background, text, 0.12)),
      hidden: css(mix(background, text, 0.1)),
      hatch: css(mix(background, text, 0.24)),
      hiddenKey: css(mix(background, text, 0.38)),
      background: css(background),
      sink: this.data.sinkColour,
    };
    this.ramp = makeRamp(this.data.palette, background);
    this.frame.classList.toggle("hw-large", this.data.large === true);
  }

  // ---------------------------------------------------------------- geometry

  layout() {
    if (!this.data) return;
    const room = this.frame.clientWidth;
    if (room === 0) return;
    const beside = room >= 600;
    this.frame.classList.toggle("hw-stacked", !beside);
    const tallest = Math.max(200, window.innerHeight - this.data.reserve);
    const widest = (beside ? room * 0.68 : room) - MARGIN.left - MARGIN.right;
    const side = Math.floor(Math.max(180, Math.min(tallest, widest)));
    const [width, height] = [side + MARGIN.left + MARGIN.right, side + MARGIN.top + MARGIN.bottom];
    this.plot = { x: MARGIN.left, y: MARGIN.top, width: side, height: side };
    this.box.style.width = `${width}px`;
    this.box.style.height = `${height}px`;
    this.frame.style.setProperty("--hw-map-width", `${width}px`);
    this.frame.style.setProperty("--hw-map-height", `${height}px`);
    const ratio = window.devicePixelRatio || 1;
    for (const canvas of [this.base, this.over]) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
      canvas.getContext("2d").setTransform(ratio, 0, 0, ratio, 0, 0);
    }
    this.refresh();
  }

  whole() {
    return [0, this.source.rows, 0, this.source.columns];
  }

  isWhole() {
    const all = this.whole();
    return this.view.every((edge, i) => Math.abs(edge - all[i]) < 1e-6);
  }

  clamp(view) {
    const axis = (a, b, size) => {
      const span = Math.min(Math.max(b - a, Math.min(LEAST_SPAN, size)), size);
      const start = Math.min(Math.max((a + b - span) / 2, 0), size - span);
      return [start, start + span];
    };
    return [...axis(view[0], view[1], this.source.rows), ...axis(view[2], view[3], this.source.columns)];
  }

  setView(view) {
    const next = this.clamp(view);
    if (next.every((edge, i) => edge === this.view[i])) return;
    this.view = next;
    const rows = [Math.floor(next[0] + 1e-6), Math.ceil(next[1] - 1e-6)];
    const columns = [Math.floor(next[2] + 1e-6), Math.ceil(next[3] - 1e-6)];
    this.window = this.isWhole() ? null : { rows, columns };
    this.tell("window", this.window);
    this.refresh();
  }

  /** Zooms by `factor` of the span, keeping the cell at (x, y) of the canvas where it is. */
  zoomAt(factor, x = this.plot.x + this.plot.width / 2, y = this.plot.y + this.plot.height / 2) {
    const [r0, r1, c0, c1] = this.view;
    const at = this.cellAt(x, y);
    const limit = (span, size) => Math.min(Math.max(span * factor, Math.min(LEAST_SPAN, size)), size) / span;
    const [down, across] = [limit(r1 - r0, this.source.rows), limit(c1 - c0, this.source.columns)];
    this.setView([at.y - (at.y - r0) * down, at.y + (r1 - at.y) * down, at.x - (at.x - c0) * across, at.x + (c1 - at.x) * across]);
  }

  move(rows, columns) {
    const [r0, r1, c0, c1] = this.view;
    this.setView([r0 + rows, r1 + rows, c0 + columns, c1 + columns]);
  }

  cellAt(x, y) {
    const [r0, r1, c0, c1] = this.view;
    return {
      x: c0 + ((x - this.plot.x) / this.plot.width) * (c1 - c0),
      y: r0 + ((y - this.plot.y) / this.plot.height) * (r1 - r0),
    };
  }

  place() {
    const [r0, r1, c0, c1] = this.view;
    const { x, y, width, height } = this.plot;
    return {
      x: (key) => x + ((key - c0) / (c1 - c0)) * width,
      y: (row) => y + ((row - r0) / (r1 - r0)) * height,
    };
  }

  // ------------------------------------------------------------------- tiles

  /** Asks for what the window needs, and draws what is there. */
  refresh() {
    if (!this.plot || !this.view) return;
    const [r0, r1, c0, c1] = this.view;
    const level = this.source.level(Math.max(r1 - r0, c1 - c0), this.plot.width);
    const overview = this.source.overview;
    const whole = this.store.get(overview.path);
    this.level = level;
    const tiles = level === null ? [] : this.source.tiles(level, this.view);
    // The overview tells which tiles have anything visible. A whole map waits for it; a window from a link does not.
    this.needed = whole ? tiles.filter((tile) => this.anyVisible(whole, tile.box)) : this.isWhole() ? [] : tiles;
    this.store.want([overview.path, ...this.needed.map((tile) => tile.path)]);
    this.draw();
    clearTimeout(this.timers.settle);
    this.timers.settle = setTimeout(() => this.settle(), SETTLE_MS);
  }

  /** Whether the overview has a visible block in the box; tiles without one need not be fetched. */
  anyVisible(overview, [r0, r1, c0, c1]) {
    const rows = [r0, r1 - 1].map((row) => blockOf(row, this.source.rows, overview.height));
    const columns = [c0, c1 - 1].map((key) => blockOf(key, this.source.columns, overview.width));
    for (let p = rows[0]; p <= rows[1]; p++) {
      for (let q = columns[0]; q <= columns[1]; q++) if (overview.visible[p * overview.width + q]) return true;
    }
    return false;
  }

  arrived(path) {
    if (path === this.source.overview.path) this.refresh();
    else this.draw();
    clearTimeout(this.timers.settle);
    this.timers.settle = setTimeout(() => this.settle(), SETTLE_MS);
    this.showFocus();
  }

  /** The tiles to draw, coarse to fine. */
  layers() {
    const found = [this.store.kept.get(this.source.overview.path)];
    for (let level = Math.min((this.level ?? -1) + 2, 12); this.level !== null && level >= this.level; level--) {
      for (const tile of this.source.tiles(level, this.view)) found.push(this.store.get(tile.path));
    }
    return found.filter(Boolean);
  }

  /** The tiles that the scale is made of: those of the level on show, or the overview. */
  shown() {
    const fine = this.needed.map((tile) => this.store.kept.get(tile.path)).filter(Boolean);
    if (fine.length) return fine;
    return [this.store.kept.get(this.source.overview.path)].filter(Boolean);
  }

  /** Once the person pauses: the scale that fits what is on show. */
  settle() {
    const tiles = this.shown();
    if (!tiles.length) return;
    const hidden = this.hidden();
    const { low, high } = weightRange(tiles, this.view, hidden);
    this.range = { low, high: niceCeiling(high) };
    this.rowTops = this.look.scale === "row" ? new RowTops(tiles, this.view, hidden, this.rowTops.version + 1) : new RowTops([], null, [], this.rowTops.version);
    this.draw();
    this.showFocus();
  }

  // ----------------------------------------------------------------- drawing

  draw() {
    if (this.frameRequest) return;
    this.frameRequest = requestAnimationFrame(() => {
      this.frameRequest = null;
      this.drawNow();
      this.drawOver();
    });
  }

  drawNow() {
    const { plot, view, theme } = this;
    const context = this.base.getContext("2d");
    const range = this.range || { low: 1e-4, high: 1 };
    const paint = new Paint(this.ramp, makeScale(this.look.scale, range.low, range.high), this.hidden(), this.rowTops, theme);
    const place = this.place();
    const layers = this.layers();
    context.clearRect(0, 0, this.base.width, this.base.height);
    context.save();
    context.beginPath();
    context.rect(plot.x, plot.y, plot.width, plot.height);
    context.clip();
    const hatch = hatchPattern(context, theme);
    for (const tile of layers) drawTile(context, place, tile, paint, hatch);
    this.drawGrid(context, place);
    drawNumbers(context, place, view, layers.slice().reverse(), paint);
    context.restore();
    drawAxes(context, plot, view, this.tokens, theme);
    drawBands(context, plot, view, this.tokens);
    drawHiddenMarks(context, plot, view, paint.hidden, theme);
    drawColourBar(context, plot, paint.scale, this.ramp, theme);
    this.paint = paint;
    this.frame.dataset.state = this.store.busy ? "loading" : layers.length ? "ready" : "failed";
    this.frame.dataset.level = this.source.small ? 0 : (this.level ?? "overview");
  }

  drawGrid(context, place) {
    const [r0, r1, c0, c1] = this.view;
    context.strokeStyle = this.theme.grid;
    if (place.x(1) - place.x(0) >= 10) for (let key = Math.ceil(c0); key < c1; key++) tick(context, place.x(key), this.plot.y, place.x(key), this.plot.y + this.plot.height);
    if (place.y(1) - place.y(0) >= 10) for (let row = Math.ceil(r0); row < r1; row++) tick(context, this.plot.x, place.y(row), this.plot.x + this.plot.width, place.y(row));
  }

  /** Guides, the marked cell, the box being drawn and the minimap: what changes while the pointer moves. */
  drawOver() {
    const context = this.over.getContext("2d");
    context.clearRect(0, 0, this.over.width, this.over.height);
    context.save();
    context.beginPath();
    context.rect(this.plot.x, this.plot.y, this.plot.width, this.plot.height);
    context.clip();
    const place = this.place();
    context.strokeStyle = SELECTED;
    if (this.pinned) this.drawGuides(context, place, this.pinned, [4, 3]);
    if (this.hover) this.drawGuides(context, place, this.hover, []);
    if (this.drag?.box) {
      const { x0, y0, x1, y1 } = this.drag.box;
      context.setLineDash([]);
      context.strokeRect(Math.min(x0, x1), Math.min(y0, y1), Math.abs(x1 - x0), Math.abs(y1 - y0));
    }
    context.restore();
    this.drawFocusLabels(context, place);
    this.drawMinimap(context);
  }

  drawGuides(context, place, { row, column }, dash) {
    const { x, y, width, height } = this.plot;
    context.setLineDash(dash);
    context.lineWidth = 1;
    if (row !== null) context.strokeRect(x - 2, place.y(row), width + 4, Math.max(place.y(row + 1) - place.y(row), 1));
    if (column !== null) context.strokeRect(place.x(column), y - 2, Math.max(place.x(column + 1) - place.x(column), 1), height + 4);
  }

  drawFocusLabels(context, place) {
    const { row, column } = this.hover || this.pinned || {};
    context.font = LABEL_FONT;
    context.textBaseline = "middle";
    const flag = (text, x, y, align) => {
      const width = context.measureText(text).width + 8;
      context.fillStyle = SELECTED;
      context.fillRect(align === "right" ? x - width : x, y - 8, width, 16);
      context.fillStyle = "#000000";
      context.textAlign = align;
      context.fillText(text, align === "right" ? x - 4 : x + 4, y);
    };
    const [r0, r1, c0, c1] = this.view;
    if (row !== null && row !== undefined && row >= Math.floor(r0) && row < r1) {
      const at = Math.min(Math.max(place.y(row + 0.5), this.plot.y), this.plot.y + this.plot.height);
      flag(fitText(context, `${row} ${this.tokens.query.label(row)}`, this.plot.x - 16), this.plot.x - BAND - 3, at, "right");
    }
    if (column !== null && column !== undefined && column >= Math.floor(c0) && column < c1) {
      const text = fitText(context, `${column} ${this.tokens.key.label(column)}`, this.plot.width / 2);
      const at = Math.min(Math.max(place.x(column + 0.5), this.plot.x), this.plot.x + this.plot.width);
      flag(text, Math.min(at - 8, this.plot.x + this.plot.width - context.measureText(text).width - 8), this.plot.y - BAND - 10, "left");
    }
  }

  minimapBox() {
    if (this.isWhole()) return null;
    const side = Math.round(this.plot.width * 0.2);
    return { x: this.plot.x + this.plot.width - side - 4, y: this.plot.y + 4, side };
  }

  drawMinimap(context) {
    const box = this.minimapBox();
    const overview = this.store.kept.get(this.source.overview.path);
    if (!box || !overview) return;
    if (!overview.mini || overview.miniKey !== this.ramp.name + this.ramp.background + this.look.hide) {
      const { low, high } = weightRange([overview], this.whole(), this.hidden());
      const paint = new Paint(this.ramp, makeScale("root", low, high), this.hidden(), new RowTops(), this.theme);
      const copy = { ...overview, picture: null };
      overview.mini = tilePicture(copy, paint);
      overview.miniKey = this.ramp.name + this.ramp.background + this.look.hide;
    }
    context.fillStyle = this.theme.hidden;
    context.fillRect(box.x, box.y, box.side, box.side);
    context.drawImage(overview.mini, box.x, box.y, box.side, box.side);
    context.strokeStyle = this.theme.text;
    context.strokeRect(box.x - 0.5, box.y - 0.5, box.side + 1, box.side + 1);
    const [r0, r1, c0, c1] = this.view;
    const [down, across] = [box.side / this.source.rows, box.side / this.source.columns];
    context.strokeStyle = SELECTED;
    context.lineWidth = 2;
    context.strokeRect(box.x + c0 * across, box.y + r0 * down, Math.max((c1 - c0) * across, 3), Math.max((r1 - r0) * down, 3));
    context.lineWidth = 1;
  }

  // ------------------------------------------------------------------- focus

  focus() {
    const fallback = { row: this.source.rows - 1, column: 0 };
    const chosen = this.hover || this.pinned || fallback;
    return { row: chosen.row ?? fallback.row, column: chosen.column ?? fallback.column };
  }

  setHover(cell) {
    const same = JSON.stringify(cell) === JSON.stringify(this.hover);
    if (same) return;
    this.hover = cell;
    this.drawOver();
    clearTimeout(this.timers.profile);
    this.timers.profile = setTimeout(() => this.showFocus(), PROFILE_MS);
    this.readout.textContent = this.describe();
  }

  /** Fetches the row or column in question and shows it: readout, text, sentence. */
  showFocus() {
    if (!this.data || !this.plot) return;
    const focus = this.focus();
    const from = this.look.direction === "from";
    const paths = this.source.exact ? [this.source.rowPath(focus.row), ...(from ? [] : [this.source.columnPath(focus.column)])] : [];
    const missing = paths.filter((path) => !this.profiles.get(path));
    if (missing.length) this.profiles.want(missing.reverse());
    this.readout.textContent = this.describe();
    this.showText(focus, from);
  }

  /** The whole row (or column) as {values, visible} over single tokens, exact where the head is, or null. */
  profile(index, isRow) {
    if (this.source.exact) return this.profiles.get(isRow ? this.source.rowPath(index) : this.source.columnPath(index)) || null;
    const overview = this.store.get(this.source.overview.path);
    if (!overview) return null;
    const size = isRow ? this.source.columns : this.source.rows;
    const cells = Array.from({ length: size }, (_, at) => (isRow ? readTile(overview, index, at) : readTile(overview, at, index)));
    return { values: cells.map((cell) => cell.value), visible: cells.map((cell) => (cell.visible ? 1 : 0)) };
  }

  showText(focus, from) {
    const index = from ? focus.row : focus.column;
    const tokens = from ? this.tokens.key : this.tokens.query;
    const own = (from ? this.tokens.query : this.tokens.key).name(index);
    this.text.show(tokens, index);
    const profile = this.profile(index, from);
    if (!profile) return;
    const leftOut = from ? new Set(this.hidden()) : new Set();
    const best = strongest(profile, 3, leftOut);
    const top = best.length ? profile.values[best[0]] : 1;
    const scale = makeScale(this.look.scale === "row" ? "linear" : this.look.scale, top / 1e3, top);
    this.text.paint(Array.from(profile.visible, (seen, at) => {
      if (!seen) return null;
      if (leftOut.has(at)) return { background: this.theme.hiddenKey, ink: this.theme.text };
      if (!Number.isFinite(profile.values[at])) return { background: Number.isNaN(profile.values[at]) ? NOT_A_NUMBER : INFINITE, ink: "#000000" };
      const rgb = this.ramp.rgb[rampStep(scale.share(profile.values[at]))];
      return { background: css(rgb), ink: luminance(rgb) > 0.55 ? "#111111" : "#ffffff" };
    }));
    this.text.mark(tokens === this.tokens.query || tokens === this.tokens.key && this.tokens.key === this.tokens.query ? index : -1);
    const list = best.map((at) => `${tokens.name(at)} ${number(profile.values[at], 3)}`).join(" · ");
    const named = from ? `From query ${own}` : `To key ${own}`;
    const said = from && this.source.exact ? `${rowSentence(profile, index, this.tokens)} ` : "";
    this.sentence.replaceChildren(make("strong", "", `${named}:`), ` ${said}`, make("span", "hw-list", best.length ? `Strongest: ${list}` : "Nothing is visible here."));
  }

  /** What is under the pointer, in words. */
  describe() {
    const cell = this.hover || this.pinned;
    if (!cell || (cell.row === null && cell.column === null)) return "Point at the map: query token → key token, weight, rank and what uniform attention would give.";
    if (cell.row === null) return `key ${this.fullName("key", cell.column)}`;
    if (cell.column === null) return `query ${this.fullName("query", cell.row)}`;
    const read = readTiles(this.layers().reverse(), cell.row, cell.column);
    const row = this.source.exact ? this.profiles.kept.get(this.source.rowPath(cell.row)) : null;
    const exact = row ? { value: row.values[cell.column], visible: row.visible[cell.column] === 1, rows: [0, 1], columns: [0, 1] } : read;
    const where = `query ${this.tokens.query.name(cell.row)} → key ${this.tokens.key.name(cell.column)}`;
    if (!exact) return `${where} · loading`;
    const pooled = exact.rows[1] - exact.rows[0] > 1 || exact.columns[1] - exact.columns[0] > 1;
    if (!exact.visible) return pooled ? `${where} · no cell of this block is visible` : `${where} · not visible: this query may not see this key (not a zero)`;
    if (pooled) {
      const [rows, columns] = [exact.rows, exact.columns].map(([a, b]) => (b - a > 1 ? `${a}–${b - 1}` : `${a}`));
      return `queries ${rows} → keys ${columns} · ${this.look.how} weight ${number(exact.value, 4)} over the visible cells (pooled)`;
    }
    return `${where} · weight ${number(exact.value, 4)}${row ? this.comparison(row, exact.value) : ""}`;
  }

  comparison(row, value) {
    let [seen, above] = [0, 0];
    for (let i = 0; i < row.values.length; i++) {
      if (!row.visible[i]) continue;
      seen++;
      if (row.values[i] > value) above++;
    }
    const uniform = 1 / seen;
    const times = value > 0 && Number.isFinite(value) ? ` (${number(value / uniform, 3)} ×)` : "";
    return ` · rank ${above + 1} of ${seen} · uniform would be ${number(uniform, 4)}${times}`;
  }

  fullName(side, index) {
    const tokens = this.tokens[side];
    const text = tokens.texts[index];
    const segment = tokens.segmentOf(index);
    return tokens.name(index) + (text !== undefined ? ` · text ${JSON.stringify(text)}` : "") + (tokens.special.has(index) ? " · special token" : "") + (segment ? ` · ${segment.name}` : "");
  }

  say(sentence) {
    this.note.textContent = sentence;
  }

  // ------------------------------------------------------------------- input

  listen() {
    const over = this.over;
    this.pointers = new Map();
    over.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    over.addEventListener("pointerdown", (event) => this.pointerDown(event));
    over.addEventListener("pointermove", (event) => this.pointerMove(event));
    over.addEventListener("pointerup", (event) => this.pointerUp(event));
    over.addEventListener("pointercancel", (event) => this.pointerUp(event));
    over.addEventListener("pointerleave", () => {
      this.pointer = null;
      if (!this.drag) this.setHover(null);
    });
    over.addEventListener("dblclick", (event) => this.zoomAt(event.shiftKey ? 2 : 0.5, ...this.at(event)));
    over.addEventListener("keydown", (event) => this.keyDown(event));
    window.addEventListener("resize", (this.onResize = () => this.layout()));
  }

  at(event) {
    const bounds = this.over.getBoundingClientRect();
    return [event.clientX - bounds.left, event.clientY - bounds.top];
  }

  /** The cell under a point; over an axis only its row or its key; null elsewhere. */
  hit(x, y) {
    const { plot } = this;
    const inRows = y >= plot.y && y < plot.y + plot.height;
    const inColumns = x >= plot.x && x < plot.x + plot.width;
    const cell = this.cellAt(x, y);
    const row = Math.min(Math.max(Math.floor(cell.y), 0), this.source.rows - 1);
    const column = Math.min(Math.max(Math.floor(cell.x), 0), this.source.columns - 1);
    if (inRows && inColumns) return { row, column };
    if (inRows && x < plot.x) return { row, column: null };
    return inColumns && y < plot.y ? { row: null, column } : null;
  }

  inMinimap(x, y) {
    const box = this.minimapBox();
    return box && x >= box.x && x <= box.x + box.side && y >= box.y && y <= box.y + box.side ? box : null;
  }

  wheel(event) {
    if (!this.view) return;
    const out = event.deltaY > 0;
    if (out && this.isWhole()) return; // nothing left to zoom out: the page may scroll
    event.preventDefault();
    const pixels = event.deltaY * (event.deltaMode === 1 ? 16 : 1);
    const place = this.pointer || this.at(event); // wheel events round the place to whole pixels, pointer events do not
    this.zoomAt(Math.exp(Math.max(-1, Math.min(1, pixels * (event.ctrlKey ? 0.01 : 0.002)))), ...place);
    if (this.hover) this.setHover(this.hit(...place));
  }

  pointerDown(event) {
    if (event.button !== 0 || !this.view) return;
    const [x, y] = this.at(event);
    this.pointers.set(event.pointerId, [x, y]);
    this.over.setPointerCapture(event.pointerId);
    const mini = this.inMinimap(x, y);
    this.drag = { x, y, view: this.view, moved: false, mini };
    if (this.pointers.size === 2) this.drag = { pinch: this.pinch(), view: this.view, moved: true };
    else if (event.shiftKey && !mini) this.drag.box = { x0: x, y0: y, x1: x, y1: y };
    if (mini) this.centreFromMinimap(mini, x, y);
  }

  pointerMove(event) {
    if (!this.view) return;
    const [x, y] = (this.pointer = this.at(event));
    if (this.pointers.has(event.pointerId)) this.pointers.set(event.pointerId, [x, y]);
    const { drag } = this;
    if (!drag) {
      this.setHover(this.inMinimap(x, y) ? null : this.hit(x, y));
      return;
    }
    if (drag.pinch) {
      const now = this.pinch();
      this.zoomAt(drag.pinch.distance / Math.max(now.distance, 1), now.x, now.y);
      drag.pinch = now;
      return;
    }
    drag.moved ||= Math.hypot(x - drag.x, y - drag.y) >= CLICK_PIXELS;
    if (drag.mini) this.centreFromMinimap(drag.mini, x, y);
    else if (drag.box) Object.assign(drag.box, { x1: x, y1: y }), this.drawOver();
    else if (drag.moved) {
      const [r0, r1, c0, c1] = drag.view;
      const [rows, columns] = [((drag.y - y) / this.plot.height) * (r1 - r0), ((drag.x - x) / this.plot.width) * (c1 - c0)];
      this.setView([r0 + rows, r1 + rows, c0 + columns, c1 + columns]);
    }
  }

  pointerUp(event) {
    const { drag } = this;
    this.pointers.delete(event.pointerId);
    this.drag = null;
    if (!drag || event.type === "pointercancel") return;
    if (drag.box && drag.moved) this.zoomToBox(drag.box);
    else if (!drag.moved && !drag.mini) this.pick(this.hit(...this.at(event)));
    this.drawOver();
  }

  pinch() {
    const [[x0, y0], [x1, y1]] = [...this.pointers.values()];
    return { distance: Math.hypot(x1 - x0, y1 - y0), x: (x0 + x1) / 2, y: (y0 + y1) / 2 };
  }

  zoomToBox({ x0, y0, x1, y1 }) {
    const a = this.cellAt(Math.min(x0, x1), Math.min(y0, y1));
    const b = this.cellAt(Math.max(x0, x1), Math.max(y0, y1));
    this.setView([Math.floor(a.y), Math.ceil(b.y), Math.floor(a.x), Math.ceil(b.x)]);
  }

  centreFromMinimap(box, x, y) {
    const [r0, r1, c0, c1] = this.view;
    const row = ((y - box.y) / box.side) * this.source.rows;
    const key = ((x - box.x) / box.side) * this.source.columns;
    this.move(row - (r0 + r1) / 2, key - (c0 + c1) / 2);
  }

  /** Marks a cell, a row or a key; the same again takes the mark away. */
  pick(cell) {
    if (!cell) return;
    this.pinned = JSON.stringify(cell) === JSON.stringify(this.pinned) ? null : cell;
    this.cell = this.pinned ? { query: this.pinned.row, key: this.pinned.column } : null;
    this.tell("cell", this.cell, 250);
    this.showFocus();
  }

  pointText(index) {
    if (index === null) this.setHover(null);
    else this.setHover(this.look.direction === "from" ? { row: Math.min(index, this.source.rows - 1), column: null } : { row: null, column: Math.min(index, this.source.columns - 1) });
  }

  pickText(index) {
    this.pick(this.look.direction === "from" ? { row: index, column: null } : { row: null, column: index });
  }

  keyDown(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || !this.view) return;
    const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    const step = steps[event.key];
    if (step && event.shiftKey) this.moveCell(...step);
    else if (step) this.move((step[0] * (this.view[1] - this.view[0])) / 8, (step[1] * (this.view[3] - this.view[2])) / 8);
    else if (event.key === "+" || event.key === "=") this.zoomAt(0.5);
    else if (event.key === "-") this.zoomAt(2);
    else if (event.key === "0" || event.key === "Home") this.setView(this.whole());
    else if (event.key === "l") this.setLook({ scale: this.look.scale === "log" ? "linear" : "log" });
    else if (event.key === "s" && this.sinks.size) this.setLook({ hide: !this.look.hide });
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  /** Moves the marked cell by keys, and the window with it. */
  moveCell(rows, columns) {
    const from = this.hover || this.pinned || { row: Math.floor(this.view[0]), column: Math.floor(this.view[2]) };
    const row = Math.min(Math.max((from.row ?? 0) + rows, 0), this.source.rows - 1);
    const column = Math.min(Math.max((from.column ?? 0) + columns, 0), this.source.columns - 1);
    const [r0, r1, c0, c1] = this.view;
    const outside = (at, a, b) => (at < a ? at - a : at + 1 > b ? at + 1 - b : 0);
    this.move(outside(row, r0, r1), outside(column, c0, c1));
    this.setHover({ row, column });
  }

  destroy() {
    Object.values(this.timers).forEach(clearTimeout);
    this.store.stop();
    this.profiles.stop();
    this.watcher.disconnect();
    window.removeEventListener("resize", this.onResize);
    this.frame.remove();
  }
}

// ------------------------------------------------------------- Streamlit's side

const viewers = new WeakMap(); // parent element -> MapViewer

export default function ({ data, parentElement, setStateValue }) {
  let viewer = viewers.get(parentElement);
  if (!viewer) {
    viewer = new MapViewer(parentElement);
    viewers.set(parentElement, viewer);
  }
  viewer.update(data, setStateValue);
  return () => {
    viewer.destroy();
    viewers.delete(parentElement);
  };
}
