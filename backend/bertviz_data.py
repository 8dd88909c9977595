"""What BertViz's three views are fed with: weights, queries and keys of a window of a stored analysis.

The views draw one line per weight, visible or not, so each takes as many tokens as it can draw at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt

import numpy as np

from backend.errors import NoExactMap
from backend.map_sizes import axis_labels, map_sizes
from backend.store import Analysis

VIEWS = ("head", "model", "neuron")
MOST_LINES = {"head": 40_000, "model": 60_000, "neuron": 12_000}  # lines; tokens follow from heads and layers
MOST_TOKENS = {"head": 128, "model": 64, "neuron": 40}
NEAR = 3  # layers on either side of the chosen one in the model view
DIGITS = 4


@dataclass(frozen=True)
class Fed:
    """The parameters of one view, and what they show."""

    params: dict
    layers: list[int]
    queries: range
    keys: range
    missing: int  # heads without an exact map: drawn without lines
    held: float  # share of the attention of the shown queries that is on the shown keys


def feed(
    analysis: Analysis, view: str, layer: int, head: int, kind: str, start: int = 0, *, every: bool = False
) -> Fed:
    """Parameters for one view. start: first token of the window. every: all layers (model view).

    NoExactMap where no head of the layer, or for the neuron view not this one, has kept queries and keys.
    """
    infos = {info.layer: info for info in analysis.layers(kind)}
    sizes = map_sizes(analysis)[kind]
    size = sizes[layer]
    alike = [one for one in infos if (sizes[one].queries, sizes[one].keys) == (size.queries, size.keys)]
    layers = near_layers(alike, layer, every) if view == "model" else [layer]
    heads = max(infos[one].heads for one in layers)
    shown = 1 if view == "neuron" else heads * len(layers)
    most = max(2, min(MOST_TOKENS[view], isqrt(MOST_LINES[view] // shown)))
    queries = window(size.queries, most, start)
    keys = window(size.keys, most, start)
    attention, held, missing = weights_of(analysis, kind, layers, heads, queries, keys)
    if missing == shown or (view == "neuron" and head not in analysis.exact_heads(layer, kind)):
        raise NoExactMap(f"The exact maps of layer {layer} were not kept, so this view has nothing to draw.")
    names = labels(analysis, kind, layer)
    one = {
        "name": None,
        "attn": attention,
        "left_text": names[0][queries.start : queries.stop],
        "right_text": names[1][keys.start : keys.stop],
    }
    common = {"root_div_id": "bertviz", "layer": layer, "head": head}
    if view == "head":
        params = {**common, "attention": [one], "default_filter": "0", "heads": [head], "include_layers": layers}
    elif view == "model":
        params = {**common, "attention": [one], "default_filter": "0", "include_layers": layers}
        params |= {"include_heads": list(range(heads)), "total_heads": heads}
    else:
        one |= vectors(analysis, kind, layer, head, queries, keys)
        one["attn"] = [[attention[0][head]]]
        params = {**common, "attention": {"all": one}, "default_filter": "all", "layer": 0, "head": 0}
        params |= {"bidirectional": not analysis.score(layer, kind).causal}
    return Fed(params, layers, queries, keys, missing, held)


def near_layers(layers: list[int], layer: int, every: bool) -> list[int]:
    """The layers of the model view."""
    at = layers.index(layer)
    return layers if every else layers[max(0, at - NEAR) : at + NEAR + 1]


def window(length: int, most: int, start: int) -> range:
    """At most `most` tokens from `start` on; an earlier start where fewer would be left."""
    first = max(0, min(start, length - most))
    return range(first, min(length, first + most))


def weights_of(
    analysis: Analysis, kind: str, layers: list[int], heads: int, queries: range, keys: range
) -> tuple[list, float, int]:
    """attention[layer][head][query][key], the share of the rows that it holds, and how many heads have none."""
    rows, columns = slice(queries.start, queries.stop), slice(keys.start, keys.stop)
    found, held, missing = [], [], 0
    for layer in layers:
        exact = analysis.exact_heads(layer, kind)
        found.append([])
        for head in range(heads):
            if head not in exact:
                found[-1].append(np.zeros((len(queries), len(keys))).tolist())
                missing += 1
                continue
            values = np.nan_to_num(analysis.map(layer, head, rows, columns, kind=kind))
            held.append(float(values.sum(1).mean()))
            found[-1].append(rounded(values))
    return found, float(np.mean(held)) if held else 0.0, missing


def vectors(analysis: Analysis, kind: str, layer: int, head: int, queries: range, keys: range) -> dict:
    """The stored queries and keys of one head, as BertViz names them."""
    kept = analysis.kept(layer, head, kind=kind)
    if kept.query is None or kept.key is None:
        raise NoExactMap("This family computes its own softmax, so its weights were kept but no queries and keys.")
    return {
        "queries": [[rounded(kept.query[0, 0, queries.start : queries.stop].numpy())]],
        "keys": [[rounded(kept.key[0, 0, keys.start : keys.stop].numpy())]],
    }


def rounded(values: np.ndarray) -> list:
    """As lists of a few digits each."""
    return values.astype(np.float64).round(DIGITS).tolist()


def labels(analysis: Analysis, kind: str, layer: int) -> tuple[list[str], list[str]]:
    """Display labels of the queries and keys of a layer."""
    by_side: dict[str, list[str]] = {}
    for token in analysis.tokens_list():
        by_side.setdefault(token.side, []).append(token.label)
    return axis_labels(analysis, kind, layer, by_side)
