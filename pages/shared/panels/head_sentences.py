"""Sentences that say what the pictures show, made from the numbers."""

from __future__ import annotations

import math

from pages.shared.panels.head_values import HeadValues

SINK_SHARE = 0.3  # a head that puts more than this on the first token is called a sink head


def model_sentence(first_mass: HeadValues) -> str:
    """How many heads put much of their attention on the first token."""
    ranked = first_mass.ranked()
    if not ranked:
        return ""
    count = sum(value > SINK_SHARE for _, _, value in ranked)
    heads = "1 of" if count == 1 else f"{count} of"
    verb = "puts" if count == 1 else "put"
    return f"{heads} {len(ranked)} heads {verb} over 30 % of their attention on the first token (token 0)."


def head_sentence(values: HeadValues, layer: int, head: int) -> str:
    """What the chosen statistic says of the chosen head, beside uniform attention and the strongest head."""
    value = values.of(layer, head)
    if value != value:
        return f"Head {layer}.{head} has no {values.words}: no row of this prompt qualifies."
    unit = "" if values.statistic.unit == "weight" else f" {values.statistic.unit}"
    uniform = values.uniform.get(layer)
    beside = "" if uniform is None else f"; uniform attention would give {three_digits(uniform)}"
    top_layer, top_head, top = values.ranked()[0]
    most = (
        "the largest of all heads"
        if (top_layer, top_head) == (layer, head)
        else f"largest: head {top_layer}.{top_head} with {three_digits(top)}"
    )
    return f"Head {layer}.{head}: {values.words} {three_digits(value)}{unit}{beside}; {most}."


def three_digits(value: float) -> str:
    """A number to three significant digits, without an exponent from 0.001 on."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    if abs(value) < 1e-3:
        return f"{value:.2e}"
    rounded = float(f"{value:.2e}")  # 0.9996 is 1.00, not 1.000
    return f"{value:.{max(0, 2 - math.floor(math.log10(abs(rounded))))}f}"
