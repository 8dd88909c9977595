"""Models of one layer and one head whose weights are set by hand, so that what the head looks at is known.

The residual stream is the token as a one-hot vector beside the position as one. Norms are taken out, feed-forward
layers write nothing. Logits say which tokens were looked at. A head gives the logit BETA to its
targets and 0 to every other key.
"""

from __future__ import annotations

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

from backend.models import LoadedModel

BETA = 8.0
POSITIONS = 64
WORDS = ["<pad>", "<s>", "</s>", *"abcdefghijklmnopqrstuvwxyz", ".", ","]
VOCABULARY = len(WORDS)
WIDTH = VOCABULARY + POSITIONS
TOKEN, PLACE = torch.arange(VOCABULARY), VOCABULARY + torch.arange(POSITIONS)
NEAR = 3  # keys that the local head looks at, itself included


def tokenizer() -> PreTrainedTokenizerFast:
    """One token per letter or mark, white space between them."""
    built = Tokenizer(models.WordLevel({word: at for at, word in enumerate(WORDS)}, unk_token="<pad>"))
    built.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=built, pad_token="<pad>", bos_token="<s>", eos_token="</s>")


def scores(kind: str) -> torch.Tensor:
    """[WIDTH, WIDTH]: the logit that a query with one feature gives to a key with another."""
    table = torch.zeros(WIDTH, WIDTH)
    if kind == "sink":
        table[PLACE, PLACE[0]] = BETA
    elif kind == "previous_token":
        table[PLACE[1:], PLACE[:-1]] = BETA
    elif kind == "duplicate":
        table[TOKEN, TOKEN] = BETA
        table[PLACE, PLACE] = -BETA  # not the token itself
    elif kind == "delimiter":
        table[PLACE[:, None], torch.tensor([WORDS.index("."), WORDS.index(",")])] = BETA
    elif kind == "local":
        for back in range(NEAR):
            table[PLACE[back:], PLACE[: POSITIONS - back]] = BETA
    elif kind != "broad":
        raise ValueError(kind)
    return table


def one_head_model(kind: str) -> LoadedModel:
    """A model whose only head is of that kind; "broad" is uniform attention."""
    config = GPT2Config(
        vocab_size=VOCABULARY,
        n_positions=POSITIONS,
        n_embd=WIDTH,
        n_layer=1,
        n_head=1,
        n_inner=8,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=0,
        tie_word_embeddings=False,
    )
    model = GPT2LMHeadModel(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        model.transformer.wte.weight[TOKEN, TOKEN] = 1.0
        model.transformer.wpe.weight[torch.arange(POSITIONS), PLACE] = 1.0
        attention = model.transformer.h[0].attn
        attention.c_attn.weight[:, :WIDTH] = scores(kind) * WIDTH**0.5  # query; the model divides by the root
        attention.c_attn.weight[:, WIDTH : 2 * WIDTH] = torch.eye(WIDTH)  # key
        attention.c_attn.weight[TOKEN, 2 * WIDTH + TOKEN] = 1.0  # value: my token
        attention.c_proj.weight[TOKEN, TOKEN] = 1.0  # so that the logits follow what is looked at
        model.lm_head.weight[TOKEN, TOKEN] = 1.0
        model.transformer.ln_f = nn.Identity()
        model.transformer.h[0].ln_1 = model.transformer.h[0].ln_2 = nn.Identity()
    return LoadedModel.wrap(model, tokenizer(), name=f"hand-set {kind}")
