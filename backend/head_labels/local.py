"""Local heads: look close by, compared with how far uniform attention would look."""

from backend.head_labels.label import Condition, HeadLabel

LABEL = HeadLabel(
    words="local",
    says="It looks close by: its mean distance is a small part of that of uniform attention.",
    conditions=(Condition("mean_distance", 0.2, above=False, relative=True),),
)
