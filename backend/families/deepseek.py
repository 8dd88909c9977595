"""DeepSeek-V3: multi-head latent attention, seen after its keys and values are expanded."""

from backend.families import Family

FAMILIES = (Family("DeepSeek-V3", ("deepseek_v3",), "latent attention: keys wider than values"),)
