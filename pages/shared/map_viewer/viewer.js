// The map viewer: one canvas that behaves like an online map, a readout, and the text beside it.
//
// State: `view` = [first row, last row, first key, last key] in cells, fractions allowed; `focus` = the cell under the
// pointer, else the picked one, else the last row. The page gives data with update(); the viewer reports what the
// person did through `report(name, value)`, and clicks that are no state through `trigger(name, value)`.

const REPORT_MS = 450;
const PROFILE_MS = 50;
const AHEAD_MS = 2000; // how long an answer to an older choice is held back
const CLICK_PIXELS = 4;
const SCALES = [["root", "Root"], ["linear", "Linear"], ["log", "Log"], ["row", "Per row"], ["quantile", "Quantile"]];
const HOWS = [["mean", "Mean"], ["max", "Max"]];
const DIRECTIONS = [["from", "from token"], ["to", "to token"]];
const KEYS_SAID =
  "Arrows move the window once it is zoomed, with Shift the marked cell; plus and minus zoom, 0 or Home shows all, " +
  "l is log colour, s hides sink columns, question mark lists all keys.";
const LEAST_THRESHOLD = 1e-4; // the slider runs from there to 1, by equal factors
const LOOKS = [["zero", "zero"], ["unseen", "not visible"], ["nan", "not a number"], ["infinite", "infinite"]];

const FOLD_SAID = "Leave the picture's columns out of colour and scale; a click on its name beside the map does it too";
const HINT = "Point at the map for a weight, its rank and what uniform attention would give. The wheel zooms, a drag moves, a click keeps the cell.";
const TOLD = {
  Colour:
    "How a weight becomes a colour: by its square root, as it is, by its logarithm, beside the largest of its row, " +
    "or by its rank among the weights in view",
  "From afar": "What a point shows that stands for many weights: their mean, or the largest of them",
  Attention: "Colours the text by where a token looks, or by which tokens look at it",
};

class MapViewer extends MapCanvas {
  constructor(root) {
    super();
    this.root = root;
    this.reported = {}; // name -> values on their way to the page
    const trouble = (what) => (why) => this.say(`The ${what} could not be loaded: ${why} Move the map to try again.`);
    this.store = new TileStore(TILE_BYTES, (path) => this.arrived(path), trouble("map"));
    this.profiles = new TileStore(PROFILE_BYTES, () => this.showFocus(), trouble("row"));
    this.build();
    this.listen();
    this.watcher = new ResizeObserver(() => this.layout());
    this.watcher.observe(this.frame);
  }

  // ---------------------------------------------------------------- building

  build() {
    this.frame = make("div", "hw-viewer");
    this.bar = make("div", "hw-bar");
    this.scaleButtons = this.choice("Colour", SCALES, (value) => this.setLook({ scale: value }));
    this.howButtons = this.choice("From afar", HOWS, (value) => this.setLook({ how: value }));
    this.sinkButton = this.button("Hide sinks", () => this.setLook({ hide: !this.look.hide }));
    this.foldButton = this.button("Leave out picture", () => this.setLook({ fold: !this.look.fold }), FOLD_SAID);
    const zoom = make("div", "hw-zoom");
    zoom.append(
      this.button("−", () => this.zoomAt(2), "Zoom out"),
      this.button("+", () => this.zoomAt(0.5), "Zoom in"),
      this.button("All", () => this.setView(this.whole()), "Show the whole map"),
    );
    this.saver = new Saver(this);
    const colours = [this.scaleButtons.element, this.howButtons.element, this.sinkButton, this.foldButton, this.thresholdChoice()];
    this.bar.append(...colours, zoom, this.saver.element);
    this.left = make("div", "hw-left");
    this.maps = make("div", "hw-maps");
    this.readout = make("div", "hw-readout");
    this.readout.setAttribute("role", "status");
    this.readout.setAttribute("aria-live", "polite");
    this.note = make("div", "hw-note");
    this.mini = make("canvas", "hw-mini");
    this.mini.setAttribute("role", "img");
    this.mini.setAttribute("aria-label", "The whole map, small, with the window framed");
    const said = make("div", "hw-said");
    said.append(this.readout, this.note);
    const under = make("div", "hw-under");
    under.append(this.mini, said);
    this.text = new TextPanel((index) => this.pointText(index), (index) => this.pickText(index));
    this.directions = this.choice("Attention", DIRECTIONS, (value) => this.setLook({ direction: value }));
    this.sentence = make("div", "hw-sentence");
    this.left.append(this.maps, under, this.legend());
    const right = make("div", "hw-right");
    const tools = make("div", "hw-bar");
    tools.append(this.directions.element, this.search());
    right.append(tools, this.sentence, this.text.element);
    const parts = make("div", "hw-parts");
    parts.append(this.left, right);
    this.frame.append(this.bar, parts, this.saver.table);
    this.root.append(this.frame);
  }

  /** A field that frames the tokens with a text; Enter goes from one to the next and marks its row or column. */
  search() {
    const label = make("span", "hw-choice");
    this.searched = make("input", "hw-search");
    Object.assign(this.searched, { type: "search", placeholder: "Search  /" });
    this.searched.setAttribute("aria-label", "Search for a token; Enter goes to the next one");
    const count = make("span", "hw-threshold");
    count.setAttribute("role", "status");
    let [found, at] = [[], -1];
    this.searched.addEventListener("input", () => {
      [found, at] = [this.text.find(this.searched.value.trim()), -1];
      count.textContent = this.searched.value.trim() ? `${found.length}` : "";
    });
    this.searched.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || !found.length) return;
      at = (at + (event.shiftKey ? found.length - 1 : 1)) % found.length;
      count.textContent = `${at + 1} of ${found.length}`;
      const cell = this.textCell(found[at]);
      if (JSON.stringify(cell) !== JSON.stringify(this.pinned)) this.pick(cell);
      this.text.find(this.searched.value.trim());
    });
    label.append(this.searched, count);
    return label;
  }

  /** The four looks a cell can have besides its colour. */
  legend() {
    const legend = make("div", "hw-legend");
    for (const [name, text] of LOOKS) {
      const one = make("span", "hw-legend-entry");
      one.append(make("span", `hw-look hw-look-${name}`), text);
      legend.append(one);
    }
    return legend;
  }

  /** A slider from "none" to 1: weights below it are drawn as zero. */
  thresholdChoice() {
    const label = make("label", "hw-choice");
    label.title = "Weights below it are drawn like zero; numbers on hover are unchanged";
    this.threshold = make("input", "hw-slider");
    Object.assign(this.threshold, { type: "range", min: 0, max: 40, step: 1 });
    this.thresholdSaid = make("span", "hw-threshold");
    this.threshold.addEventListener("input", () => {
      const place = Number(this.threshold.value);
      const value = place === 0 ? 0 : LEAST_THRESHOLD ** (1 - place / 40);
      this.setLook({ threshold: Number(value.toPrecision(2)) });
    });
    label.append(make("span", "hw-choice-label", "Threshold"), this.threshold, this.thresholdSaid);
    return label;
  }

  button(label, action, title) {
    const button = make("button", "hw-button", label);
    button.type = "button";
    if (title) {
      button.title = title;
      button.setAttribute("aria-label", title);
    }
    button.addEventListener("click", action);
    return button;
  }

  choice(label, options, choose) {
    const element = make("div", "hw-choice");
    element.setAttribute("role", "group");
    element.setAttribute("aria-label", label);
    element.append(make("span", "hw-choice-label", label));
    element.title = TOLD[label] ?? "";
    const buttons = options.map(([value, text]) => [value, this.button(text, () => choose(value))]);
    buttons.forEach(([, button]) => element.append(button));
    const show = (chosen) => {
      buttons.forEach(([value, button]) => button.setAttribute("aria-pressed", value === chosen));
    };
    return { element, show };
  }

  // ------------------------------------------------- what the page wants shown

  update(data, report, trigger) {
    this.report = report;
    this.trigger = trigger;
    if (this.waitsFor(data)) return;
    const before = this.data;
    this.data = data;
    this.takeTokens(data);
    const sameShape = before && String(before.shape) === String(data.shape);
    this.look = this.merge("look", data.look);
    this.takePanes(data);
    this.takeWindow(data.window, sameShape);
    if (!sameShape) this.hover = null;
    this.takeCell(data.cell);
    this.readTheme();
    this.showControls();
    this.layout();
    this.showFocus();
  }

  /** The maps of `data` in the window that is on show. */
  show() {
    this.takePanes(this.data);
    this.showControls();
    this.refresh();
    this.showFocus();
  }

  /** Shows a head that was chosen in the grid before the page answers, where its map is known to be like this one. */
  goAhead({ url, layer, head }) {
    const { data } = this;
    const map = `${url.replace("/grid/", "/map/")}/${layer}/${head}`;
    const alike = data?.alike && map.split("/").slice(0, 4).join("/") === data.map.split("/").slice(0, 4).join("/");
    if (!alike || map === data.map || data.minus || data.others.length) return;
    this.ahead = { map, until: performance.now() + AHEAD_MS };
    this.data = { ...data, name: `${layer}.${head}`, map, sinks: [], painted: null };
    this.show();
  }

  /** Whether the page's answer is to an older choice; it is taken after a while all the same. */
  waitsFor(data) {
    clearTimeout(this.timers.late);
    const rest = this.ahead && data.map !== this.ahead.map ? this.ahead.until - performance.now() : 0;
    if (rest > 0) this.timers.late = setTimeout(() => this.update(data, this.report, this.trigger), rest);
    else this.ahead = null;
    return rest > 0;
  }

  /** One pane for the chosen head and for each head beside it. */
  takePanes(data) {
    const maps = [data, ...data.others];
    while (this.panes.length > maps.length) this.panes.pop();
    while (this.panes.length < maps.length) this.panes.push(new Pane());
    if (!this.panes.includes(this.pane)) this.pane = this.panes[0];
    this.panes.forEach((pane, at) => {
      pane.take(maps[at], data.shape, this.look.how);
      if (!pane.element.isConnected) {
        this.maps.append(pane.element);
        this.listenTo(pane);
      }
      const size = `${data.shape[0]} queries down, ${data.shape[1]} keys across`;
      pane.over.setAttribute("aria-label", `Attention map of ${this.fullTitle(pane)}: ${size}. ${KEYS_SAID}`);
      pane.title.replaceChildren(...(maps.length > 1 || pane.minus ? this.titleOf(pane, at, maps[at]) : []));
    });
    for (const element of [...this.maps.children]) {
      if (!this.panes.some((pane) => pane.element === element)) element.remove();
    }
  }

  fullTitle(pane) {
    return pane.minus ? `${pane.name} minus ${pane.minusName}` : pane.name;
  }

  titleOf(pane, at, map) {
    const name = make("strong", "", this.fullTitle(pane));
    if (at === 0) return [name];
    const show = this.button("Show", () => this.trigger("choose", { head: map.head }), `Choose head ${map.name}`);
    const away = this.button("×", () => this.trigger("pin", { head: map.head }), `Take head ${map.name} away`);
    return [name, show, away];
  }

  /** Labels come from the analysis' token table, fetched once; until they are here, positions stand for them. */
  takeTokens(data) {
    const wanted = JSON.stringify([data.tokens, data.sides, data.segments]);
    if (this.tokensKey === wanted) return;
    this.tokensKey = wanted;
    const [query, key] = data.sides.map((side, axis) => new Tokens(
      side, data.shape[axis], data.segments.filter((one) => !one.side || one.side === side)));
    this.tokens = { query, key: data.sides[0] === data.sides[1] ? query : key };
    tokenRows(address(data.tokens)).then((rows) => {
      if (this.tokensKey !== wanted) return;
      new Set([this.tokens.query, this.tokens.key]).forEach((side) => side.fill(rows));
      this.text.tokens = null; // drawn anew with the labels
      this.showControls();
      this.draw();
      this.showFocus();
    }, (error) => this.say(`The tokens could not be loaded: ${error.message} Reload the page.`));
  }

  /** The page echoes what the viewer reported; only a value that is news to both sides is taken from the page. */
  merge(name, given) {
    const key = JSON.stringify(given);
    const pending = (this.reported[name] ||= []);
    const at = pending.indexOf(key);
    if (at >= 0) pending.splice(0, at + 1);
    else if (this.reported[`${name} given`] !== key || this[name] === undefined) {
      pending.length = 0;
      this.reported[`${name} given`] = key;
      return given;
    }
    this.reported[`${name} given`] = key;
    return this[name];
  }

  takeWindow(given, sameShape) {
    if (!sameShape) {
      this.window = undefined;
      this.reported.window = [];
    }
    const window = this.merge("window", given);
    if (window !== this.window || !this.view) {
      this.window = window;
      const [rows, columns] = [window?.rows || [0, this.source.rows], window?.columns || [0, this.source.columns]];
      this.view = this.clamp([...rows, ...columns]);
    }
  }

  takeCell(given) {
    const cell = this.merge("cell", given);
    this.revealNext ||= cell !== this.cell && cell !== null;
    this.cell = cell;
    const inside = cell && (cell.query ?? 0) < this.source.rows && (cell.key ?? 0) < this.source.columns;
    this.pinned = inside ? { row: cell.query, column: cell.key } : null;
  }

  tell(name, value, wait = REPORT_MS) {
    clearTimeout(this.timers[name]);
    this.timers[name] = setTimeout(() => {
      const key = JSON.stringify(value);
      const pending = (this.reported[name] ||= []);
      const known = pending.length ? pending[pending.length - 1] : this.reported[`${name} given`];
      if (known === key) return;
      pending.push(key);
      this.report(name, value);
    }, wait);
  }

  /** Tells the page that its picture is on the screen: it draws what lies below only then, or after a moment. */
  tellPainted() {
    const name = this.data.painted;
    if (!name || name === this.paintedName) return;
    this.paintedName = name;
    fetch(address(`data/painted/${name}`)).catch((error) => console.info(`Headwater: ${error.message}`));
  }

  setLook(change) {
    this.look = { ...this.look, ...change };
    if (change.how) this.takePanes(this.data);
    this.tell("look", this.look, 150);
    this.showControls();
    this.refresh();
    this.showFocus();
  }

  showControls() {
    this.scaleButtons.show(this.look.scale);
    this.howButtons.show(this.look.how);
    this.directions.show(this.look.direction);
    const sinks = this.panes[0].sinks;
    const some = this.panes.some((pane) => pane.sinks.size > 0);
    const { sinkFree } = this.data;
    this.sinkButton.setAttribute("aria-pressed", this.hides);
    this.sinkButton.disabled = !some || sinkFree;
    const hiding = sinkFree ? "“Without sinks” leaves them out" : "Leaves the sink columns out of colour and scale";
    this.sinkButton.title = some ? hiding : "This head has no sink column";
    const pictures = pictureKeys(this.tokens.key).length;
    this.foldButton.style.display = pictures ? "" : "none";
    this.foldButton.setAttribute("aria-pressed", this.look.fold);
    const { threshold } = this.look;
    const place = threshold > 0 ? Math.round(40 * (1 - Math.log(threshold) / Math.log(LEAST_THRESHOLD))) : 0;
    if (this.threshold.value !== String(place)) this.threshold.value = place;
    const said = threshold > 0 ? `≥ ${shortNumber(threshold)}` : "none";
    this.threshold.setAttribute("aria-valuetext", said);
    this.thresholdSaid.textContent = said;
    const below = `Weights below ${shortNumber(threshold)} are drawn like zero.`;
    const folded = this.look.fold && pictures ? `The picture's ${pictures} keys are in no colour and no scale.` : "";
    const notes = [this.data.note, this.sinkNote(sinks), folded, threshold > 0 ? below : ""];
    this.note.textContent = notes.filter(Boolean).join(" ");
  }

  /** What is said of sink columns that are left out. */
  sinkNote(sinks) {
    const { sinkFree } = this.data;
    if (!sinks.size) return sinkFree && !this.ahead ? "Without sinks: this head has none, so no column is left out." : "";
    if (!this.hides) return "";
    const names = [...sinks].slice(0, 4).map((key) => this.tokens.key.name(key)).join(", ");
    const which = sinks.size === 1 ? "sink key" : `${sinks.size} sink keys`;
    if (!sinkFree) return `Hidden from colour and scale: ${which} ${names}. Numbers on hover are unchanged.`;
    return `Without sinks: ${which} ${names} in no colour and no scale. Colours are the model's weights; sentence and hover tell shares of what is left of a row.`;
  }

  // ------------------------------------------------------------------- focus

  focus() {
    const fallback = { row: this.source.rows - 1, column: 0 };
    const chosen = this.hover || this.pinned || fallback;
    return { row: chosen.row ?? fallback.row, column: chosen.column ?? fallback.column };
  }

  setHover(cell) {
    const same = JSON.stringify(cell) === JSON.stringify(this.hover);
    if (same) return;
    this.hover = cell;
    this.drawOver();
    clearTimeout(this.timers.profile);
    this.timers.profile = setTimeout(() => this.showFocus(), PROFILE_MS);
    this.readout.textContent = this.describe();
  }

  /** Fetches the row or column in question and shows it: readout, text, sentence. */
  showFocus() {
    if (!this.data || !this.plot) return;
    const focus = this.focus();
    const from = this.look.direction === "from";
    const { pane } = this;
    const paths = pane.paths(pane.source.rowPath(focus.row)); // the row also gives the rank, whatever the text shows
    if (!from) paths.push(pane.source.columnPath(focus.column));
    const missing = pane.source.exact ? paths.filter((path) => !this.profiles.get(path)) : [];
    if (missing.length) this.profiles.want(missing.reverse());
    this.readout.textContent = this.describe();
    this.showText(focus, from);
  }

  /** The whole row (or column) as {values, visible} over single tokens, exact where the head is, or null. */
  profile(index, isRow) {
    const { source } = this;
    if (source.exact) return this.profiles.get(isRow ? source.rowPath(index) : source.columnPath(index)) || null;
    const overview = this.store.get(this.source.overview.path);
    if (!overview) return null;
    const read = isRow ? (at) => readTile(overview, index, at) : (at) => readTile(overview, at, index);
    const cells = Array.from({ length: isRow ? source.columns : source.rows }, (_, at) => read(at));
    return { values: cells.map((cell) => cell.value), visible: cells.map((cell) => (cell.visible ? 1 : 0)) };
  }

  showText(focus, from) {
    const index = from ? focus.row : focus.column;
    const tokens = from ? this.tokens.key : this.tokens.query;
    const own = (from ? this.tokens.query : this.tokens.key).name(index);
    this.text.show(tokens, index);
    const given = this.profile(index, from);
    if (!given) return;
    const leftOut = from ? new Set(this.hidden()) : new Set();
    const rest = this.data.sinkFree && this.source.exact;
    const profile = rest && from ? withoutSinks(given, leftOut) : given;
    const best = strongest(profile, 3, leftOut);
    const top = best.length ? profile.values[best[0]] : 1;
    const scale = makeScale(this.look.scale === "row" ? "linear" : this.look.scale, top / 1e3, top);
    this.text.paint(Array.from(profile.visible, (seen, at) => {
      if (leftOut.has(at) && given.visible[at]) return { background: this.theme.hiddenKey, ink: this.theme.text };
      if (!seen) return null;
      const value = profile.values[at];
      if (!Number.isFinite(value)) return { background: Number.isNaN(value) ? NOT_A_NUMBER : INFINITE, ink: "#000000" };
      const rgb = this.ramp.rgb[rampStep(scale.share(value))];
      return { background: css(rgb), ink: luminance(rgb) > 0.55 ? "#111111" : "#ffffff" };
    }));
    this.text.mark(this.tokens.query === this.tokens.key ? index : -1); // of another text, the token is not in this one
    if (this.revealNext) this.text.reveal(index);
    this.revealNext = false;
    const where = this.panes.length > 1 || this.pane.minus ? ` in ${this.pane.name}` : "";
    const named = from ? `From query ${own}${where}:` : `To key ${own}${where}:`;
    const row = from && this.source.exact ? `${rowSentence(profile, index, this.tokens, rest)} ` : "";
    const said = rest && !from ? "Weights with sinks: what these leave of each row is not told here. " : row;
    const list = make("span", "hw-list", this.strongestList(profile, best, tokens));
    this.sentence.replaceChildren(make("strong", "", named), ` ${said}`, list);
  }

  strongestList(profile, best, tokens) {
    if (!best.length) return "Nothing is visible here.";
    const told = (at) => number(profile.values[at], 3);
    if (!this.source.exact) return `The colours are those of whole blocks of the pooled map, at most ${told(best[0])}.`;
    return `Strongest: ${best.map((at) => `${tokens.name(at)} ${told(at)}`).join(" · ")}`;
  }

  /** What is under the pointer, in words. */
  describe() {
    const cell = this.hover || this.pinned;
    if (!cell || (cell.row === null && cell.column === null)) return HINT;
    if (cell.row === null) return `key ${this.fullName("key", cell.column)}`;
    if (cell.column === null) return `query ${this.fullName("query", cell.row)}`;
    const read = readTiles(this.layers().reverse(), cell.row, cell.column);
    const row = this.source.exact ? this.profiles.kept.get(this.source.rowPath(cell.row)) : null;
    const at = cell.column;
    const which = this.panes.length > 1 || this.pane.minus ? `${this.fullTitle(this.pane)} · ` : "";
    const where = `${which}query ${this.tokens.query.name(cell.row)} → key ${this.tokens.key.name(cell.column)}`;
    if (this.pane.minus) return `${where} · ${this.difference(cell, row, read)}`;
    const exact = row ? { value: row.values[at], visible: row.visible[at] === 1, rows: [0, 1], columns: [0, 1] } : read;
    if (!exact) return `${where} · loading`;
    const pooled = exact.rows[1] - exact.rows[0] > 1 || exact.columns[1] - exact.columns[0] > 1;
    if (!exact.visible && pooled) return `${where} · no cell of this block is visible`;
    if (!exact.visible) return `${where} · not visible: this query may not see this key (not a zero)`;
    if (pooled) {
      const [rows, columns] = [exact.rows, exact.columns].map(([a, b]) => (b - a > 1 ? `${a}–${b - 1}` : `${a}`));
      const from = read?.tile.sampled ? "over the visible cells of sampled rows" : "over the visible cells (pooled)";
      const told = `${this.look.how} weight ${number(exact.value, 4)} ${from}`;
      return `${which}queries ${rows} → keys ${columns} · ${told}`;
    }
    return `${where} · weight ${number(exact.value, 4)}${row ? this.comparison(row, at) : ""}`;
  }

  /** A cell of a difference: both weights where the head has exact ones, else the difference of the block. */
  difference(cell, row, read) {
    const other = this.profiles.kept.get(this.pane.paths(this.source.rowPath(cell.row))[1]);
    if (row && other) {
      if (!row.visible[cell.column] || !other.visible[cell.column]) return "not visible in both maps (not a zero)";
      const [a, b] = [row.values[cell.column], other.values[cell.column]];
      const told = signed(a - b, (size) => number(size, 4));
      return `difference ${told} = ${number(a, 4)} (${this.pane.name}) − ${number(b, 4)} (${this.pane.minusName})`;
    }
    if (!read) return "loading";
    if (!read.visible) return "no cell of this block is visible in both maps";
    return `difference of the ${this.look.how} weights ${signed(read.value, (size) => number(size, 4))} (pooled)`;
  }

  /** Beside a weight: its rank in its row and what uniform attention would give; of the row without its sinks too. */
  comparison(row, at) {
    const { sinkFree } = this.data;
    if (sinkFree && this.pane.sinks.has(at)) return " · a sink: taken out of this row";
    const { values, visible } = sinkFree ? withoutSinks(row, this.pane.sinks) : row;
    if (!visible[at]) return " · next to nothing of this row is left without sinks";
    const value = values[at];
    let [seen, above] = [0, 0];
    for (let i = 0; i < values.length; i++) {
      if (!visible[i]) continue;
      seen++;
      if (values[i] > value) above++;
    }
    const uniform = 1 / seen;
    const times = value > 0 && Number.isFinite(value) ? ` (${number(value / uniform, 3)} ×)` : "";
    const share = sinkFree ? ` · ${number(value, 4)} of what sinks leave` : "";
    return `${share} · rank ${above + 1} of ${seen} · uniform would be ${number(uniform, 4)}${times}`;
  }

  fullName(side, index) {
    const tokens = this.tokens[side];
    const text = tokens.texts[index];
    const segment = tokens.segmentOf(index);
    const facts = [
      text !== undefined && text !== tokens.label(index) && `text ${JSON.stringify(text)}`,
      tokens.special.has(index) && "special token",
      segment && tokens.segments.length > 1 && segment.name,
    ];
    return [tokens.name(index), ...facts.filter(Boolean)].join(" · ");
  }

  say(sentence) {
    this.note.textContent = sentence;
  }

  // ------------------------------------------------------------------- input

  listen() {
    this.pointers = new Map();
    window.addEventListener("resize", (this.onResize = () => this.layout()));
    window.addEventListener("headwater-head", (this.onHead = (event) => this.goAhead(event.detail)));
    window.addEventListener("headwater-where", (this.onWhere = (event) => this.tellPlace(event.detail)));
    document.addEventListener("keydown", (this.onKey = (event) => this.pageKey(event)));
    this.mini.addEventListener("pointerdown", (event) => {
      this.mini.setPointerCapture(event.pointerId);
      this.centreFromMinimap(event);
    });
    this.mini.addEventListener("pointermove", (event) => event.buttons & 1 && this.centreFromMinimap(event));
  }

  /** Every map answers to the same gestures, and all of them move together. */
  listenTo(pane) {
    const { over } = pane;
    const here = (act) => (event) => {
      this.pane = pane;
      act(event);
    };
    over.addEventListener("wheel", here((event) => this.wheel(event)), { passive: false });
    over.addEventListener("pointerdown", here((event) => this.pointerDown(event)));
    over.addEventListener("pointermove", here((event) => this.pointerMove(event)));
    over.addEventListener("pointerup", here((event) => this.pointerUp(event)));
    over.addEventListener("pointercancel", here((event) => this.pointerUp(event)));
    over.addEventListener("pointerleave", () => {
      this.pointer = null;
      if (!this.drag) this.setHover(null);
    });
    over.addEventListener("dblclick", here((event) => this.zoomAt(event.shiftKey ? 2 : 0.5, ...this.at(event))));
    over.addEventListener("keydown", here((event) => this.keyDown(event)));
  }

  /** Where on the screen a part of the first map is that is in view; who asks first has named its rows and columns. */
  tellPlace(asked) {
    if (!this.view || asked.place) return;
    const { left, top } = this.panes[0].over.getBoundingClientRect();
    const place = this.place();
    const [[r0, r1], [c0, c1]] = [asked.rows, asked.columns].map(([a, b], axis) => [
      Math.max(a, this.view[2 * axis]), Math.min(b, this.view[2 * axis + 1])]);
    if (r0 >= r1 || c0 >= c1) return;
    asked.place = { left: left + place.x(c0), right: left + place.x(c1), top: top + place.y(r0), bottom: top + place.y(r1) };
  }

  at(event) {
    const bounds = this.pane.over.getBoundingClientRect();
    return [event.clientX - bounds.left, event.clientY - bounds.top];
  }

  /** The cell under a point; over an axis only its row or its key; null elsewhere. */
  hit(x, y) {
    const { plot } = this;
    const inRows = y >= plot.y && y < plot.y + plot.height;
    const inColumns = x >= plot.x && x < plot.x + plot.width;
    const cell = this.cellAt(x, y);
    const row = Math.min(Math.max(Math.floor(cell.y), 0), this.source.rows - 1);
    const column = Math.min(Math.max(Math.floor(cell.x), 0), this.source.columns - 1);
    if (inRows && inColumns) return { row, column };
    if (inRows && x < plot.x) return { row, column: null };
    return inColumns && y < plot.y ? { row: null, column } : null;
  }

  wheel(event) {
    if (!this.view) return;
    const out = event.deltaY > 0;
    if (out && this.isWhole()) return; // nothing left to zoom out: the page may scroll
    event.preventDefault();
    const pixels = event.deltaY * (event.deltaMode === 1 ? 16 : 1);
    const place = this.pointer || this.at(event); // wheel events round the place to whole pixels, pointer events do not
    this.zoomAt(Math.exp(Math.max(-1, Math.min(1, pixels * (event.ctrlKey ? 0.01 : 0.002)))), ...place);
    if (this.hover) this.setHover(this.hit(...place));
  }

  pointerDown(event) {
    if (event.button !== 0 || !this.view) return;
    const [x, y] = this.at(event);
    this.pointers.set(event.pointerId, [x, y]);
    this.pane.over.setPointerCapture(event.pointerId);
    this.drag = { x, y, view: this.view, moved: false };
    if (this.pointers.size === 2) this.drag = { pinch: this.pinch(), view: this.view, moved: true };
    else if (event.shiftKey) this.drag.box = { x0: x, y0: y, x1: x, y1: y };
  }

  pointerMove(event) {
    if (!this.view) return;
    const [x, y] = (this.pointer = this.at(event));
    if (this.pointers.has(event.pointerId)) this.pointers.set(event.pointerId, [x, y]);
    const { drag } = this;
    if (!drag) {
      this.setHover(this.hit(x, y));
      return;
    }
    if (drag.pinch) {
      const now = this.pinch();
      this.zoomAt(drag.pinch.distance / Math.max(now.distance, 1), now.x, now.y);
      drag.pinch = now;
      return;
    }
    drag.moved ||= Math.hypot(x - drag.x, y - drag.y) >= CLICK_PIXELS;
    if (drag.box) Object.assign(drag.box, { x1: x, y1: y }), this.drawOver();
    else if (drag.moved) {
      const [r0, r1, c0, c1] = drag.view;
      const rows = ((drag.y - y) / this.plot.height) * (r1 - r0);
      const columns = ((drag.x - x) / this.plot.width) * (c1 - c0);
      this.setView([r0 + rows, r1 + rows, c0 + columns, c1 + columns]);
    }
  }

  pointerUp(event) {
    const { drag } = this;
    this.pointers.delete(event.pointerId);
    this.drag = null;
    if (!drag || event.type === "pointercancel") return;
    if (drag.box && drag.moved) this.zoomToBox(drag.box);
    else if (!drag.moved) this.click(this.hit(...this.at(event)));
    this.drawOver();
  }

  /** On the name of a picture beside the map: its columns are left out, or taken in again. Else a cell is marked. */
  click(cell) {
    const [r0, r1, c0, c1] = this.view;
    const key = cell?.row === null && within(namedBands(this.tokens.key, c0, c1), cell.column);
    const query = cell?.column === null && within(namedBands(this.tokens.query, r0, r1), cell.row);
    if (key || query) this.setLook({ fold: !this.look.fold });
    else this.pick(cell);
  }

  pinch() {
    const [[x0, y0], [x1, y1]] = [...this.pointers.values()];
    return { distance: Math.hypot(x1 - x0, y1 - y0), x: (x0 + x1) / 2, y: (y0 + y1) / 2 };
  }

  zoomToBox({ x0, y0, x1, y1 }) {
    const a = this.cellAt(Math.min(x0, x1), Math.min(y0, y1));
    const b = this.cellAt(Math.max(x0, x1), Math.max(y0, y1));
    this.setView([Math.floor(a.y), Math.ceil(b.y), Math.floor(a.x), Math.ceil(b.x)]);
  }

  centreFromMinimap(event) {
    if (!this.view) return;
    const box = this.mini.getBoundingClientRect();
    const [r0, r1, c0, c1] = this.view;
    const row = ((event.clientY - box.top) / box.height) * this.source.rows;
    const key = ((event.clientX - box.left) / box.width) * this.source.columns;
    this.move(row - (r0 + r1) / 2, key - (c0 + c1) / 2);
  }

  /** Marks a cell, a row or a key; the same again takes the mark away. */
  pick(cell) {
    if (!cell) return;
    this.pinned = JSON.stringify(cell) === JSON.stringify(this.pinned) ? null : cell;
    this.cell = this.pinned ? { query: this.pinned.row, key: this.pinned.column } : null;
    this.tell("cell", this.cell, 250);
    this.revealNext = true;
    this.showFocus();
  }

  pointText(index) {
    if (index === null) this.setHover(null);
    else this.setHover(this.textCell(index));
  }

  pickText(index) {
    this.pick(this.textCell(index));
  }

  /** The row or the key that a token of the text stands for. */
  textCell(index) {
    const { rows, columns } = this.source;
    const from = this.look.direction === "from";
    return from ? { row: Math.min(index, rows - 1), column: null } : { row: null, column: Math.min(index, columns - 1) };
  }

  keyDown(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || !this.view) return;
    const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    const step = steps[event.key];
    const [r0, r1, c0, c1] = this.view;
    if (step && event.shiftKey) this.moveCell(...step);
    else if (step && this.isWhole()) return; // nothing to move: the grid takes the next head or layer
    else if (step) this.move((step[0] * (r1 - r0)) / 8, (step[1] * (c1 - c0)) / 8);
    else if (event.key === "+" || event.key === "=") this.zoomAt(0.5);
    else if (event.key === "-") this.zoomAt(2);
    else if (event.key === "0" || event.key === "Home") this.setView(this.whole());
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  /** Keys that need no focus on the map, unless somebody is writing. */
  pageKey(event) {
    const typing = event.composedPath()[0]?.closest?.("input:not([type=range]), textarea, select, [contenteditable]");
    if (event.ctrlKey || event.metaKey || event.altKey || typing || !this.view) return;
    if (event.key === "l") this.setLook({ scale: this.look.scale === "log" ? "root" : "log" });
    else if (event.key === "s" && this.panes.some((pane) => pane.sinks.size)) this.setLook({ hide: !this.look.hide });
    else if (event.key === "/") this.searched.focus();
    else return;
    event.preventDefault();
  }

  /** Moves the marked cell by keys, and the window with it. */
  moveCell(rows, columns) {
    const from = this.hover || this.pinned || { row: Math.floor(this.view[0]), column: Math.floor(this.view[2]) };
    const row = Math.min(Math.max((from.row ?? 0) + rows, 0), this.source.rows - 1);
    const column = Math.min(Math.max((from.column ?? 0) + columns, 0), this.source.columns - 1);
    const [r0, r1, c0, c1] = this.view;
    const outside = (at, a, b) => (at < a ? at - a : at + 1 > b ? at + 1 - b : 0);
    this.move(outside(row, r0, r1), outside(column, c0, c1));
    this.setHover({ row, column });
  }

  destroy() {
    Object.values(this.timers).forEach(clearTimeout);
    this.store.stop();
    this.profiles.stop();
    this.watcher.disconnect();
    window.removeEventListener("resize", this.onResize);
    document.removeEventListener("keydown", this.onKey);
    window.removeEventListener("headwater-head", this.onHead);
    window.removeEventListener("headwater-where", this.onWhere);
    this.frame.remove();
  }
}

// ------------------------------------------------------------- Streamlit's side

const viewers = new WeakMap(); // parent element -> MapViewer

export default function ({ data, parentElement, setStateValue, setTriggerValue }) {
  let viewer = viewers.get(parentElement);
  if (!viewer) {
    viewer = new MapViewer(parentElement);
    viewers.set(parentElement, viewer);
  }
  viewer.update(data, setStateValue, setTriggerValue);
  return () => {
    viewer.destroy();
    viewers.delete(parentElement);
  };
}
