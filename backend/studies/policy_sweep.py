"""Policy sweep: the model run on one text with caches that keep less, or with maps that keep a pattern; what changed?

The first tokens of the text are read into the cache, the rest judge: their next-token distributions, their loss and
what is written behind them are compared with those of the dense run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from backend import policies
from backend.cache import shrinking
from backend.duration import duration
from backend.errors import Refused
from backend.estimate import speed, work
from backend.models import LoadedModel
from backend.sparsity.head_masks import CHOICES, HeadMasks
from backend.sparsity.real_run import Damage, Prepared, forget, output_error, prepared
from backend.sparsity.simulate import Outcome, Simulation, check_budget
from backend.sparsity.stored_layers import context_length
from backend.studies.definition import Column, Plan, Row, RunResult, StudyDefinition, Surroundings

MOST_TOKENS_MASKED = 4096  # a pattern run holds the mask of one layer, heads x tokens x tokens
MOST_NEW_TOKENS = 128
RUN_SECONDS = 0.3  # what a run takes however short the text is
HEAD_SECONDS, CELL_SECONDS = 0.004, 3e-8  # of making the mask of one head, and for each of its cells


@dataclass(frozen=True)
class Parameters:
    """What a person may choose."""

    token_ids: tuple[int, ...] = ()
    subject: str = ""  # the beginning of the text, for the title
    policies: tuple[str, ...] = ("snapkv", "h2o", "streaming_llm", "random", "oracle")
    patterns: tuple[str, ...] = ()
    budgets: tuple[float, ...] = (0.1, 0.25, 0.5)
    context: int = 0  # tokens in the cache when a policy decides; 0 = all but the last quarter, at most 256
    new_tokens: int = 24  # written behind the text; 0 = none

    def __post_init__(self) -> None:
        for name in ("token_ids", "policies", "patterns", "budgets"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        for name, known in (("policies", policies.all()), ("patterns", CHOICES)):
            wrong = [one for one in getattr(self, name) if one not in known]
            if wrong:
                raise Refused(f"{name}: expected some of {', '.join(known)}, got {wrong[0]!r}.")
        for budget in self.budgets:
            check_budget(budget)
        if not self.budgets or not (self.policies or self.patterns):
            raise Refused("Choose at least one budget, and one policy or pattern.")
        for name, most in (("context", 10**9), ("new_tokens", MOST_NEW_TOKENS)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
                raise Refused(f"{name}: expected a whole number from 0 to {most:,}, got {value!r}.")

    @property
    def n(self) -> int:
        return self.context or context_length(len(self.token_ids))

    @property
    def choices(self) -> list[tuple[str, str, float]]:
        """(cache or pattern, name, budget) of every run."""
        named = [("cache", name) for name in self.policies] + [("pattern", name) for name in self.patterns]
        return [(kind, name, budget) for kind, name in named for budget in self.budgets]


CHOICE = {
    "kind": Column("text", "cache: a policy shortened it; pattern: every map kept a pattern"),
    "choice": Column("text", "the policy, or the pattern"),
    "budget": Column("double", "share of the keys, or of the visible pairs, that may be kept"),
}
TABLES = {
    "runs": {
        **CHOICE,
        "kept": Column("double", "share that was kept"),
        "retained": Column("double", "attention of the judges on kept keys, mean over heads and judges"),
        "prediction": Column("double", "mean of -ln retained over heads and judges, nats: costs no run"),
        "best_possible": Column("double", "retained by the best keys, as many per head; null for patterns"),
        "overlap": Column("double", "shared keys over keys of either, with that best choice; null for patterns"),
        "output_error": Column(
            "double", "relative error of a head's output, mean over heads and judges; null: patterns"
        ),
        "kl": Column("double", "KL(with less || dense) of the next token, nats, mean over the judges"),
        "kl_last": Column("double", "the same behind the last token"),
        "same_first": Column("double", "share of the judges whose most probable next token is the dense one"),
        "loss": Column("double", "loss of the judges with less, nats per token; null for one judge"),
        "loss_dense": Column("double", "loss of the judges in the dense run"),
        "cache_bytes": Column("int", "bytes of keys and values after the text, as allocated"),
        "cache_bytes_dense": Column("int", "the same with nothing dropped"),
        "cache_bytes_formula": Column("int", "kept entries times features times bytes a number; null for patterns"),
        "seconds": Column("double", "of reading the judges (cache) or the whole text (pattern)"),
        "seconds_dense": Column("double", "of reading the whole text in the dense run"),
        "text": Column("text", "written behind the text; null where it was not written"),
        "text_dense": Column("text", "written by the dense run"),
        "note": Column("text", "what was not as its authors made it; may be null"),
    },
    "heads": {
        **CHOICE,
        "layer": Column("int", "the model's own number"),
        "head": Column("int", "query head"),
        "retained": Column("double", "attention of the judges on kept keys"),
        "output_error": Column("double", "relative error of the head's output, mean over judges"),
    },
    "kept": {
        **CHOICE,
        "layer": Column("int", "the model's own number"),
        "key_head": Column("int", "key head"),
        "keys": Column("int", "keys that were kept"),
        "positions": Column("text", "their positions, as 0-3 7"),
    },
    "judges": {
        **CHOICE,
        "position": Column("int", "token that was read"),
        "kl": Column("double", "KL(with less || dense) of the token behind it, nats"),
        "same_first": Column("int", "1 where the most probable next token is the dense one"),
    },
}


class PolicySweep(StudyDefinition):
    """What a policy or a pattern really costs."""

    title = "Sparsity run"
    question = "What does the model answer when its cache keeps less, or its maps a pattern?"
    Parameters = Parameters
    tables = TABLES
    version = 2  # pattern runs write text

    def subject(self, parameters: Parameters) -> str:
        return parameters.subject

    def plan(self, model: LoadedModel, parameters: Parameters) -> Plan:
        length = len(parameters.token_ids)
        if not 1 <= parameters.n < length:
            raise Refused(
                f"The context must leave a token behind it: {parameters.n:,} of {length:,} tokens were given."
            )
        most = model.max_positions
        if most is not None and length + parameters.new_tokens > most:
            raise Refused(f"{length + parameters.new_tokens:,} tokens would be read and the model takes {most:,}.")
        if parameters.patterns and length > MOST_TOKENS_MASKED:
            raise Refused(f"Patterns are run up to {MOST_TOKENS_MASKED:,} tokens; this text has {length:,}.")
        with shrinking(model):
            pass  # refuses a model without a cache, before anything runs
        layers = [layer for layer in model.describe().layers if layer.attention == "softmax"]
        full = work(model, length) / speed(model)
        judging = full * (length - parameters.n) / length + RUN_SECONDS
        runs = parameters.choices
        masks = sum(one.heads for one in layers) * (HEAD_SECONDS + CELL_SECONDS * length**2)
        seconds = full * 2 + sum(full * 2 + masks if kind == "pattern" else judging + full / 2 for kind, _, _ in runs)
        wide = sum(one.heads * one.head_dim + one.key_heads * (one.head_dim + one.value_dim) for one in layers)
        memory = 4 * (wide * length + 3 * (length - parameters.n) * model.config.vocab_size)
        memory += max(one.heads for one in layers) * length**2 * (9 if parameters.patterns else 0)
        words = f"{len(runs):,} runs of {length:,} tokens, {length - parameters.n:,} of them judge"
        words += f" · about {duration(seconds)}"
        return Plan(len(runs), length, seconds, memory / 1e6, 2.0, words)

    def run(self, model: LoadedModel, parameters: Parameters, number: int, where: Surroundings) -> RunResult:
        stop = where.stop_if_cancelled
        text = prepared(model, parameters.token_ids, parameters.n, parameters.new_tokens, stop)
        kind, name, budget = parameters.choices[number]
        place = {"kind": kind, "choice": name, "budget": budget}
        if kind == "pattern":
            rows = pattern_rows(model, text, name, budget, stop)
        else:
            rows = cache_rows(model, text, name, budget)
        return RunResult({table: [{**place, **row} for row in rows.get(table, [])] for table in TABLES})

    def leave(self, model: LoadedModel) -> None:
        forget(model)

    def combine(self, parameters: Parameters, results: Sequence[RunResult]) -> dict[str, list[Row]]:
        return {table: [row for result in results for row in result.rows[table]] for table in TABLES}


def cache_rows(model: LoadedModel, text: Prepared, name: str, budget: float) -> dict[str, list[Row]]:
    """A run with a cache that a policy shortened. A policy that cannot score this model says so in its note."""
    made = Simulation.of(text.layers(), [name])
    if name in made.refused:
        return {"runs": [{**dict.fromkeys(list(TABLES["runs"])[3:]), "note": made.refused[name]}]}
    outcome = made.outcomes(budget)[0]
    damage = text.evicted(model, {one.layer: one.kept for one in outcome.layers})
    heads, kept, errors = [], [], []
    for load, part, one in zip(text.layers(), text.parts, outcome.layers, strict=True):
        error = output_error(part, load(), one.kept)
        errors.append(error)
        for head, (retained, wrong) in enumerate(zip(one.retained.tolist(), error.tolist(), strict=True)):
            heads.append({"layer": one.layer, "head": head, "retained": retained, "output_error": wrong})
        for head, keys in enumerate(one.kept):
            places = keys.nonzero()[:, 0].tolist()
            kept.append({"layer": one.layer, "key_head": head, "keys": len(places), "positions": ranges(places)})
    shown = {
        "kept": outcome.kept_share,
        "retained": outcome.retained,
        "prediction": outcome.divergence,
        "best_possible": outcome.best_possible,
        "overlap": none_for_nan(outcome.overlap),
        "output_error": sum(float(error.sum()) for error in errors) / sum(len(error) for error in errors),
        "cache_bytes_formula": formula_bytes(text, outcome),
        "note": outcome.note,
    }
    return {"runs": [run_row(model, text, damage, shown)], "heads": heads, "kept": kept, "judges": judges(text, damage)}


def pattern_rows(model: LoadedModel, text: Prepared, name: str, budget: float, stop) -> dict[str, list[Row]]:
    """A run in which every head keeps its own pattern of that family (or its best one)."""
    masks = HeadMasks(text, name, budget)
    damage = text.masked(model, masks)
    shown = {**masks.summary(), "best_possible": None, "overlap": None, "output_error": None,
             "cache_bytes_formula": None}  # fmt: skip
    note = (
        "Each row keeps itself besides its pattern. What is written goes on with it: windows and diagonals move along, "
    )
    note += "columns and the last row's blocks stay. The cache keeps everything: a pattern saves work, not memory."
    heads = [
        {"layer": layer, "head": head, "retained": value, "output_error": None}
        for layer, values in masks.retained.items()
        for head, value in enumerate(values)
    ]
    row = run_row(model, text, damage, {**shown, "note": note})
    return {"runs": [row], "heads": heads, "judges": judges(text, damage)}


def run_row(model: LoadedModel, text: Prepared, damage: Damage, shown: Row) -> Row:
    """The row of `runs` without the choice."""
    return {
        **dict.fromkeys(list(TABLES["runs"])[3:]),
        **shown,
        "kl": float(damage.kl.mean()),
        "kl_last": float(damage.kl[-1]),
        "same_first": float(damage.agrees.double().mean()),
        "loss": damage.loss,
        "loss_dense": text.loss,
        "cache_bytes": damage.nbytes,
        "cache_bytes_dense": damage.full_nbytes,
        "seconds": damage.seconds,
        "seconds_dense": text.dense_seconds,
        "text": spelled(model, damage.written) if text.new_tokens else None,
        "text_dense": spelled(model, text.written) if text.new_tokens else None,
    }


def judges(text: Prepared, damage: Damage) -> list[Row]:
    return [
        {"position": text.n + at, "kl": kl, "same_first": int(same)}
        for at, (kl, same) in enumerate(zip(damage.kl.tolist(), damage.agrees.tolist(), strict=True))
    ]


def formula_bytes(text: Prepared, outcome: Outcome) -> int:
    """Kept entries, and the judges', times (key and value features) times bytes a number."""
    behind = len(text.token_ids) - text.n
    return sum(
        int(one.kept.sum() + behind * len(one.kept))
        * (part.key.shape[-1] + part.value.shape[-1])
        * part.key.element_size()
        for part, one in zip(text.parts, outcome.layers, strict=True)
    )


def ranges(places: list[int]) -> str:
    """ "0-3 7" """
    if not places:
        return ""
    found, start = [], places[0]
    for here, following in zip(places, [*places[1:], None], strict=True):
        if following != here + 1:
            found.append(str(start) if start == here else f"{start}-{here}")
            start = following
    return " ".join(found)


def spelled(model: LoadedModel, token_ids: list[int]) -> str:
    return " ".join(map(str, token_ids)) if model.tokenizer is None else model.tokenizer.decode(token_ids)


def none_for_nan(value: float | Tensor) -> float | None:
    return None if math.isnan(value) else float(value)


STUDY = PolicySweep()
