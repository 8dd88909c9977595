"""ExpectedAttention: the keys that a typical later query would look at, weighted by their values."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from backend.errors import Refused
from backend.policies.layer import Layer
from backend.policies.policy import FORCED, Policy

SINKS, AHEAD = 4, 512


class ExpectedAttention(Policy):
    title = "ExpectedAttention"
    caption = "Keeps the keys that queries like those so far would look at from the next 512 positions."
    formula = (
        "softmax over keys of mu.k s + k' Sigma k s^2 / 2, mean over the query heads of the key head, times ||v_j||; "
        "mu and Sigma of the queries before the rotary embedding, turned by the mean rotation of the next 512 "
        "positions, s the scale; inf for the first 4 keys"
    )
    source = "Expected Attention (Devoto et al.), kvpress"
    needs_rotary = True

    def scores(self, layer: Layer) -> Tensor:
        if layer.rotary is None or layer.value_norm is None:
            raise Refused(
                f"{self.title} needs the model's rotary embedding, which is not in the stored analysis. "
                "Run the policies with the model to have it."
            )
        sinks = min(SINKS, layer.n - 1)
        mean, covariance = moments(layer.rotary.unrotate(layer.query[:, sinks : layer.n].float(), sinks))
        turn = layer.rotary.mean_rotation(layer.n, AHEAD, layer.query.shape[-1]).to(mean)
        mean, covariance = mean @ turn.T, turn @ covariance @ turn.T
        key = layer.key[:, sinks : layer.n].float().repeat_interleave(layer.group, 0)  # [H, n - sinks, D]
        chance = functional.softmax(expected_score(key, mean, covariance, layer.score.scale), -1)
        worth = layer.per_key_head(chance) * layer.value_norm[:, sinks : layer.n]
        return torch.cat([worth.new_full((layer.key_heads, sinks), FORCED), worth], -1)

    def forced(self, layer: Layer) -> int:
        return min(SINKS, layer.n - 1)


def moments(query: Tensor) -> tuple[Tensor, Tensor]:
    """Mean [H, D] and covariance [H, D, D] of queries [H, n, D]."""
    mean = query.mean(1)
    apart = query - mean[:, None]
    return mean, apart.mT @ apart / query.shape[1]


def expected_score(key: Tensor, mean: Tensor, covariance: Tensor, scale: float) -> Tensor:
    """ln E exp(scale q.k) for Gaussian q: scale mu.k + scale^2 k' Sigma k / 2. key [H, n, D] -> [H, n]."""
    spread = ((key @ covariance) * key).sum(-1)
    return scale * (key @ mean[..., None])[..., 0] + scale**2 * spread / 2


POLICY = ExpectedAttention()
