"""A model with weights set by hand whose heads are known: layer 0 looks one token back, layer 1 is an induction head.

The residual stream has three parts: the token as a one-hot vector, the position as one, and the token before, which
layer 0 writes and layer 1 reads. Norms are taken out, feed-forward layers write nothing. The logits are what is in the
third part, to which layer 1 adds what it copies.
"""

from __future__ import annotations

import torch
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel

VOCABULARY, POSITIONS = 60, 101
WIDTH = 2 * VOCABULARY + POSITIONS
BOS = 1


def hand_set_model(previous: float = 8.0, induction: float = 8.0) -> GPT2LMHeadModel:
    """previous, induction: the logit that the head of layer 0 and of layer 1 gives to its target."""
    config = GPT2Config(
        vocab_size=VOCABULARY,
        n_positions=POSITIONS,
        n_embd=WIDTH,
        n_layer=2,
        n_head=1,
        n_inner=8,
        bos_token_id=BOS,
        eos_token_id=2,
        pad_token_id=0,
        tie_word_embeddings=False,
    )
    model = GPT2LMHeadModel(config).eval()
    token, position, before = (
        torch.arange(start, start + size)
        for start, size in ((0, VOCABULARY), (VOCABULARY, POSITIONS), (VOCABULARY + POSITIONS, VOCABULARY))
    )
    scale = WIDTH**0.5  # the model divides the logits by it
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        model.transformer.wte.weight[torch.arange(VOCABULARY), token] = 1.0
        model.transformer.wpe.weight[torch.arange(POSITIONS), position] = 1.0
        first, second = (block.attn for block in model.transformer.h)
        first.c_attn.weight[position[1:], position[:-1]] = previous * scale  # query: the position before mine
        first.c_attn.weight[position, WIDTH + position] = 1.0  # key: my position
        first.c_attn.weight[token, 2 * WIDTH + token] = 1.0  # value: my token
        first.c_proj.weight[token, before] = 1.0
        second.c_attn.weight[token, token] = induction * scale  # query: my token
        second.c_attn.weight[before, WIDTH + token] = 1.0  # key: the token before me
        second.c_attn.weight[token, 2 * WIDTH + token] = 1.0  # value: my token
        second.c_proj.weight[token, before] = 1.0
        model.lm_head.weight[torch.arange(VOCABULARY), before] = 1.0
        model.transformer.ln_f = nn.Identity()
        for block in model.transformer.h:
            block.ln_1 = block.ln_2 = nn.Identity()
    return model
