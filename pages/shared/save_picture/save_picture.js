// Saves the picture of a container as SVG or PNG: its chart, or what a component offers under its name.

const SCALE = 2; // PNG pixels per pixel of the screen
const MOST_PIXELS = 16_000; // per side; what browsers draw

function download(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  window.setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** {text, width, height} of the picture of a container, or a promise of it, or null. */
function pictureOf(container) {
  const chart = document.querySelector(`.st-key-${container} .vega-embed svg`);
  if (chart) {
    const { width, height } = chart.getBoundingClientRect();
    return { text: standalone(chart), width, height };
  }
  const asked = { name: container, picture: null };
  window.dispatchEvent(new CustomEvent("headwater-picture", { detail: asked }));
  return asked.picture;
}

function png({ text, width, height }) {
  const scale = Math.min(SCALE, MOST_PIXELS / Math.max(width, height));
  const image = new Image();
  const address = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
  return new Promise((resolve, reject) => {
    image.onload = () => {
      const canvas = document.createElement("canvas");
      canvas.width = Math.ceil(width * scale);
      canvas.height = Math.ceil(height * scale);
      canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
      URL.revokeObjectURL(address);
      canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error("empty picture"))), "image/png");
    };
    image.onerror = () => reject(new Error("the picture could not be drawn"));
    image.src = address;
  });
}

export default function (component) {
  const { data, parentElement } = component;
  const status = parentElement.querySelector('[role="status"]');

  const save = async (event) => {
    const form = event.target.dataset?.form;
    if (!form) return;
    try {
      const picture = await pictureOf(data.container);
      status.textContent = picture ? "" : "There is no picture to save yet.";
      if (!picture) return;
      const blob = form === "svg" ? new Blob([picture.text], { type: "image/svg+xml" }) : await png(picture);
      download(blob, `${data.name}.${form}`);
    } catch (error) {
      status.textContent = `The picture could not be saved as ${form.toUpperCase()}: ${error.message}.`;
    }
  };
  parentElement.addEventListener("click", save);
  return () => parentElement.removeEventListener("click", save);
}
