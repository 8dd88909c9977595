"""Tiny models of families past transformers' attention interface, and of encoder-decoders."""

from __future__ import annotations

import torch
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForSeq2SeqLM,
    PreTrainedModel,
)

from tests.backend.tiny import widen

BASE = {"vocab_size": 100, "initializer_range": 0.5, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
BERT = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
GPT = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}
BART = {
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "init_std": 0.5,
    "max_position_embeddings": 64,
    "decoder_start_token_id": 2,
}
T5 = {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4, "decoder_start_token_id": 0}
DISENTANGLED = {"relative_attention": True, "pos_att_type": ["p2c", "c2p"]}

DENSE: dict[str, dict] = {
    "bloom": {"n_layer": 2, "n_head": 4, "hidden_size": 32},
    "falcon": {"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 32},
    "mpt": {"d_model": 32, "n_heads": 4, "n_layers": 2, "expansion_ratio": 2, "max_seq_len": 64},
    "gpt_neo": {
        "hidden_size": 32,
        "num_layers": 2,
        "num_heads": 4,
        "attention_types": [[["global", "local"], 1]],
        "window_size": 4,
        "max_position_embeddings": 64,
    },
    "openai-gpt": GPT,
    "gpt_neox_japanese": {
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_multiple_size": 2,
    },
    "xglm": {"d_model": 32, "num_layers": 2, "attention_heads": 4, "ffn_dim": 48, "init_std": 0.5},
    "deberta": {**BERT, **DISENTANGLED},
    "deberta-v2": {**BERT, **DISENTANGLED, "position_buckets": 8},
    "xlnet": {"d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 48},
    "xlm": {"emb_dim": 32, "n_layers": 2, "n_heads": 4},
    "flaubert": {"emb_dim": 32, "n_layers": 2, "n_heads": 4},
    "mpnet": BERT,
    "rembert": {**BERT, "input_embedding_size": 16, "output_embedding_size": 16},
    "roformer": {**BERT, "embedding_size": 32},
    "megatron-bert": BERT,
    "convbert": {**BERT, "embedding_size": 16, "head_ratio": 2, "conv_kernel_size": 3},
    "funnel": {
        "d_model": 32,
        "n_head": 4,
        "d_head": 8,
        "d_inner": 48,
        "block_sizes": [1, 1, 1],
        "num_decoder_layers": 1,
    },
    "luke": {**BERT, "entity_vocab_size": 10, "entity_emb_size": 16},
    "big_bird": {**BERT, "block_size": 4, "num_random_blocks": 1, "max_position_embeddings": 128},
    "mvp": BART,
    "longformer": {**BERT, "attention_window": 4, "max_position_embeddings": 64},
    "reformer": {
        "hidden_size": 32,
        "num_attention_heads": 4,
        "attention_head_size": 8,
        "feed_forward_size": 48,
        "attn_layers": ["local", "lsh"],
        "axial_pos_shape": [8, 8],
        "axial_pos_embds_dim": [8, 24],
        "max_position_embeddings": 64,
        "local_attn_chunk_length": 32,
        "lsh_attn_chunk_length": 32,
        "num_buckets": 2,
        "num_hashes": 1,
        "is_decoder": True,
    },
    "led": {
        **BART,
        "attention_window": 4,
        "max_encoder_position_embeddings": 64,
        "max_decoder_position_embeddings": 64,
    },
    "bigbird_pegasus": {**BART, "block_size": 4, "num_random_blocks": 1},
}
TWO_SIDED: dict[str, dict] = {
    "t5": T5,
    "mt5": T5,
    "bart": {**BART, "decoder_layers": 3, "decoder_attention_heads": 8},
    "mbart": BART,
    "marian": {**BART, "decoder_start_token_id": 0, "decoder_vocab_size": 100, "forced_eos_token_id": None},
    "pegasus": {**BART, "decoder_start_token_id": 0},
}


def build(model_type: str, seed: int = 0, **overrides) -> PreTrainedModel:
    """A tiny model of that type with its language head, evaluating, in float32."""
    settings = {**BASE, **(DENSE | TWO_SIDED)[model_type], **overrides}
    config = AutoConfig.for_model(model_type, **settings)
    torch.manual_seed(seed)
    makers = (AutoModelForSeq2SeqLM,) if config.is_encoder_decoder else (AutoModelForCausalLM, AutoModelForMaskedLM)
    for maker in makers:
        if type(config) in maker._model_mapping:
            return widen(maker.from_config(config, dtype=torch.float32).eval(), seed)
    return widen(AutoModel.from_config(config, dtype=torch.float32).eval(), seed)
