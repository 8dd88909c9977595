"""Sink heads: much of every row rests on the first token, and little is spread elsewhere."""

from backend.head_labels.label import Condition, HeadLabel

LABEL = HeadLabel(
    words="sink",
    says="Most rows rest much of their attention on the first token, whatever it says.",
    conditions=(
        Condition("first_key_importance", 0.3, source="Gu et al. 2025, When Attention Sink Emerges"),
        Condition("entropy", 1.5, above=False),
    ),
)
