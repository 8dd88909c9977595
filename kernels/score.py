"""ScoreSpec: how a query-key product becomes a weight.

Every implementation (reference, tiled, Triton, window) reads this one description, so that a new attention variant
is described once. Positions: a query row i of Nq stands at position p_i = i + (Nk - Nq) where attention is causal
(the rows are the last ones of the keys) and at p_i = i otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class ScoreSpec:
    """How a query-key product becomes a weight, in the order applied.

    s = q.k * scale; softcap: s = c * tanh(s / c); s += biases; s /= temperature; hidden cells -> -inf; softmax over
    keys, with exp(sink) added to the denominator of heads that have a learned sink.

    A bias of -inf hides its cell: it is invisible, not a weight of zero. `window`, `around` and `chunk` narrow what a
    row sees (all that are given hold at once); `keep_first` opens the first keys again, within causality. With left
    padding the first real key of a sample plays the part of key 0: `keep_first` and `chunk` count from it. The learned
    sink is a logit of its own: neither scale, softcap, biases nor temperature touch it.

    A padded row (see `real_rows`) still gets the output and the lse that the rule gives it, so that a model computes
    what it computes without us, but it is in no measure and no window of a map.
    """

    scale: float
    causal: bool = True  # query i of Nq sees keys <= i + (Nk - Nq)
    window: int | None = None  # causal: number of keys seen, itself included
    around: tuple[int, int] | None = None  # two-sided: keys seen to the left and right of itself, itself not counted
    chunk: int | None = None  # causal inside blocks of this many positions (Llama-4)
    keep_first: int = 0  # first keys that stay visible outside the window (sink + window patterns)
    softcap: float | None = None
    bias_by_distance: Tensor | None = None  # [H, Nq + Nk - 1], index (row - key) + Nk - 1 with row = 0 .. Nq-1
    temperature: Tensor | None = None  # [H], inf = uniform over the visible keys
    key_bias: Tensor | None = None  # [B or 1, H or 1, Nk]
    row_bias: Tensor | None = None  # [B or 1, H or 1, Nq], added on the keys marked in row_bias_keys
    row_bias_keys: Tensor | None = None  # bool [Nk]; or, with row_bias [B or 1, H or 1, Nq, G], int64 [Nk]: the
    # group of each key, -1 = none
    bias: Tensor | None = None  # [B or 1, H or 1, Nq, Nk], last resort: it is N x N
    key_padding: Tensor | None = None  # bool [B, Nk], True = real token
    mask: Tensor | None = None  # bool [B or 1, H or 1, Nq, Nk], True = visible, last resort: it is N x N
    sink: Tensor | None = None  # [H] learned sink logits (GPT-OSS)
    row_padding: Tensor | None = None  # bool [B, Nq], True = real row; None = read from key_padding, see real_rows

    def __post_init__(self) -> None:
        if not (self.scale == self.scale and abs(self.scale) != float("inf")):
            raise ValueError(f"ScoreSpec.scale: expected a finite number, got {self.scale}.")
        if self.window is not None and (not self.causal or self.window < 1):
            raise ValueError(
                f"ScoreSpec.window: expected at least 1 key with causal=True, got window={self.window}, "
                f"causal={self.causal}. For bidirectional attention give around=(left, right)."
            )
        if self.around is not None and min(self.around) < 0:
            raise ValueError(f"ScoreSpec.around: expected two counts of 0 or more, got {self.around}.")
        if self.chunk is not None and (not self.causal or self.chunk < 1):
            raise ValueError(f"ScoreSpec.chunk: expected at least 1 position with causal=True, got {self.chunk}.")
        if self.keep_first < 0:
            raise ValueError(f"ScoreSpec.keep_first: expected 0 or more, got {self.keep_first}.")
        if self.softcap is not None and not self.softcap > 0:
            raise ValueError(f"ScoreSpec.softcap: expected a positive number or None, got {self.softcap}.")
        if (self.row_bias is None) != (self.row_bias_keys is None):
            raise ValueError("ScoreSpec.row_bias and row_bias_keys go together: got one without the other.")

    def to(self, device: torch.device | str) -> ScoreSpec:
        """The same rule with its tensors on another device."""
        moved = {f.name: v.to(device) for f in fields(self) if isinstance(v := getattr(self, f.name), Tensor)}
        return replace(self, **moved)


def row_bias_groups(score: ScoreSpec) -> tuple[Tensor, Tensor]:
    """The bias per row and group of keys, [B or 1, H or 1, Nq, G], and the group of each key, int64 [Nk], -1 = none."""
    if score.row_bias.ndim == 4:
        return score.row_bias, score.row_bias_keys
    return score.row_bias[..., None], score.row_bias_keys.long() - 1


def query_positions(score: ScoreSpec, n_query: int, n_key: int, device: torch.device | str = "cpu") -> Tensor:
    """Position p_i of every query row among the keys: int64 [Nq]."""
    offset = n_key - n_query if score.causal else 0
    return torch.arange(n_query, device=device) + offset


def first_real_key(score: ScoreSpec, batch: int, device: torch.device | str = "cpu") -> Tensor:
    """Index of the first key that is not padding: int64 [B]; 0 without padding or where everything is padding."""
    if score.key_padding is None:
        return torch.zeros(batch, dtype=torch.int64, device=device)
    return score.key_padding.to(device=device, dtype=torch.uint8).argmax(-1)


def real_rows(score: ScoreSpec, batch: int, n_query: int, n_key: int, device: torch.device | str = "cpu") -> Tensor:
    """Which query rows are tokens and not padding: bool [B, Nq].

    Padding is known per key. It says something of the rows where rows are keys too: causal attention, or as many rows
    as keys. Elsewhere (cross-attention) every row is real. Where that guess is wrong, say it with `row_padding`:
    cross-attention that happens to have as many rows as keys.
    """
    if score.row_padding is not None:
        return score.row_padding.to(device).expand(batch, n_query)
    if score.key_padding is None or (not score.causal and n_query != n_key):
        return torch.ones(batch, n_query, dtype=torch.bool, device=device)
    position = query_positions(score, n_query, n_key, device)
    real = score.key_padding.to(device)[:, position.clamp(min=0)] & (position >= 0)
    return real.expand(batch, n_query)
