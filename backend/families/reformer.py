"""Reformer: a prompt of one chunk is read whole; longer ones are hashed and sorted or cut, which is refused."""

from transformers import PreTrainedConfig

from backend.families import Family


def most_tokens(config: PreTrainedConfig) -> int:
    """Tokens of one chunk: up to here every layer computes ordinary attention."""
    lengths = {"lsh": config.lsh_attn_chunk_length, "local": config.local_attn_chunk_length}
    return min(lengths[kind] for kind in config.attn_layers)


FAMILIES = (
    Family(
        "Reformer",
        ("reformer",),
        "read whole up to one chunk, refused above; hashed layers look at their own token only where there is no other",
        dense=True,
        most_tokens=most_tokens,
    ),
)
