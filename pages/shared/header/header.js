// The right half of the page frame: what is shown, and the button that copies its link.
// All texts arrive as data and are written with textContent: a title is never markup.

function element(parent, tag, name, text) {
  const node = parent.querySelector(`.${name.replace(" ", ".")}`) ?? parent.appendChild(document.createElement(tag));
  node.className = name;
  if (text !== undefined) node.textContent = text;
  return node;
}

function address(query) {
  const { origin, pathname } = window.location;
  return query ? `${origin}${pathname}?${query}` : `${origin}${pathname}`;
}

async function copy(text) {
  if (window.isSecureContext && navigator.clipboard) {
    await navigator.clipboard.writeText(text);
    return;
  }
  // Plain http has no clipboard interface: select the text of a field and copy that.
  const field = document.body.appendChild(document.createElement("textarea"));
  field.value = text;
  field.style.position = "fixed";
  field.style.opacity = "0";
  field.select();
  const done = document.execCommand("copy");
  field.remove();
  if (!done) throw new Error("the browser refused to copy");
}

let stopListening = null; // Streamlit calls again with new data, and the end of the last call only when the page goes

export default function (component) {
  const { data, parentElement } = component;
  const root = element(element(parentElement, "div", "frame"), "div", "header");
  const facts = element(root, "div", "facts");
  const title = element(facts, "span", "title", data.title);
  title.title = `${data.title} (${data.model})`;
  element(facts, "span", "model", data.model);
  element(facts, "span", "numbers", data.numbers);

  const button = element(root, "button", "copy", "Copy link");
  button.type = "button";
  button.setAttribute("aria-label", "Copy the link to this view");
  const help = element(root, "button", "copy keys", "?");
  help.type = "button";
  help.title = "All keys";
  help.setAttribute("aria-label", "All keys");
  help.onclick = () => window.dispatchEvent(new CustomEvent("headwater-keys"));
  const shown = element(root, "input", "address");
  shown.readOnly = true;
  shown.hidden = true;
  shown.setAttribute("aria-label", "The link to this view");

  const press = async () => {
    const link = address(data.query);
    shown.value = link;
    try {
      await copy(link);
      button.textContent = "Copied";
    } catch {
      shown.hidden = false;
      shown.select();
      button.textContent = "Select and copy";
    }
    window.setTimeout(() => (button.textContent = "Copy link"), 2000);
  };
  button.onclick = press;

  const keys = (event) => {
    const typing = event.composedPath()[0]?.closest?.("input, textarea, select, [contenteditable]");
    if (event.key === "c" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) press();
  };
  stopListening?.();
  window.addEventListener("keydown", keys);
  stopListening = () => window.removeEventListener("keydown", keys);
  return () => stopListening?.();
}
