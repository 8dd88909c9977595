"""The zoomable map of one head, with the prompt beside it as text coloured by attention.

The browser fetches tiles from the data routes and colours them itself. Python says which map, and hears of the window,
the marked cell and the chosen look; it never sees the weights. The scripts are plain JavaScript, joined in the order of
SCRIPTS: no build step, nothing from another host.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

import streamlit as st

from backend.types import Segment
from pages.shared.picture_first import announce
from pages.shared.scripts import by_reference
from pages.shared.view_state import Span

HERE = Path(__file__).parent
SCRIPTS = (
    "dom.js",
    "colour.js",
    "tiles.js",
    "bands.js",
    "axes.js",
    "text.js",
    "paint.js",
    "pane.js",
    "canvas.js",
    "save.js",
    "viewer.js",
)
SINK_COLOUR = "#d0611c"  # sinks have one colour on every page

HEAD = re.compile(r"[0-9]{1,6}\.[0-9]{1,6}")  # layer.head
SCALES = ("root", "linear", "log", "row", "quantile")
HOWS = ("mean", "max")
DIRECTIONS = ("from", "to")


def script() -> str:
    """The viewer as one ES module."""
    return "\n".join((HERE / name).read_text("utf-8") for name in SCRIPTS)


_viewer = st.components.v2.component(
    "headwater_map_viewer",
    css=(HERE / "viewer.css").read_text("utf-8"),
    js=by_reference("map_viewer", script()),
)


@dataclass(frozen=True)
class Look:
    """How weights become colours. All of it belongs into the address."""

    scale: str = SCALES[0]  # square root, linear, log, each row by its own largest weight in the window, or by rank
    how: str = HOWS[0]  # what a block of many cells shows from afar: their mean or their largest
    hide: bool = False  # sink columns are left out of colours and scale
    fold: bool = False  # so are the columns of a picture among words
    direction: str = DIRECTIONS[0]  # the text shows attention from the token (its row) or to it (its column)
    threshold: float = 0.0  # weights below it are drawn like zero


@dataclass(frozen=True)
class OtherMap:
    """A map beside or against the chosen one: of another head, or of another analysis with the same tokens."""

    analysis: str
    kind: str
    layer: int
    head: int
    exact: bool
    sinks: tuple[int, ...] = ()
    title: str = ""  # of another analysis

    def message(self) -> dict:
        name = f"{self.layer}.{self.head}"
        return {
            "name": f"{name} of {self.title}" if self.title else name,
            "head": name,
            "map": map_address(self.analysis, self.kind, self.layer, self.head),
            "exact": self.exact,
            "sinks": list(self.sinks),
        }


def map_address(analysis: str, kind: str, layer: int, head: int) -> str:
    """Where the browser fetches pieces of a map, beside the page."""
    return f"data/{analysis}/map/{kind}/{layer}/{head}"


@dataclass(frozen=True)
class MapView:
    """One map as the viewer shows it."""

    analysis: str
    kind: str
    layer: int
    head: int
    shape: tuple[int, int]  # queries, keys
    exact: bool  # queries and keys are kept: any window can be computed
    query_side: str = "self"  # side of the token table along the rows
    key_side: str = "self"
    segments: tuple[Segment, ...] = ()
    segment_sides: tuple[str, ...] = ()  # the side of each; () = all of them belong to every axis
    sinks: tuple[int, ...] = ()  # keys detected as sinks of this head
    note: str = ""
    rows: Span | None = None
    columns: Span | None = None
    query: int | None = None  # the marked cell, or only its row or key
    key: int | None = None
    look: Look = Look()
    palette: str = "cividis"
    large: bool = False  # for the last row of a lecture hall
    reserve: int = 364  # pixels of the browser's height that are not for the map itself
    others: tuple[OtherMap, ...] = ()  # shown beside it, in step with it
    alike: bool = False  # every head of this kind has an exact map of this shape: the grid may switch ahead of the page
    sinkfree: bool = False  # sink columns are left out, and what is told of a row is told of what they leave
    minus: OtherMap | None = None  # its weights are taken away from those of the chosen map

    def message(self) -> dict:
        """What the browser is told."""
        window = None
        if self.rows or self.columns:
            rows, columns = self.rows or (0, self.shape[0]), self.columns or (0, self.shape[1])
            window = {"rows": list(rows), "columns": list(columns)}
        marked = self.query is not None or self.key is not None
        return {
            "name": f"{self.layer}.{self.head}",
            "map": map_address(self.analysis, self.kind, self.layer, self.head),
            "tokens": f"data/{self.analysis}/tokens.json",
            "sides": [self.query_side, self.key_side],
            "segments": [
                {"name": s.name, "kind": s.kind, "start": s.start, "end": s.end, "side": side}
                for s, side in zip_longest(self.segments, self.segment_sides)
            ],
            "shape": list(self.shape),
            "exact": self.exact and (self.minus is None or self.minus.exact),
            "sinks": list(self.sinks),
            "alike": self.alike,
            "others": [other.message() for other in self.others],
            "minus": self.minus.message() if self.minus else None,
            "sinkFree": self.sinkfree,
            "sinkColour": SINK_COLOUR,
            "note": self.note,
            "window": window,
            "cell": {"query": self.query, "key": self.key} if marked else None,
            "look": {
                "scale": self.look.scale,
                "how": self.look.how,
                "hide": self.look.hide,
                "fold": self.look.fold,
                "direction": self.look.direction,
                "threshold": self.look.threshold,
            },
            "palette": self.palette,
            "large": self.large,
            "reserve": self.reserve,
        }


def map_viewer(
    view: MapView,
    *,
    on_window: Callable[[Span | None, Span | None], None],
    on_cell: Callable[[int | None, int | None], None],
    on_look: Callable[[Look], None],
    on_pin: Callable[[str], None] = lambda head: None,
    on_choose: Callable[[str], None] = lambda head: None,
    key: str = "headwater_map",
) -> None:
    """Draws the map. The callbacks hear what the person did: window (None = all), marked cell, look, a head to take
    away from those beside the map ("layer.head"), a head to choose."""

    def said(name: str) -> dict:
        value = st.session_state[key].get(name)
        return value if isinstance(value, dict) else {}

    def window() -> None:
        value = said("window")
        on_window(_span(value.get("rows"), view.shape[0]), _span(value.get("columns"), view.shape[1]))

    def cell() -> None:
        value = said("cell")
        on_cell(_index(value.get("query"), view.shape[0]), _index(value.get("key"), view.shape[1]))

    def look() -> None:
        on_look(read_look(said("look")))

    def named(act: Callable[[str], None], name: str) -> Callable[[], None]:
        def tell() -> None:
            head = said(name).get("head")
            if isinstance(head, str) and HEAD.fullmatch(head):
                act(head)

        return tell

    message = view.message()
    _viewer(
        key=key,
        data={**message, "painted": announce(message["map"])},
        height="content",
        on_window_change=window,
        on_cell_change=cell,
        on_look_change=look,
        on_pin_change=named(on_pin, "pin"),
        on_choose_change=named(on_choose, "choose"),
    )


def read_look(value: dict) -> Look:
    """A look from outside; what is unknown takes its default."""
    plain = Look()
    return Look(
        scale=value["scale"] if value.get("scale") in SCALES else plain.scale,
        how=value["how"] if value.get("how") in HOWS else plain.how,
        hide=value.get("hide") is True,
        fold=value.get("fold") is True,
        direction=value["direction"] if value.get("direction") in DIRECTIONS else plain.direction,
        threshold=_threshold(value.get("threshold")),
    )


def _threshold(value: object) -> float:
    """A weight between 0 and 1 from the browser or the address, else 0."""
    try:
        number = float(value) if isinstance(value, int | float | str) else 0.0
    except ValueError:
        return 0.0
    return number if 0.0 <= number <= 1.0 else 0.0


def _span(value: object, size: int) -> Span | None:
    """A window the browser reported, or None where it is the whole axis or no window."""
    if not isinstance(value, list) or len(value) != 2 or not all(type(edge) is int for edge in value):
        return None
    start, stop = value
    return (start, stop) if 0 <= start < stop <= size and (start, stop) != (0, size) else None


def _index(value: object, size: int) -> int | None:
    return value if type(value) is int and 0 <= value < size else None  # True is an int too, but no index
