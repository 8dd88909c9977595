"""What several studies refuse in the same words, before anything runs."""

from __future__ import annotations

from backend.errors import Refused
from backend.estimate import attention_layers
from backend.models import LoadedModel


def require_one_stack(model: LoadedModel, name: str) -> None:
    """Refused for a model with several stacks of layers, or without softmax attention."""
    if {layer.kind for layer in attention_layers(model)} != {"self"}:
        raise Refused(f"{name} reads one stack of layers; this model has several, or no softmax attention.")


def require_length(model: LoadedModel, n_tokens: int, what: str) -> None:
    """Refused where `what` ("A text") was asked for with more tokens than the model takes."""
    most = model.max_positions
    if most is not None and n_tokens > most:
        raise Refused(
            f"{what} of {n_tokens:,} tokens was asked for and {model.name} takes at most {most:,}. Shorten it."
        )
