// The bar of the presenter: keys and clicker, clock, spotlight, black screen, full screen, and the window with notes.
//
// Clickers send PageDown and PageUp, some of them "." or "b" for a black screen. Two windows of one browser agree through
// a BroadcastChannel: the one that presents says where it is, the one with the notes says what its keys ask for.
//
// The words of a step fit the screen: their type shrinks as far as a room can still read it, and what then is left
// scrolls under a bar of its own.

const KEYS_TOLD =
  "Page down or right: on. Page up or left: back. Down and up: scroll the words. O: spotlight, [ and ] its size. B: black. F: full screen. T: clock. Esc: leave.";
const SPOT = { least: 60, most: 600, step: 40, away: 24 }; // away: so far the pointer goes before the light follows it
const FITS = [1, 0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 0.65];
const WORDS = ".st-key-headwater_words";

function make(parent, tag, name, text) {
  const element = parent.appendChild(document.createElement(tag));
  element.className = name;
  if (text !== undefined) element.textContent = text;
  return element;
}

/** Minutes and seconds of a time in milliseconds. */
function clockText(milliseconds) {
  const seconds = Math.floor(milliseconds / 1000);
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
}

/** A clock that survives the step from one page to the next: it lives in the tab's own storage. */
class Clock {
  constructor(lesson) {
    this.name = `headwaterClock ${lesson}`;
    const kept = JSON.parse(sessionStorage.getItem(this.name) ?? "null");
    this.state = kept ?? { from: Date.now(), before: 0, running: true };
    this.keep();
  }

  keep() {
    sessionStorage.setItem(this.name, JSON.stringify(this.state));
  }

  get milliseconds() {
    return this.state.before + (this.state.running ? Date.now() - this.state.from : 0);
  }

  toggle() {
    const before = this.milliseconds;
    this.state = { from: Date.now(), before, running: !this.state.running };
    this.keep();
  }

  reset() {
    this.state = { from: Date.now(), before: 0, running: true };
    this.keep();
  }
}

class Presenter {
  constructor(root) {
    this.radius = 160;
    this.point = { x: window.innerWidth / 2, y: window.innerHeight / 2 };
    this.bar = make(root, "div", "presenter");
    this.place = make(this.bar, "span", "place");
    this.time = this.button("", "Start or stop the clock", () => this.clock.toggle());
    this.time.addEventListener("dblclick", () => this.clock.reset());
    this.spotButton = this.button("Spotlight", "Darken all but what the pointer is on", () => this.toggle("spot"));
    this.blackButton = this.button("Black", "Black screen", () => this.toggle("black"));
    this.notesButton = this.button("Notes", "Open the notes in a window of their own", () => this.openNotes());
    this.fullButton = this.button("Full screen", "Fill the screen", () => this.fullScreen());
    this.leaveButton = this.button("Leave", "Back to the lesson as a page", () => this.move("leave"));
    this.bar.title = KEYS_TOLD;
    this.over = make(document.body, "div", "headwater-spotlight");
    Object.assign(this.over.style, { position: "fixed", inset: 0, pointerEvents: "none", zIndex: 999980, display: "none" });
    this.channel = new BroadcastChannel("headwater-presenter");
    this.channel.onmessage = (event) => this.hear(event.data);
    this.onKey = (event) => this.keyDown(event);
    this.onPoint = (event) => {
      this.point = { x: event.clientX, y: event.clientY };
      const from = this.partFrom;
      if (from && Math.hypot(this.point.x - from.x, this.point.y - from.y) > SPOT.away) this.partFrom = null;
      if (this.shade === "spot") this.drawShade();
    };
    this.onSize = () => this.fit();
    this.watcher = new MutationObserver(this.onSize);
    window.addEventListener("keydown", this.onKey, { capture: true });
    window.addEventListener("pointermove", this.onPoint);
    window.addEventListener("resize", this.onSize);
    this.watcher.observe(document.querySelector(".stMain") ?? document.body, { childList: true, characterData: true, subtree: true });
    this.ticking = setInterval(() => this.tick(), 500);
  }

  button(label, title, action) {
    const button = make(this.bar, "button", "press", label);
    button.type = "button";
    button.title = title;
    button.addEventListener("click", action);
    return button;
  }

  update(data, say) {
    this.say = say;
    if (this.data?.lesson !== data.lesson) this.clock = new Clock(data.lesson);
    this.data = data;
    const showing = data.role === "show";
    for (const button of [this.spotButton, this.blackButton, this.notesButton, this.fullButton]) button.hidden = !showing;
    this.leaveButton.hidden = !showing;
    this.place.textContent = `step ${data.step} of ${data.steps}`;
    this.tick();
    this.fit();
    if (showing) this.tellWhere();
    else this.channel.postMessage({ sort: "where?", lesson: data.lesson });
  }

  tellWhere() {
    const { lesson, step, shown } = this.data;
    this.channel.postMessage({ sort: "here", lesson, step, shown });
  }

  /** What the other window says. Only plain values are read from it. */
  hear(message) {
    if (!this.data || message?.lesson !== this.data.lesson) return;
    if (this.data.role === "show" && message.sort === "where?") this.tellWhere();
    if (this.data.role === "show" && message.sort === "move") this.move(message.move);
    if (this.data.role === "notes" && message.sort === "here") {
      const { lesson, step, shown } = message;
      if (step !== this.data.step || shown !== this.data.shown) this.say("follow", { lesson, step, shown });
    }
  }

  /** One on or back, or leave. What is on, the answer or the next step, the server knows: a quick second press is not lost. */
  move(what) {
    if (this.data.role === "notes") this.channel.postMessage({ sort: "move", lesson: this.data.lesson, move: what });
    else {
      if (what === "leave" && document.fullscreenElement) document.exitFullscreen();
      this.say("move", what);
    }
  }

  /** The largest type with which the words of the step fit the screen. */
  fit() {
    const words = document.querySelector(WORDS);
    if (!words || this.data?.role !== "show") return;
    const shown = `${window.innerWidth} ${window.innerHeight} ${words.textContent}`;
    if (words.headwaterFitted === shown) return;
    words.headwaterFitted = shown;
    for (const size of FITS) {
      words.style.setProperty("--fit", size);
      if (words.scrollHeight <= words.clientHeight + 1) break;
    }
  }

  scroll(by) {
    document.querySelector(WORDS)?.scrollBy({ top: by, behavior: "smooth" });
  }

  keyDown(event) {
    const typing = event.composedPath()[0]?.closest?.("input:not([type=radio]), textarea, select, [contenteditable]");
    if (typing || event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
    const inMap = event.composedPath().some((node) => node.getAttribute?.("role") === "application");
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    const arrows = {
      ArrowRight: () => this.move("forward"),
      ArrowLeft: () => this.move("back"),
      ArrowDown: () => this.scroll(120),
      ArrowUp: () => this.scroll(-120),
    };
    const others = {
      PageDown: () => this.move("forward"),
      PageUp: () => this.move("back"),
      o: () => this.toggle("spot"),
      b: () => this.toggle("black"),
      ".": () => this.toggle("black"),
      f: () => this.fullScreen(),
      t: () => this.clock.toggle(),
      n: () => this.openNotes(),
      "[": () => this.resize(-SPOT.step),
      "]": () => this.resize(SPOT.step),
      Escape: () => (this.shade ? this.toggle(this.shade) : this.move("leave")),
    };
    const action = others[key] ?? (inMap ? undefined : arrows[key]);
    if (!action || (this.data.role === "notes" && !["PageDown", "PageUp", "ArrowRight", "ArrowLeft", "t"].includes(key))) return;
    event.preventDefault();
    event.stopPropagation();
    action();
    this.tick();
  }

  resize(by) {
    if (this.partFrom) this.wider += by;
    else this.radius = Math.min(Math.max(this.radius + by, SPOT.least), SPOT.most);
    this.drawShade();
  }

  /** The light begins on the part that the lesson names, and follows the pointer once that moves. */
  toggle(shade) {
    this.shade = this.shade === shade ? null : shade;
    this.partFrom = this.shade === "spot" ? this.point : null;
    this.wider = 0;
    this.drawShade();
  }

  /** Where the part that the lesson names is on the screen; null where it names none or its map is not there. */
  namedPart() {
    if (!this.partFrom || !this.data.spot) return null;
    const asked = { ...this.data.spot, place: null };
    window.dispatchEvent(new CustomEvent("headwater-where", { detail: asked }));
    if (!asked.place) return null;
    const { left, top, right, bottom } = asked.place;
    const reach = (length) => Math.max(SPOT.least / 2, 0.75 * length + this.wider);
    return { x: (left + right) / 2, y: (top + bottom) / 2, across: reach(right - left), down: reach(bottom - top) };
  }

  drawShade() {
    this.over.style.display = this.shade ? "block" : "none";
    const { x, y, across, down } = this.namedPart() ?? { ...this.point, across: this.radius, down: this.radius };
    const hole = `radial-gradient(ellipse ${across}px ${down}px at ${x}px ${y}px, transparent 97%, rgba(0, 0, 0, 0.78) 100%)`;
    this.over.style.background = this.shade === "black" ? "#000000" : hole;
    this.over.dataset.shade = this.shade ?? "";
    this.spotButton.setAttribute("aria-pressed", this.shade === "spot");
  }

  fullScreen() {
    const change = document.fullscreenElement ? document.exitFullscreen() : document.documentElement.requestFullscreen();
    change.catch(() => (this.fullButton.title = "The browser allows full screen only after a click or a key here."));
  }

  openNotes() {
    const address = new URL(window.location.href);
    address.searchParams.set("present", "notes");
    address.searchParams.delete("theme");
    window.open(address.href, "headwater-notes", "width=900,height=700");
  }

  tick() {
    if (this.partFrom) this.drawShade(); // the map may have come or moved meanwhile
    if (!this.clock) return;
    const stopped = this.clock.state.running ? "" : " (stopped)";
    this.time.textContent = `${clockText(this.clock.milliseconds)} of ${this.data.minutes} min${stopped}`;
  }

  destroy() {
    clearInterval(this.ticking);
    this.channel.close();
    this.over.remove();
    this.bar.remove();
    window.removeEventListener("keydown", this.onKey, { capture: true });
    window.removeEventListener("pointermove", this.onPoint);
    window.removeEventListener("resize", this.onSize);
    this.watcher.disconnect();
  }
}

const presenters = new WeakMap(); // parent element -> Presenter

export default function ({ data, parentElement, setTriggerValue }) {
  let presenter = presenters.get(parentElement);
  if (!presenter) {
    presenter = new Presenter(parentElement);
    presenters.set(parentElement, presenter);
  }
  presenter.update(data, setTriggerValue);
  return () => {
    presenter.destroy();
    presenters.delete(parentElement);
  };
}
