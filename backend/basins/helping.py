"""One order of a prompt, read and measured, and what can be done about it without reading it again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from backend.basins.calibration import DUMMY, NULL_QUERY, with_dummies
from backend.basins.measured import Measured, measure
from backend.basins.ordering import attention_rank, sorted_by_attention
from backend.basins.orders import ordered
from backend.basins.outcome import Outcome, outcome, says
from backend.basins.passes import Prefix, why_not_reusable
from backend.basins.slots import Slots, slots_of
from backend.interventions import Intervention, Redistribute, TargetShare
from backend.models import LoadedModel
from backend.prompts import EncodedPrompt, Prompt, encode, tokenise

METHODS = {
    "as it is": "the prompt in its starting order",
    "sorting": "parts sorted by the attention they get, the highest last",
    "AttnRank": "the most relevant parts at the places that get most",
    "redistribution": "attention among the parts divided by calibrated scores",
    "steering": "the part that ranks first gets a set share of every row",
    "steering the marked": "the marked part gets it, which needs to know the answer's part",
}


@dataclass(eq=False)
class Reading:
    """A prompt in one order. `prefix` is None where the model does not allow keys and values to be kept."""

    model: LoadedModel
    prompt: Prompt  # in the order given
    order: list[int]
    encoded: EncodedPrompt
    slots: Slots
    found: Measured
    prefix: Prefix | None
    stop: Callable[[], None]
    cost_null: float = 0.0  # whole readings that the null query and the dummies took
    cost_dummies: float = 0.0
    _dummies: dict[tuple[int, ...], Measured] = field(default_factory=dict)

    @classmethod
    def of(cls, model: LoadedModel, prompt: Prompt, order: list[int], stop: Callable[[], None]) -> Reading:
        encoded = encode(model, ordered(prompt, order))
        slots = slots_of(encoded.segments, encoded.tokens)
        found = measure(model, encoded.token_ids, slots, stop=stop)
        kept = None
        if why_not_reusable(model) is None:
            kept = Prefix(tuple(encoded.token_ids), found.read.cache)
        return cls(model, prompt, order, encoded, slots, found, kept, stop)

    @property
    def segments(self) -> tuple[str, ...]:
        """Names of the parts' segments in the order they stand."""
        return tuple(self.slots.names)

    def order_words(self) -> str:
        return "order " + " ".join(str(part + 1) for part in self.order)

    def sorted_order(self) -> list[int]:
        """By rising share per token from the last token."""
        return [self.order[place] for place in sorted_by_attention(self.found.parts(self.slots, "last"))]

    def ranked_order(self, relevance: Sequence[float], profile: Sequence[float]) -> list[int]:
        """AttnRank: relevance and profile by place of this order."""
        return [self.order[place] for place in attention_rank(relevance, profile)]

    def null_query(self) -> Measured:
        """The same parts under a question that asks nothing."""
        asked = encode(self.model, replace(ordered(self.prompt, self.order), question=NULL_QUERY))
        slots = slots_of(asked.segments, asked.tokens)
        end = self.slots.question.start
        sinks = {place: tuple(key for key in keys if key < end) for place, keys in self.found.sinks.items()}
        found = measure(self.model, asked.token_ids, slots, sinks=sinks, prefix=self.prefix, stop=self.stop)
        self.cost_null = 1.0 if self.prefix is None else 1 - end / len(asked.token_ids)
        cut = {name: values[:, :end] for name, values in found.tokens.items()}
        width = len(self.encoded.token_ids)
        padded = {
            name: np.pad(values, ((0, 0), (0, width - end)), constant_values=np.nan) for name, values in cut.items()
        }
        return replace(found, tokens=padded)

    def dummies(self, which: Sequence[int]) -> Measured:
        """Dummies of the same length at the chosen places."""
        key = tuple(which)
        if key not in self._dummies:
            text = DUMMY.strip() + " "
            filler = tokenise(self.model.tokenizer, text, add_special=False, parse_special=False)["input_ids"]
            ids = with_dummies(self.encoded.token_ids, self.slots, filler, key)
            sinks = self.found.sinks
            self._dummies[key] = measure(self.model, ids, self.slots, sinks=sinks, prefix=self.prefix, stop=self.stop)
            reused = 0 if self.prefix is None else self.slots.parts[min(key)].start
            self.cost_dummies += 1 - reused / len(ids)
        return self._dummies[key]

    def answer(self, parameters: Any, interventions: Sequence[Intervention] = ()) -> Outcome:
        """Reads from the question on, changed or not, and answers."""
        return outcome(
            self.model,
            self.encoded,
            answer=parameters.answer,
            new_tokens=parameters.new_tokens,
            prefix=self.prefix,
            first=self.slots.question.start,
            interventions=interventions,
            stop=self.stop,
        )

    def steered(self, method: str, place: int, parameters: Any, cost: float) -> dict:
        """I-02: the part at that place gets a set share of every row from the question on."""
        edit = TargetShare(segment=self.segments[place], share=parameters.share, rows=self.rows)
        found = self.answer(parameters, [edit])
        return self.row(method, found, parameters, 1.0 + cost + self.part_of(found), f"part {self.order[place] + 1}")

    def redistributed(self, shares: np.ndarray, parameters: Any, cost: float) -> dict:
        """B-04, in the later half of the layers."""
        layers = sorted({layer for layer, _ in self.found.places})
        edit = Redistribute(
            segments=self.segments,
            shares=tuple(float(share) for share in shares),
            layers=tuple(layers[len(layers) // 2 :]),
            rows=self.rows,
        )
        found = self.answer(parameters, [edit])
        most = int(np.argmax(shares))
        words = f"{100 * shares[most]:.0f} % to part {self.order[most] + 1}"
        return self.row("redistribution", found, parameters, 1.0 + cost + self.part_of(found), words)

    @property
    def rows(self) -> tuple[int, None]:
        """Rows whose attention is changed: from the question on, what is written included."""
        return (self.slots.question.start, None)

    def part_of(self, found: Outcome) -> float:
        """What the answer took, in whole readings."""
        return found.read / len(self.encoded.token_ids)

    def row(self, method: str, found: Outcome, parameters: Any, cost: float, detail: str) -> dict:
        """One row of the table of outcomes."""
        held = None if parameters.answer is None else int(says(found.text, parameters.answer))
        return {
            "method": method,
            "logprob": found.logprob,
            "per_token": found.per_token,
            "text": found.text,
            "says": held,
            "cost": cost,
            "detail": detail,
        }
