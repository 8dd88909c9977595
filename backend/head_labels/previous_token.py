"""Previous-token heads: each row looks at the token just before."""

from backend.head_labels.label import Condition, HeadLabel

LABEL = HeadLabel(
    words="previous token",
    says="Each token looks at the one just before it.",
    conditions=(Condition("previous_token", 0.5, source="Clark et al. 2019, What Does BERT Look At"),),
)
