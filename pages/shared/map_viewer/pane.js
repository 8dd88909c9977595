// One map on the screen: its canvases, its tiles, its colours. All maps of a viewer share window, look and marks.

class Pane {
  constructor() {
    this.element = make("div", "hw-pane");
    this.title = make("div", "hw-title");
    this.box = make("div", "hw-map");
    this.base = make("canvas", "hw-canvas");
    this.over = make("canvas", "hw-canvas hw-over");
    this.over.tabIndex = 0;
    this.over.setAttribute("role", "application");
    this.over.setAttribute("aria-roledescription", "zoomable map");
    this.box.append(this.base, this.over);
    this.element.append(this.title, this.box);
    this.needed = []; // tiles of the level on show
    this.level = null;
    this.rowTops = new RowTops();
    this.pairs = new WeakMap(); // tile -> {other, tile}: differences of two tiles
  }

  take(map, shape, how) {
    this.name = map.name;
    this.source = new MapSource(address(map.map), shape[0], shape[1], map.exact, how);
    this.minus = map.minus ? address(map.minus.map) : null;
    this.minusName = map.minus ? map.minus.name : "";
    this.sinks = new Set(map.sinks);
  }

  size(width, height, ratio) {
    this.box.style.width = `${width}px`;
    this.box.style.height = `${height}px`;
    for (const canvas of [this.base, this.over]) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
      canvas.getContext("2d").setTransform(ratio, 0, 0, ratio, 0, 0);
    }
  }

  /** What has to be fetched for a piece of this map: of a difference, the same piece of both. */
  paths(path) {
    return this.minus ? [path, this.minus + path.slice(this.source.url.length)] : [path];
  }

  /** A kept piece of this map, or undefined; `used` says that it shall stay kept. */
  tile(store, path, used = true) {
    const [own, other] = this.paths(path).map((one) => (used ? store.get(one) : store.kept.get(one)));
    if (!this.minus || !own || !other) return this.minus ? undefined : own;
    const known = this.pairs.get(own);
    if (known && known.other === other) return known.tile;
    const tile = differenceTile(own, other);
    this.pairs.set(own, { other, tile });
    return tile;
  }

  overview(store) {
    return this.tile(store, this.source.overview.path, false);
  }

  /** Which tiles the window needs; returns the addresses to fetch, most urgent first. */
  plan(store, view, pixels, whole) {
    const level = this.source.level(Math.max(view[1] - view[0], view[3] - view[2]), pixels);
    const path = this.source.overview.path;
    const overview = this.tile(store, path);
    this.level = level;
    const tiles = level === null ? [] : this.source.tiles(level, view);
    // The overview tells which tiles have anything visible. A whole map waits for it; a window from a link does not.
    this.needed = overview ? tiles.filter((tile) => this.anyVisible(overview, tile.box)) : whole ? [] : tiles;
    return [path, ...this.needed.map((tile) => tile.path)].flatMap((one) => this.paths(one));
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

  /** The tiles to draw, coarse to fine. */
  layers(store, view) {
    const found = [this.overview(store)];
    for (let level = Math.min((this.level ?? -1) + 2, 12); this.level !== null && level >= this.level; level--) {
      for (const tile of this.source.tiles(level, view)) found.push(this.tile(store, tile.path));
    }
    return found.filter(Boolean);
  }

  /** The tiles that the scale is made of: those of the level on show, or the overview. */
  shown(store) {
    const fine = this.needed.map((tile) => this.tile(store, tile.path, false)).filter(Boolean);
    return fine.length ? fine : [this.overview(store)].filter(Boolean);
  }
}

/** One tile less another of the same cells: visible where both are. */
function differenceTile(own, other) {
  if (own.height !== other.height || own.width !== other.width) return undefined;
  const values = own.values.map((value, at) => value - other.values[at]);
  const visible = own.visible.map((seen, at) => seen & other.visible[at]);
  return { ...own, values, visible, picture: null, pictureKey: null, exact: own.exact && other.exact };
}
