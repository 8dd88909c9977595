"""BertViz's head view, model view and neuron view, fed with our weights, queries and keys; nothing from another host.

The view lives in a frame without access to the page. Its scripts come from installed packages by way of the data
routes, once per browser; a few lines stand in for the loader that it expects.
"""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from backend.bertviz_data import Fed
from backend.installed_scripts import version_of
from pages.shared.save_picture import OFFER
from pages.shared.scripts import by_reference

HERE = Path(__file__).parent
LIBRARIES = ("jquery", "d3")
HEIGHTS = {"head": 22.5, "model": 0.0, "neuron": 26.0}  # pixels per token
NAMES = {"head": "head_view", "model": "model_view", "neuron": "neuron_view"}
SELECTS = {"head": ["layer"], "model": [], "neuron": ["layer", "att_head"]}  # what the view expects on the page

_bertviz_view = st.components.v2.component(
    "headwater_bertviz_view",
    css=(HERE / "bertviz_view.css").read_text("utf-8"),
    js=by_reference("bertviz_view", "\n".join(path.read_text("utf-8") for path in (OFFER, HERE / "bertviz_view.js"))),
)


def scripts_of(view: str) -> tuple[str, ...]:
    """The scripts that a view needs, in the order in which they run."""
    return (*LIBRARIES, NAMES[view])


def bertviz_view(view: str, fed: Fed, layer: int, head: int, picture: str) -> None:
    """Draws one view; it is made anew only where something of it changed. picture: the name it is offered to be saved
    under."""
    tokens = max(len(fed.queries), len(fed.keys))
    height = 110 + HEIGHTS[view] * tokens if view != "model" else model_height(fed, tokens)
    _bertviz_view(
        key="headwater_bertviz_view",
        data={
            "picture": picture,
            "scripts": [f"data/scripts/{name}.js?v={version_of(name)}" for name in scripts_of(view)],
            "global": "bertviz_params" if view == "neuron" else "PYTHON_PARAMS",
            "params": fed.params,
            "selects": SELECTS[view],
            "names": {"layer": layer, "att_head": head} if view == "neuron" else {},
            "height": round(height),
            "title": f"BertViz {NAMES[view].replace('_', ' ')}",
        },
        height="content",
    )


def model_height(fed: Fed, tokens: int) -> float:
    """As the model view computes it: thumbnails by rows, never less than the large view of one head."""
    heads = fed.params["total_heads"]
    return max(len(fed.layers) * (tokens * 7 * 12 / heads + 10) + 43, tokens * 18 + 55) + 40
