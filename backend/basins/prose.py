"""Prose written for this project, as long as wanted: what a needle is hidden in, and needles that look like it."""

from __future__ import annotations

import re
from itertools import product

import numpy as np

PLACES = ("the harbour", "the upper mill", "the old market", "the north road", "the schoolhouse", "the chapel garden")
PEOPLE = ("the carpenter", "a young teacher", "the ferryman", "two sisters", "the baker's son", "an old surveyor")
DEEDS = (
    "mended the railing before the rain came",
    "counted the boats and wrote the number on a slate",
    "argued about the price of apples until noon",
    "waited for a letter that was three weeks late",
    "carried water up the hill in a dented pail",
    "planted beans along the wall and tied them with string",
    "read aloud from a book with half its pages missing",
    "painted the shutters green and then blue again",
)
TIMES = ("In March", "After the fair", "On a grey morning", "Late in the summer", "Before the first frost", "At dusk")
ENDINGS = (
    "and nobody thought it strange",
    "while the dogs slept in the shade",
    "and the bell rang twice",
    "though the wind had turned to the east",
)
COLOURS = ("red", "blue", "white", "black", "yellow", "grey", "brown", "green")
TOWNS = ("Harlow", "Brennick", "Osterby", "Tamsel", "Wyke", "Corran", "Ludden", "Pellow")
NEEDLE = "The number of the green locker at Harlow is {answer}."
QUESTION = "What is the number of the green locker at Harlow?"
CUE = "The number of the green locker at Harlow is"  # how the answer begins


SENTENCE_END = re.compile(r"(?<=[.!?”\"])\s+")


def sentences_in(text: str) -> list[str]:
    """A text cut behind full stops, question marks, exclamation marks and quotation marks."""
    return [one for one in SENTENCE_END.split(text.strip()) if one.strip()]


def sentences(count: int, seed: int = 0) -> list[str]:
    """Different sentences in an order drawn with the seed."""
    every = list(product(TIMES, PEOPLE, PLACES, DEEDS, ENDINGS))
    order = np.random.default_rng(seed).permutation(len(every))
    found = []
    for at in order[:count]:
        time, who, where, deed, ending = every[at]
        found.append(f"{time}, near {where}, {who} {deed}, {ending}.")
    return found


def look_alikes(count: int, seed: int = 0) -> list[str]:
    """Needles of the same form that answer other questions."""
    draw = np.random.default_rng([seed, 1])
    others = [(colour, town) for colour in COLOURS for town in TOWNS if (colour, town) != ("green", "Harlow")]
    close = [pair for pair in others if pair[0] == "green" or pair[1] == "Harlow"]
    chosen = [close[at] for at in draw.permutation(len(close))[:count]]
    return [
        f"The number of the {colour} locker at {town} is {number}."
        for (colour, town), number in zip(chosen, draw.integers(1000, 10_000, len(chosen)), strict=True)
    ]
