"""Families whose code computes its softmax without transformers' attention interface."""

from backend.families import Family

REFUSAL = "its code computes attention without transformers' attention interface, where maps are read"

FAMILIES = (
    Family(
        "Own softmax",
        (
            *("big_bird", "bigbird_pegasus", "bloom", "codegen", "ctrl", "deberta", "deberta-v2", "falcon", "flaubert"),
            *("funnel", "gpt_neo", "ibert", "led", "longformer", "mpnet", "mpt", "reformer", "rwkv", "squeezebert"),
            *("transfo-xl", "xlm", "xlnet"),
        ),
        "not offered",
        refusal=REFUSAL,
    ),
)
