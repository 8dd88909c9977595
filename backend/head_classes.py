"""What kinds of token a head looks at (H-06): mass on each class of tokens, and its lift over uniform attention.

Every token is of one class, so that the masses of the classes add up to 1, less what a learned sink takes. The parts of
the prompt (system, user, documents ...) are classes of their own beside these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from backend.baselines import uniform_measures
from backend.map_sizes import SIDES, segment_sides
from backend.run_layers import heads_apart
from backend.sinks.token_types import BEGIN, DIGITS, FIRST, MARKS, NEWLINE, SPECIAL, type_of
from backend.store import Analysis
from backend.types import Token

END, TEMPLATE, IMAGE = "end or separator", "template", "image"
PUNCTUATION, FUNCTION, CONTENT = "punctuation", "function word", "content word"
CLASSES = (BEGIN, FIRST, END, TEMPLATE, IMAGE, NEWLINE, PUNCTUATION, DIGITS, FUNCTION, CONTENT)
END_PIECES = frozenset(
    {"</s>", "<eos>", "[SEP]", "<|endoftext|>", "<|end_of_text|>", "<|eot_id|>", "<|im_end|>", "<end_of_turn>"}
)
IMAGE_PIECES = frozenset({"<image>", "<|image_pad|>", "<image_soft_token>", "<|image|>", "[IMG]"})
# English words that hold a sentence together; words of other languages count as content.
GRAMMAR = """
a an the this that these those and or but nor so yet if then than because while although though unless until since as of
in on at by for with about against between into through during before after above below to from up down out off over
under again i you he she it we they me him her us them my your his its our their mine yours hers ours theirs who whom
whose which what when where why how am is are was were be been being have has had having do does did doing will would
shall should can could may might must not no there here all any both each few more most other some such only own same
too very s t ll re ve d m
"""
FUNCTION_WORDS = frozenset(GRAMMAR.split())

LEAST_UNIFORM = 1e-6  # less is a rounding of sums in which nothing is left


@dataclass(frozen=True)
class ClassMass:
    """What the rows of a head give to one class."""

    name: str
    tokens: int  # of the class
    mass: float  # mean over rows with n_i >= 2
    uniform: float  # of uniform attention over the visible keys
    of_prompt: bool = False  # a part of the prompt instead of a kind of token

    @property
    def lift(self) -> float:
        """Mass over that of uniform attention; NaN where no row sees the class."""
        return self.mass / self.uniform if self.uniform > LEAST_UNIFORM else np.nan


def class_of(token: Token, first: bool, begin: int | None, word: str) -> str:
    """The class of one token. begin: id of the model's begin-of-text token; word: the whole word it is a part of."""
    kind = type_of(token, first, begin)
    if token.raw in IMAGE_PIECES:
        return IMAGE
    if kind == SPECIAL:
        return END if token.raw in END_PIECES else TEMPLATE
    if kind in (BEGIN, FIRST, NEWLINE, DIGITS):
        return kind
    if kind in MARKS:
        return PUNCTUATION
    return FUNCTION if word in FUNCTION_WORDS else CONTENT


def classes_of(tokens: Sequence[Token], begin: int | None) -> list[str]:
    """The class of every token of one side, in order."""
    words: dict[int, str] = {}
    for token in tokens:
        words[token.word] = words.get(token.word, "") + token.text
    plain = {number: text.strip(" \u00a0'’").lower() for number, text in words.items()}
    return [class_of(token, at == 0, begin, plain[token.word]) for at, token in enumerate(tokens)]


def class_masses(analysis: Analysis, kind: str, layer: int, head: int) -> list[ClassMass]:
    """The classes that the text has, in the order of CLASSES, and then the parts of the prompt.

    Empty where the keys of the layer are no tokens of the text."""
    side = SIDES[kind][1]
    tokens = [token for token in analysis.tokens_list() if token.side == side]
    keys = analysis.keys(kind=kind, layer=layer, head=head).sort_by("key")
    if keys.num_rows != len(tokens):
        return []
    received, uniform = per_key(analysis, kind, layer, head, keys["received_sum"].to_numpy())
    begin = analysis.info.get("bos_token_id")
    names = np.array(classes_of(tokens, begin if isinstance(begin, int) else None))
    sets = [(name, names == name, False) for name in CLASSES if (names == name).any()]
    places = np.arange(len(tokens))
    for segment, owner in zip(analysis.segments(), segment_sides(analysis), strict=True):
        if owner == side:
            sets.append((segment.name, (places >= segment.start) & (places < segment.end), True))
    return [
        ClassMass(n, int(own.sum()), float(received[own].sum()), float(uniform[own].sum()), p) for n, own, p in sets
    ]


def per_key(
    analysis: Analysis, kind: str, layer: int, head: int, received: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """What each key gets of a row with a choice, on average: from the head, and from uniform attention."""
    rows = analysis.rows(kind=kind, layer=layer, head=head)
    visible = rows["visible_keys"].to_numpy()
    choosing = max(int((visible >= 2).sum()), 1)
    lone = visible == 1
    to = rows["max_key"].to_numpy(zero_copy_only=False)[lone].astype(int)
    given = rows["max_weight"].to_numpy(zero_copy_only=False)[lone]
    score = analysis.score(layer, kind)
    heads = heads_apart(score)
    even = uniform_measures(score, len(visible), len(received), heads=heads)["received_sum"].double().numpy()
    even = even[head if heads > 1 else 0]
    found = np.nan_to_num(received) - np.bincount(to, weights=given, minlength=len(received))
    return found / choosing, (even - np.bincount(to, minlength=len(received))) / choosing
