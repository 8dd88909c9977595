"""What do the sinks do? Hide, scale or move them, swap or drop the first token: before and after, from real runs.

hide    the keys are out of sight of the chosen heads (rows that would see nothing else keep them)
scale   their weights times a factor, what is freed goes to the other keys (as ACT does it)
act     in every chosen head all detected sinks but the first are scaled
        (both are done once for every factor that is given)
front   other text is put in front, so that the sink is no longer at the beginning
swap    the first token is replaced by another one
drop    the first token is left out (begin of text, where the prompt has one)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from backend.duration import duration
from backend.errors import Refused
from backend.estimate import estimate, speed, work
from backend.models import LoadedModel
from backend.options import Options
from backend.prompts import tokenise
from backend.sinks.act import FACTOR
from backend.sinks.detection import EPSILON, LEAST_ROWS, THETA, above
from backend.sinks.what_if import EDITS, Effect, Pass, effect, interventions_of, run
from backend.studies.definition import Column, Plan, Row, RunResult, StudyDefinition, Surroundings
from backend.studies.refusals import require_one_stack

FRONT = "Here is a short text. "
SCALING = ("scale", "act")  # edits that take a factor
MOST_FACTORS = 8


@dataclass(frozen=True)
class Parameters:
    """What a person may choose."""

    token_ids: tuple[int, ...] = ()  # the prompt as the model read it
    words: str = ""  # how the prompt begins, for titles
    edits: tuple[str, ...] = EDITS
    keys: tuple[int, ...] = (0,)  # the sinks that are hidden and scaled
    heads: tuple[tuple[int, int], ...] = ()  # (layer, head); none = all
    factors: tuple[float, ...] = (FACTOR,)  # of scaling; each is a change of its own
    front: str = FRONT
    swap: str = " the"  # its first token is taken
    epsilon: float = EPSILON
    theta: float = THETA  # of ACT's sinks
    least_rows: int = LEAST_ROWS
    times: float | None = None  # of the median of a head, instead of theta

    def __post_init__(self) -> None:
        object.__setattr__(self, "heads", tuple(tuple(pair) for pair in self.heads))
        for name in ("token_ids", "edits", "keys", "factors"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        if not self.edits or not set(self.edits) <= set(EDITS):
            raise Refused(
                f"edits: expected some of {', '.join(EDITS)}, got {', '.join(map(str, self.edits)) or 'none'}."
            )
        most = max(len(self.token_ids), 1) - 1
        if not self.keys or not all(isinstance(key, int) and 0 <= key <= most for key in self.keys):
            raise Refused(f"keys: expected positions from 0 to {most}, got {self.keys}.")
        factors = tuple(dict.fromkeys(self.factors))
        if not 1 <= len(factors) <= MOST_FACTORS or not all(0 <= one <= 1 for one in factors):
            raise Refused(f"factors: expected 1 to {MOST_FACTORS} numbers from 0 to 1, got {list(self.factors)}.")
        object.__setattr__(self, "factors", tuple(float(one) for one in factors))

    @property
    def changes(self) -> list[tuple[str, float | None]]:
        """(edit, factor where it scales) of every run."""
        return [(edit, factor) for edit in self.edits for factor in (self.factors if edit in SCALING else (None,))]


NOTE = Column("text", "why there are no numbers; null where there are")
CHANGE = {
    "edit": Column("text", f"one of {', '.join(EDITS)}"),
    "factor": Column("double", "what weights are multiplied by; null where nothing is scaled"),
}
TABLES = {
    "effects": {
        **CHANGE,
        "what": Column("text", "the change in words"),
        "note": NOTE,
        "kl": Column("double", "KL(after || before) of the next-token distributions behind the prompt, nats"),
        "kl_mean": Column("double", "the same, mean over the positions that both runs have, nats"),
        "total_variation": Column("double", "half the sum of |after - before| behind the prompt, 0 to 1"),
        "loss_before": Column("double", "mean -ln p of the compared tokens, nats"),
        "loss_after": Column("double", "the same after the change, nats"),
        "compared": Column("int", "tokens that both runs read and predict"),
        "sink_before": Column("double", "importance of the first of the keys, mean over the chosen heads"),
        "sink_after": Column("double", "of the same token after the change; null where it is hidden or gone"),
        "first_before": Column("double", "importance of token 0, mean over the chosen heads"),
        "first_after": Column("double", "importance of whatever token is first then; null where it is hidden"),
        "sink_heads_before": Column("int", "heads of the whole model whose token 0 is above epsilon"),
        "sink_heads_after": Column("int", "the same after the change; null where it is hidden"),
    },
    "candidates": {
        **CHANGE,
        "rank": Column("int", "place among both sides' most probable tokens, by the probability before"),
        "token_id": Column("int", "the token"),
        "text": Column("text", "its text"),
        "before": Column("double", "probability before, 0 to 1"),
        "after": Column("double", "probability after, 0 to 1"),
    },
    "heads": {
        **CHANGE,
        "layer": Column("int", "the model's own number"),
        "head": Column("int", "query head"),
        "sink_before": Column("double", "importance of the first of the keys"),
        "sink_after": Column("double", "of the same token after the change"),
        "first_before": Column("double", "importance of token 0"),
        "first_after": Column("double", "importance of the first token after the change"),
    },
}
EMPTY = dict.fromkeys(TABLES["effects"])


class SinkWhatIf(StudyDefinition):
    """Interventions on sinks, one run each."""

    title = "Sinks: what if"
    question = "What becomes of the next token, of the loss and of the sinks when a sink is hidden, scaled or moved?"
    Parameters = Parameters
    tables = TABLES
    version = 2

    def subject(self, parameters: Parameters) -> str:
        return parameters.words

    def plan(self, model: LoadedModel, parameters: Parameters) -> Plan:
        if not parameters.token_ids:
            raise Refused("There is no prompt: start this study on the page Sinks, where one is open.")
        if not model.predicts_next or not model.causal:
            raise Refused(f"{model.name} does not predict the next token, so there is no before and after to compare.")
        require_one_stack(model, "What-if")
        n = len(parameters.token_ids) + len(ids_of(model, parameters.front))
        changes = len(parameters.changes)
        seconds = changes * (0.2 + 2 * work(model, n) / speed(model))
        memory = 2 * estimate(model, n, Options(exact_maps="none")).memory_mb
        words = f"{changes} changes, {2 * changes} runs of {n:,} tokens · about {duration(seconds)}"
        return Plan(changes, len(parameters.token_ids), seconds, memory, 1.0, words)

    def run(self, model: LoadedModel, parameters: Parameters, number: int, where: Surroundings) -> RunResult:
        edit, factor = parameters.changes[number]
        before = run(model, parameters.token_ids, (), where.stop_if_cancelled)
        try:
            changes = interventions_of(edit, factor=factor, **choices(model, parameters, before))
            found = effect(
                model, list(parameters.token_ids), changes, before=before, stop_if_cancelled=where.stop_if_cancelled
            )
        except Refused as error:
            reason = f"Not defined because {str(error)[:1].lower()}{str(error)[1:].rstrip('.')}."
            return RunResult(
                {"effects": [{**EMPTY, "edit": edit, "factor": factor, "note": reason}], "candidates": [], "heads": []}
            )
        return RunResult(rows_of(edit, factor, found, parameters))

    def combine(self, parameters: Parameters, results: Sequence[RunResult]) -> dict[str, list[Row]]:
        return {name: [row for result in results for row in result.rows[name]] for name in TABLES}


def choices(model: LoadedModel, parameters: Parameters, before: Pass) -> dict:
    """What an edit needs to know of this prompt."""
    layers = before.layers
    heads, n = max(layer.info.heads for layer in layers), len(parameters.token_ids)
    sinks = np.zeros((len(layers), heads, n), bool)
    for place, layer in enumerate(layers):
        limits = (parameters.theta, parameters.least_rows, parameters.times)
        sinks[place, : layer.info.heads] = above(layer.importance[0], layer.rows[0], *limits)
    swap = ids_of(model, parameters.swap)
    return {
        "keys": sorted(set(parameters.keys)),
        "heads": parameters.heads or None,
        "sinks": sinks,
        "layers": tuple(layer.info.layer for layer in layers),
        "front": ids_of(model, parameters.front),
        "swap": swap[0] if swap else None,
    }


def ids_of(model: LoadedModel, text: str) -> list[int]:
    """Tokens of a text without anything added; none without a tokenizer."""
    if not text or model.tokenizer is None:
        return []
    return tokenise(model.tokenizer, text, add_special=False, parse_special=False)["input_ids"]


def rows_of(edit: str, factor: float | None, found: Effect, parameters: Parameters) -> dict[str, list[Row]]:
    """The rows of one effect."""
    key, shift = min(parameters.keys), found.shift
    moved = key + shift
    sink_gone = moved < 0 or (edit == "hide") or (edit == "swap" and key == 0) or (edit == "drop" and key == 0)
    first_hidden = edit == "hide" and 0 in parameters.keys
    names = [(layer.info.layer, head) for layer in found.before.layers for head in range(layer.info.heads)]
    chosen = np.array([not parameters.heads or name in parameters.heads for name in names])
    columns = {
        "sink_before": found.before.importance(key),
        "sink_after": np.full(len(names), np.nan) if sink_gone else found.after.importance(moved),
        "first_before": found.before.importance(0),
        "first_after": np.where(chosen & first_hidden, np.nan, found.after.importance(0)),
    }
    means = {name: mean_of(values[chosen]) for name, values in columns.items()}
    counts = {
        f"sink_heads_{when}": None
        if not np.isfinite(columns[f"first_{when}"]).all()
        else int((columns[f"first_{when}"] > parameters.epsilon).sum())
        for when in ("before", "after")
    }
    numbers = ("kl", "kl_mean", "total_variation", "loss_before", "loss_after", "compared")
    effects = {**{name: getattr(found, name) for name in numbers}, **means, **counts}
    change = {"edit": edit, "factor": factor}
    effects = {**EMPTY, **change, "what": words_of(edit, factor, found, parameters), **effects}
    candidates = [{**change, "rank": rank, **vars(one)} for rank, one in enumerate(found.candidates)]
    heads = [
        {**change, "layer": layer, "head": head, **{name: number(values[at]) for name, values in columns.items()}}
        for at, (layer, head) in enumerate(names)
    ]
    return {"effects": [effects], "candidates": candidates, "heads": heads}


def words_of(edit: str, factor: float | None, found: Effect, parameters: Parameters) -> str:
    """The change in words; ACT's many interventions and token ids in a sentence of their own."""
    if edit == "act":
        heads = {pair for change in found.changes for pair in change.heads}
        return (
            f"In {len(heads)} heads, the weights of all detected sinks but the first are multiplied by "
            f"{factor:g}; what is freed goes to the other tokens in proportion."
        )
    if edit == "front":
        return f"“{parameters.front}” is put in front of the prompt ({found.shift} tokens)."
    if edit == "swap":
        return f"The first token is replaced by the first one of “{parameters.swap}”."
    return " ".join(found.sentences)


def mean_of(values: np.ndarray) -> float | None:
    """Mean of what is defined; None where nothing is."""
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else None


def number(value: float) -> float | None:
    """A number, or None for NaN."""
    return float(value) if math.isfinite(value) else None


STUDY = SinkWhatIf()
