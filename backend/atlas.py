"""The atlas of heads: every number per head that an analysis can give, beside what uniform attention would give."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from backend import head_labels, head_scores, statistics
from backend.map_sizes import POOLED, SIDES, axis_sides
from backend.store import Analysis, Study
from backend.words import is_delimiter

PROBE = "random_repeat"  # the study whose scores stand before those of the text
PROBED = ("induction", "duplicate_token", "previous_token")

ROWS = """
WITH facts AS (
  SELECT layer, head, visible_keys AS n, visible_keys + CASE WHEN learned_sink_mass > 0 THEN 1 ELSE 0 END
    AS outcomes, entropy, max_weight, sum_square, first_mass, coalesce(first_mass, 0) AS a
  FROM rows WHERE kind = ? AND visible_keys > 0)
SELECT layer, head, {columns} FROM facts GROUP BY layer, head
"""
DISTANCES = """
WITH single AS (
  SELECT layer, head, count(*) FILTER (WHERE visible_keys >= 2) AS choosing,
    coalesce(sum(max_weight) FILTER (WHERE visible_keys = 1), 0) AS lone
  FROM rows WHERE kind = ? GROUP BY layer, head),
facts AS (
  SELECT layer, head, distance, abs(distance) AS d, mass_sum AS mass, mean_weight, rows, choosing, lone,
    sum(mass_sum) OVER (PARTITION BY layer, head ORDER BY abs(distance)) AS so_far,
    sum(mass_sum) OVER (PARTITION BY layer, head) AS everything
  FROM distances JOIN single USING (layer, head) WHERE kind = ?)
SELECT layer, head, {columns} FROM facts GROUP BY layer, head
"""
KEYS = """
WITH places AS (SELECT unnest(?::INT[]) AS place),
lone AS (
  SELECT layer, head, visible_keys, max_weight, max_key IN (SELECT place FROM places) AS on_delimiter
  FROM rows WHERE kind = ?),
single AS (
  SELECT layer, head, count(*) FILTER (WHERE visible_keys >= 2) AS choosing,
    coalesce(sum(max_weight) FILTER (WHERE visible_keys = 1 AND on_delimiter), 0) AS lone_delimiter
  FROM lone GROUP BY layer, head),
facts AS (
  SELECT layer, head, key, received_sum, received_mean, visible_rows, key IN (SELECT place FROM places) AS is_delimiter,
    choosing, lone_delimiter
  FROM keys JOIN single USING (layer, head) WHERE kind = ?)
SELECT layer, head, {columns} FROM facts GROUP BY layer, head
"""


@dataclass(frozen=True, eq=False)
class Atlas:
    """Numbers of every head of one kind of attention."""

    layers: tuple[int, ...]
    heads: tuple[int, ...]  # per layer
    values: dict[str, np.ndarray]  # name -> [layers, heads], NaN where undefined
    uniform: dict[str, dict[int, float]]  # name -> layer -> value of uniform attention, where it is known
    probed: frozenset[str] = frozenset()  # names whose values come from the random-repeat study

    def of(self, layer: int, head: int) -> dict[str, float]:
        """Every number of one head, and the ratios to uniform attention that labels look at."""
        place = self.layers.index(layer)
        found = {name: float(values[place, head]) for name, values in self.values.items()}
        for condition in head_labels.conditions().values():
            if condition.relative:
                uniform = self.uniform.get(condition.score, {}).get(layer, np.nan)
                found[condition.name] = found[condition.score] / uniform if uniform > 0 else np.nan
        return found

    def labels(self, limits: dict[str, float] | None = None) -> dict[tuple[int, int], dict[str, float]]:
        """(layer, head) -> label -> its score, in the order of layers and heads; {} where no rule holds."""
        places = [(layer, head) for layer, count in zip(self.layers, self.heads, strict=True) for head in range(count)]
        return {place: head_labels.judge(self.of(*place), limits) for place in places}

    def percentile(self, name: str, layer: int, head: int) -> float:
        """The share of heads whose value is at most this one's; NaN where it has none."""
        values = self.values[name]
        own = values[self.layers.index(layer), head]
        known = values[np.isfinite(values)]
        return float((known <= own).mean()) if np.isfinite(own) else np.nan

    def middle(self, name: str, layer: int, head: int) -> float:
        """As `percentile`, heads with the same value counted half: 0.5 where all heads are alike."""
        values = self.values[name]
        own = values[self.layers.index(layer), head]
        known = values[np.isfinite(values)]
        return float((known < own).mean() + (known == own).mean() / 2) if np.isfinite(own) else np.nan


def read_atlas(
    analysis: Analysis,
    kind: str,
    probe: Study | None = None,
    sampled: Mapping[str, Mapping[tuple[int, int], float]] | None = None,
) -> Atlas:
    """All numbers of one kind of attention. probe: a finished random-repeat study of the same model.

    Where the probe has a score of a head it stands in the place of the text's: natural text mixes repetition with what
    words mean. sampled: what backend/sampled_scores.py measured, which takes longer than reading tables.
    """
    infos = analysis.layers(kind)
    layers, heads = tuple(one.layer for one in infos), tuple(one.heads for one in infos)
    stored = set(analysis.heads(kind=kind).column_names)
    values = {name: analysis.statistic(name, kind) for name in statistics.all() if name in stored}
    values |= computed(analysis, kind, layers, max(heads))
    for name, by_head in (sampled or {}).items():
        values[name] = np.full((len(layers), max(heads)), np.nan)
        for (layer, head), value in by_head.items():
            values[name][layers.index(layer), head] = value
    uniform: dict[str, dict[int, float]] = {}
    for row in analysis.info.get("uniform", []):
        if row["kind"] == kind:
            for name in statistics.all():
                if row.get(name) is not None:
                    uniform.setdefault(name, {})[row["layer"]] = row[name]
    for name, by_layer in computed_uniform(analysis, kind, layers).items():
        uniform[name] = by_layer
    probed = join_probe(values, uniform, layers, probe)
    return Atlas(layers, heads, values, uniform, probed)


def computed(analysis: Analysis, kind: str, layers: tuple[int, ...], most: int) -> dict[str, np.ndarray]:
    """The scores of backend/head_scores."""
    places = {layer: at for at, layer in enumerate(layers)}
    found = {}
    queries = {
        "rows": (ROWS, (kind,)),
        "distances": (DISTANCES, (kind, kind)),
        "keys": (KEYS, (delimiters(analysis, kind), kind, kind)),
    }
    for table, (text, params) in queries.items():
        scores = {name: score for name, score in head_scores.all().items() if score.table == table}
        columns = ", ".join(f"{score.value} AS {name}" for name, score in scores.items())
        answer = analysis.sql(text.format(columns=columns), params)
        where = [places[layer] for layer in answer["layer"].to_pylist()], answer["head"].to_pylist()
        for name in scores:
            grid = np.full((len(layers), most), np.nan)
            grid[where] = [np.nan if value is None else value for value in answer[name].to_pylist()]
            if name == "delimiter_mass":
                grid[[places[layer] for layer in layers if pooled_keys(analysis, kind, layer)]] = np.nan
            found[name] = grid
    return found


def computed_uniform(analysis: Analysis, kind: str, layers: tuple[int, ...]) -> dict[str, dict[int, float]]:
    """The scores of uniform attention, per layer, where they are known."""
    found: dict[str, dict[int, float]] = {}
    positions = np.array(delimiters(analysis, kind), np.int64)
    for layer in layers:
        seen = seen_by(analysis, kind, layer, positions)
        score = analysis.score(layer, kind)
        odd = (score.mask, score.bias, score.key_padding, score.key_bias)
        run = score.causal and score.keep_first == 0 and all(one is None for one in odd)
        for name, one in head_scores.all().items():
            if one.uniform is None or (one.needs_run and not run):
                continue
            per_row = one.uniform(seen)
            if np.isfinite(per_row).any():
                found.setdefault(name, {})[layer] = float(np.nanmean(per_row))
    return found


def seen_by(analysis: Analysis, kind: str, layer: int, positions: np.ndarray) -> head_scores.Seen:
    """What the rows of a layer see, read from those of its first head."""
    answer = analysis.sql(
        "SELECT query, visible_keys, first_mass FROM rows WHERE kind = ? AND layer = ? AND head = 0 "
        "AND visible_keys > 0 ORDER BY query",
        (kind, layer),
    )
    n = answer["visible_keys"].to_numpy().astype(np.int64)
    last = answer["query"].to_numpy() + 1  # causal: a row sees the n keys that end with itself
    before = np.searchsorted(positions, [last - n, last])
    first = answer["first_mass"].combine_chunks().is_valid().to_numpy(zero_copy_only=False)
    return head_scores.Seen(n.astype(np.float64), first, (before[1] - before[0]).astype(np.float64))


def pooled_keys(analysis: Analysis, kind: str, layer: int) -> bool:
    """Whether the keys of a layer stand for several tokens each, so that no token's kind is theirs."""
    return axis_sides(analysis, kind, layer)[1].startswith(POOLED)


def delimiters(analysis: Analysis, kind: str) -> list[int]:
    """Positions of the keys that are delimiters, the first token left out."""
    side = SIDES[kind][1]
    tokens = [token for token in analysis.tokens_list() if token.side == side]
    return [token.position for token in tokens if token.position > 0 and is_delimiter(token)]


def join_probe(
    values: dict[str, np.ndarray], uniform: dict[str, dict[int, float]], layers: tuple[int, ...], probe: Study | None
) -> frozenset[str]:
    """Puts the scores of a random-repeat study in the place of the text's; the names that were replaced."""
    if probe is None:
        return frozenset()
    replaced = set()
    for row in probe.table("scores").to_pylist():
        if row["layer"] not in layers or row["head"] >= values["entropy"].shape[1]:
            continue
        for name in PROBED:
            if row[name] is not None and name in values:
                values[name][layers.index(row["layer"]), row["head"]] = row[name]
                uniform.setdefault(name, {})[row["layer"]] = row[f"{name}_uniform"]
                replaced.add(name)
    return frozenset(replaced)
