"""The pattern of every head as files that others read: MInference's and DuoAttention's JSON.

Readers of both count entries from layer 0, so every layer has one; a layer without softmax attention has an empty one.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from backend.errors import Refused
from backend.types import LayerInfo

NOTHING = "No head of this analysis has a pattern: its exact maps were not kept."


def minference_json(rows: Sequence[dict], layers: Sequence[LayerInfo], n_tokens: int) -> str:
    """A list with one dictionary per layer: head -> [pattern, first size, second size, score].

    A window, with or without the first keys, is "stream_llm" (first keys, window), columns and diagonals are
    "vertical_and_slash" (columns, diagonals), blocks are "block_sparse" (blocks per row block, 1). A dense head is a
    "vertical_and_slash" of as many columns as there are tokens, and so is a head whose exact map was not kept: nothing
    of it may be skipped. The score is the share of attention kept.
    """
    if not rows:
        raise Refused(NOTHING)
    known = {(row["layer"], row["head"]): minference_entry(row, n_tokens) for row in rows}
    return json.dumps(
        [
            {str(head): known.get((layer, head), dense_entry(n_tokens)) for head in range(heads)}
            for layer, (heads, _) in enumerate(counts(layers))
        ],
        indent=1,
    )


def counts(layers: Sequence[LayerInfo]) -> list[tuple[int, int]]:
    """Heads and key heads of every layer from 0 to the last one; none of a layer without softmax attention."""
    found = {one.layer: (one.heads, one.key_heads) for one in layers if one.attention == "softmax"}
    return [found.get(layer, (0, 0)) for layer in range(max((one.layer for one in layers), default=-1) + 1)]


def dense_entry(n_tokens: int) -> list:
    """A head that keeps everything."""
    return ["vertical_and_slash", n_tokens, n_tokens, 1.0]


def minference_entry(row: dict, n_tokens: int) -> list:
    """One head."""
    name = row["pattern"]
    score = row.get(f"{name}_retained")
    if name in ("local", "a_shape") and row["pattern_window"] is not None:
        return ["stream_llm", row["pattern_first"], row["pattern_window"], round(score, 6)]
    if name in ("diagonal", "vertical_slash") and row["pattern_columns"] is not None:
        return ["vertical_and_slash", row["pattern_columns"], row["pattern_diagonals"], round(score, 6)]
    if name == "block" and row["pattern_blocks"] is not None:
        return ["block_sparse", row["pattern_blocks"], 1, round(score, 6)]
    return dense_entry(n_tokens)


def duo_attention_json(rows: Sequence[dict], layers: Sequence[LayerInfo], measured: slice) -> str:
    """sink_size, recent_size, and one number per layer and key head: 1 = must keep everything, 0 = may stream.

    The number is the share of attention outside the first and the recent keys, mean over the query heads of the key
    head: measured on this prompt, where DuoAttention trains it, on the rows that `measured_rows` gives (the first one
    and the one behind the last).
    """
    if not rows:
        raise Refused(NOTHING)
    outside = {(row["layer"], row["head"]): 1 - row["streaming_retained"] for row in rows}
    table = []
    for layer, (heads, key_heads) in enumerate(counts(layers)):
        values = [outside.get((layer, head)) for head in range(heads)]
        if None in values:
            raise Refused(
                f"DuoAttention's file needs all heads of a layer; of layer {layer} not all were kept exactly."
            )
        group = heads // max(1, key_heads)
        table.append([round(sum(values[at * group : (at + 1) * group]) / group, 6) for at in range(key_heads)])
    first = rows[0]
    return json.dumps(
        {"sink_size": first["streaming_first"], "recent_size": first["streaming_recent"],
         "measured_rows": [measured.start, measured.stop], "full_attention_heads": table},
        indent=1,
    )  # fmt: skip
