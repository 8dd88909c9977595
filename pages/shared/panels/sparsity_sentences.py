"""Sentences of the page Sparsity, made from the numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import median

from backend.sparsity.lognormal import LogNormal
from backend.sparsity.patterns import WORDS, Decision


def percent(share: float | None) -> str:
    """A share for a sentence."""
    if share is None:
        return "undefined"
    return f"{100 * share:.1f} %" if 0 < share < 0.1 else f"{100 * share:.0f} %"


def coverage_sentence(curves: Sequence[dict], layer: int, head: int) -> str:
    """How many keys the middle head and the chosen one need."""
    shares = [row["share"] for row in curves if row["percent"] == 95]
    if not shares:
        return "No sampled row of this prompt sees two tokens or more, so there is nothing to concentrate."
    own = next((r for r in curves if (r["layer"], r["head"], r["percent"]) == (layer, head, 95)), None)
    text = f"Half of the {len(shares)} heads need at most {percent(median(shares))} of the visible keys for 95 % of "
    text += "their attention; uniform attention would need 95 %."
    if own is not None:
        text += f" Head {layer}.{head} needs {percent(own['share'])} ({own['keys']:.0f} keys on average)."
    return text


def log_normal_sentence(found: LogNormal) -> str:
    """What follows for the chosen head if its scores were Gaussian, and by how much that fails."""
    return (
        f"Were the scores of a row Gaussian (they spread by {found.sigma:.2f} nats, skewness {found.skewness:+.2f}, "
        f"excess kurtosis {found.excess_kurtosis:+.2f}), "
        f"{percent(found.predicted_share_95)} of the keys would hold 95 %; really {percent(found.share_95)}, and the "
        f"entropy is missed by {found.entropy_misfit:+.2f} nats."
    )


def patterns_sentence(rows: Sequence[dict]) -> str:
    """How many heads have which pattern."""
    if not rows:
        return "No exact map of a head was kept, so patterns cannot be measured. Run the analysis with exact maps."
    counts = Counter(row["pattern"] for row in rows).most_common()
    named = ", ".join(f"{count} {WORDS[name]}" for name, count in counts)
    return f"Patterns of {len(rows)} heads: {named}."


def head_sentence(decision: Decision, layer: int, head: int, budget: int) -> str:
    """What pattern the chosen head has, at which price."""
    fits = {name: fit for name, fit in decision.fits.items() if fit.retained is not None}
    if not fits:
        return f"Head {layer}.{head}: no pattern is as small as {budget} % of the pairs of this prompt."
    best = max(fits, key=lambda name: fits[name].retained)
    price = fits[best].price
    text = f"Head {layer}.{head} is {WORDS[decision.name]}: with {budget} % of the pairs, {WORDS[best]} keeps "
    text += f"{percent(fits[best].retained)} of its attention"
    return text + (f", and needs {percent(price)} of them for 95 %." if price is not None else ".")


def size_words(size: dict[str, int] | None) -> str:
    """A pattern's size."""
    if not size:
        return "nothing"
    words = {
        "first": "first keys",
        "window": "keys of the window",
        "columns": "columns",
        "diagonals": "diagonals",
        "blocks": "blocks per block of rows",
        "side": "tokens a block",
    }
    return ", ".join(f"{value:,} {words[name]}" for name, value in size.items() if value or len(size) == 1)
