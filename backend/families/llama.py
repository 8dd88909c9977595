"""Decoders with rotary positions: the Llama line and its relatives."""

from backend.families import Family

FAMILIES = (
    Family("Llama", ("llama",), "grouped key/value heads, rotary positions"),
    Family("SmolLM3", ("smollm3",), "every fourth layer without rotary positions"),
    Family("Granite", ("granite",), "its own factor on the scores"),
    Family("OLMo 2", ("olmo2",), "queries and keys normalised over all heads"),
    Family("Cohere", ("cohere",), "attention and feed-forward side by side"),
    Family("Phi", ("phi",), "rotary positions on a part of the head"),
    Family("Phi-3", ("phi3",), "queries, keys and values from one matrix; sliding window"),
)
