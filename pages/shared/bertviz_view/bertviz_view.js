// Builds the frame in which BertViz's script runs: root element, parameters, libraries, script. The frame may run
// scripts and nothing else; its policy lets it load nothing at all, so the scripts are fetched here and written into it.

/** The address of "data/...", also under a prefix: this script itself is data/scripts/NAME.js of the app. */
function address(path) {
  return new URL(`../../${path}`, import.meta.url).href;
}

/** JSON that can stand in a script element: nothing in it can end the element. */
const literal = (value) => JSON.stringify(value).replace(/</g, "\\u003c").replace(/\u2028/g, "\\u2028").replace(/\u2029/g, "\\u2029");

const texts = new Map(); // address -> promise of a script's text; each is fetched once

function scriptText(path) {
  if (!texts.has(path)) {
    const text = fetch(address(path)).then((answer) => {
      if (!answer.ok) throw new Error(`The script ${path} could not be loaded.`);
      return answer.text();
    });
    text.catch(() => texts.delete(path));
    texts.set(path, text);
  }
  return texts.get(path);
}

/** A script that can stand in a script element: in JavaScript, <\/ is the same as </. */
const inline = (text) => `<script>${text.replace(/<\/(script)/gi, "<\\/$1").replace(/<!--/g, "<\\!--")}</script>`;

/** Stands in for require.js: BertViz asks for jquery and d3, which are there already. */
const LOADER = `
window.require = { config() {} };
window.requirejs = (names, run) => run(...names.map((name) => ({ jquery: window.jQuery, d3: window.d3 })[name]));
console.log = () => {};`;

// The frame cannot be reached into: asked for its picture, it sends the SVG that BertViz drew, with its styles written in.
const ANSWER = `
const INK = ["font-family", "font-size", "font-weight", "fill", "fill-opacity", "stroke", "stroke-opacity", "opacity", "visibility", "display"];
window.addEventListener("message", (event) => {
  if (event.data !== "picture" || event.source !== window.parent) return;
  const drawn = document.querySelector("#vis svg");
  if (!drawn) return event.ports[0].postMessage(null);
  const copy = drawn.cloneNode(true);
  const parts = copy.querySelectorAll("text, line, rect, path");
  drawn.querySelectorAll("text, line, rect, path").forEach((part, at) => {
    const style = getComputedStyle(part);
    for (const name of INK) parts[at].style.setProperty(name, style.getPropertyValue(name));
  });
  const { width, height } = drawn.getBoundingClientRect();
  copy.setAttribute("width", Math.ceil(width));
  copy.setAttribute("height", Math.ceil(height));
  event.ports[0].postMessage({ text: new XMLSerializer().serializeToString(copy), width: Math.ceil(width), height: Math.ceil(height) });
});`;
const PICTURE_MS = 5000; // how long the frame is waited for

/** What the frame drew, on the background of the page. */
function pictureIn(scroll, background) {
  const frame = scroll.querySelector("iframe");
  return new Promise((resolve, reject) => {
    if (!frame) return resolve(null);
    const { port1, port2 } = new MessageChannel();
    const late = setTimeout(() => reject(new Error("BertViz's view did not answer")), PICTURE_MS);
    port1.onmessage = ({ data: picture }) => {
      clearTimeout(late);
      const ground = `<rect width="100%" height="100%" fill="${background}"/>`;
      resolve(picture && { ...picture, text: picture.text.replace(/^<svg[^>]*>/, (start) => start + ground) });
    };
    frame.contentWindow.postMessage("picture", "*", [port2]);
  });
}

function page(data, scripts, dark, background, ink) {
  const policy = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'";
  const selects = data.selects.map((id) => `<label>${id === "layer" ? "Layer" : "Head"}: <select id="${id}"></select></label> `).join("");
  const params = { ...data.params, display_mode: dark ? "dark" : "light" };
  const names = Object.entries(data.names)
    .map(([id, name]) => `document.querySelector("#${id} option").textContent = ${literal(String(name))};`)
    .join("\n");
  return `<!doctype html><html><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<style>
body { margin: 6px; background: ${background}; color: ${ink}; font: 14px system-ui, sans-serif; }
svg { overflow: visible; }
svg text { unicode-bidi: isolate; white-space: pre; }
.plain svg text, svg > text { fill: ${ink}; }
select { color: ${ink}; background: ${background}; border: 1px solid ${ink}; }
</style></head>
<body class="${data.global === "PYTHON_PARAMS" && data.selects.length ? "plain" : ""}">
<div id="bertviz"><span>${selects}</span><div id="vis"></div></div>
<script>window.${data.global} = ${literal(params)};${LOADER}</script>
${scripts.map(inline).join("\n")}
<script>${names}
${ANSWER}
document.documentElement.dataset.ready = "1";</script>
</body></html>`;
}

const offers = new WeakMap(); // element of the view -> what takes its picture back
const shown = new WeakMap(); // element of the view -> what was asked for last

export default function (component) {
  const { data, parentElement } = component;
  let scroll = parentElement.querySelector(".bv-scroll");
  if (!scroll) {
    scroll = document.createElement("div");
    scroll.className = "bv-scroll";
    parentElement.append(scroll);
  }
  const style = getComputedStyle(scroll);
  const background = style.getPropertyValue("--st-background-color").trim() || "#ffffff";
  const ink = style.getPropertyValue("--st-text-color").trim() || "#1c2430";
  offers.get(scroll)?.();
  offers.set(scroll, offerPicture(data.picture, () => pictureIn(scroll, background)));
  const wanted = JSON.stringify([data, background, ink]);
  const leave = () => offers.get(scroll)?.();
  if (shown.get(scroll) === wanted) return leave;
  shown.set(scroll, wanted);
  Promise.all(data.scripts.map(scriptText)).then(
    (scripts) => {
      if (shown.get(scroll) !== wanted) return; // something else was chosen in the meantime
      const frame = document.createElement("iframe");
      frame.setAttribute("sandbox", "allow-scripts");
      frame.title = data.title;
      frame.height = data.height;
      frame.srcdoc = page(data, scripts, isDark(background), background, ink);
      scroll.replaceChildren(frame);
    },
    (error) => scroll.replaceChildren(document.createTextNode(error.message)),
  );
  return leave;
}

function isDark(background) {
  const match = /^#([0-9a-f]{2})([0-9a-f]{2})([0-9a-f]{2})/i.exec(background);
  if (!match) return false;
  const [r, g, b] = match.slice(1).map((part) => parseInt(part, 16));
  return 0.299 * r + 0.587 * g + 0.114 * b < 128;
}
