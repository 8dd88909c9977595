// Presses Ctrl+Enter in a text area when typing pauses.

export default function (component) {
  const { container, milliseconds } = component.data;
  let waiting = null;

  const commit = (field) => {
    if (!field.isConnected) return;
    const press = { key: "Enter", code: "Enter", keyCode: 13, ctrlKey: true, bubbles: true, cancelable: true };
    field.dispatchEvent(new KeyboardEvent("keydown", press));
  };
  const typed = (event) => {
    const field = event.target;
    if (!(field instanceof HTMLTextAreaElement) || !field.closest(`.st-key-${container}`)) return;
    window.clearTimeout(waiting);
    waiting = window.setTimeout(() => commit(field), milliseconds);
  };
  document.addEventListener("input", typed);
  return () => {
    window.clearTimeout(waiting);
    document.removeEventListener("input", typed);
  };
}
