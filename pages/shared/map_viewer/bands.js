// Pictures among words: on the axes they stand by their name, and their columns can be left out.

/** The picture's positions in a text; none where the axis is all picture, or has none. */
function pictureKeys(tokens) {
  const pictures = tokens.segments.filter((one) => one.kind === "picture");
  if (pictures.length === tokens.segments.length) return [];
  return pictures.flatMap(({ start, end }) => Array.from({ length: end - start }, (_, at) => start + at));
}

/** The pictures that stand on an axis by their name: all in view, but one that fills the window. */
function namedBands(tokens, start, stop) {
  if (!pictureKeys(tokens).length) return [];
  const shown = tokens.segments.filter((one) => one.kind === "picture" && one.start < stop && one.end > start);
  return shown.filter((one) => start < one.start || stop > one.end);
}

const within = (bands, index) => bands.some((one) => one.start <= index && index < one.end);

/** The middle and the length, in pixels, of what is in view of a band. */
function bandPlace(band, start, stop, origin, length) {
  const [a, b] = [Math.max(band.start, start), Math.min(band.end, stop)];
  const scale = length / (stop - start);
  return { middle: origin + ((a + b) / 2 - start) * scale, length: (b - a) * scale };
}

/** The names of the pictures, in place of a label for each of their tokens. */
function drawBandNames(context, plot, view, tokens, theme, sizes) {
  context.font = sizes.label;
  context.fillStyle = theme.text;
  context.textBaseline = "middle";
  for (const band of namedBands(tokens.key, view[2], view[3])) {
    const { middle, length } = bandPlace(band, view[2], view[3], plot.x, plot.width);
    if (length < sizes.step) continue;
    const flat = context.measureText(band.name).width <= length;
    context.save();
    context.translate(middle, plot.y - BAND - 7);
    if (!flat) context.rotate(-Math.PI / 2);
    context.textAlign = flat ? "center" : "left";
    context.fillText(flat ? band.name : fitText(context, band.name, plot.y - BAND - 8), 0, 0);
    context.restore();
  }
  context.textAlign = "right";
  for (const band of namedBands(tokens.query, view[0], view[1])) {
    const { middle, length } = bandPlace(band, view[0], view[1], plot.y, plot.height);
    if (length < sizes.step) continue;
    context.fillText(fitText(context, band.name, plot.x - BAND - 8), plot.x - BAND - 7, middle);
  }
}
