// Colour and numbers: from a weight to a colour, and from a weight to the text a person reads.

// Anchors from dark to light. In a light theme a ramp runs light to dark, in a dark theme dark to light, and its
// first part grows out of the page's own background, so that a weight of zero is the background.
const PALETTES = {
  cividis: ["#00224e", "#123570", "#3b496c", "#575d6d", "#707173", "#8a8678", "#a59c74", "#c3b369", "#e1cc55", "#fdea45"],
  viridis: ["#440154", "#482878", "#3e4989", "#31688e", "#26828e", "#1f9e89", "#35b779", "#6ece58", "#b5de2b", "#fde725"],
  greys: ["#000000", "#1c1c1c", "#383838", "#555555", "#717171", "#8d8d8d", "#aaaaaa", "#c6c6c6", "#e2e2e2", "#ffffff"],
};
const SEGMENT_COLOURS = ["#4c78a8", "#e0a030", "#54a24b", "#b07aa1", "#72b7b2", "#8c6d31", "#9aa0a6", "#d67195"];
const NOT_A_NUMBER = "#ff00ff";
const INFINITE = "#ff2020";
const SELECTED = "#e4572e";
const BLEND = 0.12; // share of the ramp that grows out of the background
const RAMP_STEPS = 512;

function toRgb(text) {
  const value = text.trim();
  if (/^#[0-9a-f]{6}/i.test(value)) return [1, 3, 5].map((at) => parseInt(value.slice(at, at + 2), 16));
  if (/^#[0-9a-f]{3}$/i.test(value)) return [1, 2, 3].map((at) => parseInt(value[at] + value[at], 16));
  const numbers = value.match(/[\d.]+/g);
  return numbers && numbers.length >= 3 ? numbers.slice(0, 3).map(Number) : [255, 255, 255];
}

const mix = (from, to, share) => from.map((value, i) => value + (to[i] - value) * share);
const luminance = ([r, g, b]) => (0.299 * r + 0.587 * g + 0.114 * b) / 255;
const css = (rgb) => `rgb(${rgb.map(Math.round).join(",")})`;

/** The colours of one theme and palette: RAMP_STEPS packed pixels and the same as css text. */
function makeRamp(name, background) {
  const dark = luminance(background) < 0.5;
  const anchors = (PALETTES[name] || PALETTES.cividis).map(toRgb);
  if (!dark) anchors.reverse();
  const rgb = Array.from({ length: RAMP_STEPS }, (_, step) => {
    const t = step / (RAMP_STEPS - 1);
    const at = Math.min(t * (anchors.length - 1), anchors.length - 1.000001);
    const colour = mix(anchors[Math.floor(at)], anchors[Math.floor(at) + 1], at % 1);
    return t < BLEND ? mix(background, colour, t / BLEND) : colour;
  });
  return { name, dark, rgb, css: rgb.map(css), packed: new Uint32Array(rgb.map(pack)), background };
}

/** One opaque pixel as it lies in ImageData on the little-endian machines browsers run on. */
function pack(rgb) {
  const [r, g, b] = rgb.map(Math.round);
  return ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
}

/** The colours of a difference: blue below zero, the page's background at zero, orange above. */
function makeDiverging(background) {
  const dark = luminance(background) < 0.5;
  const [below, above] = (dark ? ["#6cb4f0", "#ff9e45"] : ["#0b559f", "#b35000"]).map(toRgb);
  const rgb = Array.from({ length: RAMP_STEPS }, (_, step) => {
    const t = (2 * step) / (RAMP_STEPS - 1) - 1;
    return mix(background, t < 0 ? below : above, Math.abs(t));
  });
  return { name: "diverging", dark, rgb, css: rgb.map(css), packed: new Uint32Array(rgb.map(pack)), background };
}

/**
 * A scale turns a weight into a share 0..1 of the ramp. `mode`: "root" (square root, as the small maps of all heads),
 * "linear", "log", "row" (share of the row's top) or "quantile" (share of the weights in view that are smaller, from
 * `steps`, equally many weights between two of them). Weights below `threshold` count as zero.
 */
function makeScale(mode, low, high, steps = [], threshold = 0) {
  const top = high > 0 ? high : 1;
  const made = SCALE_MAKERS[mode === "quantile" && steps.length < 2 ? "root" : mode](top, low, steps);
  const share = (value) => (value < threshold ? 0 : made.share(value));
  return { mode, low: 0, high: top, name: "weight", ...made, share, threshold, id: `${threshold},${steps}` };
}

const PLACES = [0, 0.25, 0.5, 0.75, 1];
// Positive weights start a little above zero's own colour, so that "small" and "zero" look different.
const aboveZero = (share) => BLEND / 2 + (1 - BLEND / 2) * Math.max(0, share);

const SCALE_MAKERS = {
  root: (top) => ({
    share: (value) => Math.sqrt(Math.max(value, 0) / top),
    valueAt: (place) => place * place * top,
    ticks: PLACES.map((place) => [place, shortNumber(place * place * top)]),
  }),
  linear: (top) => ({
    share: (value) => value / top,
    valueAt: (place) => place * top,
    ticks: PLACES.map((place) => [place, shortNumber(place * top)]),
  }),
  row: () => ({
    name: "of row top",
    share: (value) => value,
    valueAt: (place) => place,
    ticks: [[0, "0"], [0.5, "50 %"], [1, "100 % (in view)"]],
  }),
  log: (top, low) => {
    const bottom = Math.min(low > 0 ? low : top / 1e3, top / 10);
    const span = Math.log(top / bottom);
    const middle = Math.sqrt(bottom * top);
    return {
      low: bottom,
      share: (value) => (value <= 0 ? 0 : aboveZero(Math.log(value / bottom) / span)),
      valueAt: (place) => (place < 0.02 ? 0 : bottom * Math.exp(place * span)), // the first sliver is zero's own colour
      ticks: [[0, `0 | ≤ ${shortNumber(bottom)}`], [0.5, shortNumber(middle)], [1, shortNumber(top)]],
    };
  },
  quantile: (top, low, steps) => ({
    name: "by rank",
    share: (value) => (value <= 0 ? 0 : aboveZero(placeAmong(steps, value))),
    valueAt: (place) => steps[Math.round(place * (steps.length - 1))],
    ticks: PLACES.map((place) => [place, shortNumber(steps[Math.round(place * (steps.length - 1))])]),
  }),
};

/** Where a value lies among rising steps: 0 at the first, 1 at the last. */
function placeAmong(steps, value) {
  let [below, above] = [0, steps.length - 1];
  if (value >= steps[above]) return 1;
  while (above - below > 1) {
    const middle = (below + above) >> 1;
    if (steps[middle] <= value) below = middle;
    else above = middle;
  }
  const width = steps[above] - steps[below];
  const inside = width > 0 ? Math.min(Math.max((value - steps[below]) / width, 0), 1) : 0;
  return (below + inside) / (steps.length - 1);
}

/** The scale of a difference: zero in the middle, `top` at both ends; linear where that is chosen, else by root. */
function makeDifferenceScale(mode, top) {
  const size = top > 0 ? top : 1;
  const [forth, back] = mode === "linear" ? [(x) => x, (x) => x] : [Math.sqrt, (x) => x * x];
  const valueAt = (place) => Math.sign(place - 0.5) * back(Math.abs(2 * place - 1)) * size;
  return {
    mode: "difference",
    name: "difference",
    low: -size,
    high: size,
    threshold: 0,
    id: mode,
    share: (value) => 0.5 + (Math.sign(value) * forth(Math.abs(value) / size)) / 2,
    valueAt,
    ticks: PLACES.map((place) => [place, signed(valueAt(place), shortNumber)]),
  };
}

const rampStep = (share) => (share >= 1 ? RAMP_STEPS - 1 : share <= 0 ? 0 : Math.floor(share * (RAMP_STEPS - 1)));

/** The next 1, 2, 3, 5 or 7 times a power of ten: a scale that ends there seldom changes while one looks around. */
function niceCeiling(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value) + 1e-9);
  for (const step of [1, 2, 3, 5, 7, 10]) if (value <= step * power * (1 + 1e-6)) return step * power;
  return 10 * power;
}

/** A weight in words: `digits` significant digits, nothing rounded away to zero. */
function number(value, digits) {
  if (Number.isNaN(value)) return "not a number";
  if (!Number.isFinite(value)) return value > 0 ? "infinite" : "minus infinite";
  if (value === 0) return "0";
  const size = Math.abs(value);
  return size < 1e-4 || size >= 1e6 ? value.toExponential(digits - 1) : value.toPrecision(digits);
}

/** A number beside a colour bar. */
const signed = (value, say) => (value < 0 ? "−" : value > 0 ? "+" : "") + say(Math.abs(value));
const shortNumber = (value) => (value === 0 ? "0" : value < 1e-3 ? value.toExponential(0) : String(Number(value.toPrecision(2))));

/** A weight inside a cell: as short as it can be. */
function cellNumber(value, width) {
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return "inf";
  if (value === 0) return "0";
  if (value < 0) return `−${cellNumber(-value, width - 6)}`;
  if (width > 64) return number(value, 3).replace(/^0\./, ".");
  if (value < 0.0005) return width > 50 ? value.toExponential(0) : "·";
  return value.toFixed(width > 44 ? 3 : 2).replace(/^0/, "");
}

const percent = (value) => (value >= 0.0995 ? `${Math.round(value * 100)} %` : `${(value * 100).toPrecision(2)} %`);
