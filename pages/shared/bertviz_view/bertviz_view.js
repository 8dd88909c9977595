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
document.documentElement.dataset.ready = "1";</script>
</body></html>`;
}

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
  const wanted = JSON.stringify([data, background, ink]);
  if (shown.get(scroll) === wanted) return;
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
}

function isDark(background) {
  const match = /^#([0-9a-f]{2})([0-9a-f]{2})([0-9a-f]{2})/i.exec(background);
  if (!match) return false;
  const [r, g, b] = match.slice(1).map((part) => parseInt(part, 16));
  return 0.299 * r + 0.587 * g + 0.114 * b < 128;
}
