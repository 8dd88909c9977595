// The prompt as text, each token coloured by the attention from or to one token.

const MOST_TOKENS = 3000; // more are shown as a stretch around the token in question

/** Labels, texts and segments of one axis of the map. */
class Tokens {
  constructor(side, length, segments) {
    this.side = side;
    this.segments = segments;
    this.labels = Array.from({ length }, (_, index) => String(index));
    this.texts = [];
    this.special = new Set();
  }

  /** Takes the labels from the rows of the token table. */
  fill(rows) {
    for (const row of rows) {
      if (row.side !== this.side) continue;
      this.labels[row.position] = row.label;
      this.texts[row.position] = row.text;
      if (row.is_special) this.special.add(row.position);
    }
  }

  get length() {
    return this.labels.length;
  }

  label(index) {
    return this.labels[index] ?? "";
  }

  /** `12 "·cat"`: position and label, as sentences name a token. */
  name(index) {
    return `${index} “${this.label(index)}”`;
  }

  segmentOf(index) {
    return this.segments.find((segment) => segment.start <= index && index < segment.end) || null;
  }
}

const tokenTables = new Map(); // address -> promise of its rows

/** The token table at an address, as objects; fetched once per page. */
function tokenRows(url) {
  if (!tokenTables.has(url)) {
    const rows = fetch(url).then(async (answer) => {
      if (!answer.ok) throw new Error(await reasonOf(answer));
      const table = await answer.json();
      return table.rows.map((row) => Object.fromEntries(table.columns.map((name, at) => [name, row[at]])));
    });
    rows.catch(() => tokenTables.delete(url));
    tokenTables.set(url, rows);
  }
  return tokenTables.get(url);
}

/** The panel beside the map. `onPoint(index | null)` while the pointer is over a token, `onPick(index)` on click. */
class TextPanel {
  constructor(onPoint, onPick) {
    this.element = make("div", "hw-text");
    this.element.tabIndex = 0;
    this.element.setAttribute("role", "group");
    this.element.setAttribute("aria-label", "The prompt, coloured by attention");
    this.spans = [];
    this.first = 0;
    this.marked = [];
    const indexAt = (event) => {
      const span = event.target.closest("[data-index]");
      return span ? Number(span.dataset.index) : null;
    };
    this.element.addEventListener("pointerover", (event) => onPoint(indexAt(event)));
    this.element.addEventListener("pointerleave", () => onPoint(null));
    this.element.addEventListener("click", (event) => {
      const index = indexAt(event);
      if (index !== null) onPick(index);
    });
  }

  /** Draws the tokens again when they, or the stretch around `focus`, changed. */
  show(tokens, focus) {
    const outside = focus < this.first || focus >= this.first + this.spans.length;
    if (tokens === this.tokens && !outside) return;
    this.tokens = tokens;
    this.first = Math.max(0, Math.min(focus - MOST_TOKENS / 2, tokens.length - MOST_TOKENS));
    const last = Math.min(this.first + MOST_TOKENS, tokens.length);
    const parts = [];
    this.spans = [];
    if (this.first > 0) parts.push(make("p", "hw-more", `tokens 0 to ${this.first - 1} are not drawn`));
    for (let index = this.first; index < last; index++) {
      const segment = tokens.segments.length > 1 ? tokens.segments.findIndex((one) => one.start === index) : -1;
      if (segment >= 0) parts.push(segmentTitle(tokens.segments[segment], segment));
      const span = make("span", tokens.special.has(index) ? "hw-token hw-special" : "hw-token", tokens.label(index));
      span.dataset.index = index;
      this.spans.push(span);
      parts.push(span);
      if (tokens.label(index).endsWith("↵")) parts.push(document.createElement("br"));
    }
    if (last < tokens.length) parts.push(make("p", "hw-more", `tokens ${last} to ${tokens.length - 1} are not drawn`));
    this.element.replaceChildren(...parts);
    this.marked = [];
  }

  /** Colours the tokens: `colours[i]` is {background, ink} or null for a token that is not visible. */
  paint(colours) {
    this.spans.forEach((span, at) => {
      const colour = colours ? colours[this.first + at] : undefined;
      span.classList.toggle("hw-unseen", colour === null);
      span.style.backgroundColor = colour ? colour.background : "";
      span.style.color = colour ? colour.ink : "";
    });
  }

  /** Outlines the token in question. */
  mark(index) {
    this.marked.forEach((span) => span.classList.remove("hw-marked"));
    const span = this.spans[index - this.first];
    this.marked = span ? [span] : [];
    this.marked.forEach((one) => one.classList.add("hw-marked"));
  }

  /** Frames the tokens whose text or label holds what is searched; returns their positions. */
  find(wanted) {
    const { tokens } = this;
    const needle = wanted.toLowerCase();
    const holds = (text) => text !== undefined && text.toLowerCase().includes(needle);
    const all = Array.from({ length: tokens.length }, (_, index) => index);
    const found = needle ? all.filter((index) => holds(tokens.texts[index]) || holds(tokens.label(index))) : [];
    const marks = new Set(found);
    this.spans.forEach((span, at) => span.classList.toggle("hw-found", marks.has(this.first + at)));
    return found;
  }

  /** Brings a token into sight without moving the page. */
  reveal(index) {
    const span = this.spans[index - this.first];
    if (!span) return;
    const top = span.offsetTop - this.element.offsetTop;
    const seen = this.element.scrollTop;
    const height = this.element.clientHeight;
    if (top < seen || top > seen + height - 24) this.element.scrollTop = top - height / 2;
  }
}

function segmentTitle(segment, order) {
  const title = make("div", "hw-segment", segment.name);
  title.style.borderLeftColor = SEGMENT_COLOURS[order % SEGMENT_COLOURS.length];
  return title;
}

/** Strongest entries of a profile, largest first: indices of visible, finite weights that are not left out. */
function strongest(profile, count, leftOut) {
  const best = [];
  for (let i = 0; i < profile.values.length; i++) {
    const value = profile.values[i];
    if (!profile.visible[i] || !Number.isFinite(value) || leftOut.has(i)) continue;
    if (best.length < count || value > profile.values[best[best.length - 1]]) {
      const at = best.findIndex((other) => profile.values[other] < value);
      best.splice(at < 0 ? best.length : at, 0, i);
      if (best.length > count) best.pop();
    }
  }
  return best;
}

const LEAST_LEFT = 1e-6; // a row with less mass beside its sinks has no view without them

/** A row without its sinks: what they got is taken out, the rest is brought back to 1. */
function withoutSinks({ values, visible }, sinks) {
  const rest = Uint8Array.from(visible, (seen, at) => (seen && !sinks.has(at) ? 1 : 0));
  let left = 0;
  for (let at = 0; at < rest.length; at++) if (rest[at] && Number.isFinite(values[at])) left += values[at];
  if (left < LEAST_LEFT) rest.fill(0);
  return { values: Float64Array.from(values, (value) => value / left), visible: rest };
}

/** One sentence about a row: where most of it goes, and what that is called. rest: it is without its sinks. */
function rowSentence(profile, row, tokens, rest) {
  const seen = profile.visible.reduce((sum, bit) => sum + bit, 0);
  if (seen === 0) return rest ? "Without sinks nothing is left of this row." : "This query sees no key.";
  if (seen === 1) return `This query sees one key only${rest ? " without sinks" : ""}, so all of its weight is there.`;
  const [top] = strongest(profile, 1, new Set());
  if (top === undefined) return "The weights of this row are not numbers.";
  const share = profile.values[top];
  const first = profile.visible.indexOf(1);
  const itself = tokens.query === tokens.key; // positions of queries and keys are those of one text
  let where = `token ${tokens.key.name(top)}`;
  if (top === first && first === 0) where = "the first token";
  else if (itself && top === row) where = "the token itself";
  else if (itself && top === row - 1) where = "the previous token";
  const name = top === 0 && share > 0.3 ? ": a sink" : "";
  return share < 2 / seen
    ? `This row is spread${rest ? " without sinks" : ""}: no key gets more than ${percent(share)}; uniform would be ${percent(1 / seen)}.`
    : `${percent(share)} of ${rest ? "what sinks leave of this row" : "this row"} is on ${where}${name}.`;
}
