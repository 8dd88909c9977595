"""Layers with random queries and keys, for tests of policies."""

import torch

from backend.policies import Layer
from kernels.api import attend
from kernels.measures import NOTHING
from kernels.score import ScoreSpec


def layer(n=60, length=80, heads=4, key_heads=2, features=8, seed=0, number=0, strength=2.0, **rule):
    """One layer; `rule` are fields of its ScoreSpec."""
    draw = torch.Generator().manual_seed(seed)
    query = torch.randn(1, heads, length, features, generator=draw) * strength
    key = torch.randn(1, key_heads, length, features, generator=draw) * strength
    score = ScoreSpec(scale=features**-0.5, **rule)
    lse = attend(query, key, key, score, NOTHING, impl="reference").lse[0].float()
    norm = torch.randn(key_heads, length, generator=draw).abs() + 0.5
    return Layer(number, 0, 1, n, query[0], key[0], lse, score, norm)


def dense(one):
    """Its whole map in float64: [H, N, N]."""
    key = one.key.double().repeat_interleave(one.group, 0)
    scores = one.query.double() @ key.mT * one.score.scale
    place = torch.arange(one.length)
    seen = place[None] <= place[:, None]
    if one.score.window is not None:
        seen &= place[None] > place[:, None] - one.score.window
    if one.score.chunk is not None:
        seen &= place[None] // one.score.chunk == place[:, None] // one.score.chunk
    seen |= (place < one.score.keep_first)[None] & (place[None] <= place[:, None])
    return scores.masked_fill(~seen, -torch.inf).softmax(-1)
