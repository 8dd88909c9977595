"""Tiny models of every family, built from configs with a seed; no download.

initializer_range is 0.5: with the default, attention is nearly uniform and every comparison passes.
"""

from __future__ import annotations

import torch
from torch import nn
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, AutoModelForMaskedLM, PreTrainedModel

VOCABULARY = 100
WINDOW = 4
DECODER = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 128,
    "initializer_range": 0.5,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "tie_word_embeddings": False,
}
ENCODER = {**DECODER, "hidden_size": 32, "num_attention_heads": 4, "type_vocab_size": 2}
EXPERTS = {"num_local_experts": 2, "num_experts": 2, "num_experts_per_tok": 1, "moe_intermediate_size": 16}
SLIDING, FULL, LINEAR = "sliding_attention", "full_attention", "linear_attention"

# model_type -> what differs from DECODER (or ENCODER)
DECODERS: dict[str, dict] = {
    "llama": {},
    "mistral": {"sliding_window": WINDOW},
    "mixtral": {"sliding_window": WINDOW, **EXPERTS},
    "qwen2": {"use_sliding_window": True, "sliding_window": WINDOW, "max_window_layers": 2, "num_hidden_layers": 4},
    "qwen3": {},
    "qwen3_moe": EXPERTS,
    "qwen3_next": {
        **EXPERTS,
        "num_hidden_layers": 4,
        "shared_expert_intermediate_size": 16,
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 4,
        "linear_key_head_dim": 8,
        "linear_value_head_dim": 8,
        "layer_types": [LINEAR, LINEAR, LINEAR, FULL],
    },
    "jamba": {
        **EXPERTS,
        "num_hidden_layers": 4,
        "attn_layer_period": 4,
        "attn_layer_offset": 1,
        "expert_layer_period": 2,
        "expert_layer_offset": 1,
        "mamba_d_state": 4,
        "mamba_d_conv": 2,
        "mamba_dt_rank": 4,
        "use_mamba_kernels": False,
    },
    "gemma": {},
    "gemma2": {
        "sliding_window": WINDOW,
        "num_hidden_layers": 4,
        "attn_logit_softcapping": 1.0,
        "query_pre_attn_scalar": 8,
    },
    "gemma3_text": {"sliding_window": WINDOW, "num_hidden_layers": 7, "query_pre_attn_scalar": 8},
    "phi": {"partial_rotary_factor": 0.5},
    "phi3": {"sliding_window": WINDOW},
    "gpt2": {"hidden_size": 32, "num_attention_heads": 4, "max_position_embeddings": 64},
    "gpt_neox": {"rotary_pct": 0.5},
    "gptj": {"hidden_size": 32, "num_attention_heads": 4, "max_position_embeddings": 64, "rotary_dim": 4},
    "opt": {"ffn_dim": 48, "word_embed_proj_dim": 64, "init_std": 0.5},
    "smollm3": {"num_hidden_layers": 4},
    "olmo2": {},
    "granite": {"attention_multiplier": 0.2},
    "cohere": {},
    "gpt_oss": {"sliding_window": WINDOW, **EXPERTS},
    "deepseek_v3": {
        "num_key_value_heads": 8,
        "head_dim": 4,
        "q_lora_rank": 16,
        "kv_lora_rank": 16,
        "qk_nope_head_dim": 8,
        "qk_rope_head_dim": 4,
        "v_head_dim": 6,
        "first_k_dense_replace": 1,
        "n_routed_experts": 4,
        "n_shared_experts": 1,
        "n_group": 1,
        "topk_group": 1,
        "moe_intermediate_size": 16,
        "num_experts_per_tok": 2,
    },
    "llama4_text": {**EXPERTS, "num_hidden_layers": 4, "attention_chunk_size": 5, "intermediate_size_mlp": 48},
}
ENCODERS: dict[str, dict] = {
    "bert": {},
    "roberta": {},
    "distilbert": {"dim": 32, "n_heads": 4, "n_layers": 2, "hidden_dim": 48},
    "electra": {"embedding_size": 32},
    "modernbert": {"num_hidden_layers": 4, "local_attention": 4, "global_attn_every_n_layers": 3},
    "xlm-roberta": {},
}


def build(model_type: str, *, base: bool = False, seed: int = 0, **overrides) -> PreTrainedModel:
    """A tiny model of that type, evaluating, in float32. `base`: without a head, so that it gives hidden states."""
    encoder = model_type in ENCODERS
    settings = {
        **(ENCODER if encoder else DECODER),
        **(ENCODERS if encoder else DECODERS).get(model_type, {}),
        **overrides,
    }
    config = AutoConfig.for_model(model_type, **settings)
    torch.manual_seed(seed)
    maker = AutoModel if base else AutoModelForMaskedLM if encoder else AutoModelForCausalLM
    model = maker.from_config(config, dtype=torch.float32).eval()
    return widen(model, seed)


def widen(model: PreTrainedModel, seed: int) -> PreTrainedModel:
    """Draw what a family sets to constants (biases, learned sinks), so that leaving it out would show."""
    generator = torch.Generator().manual_seed(seed + 1)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith(("bias", "sinks")):
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.3)
    return model


def ids(length: int = 12, batch: int = 1, seed: int = 3) -> torch.Tensor:
    """Token ids 3, 4, ... 14 as in the case book for the first row; other rows are drawn. int64 [batch, length]."""
    first = torch.arange(length) % (VOCABULARY - 6) + 3
    drawn = torch.randint(3, VOCABULARY - 3, (batch - 1, length), generator=torch.Generator().manual_seed(seed))
    return torch.cat([first[None], drawn])


def padded(rows: list[list[int]], side: str, pad: int = 0) -> dict[str, torch.Tensor]:
    """input_ids, attention_mask and position_ids of a batch of unlike rows, padded on one side."""
    width = max(map(len, rows))
    blank = [[pad] * (width - len(row)) for row in rows]
    tokens = [b + r if side == "left" else r + b for r, b in zip(rows, blank, strict=True)]
    zeros = [[0] * (width - len(row)) for row in rows]
    ones = [[1] * len(row) for row in rows]
    mask = torch.tensor([z + o if side == "left" else o + z for o, z in zip(ones, zeros, strict=True)])
    positions = (mask.cumsum(-1) - 1).clamp(min=0)
    return {"input_ids": torch.tensor(tokens), "attention_mask": mask, "position_ids": positions}


def parameters(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())
