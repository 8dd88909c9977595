"""Duplicate-token heads: look at earlier copies of the same token."""

from backend.head_labels.label import Condition, HeadLabel

LABEL = HeadLabel(
    words="duplicate",
    says="It looks at earlier copies of the same token.",
    conditions=(Condition("duplicate_token", 0.4),),
)
