// One hint at a time: Next shows the following one, Hide puts them away. Which pages are done is kept in the browser.

const PREFIX = "headwater_hints_";

/** Storage may be forbidden; then the hints come again with the next visit. */
function remembered(page) {
  try {
    return window.localStorage.getItem(PREFIX + page) === "done";
  } catch {
    return false;
  }
}

function remember(page) {
  try {
    window.localStorage.setItem(PREFIX + page, "done");
  } catch {
    // shown again next time
  }
}

const done = new Set(); // of this visit

export default function (component) {
  const { data, parentElement } = component;
  if (parentElement.querySelector(".hi-card") || done.has(data.page) || remembered(data.page)) return;
  let at = 0;
  const card = document.createElement("section");
  card.className = "hi-card";
  card.setAttribute("aria-label", "Hints");
  const head = document.createElement("div");
  head.className = "hi-head";
  const text = document.createElement("p");
  text.setAttribute("role", "status");
  const next = document.createElement("button");
  const hide = document.createElement("button");
  next.type = hide.type = "button";
  hide.textContent = "Hide";
  const close = () => {
    done.add(data.page);
    remember(data.page);
    card.remove();
  };
  const show = () => {
    head.textContent = `Hint ${at + 1} of ${data.hints.length}`;
    text.textContent = data.hints[at];
    next.textContent = at + 1 < data.hints.length ? "Next" : "Done";
  };
  next.addEventListener("click", () => {
    at += 1;
    if (at < data.hints.length) show();
    else close();
  });
  hide.addEventListener("click", close);
  const buttons = document.createElement("div");
  buttons.className = "hi-buttons";
  buttons.append(next, hide);
  card.append(head, text, buttons);
  show();
  parentElement.append(card);
}
