"""A component's script by reference: Streamlit sends a few lines with every run, the browser fetches the rest once."""

from __future__ import annotations

from backend.scripts import publish

# The folder of the page, also behind a path prefix, as in map_viewer/dom.js.
STUB = """const folder = window.location.pathname.replace(/\\/+$/, "").replace(/[^/]*$/, "");
const { default: show } = await import(new URL(`${folder}data/scripts/NAME.js`, window.location.origin).href);
export default show;
"""


def by_reference(name: str, text: str) -> str:
    """What a component is given instead of the script itself."""
    return STUB.replace("NAME", publish(name, text))
