"""GPT-OSS: a learned sink per head takes a share of every row."""

from backend.families import Family

FAMILIES = (Family("GPT-OSS", ("gpt_oss",), "learned sinks: rows add up to less than 1; every second layer windowed"),)
