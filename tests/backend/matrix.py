"""Every text architecture of the installed transformers, shrunk from its own configuration and tried.

`shrunk(model_type)` makes the configuration small by the names of its settings; `try_one` builds the model with sharp
random weights (initializer_range 0.5), runs the self-check and one capture, and says how it went.
"""

from __future__ import annotations

import inspect
import warnings
from dataclasses import dataclass

import torch
from torch import nn
from transformers import (
    CONFIG_MAPPING,
    MODEL_FOR_CAUSAL_LM_MAPPING,
    MODEL_FOR_MASKED_LM_MAPPING,
    MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING,
    MODEL_MAPPING,
    PreTrainedConfig,
)
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_MASKED_LM_MAPPING_NAMES,
    MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
)

from backend.errors import Refused
from backend.models import LoadedModel
from backend.sites import survey

VOCABULARY, HIDDEN, HEADS, LAYERS, INNER, LONGEST = 100, 32, 4, 2, 48, 128
LARGEST = 5e7  # parameters; what is still larger after shrinking is not built

# settings by name -> the small value, where the configuration has one of that name that is a number
SMALL: dict[str, float] = {
    **dict.fromkeys(("vocab_size", "decoder_vocab_size", "src_vocab_size", "tgt_vocab_size"), VOCABULARY),
    **dict.fromkeys(("hidden_size", "d_model", "n_embd", "dim", "emb_dim", "word_embed_proj_dim", "embed_dim"), HIDDEN),
    **dict.fromkeys(("embedding_size", "input_embedding_size", "output_embedding_size", "model_dim"), HIDDEN),
    **dict.fromkeys(("num_attention_heads", "n_heads", "n_head", "num_heads", "attention_heads"), HEADS),
    **dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), HEADS),
    **dict.fromkeys(("num_encoder_attention_heads", "num_decoder_attention_heads"), HEADS),
    **dict.fromkeys(("num_key_value_heads", "num_kv_heads", "multi_query_group_num"), 2),
    **dict.fromkeys(("num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers"), LAYERS),
    **dict.fromkeys(("decoder_layers", "num_encoder_layers", "num_decoder_layers", "num_decoder_layers"), LAYERS),
    **dict.fromkeys(("intermediate_size", "ffn_dim", "d_ff", "d_inner", "n_inner", "hidden_dim", "dff"), INNER),
    **dict.fromkeys(("encoder_ffn_dim", "decoder_ffn_dim", "ffn_hidden_size", "intermediate_size_mlp"), INNER),
    **dict.fromkeys(("moe_intermediate_size", "shared_expert_intermediate_size", "expert_ffn_hidden_size"), 16),
    **dict.fromkeys(("max_position_embeddings", "n_positions", "max_seq_len", "n_ctx"), LONGEST),
    **dict.fromkeys(("max_encoder_position_embeddings", "max_decoder_position_embeddings"), LONGEST),
    **dict.fromkeys(("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"), 4),
    **dict.fromkeys(("num_experts_per_tok", "moe_topk", "moe_top_k", "top_k_experts"), 1),
    **dict.fromkeys(("initializer_range", "init_std"), 0.5),
    **dict.fromkeys(("head_dim", "d_head", "d_kv", "attention_head_size", "v_head_dim", "qk_nope_head_dim"), 8),
    **dict.fromkeys(("qk_rope_head_dim", "rotary_dim"), 8),
    **dict.fromkeys(("q_lora_rank", "kv_lora_rank"), 16),
    **dict.fromkeys(("n_group", "topk_group", "n_shared_experts", "first_k_dense_replace"), 1),
    **dict.fromkeys(("sliding_window", "attention_window", "window_size", "local_attention"), 4),
    **dict.fromkeys(("state_size", "mamba_d_state", "conv_kernel", "mamba_d_conv"), 4),
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 0,
    "type_vocab_size": 2,
}
# what the names do not tell: where a family wants settings that fit each other
OWN: dict[str, dict] = {
    "gpt_neo": {"attention_types": [[["global", "local"], 1]], "num_layers": 2},
    "funnel": {"block_sizes": [1, 1, 1], "num_decoder_layers": 1, "d_head": 8},
    "deberta-v2": {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "position_buckets": 8},
    "deberta": {"relative_attention": True, "pos_att_type": ["p2c", "c2p"]},
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1, "use_mamba_kernels": False, "mamba_dt_rank": 4},
    "luke": {"entity_vocab_size": 10, "entity_emb_size": 16},
    "reformer": {
        "attn_layers": ["local", "lsh"],
        "axial_pos_shape": [8, 16],
        "axial_pos_embds_dim": [8, 24],
        "feed_forward_size": INNER,
        "num_buckets": 2,
        "is_decoder": True,
    },
    "longformer": {"attention_window": 4},
    "led": {"attention_window": 4},
    "phi": {"partial_rotary_factor": 0.5},
    "gpt_neox": {"rotary_pct": 0.5},
    "gptj": {"rotary_dim": 4},
    "codegen": {"rotary_dim": 4},
}


@dataclass(frozen=True)
class Outcome:
    """How one architecture fared."""

    model_type: str
    result: str  # "proved", "dense", "refused", "not built"
    maps: int = 0
    error: float | None = None
    reason: str = ""


def text_types() -> list[str]:
    """The model types with a text decoder, encoder or both, in alphabetical order."""
    names = {
        *MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
        *MODEL_FOR_MASKED_LM_MAPPING_NAMES,
        *MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
    }
    return sorted(name for name in names if name in CONFIG_MAPPING)


def shrunk(model_type: str) -> PreTrainedConfig:
    """The family's own configuration with small numbers."""
    kind = CONFIG_MAPPING[model_type]
    default = kind()
    numbers = (int, float, type(None))
    values = {
        name: small
        for name, small in SMALL.items()
        if name in known(kind, default) and settable(kind, name) and isinstance(getattr(default, name, None), numbers)
    }
    if "kv_lora_rank" in values:  # latent attention expands its keys for every head
        values["num_key_value_heads"] = HEADS
    layer_types = getattr(default, "layer_types", None)
    if isinstance(layer_types, list) and settable(kind, "layer_types"):
        distinct = list(dict.fromkeys(layer_types))
        values["layer_types"] = (distinct * LAYERS)[: max(LAYERS, len(distinct))]
        values["num_hidden_layers"] = len(values["layer_types"])
    return kind(**{**values, **OWN.get(model_type, {})})


def settable(kind: type, name: str) -> bool:
    """Whether a setting is one, and not computed from others."""
    own = getattr(kind, name, None)
    return not isinstance(own, property) or own.fset is not None


def known(kind: type, default: PreTrainedConfig) -> set[str]:
    """Names of the settings of a configuration."""
    return set(inspect.signature(kind.__init__).parameters) | set(default.to_dict()) | set(kind.attribute_map)


def build(model_type: str, seed: int = 0) -> nn.Module:
    """The small model, evaluating; Refused-like errors of transformers are left to the caller."""
    config = shrunk(model_type)
    torch.manual_seed(seed)
    mappings = (MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING, MODEL_FOR_CAUSAL_LM_MAPPING, MODEL_FOR_MASKED_LM_MAPPING)
    kind = next((m[type(config)] for m in (*mappings, MODEL_MAPPING) if type(config) in m), None)
    kind = kind[0] if isinstance(kind, list | tuple) else kind
    with torch.device("meta"):
        size = sum(p.numel() for p in kind(config).parameters())
    if size > LARGEST:
        raise ValueError(f"{size:,} parameters are left after shrinking")
    return kind._from_config(config, dtype=torch.float32).eval()


def try_one(model_type: str) -> Outcome:
    """Build, check and capture one architecture."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model = build(model_type)
        except Exception as error:  # noqa: BLE001  whatever a configuration of small numbers meets in the library
            return Outcome(model_type, "not built", reason=one_line(error))
        try:
            loaded = LoadedModel.wrap(model)
        except Refused as error:
            return Outcome(model_type, "refused", reason=one_line(error))
    found = survey(model)
    result = "dense" if found.dense else "proved"
    return Outcome(model_type, result, len(found.sites), loaded.checks["maps_equal_eager"]["error"])


def one_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:300]
