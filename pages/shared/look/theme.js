// Switches Streamlit to the theme that the address asks for, and back when it asks for none any more.
//
// Streamlit keeps the chosen theme per page in localStorage and reads it when the page is loaded. So the choice is
// written there and the page loaded again, once; without storage the browser's own theme stays.

const KEY = `stActiveTheme-${window.location.pathname}-v2`;
const OURS = "headwaterTheme"; // the theme that was set here, so that only that one is taken back

function luminance(colour) {
  const parts = colour.match(/[\d.]+/g);
  if (!parts) return null;
  const [r, g, b] = parts.map(Number);
  return (0.299 * r + 0.587 * g + 0.114 * b) / 255;
}

function shown() {
  const light = luminance(getComputedStyle(document.querySelector(".stApp") ?? document.body).backgroundColor);
  return light === null ? null : light > 0.5 ? "Light" : "Dark";
}

function wish(name) {
  try {
    const kept = JSON.parse(window.localStorage.getItem(KEY) ?? '"System"');
    const ours = window.sessionStorage.getItem(OURS);
    if (name === null) {
      if (ours === null) return;
      window.sessionStorage.removeItem(OURS);
      if (kept !== ours) return; // the person chose another one in the settings menu since
      window.localStorage.setItem(KEY, JSON.stringify("System"));
    } else {
      if (shown() === name || (kept === name && ours === name)) return;
      window.sessionStorage.setItem(OURS, name);
      window.localStorage.setItem(KEY, JSON.stringify(name));
    }
    window.location.reload();
  } catch (error) {
    if (!(error instanceof DOMException) && !(error instanceof SyntaxError)) throw error;
  }
}

let stopListening = null; // Streamlit calls again with new data, and the end of the last call only when the page goes

export default function ({ data, parentElement }) {
  wish(data.name);
  stopListening?.();
  stopListening = listenToKeys(data.keys, parentElement);
  return () => stopListening?.();
}
