// The hand-out's own part: the weights of the file answer in place of the data routes, and each place gets its viewer.

const kept = JSON.parse(document.getElementById("lesson-data").textContent);

function address(path) {
  return path;
}

function bytesOf(text) {
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}

const decodedMaps = new Map();

function wholeMap(path) {
  if (!decodedMaps.has(path)) {
    const map = kept.maps[path];
    if (map.of) {
      const means = bytesOf(map.mean), largest = bytesOf(map.max);
      decodedMaps.set(path, { shape: map.shape, of: map.of, mean: means, max: largest, bits: bytesOf(map.visible) });
      return decodedMaps.get(path);
    }
    decodedMaps.set(path, { shape: map.shape, weights: new Float32Array(bytesOf(map.weights).buffer), bits: bytesOf(map.visible) });
  }
  return decodedMaps.get(path);
}

const spanOf = (text, size) => (text ?? `0:${size}`).split(":").map(Number);

/** A pooled map, which is given as a whole however small a picture of it is asked for. */
function pooledOf({ shape, of, bits, ...pictures }, how) {
  const facts = { shape, rows: [0, of[0]], columns: [0, of[1]], exact: false, values: "pooled", dtype: "float16", how };
  return new Blob([`${JSON.stringify(facts)}\n`, pictures[how] ?? pictures.mean, bits]);
}

/** A window of a map in the form of the data route: a line of JSON, the weights, one bit of visibility per weight. */
function windowOf(path, query) {
  const map = wholeMap(path);
  if (map.of) return pooledOf(map, query.get("how"));
  const { shape, weights, bits } = map;
  const [r0, r1] = spanOf(query.get("rows"), shape[0]);
  const [c0, c1] = spanOf(query.get("columns"), shape[1]);
  const [height, width] = [r1 - r0, c1 - c0];
  const values = new Float32Array(height * width);
  const seen = new Uint8Array(Math.ceil((height * width) / 8));
  for (let row = 0; row < height; row++) {
    for (let column = 0; column < width; column++) {
      const from = (row + r0) * shape[1] + column + c0;
      const to = row * width + column;
      values[to] = weights[from];
      if ((bits[from >> 3] >> (7 - (from & 7))) & 1) seen[to >> 3] |= 1 << (7 - (to & 7));
    }
  }
  const header = { shape: [height, width], rows: [r0, r1], columns: [c0, c1], exact: true, dtype: "float32", how: query.get("how") };
  return new Blob([`${JSON.stringify(header)}\n`, values, seen]);
}

/** Stands before the browser's own: nothing is asked of any network. */
async function fetch(path) {
  const [place, query] = path.split("?");
  if (place in kept.maps) return new Response(windowOf(place, new URLSearchParams(query)));
  const table = /^data\/([^/]+)\/tokens\.json$/.exec(place);
  if (table && table[1] in kept.tokens) return new Response(JSON.stringify(kept.tokens[table[1]]));
  throw new Error("This file holds no such part.");
}

for (const [name, message] of Object.entries(kept.views)) {
  drawViewer({
    data: message,
    parentElement: document.getElementById(name),
    setStateValue: () => {},
    setTriggerValue: () => {},
  });
}
