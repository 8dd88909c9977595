"""Prompts to begin with, one click each."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Example:
    """A named prompt: a text, or documents with a question."""

    title: str
    text: str = ""
    documents: tuple[str, ...] = ()
    question: str = ""


STORY = (
    "The river had been low all summer, and the miller's daughter walked out on the stones to the middle of it. "
    "She carried a lantern although the sun was still up. When the first cold water came down from the mountain she "
    "heard it before she saw it, and she ran. The lantern stayed on the stones. In the morning the miller found it, "
    "still burning, on the far side of the river."
)
NAMES = (
    "When Anna Petrova and Tom Halloway met at the station, Anna Petrova gave the letter to Tom Halloway. A week "
    "later Tom Halloway sent the letter back to Anna"
)
CODE = '''def running_mean(values):
    """Yields the mean of all values so far."""
    total, count = 0.0, 0
    for value in values:
        total += value
        count += 1
        yield total / count


def running_max(values):
    """Yields the largest of all values so far."""
    largest = None
    for value in values:
'''
DOCUMENTS = (
    "The lighthouse of Skerrin was built in 1831 from grey granite and is 38 metres high.",
    "Barley on the northern terraces is harvested in the last week of July.",
    "The ferry from Oban to Skerrin takes two hours and forty minutes in calm weather.",
    "A school for weavers opened in the village of Dunmore in 1904 and closed in 1951.",
    "The keeper of the Skerrin lighthouse in 1902 was Margaret Lorne, who served for 31 years.",
    "Peat from the eastern bog was sold to two distilleries until 1978.",
    "The parish church owns a bell that was cast in Rotterdam in 1640.",
    "Gannets nest on the western cliffs from March to September.",
    "The island's only bridge was washed away in the storm of January 1953.",
    "Electric light reached the village of Dunmore in 1962.",
)

EXAMPLES = (
    Example("A story", text=STORY),
    Example("A repeated name", text=NAMES),
    Example("Ten documents", documents=DOCUMENTS, question="Who kept the Skerrin lighthouse in 1902?"),
    Example("Code", text=CODE),
)
