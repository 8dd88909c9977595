"""Redistribute: what several segments get together is divided anew among them (methods.md B-04)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from backend.errors import Refused
from backend.interventions.intervention import KeyEdit, listed


@dataclass(frozen=True, kw_only=True)
class Redistribute(KeyEdit):
    """The mass that a row gives to all `segments` stays; it is divided among them as `shares`.

    Inside a segment weights keep their proportions. Segments that a row does not see are left out and the shares of the
    others are taken relative to their sum; rows whose visible segments have no share at all stay as they are.
    """

    NAME: ClassVar[str] = "redistribute"
    WEIGHS: ClassVar[bool] = True

    segments: tuple[str, ...]
    shares: tuple[float, ...]

    def check_keys(self) -> None:
        if self.keys is not None or self.segment is not None:
            raise Refused("Intervention redistribute: the keys are those of `segments`; leave keys and segment out.")
        if len(self.segments) < 2 or len(set(self.segments)) != len(self.segments):
            raise self.refuse("segments", "the names of two or more segments, each once")
        numbers = all(isinstance(share, int | float) and 0 <= share < math.inf for share in self.shares)
        if len(self.shares) != len(self.segments) or not numbers or not sum(self.shares) > 0:
            raise self.refuse("shares", f"{len(self.segments)} numbers from 0, one per segment, not all 0")

    def key_sets(self, segments: dict[str, tuple[int, ...]]) -> list[tuple[int, ...]]:
        sets = [self.positions(name, segments) for name in self.segments]
        if len(set().union(*sets)) != sum(map(len, sets)):
            raise Refused("Intervention redistribute: the segments overlap. Choose segments that share no token.")
        return sets

    def shifts(self, inside: Sequence[Tensor], outside: Tensor) -> list[Tensor]:
        mass = torch.stack(list(inside))  # [S, B, h, R]
        wanted = torch.tensor(self.shares, dtype=mass.dtype).log()[:, None, None, None].expand_as(mass)
        wanted = wanted.to(mass.device).masked_fill(mass == -torch.inf, -torch.inf)
        total = wanted.logsumexp(0)
        shift = wanted - total + mass.logsumexp(0) - mass
        return list(torch.where((mass == -torch.inf) | (total == -torch.inf), 0.0, shift))

    def what(self) -> str:
        return listed([repr(name) for name in self.segments])

    def sentence(self) -> str:
        shares = listed([f"{share / sum(self.shares):.3g}" for share in self.shares])
        return f"In {self.where()}{self.which_rows()}, what {self.what()} get together is divided as {shares}."


INTERVENTION = Redistribute
