"""Induction heads: where a token occurred before, look at what followed it."""

from backend.head_labels.label import Condition, HeadLabel

LABEL = HeadLabel(
    words="induction",
    says="Where the same token occurred before, it looks at what followed it then.",
    conditions=(Condition("induction", 0.4),),
)
