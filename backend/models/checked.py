"""What the self-check compares, whichever way a model's maps are read."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


def result(error: float, tolerance: float) -> dict:
    return {"error": error, "tolerance": tolerance, "passed": bool(error <= tolerance)}


def final(output) -> Tensor:
    """The logits, or the last hidden states of a model without a head."""
    logits = getattr(output, "logits", None)
    return (output.last_hidden_state if logits is None else logits).float()


@dataclass(frozen=True, eq=False)
class Eager:
    """An eager run of the model's own code."""

    maps: list[Tensor | None]  # [B, H, Nq, Nk] per call; None where a module keeps its map to itself
    streams: list[Tensor]  # what entered the blocks, in the order they ran
    logits: Tensor


@dataclass(frozen=True, eq=False)
class Found:
    """What one pass through Headwater's attention gave."""

    equal: dict  # the map that lies furthest from its eager one
    row_error: float
    captured: Tensor  # the logits of an ordinary capture
    changed: Tensor  # those of a run in which every token sees one token only


def narrow(n_query: int, n_key: int, only: str, device: torch.device) -> Tensor:
    """Every row sees one key, "itself" or the "first": bool [Nq, Nk]."""
    key, row = torch.arange(n_key, device=device), torch.arange(n_query, device=device)
    target = row.clamp(max=n_key - 1) if only == "itself" else torch.zeros_like(row)
    return key == target[:, None]
