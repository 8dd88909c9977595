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
  const packed = new Uint32Array(rgb.map(pack));
  return { name, dark, rgb, packed, background };
}

/** One opaque pixel as it lies in ImageData on the little-endian machines browsers run on. */
function pack(rgb) {
  const [r, g, b] = rgb.map(Math.round);
  return ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
}

/**
 * A scale turns a weight into a share 0..1 of the ramp. `mode`: "root" (square root, as the small maps of all heads),
 * "linear", "log", or "row" (share of the row's top).
 */
function makeScale(mode, low, high) {
  const top = high > 0 ? high : 1;
  if (mode === "root") return { mode, low: 0, high: top, share: (value) => Math.sqrt(Math.max(value, 0) / top) };
  if (mode !== "log") return { mode, low: 0, high: top, share: (value) => value / top };
  const bottom = Math.min(low > 0 ? low : top / 1e3, top / 10);
  const span = Math.log(top / bottom);
  // Positive weights start a little above zero's own colour, so that "small" and "zero" look different.
  const share = (value) => (value <= 0 ? 0 : BLEND / 2 + (1 - BLEND / 2) * Math.max(0, Math.log(value / bottom) / span));
  return { mode, low: bottom, high: top, share };
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
const shortNumber = (value) => (value === 0 ? "0" : value < 1e-3 ? value.toExponential(0) : String(Number(value.toPrecision(2))));

/** A weight inside a cell: as short as it can be. */
function cellNumber(value, width) {
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return "inf";
  if (value === 0) return "0";
  if (width > 64) return number(value, 3).replace(/^0\./, ".");
  if (value < 0.0005) return width > 50 ? value.toExponential(0) : "·";
  return value.toFixed(width > 44 ? 3 : 2).replace(/^0/, "");
}

const percent = (value) => (value >= 0.0995 ? `${Math.round(value * 100)} %` : `${(value * 100).toPrecision(2)} %`);
