"""The page's numbers on SmolLM2 are those of its own eager attention, within 1e-4."""

import numpy as np
import pytest
import torch

from backend.models import load
from backend.settings import bundled_folder
from backend.sinks.budget import PARTS, budget, parts_of_keys
from backend.sinks.detection import detected, sink_heads
from backend.sinks.importance import importance
from backend.sinks.mechanics import mechanics
from backend.sinks.token_types import token_types
from backend.sinks.value_weighted import shares
from backend.store import Library
from tests.backend.eager import eager_maps

TOLERANCE = 1e-4


@torch.no_grad()
def output_norms(model, tokens: torch.Tensor) -> torch.Tensor:
    """Norm of W_O^h v_j of every layer, head and key, multiplied out: [L, H, N]."""
    found: dict[int, torch.Tensor] = {}
    layers = model.model.layers
    hooks = [
        layer.self_attn.v_proj.register_forward_hook(lambda _, __, out, at=at: found.__setitem__(at, out[0]))
        for at, layer in enumerate(layers)
    ]
    model(tokens, use_cache=False)
    for hook in hooks:
        hook.remove()
    size, heads, key_heads = 64, model.config.num_attention_heads, model.config.num_key_value_heads
    norms = []
    for at, layer in enumerate(layers):
        values = found[at].double().reshape(-1, key_heads, size)
        weight = layer.self_attn.o_proj.weight.double().reshape(-1, heads, size)
        per_head = [values[:, head // (heads // key_heads)] @ weight[:, head].T for head in range(heads)]
        norms.append(torch.stack(per_head).norm(dim=-1))
    return torch.stack(norms)


@pytest.mark.weights
def test_the_numbers_of_the_page_are_those_of_a_dense_recomputation():
    analysis = Library(bundled_folder()).open("bundled-story")
    model = load("smollm2-135m-instruct").model
    tokens = torch.tensor([[token.token_id for token in analysis.tokens_list()]])
    n = tokens.shape[1]
    maps = torch.stack([layer[0] for layer in eager_maps(model, {"input_ids": tokens})]).double().numpy()
    found = importance(analysis)
    own = maps.sum(2) / np.arange(n, 0, -1)
    assert np.abs(found.values - own).max() < TOLERANCE
    sinks, types = detected(found), token_types(analysis.tokens_list())
    clear = np.abs(own - 0.1) > TOLERANCE
    assert (sinks == ((own > 0.1) & (np.arange(n, 0, -1) >= 16)))[clear].all()

    parts = parts_of_keys(types, sinks)[:, :, None]
    near = np.abs(np.subtract.outer(np.arange(n), np.arange(n))) < 16
    content = parts == PARTS.index("content")
    dense = [np.where(parts == at, maps, 0.0).sum(-1)[:, :, 1:].mean(-1) for at in range(len(PARTS))]
    dense[PARTS.index("near")] = np.where(content & near, maps, 0.0).sum(-1)[:, :, 1:].mean(-1)
    dense[PARTS.index("content")] -= dense[PARTS.index("near")]
    assert np.abs(budget(analysis, found, sinks, types).shares - np.stack(dense, -1)).max() < TOLERANCE

    lengths = maps[:, :, 1:] * output_norms(model, tokens).numpy()[:, :, None]
    weighted = np.where(sinks[:, :, None], lengths, 0.0).sum((2, 3)) / lengths.sum((2, 3))
    raw = np.where(sinks[:, :, None], maps[:, :, 1:], 0.0).sum(-1).mean(-1)
    both = shares(analysis, found, sinks)
    assert np.abs(both.weighted - weighted).max() < TOLERANCE and np.abs(both.raw - raw).max() < TOLERANCE
    strong = sink_heads(found)
    assert (int((raw > weighted)[strong].sum()), int(strong.sum())) == (144, 144)  # as docs/sinks.md states
    gap = np.log(maps[5, 2, 1:, 0] / maps[5, 2, 1:, 1:].sum(-1)).mean()
    # Queries and keys are kept in 16 bits: a score is off by some thousandths.
    assert mechanics(analysis, found, 0).gap[5, 2] == pytest.approx(gap, abs=5e-3)
