"""What the model thought of each token: log-probabilities and predictions, without logits of all positions at once.

The logits of a long prompt take more memory than everything else (2,048 tokens of a vocabulary of 49,152: 400 MB). So
what enters the output projection is kept, only its last row is let through, and the others are projected in chunks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

CHUNK_BYTES = 32e6  # of float32 logits


@dataclass(eq=False)
class Tap:
    """What entered the output projection."""

    head: nn.Module | None  # None: the model has none (encoders)
    hidden: Tensor | None = None  # [1, N, model]


@contextmanager
def tapped(model: nn.Module) -> Iterator[Tap]:
    """Inside, the model's logits are those of the last position only; the tap keeps what the others are made of."""
    tap = Tap(model.get_output_embeddings())
    if tap.head is None:
        yield tap
        return

    def last_row_only(module: nn.Module, args: tuple) -> tuple:
        tap.hidden = args[0]
        return (args[0][:, -1:], *args[1:])

    hook = tap.head.register_forward_pre_hook(last_row_only)
    try:
        yield tap
    finally:
        hook.remove()


@torch.inference_mode()
def token_logprobs(tap: Tap, last_logits: Tensor, token_ids: list[int], config) -> list[float | None] | None:
    """ln probability of each token given those before it, [N] with None for the first.

    None altogether where the model does something after the projection that is not known here: what it gave for the
    last position (last_logits [V]) tells.
    """
    if tap.hidden is None or tap.head is None:
        return None
    finish = _after_projection(tap.head(tap.hidden[:, -1:])[0, 0], last_logits, config)
    if finish is None:
        return None
    hidden = tap.hidden[0, :-1]  # row i tells of token i + 1
    following = torch.tensor(token_ids[1:], device=hidden.device)
    step = max(1, int(CHUNK_BYTES / (4 * last_logits.shape[-1])))
    found: list[float] = []
    for start in range(0, len(following), step):
        logits = finish(tap.head(hidden[start : start + step])).float()  # [step, V]
        chosen = logits.gather(1, following[start : start + step, None])[:, 0]
        found += (chosen - torch.logsumexp(logits, -1)).tolist()
    return [None, *found]


def _after_projection(projected: Tensor, given: Tensor, config) -> Callable[[Tensor], Tensor] | None:
    """What the model does to its projected logits: the candidate that gives what the model gave, else None."""
    cap, scale, scaling = (
        getattr(config, name, None) for name in ("final_logit_softcapping", "logit_scale", "logits_scaling")
    )
    candidates: list[Callable[[Tensor], Tensor]] = [lambda logits: logits]
    if cap:
        candidates.append(lambda logits: cap * torch.tanh(logits / cap))
    if scale:
        candidates.append(lambda logits: logits * scale)
    if scaling:
        candidates.append(lambda logits: logits / scaling)
    tolerance = 1e-3 if given.dtype == torch.float32 else 4e-2
    for finish in candidates:
        if torch.allclose(finish(projected).float(), given.float(), rtol=tolerance, atol=tolerance):
            return finish
    return None


@torch.inference_mode()
def top_predictions(last_logits: Tensor, count: int) -> list[tuple[int, float]]:
    """The most probable next tokens: (token id, ln probability), most probable first. last_logits: [V]."""
    logprobs = torch.log_softmax(last_logits.float(), -1)
    values, ids = logprobs.topk(min(count, logprobs.shape[-1]))
    return list(zip(ids.tolist(), values.tolist(), strict=True))
