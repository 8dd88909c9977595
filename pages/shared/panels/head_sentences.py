"""Sentences that say what the pictures show, made from the numbers."""

from __future__ import annotations

import math

from backend.sinks.detection import EPSILON
from pages.shared.panels.head_values import HeadValues


def model_sentence(importance: HeadValues, *, sinkfree: bool = False) -> str:
    """How many heads are sink heads (K-01), the same count as on the page of sinks. importance: that of key 0.

    sinkfree: the pictures below are without what these heads gave to it."""
    ranked = importance.ranked()
    if not ranked:
        return ""
    count = sum(value > EPSILON for _, _, value in ranked)
    heads = sum(map(len, importance.by_layer.values()))
    verb = "gives" if count == 1 else "give"
    text = f"{count} of {heads} heads {verb} token 0 more than {EPSILON:.0%} of their attention".replace("%", " %")
    return text + (". Below, sinks are taken out." if sinkfree else ", over all rows that see it.")


def head_sentence(values: HeadValues, layer: int, head: int, *, sinkfree: bool = False) -> str:
    """What the chosen statistic says of the chosen head, beside uniform attention and the strongest head."""
    value = values.of(layer, head)
    if value != value:
        return (
            f"Head {layer}.{head} has no {values.words}{' without sinks' if sinkfree else ''}: no row of this prompt "
            "qualifies."
        )
    unit = "" if values.statistic.unit == "weight" else f" {values.statistic.unit}"
    uniform = values.uniform.get(layer)
    beside = "" if uniform is None else f"; uniform attention would give {three_digits(uniform)}"
    top_layer, top_head, top = values.ranked()[0]
    most = (
        "the largest of all heads"
        if (top_layer, top_head) == (layer, head)
        else f"largest: head {top_layer}.{top_head} with {three_digits(top)}"
    )
    what = f"{values.words}{' without sinks' if sinkfree else ''}"
    return f"Head {layer}.{head}: {what} {three_digits(value)}{unit}{beside}; {most}."


def three_digits(value: float) -> str:
    """A number to three significant digits, without an exponent from 0.001 on."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    if abs(value) < 1e-3:
        return f"{value:.2e}"
    rounded = float(f"{value:.2e}")  # 0.9996 is 1.00, not 1.000
    return f"{value:.{max(0, 2 - math.floor(math.log10(abs(rounded))))}f}"
