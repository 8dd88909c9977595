"""The grid of all heads: layers down, heads across, as small maps or as one statistic's colour. A click chooses a head.

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

HERE = Path(__file__).parent
SHARED = ("dom.js", "colour.js")  # of the map viewer
MODES = ("maps", "values")


def script() -> str:
    """The grid as one ES module."""
    shared = [(map_viewer.HERE / name).read_text("utf-8") for name in SHARED]
    return "\n".join([*shared, (HERE / "grid.js").read_text("utf-8")])


_grid = st.components.v2.component("headwater_head_grid", css=(HERE / "grid.css").read_text("utf-8"), js=script())


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
    mode: str = MODES[0]
    palette: str = "cividis"
    reserve: int = 270  # pixels of the browser's height that are not for the rows of heads

    def message(self) -> dict:
        """What the browser is told."""
        layers = [
            {"layer": layer, "values": [float(v) if math.isfinite(v) else None for v in values]}
            for layer, values in self.values.items()
        ]
        return {
            "url": f"data/{self.analysis}/grid/{self.kind}",
            "layers": layers,
            "measure": self.measure,
            "unit": self.unit,
            "selected": {"layer": self.layer, "head": self.head},
            "mode": self.mode,
            "palette": self.palette,
            "reserve": self.reserve,
        }


def head_grid(view: GridView, on_pick: Callable[[int, int], None], key: str = "headwater_grid") -> None:
    """Draws the grid; `on_pick(layer, head)` hears what was clicked."""

    def pick() -> None:
        value = st.session_state[key].get("pick")
        layer, head = (value.get("layer"), value.get("head")) if isinstance(value, dict) else (None, None)
        if layer in view.values and isinstance(head, int) and 0 <= head < len(view.values[layer]):
            on_pick(layer, head)

    _grid(key=key, data=view.message(), height="content", on_pick_change=pick)
