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


def from_sentence(values: np.ndarray, visible: np.ndarray, keys: Sequence[str], chosen: Sequence[int]) -> str:
    """Where the chosen queries look. keys: their labels."""
    who = "this row" if len(chosen) == 1 else f"these {len(chosen)} rows, on average,"
    seen = int(np.count_nonzero(visible))
    if seen == 0:
        return "The chosen queries see no key."
    top = int(np.where(visible, values, -1.0).argmax())
    if seen == 1:
        return f"Only key {named(top, keys[top])} is visible from here, so all of the attention is there."
    if values[top] < 2 / seen:
        return (
            f"The attention is spread: no key gets more than {share(values[top])}; uniform would be {share(1 / seen)}."
        )
    where = f"key {named(top, keys[top])}"
    note = ""
    if top == 0:
        note = ", the first token: a sink" if values[top] > SINK_SHARE else ", the first token"
    elif len(chosen) == 1 and top == chosen[0]:
        note = ", the token itself"
    elif len(chosen) == 1 and top == chosen[0] - 1:
        note = ", the one just before"
    return f"{share(values[top])} of {who} is on {where}{note}."


def to_sentence(
    values: np.ndarray, visible: np.ndarray, queries: Sequence[str], keys: Sequence[str], chosen: Sequence[int]
) -> str:
    """Who looks at the chosen keys."""
    seen = np.flatnonzero(visible)
    names = " and ".join(named(number, keys[number]) for number in list(chosen)[:3])
    if len(seen) == 0:
        return f"No query sees {names}."
    top = int(seen[values[seen].argmax()])
    mean = float(values[seen].mean())
    return (
        f"{names} {'gets' if len(chosen) == 1 else 'get'} {share(mean)} of a row that may look there, on average; most "
        f"from query {named(top, queries[top])}: {share(values[top])}."
    )
