"""GPT-2, GPT-NeoX, GPT-J and OPT: one key/value head per query head."""

from backend.families import Family

FAMILIES = (
    Family("GPT-2", ("gpt2",), "learned positions"),
    Family("GPT-NeoX", ("gpt_neox",), "rotary positions on a part of the head"),
    Family("GPT-J", ("gptj",), "interleaved rotary positions"),
    Family("OPT", ("opt",), "learned positions; the scale is in the queries"),
)
