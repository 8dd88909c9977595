"""What would help: the same question with the parts in another order, or with attention moved, each done for real.

One run per starting order (cyclic shifts, evenly spread). In each: the prompt as it is; attention sorting (B-05);
AttnRank (B-06), with what identical dummies get as the profile and null-query scores as relevance; redistribution by
calibrated scores (B-04); steering of the part that ranks first, and of the marked one (I-02). Attention is changed in
the rows from the question on, so that what stands before it is read once. The verdict compares each method with the
prompt as it is over the orders.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from backend.basins.calibration import TEMPERATURE, null_calibrated, redistribution
from backend.basins.helping import METHODS, Reading
from backend.basins.orders import cyclic, parts_of, prompt_from
from backend.basins.outcome import verdict
from backend.basins.passes import why_not_reusable
from backend.duration import duration
from backend.errors import Refused
from backend.estimate import estimate, speed, work
from backend.models import LoadedModel
from backend.options import Options
from backend.prompts import encode
from backend.studies.definition import Column, Plan, Row, RunResult, StudyDefinition, Surroundings

WRITE_SECONDS = 0.1  # per token that is written


@dataclass(frozen=True)
class Parameters:
    """What a person may choose."""

    prompt: dict | None = None
    answer: str | None = None  # reference answer; None: texts are shown and nothing is judged
    gold: int | None = None  # number of the part that holds it, from 0
    orders: int = 5  # starting orders
    sortings: int = 2  # readings of attention sorting
    share: float = 0.2  # of every row, for the steered part
    temperature: float = TEMPERATURE  # of the redistribution
    exact: bool = True  # calibrate with one dummy run per place; else with dummies everywhere
    new_tokens: int = 16

    def __post_init__(self) -> None:
        for name, least, most in (("orders", 1, 100), ("sortings", 1, 5), ("new_tokens", 1, 64)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
                raise Refused(f"{name}: expected a whole number from {least} to {most}, got {value!r}.")
        if not 0 < self.share < 1 or not self.temperature > 0:
            raise Refused("share: expected a number between 0 and 1; temperature: a number above 0.")
        if self.answer is not None and not self.answer.strip():
            raise Refused("answer: expected some text, or None to show texts only.")


TABLES = {
    "methods": {
        "method": Column("text", "what was done: " + "; ".join(f"{name} = {words}" for name, words in METHODS.items())),
        "orders": Column("int", "starting orders it was done in"),
        "before": Column("double", "mean ln probability of the answer as it is"),
        "after": Column("double", "the same with the method"),
        "difference": Column("double", "mean of after - before over the orders, nats"),
        "low": Column("double", "lower end of its 95 % interval (Student's t); null for one order"),
        "high": Column("double", "upper end"),
        "verdict": Column("text", "better, worse, no difference beyond chance, not judged"),
        "says_before": Column("double", "share of orders whose text holds the answer, as it is"),
        "says_after": Column("double", "the same with the method"),
        "cost": Column("double", "whole readings of the prompt per answer, its own included; mean"),
    },
    "outcomes": {
        "order": Column("int", "number of the starting order"),
        "method": Column("text", "what was done"),
        "logprob": Column("double", "ln probability of the reference answer; null without one"),
        "per_token": Column("double", "the same per token"),
        "text": Column("text", "the most probable text"),
        "says": Column("int", "1 where the text holds the answer, else 0; null without one"),
        "cost": Column("double", "whole readings of the prompt"),
        "detail": Column("text", "the order that was read, or where attention was moved"),
    },
}


class WhatHelps(StudyDefinition):
    """Methods against the prompt as it is."""

    title = "What would help"
    question = "Which order or which correction of attention makes the right answer more probable?"
    Parameters = Parameters
    tables = TABLES

    def subject(self, parameters: Parameters) -> str:
        return str((parameters.prompt or {}).get("question") or "")

    def plan(self, model: LoadedModel, parameters: Parameters) -> Plan:
        prompt = prompt_from(parameters.prompt)
        count = len(parts_of(prompt))
        if prompt.question is None:
            raise Refused("A question of its own is needed: give documents or examples with a question.")
        if not model.predicts_next or model.tokenizer is None:
            raise Refused(f"{model.name} writes no text, so no answer can be compared.")
        if parameters.gold is not None and not 0 <= parameters.gold < count:
            raise Refused(f"gold: there are parts 0 to {count - 1}, got {parameters.gold!r}.")
        n = len(encode(model, prompt).token_ids)
        reuse = why_not_reusable(model)
        readings = 3.5 + parameters.sortings + (count * (0.6 if reuse is None else 1) if parameters.exact else 0)
        readings += 0 if reuse is None else 8
        runs = len(cyclic(count, parameters.orders))
        writing = parameters.new_tokens * (len(METHODS) - (parameters.gold is None)) * WRITE_SECONDS
        seconds = runs * (writing + readings * work(model, n) / speed(model))
        one = estimate(model, n, Options(exact_maps="none"))
        sentence = (
            f"{runs} orders of {n:,} tokens, each with about {readings:.0f} readings · about {duration(seconds)} · 1 MB"
        )
        return Plan(runs, n, seconds, 3 * one.memory_mb, 1.0, sentence)

    def run(self, model: LoadedModel, parameters: Parameters, number: int, where: Surroundings) -> RunResult:
        prompt = prompt_from(parameters.prompt)
        order = cyclic(len(parts_of(prompt)), parameters.orders)[number]
        base = Reading.of(model, prompt, order, where.stop_if_cancelled)
        rows = [base.row("as it is", base.answer(parameters), parameters, 1.0, base.order_words())]
        rows.append(sorting(base, parameters))
        null, dummy = base.null_query(), base.dummies(range(len(order)))
        relevance = null_calibrated(base.found.mean("last"), null.mean("last"), base.slots)
        if not np.isfinite(relevance).any():
            raise Refused("The rows that answer see none of the parts in any layer, so no part can be ranked or moved.")
        rows.append(ranked(base, parameters, relevance, dummy))
        rows.append(redistributed(base, parameters, dummy))
        rows.append(base.steered("steering", int(np.nanargmax(relevance)), parameters, base.cost_null))
        if parameters.gold is not None:
            rows.append(base.steered("steering the marked", order.index(parameters.gold), parameters, 0.0))
        return RunResult({"outcomes": rows})

    def combine(self, parameters: Parameters, results: Sequence[RunResult]) -> dict[str, list[Row]]:
        outcomes = [{"order": at, **row} for at, result in enumerate(results) for row in result.rows["outcomes"]]
        before = {row["order"]: row for row in outcomes if row["method"] == "as it is"}
        methods = []
        for name in dict.fromkeys(row["method"] for row in outcomes):
            rows = [row for row in outcomes if row["method"] == name]
            pairs = [(before[row["order"]]["logprob"], row["logprob"]) for row in rows]
            judged = verdict([None if a is None or b is None else b - a for a, b in pairs])
            methods.append(
                {
                    "method": name,
                    "orders": len(rows),
                    "before": mean([a for a, _ in pairs]),
                    "after": mean([b for _, b in pairs]),
                    "difference": judged.mean,
                    "low": judged.low,
                    "high": judged.high,
                    "verdict": "" if name == "as it is" else judged.word,
                    "says_before": mean([before[row["order"]]["says"] for row in rows]),
                    "says_after": mean([row["says"] for row in rows]),
                    "cost": mean([row["cost"] for row in rows]),
                }
            )
        return {"methods": methods, "outcomes": outcomes}


def sorting(base: Reading, parameters: Parameters) -> Row:
    """B-05: read, sort, read again, until the order stays."""
    current, cost = base, 1.0
    for _ in range(parameters.sortings):
        following = current.sorted_order()
        if following == current.order:
            break
        current = Reading.of(base.model, base.prompt, following, base.stop)
        cost += 1
    return base.row("sorting", current.answer(parameters), parameters, cost, current.order_words())


def ranked(base: Reading, parameters: Parameters, relevance: np.ndarray, dummy) -> Row:
    """B-06: the most relevant parts where identical dummies get most."""
    chosen = base.ranked_order(relevance, dummy.parts(base.slots, "last"))
    new = Reading.of(base.model, base.prompt, chosen, base.stop)
    cost = 2.0 + base.cost_null + base.cost_dummies
    return base.row("AttnRank", new.answer(parameters), parameters, cost, new.order_words())


def redistributed(base: Reading, parameters: Parameters, everywhere) -> Row:
    """B-04: what the parts get together is divided by their calibrated scores, in the later half of the layers."""
    own = base.found.parts(base.slots, "last")
    before = base.cost_dummies if parameters.exact else 0.0  # dummies everywhere are not what exact scores are made of
    if parameters.exact:
        dummy = np.array([base.dummies([at]).parts(base.slots, "last")[at] for at in range(len(base.order))])
    else:
        dummy = everywhere.parts(base.slots, "last")
    shares = redistribution(own - dummy, parameters.temperature)
    return base.redistributed(shares, parameters, base.cost_dummies - before)


def mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


STUDY = WhatHelps()
