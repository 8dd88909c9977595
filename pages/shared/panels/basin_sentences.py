"""Sentences about basins, made from the numbers."""

from __future__ import annotations

import numpy as np

from backend.basins.basin import Basin
from backend.basins.between import Between
from backend.basins.profile import shape


def percent(value: float) -> str:
    """A share to three significant digits."""
    text = f"{100 * value:.3g}"
    return f"{float(text):g} %" if "e" in text else f"{text} %"


def basin_sentence(names: list[str], values: np.ndarray, uniform: np.ndarray, who: str) -> str:
    """What gets most and least, and how deep the basin is."""
    there = np.flatnonzero(np.isfinite(values))
    if len(there) == 0:
        return f"No part of the prompt can be seen from here by {who}."
    if len(there) == 1:
        only = there[0]
        return (
            f"{names[only].capitalize()} gets {percent(values[only])} from {who} (uniform attention: "
            f"{percent(uniform[only])}). Two parts are needed to compare, three to speak of a basin."
        )
    most, least = there[values[there].argmax()], there[values[there].argmin()]
    even = [percent(uniform[most]), percent(uniform[least])]
    text = (
        f"{names[most].capitalize()} gets most from {who} ({percent(values[most])}), {names[least]} least "
        f"({percent(values[least])}); uniform attention would give {even[0]}"
        f"{' to each' if even[0] == even[1] else f' and {even[1]}'}."
    )
    return f"{text} {depth_sentence(values)}"


def depth_sentence(values: np.ndarray) -> str:
    """The depth of a profile in words."""
    found = shape(values)
    if found.depth is None:
        if len(values) < 3:
            return "A basin has a middle: it needs three parts or more."
        return "The depth of the basin is undefined, because a part is out of reach or the ends get nothing."
    if found.depth < 0:
        return f"No part in the middle gets less than the ends on average (depth {found.depth:.2f})."
    return (
        f"The most overlooked part between the ends gets {percent(found.depth)} less than the ends on average (depth "
        f"{found.depth:.2f}); first part {found.primacy:.2f} and last {found.recency:.2f} times the mean."
    )


def reach_note(basin: Basin) -> str | None:
    """What is out of reach, left out or not measured."""
    masses = basin.masses(per_token=True)
    far = [part.name for place, part in enumerate(basin.slots.parts) if not np.isfinite(masses[:, place]).any()]
    some = [
        part.name
        for place, part in enumerate(basin.slots.parts)
        if part.name not in far and not np.isfinite(masses[:, place]).all()
    ]
    said = []
    if far:
        said.append(f"Out of reach of the rows that look, in every head: {', '.join(far)}.")
    if some:
        said.append(f"Out of reach in some heads, whose mean leaves them out: {', '.join(some)}.")
    if basin.left_out:
        said.append(f"{basin.left_out} heads are not in it: their exact maps were not kept.")
    if basin.sink_tokens:
        said.append(f"{basin.sink_tokens} tokens that are sinks of some head are taken out there.")
    return " ".join(said) or None


def between_sentence(found: Between) -> str:
    """How much the parts read of each other."""
    if found.across is None:
        return "With one part only, nothing can be read across parts."
    return (
        f"Tokens of these parts give {percent(found.across)} of their attention to other parts before them; the rest "
        "stays inside or goes to the text around."
    )


def duplicates(texts: list[str]) -> str | None:
    """Which parts say the same."""
    places: dict[str, list[int]] = {}
    for number, text in enumerate(texts, 1):
        places.setdefault(text.strip(), []).append(number)
    twins = [" and ".join(map(str, numbers)) for numbers in places.values() if len(numbers) > 1]
    return f"The same text stands in parts {'; '.join(twins)}: their order cannot be told apart." if twins else None
