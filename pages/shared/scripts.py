"""A component's script by reference: Streamlit sends a few lines with every run, the browser fetches the rest once.

The script finds its own address in `import.meta.url`: it lies in data/scripts/ of the app, also behind a path prefix.
"""

from __future__ import annotations

import json

from backend.scripts import publish
from pages.shared.menu import menu

# The last part of the path is a page, or it belongs to the prefix and this is the first page.
STUB = """const path = window.location.pathname.replace(/\\/+$/, "");
const onPage = PAGES.includes(path.slice(path.lastIndexOf("/") + 1));
const folder = onPage ? path.slice(0, path.lastIndexOf("/")) : path;
const { default: show } = await import(new URL(`${folder}/data/scripts/NAME.js`, window.location.origin).href);
export default show;
"""


def by_reference(name: str, text: str) -> str:
    """What a component is given instead of the script itself."""
    pages = json.dumps([page for page, _ in menu()])
    return STUB.replace("PAGES", pages).replace("NAME", publish(name, text))
