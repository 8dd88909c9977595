"""What the model thought of each token: log-probabilities and predictions, without logits of all positions at once.

The logits of a long prompt take more memory than everything else (2,048 tokens of a vocabulary of 49,152: 400 MB). So
what enters the output projection is kept, only its last row is let through, and the others are projected in chunks.
"""

from __future__ import annotations

import threading
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
    bias: Tensor | None = None  # [1, V], which some encoder-decoders add behind the projection
    hidden: Tensor | None = None  # [1, N, model]


@contextmanager
def tapped(model: nn.Module) -> Iterator[Tap]:
    """Inside, the model's logits are those of the last position only; the tap keeps what the others are made of.

    Other threads that run the model meanwhile are left alone.
    """
    tap, thread = Tap(model.get_output_embeddings(), getattr(model, "final_logits_bias", None)), threading.get_ident()
    if tap.head is None:
        yield tap
        return

    def last_row_only(module: nn.Module, args: tuple) -> tuple | None:
        # The pass is over (whoever reads the tap projects what he likes), or it is somebody else's.
        if tap.hidden is not None or threading.get_ident() != thread:
            return None
        tap.hidden = args[0]
        return (args[0][:, -1:], *args[1:])

    hook = tap.head.register_forward_pre_hook(last_row_only)
    try:
        yield tap
    finally:
        hook.remove()


@dataclass(frozen=True, eq=False)
class NextToken:
    """What the model expects after each position of one sequence of N tokens."""

    head: nn.Module
    hidden: Tensor  # [N, model]
    last_logits: Tensor  # [V], as the model itself gave them for the last position
    finish: Callable[[Tensor], Tensor] | None  # what the model does to its projected logits; None = not known

    @classmethod
    def read(cls, tap: Tap, last_logits: Tensor, config) -> NextToken:
        """From a tap after the forward pass. What the model gave for the last position tells what `finish` is."""
        projected = tap.head(tap.hidden[:, -1:])[0, 0]
        return cls(tap.head, tap.hidden[0], last_logits, after_projection(projected, last_logits, config, tap.bias))

    def logits(self, start: int, stop: int) -> Iterator[tuple[int, Tensor]]:
        """(first position, float32 logits [rows, V]) of positions start .. stop - 1, in chunks."""
        step = max(1, int(CHUNK_BYTES / (4 * self.last_logits.shape[-1])))
        for first in range(start, stop, step):
            yield first, self.finish(self.head(self.hidden[first : min(first + step, stop)])).float()

    def logprobs(self, token_ids: list[int]) -> list[float | None] | None:
        """ln probability of each token given those before it, [N] with None for the first.

        None altogether where the model does something after the projection that is not known here.
        """
        if self.finish is None:
            return None
        following = torch.tensor(token_ids[1:], device=self.hidden.device)  # row i tells of token i + 1
        found: list[float] = []
        for first, logits in self.logits(0, len(following)):
            chosen = logits.gather(1, following[first : first + len(logits), None])[:, 0]
            found += (chosen - torch.logsumexp(logits, -1)).tolist()
        return [None, *found]

    def predictions(self, first: int, count: int) -> list[tuple[int, list[tuple[int, float]]]]:
        """The most probable tokens after each position from `first` on: (position, [(token id, ln probability)]).

        Most probable first. Only those after the last position where `finish` is not known.
        """
        last = len(self.hidden) - 1
        found = []
        if self.finish is not None:
            for position, logits in self.logits(min(first, last), last):
                found += [(position + row, best(values, count)) for row, values in enumerate(logits)]
        return [*found, (last, best(self.last_logits, count))]


def best(logits: Tensor, count: int) -> list[tuple[int, float]]:
    """The `count` most probable of [V]: (token id, ln probability)."""
    logprobs = torch.log_softmax(logits.float(), -1)
    values, ids = logprobs.topk(min(count, logprobs.shape[-1]))
    return list(zip(ids.tolist(), values.tolist(), strict=True))


def after_projection(
    projected: Tensor, given: Tensor, config, bias: Tensor | None = None
) -> Callable[[Tensor], Tensor] | None:
    """What the model does to its projected logits: the candidate that gives what the model gave, else None."""
    cap, scale, scaling = (
        getattr(config, name, None) for name in ("final_logit_softcapping", "logit_scale", "logits_scaling")
    )
    candidates: list[Callable[[Tensor], Tensor]] = [lambda logits: logits]
    if bias is not None:
        candidates.append(lambda logits: logits + bias[0].to(logits.device))
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
