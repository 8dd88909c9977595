// Small tools of all scripts: elements, addresses, hatching.

/** An element with a class and literal text. Text is never read as HTML. */
function make(tag, className, text) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
}

/** The address of "data/...", also under a prefix: this script itself is data/scripts/NAME.js of the app. */
function address(path) {
  return new URL(`../../${path}`, import.meta.url).href;
}

/** The look of cells a query may not see: grey with slanted lines, never the colour of zero. */
function hatchPattern(context, theme) {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 8;
  const brush = tile.getContext("2d");
  brush.fillStyle = theme.hidden;
  brush.fillRect(0, 0, 8, 8);
  brush.strokeStyle = theme.hatch;
  brush.lineWidth = 1;
  for (const shift of [-8, 0, 8]) {
    brush.beginPath();
    brush.moveTo(shift, 8);
    brush.lineTo(shift + 8, 0);
    brush.stroke();
  }
  return context.createPattern(tile, "repeat");
}
