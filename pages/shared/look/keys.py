"""The keys of all pages, in the order of the list that `?` shows.

A page that answers to a key of its own adds it here; a key with `presses` needs nothing else: it presses the first
button or opens the first section of the page with that label, or goes to the first field whose label begins so.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Key:
    """One line of the list."""

    keys: str  # as printed on the keyboard, alternatives with a space between
    does: str
    presses: str = ""  # label of the button or section that the key presses
    field: str = ""  # beginning of the label of the field that the key goes to


KEYS = (
    Key("← →", "previous, next head; in a zoomed map: moves the map"),
    Key("↑ ↓", "previous, next layer; in a zoomed map: moves the map"),
    Key("Shift + arrows", "in a map: moves the marked cell"),
    Key("+ −", "in a map: zooms in, out"),
    Key("0 Home", "in a map: shows all of it"),
    Key("Shift + drag", "in a map: zooms to the box"),
    Key("Shift + click", "in the grid of heads: keeps the head beside the map"),
    Key("/", "search: for a token in the text beside a map, or in the list of the page", field="Search"),
    Key("s", "hides sink columns, and shows them again"),
    Key("l", "logarithmic colour, and back"),
    Key("t", "table", presses="Table"),
    Key("d", "definition", presses="Definition"),
    Key("c", "copies the link to this view"),
    Key("p", "presenter: large dark type on white, and back"),
    Key("PgDn PgUp", "while a lesson is presented: on, back"),
    Key("o b f n", "while a lesson is presented: spotlight, black screen, full screen, notes"),
    Key("?", "this list"),
)
