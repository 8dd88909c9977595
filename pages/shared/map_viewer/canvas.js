// The canvas of the viewer: where the window lies, which tiles it needs, how it is drawn. It knows no pointer, no page.

const LEAST_SPAN = 3; // cells
const SETTLE_MS = 80;
const MINI = 56; // pixels of the minimap
const PANE_GAP = 8; // pixels between maps side by side
const TITLE_HEIGHT = 24;
const GRID_CELL = 10; // pixels; larger cells get lines between them

class MapCanvas {
  constructor() {
    this.view = null; // [first row, last row, first key, last key] in cells, fractions allowed
    this.hover = null; // the cell under the pointer
    this.pinned = null; // the picked cell
    this.panes = [new Pane()]; // the chosen head first, then those beside it
    this.pane = this.panes[0]; // the one under the pointer
    this.settled = 0;
    this.timers = {};
  }

  /** The map under the pointer; all maps have the same size. */
  get source() {
    return this.pane.source;
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
    this.hatch = null;
    this.ramp = makeRamp(this.data.palette, background);
    this.diverging = makeDiverging(background);
    this.sizes = makeSizes(this.data.large, this.panes.length);
    this.frame.classList.toggle("hw-large", this.data.large);
  }

  /** Whether sink columns are in no colour and no scale. */
  get hides() {
    return this.look.hide || this.data.sinkFree;
  }

  hidden(pane = this.pane) {
    const sinks = this.hides ? [...pane.sinks] : [];
    return this.look.fold ? [...new Set([...sinks, ...pictureKeys(this.tokens.key)])] : sinks;
  }

  // ---------------------------------------------------------------- geometry

  layout() {
    if (!this.data) return;
    const room = this.frame.clientWidth;
    if (room === 0) return;
    const count = this.panes.length;
    const across = count === 1 || room < 600 ? 1 : count === 2 || count === 4 ? 2 : 3;
    const beside = room >= 600 && count === 1;
    this.frame.classList.toggle("hw-stacked", !beside);
    const rows = room < 600 ? 1 : Math.ceil(count / across);
    const { margin } = this.sizes;
    const titles = count > 1 ? TITLE_HEIGHT : 0;
    const tallest = (window.innerHeight - this.data.reserve) / rows - (rows - 1) * (margin.top + margin.bottom + titles);
    const widest = (beside ? room * 0.68 : (room - 2 - (across - 1) * PANE_GAP) / across) - margin.left - margin.right;
    const side = Math.floor(Math.max(count > 2 ? 140 : 180, Math.min(Math.max(200, tallest), widest)));
    const [width, height] = [side + margin.left + margin.right, side + margin.top + margin.bottom];
    this.plot = { x: margin.left, y: margin.top, width: side, height: side };
    this.frame.style.setProperty("--hw-map-width", `${across * width + (across - 1) * PANE_GAP}px`);
    this.frame.style.setProperty("--hw-map-height", `${height}px`);
    const ratio = window.devicePixelRatio || 1;
    for (const pane of this.panes) pane.size(width, height, ratio);
    const mini = Math.round(MINI * this.sizes.by);
    this.mini.style.width = this.mini.style.height = `${mini}px`;
    this.mini.width = this.mini.height = Math.round(mini * ratio);
    this.mini.getContext("2d").setTransform(ratio, 0, 0, ratio, 0, 0);
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
    const whole = this.isWhole();
    const pixels = this.plot.width * (window.devicePixelRatio || 1);
    this.store.want(this.panes.flatMap((pane) => pane.plan(this.store, this.view, pixels, whole)));
    this.draw();
    this.settleSoon();
  }

  settleSoon() {
    clearTimeout(this.timers.settle);
    this.timers.settle = setTimeout(() => this.settle(), SETTLE_MS);
  }

  arrived(path) {
    const overviews = this.panes.flatMap((pane) => pane.paths(pane.source.overview.path));
    if (overviews.includes(path)) this.refresh();
    else this.draw();
    this.settleSoon();
    this.showFocus();
  }

  layers(pane = this.pane) {
    return pane.layers(this.store, this.view);
  }

  /** Once the person pauses: the scale that fits what is on show. Maps side by side share one; a difference has its own. */
  settle() {
    const shown = this.panes.map((pane) => ({ pane, tiles: pane.shown(this.store), hidden: this.hidden(pane) }));
    const known = shown.filter(({ tiles }) => tiles.length);
    if (!known.length) return;
    this.settled++;
    const ranges = known.map(({ pane, tiles, hidden }) => [pane, weightRange(tiles, this.view, hidden)]);
    const weights = ranges.filter(([pane]) => !pane.minus).map(([, range]) => range);
    if (weights.length) {
      const high = niceCeiling(Math.max(...weights.map((range) => range.high)));
      this.range = { low: Math.min(...weights.map((range) => range.low)), high, steps: [] };
      const plain = known.filter(({ pane }) => !pane.minus);
      if (this.look.scale === "quantile") this.range.steps = quantileSteps(plain, this.view);
    }
    for (const [pane, range] of ranges) if (pane.minus) pane.top = niceCeiling(range.size);
    if (this.look.scale === "row") {
      for (const { pane, tiles, hidden } of known) pane.rowTops = new RowTops(tiles, this.view, hidden, this.settled);
    }
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
    for (const pane of this.panes) this.drawPane(pane);
    this.drawMinimap();
    const { dataset } = this.frame;
    dataset.state = this.store.busy ? "loading" : this.layers(this.panes[0]).length ? "ready" : "failed";
    if (dataset.state === "ready") this.tellPainted();
    dataset.head = this.panes[0].name;
    dataset.level = this.panes[0].source.small ? 0 : (this.panes[0].level ?? "overview");
  }

  /** The scale and colours of one map. */
  paintOf(pane) {
    const { low, high, steps } = this.range || { low: 1e-4, high: 1, steps: [] };
    const scale = pane.minus
      ? makeDifferenceScale(this.look.scale, pane.top || 1)
      : makeScale(this.look.scale, low, high, steps, this.look.threshold);
    return new Paint(pane.minus ? this.diverging : this.ramp, scale, this.hidden(pane), pane.rowTops, this.theme);
  }

  drawPane(pane) {
    const context = pane.base.getContext("2d");
    context.clearRect(0, 0, pane.base.width, pane.base.height);
    this.drawPaneOn(context, pane);
  }

  drawPaneOn(context, pane) {
    const { plot } = this;
    const place = this.place();
    const layers = this.layers(pane);
    pane.paint = this.paintOf(pane);
    context.save();
    context.beginPath();
    context.rect(plot.x, plot.y, plot.width, plot.height);
    context.clip();
    this.hatch ??= hatchPattern(context, this.theme);
    for (const tile of layers) drawTile(context, place, tile, pane.paint, this.hatch);
    this.drawGrid(context, place);
    drawNumbers(context, place, this.view, layers.slice().reverse(), pane.paint);
    context.restore();
    this.drawFrame(context, pane);
  }

  /** What stands around the cells. */
  drawFrame(context, pane) {
    const { plot, view, theme, sizes } = this;
    drawAxes(context, plot, view, this.tokens, theme, sizes);
    drawBands(context, plot, view, this.tokens);
    drawBandNames(context, plot, view, this.tokens, theme, sizes);
    drawHiddenMarks(context, plot, view, this.hides ? pane.sinks : [], theme);
    const { scale, ramp } = this.paintOf(pane);
    drawColourBar(context, plot, scale, ramp, theme, sizes);
  }

  /** The cells of one map alone as the address of a picture. */
  mapPicture(pane) {
    const { plot } = this;
    const ratio = window.devicePixelRatio || 1;
    const canvas = document.createElement("canvas");
    canvas.width = Math.round(plot.width * ratio);
    canvas.height = Math.round(plot.height * ratio);
    const from = [plot.x, plot.y, plot.width, plot.height].map((at) => at * ratio);
    canvas.getContext("2d").drawImage(pane.base, ...from, 0, 0, canvas.width, canvas.height);
    return canvas.toDataURL("image/png");
  }

  base2d() {
    return this.panes[0].base.getContext("2d");
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

  /** Guides, the marked cell and the box being drawn: what changes while the pointer moves. */
  drawOver() {
    for (const pane of this.panes) {
      const context = pane.over.getContext("2d");
      context.clearRect(0, 0, pane.over.width, pane.over.height);
      this.drawMarks(context);
    }
  }

  drawMarks(context) {
    const place = this.place();
    context.save();
    context.beginPath();
    context.rect(this.plot.x, this.plot.y, this.plot.width, this.plot.height);
    context.clip();
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

  /** The whole map beside the readout, with the window framed: it covers no cell. */
  drawMinimap() {
    const pane = this.panes[0];
    const overview = pane.overview(this.store);
    if (!overview) return;
    const side = this.mini.clientWidth || MINI;
    const key = [this.ramp.name, this.ramp.background, this.hides, this.look.fold].join("|");
    if (!overview.mini || overview.miniKey !== key) {
      const { low, high, size } = weightRange([overview], this.whole(), this.hidden(pane));
      const scale = pane.minus ? makeDifferenceScale("root", size) : makeScale("root", low, high);
      const ramp = pane.minus ? this.diverging : this.ramp;
      const paint = new Paint(ramp, scale, this.hidden(pane), new RowTops(), this.theme);
      overview.mini = tilePicture({ ...overview, picture: null }, paint);
      overview.miniKey = key;
    }
    const context = this.mini.getContext("2d");
    context.fillStyle = this.theme.hidden;
    context.fillRect(0, 0, side, side);
    context.drawImage(overview.mini, 0, 0, side, side);
    const [r0, r1, c0, c1] = this.view;
    const [down, across] = [side / pane.source.rows, side / pane.source.columns];
    context.strokeStyle = SELECTED;
    context.lineWidth = 2;
    const [width, height] = [Math.max((c1 - c0) * across, 3), Math.max((r1 - r0) * down, 3)];
    context.strokeRect(Math.min(c0 * across, side - 3), Math.min(r0 * down, side - 3), width, height);
    context.lineWidth = 1;
  }
}
