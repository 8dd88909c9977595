// Tiles: square pieces of one map, fetched from the data route, kept while there is room.
//
// A tile at level L holds TILE x TILE values of 2^L x 2^L cells each. Level 0 holds exact weights. The answer of the
// route is a JSON line (shape, rows, columns, dtype, exact, how), the values, and one visibility bit per cell.

const TILE = 256;
const OVERVIEW = 128; // side of the pooled map that stands for the whole from afar
const MOST_TILE_CELLS = 8192; // a tile that covers more per side is not asked for; the overview stands in for it
const MOST_REQUESTS = 4;
const TILE_BYTES = 96 * 2 ** 20; // kept tiles, with their pictures
const PROFILE_BYTES = 16 * 2 ** 20; // kept single rows and columns
const RETRY_MS = 5000;

/** IEEE half precision to numbers. */
function decodeHalf(bits) {
  const values = new Float32Array(bits.length);
  for (let i = 0; i < bits.length; i++) {
    const sign = bits[i] & 0x8000 ? -1 : 1;
    const exponent = (bits[i] >> 10) & 31;
    const fraction = bits[i] & 1023;
    if (exponent === 0) values[i] = sign * fraction * 2 ** -24;
    else if (exponent === 31) values[i] = fraction ? NaN : sign * Infinity;
    else values[i] = sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
  }
  return values;
}

/** The answer of the map route as {header, rows, columns, height, width, values, visible}. */
function decodeTile(buffer) {
  const bytes = new Uint8Array(buffer);
  const lineEnd = bytes.indexOf(10);
  if (lineEnd < 0) throw new Error("The map answer has no header line.");
  const header = JSON.parse(new TextDecoder().decode(bytes.subarray(0, lineEnd)));
  const [height, width] = header.shape;
  const count = height * width;
  const size = header.dtype === "float16" ? 2 : 4;
  const start = lineEnd + 1;
  const bitBytes = Math.ceil(count / 8);
  if (buffer.byteLength !== start + count * size + bitBytes) {
    throw new Error(`The map answer has ${buffer.byteLength} bytes where ${start + count * size + bitBytes} belong.`);
  }
  const raw = buffer.slice(start, start + count * size); // a copy, because typed arrays need aligned starts
  const values = size === 2 ? decodeHalf(new Uint16Array(raw)) : new Float32Array(raw);
  const bits = bytes.subarray(start + count * size);
  const visible = new Uint8Array(count);
  for (let i = 0; i < count; i++) visible[i] = (bits[i >> 3] >> (7 - (i & 7))) & 1;
  const sampled = header.values === "sampled";
  return { exact: header.exact === true, sampled, rows: header.rows, columns: header.columns, height, width, values, visible };
}

/** Fetches pieces of maps: newest wish first, at most MOST_REQUESTS at once, what nobody wants any more is aborted. */
class TileStore {
  constructor(capacity, onArrival, onTrouble) {
    this.capacity = capacity;
    this.onArrival = onArrival;
    this.onTrouble = onTrouble;
    this.kept = new Map(); // path -> tile, least recently used first
    this.bytes = 0;
    this.waiting = []; // paths, newest last
    this.running = new Map(); // path -> AbortController
    this.failed = new Map(); // path -> time of failure
  }

  get(path) {
    const tile = this.kept.get(path);
    if (tile) {
      this.kept.delete(path);
      this.kept.set(path, tile);
    }
    return tile;
  }

  /** Makes `paths` the only wishes, most urgent first. */
  want(paths) {
    const wanted = new Set(paths);
    for (const [path, controller] of this.running) {
      if (wanted.has(path)) continue;
      controller.abort();
      this.running.delete(path); // at once, so that it can be asked for again before the abort is through
    }
    this.waiting = paths.filter((path) => !this.kept.has(path) && !this.running.has(path) && !this.justFailed(path));
    this.waiting.reverse();
    this.pump();
  }

  justFailed(path) {
    return Date.now() - (this.failed.get(path) || 0) < RETRY_MS;
  }

  get busy() {
    return this.waiting.length + this.running.size > 0;
  }

  pump() {
    while (this.running.size < MOST_REQUESTS && this.waiting.length) this.load(this.waiting.pop());
  }

  async load(path) {
    const controller = new AbortController();
    this.running.set(path, controller);
    try {
      const answer = await fetch(path, { signal: controller.signal });
      if (!answer.ok) throw new Error(await reasonOf(answer));
      this.keep(path, decodeTile(await answer.arrayBuffer()));
      this.failed.delete(path);
    } catch (error) {
      if (error.name !== "AbortError") {
        this.failed.set(path, Date.now());
        this.onTrouble(error.message);
      }
    } finally {
      if (this.running.get(path) === controller) this.running.delete(path);
      this.pump();
      this.onArrival(path);
    }
  }

  keep(path, tile) {
    const before = this.kept.get(path);
    if (before) this.bytes -= before.size;
    tile.size = tile.values.byteLength + tile.visible.byteLength + 4 * tile.values.length; // its picture too
    this.kept.delete(path);
    this.kept.set(path, tile);
    this.bytes += tile.size;
    for (const [old, dropped] of this.kept) {
      if (this.bytes <= this.capacity || old === path) break;
      this.kept.delete(old);
      this.bytes -= dropped.size;
    }
  }

  stop() {
    this.want([]);
  }
}

/** The sentence of a refused request: the route answers {"error": ...}; anything else is named by its status. */
async function reasonOf(answer) {
  const text = await answer.text();
  try {
    return JSON.parse(text).error || `The server answered with status ${answer.status}.`;
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    return `The server answered with status ${answer.status}.`;
  }
}

/** The pieces of one map. Knows sizes and addresses, not pixels. */
class MapSource {
  constructor(url, rows, columns, exact, how) {
    Object.assign(this, { url, rows, columns, exact, how });
    this.small = Math.max(rows, columns) <= TILE; // one exact tile is the whole map
  }

  path(r0, r1, c0, c1, size) {
    return `${this.url}?rows=${r0}:${r1}&columns=${c0}:${c1}&size=${size}&how=${this.how}`;
  }

  get overview() {
    const side = this.exact && this.small ? TILE : OVERVIEW;
    return { path: this.path(0, this.rows, 0, this.columns, side), box: [0, this.rows, 0, this.columns] };
  }

  rowPath(row) {
    return this.path(row, row + 1, 0, this.columns, Math.max(this.columns, 1));
  }

  columnPath(column) {
    return this.path(0, this.rows, column, column + 1, Math.max(this.rows, 1));
  }

  /** Level with two thirds to four thirds of a value per pixel; null = the overview is fine enough. */
  level(span, pixels) {
    if (!this.exact || this.small) return null;
    const level = Math.max(0, Math.floor(Math.log2(Math.max(span / Math.max(pixels, 1), 1)) + 0.6));
    return TILE << level > MOST_TILE_CELLS ? null : level;
  }

  /** Tiles of one level over a window, nearest to its middle first. */
  tiles(level, [r0, r1, c0, c1]) {
    const side = TILE << level;
    const found = [];
    for (let i = Math.floor(r0 / side); i * side < Math.min(r1, this.rows); i++) {
      for (let j = Math.floor(c0 / side); j * side < Math.min(c1, this.columns); j++) {
        const box = [i * side, Math.min((i + 1) * side, this.rows), j * side, Math.min((j + 1) * side, this.columns)];
        const away = Math.hypot((box[0] + box[1] - r0 - r1) / 2, (box[2] + box[3] - c0 - c1) / 2);
        found.push({ path: this.path(...box, TILE), box, away });
      }
    }
    return found.sort((a, b) => a.away - b.away);
  }
}

/** Block p of an axis of n cells in P blocks covers [floor(p n / P), floor((p + 1) n / P)). */
const blockEdges = (p, n, blocks) => [Math.floor((p * n) / blocks), Math.floor(((p + 1) * n) / blocks)];

/** The block that holds cell `at` of n cells in P blocks. */
function blockOf(at, n, blocks) {
  let p = Math.floor((at * blocks) / n);
  while (p + 1 < blocks && blockEdges(p + 1, n, blocks)[0] <= at) p++;
  return Math.min(p, blocks - 1);
}

/** What a tile says of one cell: {value, visible, exact, rows, columns}, or null outside it. */
function readTile(tile, row, column) {
  const [r0, r1] = tile.rows;
  const [c0, c1] = tile.columns;
  if (row < r0 || row >= r1 || column < c0 || column >= c1) return null;
  const p = blockOf(row - r0, r1 - r0, tile.height);
  const q = blockOf(column - c0, c1 - c0, tile.width);
  const at = p * tile.width + q;
  const shift = ([a, b], by) => [a + by, b + by];
  return {
    value: tile.values[at],
    visible: tile.visible[at] === 1,
    rows: shift(blockEdges(p, r1 - r0, tile.height), r0),
    columns: shift(blockEdges(q, c1 - c0, tile.width), c0),
  };
}
