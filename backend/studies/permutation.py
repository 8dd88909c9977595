"""Permutation: does a part get attention for what it says or for where it stands?

The parts of a prompt (documents, few-shot examples, paragraphs, rounds of a chat) are read in several cyclic shifts, so
that each visits each place. The mean over the shifts is what the place gives whatever stands there (B-01); an additive
fit tells the two apart for every head and says how much of the differences it explains. With a reference answer its
probability is measured in every shift. Every shift is read whole: only what stands before the parts stays the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from backend.basins.captured import SINKS_REQUEST, layer_rows, layer_sinks, part_shares
from backend.basins.orders import cyclic, ordered, parts_of, places_in, prompt_from, refuse_what_changes
from backend.basins.passes import answer_ids, answer_logprobs, session, step
from backend.basins.permuted import LOOKS, combined
from backend.basins.slots import Slots
from backend.duration import duration
from backend.errors import Refused
from backend.estimate import estimate, speed, work
from backend.models import LoadedModel
from backend.options import Options
from backend.prompts import EncodedPrompt, encode
from backend.studies.definition import Column, Plan, Row, RunResult, StudyDefinition, Surroundings
from backend.studies.refusals import require_one_stack
from backend.types import LayerCapture

RUN_SECONDS = 0.15  # what a run takes however short it is


@dataclass(frozen=True)
class Parameters:
    """What a person may choose."""

    prompt: dict | None = None  # Prompt fields: documents or examples with a question, a text of paragraphs or a chat
    answer: str | None = None  # reference answer; None: only attention is reported
    shifts: int | None = None  # None = all; else so many, evenly spread

    def __post_init__(self) -> None:
        if self.shifts is not None and (isinstance(self.shifts, bool) or self.shifts < 2):
            raise Refused(f"shifts: expected 2 or more, or None for all, got {self.shifts!r}.")
        if self.answer is not None and not self.answer.strip():
            raise Refused("answer: expected some text, or None to report attention only.")


def share(what: str) -> Column:
    return Column("double", f"{what}; per token, 0 to 1; null where it is out of reach")


PLACE = {"layer": Column("int", "the model's own number"), "head": Column("int", "query head")}
SEEN = {
    "question": "what a token of the part gets from the question, without sinks",
    "question_all": "the same with sinks",
    "last": "what it gets from the last token (the first, where attention sees both ways), without sinks",
    "last_all": "the same with sinks",
}
SHARES = {name: share(words) for name, words in SEEN.items()}
VIEW = {"view": Column("text", f"which rows look: {', '.join(LOOKS)} (_all: with sinks)")}
EFFECTS = {
    "r2": Column("double", "share of the variance over shifts and slots that content + position explain; null: none"),
    "r2_content": Column("double", "share that the part's content explains alone"),
    "r2_position": Column("double", "share that its place explains alone"),
}
TABLES = {
    "profile": {
        **VIEW,
        "slot": Column("int", "place, from 0"),
        "mean": share("mean over shifts and heads of what a token at this place gets"),
        "low": share("lower end of the 95 % interval over shifts"),
        "high": share("upper end"),
        "uniform": share("uniform attention over the visible keys"),
        "position": Column("double", "effect of the place in the additive fit; the effects sum to 0"),
    },
    "contents": {
        **VIEW,
        "part": Column("int", "number of the part in the order given, from 0"),
        "content": Column("double", "effect of the part's content in the additive fit; the effects sum to 0"),
    },
    "model": {**VIEW, **EFFECTS},
    "heads": {
        **VIEW,
        **PLACE,
        **{name: Column("double", f"{name} of the head's mean profile, see the glossary") for name in
           ("depth", "primacy", "recency", "curvature")},
        **EFFECTS,
    },
    "shifts": {
        "shift": Column("int", "number of the run"),
        "slot": Column("int", "place, from 0"),
        "part": Column("int", "which part stands there"),
        "tokens": Column("int", "its length there"),
        **SHARES,
        **{f"{name}_uniform": share(f"{name} of uniform attention") for name in SEEN},
    },
    "masses": {"shift": Column("int", "number of the run"), **PLACE, "slot": Column("int", "place, from 0"), **SHARES},
    "answers": {
        "shift": Column("int", "number of the run"),
        "n_tokens": Column("int", "length of the prompt"),
        "answer_tokens": Column("int", "length of the reference answer; null without one"),
        "logprob": Column("double", "ln probability of the whole answer; null without one"),
        "logprob_per_token": Column("double", "the same per token of the answer"),
    },
}  # fmt: skip


class Permutation(StudyDefinition):
    """Position apart from content."""

    title = "Permutation of the parts"
    question = "Does a part get attention for what it says or for where it stands?"
    Parameters = Parameters
    tables = TABLES

    def subject(self, parameters: Parameters) -> str:
        prompt = parameters.prompt or {}
        asked = prompt["chat"][-1:] if isinstance(prompt.get("chat"), list) else []
        return str(prompt.get("question") or prompt.get("text") or "".join(turn["content"] for turn in asked))

    def plan(self, model: LoadedModel, parameters: Parameters) -> Plan:
        prompt = prompt_from(parameters.prompt)
        require_one_stack(model, "This study")
        if parameters.answer is not None and not model.predicts_next:
            raise Refused(f"{model.name} predicts no next token: leave the reference answer out.")
        orders = cyclic(len(parts_of(prompt)), parameters.shifts)
        read = [encode(model, ordered(prompt, order)) for order in orders]
        refuse_what_changes(prompt, orders, read)
        longest = max(len(one.token_ids) for one in read)
        one = estimate(model, longest, Options(exact_maps="none"))
        seconds = len(orders) * (RUN_SECONDS + work(model, longest) / speed(model))
        disk = 1 + len(orders) * len(orders[0]) * one.n_heads * 40e-6
        some = "" if len(orders) == len(orders[0]) else f" (a sample; all would be {len(orders[0])})"
        words = f"{len(orders)} shifts{some} of {longest:,} tokens · about {duration(seconds)} · {disk:,.0f} MB on disk"
        return Plan(len(orders), longest, seconds, one.memory_mb, disk, words)

    def run(self, model: LoadedModel, parameters: Parameters, number: int, where: Surroundings) -> RunResult:
        prompt = prompt_from(parameters.prompt)
        order = cyclic(len(parts_of(prompt)), parameters.shifts)[number]
        moved = ordered(prompt, order)
        encoded = encode(model, moved)
        slots = places_in(moved, encoded)
        heads: list[tuple[int, int]] = []
        shares: dict[str, list[np.ndarray]] = {name: [] for name in SEEN}
        uniform: dict[str, list[np.ndarray]] = {name: [] for name in SEEN}

        def keep(layer: LayerCapture) -> None:
            where.stop_if_cancelled()
            heads.extend((layer.info.layer, head) for head in range(layer.info.heads))
            for name, (own, even) in layer_shares(layer, slots, model.causal).items():
                shares[name].append(own)
                uniform[name].append(even)

        with session(model, request=SINKS_REQUEST, on_layer=keep):
            read = step(model, encoded.token_ids, keep=parameters.answer is not None)
        where.stop_if_cancelled()
        own, even = ({name: np.concatenate(found[name]) for name in SEEN} for found in (shares, uniform))
        return RunResult(
            {
                "masses": mass_rows(heads, own),
                "shifts": shift_rows(order, slots, own, even),
                "answers": [answer_row(model, parameters, encoded, read)],
            }
        )

    def combine(self, parameters: Parameters, results: Sequence[RunResult]) -> dict[str, list[Row]]:
        numbered = {
            name: [{"shift": number, **row} for number, result in enumerate(results) for row in result.rows[name]]
            for name in ("masses", "shifts", "answers")
        }
        return {**numbered, **combined(numbered["masses"], numbered["shifts"])}


def layer_shares(layer: LayerCapture, slots: Slots, causal: bool) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """view -> share per token of every part [H, K], and that of uniform attention."""
    sinks = layer_sinks(layer)
    found = {}
    for looking, rows in (("question", "question"), ("last", "last" if causal else "first")):
        seen = layer_rows(layer, slots.rows(rows))
        found[looking] = part_shares(*seen, slots, sinks)
        found[f"{looking}_all"] = part_shares(*seen, slots, None)
    return found


def mass_rows(heads: list[tuple[int, int]], shares: dict[str, np.ndarray]) -> list[Row]:
    return [
        {
            "layer": layer,
            "head": head,
            "slot": slot,
            **{name: number(found[at, slot]) for name, found in shares.items()},
        }
        for at, (layer, head) in enumerate(heads)
        for slot in range(shares["question"].shape[1])
    ]


def shift_rows(order: list[int], slots: Slots, shares: dict, uniform: dict) -> list[Row]:
    """Means over heads."""
    means = {name: mean_over_heads(found) for name, found in shares.items()}
    even = {f"{name}_uniform": mean_over_heads(found) for name, found in uniform.items()}
    return [
        {
            "slot": slot,
            "part": part,
            "tokens": slots.parts[slot].length,
            **{name: number(found[slot]) for name, found in {**means, **even}.items()},
        }
        for slot, part in enumerate(order)
    ]


def mean_over_heads(found: np.ndarray) -> np.ndarray:
    """[K] of [heads, K], over what is in reach."""
    there = np.isfinite(found)
    count = there.sum(0)
    return np.where(count > 0, np.where(there, found, 0.0).sum(0) / np.maximum(count, 1), np.nan)


def answer_row(model: LoadedModel, parameters: Parameters, encoded: EncodedPrompt, read) -> Row:
    """The probability of the reference answer, where there is one."""
    row = {"n_tokens": len(encoded.token_ids), "answer_tokens": None, "logprob": None, "logprob_per_token": None}
    if parameters.answer is None:
        return row
    ids = answer_ids(model, encoded, parameters.answer)
    with session(model):
        found = answer_logprobs(model, read, ids)
    if found is None:
        return row
    return {**row, "answer_tokens": len(ids), "logprob": sum(found), "logprob_per_token": sum(found) / len(found)}


def number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


STUDY = Permutation()
