"""Run by benchmarks/kvpress_agreement.py in kvpress' own environment: scores of its presses on one text.

    python _kvpress_scores.py <model folder> <token ids, JSON> <results, .npz> <kept share>

Nothing of Headwater is imported here. Every press sees the same queries, keys and values: those of one dense pass.
"""

import json
import sys

import numpy as np
import torch
from kvpress import (
    AdaKVPress,
    ExpectedAttentionPress,
    KeyDiffPress,
    KnormPress,
    ObservedAttentionPress,
    PyramidKVPress,
    SnapKVPress,
    StreamingLLMPress,
    TOVAPress,
)
from transformers import AutoModelForCausalLM, DynamicCache


def presses(ratio: float) -> dict:
    """Headwater's name -> press."""
    return {
        "streaming_llm": StreamingLLMPress(ratio),
        "h2o": ObservedAttentionPress(ratio),
        "snapkv": SnapKVPress(ratio),
        "tova": TOVAPress(ratio),
        "knorm": KnormPress(ratio),
        "keydiff": KeyDiffPress(ratio),
        "expected_attention": ExpectedAttentionPress(ratio),
    }


def kept_of(scores: torch.Tensor, count: int) -> np.ndarray:
    """The `count` best of every key head: bool [Hk, n]."""
    kept = torch.zeros(scores.shape, dtype=torch.bool)
    return kept.scatter_(-1, scores.topk(count, -1).indices, True).numpy()


def main(folder: str, tokens: str, results: str, share: float) -> None:
    ratio = 1 - share
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    found: dict[str, list[np.ndarray]] = {}

    def hook(module, args, kwargs, output):
        layer = kwargs["past_key_values"].layers[module.layer_idx]
        keys, values, states = layer.keys, layer.values, kwargs["hidden_states"]
        found.setdefault("keys", []).append(keys[0].numpy())
        for name, press in presses(ratio).items():
            scores = press.score(module, states, keys, values, output[1], kwargs)[0]
            found.setdefault(f"scores_{name}", []).append(scores.numpy())
            found.setdefault(f"kept_{name}", []).append(kept_of(scores, int(keys.shape[2] * share)))
        pyramid = PyramidKVPress(ratio)
        count = pyramid.get_layer_budget(module, keys.shape[2])
        scores = SnapKVPress(ratio).score(module, states, keys, values, output[1], kwargs)[0]
        found.setdefault("kept_pyramidkv", []).append(kept_of(scores, count))
        own, module.config._attn_implementation = module.config._attn_implementation, "sdpa"  # it refuses eager
        AdaKVPress(SnapKVPress(ratio)).compress(module, states, keys, values, output[1], kwargs)
        module.config._attn_implementation = own
        _, heads, places = module.masked_key_indices
        module.masked_key_indices = None
        ada = np.ones(keys.shape[1:3], bool)
        ada[heads.numpy(), places.numpy()] = False
        found.setdefault("kept_adakv", []).append(ada)

    for layer in model.model.layers:
        layer.self_attn.rotary_emb = model.model.rotary_emb  # as kvpress itself does when a press is applied
        layer.self_attn.register_forward_hook(hook, with_kwargs=True)
    with torch.no_grad():
        model(torch.tensor([json.loads(tokens)]), past_key_values=DynamicCache())
    np.savez(results, **{name: np.stack(parts) for name, parts in found.items()})


main(sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4]))
