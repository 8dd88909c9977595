"""Takes the pictures of the README: each page and a lesson, `python -m tools.pictures [--into FOLDER] [name ...]`.

The app is started with nothing but the bundled analyses, each address is opened in Chromium, and the picture is saved
under docs/ or in that folder, at most 300 kB each.
"""

from __future__ import annotations

import io
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from tools.app_server import CHROMIUM, CHROMIUM_FLAGS, PROJECT, serve

SIZE = {"width": 1280, "height": 720}
LARGEST_BYTES = 300_000
SETTLE_MS = 2500
READY = ".hw-viewer[data-state=ready], [data-testid=stVegaLiteChart] canvas, [data-testid=stVegaLiteChart] svg"

# every visible image is there, and nothing visible is a grey stand-in for what Streamlit still loads
COMPLETE = """() => {
  const visible = (selector) => [...document.querySelectorAll(selector)].filter((one) => one.offsetParent !== null);
  return visible('img').every((image) => image.complete) && visible('[data-testid=stSkeleton]').length === 0;
}"""


@dataclass(frozen=True)
class Picture:
    """One picture: the address it shows, and what must be on the page before it is taken."""

    address: str
    ready: str = READY


PICTURES = {
    "home": Picture("/", ".st-key-headwater_run button, [class*=st-key-headwater_row_]"),
    "heads": Picture("/heads?analysis=bundled-story&layer=17&head=3"),
    "sinks": Picture("/sinks?analysis=bundled-story"),
    "basins": Picture("/basins?analysis=bundled-documents"),
    "sparsity": Picture("/sparsity?analysis=bundled-story&layer=5&head=6"),
    "studies": Picture("/studies", "[data-testid=stMain] [data-testid=stExpander]"),
    "sql": Picture("/sql?analysis=bundled-story", "[data-testid=stMain] textarea, [data-testid=stDataFrame]"),
    "glossary": Picture("/glossary", "[class*=st-key-headwater_term_]"),
    "lessons": Picture("/lessons", "[class*=st-key-headwater_begin_]"),
    "lesson": Picture("/lessons?lesson=previous_and_induction&step=3&shown=3&guess=1b2c3b"),
    "presenting": Picture("/lessons?lesson=sinks&step=1&shown=1&present=1"),
}


def take(names: list[str], folder: Path) -> list[Path]:
    """Takes the named pictures into a folder; those of pages that are not there are left out and said."""
    from playwright.sync_api import sync_playwright

    taken = []
    with tempfile.TemporaryDirectory() as data, serve(Path(data)) as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=CHROMIUM_FLAGS)
        for name in names:
            picture = PICTURES[name]
            page_file = picture.address.split("?")[0].strip("/")
            if page_file and not (PROJECT / "pages" / f"{page_file}.py").exists():
                print(f"{name}: there is no page {page_file}")
                continue
            context = browser.new_context(viewport=SIZE, color_scheme="light")
            page = context.new_page()
            page.goto(url + picture.address)
            page.wait_for_selector(picture.ready, timeout=90_000)
            page.wait_for_function(COMPLETE, timeout=90_000)
            page.wait_for_timeout(SETTLE_MS)
            taken.append(save(page.screenshot(), folder / f"{name}.png"))
            context.close()
        browser.close()
    return taken


def save(png: bytes, path: Path) -> Path:
    """Writes a picture with all its colours, or as many as fit into the largest size."""
    picture = Image.open(io.BytesIO(png)).convert("RGB")
    for colours in ("all", 256, 128, 64):
        packed = io.BytesIO()
        fewer = picture if colours == "all" else picture.quantize(colours, dither=Image.Dither.NONE)
        fewer.save(packed, "PNG", optimize=True)
        if packed.tell() <= LARGEST_BYTES:
            break
    else:
        raise SystemExit(f"{path.name} has {packed.tell()} bytes with {colours} colours, at most {LARGEST_BYTES}.")
    path.write_bytes(packed.getvalue())
    print(f"{path}: {packed.tell() / 1000:.0f} kB, {colours} colours")
    return path


if __name__ == "__main__":
    wanted, folder = sys.argv[1:], PROJECT / "docs"
    if wanted[:1] == ["--into"]:
        folder, wanted = Path(wanted[1]), wanted[2:]
    take(wanted or list(PICTURES), folder)
