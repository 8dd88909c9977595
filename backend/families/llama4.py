"""Llama-4 text: chunked attention with rotary positions, full attention without."""

from backend.families import Family

FAMILIES = (Family("Llama-4 text", ("llama4_text",), "causal inside chunks; full layers without rotary positions"),)
