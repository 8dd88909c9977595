// Tokens with the share of heads that keeps each. Texts are text nodes, never markup.

const FAINTEST = 0.55; // a dropped token can still be read

export default function (component) {
  const root = component.parentElement;
  let frame = root.querySelector(".kept-text");
  if (!frame) {
    frame = document.createElement("div");
    frame.className = "kept-text";
    frame.tabIndex = 0;
    frame.setAttribute("role", "region");
    frame.setAttribute("aria-label", "The prompt with kept and dropped tokens");
    root.append(frame);
  }
  const parts = component.data.tokens.map(({ at, label, kept }) => {
    const part = document.createElement("span");
    part.textContent = label;
    if (kept === null) {
      part.className = "behind";
      part.title = `token ${at}: behind the context`;
      return part;
    }
    part.className = kept === 0 ? "dropped" : kept === 1 ? "all" : "";
    part.style.opacity = String(FAINTEST + (1 - FAINTEST) * kept);
    part.title = `token ${at}: kept in ${(100 * kept).toFixed(0)} % of the heads looked at`;
    return part;
  });
  frame.replaceChildren(...parts);
}
