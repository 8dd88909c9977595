// The labels of all heads, told to the grid of the page once they are known; a grid that comes later asks for them.

const told = new WeakMap(); // parent element -> what was told last, with the way to tell it again

export default function ({ data, parentElement }) {
  let one = told.get(parentElement);
  if (!one) {
    one = { tell: () => window.dispatchEvent(new CustomEvent("headwater-labels", { detail: one.data })) };
    told.set(parentElement, one);
    window.addEventListener("headwater-labels-wanted", one.tell);
  }
  one.data = data;
  one.tell();
  return () => {
    window.removeEventListener("headwater-labels-wanted", one.tell);
    told.delete(parentElement);
  };
}
