// The picture as a file, and its numbers as a table: PNG and SVG as on the screen, CSV and a table of the same window.

const PNG_SCALE = 2;
const MOST_DRAWN = 2500; // cells that become shapes of their own in an SVG; more are an embedded picture
const MOST_LISTED = 400; // rows of the table on the page
const TABLE_SIDE = 256; // cells per side that are fetched exactly for a table; a larger window comes in blocks
const FORMULA = /^[ \u00a0\ufeff]*[=+\-@\t\r\n|%＝＋－＠]/; // what a spreadsheet would take for a formula

/** The menu "Save" and the table under the maps. `viewer` is a MapViewer. */
class Saver {
  constructor(viewer) {
    this.viewer = viewer;
    this.element = make("details", "hw-save");
    this.element.append(make("summary", "hw-button", "Save"));
    const menu = make("div", "hw-save-menu");
    for (const [label, act] of [["PNG", () => this.png()], ["SVG", () => this.svg()], ["CSV", () => this.csv()]]) {
      menu.append(viewer.button(label, () => this.attempt(label, act), `Save what is shown as ${label}`));
    }
    this.tableButton = viewer.button("Table", () => this.toggleTable(), "Show the numbers of this window as a table");
    menu.append(this.tableButton);
    this.element.append(menu);
    this.table = make("div", "hw-table");
    this.table.tabIndex = 0;
    this.table.hidden = true;
  }

  async attempt(what, act) {
    try {
      await act();
    } catch (error) {
      this.viewer.say(`${what} could not be made: ${error.message}`);
    }
  }

  fileName(ending) {
    const { viewer } = this;
    const names = viewer.panes.map((pane) => viewer.fullTitle(pane).replaceAll(" ", "-"));
    return `head-${names.join("-")}.${ending}`;
  }

  download(blob, ending) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = this.fileName(ending);
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  }

  /** All maps as they stand on the screen, drawn anew at twice the pixels. */
  async png() {
    const { viewer } = this;
    const whole = viewer.maps.getBoundingClientRect();
    const canvas = document.createElement("canvas");
    canvas.width = Math.ceil(whole.width * PNG_SCALE);
    canvas.height = Math.ceil(whole.height * PNG_SCALE);
    const context = canvas.getContext("2d");
    context.scale(PNG_SCALE, PNG_SCALE);
    context.fillStyle = viewer.theme.background;
    context.fillRect(0, 0, whole.width, whole.height);
    for (const pane of viewer.panes) {
      const box = pane.box.getBoundingClientRect();
      context.save();
      context.translate(box.left - whole.left, box.top - whole.top);
      viewer.drawPaneOn(context, pane);
      viewer.drawMarks(context);
      context.fillStyle = viewer.theme.text;
      context.font = `600 ${viewer.sizes.small}`;
      context.textAlign = "left";
      context.textBaseline = "top";
      context.fillText(viewer.fullTitle(pane), 2, 2);
      context.restore();
    }
    const blob = await new Promise((done) => canvas.toBlob(done, "image/png"));
    if (!blob) throw new Error("the browser gave an empty picture.");
    this.download(blob, "png");
  }

  svg() {
    this.download(new Blob([this.svgText()], { type: "image/svg+xml" }), "svg");
  }

  svgText() {
    const { viewer } = this;
    const whole = viewer.maps.getBoundingClientRect();
    const parts = viewer.panes.map((pane) => {
      const box = pane.box.getBoundingClientRect();
      return `<g transform="translate(${round(box.left - whole.left)} ${round(box.top - whole.top)})">${this.paneSvg(pane)}</g>`;
    });
    const [width, height] = [Math.ceil(whole.width), Math.ceil(whole.height)];
    return (
      `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}">` +
      `<rect width="100%" height="100%" fill="${viewer.theme.background}"/>${parts.join("")}</svg>`
    );
  }

  /** One map: text as text, cells as shapes where they are few, else as an embedded picture. */
  paneSvg(pane) {
    const { viewer } = this;
    const { plot } = viewer;
    const drawn = new SvgContext(viewer.base2d());
    const [r0, r1, c0, c1] = viewer.view;
    const few = pane.source.exact && (r1 - r0) * (c1 - c0) <= MOST_DRAWN && (pane.level ?? 0) === 0;
    if (few) this.cells(drawn, pane);
    else drawn.image(viewer.mapPicture(pane), plot);
    viewer.drawFrame(drawn, pane);
    drawn.font = `600 ${viewer.sizes.small}`;
    drawn.fillStyle = viewer.theme.text;
    drawn.textAlign = "left";
    drawn.textBaseline = "top";
    drawn.fillText(viewer.fullTitle(pane), 2, 2);
    return drawn.parts.join("");
  }

  cells(drawn, pane) {
    const { viewer } = this;
    const { plot, theme } = viewer;
    const place = viewer.place();
    const tiles = viewer.layers(pane).reverse();
    const paint = viewer.paintOf(pane);
    const [r0, r1, c0, c1] = viewer.view;
    drawn.fillStyle = theme.hidden;
    drawn.fillRect(plot.x, plot.y, plot.width, plot.height);
    for (let row = Math.floor(r0); row < r1; row++) {
      for (let key = Math.floor(c0); key < c1; key++) {
        const cell = readTiles(tiles, row, key);
        if (!cell || !cell.visible) continue;
        const [x, y] = [Math.max(place.x(key), plot.x), Math.max(place.y(row), plot.y)];
        const [right, bottom] = [Math.min(place.x(key + 1), plot.x + plot.width), Math.min(place.y(row + 1), plot.y + plot.height)];
        const odd = !Number.isFinite(cell.value);
        const rgb = odd ? paint.ramp.background : paint.ramp.rgb[paint.step(cell.value, rowTop(paint, cell))];
        drawn.fillStyle = paint.hides(key, key + 1) ? theme.hiddenKey : css(rgb);
        drawn.fillRect(x, y, right - x, bottom - y);
        if (!odd) continue;
        drawn.strokeStyle = Number.isNaN(cell.value) ? NOT_A_NUMBER : INFINITE;
        drawn.strokeRect(x + 1, y + 1, right - x - 2, bottom - y - 2);
      }
    }
    drawNumbers(drawn, place, viewer.view, tiles, paint);
  }

  // ------------------------------------------------------------------ numbers

  /** The window's cells, or blocks of cells: fetched exactly where it is small enough. */
  async window() {
    const { viewer } = this;
    const { source } = viewer.panes[0];
    const [r0, c0] = [Math.floor(viewer.view[0]), Math.floor(viewer.view[2])];
    const [r1, c1] = [Math.ceil(viewer.view[1]), Math.ceil(viewer.view[3])];
    const all = source.exact ? [r0, r1, c0, c1] : [0, source.rows, 0, source.columns];
    const side = source.exact ? TABLE_SIDE : OVERVIEW;
    const answers = viewer.panes[0].paths(source.path(...all, side)).map(async (path) => {
      const answer = await fetch(path);
      if (!answer.ok) throw new Error(await reasonOf(answer));
      return decodeTile(await answer.arrayBuffer());
    });
    const [own, other] = await Promise.all(answers);
    return other ? differenceTile(own, other) : own;
  }

  /** Rows of numbers: first and last query, first and last key, their labels, the weight, whether it is visible. */
  rows(tile) {
    const { query, key } = this.viewer.tokens;
    const found = [];
    for (let p = 0, at = 0; p < tile.height; p++) {
      const rows = blockEdges(p, tile.rows[1] - tile.rows[0], tile.height).map((edge) => edge + tile.rows[0]);
      for (let q = 0; q < tile.width; q++, at++) {
        const keys = blockEdges(q, tile.columns[1] - tile.columns[0], tile.width).map((edge) => edge + tile.columns[0]);
        const seen = tile.visible[at] === 1;
        found.push([rows[0], rows[1] - 1, keys[0], keys[1] - 1, query.label(rows[0]), key.label(keys[0]), tile.values[at], seen]);
      }
    }
    return found;
  }

  async csv() {
    const rows = this.rows(await this.window());
    const quantity = this.viewer.panes[0].minus ? "difference" : "weight";
    const lines = [`query,last_query,key,last_key,query_token,key_token,${quantity},visible`];
    for (const [q0, q1, k0, k1, from, to, value, seen] of rows) {
      lines.push([q0, q1, k0, k1, csvText(from), csvText(to), seen ? value : "", seen].join(","));
    }
    this.download(new Blob([`${lines.join("\r\n")}\r\n`], { type: "text/csv;charset=utf-8" }), "csv");
  }

  toggleTable() {
    this.table.hidden = !this.table.hidden;
    this.tableButton.setAttribute("aria-pressed", !this.table.hidden);
    if (!this.table.hidden) this.attempt("The table", () => this.showTable());
  }

  /** The numbers of the window as they are now: all of few cells, the largest of many. */
  async showTable() {
    const all = this.rows(await this.window()).filter((row) => row[7]);
    const many = all.length > MOST_LISTED;
    const size = (row) => (Number.isNaN(row[6]) ? Infinity : Math.abs(row[6]));
    const listed = many ? [...all].sort((a, b) => size(b) - size(a)).slice(0, MOST_LISTED) : all;
    const { viewer } = this;
    const blocks = listed.some(([q0, q1, k0, k1]) => q1 > q0 || k1 > k0);
    const what = blocks ? `${viewer.look.how} weights of blocks` : "weights";
    const which = many ? `the ${MOST_LISTED} largest of ${all.length} visible ${what}` : `all ${all.length} visible ${what}`;
    const table = make("table", "");
    table.append(make("caption", "", `${viewer.fullTitle(viewer.panes[0])}: ${which} in this window`));
    const span = (first, last) => (last > first ? `${first}–${last}` : `${first}`);
    const line = (tag, cells) => {
      const row = make("tr", "");
      row.append(...cells.map((cell) => make(tag, "", cell)));
      return row;
    };
    table.append(line("th", ["query", "token", "key", "token", viewer.panes[0].minus ? "difference" : "weight"]));
    for (const [q0, q1, k0, k1, from, to, value] of listed) {
      table.append(line("td", [span(q0, q1), from, span(k0, k1), to, signedNumber(value)]));
    }
    this.table.replaceChildren(table);
  }
}

const round = (value) => Math.round(value * 100) / 100;
const signedNumber = (value) => (value < 0 ? `−${number(-value, 4)}` : number(value, 4));

function csvText(text) {
  const safe = FORMULA.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

function xmlText(text) {
  const kept = text.replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, "\ufffd");
  return kept.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");
}

const ANCHORS = { left: "start", right: "end", center: "middle" };
const BASELINES = { middle: "central", top: "text-before-edge", alphabetic: "auto" };

/** Takes the drawing calls of the axes and numbers and keeps them as SVG. Texts are measured on a real canvas. */
class SvgContext {
  constructor(context) {
    this.context = context;
    this.parts = [];
    this.moves = [];
    this.path = "";
    Object.assign(this, { fillStyle: "#000", strokeStyle: "#000", font: "", textAlign: "left", textBaseline: "alphabetic", lineWidth: 1 });
  }

  measureText(text) {
    this.context.font = this.font;
    return this.context.measureText(text);
  }

  get transform() {
    return this.moves.length ? ` transform="${this.moves.join(" ")}"` : "";
  }

  save() {
    this.kept = [...this.moves];
  }

  restore() {
    this.moves = this.kept || [];
  }

  translate(x, y) {
    this.moves.push(`translate(${round(x)} ${round(y)})`);
  }

  rotate(angle) {
    this.moves.push(`rotate(${round((angle * 180) / Math.PI)})`);
  }

  beginPath() {
    this.path = "";
  }

  moveTo(x, y) {
    this.path += `M${round(x)} ${round(y)}`;
  }

  lineTo(x, y) {
    this.path += `L${round(x)} ${round(y)}`;
  }

  stroke() {
    this.parts.push(`<path d="${this.path}" fill="none" stroke="${this.strokeStyle}"${this.transform}/>`);
  }

  fill() {
    this.parts.push(`<path d="${this.path}" fill="${this.fillStyle}"${this.transform}/>`);
  }

  rectangle(x, y, width, height, how) {
    const size = `width="${round(Math.max(width, 0))}" height="${round(Math.max(height, 0))}"`;
    this.parts.push(`<rect x="${round(x)}" y="${round(y)}" ${size} ${how}${this.transform}/>`);
  }

  fillRect(x, y, width, height) {
    this.rectangle(x, y, width, height, `fill="${this.fillStyle}"`);
  }

  strokeRect(x, y, width, height) {
    this.rectangle(x, y, width, height, `fill="none" stroke="${this.strokeStyle}"`);
  }

  fillText(text, x, y) {
    const font = /^(600 )?([\d.]+)px (.*)$/.exec(this.font) || [];
    const how = [
      `x="${round(x)}" y="${round(y)}" fill="${this.fillStyle}"`,
      `text-anchor="${ANCHORS[this.textAlign]}" dominant-baseline="${BASELINES[this.textBaseline] || "auto"}"`,
      `font-size="${font[2] || 11}" font-family="${xmlText(font[3] || "sans-serif")}" font-weight="${font[1] ? 600 : 400}"`,
    ];
    this.parts.push(`<text ${how.join(" ")}${this.transform} xml:space="preserve">${xmlText(text)}</text>`);
  }

  image(address, { x, y, width, height }) {
    this.parts.push(`<image x="${x}" y="${y}" width="${width}" height="${height}" href="${address}"/>`);
  }
}
