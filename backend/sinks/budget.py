"""Where the attention of a head goes (K-03): learned sink, sinks, special tokens, punctuation, near tokens, content.

Every key is in one part: a detected sink first, else special, else punctuation; what is left is near (fewer than `near`
tokens away) or content. The parts of a head add up to 1. Rows that see a single key had no choice and do not count.

Sinks, special tokens and punctuation are the same keys for every row, so what they get is in the table `keys`. Near
tokens are other ones in every row: their mass is exp(lse of the near keys alone - lse), which needs queries and keys.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from backend.sinks.importance import Importance, places
from backend.sinks.kept import KeptLayer, hiding, kept_layer, visible_counts
from backend.sinks.token_types import BEGIN, MARKS, SPECIAL
from backend.store import Analysis
from kernels.api import attend
from kernels.measures import NOTHING
from kernels.score import ScoreSpec

LEARNED, SINK, SPECIALS, PUNCTUATION, NEAR, CONTENT = (
    "learned sink",
    "sink",
    "special",
    "punctuation",
    "near",
    "content",
)
PARTS = (LEARNED, SINK, SPECIALS, PUNCTUATION, NEAR, CONTENT)
NEAR_TOKENS = 16


@dataclass(frozen=True, eq=False)
class Budget:
    """Mean shares over the rows that see two keys or more."""

    shares: np.ndarray  # [L, H, parts] as in PARTS; NaN without such a row. Where `known` is False near is NaN, and
    # content holds what is near too
    known: np.ndarray  # bool [L, H] whether near and content could be told apart
    uniform: np.ndarray  # [L, H] what uniform attention would give to the same sinks


def parts_of_keys(types: list[str], sinks: np.ndarray) -> np.ndarray:
    """The part of every key of some heads: sinks bool [..., N] -> int8 [..., N], an index into PARTS; CONTENT else."""
    base = np.full(len(types), PARTS.index(CONTENT), np.int8)
    base[[kind in MARKS for kind in types]] = PARTS.index(PUNCTUATION)
    base[[kind in (BEGIN, SPECIAL) for kind in types]] = PARTS.index(SPECIALS)
    return np.where(sinks, np.int8(PARTS.index(SINK)), base)


def budget(
    analysis: Analysis,
    found: Importance,
    sinks: np.ndarray,
    types: list[str],
    kind: str = "self",
    near: int = NEAR_TOKENS,
) -> Budget:
    """Of every head. sinks: bool [L, H, N] of detection.detected; types: of the keys' side."""
    mass, rows, learned = mass_with_choice(analysis, found, kind)
    parts = parts_of_keys(types, sinks)
    shares = np.full((*rows.shape, len(PARTS)), np.nan)
    defined = rows > 0
    shares[defined] = 0.0
    shares[..., 0][defined] = learned[defined]
    for part in range(1, len(PARTS)):
        inside = np.where(parts == part, mass, 0.0).sum(-1)
        shares[..., part][defined] = inside[defined] / rows[defined]
    known = np.zeros(rows.shape, bool)
    for place, layer in enumerate(found.layers):
        for head, value in near_mass(analysis, layer, kind, parts[place], near).items():
            if not defined[place, head]:
                continue
            known[place, head] = True
            shares[place, head, PARTS.index(NEAR)] = value
            shares[place, head, PARTS.index(CONTENT)] = max(0.0, shares[place, head, PARTS.index(CONTENT)] - value)
    shares[..., PARTS.index(NEAR)][~known] = np.nan
    return Budget(shares, known, uniform_on_sinks(analysis, found, sinks, rows, kind))


def uniform_on_sinks(
    analysis: Analysis, found: Importance, sinks: np.ndarray, rows: np.ndarray, kind: str
) -> np.ndarray:
    """Mean share of the sinks under uniform attention, over the rows that see two keys or more: [L, H]."""
    mass = np.nan_to_num(found.uniform)[:, None] * found.rows
    single = analysis.sql("SELECT layer, head, max_key AS key FROM rows WHERE kind = ? AND visible_keys = 1", [kind])
    np.subtract.at(mass, places(single, list(found.layers), "key"), 1.0)
    inside = np.where(sinks, mass, 0.0).sum(-1)
    return np.divide(inside, rows, out=np.full(rows.shape, np.nan), where=rows > 0)


def mass_with_choice(analysis: Analysis, found: Importance, kind: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Over the rows that see two keys or more: mass received [L, H, N], number of rows [L, H], mean learned mass."""
    mass = found.mass.copy()
    shape = found.rows.shape[:2]
    single = analysis.sql(
        "SELECT layer, head, max_key AS key, max_weight FROM rows WHERE kind = ? AND visible_keys = 1", [kind]
    )
    np.subtract.at(mass, places(single, list(found.layers), "key"), single["max_weight"].to_numpy())
    counts = analysis.sql(
        "SELECT layer, head, count(*) AS rows, coalesce(avg(learned_sink_mass), 0) AS learned FROM rows "
        "WHERE kind = ? AND visible_keys >= 2 GROUP BY layer, head",
        [kind],
    )
    rows, learned = np.zeros(shape, np.int64), np.full(shape, np.nan)
    place = places(counts, list(found.layers))
    rows[place], learned[place] = counts["rows"].to_numpy(), counts["learned"].to_numpy()
    return mass.clip(min=0.0), rows, learned


def near_mass(analysis: Analysis, layer: int, kind: str, parts: np.ndarray, near: int) -> dict[int, float]:
    """head -> mean mass on near keys of no other part, for heads with exact maps. parts: int [H, N]."""
    if kind == "cross":
        return {}  # rows and keys are two different texts: nothing is near
    content = parts == PARTS.index(CONTENT)
    kept = kept_layer(analysis, layer, kind)
    if kept is None:
        return {
            head: near_of_dense(analysis, layer, kind, head, content[head], near)
            for head in analysis.exact_heads(layer, kind)
        }
    inside = torch.from_numpy(content[list(kept.heads)])
    masses = near_rows(kept, inside, near)
    counts = visible_counts(kept)
    choice = counts >= 2
    sums = torch.where(choice, masses, 0.0).sum(-1) / choice.sum(-1).clamp(min=1)
    return {head: float(value) for head, value in zip(kept.heads, sums, strict=True)}


def near_rows(kept: KeptLayer, inside: Tensor, near: int) -> Tensor:
    """Mass of every row on the near keys of `inside`, bool [h, Nk]: float64 [h, Nq]."""
    score = replace(hiding(kept.score, ~inside), sink=None, keep_first=0)
    if score.causal:
        score = replace(score, window=min(near, score.window or near))
    else:
        left, right = score.around or (near - 1, near - 1)
        score = replace(score, around=(min(near - 1, left), min(near - 1, right)))
    nothing = torch.zeros(*kept.key.shape[:3], 1)
    lse = attend(kept.query, kept.key, nothing, score, NOTHING).lse[0].double()
    return torch.exp(lse - kept.lse[0].double()).clamp(max=1.0)


def near_of_dense(analysis: Analysis, layer: int, kind: str, head: int, content: np.ndarray, near: int) -> float:
    """As near_mass, of a head that keeps its weights."""
    weights, seen = analysis.map(layer, head, kind=kind), analysis.visible(layer, head, kind=kind)
    rows, keys = np.ogrid[: weights.shape[0], : weights.shape[1]]
    apart = np.abs(rows + (weights.shape[1] - weights.shape[0] if analysis.score(layer, kind).causal else 0) - keys)
    masses = np.where((apart < near) & content, weights, 0.0).sum(-1)
    choice = seen.sum(-1) >= 2
    return float(masses[choice].mean()) if choice.any() else 0.0


def row_budget(
    analysis: Analysis, layer: int, head: int, parts: np.ndarray, kind: str = "self", near: int = NEAR_TOKENS
) -> np.ndarray:
    """The parts of every row of one head with an exact map: [Nq, parts]; NaN in rows that see nothing.

    parts: int [N] of this head's keys. Raises NoExactMap without an exact map.
    """
    weights, seen = analysis.map(layer, head, kind=kind), analysis.visible(layer, head, kind=kind)
    score: ScoreSpec = analysis.score(layer, kind)
    rows, keys = np.ogrid[: weights.shape[0], : weights.shape[1]]
    offset = weights.shape[1] - weights.shape[0] if score.causal else 0
    close = (np.abs(rows + offset - keys) < near) & (parts == PARTS.index(CONTENT)) & (kind != "cross")
    found = np.zeros((weights.shape[0], len(PARTS)))
    for part in range(1, len(PARTS)):
        found[:, part] = np.where(parts == part, weights, 0.0).sum(-1)
    found[:, PARTS.index(NEAR)] = np.where(close, weights, 0.0).sum(-1)
    found[:, PARTS.index(CONTENT)] -= found[:, PARTS.index(NEAR)]
    if score.sink is not None:
        found[:, 0] = 1.0 - found.sum(-1)
    found[~seen.any(-1)] = np.nan
    return found.clip(min=0.0)
