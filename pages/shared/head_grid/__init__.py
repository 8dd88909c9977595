"""The grid of all heads: layers down, heads across, or by value; as small maps or as one statistic's colour.

A click chooses a head, a click with Shift keeps it beside the large map.

Small maps are pictures of the data route, one per layer. The colours, numbers and labels are those of the map viewer,
whose scripts are joined in front.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import streamlit as st

from pages.shared import map_viewer
from pages.shared.save_picture import OFFER
from pages.shared.scripts import by_reference

HERE = Path(__file__).parent
SHARED = ("dom.js", "colour.js")  # of the map viewer
PICTURE = "headwater_all_heads"  # under which name the picture of the grid is offered to be saved
MODES = ("maps", "values")
ORDERS = ("layers", "value")


def script() -> str:
    """The grid as one ES module."""
    shared = [(map_viewer.HERE / name).read_text("utf-8") for name in SHARED]
    own = [path.read_text("utf-8") for path in (OFFER, HERE / "picture.js", HERE / "grid.js")]
    return "\n".join([*shared, *own])


_labels = st.components.v2.component(
    "headwater_head_labels", js=by_reference("head_labels", (HERE / "labels.js").read_text("utf-8"))
)
_grid = st.components.v2.component(
    "headwater_head_grid", css=(HERE / "grid.css").read_text("utf-8"), js=by_reference("head_grid", script())
)


@dataclass(frozen=True)
class Arranged:
    """How the heads are arranged. All of it belongs into the address."""

    mode: str = MODES[0]  # small maps, or the measure as a colour
    order: str = ORDERS[0]  # layers down and heads across, or by the measure, largest first
    least: float | None = None  # heads below this value of the measure are veiled, or left out of the order by value


@dataclass(frozen=True)
class GridView:
    """What the grid shows."""

    analysis: str
    kind: str
    values: Mapping[int, Sequence[float]]  # layer -> the measure of each head, NaN where undefined
    measure: str  # its name in words
    unit: str
    layer: int  # the selected head
    head: int
    arranged: Arranged = Arranged()
    palette: str = "cividis"
    pins: tuple[tuple[int, int], ...] | None = (
        None  # (layer, head) of those kept beside the large map; None: not offered
    )
    sinkfree: bool = False  # small maps without the columns of sinks
    note: str = ""  # of what rows the numbers are
    reserve: int = 306  # pixels of the browser's height that are not for the rows of heads

    def message(self) -> dict:
        """What the browser is told."""
        layers = [
            {"layer": layer, "values": [float(v) if math.isfinite(v) else None for v in values]}
            for layer, values in self.values.items()
        ]
        return {
            "url": grid_address(self.analysis, self.kind),
            "layers": layers,
            "measure": self.measure,
            "unit": self.unit,
            "selected": {"layer": self.layer, "head": self.head},
            "mode": self.arranged.mode,
            "order": self.arranged.order,
            "least": self.arranged.least,
            "pins": None if self.pins is None else [list(pin) for pin in self.pins],
            "palette": self.palette,
            "sinkFree": self.sinkfree,
            "note": self.note,
            "picture": PICTURE,
            "reserve": self.reserve,
        }


def head_grid(
    view: GridView,
    on_pick: Callable[[int, int], None],
    on_pin: Callable[[int, int], None] = lambda layer, head: None,
    on_arrange: Callable[[Arranged], None] = lambda arranged: None,
    key: str = "headwater_grid",
) -> None:
    """Draws the grid. The callbacks hear of (layer, head) that was clicked, of one to keep beside the map or to take
    away, and of how the heads are arranged."""

    def head(name: str, act: Callable[[int, int], None]) -> Callable[[], None]:
        def tell() -> None:
            value = st.session_state[key].get(name)
            layer, head = (value.get("layer"), value.get("head")) if isinstance(value, dict) else (None, None)
            if layer in view.values and isinstance(head, int) and 0 <= head < len(view.values[layer]):
                act(layer, head)

        return tell

    def arrange() -> None:
        value = st.session_state[key].get("arrange")
        if isinstance(value, dict):
            on_arrange(read_arranged(value.get("mode"), value.get("order"), value.get("least")))

    _grid(
        key=key,
        data=view.message(),
        height="content",
        on_pick_change=head("pick", on_pick),
        on_pin_change=head("pin", on_pin),
        on_arrange_change=arrange,
    )


def tell_labels(analysis: str, kind: str, labels: Mapping[tuple[int, int], str]) -> None:
    """Tells the grid of a page the labels of its heads, with their scores, once they are known: it does not wait for
    them, and shows them beside the value of a head."""
    named = {f"{layer}.{head}": text for (layer, head), text in labels.items() if text}
    message = {"url": grid_address(analysis, kind), "labels": named}
    with st.container(key="headwater_head_labels"):
        _labels(key="headwater_head_labels_told", data=message, height=1)


def grid_address(analysis: str, kind: str) -> str:
    """Where the browser fetches the small maps, beside the page."""
    return f"data/{analysis}/grid/{kind}"


def read_arranged(mode: object, order: object, least: object) -> Arranged:
    """What the browser or the address says; what is unknown takes its default."""
    try:
        value = float(least) if isinstance(least, int | float | str) else math.nan
    except ValueError:
        value = math.nan
    return Arranged(
        mode if mode in MODES else MODES[0],
        order if order in ORDERS else ORDERS[0],
        value if math.isfinite(value) else None,
    )
