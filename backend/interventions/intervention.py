"""What all interventions share: plain data, a dictionary for JSON, a sentence for people."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import ClassVar

import torch
from torch import Tensor

from backend.errors import Refused
from backend.types import LayerInfo


@dataclass(frozen=True, kw_only=True)
class Intervention(ABC):
    """One change of a run. Its fields are numbers, texts and tuples of them, so that it can be stored and compared."""

    NAME: ClassVar[str]  # the file's name

    def to_dict(self) -> dict:
        """For JSON: the kind under "intervention", and the fields that differ from their defaults."""
        given = {f.name: _plain(value) for f in fields(self) if (value := getattr(self, f.name)) != f.default}
        return {"intervention": self.NAME, **given}

    @abstractmethod
    def sentence(self) -> str:
        """What is changed, in words."""

    def refuse(self, field: str, expected: str) -> Refused:
        """The error for a field that makes no sense."""
        return Refused(f"Intervention {self.NAME}: {field}: expected {expected}, got {getattr(self, field)!r}.")

    def expect_number(self, field: str, low: float, high: float, words: str) -> None:
        """Refused unless the field is a number with low <= number <= high."""
        value = getattr(self, field)
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            raise self.refuse(field, words)


@dataclass(frozen=True, kw_only=True)
class PromptEdit(Intervention):
    """Changes what the model reads, not how it attends."""


@dataclass(frozen=True, kw_only=True)
class HeadEdit(Intervention):
    """Changes chosen heads: `heads` as (layer, head), or all of `layers`, or, with neither, all there are."""

    heads: tuple[tuple[int, int], ...] | None = None
    layers: tuple[int, ...] | None = None
    kind: str = "self"  # the kind of attention; "encoder", "decoder" or "cross" in encoder-decoders

    def __post_init__(self) -> None:
        if self.heads is not None and self.layers is not None:
            raise Refused(f"Intervention {self.NAME}: give heads or layers, not both.")
        if self.heads is not None and not (self.heads and all(whole(pair) and len(pair) == 2 for pair in self.heads)):
            raise self.refuse("heads", "pairs (layer, head) of whole numbers, or None for all")
        if self.layers is not None and not (self.layers and whole(self.layers)):
            raise self.refuse("layers", "whole numbers, or None for all")

    def chosen(self, info: LayerInfo) -> list[int]:
        """The heads of one layer that this changes, ascending; none where the layer is not softmax attention."""
        if info.kind != self.kind or info.attention != "softmax":
            return []
        if self.heads is not None:
            return sorted({head for layer, head in self.heads if layer == info.layer})
        return list(range(info.heads)) if self.layers is None or info.layer in self.layers else []

    def where(self) -> str:
        """The heads in words."""
        of_kind = "" if self.kind == "self" else f" ({self.kind})"
        if self.heads is not None:
            names = [f"{layer}.{head}" for layer, head in sorted(set(self.heads))]
            return f"{'head' if len(names) == 1 else 'heads'} {listed(names)}{of_kind}"
        if self.layers is not None:
            one = len(set(self.layers)) == 1
            return f"all heads of {'layer' if one else 'layers'} {numbers(self.layers)}{of_kind}"
        return f"all heads{of_kind}"


@dataclass(frozen=True, kw_only=True)
class KeyEdit(HeadEdit):
    """Changes the weights on chosen keys: positions in `keys`, or those of a named segment, for all rows or some.

    `rows` is (start, stop), half open; stop None = to the end, generated tokens included.
    """

    WEIGHS: ClassVar[bool] = False  # whether the change depends on how much the row gives to the keys

    keys: tuple[int, ...] | None = None
    segment: str | None = None
    rows: tuple[int, int | None] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_keys()
        if self.rows is not None:
            start_stop = isinstance(self.rows, tuple) and len(self.rows) == 2 and whole(self.rows[:1])
            if not start_stop or not (self.rows[1] is None or (whole(self.rows[1:]) and self.rows[1] > self.rows[0])):
                raise self.refuse("rows", "(start, stop) with start < stop, stop None for the end, or None for all")

    def check_keys(self) -> None:
        """Refused unless the keys are named in one way."""
        if (self.keys is None) == (self.segment is None):
            raise Refused(f"Intervention {self.NAME}: give keys (positions) or segment (a name), one of the two.")
        if self.keys is not None and not (self.keys and whole(self.keys)):
            raise self.refuse("keys", "one or more positions, whole numbers from 0")

    def key_sets(self, segments: dict[str, tuple[int, ...]]) -> list[tuple[int, ...]]:
        """The sets of keys that are changed alike. `segments`: name -> positions."""
        if self.keys is not None:
            return [tuple(sorted(set(self.keys)))]
        return [self.positions(self.segment, segments)]

    def positions(self, name: str, segments: dict[str, tuple[int, ...]]) -> tuple[int, ...]:
        """Where a segment lies; Refused where there is none of that name."""
        if not segments.get(name):
            there = ", ".join(repr(other) for other in segments) or "none"
            raise Refused(
                f"Intervention {self.NAME}: there is no segment {name!r} in this prompt. Its segments: {there}."
            )
        return segments[name]

    @abstractmethod
    def shifts(self, inside: Sequence[Tensor], outside: Tensor) -> list[Tensor]:
        """What is added to the scores of each set of keys, one [B, h, R] per set, float64; -inf hides.

        inside: per set, ln of the weight a row gives to it, [B, h, R]; outside: of everything else, the learned sink
        included. They are 0 and mean nothing where WEIGHS is False.
        """

    def what(self) -> str:
        """The keys in words."""
        if self.keys is None:
            return f"segment {self.segment!r}"
        return f"{'token' if len(set(self.keys)) == 1 else 'tokens'} {numbers(self.keys)}"

    def which_rows(self) -> str:
        """The rows in words, with a comma before; empty for all."""
        if self.rows is None:
            return ""
        start, stop = self.rows
        if stop is None:
            return f", rows from {start} on"
        return f", row {start}" if stop == start + 1 else f", rows {start} to {stop - 1}"


def where_both(inside: Tensor, outside: Tensor, shift: Tensor) -> Tensor:
    """The shift in rows that give weight to the keys and to something else, 0 in the others."""
    return torch.where((inside > -torch.inf) & (outside > -torch.inf), shift, 0.0)


def _plain(value):
    """Tuples as lists, for JSON."""
    return [_plain(part) for part in value] if isinstance(value, tuple) else value


def whole(values) -> bool:
    return isinstance(values, tuple) and all(type(value) is int and value >= 0 for value in values)


def listed(names: Sequence[str], most: int = 6) -> str:
    """ "a, b and c"; of many the first ones and how many more."""
    names = list(names)
    if len(names) > most:
        return f"{', '.join(names[:most])} and {len(names) - most} more"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def numbers(values: Sequence[int]) -> str:
    """ "0-3, 7 and 9" """
    runs: list[list[int]] = []
    for value in sorted(set(values)):
        if runs and value == runs[-1][1] + 1:
            runs[-1][1] = value
        else:
            runs.append([value, value])
    return listed([str(a) if a == b else f"{a}-{b}" for a, b in runs])
