// What stands around the map: token labels that never overlap, segment bands, the colour bar, hatching.

const MARGIN = { left: 92, top: 76, right: 10, bottom: 36 };
const BAND = 6; // thickness of a segment band
const LABEL_STEP = 13; // least distance of two labels, in pixels
const LABEL_FAMILY = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace";
const BAR_STEPS = 128; // colours of the bar
const LARGE = 1.4; // for a lecture hall

/** Sizes of what stands around a map; `large` for the last row of a lecture hall; less room for labels among many. */
function makeSizes(large, maps = 1) {
  const by = large ? LARGE : 1;
  const wanted = maps > 2 ? { ...MARGIN, left: 76, top: 62 } : MARGIN;
  const margin = Object.fromEntries(Object.entries(wanted).map(([side, pixels]) => [side, Math.round(pixels * by)]));
  return { margin, step: LABEL_STEP * by, label: `${11 * by}px ${LABEL_FAMILY}`, small: `${11 * by}px system-ui, sans-serif`, by };
}

const fitted = new Map(); // font, width and text -> the text cut; labels are fitted again with every frame of a drag
const MOST_FITTED = 4000;

/** A text cut in its middle until it fits, so that two long tokens with the same start stay apart. */
function fitText(context, text, width) {
  const key = `${context.font}|${Math.round(width)}|${text}`;
  if (!fitted.has(key)) {
    if (fitted.size >= MOST_FITTED) fitted.clear();
    fitted.set(key, cutText(context, text, Math.round(width)));
  }
  return fitted.get(key);
}

function cutText(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  const letters = Array.from(text);
  for (let kept = Math.min(letters.length - 1, 40); kept > 1; kept--) {
    const head = Math.ceil(kept / 2);
    const short = `${letters.slice(0, head).join("")}…${letters.slice(letters.length - (kept - head)).join("")}`;
    if (context.measureText(short).width <= width) return short;
  }
  return "…";
}

/** Every how many tokens a label fits: 1, 2, 5, 10, 20 ... */
function labelStep(cellSize, least) {
  for (let power = 1; ; power *= 10) {
    for (const step of [1, 2, 5]) if (step * power * cellSize >= least) return step * power;
  }
}

/** Labels of one axis: [{index, at}] with `at` the pixel of the middle of the token's cell. */
function axisLabels(start, stop, origin, length, least) {
  const cell = length / (stop - start);
  const step = labelStep(cell, least);
  const labels = [];
  for (let index = Math.ceil(Math.floor(start) / step) * step; index < stop; index += step) {
    const at = origin + (index + 0.5 - start) * cell;
    if (at >= origin && at <= origin + length) labels.push({ index, at });
  }
  return { step, labels };
}

/** Whether positions stand before the labels: always where tokens are left out between, else where all of them fit. */
function numbered(context, tokens, { step, labels }, width) {
  const whole = ({ index }) => context.measureText(`${index} ${tokens.label(index)}`).width;
  return step > 1 || labels.every((label) => whole(label) <= width);
}

/** A label as wide as there is room; its position stays whole. */
function axisText(context, tokens, index, withPosition, width) {
  const position = withPosition ? `${index} ` : "";
  return position + fitText(context, tokens.label(index), width - context.measureText(position).width);
}

/** The key axis (top) and the query axis (left). */
function drawAxes(context, plot, view, tokens, theme, sizes) {
  context.font = sizes.label;
  context.fillStyle = theme.text;
  context.strokeStyle = theme.line;
  context.textBaseline = "middle";
  const keys = axisLabels(view[2], view[3], plot.x, plot.width, sizes.step);
  const room = { key: plot.y - BAND - 8, query: plot.x - BAND - 8 };
  const keysNumbered = numbered(context, tokens.key, keys, room.key);
  const named = { key: namedBands(tokens.key, view[2], view[3]), query: namedBands(tokens.query, view[0], view[1]) };
  for (const { index, at } of keys.labels) {
    if (within(named.key, index)) continue;
    tick(context, at, plot.y - BAND - 5, at, plot.y - BAND - 1);
    context.save();
    context.translate(at, plot.y - BAND - 7);
    context.rotate(-Math.PI / 2);
    context.textAlign = "left";
    context.fillText(axisText(context, tokens.key, index, keysNumbered, room.key), 0, 0);
    context.restore();
  }
  const queries = axisLabels(view[0], view[1], plot.y, plot.height, sizes.step);
  const queriesNumbered = numbered(context, tokens.query, queries, room.query);
  context.textAlign = "right";
  for (const { index, at } of queries.labels) {
    if (within(named.query, index)) continue;
    tick(context, plot.x - BAND - 5, at, plot.x - BAND - 1, at);
    context.fillText(axisText(context, tokens.query, index, queriesNumbered, room.query), plot.x - BAND - 7, at);
  }
  context.font = `600 ${sizes.small}`;
  context.fillText("key →", plot.x - 14, plot.y - 16 - 18 * sizes.by);
  context.fillText("query ↓", plot.x - 14, plot.y - 16);
  context.strokeRect(plot.x - 0.5, plot.y - 0.5, plot.width + 1, plot.height + 1);
}

function tick(context, x0, y0, x1, y1) {
  context.beginPath();
  context.moveTo(x0, y0);
  context.lineTo(x1, y1);
  context.stroke();
}

/** One coloured strip along each axis, one colour per segment; names are told on hover. */
function drawBands(context, plot, view, tokens) {
  for (const [side, start, stop, across] of [["query", view[0], view[1], false], ["key", view[2], view[3], true]]) {
    const segments = tokens[side].segments;
    if (segments.length < 2) continue;
    const length = across ? plot.width : plot.height;
    const scale = length / (stop - start);
    segments.forEach((segment, order) => {
      const a = Math.max(0, (segment.start - start) * scale);
      const b = Math.min(length, (segment.end - start) * scale);
      if (b <= a) return;
      context.fillStyle = SEGMENT_COLOURS[order % SEGMENT_COLOURS.length];
      const size = Math.max(b - a - 1, 1);
      if (across) context.fillRect(plot.x + a, plot.y - BAND, size, BAND - 2);
      else context.fillRect(plot.x - BAND, plot.y + a, BAND - 2, size);
    });
  }
}

/** Marks the hidden keys on the key axis. */
function drawHiddenMarks(context, plot, view, hidden, theme) {
  const scale = plot.width / (view[3] - view[2]);
  context.fillStyle = theme.sink;
  for (const key of hidden) {
    const at = plot.x + (key + 0.5 - view[2]) * scale;
    if (at < plot.x - 1 || at > plot.x + plot.width + 1) continue;
    context.beginPath();
    context.moveTo(at - 4, plot.y - BAND - 4);
    context.lineTo(at + 4, plot.y - BAND - 4);
    context.lineTo(at, plot.y - 1);
    context.fill();
  }
}

/** The colour bar under the map, with numbers. */
function drawColourBar(context, plot, scale, ramp, theme, sizes) {
  const y = plot.y + plot.height + 8;
  const width = plot.width;
  const steps = Math.min(Math.round(width), BAR_STEPS);
  for (let step = 0; step < steps; step++) {
    context.fillStyle = ramp.css[rampStep(scale.share(scale.valueAt(step / (steps - 1))))];
    context.fillRect(plot.x + (step * width) / steps, y, width / steps + 0.5, 9);
  }
  context.strokeStyle = theme.line;
  context.strokeRect(plot.x - 0.5, y - 0.5, width + 1, 10);
  context.font = sizes.small;
  context.fillStyle = theme.text;
  context.textBaseline = "top";
  const few = width < 200 ? scale.ticks.filter((_, at) => at % 2 === 0) : scale.ticks;
  few.forEach(([share, text], order) => {
    context.textAlign = order === 0 ? "left" : order === few.length - 1 ? "right" : "center";
    context.fillText(text, plot.x + share * width, y + 13);
  });
  context.textAlign = "right";
  context.fillText(fitText(context, scale.name, plot.x - 10), plot.x - 8, y - 2);
}
