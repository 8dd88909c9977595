"""Delimiter heads: look at punctuation, line breaks and special tokens."""

from backend.head_labels.label import Condition, HeadLabel

LABEL = HeadLabel(
    words="delimiter",
    says="It looks at punctuation, line breaks and special tokens beyond the first token.",
    conditions=(Condition("delimiter_mass", 0.6, source="Clark et al. 2019, What Does BERT Look At"),),
)
