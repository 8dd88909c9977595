// The grid as a picture to save: all heads, those out of sight too; names as text, cells as one embedded picture.

const SHARP = 2; // pixels of the embedded picture per pixel of the screen
const EDGE = 8;
const TITLE = 26; // pixels above the heads, and below them

/** Resolves once a small map is there, or is known to be missing. */
function pictureLoaded(picture) {
  if (!picture.src) picture.src = picture.dataset.address;
  return picture.decode().catch(() => null);
}

/** {text, width, height} of the whole grid. `grid` is a HeadGrid. */
async function gridPicture(grid) {
  await Promise.all([...grid.body.querySelectorAll("img")].map(pictureLoaded));
  const corner = grid.body.getBoundingClientRect();
  const top = TITLE + grid.head.offsetHeight;
  const at = (element) => {
    const box = element.getBoundingClientRect();
    return { x: box.left - corner.left + EDGE, y: box.top - corner.top + top, width: box.width, height: box.height };
  };
  const [width, height] = [Math.ceil(Math.max(corner.width + 2 * EDGE, 320)), Math.ceil(corner.height + top + TITLE)];
  const svg = shape("svg", { width, height, viewBox: `0 0 ${width} ${height}` });
  const ink = css(grid.text);
  const words = (x, y, text, more) => shape("text", { x, y, fill: ink, "font-family": "sans-serif", "font-size": 11, ...more }, text);
  svg.append(shape("rect", { width, height, fill: css(grid.background) }));
  svg.append(words(EDGE, 17, `${grid.scroll.getAttribute("aria-label").split(".")[0]}.`, { "font-size": 13 }));
  svg.append(shape("image", { width, height, href: gridCells(grid, width, height, at) }));
  for (const name of grid.frame.querySelectorAll(".hg-label, .hg-number")) {
    const box = at(name);
    if (name.textContent) svg.append(words(box.x + box.width / 2, box.y + box.height / 2 + 4, name.textContent, { "text-anchor": "middle" }));
  }
  svg.append(words(EDGE, height - 9, grid.bar.textContent));
  return { text: standalone(svg), width, height };
}

/** The cells alone, veiled where they are on the screen, as the address of a picture. */
function gridCells(grid, width, height, at) {
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [width * SHARP, height * SHARP];
  const context = canvas.getContext("2d");
  context.scale(SHARP, SHARP);
  for (const strip of grid.body.querySelectorAll(".hg-strip, .hg-single")) {
    const box = at(strip);
    context.save();
    context.beginPath();
    context.rect(box.x, box.y, box.width, box.height);
    context.clip();
    for (const cells of strip.querySelectorAll("img, canvas")) {
      const { x, y, width: wide, height: high } = at(cells);
      context.drawImage(cells, x, y, wide, high);
    }
    for (const veil of strip.querySelectorAll(".hg-veil")) {
      const { x, y, width: wide, height: high } = at(veil);
      const style = getComputedStyle(veil);
      context.globalAlpha = Number(style.opacity);
      context.fillStyle = style.backgroundColor;
      context.fillRect(x, y, wide, high);
      context.globalAlpha = 1;
    }
    context.restore();
  }
  return canvas.toDataURL("image/png");
}
