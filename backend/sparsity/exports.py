"""The pattern of every head as files that others read: MInference's and DuoAttention's JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence

from backend.errors import Refused


def minference_json(rows: Sequence[dict], n_tokens: int) -> str:
    """A list with one dictionary per layer: head -> [pattern, first size, second size, score].

    A window, with or without the first keys, is "stream_llm" (first keys, window), columns and diagonals are
    "vertical_and_slash" (columns, diagonals), blocks are "block_sparse" (blocks per row block, 1). A dense head is a
    "vertical_and_slash" of as many columns as there are tokens. The score is the share of attention kept.
    """
    if not rows:
        raise Refused("No head of this analysis has a pattern: its exact maps were not kept.")
    layers: dict[int, dict[str, list]] = {}
    for row in rows:
        layers.setdefault(row["layer"], {})[str(row["head"])] = minference_entry(row, n_tokens)
    return json.dumps([layers[layer] for layer in sorted(layers)], indent=1)


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
    return ["vertical_and_slash", n_tokens, n_tokens, 1.0]


def duo_attention_json(rows: Sequence[dict], key_heads: int) -> str:
    """sink_size, recent_size, and one number per layer and key head: 1 = must keep everything, 0 = may stream.

    The number is the share of attention outside the first and the recent keys, mean over the query heads of the key
    head: measured on this prompt, where DuoAttention trains it.
    """
    if not rows:
        raise Refused("No head of this analysis has a pattern: its exact maps were not kept.")
    by_layer: dict[int, list[float]] = {}
    for row in sorted(rows, key=lambda row: (row["layer"], row["head"])):
        by_layer.setdefault(row["layer"], []).append(1 - row["streaming_retained"])
    wrong = [layer for layer, values in by_layer.items() if len(values) % key_heads]
    if wrong:
        raise Refused(f"DuoAttention's file needs all heads of a layer; of layer {wrong[0]} not all were kept exactly.")
    table = []
    for layer in sorted(by_layer):
        values, group = by_layer[layer], len(by_layer[layer]) // key_heads
        table.append([round(sum(values[at : at + group]) / group, 6) for at in range(0, len(values), group)])
    first = rows[0]
    return json.dumps(
        {"sink_size": first["streaming_first"], "recent_size": first["streaming_recent"],
         "full_attention_heads": table},
        indent=1,
    )  # fmt: skip
