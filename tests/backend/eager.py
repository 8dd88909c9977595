"""The model's own maps, from copies of it: what capture is compared with."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS


@torch.no_grad()
def eager_maps(model: nn.Module, inputs: dict, dtype: torch.dtype | None = None) -> list[Tensor]:
    """Maps [B, H, Nq, Nk] of a separate deep copy set to eager, one per softmax layer."""
    twin = copy.deepcopy(model)
    twin.set_attn_implementation("eager")
    if dtype is not None:
        twin = twin.to(dtype)
        if hasattr(twin.config, "_experts_implementation"):
            twin.set_experts_implementation("eager")  # the grouped product knows no float64
    output = twin(**inputs, output_attentions=True)
    return [layer for layer in output.attentions if layer is not None]


@torch.no_grad()
def sdpa_maps(model: nn.Module, inputs: dict, monkeypatch) -> list[Tensor]:
    """Maps of the model's own sdpa run: softmax in float32 of the queries, keys and mask that sdpa received."""
    twin = copy.deepcopy(model)
    twin.set_attn_implementation("sdpa")
    original = ALL_ATTENTION_FUNCTIONS["sdpa"]
    maps = []

    def spy(module, query, key, value, mask, scaling=None, **kwargs):
        scale = query.shape[-1] ** -0.5 if scaling is None else scaling
        repeated = key.repeat_interleave(query.shape[1] // key.shape[1], dim=1)
        scores = (query.float() @ repeated.float().mT) * scale
        if mask is None and getattr(module, "is_causal", True):
            mask = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
        maps.append((scores if mask is None else scores.masked_fill(~mask, float("-inf"))).softmax(-1))
        return original(module, query, key, value, mask, scaling=scaling, **kwargs)

    monkeypatch.setitem(ALL_ATTENTION_FUNCTIONS._global_mapping, "sdpa", spy)
    twin(**inputs)
    monkeypatch.undo()
    return maps


def valid_cells(mask: Tensor) -> Tensor:
    """Real rows and real keys: bool [B, 1, N, N] of an attention mask [B, N]."""
    real = mask.bool()
    return (real[:, None, :, None] & real[:, None, None, :]).clone()


def difference(ours: list[Tensor], theirs: list[Tensor], cells: Tensor) -> float:
    """Largest difference over all layers on the valid cells; infinity where the layers are not the same number."""
    if len(ours) != len(theirs):
        return float("inf")
    return max(
        (a.float() - b.float()).masked_fill(~cells, 0.0).abs().max().item() for a, b in zip(ours, theirs, strict=True)
    )
