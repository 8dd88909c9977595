"""Broad heads: spread nearly as widely as they could."""

from backend.head_labels.label import Condition, HeadLabel

LABEL = HeadLabel(
    words="broad",
    says="It spreads its attention nearly evenly over everything it may see.",
    conditions=(Condition("entropy_share", 0.8),),
)
