"""What a row or column of attention shows, in a sentence made from its numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

SINK_SHARE = 0.3  # of a row on the first token: called a sink


def named(number: int, label: str, most: int = 40) -> str:
    """`12 “·cat”`: number and label, a long one cut in the middle."""
    return f"{number} “{label if len(label) <= most else f'{label[: most // 2]}…{label[-most // 2 :]}'}”"


def share(value: float) -> str:
    """A share of a row: 71 %, 4.2 %, below 0.1 %."""
    if value < 0.001:
        return "below 0.1 %"
    return f"{value:.0%}".replace("%", " %") if value >= 0.0995 else f"{100 * value:.2g} %"


def taken_out_sentence(sinks: Sequence[int]) -> str:
    """What the view without sinks did to the rows of a head."""
    if not sinks:
        return "Without sinks: no key is a detected sink of this head, so none is taken out; a learned sink is."
    which = "its sink" if len(sinks) == 1 else f"its {len(sinks)} sinks"
    return f"Without sinks: what the rows of this head gave to {which} is taken out; shares are of what is left."


def from_sentence(
    values: np.ndarray, visible: np.ndarray, keys: Sequence[str], chosen: Sequence[int], *, sinkfree: bool = False
) -> str:
    """Where the chosen queries look. keys: their labels. sinkfree: the values are shares of what sinks leave."""
    who = "this row" if len(chosen) == 1 else f"these {len(chosen)} rows, on average,"
    seen = int(np.count_nonzero(visible))
    if seen == 0:
        return "Without sinks nothing is left of the chosen rows." if sinkfree else "The chosen queries see no key."
    top = int(np.where(visible, values, -1.0).argmax())
    if seen == 1:
        what = "left without sinks" if sinkfree else "visible from here"
        return f"Only key {named(top, keys[top])} is {what}, so all of the attention is there."
    if values[top] < 2 / seen:
        spread = "What is left without sinks is spread" if sinkfree else "The attention is spread"
        return f"{spread}: no key gets more than {share(values[top])}; uniform would be {share(1 / seen)}."
    where = f"key {named(top, keys[top])}"
    note = ""
    if top == 0:
        note = ", the first token: a sink" if values[top] > SINK_SHARE else ", the first token"
    elif len(chosen) == 1 and top == chosen[0]:
        note = ", the token itself"
    elif len(chosen) == 1 and top == chosen[0] - 1:
        note = ", the one just before"
    what = f"what sinks leave of {who}" if sinkfree else who
    return f"{share(values[top])} of {what} is on {where}{note}."


def to_sentence(
    values: np.ndarray,
    visible: np.ndarray,
    queries: Sequence[str],
    keys: Sequence[str],
    chosen: Sequence[int],
    *,
    sinkfree: bool = False,
) -> str:
    """Who looks at the chosen keys. sinkfree: the values are shares of what sinks leave."""
    seen = np.flatnonzero(visible)
    names = " and ".join(named(number, keys[number]) for number in list(chosen)[:3])
    if len(seen) == 0:
        return f"No query sees {names}{', or they are the sinks that were taken out' if sinkfree else ''}."
    top = int(seen[values[seen].argmax()])
    mean = float(values[seen].mean())
    return (
        f"{names} {'gets' if len(chosen) == 1 else 'get'} {share(mean)} of {'what sinks leave of ' if sinkfree else ''}"
        "a row that may look there, on average; most "
        f"from query {named(top, queries[top])}: {share(values[top])}."
    )
