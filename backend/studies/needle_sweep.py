"""Needle sweep: does the model find one sentence in a long text, and which heads fetch it?

A grid of lengths and depths. A run is one cell: a needle among look-alike needles in prose, the question behind, the
answer written and judged; every head's retrieval score (R-01) and its mass on the needle. Then one run per cell again,
with the strongest retrieval heads off while the question is read and the answer written, and with as many random heads
off: only if the first hurts more do these heads fetch the answer. Heads are off from the question on: the text before
it is the same in every reading of a cell, and texts of one length begin alike up to the needle. What is alike is read
once where keys and values can be kept exactly; elsewhere every text is read whole, under its heads.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from statistics import fmean

import numpy as np

from backend.basins.haystack import Haystack, haystack
from backend.basins.needle import Cell, masked_cell, plain_cell
from backend.basins.outcome import says
from backend.basins.passes import why_not_reusable
from backend.basins.prose import CUE, NEEDLE, QUESTION, sentences_in
from backend.basins.readings import forget, kept_mb, room_mb
from backend.basins.retrieval import KEPT_ROUGE, auroc
from backend.duration import duration
from backend.errors import Refused
from backend.estimate import attention_layers, estimate, speed, work
from backend.models import LoadedModel
from backend.options import Options
from backend.studies.definition import Column, Plan, Row, RunResult, StudyDefinition, Surroundings

RUN_SECONDS = 0.1
STEP_SECONDS = 0.08
SUPPRESSED = ("top", "random")


@dataclass(frozen=True)
class Parameters:
    """What a person may choose. Without a needle of one's own one of the project's is taken, with look-alikes."""

    lengths: tuple[int, ...] = (256, 512, 1024, 2048)
    depths: tuple[float, ...] = (0.0, 0.25, 0.5, 0.75, 1.0)
    needle: str = NEEDLE.format(answer="4718")
    question: str = QUESTION
    cue: str = CUE  # how the answer begins, behind "Answer:"; may be empty
    answer: str = "4718"
    look_alikes: int = 4  # of the project
    others: tuple[str, ...] = ()  # look-alikes of one's own, instead
    hay: str = ""  # what it is hidden in; empty = prose of the project
    new_tokens: int = 12
    heads_off: int = 10
    draws: int = 2  # random sets of heads
    causal_check: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("lengths", "depths", "others"):  # JSON gives lists
            object.__setattr__(self, name, tuple(getattr(self, name)))
        if not self.lengths or not all(type(one) is int and one >= 64 for one in self.lengths):
            raise Refused(f"lengths: expected whole numbers of 64 or more, got {list(self.lengths)}.")
        if not self.depths or not all(0 <= one <= 1 for one in self.depths):
            raise Refused(f"depths: expected numbers from 0 to 1, got {list(self.depths)}.")
        for name in ("needle", "question", "answer"):
            if not str(getattr(self, name)).strip():
                raise Refused(f"{name}: expected some text.")
        if not says(self.needle, self.answer):
            raise Refused("answer: expected words of the needle; otherwise it cannot be found in the text.")
        if says(" ".join((self.hay, self.question, self.cue, *self.others)), self.answer):
            raise Refused("answer: text, look-alikes, question or cue hold it too, so finding it would say nothing.")
        for name, least, most in (
            ("look_alikes", 0, 14),
            ("new_tokens", 1, 50),
            ("heads_off", 1, 1000),
            ("draws", 1, 10),
        ):
            if not least <= getattr(self, name) <= most:
                raise Refused(f"{name}: expected {least} to {most}, got {getattr(self, name)!r}.")

    @property
    def cells(self) -> list[tuple[int, float]]:
        """(length, depth), short ones first."""
        return [(length, depth) for length in self.lengths for depth in self.depths]

    @property
    def order(self) -> list[int]:
        """Numbers of the cells as they are read: long ones first, they gain most from being kept; and of one length the
        deepest needle first, because before it stands all that the others begin with."""
        return sorted(range(len(self.cells)), key=lambda at: (-self.cells[at][0], -self.cells[at][1]))

    def shared(self, cell: int) -> float:
        """Share of a cell's text that the text read before it begins with."""
        length, depth = self.cells[cell]
        return depth if any(other == length and deeper > depth for other, deeper in self.cells) else 0.0


HEAD = {"layer": Column("int", "the model's own number"), "head": Column("int", "query head")}
JUDGED = {
    "logprob": Column("double", "ln probability of the answer"),
    "exact": Column("int", "1 where the text that was written holds the answer"),
    "rouge": Column("double", "share of the answer's words that the text holds"),
    "text": Column("text", "what was written"),
}
TABLES = {
    "cells": {
        "cell": Column("int", "number of the cell"),
        "length": Column("int", "tokens that were allowed"),
        "depth": Column("double", "depth that was asked for"),
        "n_tokens": Column("int", "tokens of the text"),
        "real_depth": Column("double", "where the needle really lies, 0 to 1"),
        "needle_tokens": Column("int", "tokens of the needle, by the tokenizer's offsets"),
        "needle_mass": Column("double", "share of a row on the needle while it is answered, over heads that see it"),
        "alike_mass": Column("double", "the same on all look-alikes together"),
        **JUDGED,
    },
    "heads": {
        **HEAD,
        "retrieval": Column("double", "retrieval score: share of the needle copied, mean over the cells that count"),
        "cells": Column("int", f"cells that count: recall of the answer above {KEPT_ROUGE:g}"),
        "mass": Column("double", "share of a row on the needle while it is answered, over cells in which it is seen"),
        "auroc": Column("double", "how often a success has more mass than a failure; null where success never varies"),
    },
    "masked": {
        "cell": Column("int", "number of the cell"),
        "off": Column("text", "top = strongest retrieval heads, random = as many others"),
        "draw": Column("int", "number of the random set, 0 for top"),
        **JUDGED,
    },
    "causal_check": {
        "off": Column("text", "nothing, top, random"),
        "heads": Column("int", "heads that were off"),
        "logprob": Column("double", "mean ln probability of the answer"),
        "exact": Column("double", "share of cells whose text holds the answer"),
    },
}  # fmt: skip


class NeedleSweep(StudyDefinition):
    """Lengths times depths, with the causal check."""

    title = "Needle sweep"
    question = "Does the model find one sentence in a long text, and which heads fetch it?"
    Parameters = Parameters
    tables = TABLES
    version = 2

    def subject(self, parameters: Parameters) -> str:
        low, high = min(parameters.lengths), max(parameters.lengths)
        return f"{low:,} tokens" if low == high else f"{low:,} to {high:,} tokens"

    def plan(self, model: LoadedModel, parameters: Parameters) -> Plan:
        if not model.predicts_next or {layer.kind for layer in attention_layers(model)} != {"self"}:
            raise Refused(f"{model.name} does not write text behind a prompt, so it cannot answer.")
        longest = max(parameters.lengths)
        most = model.max_positions
        if most is not None and longest + parameters.new_tokens > most:
            raise Refused(f"{longest:,} tokens and an answer do not fit: {model.name} takes {most:,}. Shorten them.")
        for depth in parameters.depths:  # refused now rather than in the middle
            self.text(model, parameters, min(parameters.lengths), depth)
        if parameters.hay:
            self.text(model, parameters, longest, parameters.depths[0])
        one = estimate(model, longest, Options(exact_maps="none"))
        reuse, cells = why_not_reusable(model), len(parameters.cells)
        shared = [parameters.shared(at) if reuse is None else 0.0 for at in range(cells)]
        new = sum((1 - part) * length for part, (length, _) in zip(shared, parameters.cells, strict=True))
        kept = min(kept_mb(model, new), room_mb(model)) if reuse is None else 0.0
        whole = [work(model, length) / speed(model) for length, _ in parameters.cells]
        first = sum((1 - part) * one for part, one in zip(shared, whole, strict=True))
        again = first * (1 - kept / kept_mb(model, new)) if reuse is None else sum(whole)
        checks = 1 if parameters.causal_check else 0
        answers = 1 + checks * (1 + parameters.draws)
        each = RUN_SECONDS + parameters.new_tokens * STEP_SECONDS
        seconds, runs = first + checks * again + cells * answers * each, (1 + checks) * cells
        words = f"{len(parameters.lengths)} lengths x {len(parameters.depths)} depths"
        check = ", then again with heads off" if parameters.causal_check else ""
        how = "what texts share is read once" if reuse is None else f"every text is read whole, because {reuse}"
        words = f"{words}{check} · {runs} runs, {how} · about {duration(seconds)} · 1 MB on disk"
        return Plan(runs, longest, seconds, 2 * one.memory_mb + kept, 1.0, words)

    def text(self, model: LoadedModel, parameters: Parameters, length: int, depth: float) -> Haystack:
        return haystack(
            model,
            parameters.needle,
            parameters.question,
            parameters.cue,
            length,
            depth,
            alike=parameters.others or parameters.look_alikes,
            seed=parameters.seed,
            hay=sentences_in(parameters.hay),
        )

    def run(self, model: LoadedModel, parameters: Parameters, number: int, where: Surroundings) -> RunResult:
        cells, order = parameters.cells, parameters.order
        cell = order[number % len(cells)]
        hay = self.text(model, parameters, *cells[cell])
        if number < len(cells):
            found = plain_cell(model, hay, parameters.answer, parameters.new_tokens, where.stop_if_cancelled)
            return RunResult({"cells": [cell_row(parameters, cell, hay, found)], "heads": head_rows(found)})
        sets = heads_off(parameters, in_order(parameters, [where.earlier[at] for at in range(len(cells))]))
        rows = masked_cell(model, hay, parameters.answer, parameters.new_tokens, sets, where.stop_if_cancelled)
        return RunResult({"masked": [{"cell": cell, **row} for row in rows]})

    def leave(self, model: LoadedModel) -> None:
        forget(model)

    def combine(self, parameters: Parameters, results: Sequence[RunResult]) -> dict[str, list[Row]]:
        count = len(parameters.cells)
        plain = in_order(parameters, results[:count])
        cells = [result.rows["cells"][0] for result in plain]
        masked = [row for result in in_order(parameters, results[count:]) for row in result.rows["masked"]]
        check = [{"off": "nothing", "heads": 0, **judged(cells)}]
        for name in SUPPRESSED if masked else ():
            rows = [row for row in masked if row["off"] == name]
            sets = heads_off(parameters, plain)
            check.append({"off": name, "heads": len(next(iter(sets[name]), ())), **judged(rows)})
        return {"cells": cells, "heads": head_table(plain), "masked": masked, "causal_check": check}


def in_order(parameters: Parameters, results: Sequence[RunResult]) -> list[RunResult]:
    """The results of one run per cell by the number of the cell; none where there are none."""
    return [result for _, result in sorted(zip(parameters.order, results, strict=False), key=lambda one: one[0])]


def cell_row(parameters: Parameters, cell: int, hay: Haystack, found: Cell) -> Row:
    length, depth = parameters.cells[cell]
    return {
        "cell": cell,
        "length": length,
        "depth": depth,
        "n_tokens": len(hay.encoded.token_ids),
        "real_depth": hay.depth,
        "needle_tokens": len(hay.needle),
        "needle_mass": mean_known(found.mass.tolist()),
        "alike_mass": mean_known(found.alike_mass.tolist()),
        **found.judged,
    }


def mean_known(values: Iterable[float | None]) -> float | None:
    """Mean of what is defined; None where nothing is."""
    known = [float(value) for value in values if value is not None and not isnan(value)]
    return fmean(known) if known else None


def head_rows(found: Cell) -> list[Row]:
    return [
        {"layer": layer, "head": head, "retrieval": float(found.retrieval[at]), "mass": mean_known([found.mass[at]])}
        for at, (layer, head) in enumerate(found.places)
    ]


def head_table(plain: Sequence[RunResult]) -> list[Row]:
    """Every head over the cells; strongest first."""
    success = [bool(result.rows["cells"][0]["exact"]) for result in plain]
    counts = [result.rows["cells"][0]["rouge"] > KEPT_ROUGE for result in plain]
    by_head: dict[tuple[int, int], list[Row]] = {}
    for result in plain:
        for row in result.rows["heads"]:
            by_head.setdefault((row["layer"], row["head"]), []).append(row)
    rows = []
    for (layer, head), found in by_head.items():
        kept = [row["retrieval"] for row, counted in zip(found, counts, strict=True) if counted]
        masses = [row["mass"] for row in found]
        rows.append(
            {
                "layer": layer,
                "head": head,
                "retrieval": fmean(kept) if kept else None,
                "cells": len(kept),
                "mass": mean_known(masses),
                "auroc": auroc(masses, success),
            }
        )
    return sorted(rows, key=lambda row: (-(row["retrieval"] or 0.0), -(row["mass"] or 0.0)))


def heads_off(parameters: Parameters, plain: Sequence[RunResult]) -> Mapping[str, list[list[tuple[int, int]]]]:
    """The sets of heads that are put out: the strongest by retrieval score (mass breaks ties), and random others."""
    ranked = [(row["layer"], row["head"]) for row in head_table(plain)]
    count = min(parameters.heads_off, len(ranked) // 2)
    others = ranked[count:]
    draw = np.random.default_rng([parameters.seed, 2])
    drawn = [[others[at] for at in draw.permutation(len(others))[:count]] for _ in range(parameters.draws)]
    return {"top": [ranked[:count]], "random": drawn}


def judged(rows: Sequence[Row]) -> Row:
    known = [row["logprob"] for row in rows if row["logprob"] is not None]
    return {"logprob": fmean(known) if known else None, "exact": fmean(row["exact"] for row in rows)}


STUDY = NeedleSweep()
