"""Window alone against sink and window (K-07): retained mass, and the true perplexity of reading with such a cache.

With a budget of B keys the window keeps the last B; sink and window keeps the first S and the last B - S. Retained mass
is what the full run's attention gives to the kept keys, over rows that would lose a key. Perplexity is that of a run
whose cache really drops the others while the text is read; keys keep the positions at which they were read.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from backend import prompt_sets
from backend.cache import Stream, shrinking
from backend.capture import capture
from backend.duration import duration
from backend.errors import Refused
from backend.estimate import attention_layers, estimate, speed, work
from backend.models import LoadedModel
from backend.next_token import tapped
from backend.options import Options
from backend.prompts import tokenise
from backend.sinks.kept import hiding
from backend.studies.definition import Column, Plan, Row, RunResult, StudyDefinition, Surroundings
from backend.types import LayerCapture
from kernels.api import attend
from kernels.measures import NOTHING
from kernels.window import visible

WINDOW, BOTH, FULL = "window", "sink and window", "all keys"
CHUNK_ROWS = 64  # rows of logits turned into losses at a time


@dataclass(frozen=True)
class Parameters:
    """What a person may choose."""

    token_ids: tuple[int, ...] = ()  # the prompt; none = the texts that come with Headwater, one after the other
    words: str = ""  # how the prompt begins, for titles
    length: int = 512  # tokens that are read at most
    first: int = 4  # keys at the beginning that sink and window keeps
    budgets: tuple[int, ...] = (32, 64, 128)  # keys that are kept

    def __post_init__(self) -> None:
        object.__setattr__(self, "token_ids", tuple(self.token_ids))
        object.__setattr__(self, "budgets", tuple(sorted(set(self.budgets))))
        for name, value, least in (("length", self.length, 2), ("first", self.first, 1)):
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise Refused(f"{name}: expected a whole number of {least} or more, got {value!r}.")
        if not self.budgets or not all(isinstance(one, int) and one > self.first for one in self.budgets):
            raise Refused(f"budgets: expected whole numbers above first = {self.first}, got {self.budgets}.")

    @property
    def variants(self) -> list[tuple[str, int]]:
        """(what is kept, budget) of every run."""
        return [(FULL, 0), *((name, budget) for budget in self.budgets for name in (WINDOW, BOTH))]

    def stream(self, variant: str, budget: int) -> Stream:
        """What a row sees."""
        return Stream(0, budget) if variant == WINDOW else Stream(self.first, budget - self.first)


VARIANT = {
    "variant": Column("text", f"{FULL}, {WINDOW} or {BOTH}"),
    "budget": Column("int", "keys that are kept; 0 = all"),
}
TABLES = {
    "variants": {
        **VARIANT,
        "loss": Column("double", "mean -ln p of the tokens, nats"),
        "perplexity": Column("double", "exp of the loss"),
        "loss_late": Column("double", "loss of the tokens behind the budget, where something was dropped, nats"),
        "full_late": Column("double", "loss of the same tokens with all keys, nats"),
        "retained": Column("double", "mean share of attention on the kept keys, rows that lose a key, 0 to 1"),
        "tokens": Column("int", "tokens that were read"),
    },
    "positions": {
        **VARIANT,
        "position": Column("int", "place of the token"),
        "loss": Column("double", "-ln p of the token, nats"),
    },
    "heads": {
        **VARIANT,
        "layer": Column("int", "the model's own number"),
        "head": Column("int", "query head"),
        "retained": Column("double", "mean share of attention on the kept keys; null where no row loses a key"),
    },
}


class SinkWindow(StudyDefinition):
    """What a streaming cache loses with and without the first keys."""

    title = "Window with and without sinks"
    question = "What does a cache lose that keeps only the last tokens, with and without the first ones?"
    Parameters = Parameters
    tables = TABLES

    def subject(self, parameters: Parameters) -> str:
        return parameters.words

    def plan(self, model: LoadedModel, parameters: Parameters) -> Plan:
        if not model.predicts_next or {layer.kind for layer in attention_layers(model)} != {"self"}:
            raise Refused(f"{model.name} does not predict the next token of one text, so it has no such cache.")
        n = len(tokens_of(model, parameters))
        if n <= min(parameters.budgets):
            raise Refused(
                f"The text has {n} tokens and a budget of {min(parameters.budgets)} keeps them all. Take a longer text "
                "or a smaller budget."
            )
        with shrinking(model):  # refuses models without such a cache
            pass
        runs = len(parameters.variants)
        seconds = 0.2 + (2 * runs - 1) * work(model, n) / speed(model) + 0.3 * runs
        memory = 2 * estimate(model, n, Options(exact_maps="none")).memory_mb + 4e-6 * n * model.config.vocab_size
        words = f"{runs} runs of {n:,} tokens · about {duration(seconds)} · 1 MB on disk"
        return Plan(runs, n, seconds, memory, 1.0, words)

    def run(self, model: LoadedModel, parameters: Parameters, number: int, where: Surroundings) -> RunResult:
        variant, budget = parameters.variants[number]
        ids = tokens_of(model, parameters)
        stream = None if variant == FULL else parameters.stream(variant, budget)
        with shrinking(model, stream) as reader:
            where.stop_if_cancelled()
            losses = losses_of(reader.read(ids), ids)
        place = {"variant": variant, "budget": budget}
        heads = [] if stream is None else retained(model, ids, stream, where)
        return RunResult(
            {
                "positions": [{**place, "position": at, "loss": value} for at, value in enumerate(losses, 1)],
                "heads": [{**place, **row} for row in heads],
            }
        )

    def combine(self, parameters: Parameters, results: Sequence[RunResult]) -> dict[str, list[Row]]:
        full = [row["loss"] for row in results[0].rows["positions"]]
        variants = []
        for (variant, budget), result in zip(parameters.variants, results, strict=True):
            losses = [row["loss"] for row in result.rows["positions"]]
            late = slice(budget, None)  # position budget + 1 is predicted by the first row that lost a key
            shares = [row["retained"] for row in result.rows["heads"] if row["retained"] is not None]
            variants.append(
                {
                    "variant": variant,
                    "budget": budget,
                    "loss": mean(losses),
                    "perplexity": perplexity(mean(losses)),
                    "loss_late": mean(losses[late]) if budget else None,
                    "full_late": mean(full[late]) if budget else None,
                    "retained": mean(shares),
                    "tokens": len(losses) + 1,
                }
            )
        return {
            "variants": variants,
            "positions": [row for result in results for row in result.rows["positions"]],
            "heads": [row for result in results for row in result.rows["heads"]],
        }


def tokens_of(model: LoadedModel, parameters: Parameters) -> list[int]:
    """What is read."""
    ids = list(parameters.token_ids)
    if not ids:
        if model.tokenizer is None:
            raise Refused(f"{model.name} came without a tokenizer: give the token ids of a prompt.")
        text = "\n\n".join(prompt_sets.natural().texts)
        ids = tokenise(model.tokenizer, text, add_special=True, parse_special=False)["input_ids"]
    most = model.max_positions
    return ids[: min(parameters.length, len(ids) if most is None else most)]


def losses_of(logits: Tensor, ids: Sequence[int]) -> list[float]:
    """-ln p of every token but the first. logits [n, V]."""
    found: list[float] = []
    for start in range(0, len(ids) - 1, CHUNK_ROWS):
        stop = min(start + CHUNK_ROWS, len(ids) - 1)
        following = torch.tensor(ids[start + 1 : stop + 1], device=logits.device)
        found += torch.nn.functional.cross_entropy(logits[start:stop].float(), following, reduction="none").tolist()
    return found


def retained(model: LoadedModel, ids: Sequence[int], stream: Stream, where: Surroundings) -> list[Row]:
    """Share of the full run's attention on what the stream keeps, per head."""
    rows: list[Row] = []

    def on_layer(layer: LayerCapture) -> None:
        where.stop_if_cancelled()
        shares = retained_shares(layer, stream)
        for head, value in enumerate(shares.tolist()):
            known = value if value == value else None
            rows.append({"layer": layer.info.layer, "head": head, "retained": known})

    inputs = {"input_ids": torch.tensor([list(ids)], device=model.device), "use_cache": False}
    with torch.inference_mode(), tapped(model.model), capture(model, NOTHING, on_layer=on_layer):
        model.model(**inputs)
    return rows


def retained_shares(layer: LayerCapture, stream: Stream) -> Tensor:
    """exp(lse of the kept keys - lse of all), mean over the rows that lose a key: [H], NaN without one.

    The first keys and the last ones are summed apart, each under the layer's own rule of what is visible.
    """
    heads, n_query, n_key = layer.query.shape[1], layer.query.shape[2], layer.key.shape[2]
    first = (torch.arange(n_key) < stream.first).expand(heads, -1)
    own = layer.score.window
    recent = replace(layer.score, window=stream.recent if own is None else min(own, stream.recent), sink=None)
    parts = [hiding(recent, first)] + ([hiding(replace(layer.score, sink=None), ~first)] if stream.first else [])
    sums = [attend(layer.query, layer.key, layer.value, part, NOTHING).lse[0].double() for part in parts]
    kept = sums[0] if len(sums) == 1 else torch.logaddexp(*sums)
    shares = torch.exp(kept - layer.lse[0].double()).clamp(max=1.0)
    loses = torch.cat([rows_that_lose(layer, stream, start) for start in range(0, n_query, CHUNK_ROWS)])
    return shares[:, loses].mean(-1) if bool(loses.any()) else torch.full((heads,), math.nan)


def rows_that_lose(layer: LayerCapture, stream: Stream, start: int) -> Tensor:
    """Which of some rows see a key that the stream drops: bool [rows]."""
    n_query, n_key = layer.query.shape[2], layer.key.shape[2]
    rows = torch.arange(start, min(start + CHUNK_ROWS, n_query))
    seen = visible(layer.score, n_query, n_key, slice(start, int(rows[-1]) + 1), slice(0, n_key))[0].any(0)
    return (seen & ~stream.visible(rows[:, None], torch.arange(n_key)[None]).to(seen.device)).any(-1)


def mean(values: Sequence[float]) -> float | None:
    """None of nothing."""
    return sum(values) / len(values) if values else None


def perplexity(loss: float | None) -> float | None:
    """exp(loss); None where it is beyond numbers."""
    return None if loss is None or loss > 700 else math.exp(loss)


STUDY = SinkWindow()
