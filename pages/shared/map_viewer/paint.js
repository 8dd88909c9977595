// Tiles as pictures: colours, hidden keys, cells that are no numbers, numbers in large cells.

/** Everything the colour of a cell depends on; `key` names it, so that finished pictures can be kept. */
class Paint {
  constructor(ramp, scale, hidden, rowTops, theme) {
    Object.assign(this, { ramp, scale, rowTops });
    this.hidden = [...hidden].sort((a, b) => a - b);
    this.hiddenPixel = pack(toRgb(theme.hiddenKey));
    const version = scale.mode === "row" ? rowTops.version : 0;
    this.key = [ramp.name, ramp.background, scale.mode, scale.low, scale.high, scale.id, this.hidden, version].join("|");
  }

  /** Whether a block of keys holds a hidden one. */
  hides(c0, c1) {
    return this.hidden.some((key) => c0 <= key && key < c1);
  }

  step(value, rowTop) {
    const { mode, threshold, share } = this.scale;
    return rampStep(mode !== "row" ? share(value) : value < threshold ? 0 : value / (rowTop || 1));
  }
}

/** Which of a tile's columns hold hidden keys: Uint8Array of its width. */
function hiddenColumns(tile, hidden) {
  const marks = new Uint8Array(tile.width);
  const [c0, c1] = tile.columns;
  for (const key of hidden) if (key >= c0 && key < c1) marks[blockOf(key - c0, c1 - c0, tile.width)] = 1;
  return marks;
}

/** The tile as a small canvas, one pixel per value. Invisible cells stay transparent: the hatching shows through. */
function tilePicture(tile, paint) {
  if (tile.picture && tile.pictureKey === paint.key) return tile.picture;
  const { width, height, values, visible } = tile;
  const picture = tile.picture || document.createElement("canvas");
  picture.width = width;
  picture.height = height;
  const context = picture.getContext("2d");
  const image = context.createImageData(width, height);
  const pixels = new Uint32Array(image.data.buffer);
  const hidden = hiddenColumns(tile, paint.hidden);
  const odd = [];
  const tops = paint.rowTops.of(tile);
  for (let p = 0, at = 0; p < height; p++) {
    for (let q = 0; q < width; q++, at++) {
      if (!visible[at]) continue;
      const value = values[at];
      if (hidden[q]) pixels[at] = paint.hiddenPixel;
      else if (Number.isFinite(value)) pixels[at] = paint.ramp.packed[paint.step(value, tops ? tops[p] : 1)];
      else {
        pixels[at] = pack(toRgb(Number.isNaN(value) ? NOT_A_NUMBER : INFINITE));
        odd.push([p, q, value]);
      }
    }
  }
  context.putImageData(image, 0, 0);
  Object.assign(tile, { picture, pictureKey: paint.key, odd });
  return picture;
}

/** Smallest positive, largest and largest absolute finite value of the tiles in a window, hidden keys left out. */
function weightRange(tiles, view, hidden) {
  let [low, high, size] = [Infinity, 0, 0];
  eachValue(tiles, view, hidden, (value) => {
    if (value > high) high = value;
    if (value > 0 && value < low) low = value;
    if (value > size || -value > size) size = Math.abs(value);
  });
  return { low, high, size };
}

const QUANTILES = 64;
const MOST_SORTED = 60000; // weights that quantiles are taken from; of more, every n-th

/** QUANTILES + 1 rising values with equally many of the window's positive weights between two of them. */
function quantileSteps(shown, view) {
  const all = [];
  for (const { tiles, hidden } of shown) eachValue(tiles, view, hidden, (value) => value > 0 && all.push(value));
  const every = Math.ceil(all.length / MOST_SORTED);
  const sorted = Float64Array.from(every > 1 ? all.filter((_, at) => at % every === 0) : all).sort();
  if (sorted.length < 2) return [];
  return Array.from({ length: QUANTILES + 1 }, (_, at) => sorted[Math.round((at * (sorted.length - 1)) / QUANTILES)]);
}

/** Calls `use(value, tile, block row)` for each visible finite value whose block touches the window. */
function eachValue(tiles, [r0, r1, c0, c1], hidden, use) {
  for (const tile of tiles) {
    const marks = hiddenColumns(tile, hidden);
    const inside = (at, n, blocks) => blockOf(Math.min(Math.max(at, 0), n - 1), n, blocks);
    const [rows, columns] = [tile.rows[1] - tile.rows[0], tile.columns[1] - tile.columns[0]];
    if (tile.rows[1] <= r0 || tile.rows[0] >= r1 || tile.columns[1] <= c0 || tile.columns[0] >= c1) continue;
    const [p0, p1] = [r0, Math.ceil(r1) - 1].map((row) => inside(Math.floor(row) - tile.rows[0], rows, tile.height));
    const [q0, q1] = [c0, Math.ceil(c1) - 1].map((key) => inside(Math.floor(key) - tile.columns[0], columns, tile.width));
    for (let p = p0; p <= p1; p++) {
      for (let q = q0, at = p * tile.width + q0; q <= q1; q++, at++) {
        if (tile.visible[at] && !marks[q] && Number.isFinite(tile.values[at])) use(tile.values[at], tile, p);
      }
    }
  }
}

/** Largest weight of each row of blocks inside the window, for the scale "each row by itself". */
class RowTops {
  constructor(tiles = [], view = null, hidden = [], version = 0) {
    this.version = version;
    this.tops = new Map();
    if (view) {
      eachValue(tiles, view, hidden, (value, tile, p) => {
        const tops = this.entry(tile);
        if (value > tops[p]) tops[p] = value;
      });
    }
  }

  entry(tile) {
    const key = `${tile.rows[0]}:${tile.rows[1]}:${tile.height}`;
    if (!this.tops.has(key)) this.tops.set(key, new Float32Array(tile.height));
    return this.tops.get(key);
  }

  of(tile) {
    return this.tops.get(`${tile.rows[0]}:${tile.rows[1]}:${tile.height}`) || null;
  }
}

/** Puts one tile onto the map. Edges lie on whole pixels, so that no seam shows between two tiles. */
function drawTile(context, place, tile, paint, hatch) {
  const picture = tilePicture(tile, paint);
  const ratio = window.devicePixelRatio || 1;
  const snap = (at) => Math.round(at * ratio) / ratio;
  const [x0, x1] = tile.columns.map((key) => snap(place.x(key)));
  const [y0, y1] = tile.rows.map((row) => snap(place.y(row)));
  context.fillStyle = hatch;
  context.fillRect(x0, y0, x1 - x0, y1 - y0);
  context.imageSmoothingEnabled = false;
  context.drawImage(picture, x0, y0, x1 - x0, y1 - y0);
  const [width, height] = [(x1 - x0) / tile.width, (y1 - y0) / tile.height];
  if (tile.odd.length === 0 || Math.min(width, height) < 6) return;
  for (const [p, q, value] of tile.odd.slice(0, 20000)) {
    const [x, y] = [x0 + q * width, y0 + p * height];
    context.fillStyle = css(paint.ramp.background);
    context.fillRect(x, y, width, height);
    context.strokeStyle = Number.isNaN(value) ? NOT_A_NUMBER : INFINITE;
    context.lineWidth = 2;
    context.strokeRect(x + 1.5, y + 1.5, width - 3, height - 3);
    context.lineWidth = 1;
  }
}

const NUMBER_CELL = { width: 30, height: 14 };

/** Writes the weights into their cells where the cells are large enough. */
function drawNumbers(context, place, view, tiles, paint) {
  const [width, height] = [place.x(1) - place.x(0), place.y(1) - place.y(0)];
  if (width < NUMBER_CELL.width || height < NUMBER_CELL.height) return;
  context.font = `${Math.min(12, Math.floor(width / 3.4))}px system-ui, sans-serif`;
  context.textAlign = "center";
  context.textBaseline = "middle";
  for (let row = Math.floor(view[0]); row < view[1]; row++) {
    for (let key = Math.floor(view[2]); key < view[3]; key++) {
      const cell = readTiles(tiles, row, key);
      if (!cell || !cell.visible || cell.rows[1] - cell.rows[0] > 1 || cell.columns[1] - cell.columns[0] > 1) continue;
      const share = Number.isFinite(cell.value) ? paint.step(cell.value, rowTop(paint, cell)) : 0;
      const back = paint.hides(key, key + 1) ? paint.ramp.background : paint.ramp.rgb[share];
      context.fillStyle = luminance(back) > 0.55 ? "#111111" : "#ffffff";
      context.fillText(cellNumber(cell.value, width), place.x(key + 0.5), place.y(row + 0.5));
    }
  }
}

function rowTop(paint, cell) {
  const tops = paint.rowTops.of(cell.tile);
  const [first, last] = cell.tile.rows;
  return tops ? tops[blockOf(cell.rows[0] - first, last - first, cell.tile.height)] : 1;
}

/** The finest of `tiles` (finest first) that knows the cell. */
function readTiles(tiles, row, key) {
  for (const tile of tiles) {
    const cell = readTile(tile, row, key);
    if (cell) return { ...cell, tile };
  }
  return null;
}
