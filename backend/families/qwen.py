"""Qwen2 and Qwen3, with the hybrid Qwen3-Next."""

from backend.families import Family

FAMILIES = (
    Family("Qwen2", ("qwen2",), "biases on queries and keys; sliding window in the upper layers where switched on"),
    Family("Qwen3", ("qwen3",), "queries and keys normalised per head"),
    Family("Qwen3-MoE", ("qwen3_moe",), "as Qwen3, mixture of experts"),
    Family(
        "Qwen3-Next",
        ("qwen3_next",),
        "one layer in four is softmax attention, with a gate on its output",
        mixers={"Qwen3NextGatedDeltaNet": "linear attention (gated delta rule)"},
    ),
)
