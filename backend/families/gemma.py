"""Gemma 1, 2 and 3 (text)."""

from backend.families import Family

FAMILIES = (
    Family("Gemma", ("gemma",), "one key/value head or more, heads wider than the model suggests"),
    Family("Gemma 2", ("gemma2",), "scores capped with tanh; every second layer has a sliding window"),
    Family("Gemma 3 text", ("gemma3_text",), "five layers with a sliding window, then one without"),
)
