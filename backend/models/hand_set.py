"""A tiny model whose weights are set by hand, so that every head is known in advance: for lessons and for checks.

Two layers of four heads. The residual stream has four parts: the token as a one-hot vector, the position as one, the
token before, and the token that is expected next. Norms are taken out and the feed-forward layers write nothing, so
what a head reads is exactly what earlier parts wrote. A head gives a score to its targets and 0 to every other key, so
that its map has a closed form; `HEADS` says which, and why each weight is what it is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from torch import Tensor, nn
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

NAME = "hand-set-heads"
START, PAD = "<start>", "<pad>"
WORDS = [
    "the",
    "fox",
    "met",
    "a",
    "hen",
    "near",
    "one",
    "old",
    "barn",
    "while",
    "two",
    "geese",
    "slept",
    "under",
    "that",
    "tall",
    "tree",
    "by",
    "our",
    "pond",
    "dog",
    "cat",
    "bird",
    "saw",
    "heard",
    "fed",
    "lost",
    "red",
    "blue",
    "small",
    "river",
    "house",
    "every",
    "some",
    "and",
    "then",
]
VOCABULARY = (PAD, START, *WORDS)
POSITIONS = 64  # also the width of a head, whose scores are divided by its square root, 8
LAYERS, HEADS_PER_LAYER = 2, 4
WIDTH = HEADS_PER_LAYER * POSITIONS
TOKEN = torch.arange(len(VOCABULARY))
PLACE = len(VOCABULARY) + torch.arange(POSITIONS)
BEFORE = len(VOCABULARY) + POSITIONS + TOKEN
NEXT = 2 * len(VOCABULARY) + POSITIONS + TOKEN
SURE = 8.0  # the logit of the expected word


@dataclass(frozen=True)
class HandSetHead:
    """One head: what it is called, the score of its targets, and the reason for its weights."""

    name: str
    score: float
    reason: str


HEADS: dict[tuple[int, int], HandSetHead] = {
    (0, 0): HandSetHead(
        "previous token",
        10.0,
        "The query of position i is the one-hot vector of position i - 1, the key of position j that of j: they meet "
        "where j is one before i. The value is the token, written into the part of the token before.",
    ),
    (0, 1): HandSetHead(
        "sink",
        6.0,
        "Every query asks for the same thing and only position 0 has it. The values are zero: the head writes nothing, "
        "so what it gives to the first token is attention without effect.",
    ),
    (0, 2): HandSetHead(
        "local",
        math.log(2),
        "The score of a key falls by ln 2 with every step back, so that each key gets half of what the one behind it "
        "gets. Values are zero.",
    ),
    (0, 3): HandSetHead("uniform", 0.0, "All queries and keys are zero, all scores are 0: every visible key is equal."),
    (1, 0): HandSetHead(
        "induction",
        8.0,
        "The query is the token itself, the key is the token before, which head 0.0 wrote: they meet at a position "
        "that follows an earlier copy of the same token. The value is the token there, written as the expected next.",
    ),
    (1, 1): HandSetHead(
        "same token",
        5.0,
        "Query and key are the token itself: they meet wherever the same token stands, the position itself included.",
    ),
    (1, 2): HandSetHead("itself", 7.0, "Query and key are the one-hot vector of the own position. Values are zero."),
    (1, 3): HandSetHead("two back", 7.0, "As head 0.0, one position further back. Values are zero."),
}


def build() -> tuple[GPT2LMHeadModel, PreTrainedTokenizerFast]:
    """The model and its tokenizer; it reads up to 64 words of its vocabulary. `load(NAME)` makes it ready for use."""
    config = GPT2Config(
        vocab_size=len(VOCABULARY),
        n_positions=POSITIONS,
        n_embd=WIDTH,
        n_layer=LAYERS,
        n_head=HEADS_PER_LAYER,
        n_inner=8,  # feed-forward layers cannot be left out; all their weights are zero
        bos_token_id=VOCABULARY.index(START),
        eos_token_id=VOCABULARY.index(PAD),
        pad_token_id=VOCABULARY.index(PAD),
        tie_word_embeddings=False,
    )
    model = GPT2LMHeadModel(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        model.transformer.wte.weight[TOKEN, TOKEN] = 1.0  # the stream begins with the token ...
        model.transformer.wpe.weight[torch.arange(POSITIONS), PLACE] = 1.0  # ... and its position
        for (layer, head), what in HEADS.items():
            _set_head(model.transformer.h[layer].attn, head, what)
        model.lm_head.weight[TOKEN, NEXT] = SURE  # the logits read the part of the expected next token
    model.transformer.ln_f = nn.Identity()
    for block in model.transformer.h:
        block.ln_1 = block.ln_2 = nn.Identity()
    return model, _tokenizer()


def _set_head(attention: nn.Module, head: int, what: HandSetHead) -> None:
    """Writes one head's queries and keys, and its values where it has any."""
    own = head * POSITIONS + torch.arange(POSITIONS)  # the head's columns of queries; keys and values lie behind them
    asks, answers = attention.c_attn.weight, (WIDTH + own, 2 * WIDTH + own)
    scale = math.sqrt(POSITIONS)  # undoes the division of the scores
    if what.name in ("previous token", "itself", "two back"):
        back = {"itself": 0, "previous token": 1, "two back": 2}[what.name]
        asks[PLACE[back:], own[: POSITIONS - back]] = what.score * scale
        asks[PLACE, answers[0]] = 1.0
    elif what.name == "sink":
        asks[PLACE, own[0]] = what.score * scale
        asks[PLACE[0], answers[0][0]] = 1.0
    elif what.name == "local":
        asks[PLACE[:, None], own[None, :]] = -what.score * scale * _steps_back()
        asks[PLACE, answers[0]] = 1.0
    elif what.name in ("induction", "same token"):
        words = torch.arange(len(VOCABULARY))
        asks[TOKEN, own[words]] = what.score * scale
        asks[BEFORE if what.name == "induction" else TOKEN, answers[0][words]] = 1.0
    writes = {"previous token": BEFORE, "induction": NEXT}.get(what.name)
    if writes is not None:
        words = torch.arange(len(VOCABULARY))
        asks[TOKEN, answers[1][words]] = 1.0
        attention.c_proj.weight[own[words], writes] = 1.0


def _steps_back() -> Tensor:
    """[64, 64]: how many steps key j is behind query i; 0 where it is ahead, which no query sees anyway."""
    place = torch.arange(POSITIONS, dtype=torch.float32)
    return (place[:, None] - place[None, :]).clamp(min=0)


def _tokenizer() -> PreTrainedTokenizerFast:
    """One token per word of the vocabulary, the start before them."""
    built = Tokenizer(models.WordLevel({word: at for at, word in enumerate(VOCABULARY)}, unk_token=PAD))
    built.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    built.post_processor = processors.TemplateProcessing(
        single=f"{START} $A", special_tokens=[(START, VOCABULARY.index(START))]
    )
    return PreTrainedTokenizerFast(tokenizer_object=built, pad_token=PAD, bos_token=START)
