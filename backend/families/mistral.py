"""Mistral and Mixtral: sliding windows in every layer."""

from backend.families import Family

FAMILIES = (
    Family("Mistral", ("mistral",), "sliding window in every layer"),
    Family("Mixtral", ("mixtral",), "sliding window; mixture of experts"),
)
