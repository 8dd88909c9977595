// Keys that belong to the whole page, and the list of all keys. The list comes from keys.py.

const PRESENTER = "projector";

/** Whether the person is writing: then no letter is a command. */
function isTyping(event) {
  const at = event.composedPath()[0];
  return at?.closest?.("input:not([type=range]), textarea, select, [contenteditable], [role=combobox]") != null;
}

/** The first button or section of the page with that label, in sight or not. */
function withLabel(label) {
  const all = document.querySelectorAll("button, summary");
  return [...all].find((one) => one.textContent.trim() === label && one.offsetParent !== null);
}

function fieldNamed(start) {
  return [...document.querySelectorAll("input[aria-label]")].find((one) => one.getAttribute("aria-label").startsWith(start));
}

/** Dark type on white for the last row of a room, or back: the address says which, so the page is loaded anew. */
function togglePresenter() {
  const next = new URL(window.location.href);
  if (next.searchParams.get("theme") === PRESENTER) next.searchParams.delete("theme");
  else next.searchParams.set("theme", PRESENTER);
  window.location.assign(next);
}

function line(parent, tag, texts) {
  const row = parent.appendChild(document.createElement("tr"));
  for (const text of texts) row.appendChild(document.createElement(tag)).textContent = text;
}

function keyDialog(keys) {
  const dialog = document.createElement("dialog");
  dialog.setAttribute("aria-label", "Keys");
  const table = dialog.appendChild(document.createElement("table"));
  line(table, "th", ["key", "what it does"]);
  for (const { keys: names, does } of keys) line(table, "td", [names, does]);
  const close = dialog.appendChild(document.createElement("button"));
  close.type = "button";
  close.textContent = "Close";
  close.addEventListener("click", () => dialog.close());
  return dialog;
}

/** Listens to the keys of the page; returns what takes the ears off again. */
function listenToKeys(keys, parent) {
  const dialog = keyDialog(keys);
  parent.querySelector("dialog")?.remove();
  parent.append(dialog);
  const show = () => (dialog.open ? dialog.close() : dialog.showModal());
  const press = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || isTyping(event)) return;
    const key = keys.find((one) => one.keys === event.key);
    const target = key?.presses ? withLabel(key.presses) : key?.field ? fieldNamed(key.field) : null;
    if (event.key === "?") show();
    else if (event.key === "p") togglePresenter();
    else if (target) {
      target.scrollIntoView({ block: "center" });
      target.focus();
      if (key.presses) target.click();
    } else return;
    event.preventDefault();
  };
  document.addEventListener("keydown", press);
  window.addEventListener("headwater-keys", show);
  return () => {
    document.removeEventListener("keydown", press);
    window.removeEventListener("headwater-keys", show);
    dialog.remove();
  };
}
