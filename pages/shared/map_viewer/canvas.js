// The canvas of the viewer: where the window lies, which tiles it needs, how it is drawn. It knows no pointer, no page.

const LEAST_SPAN = 3; // cells
const SETTLE_MS = 80;
const GRID_CELL = 10; // pixels; larger cells get lines between them

class MapCanvas {
  constructor() {
    this.view = null; // [first row, last row, first key, last key] in cells, fractions allowed
    this.hover = null; // the cell under the pointer
    this.pinned = null; // the picked cell
    this.rowTops = new RowTops();
    this.timers = {};
  }

  // ------------------------------------------------------------------ colours

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
    this.sizes = makeSizes(this.data.large);
    this.frame.classList.toggle("hw-large", this.data.large);
  }

  hidden() {
    return this.look.hide ? [...this.sinks] : [];
  }

  // ---------------------------------------------------------------- geometry

  layout() {
    if (!this.data) return;
    const room = this.frame.clientWidth;
    if (room === 0) return;
    const beside = room >= 600;
    this.frame.classList.toggle("hw-stacked", !beside);
    const tallest = Math.max(200, window.innerHeight - this.data.reserve);
    const { margin } = this.sizes;
    const widest = (beside ? room * 0.68 : room) - margin.left - margin.right;
    const side = Math.floor(Math.max(180, Math.min(tallest, widest)));
    const [width, height] = [side + margin.left + margin.right, side + margin.top + margin.bottom];
    this.plot = { x: margin.left, y: margin.top, width: side, height: side };
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
    const rows = [at.y - (at.y - r0) * down, at.y + (r1 - at.y) * down];
    const columns = [at.x - (at.x - c0) * across, at.x + (c1 - at.x) * across];
    this.setView([...rows, ...columns]);
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
    if (this.look.scale === "row") this.rowTops = new RowTops(tiles, this.view, hidden, this.rowTops.version + 1);
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
    const scale = makeScale(this.look.scale, range.low, range.high);
    const paint = new Paint(this.ramp, scale, this.hidden(), this.rowTops, theme);
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
    drawAxes(context, plot, view, this.tokens, theme, this.sizes);
    drawBands(context, plot, view, this.tokens);
    drawHiddenMarks(context, plot, view, paint.hidden, theme);
    drawColourBar(context, plot, paint.scale, this.ramp, theme, this.sizes);
    this.paint = paint;
    this.frame.dataset.state = this.store.busy ? "loading" : layers.length ? "ready" : "failed";
    if (this.frame.dataset.state === "ready") this.tellPainted();
    this.frame.dataset.level = this.source.small ? 0 : (this.level ?? "overview");
  }

  drawGrid(context, place) {
    const [r0, r1, c0, c1] = this.view;
    context.strokeStyle = this.theme.grid;
    const { x, y, width, height } = this.plot;
    if (width / (c1 - c0) >= GRID_CELL) {
      for (let key = Math.ceil(c0); key < c1; key++) tick(context, place.x(key), y, place.x(key), y + height);
    }
    if (height / (r1 - r0) >= GRID_CELL) {
      for (let row = Math.ceil(r0); row < r1; row++) tick(context, x, place.y(row), x + width, place.y(row));
    }
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
    const [across, down] = [Math.max(place.x(1) - place.x(0), 1), Math.max(place.y(1) - place.y(0), 1)];
    if (row !== null) context.strokeRect(x - 2, place.y(row), width + 4, down);
    if (column !== null) context.strokeRect(place.x(column), y - 2, across, height + 4);
  }

  drawFocusLabels(context, place) {
    const { row, column } = this.hover || this.pinned || {};
    context.font = this.sizes.label;
    context.textBaseline = "middle";
    const flag = (text, x, y, align) => {
      const width = context.measureText(text).width + 8;
      const half = 8 * this.sizes.by;
      context.fillStyle = SELECTED;
      context.fillRect(align === "right" ? x - width : x, y - half, width, 2 * half);
      context.fillStyle = "#000000";
      context.textAlign = align;
      context.fillText(text, align === "right" ? x - 4 : x + 4, y);
    };
    const [r0, r1, c0, c1] = this.view;
    if (row !== null && row !== undefined && row >= Math.floor(r0) && row < r1) {
      const at = Math.min(Math.max(place.y(row + 0.5), this.plot.y), this.plot.y + this.plot.height);
      const text = fitText(context, `${row} ${this.tokens.query.label(row)}`, this.plot.x - 16);
      flag(text, this.plot.x - BAND - 3, at, "right");
    }
    if (column !== null && column !== undefined && column >= Math.floor(c0) && column < c1) {
      const text = fitText(context, `${column} ${this.tokens.key.label(column)}`, this.plot.width / 2);
      const at = Math.min(Math.max(place.x(column + 0.5), this.plot.x), this.plot.x + this.plot.width);
      const last = this.plot.x + this.plot.width - context.measureText(text).width - 8;
      flag(text, Math.min(at - 8, last), this.plot.y - BAND - 10, "left");
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
    const [width, height] = [Math.max((c1 - c0) * across, 3), Math.max((r1 - r0) * down, 3)];
    context.strokeRect(box.x + c0 * across, box.y + r0 * down, width, height);
    context.lineWidth = 1;
  }
}
