"""Attention that a model computes with a softmax of its own, watched from inside.

Families past transformers' attention interface (Bloom, Falcon, DeBERTa, XLNet ...) leave no queries and keys to take.
While `watched` is open, every softmax that one of their attention modules computes over queries and keys goes through
a handler: it gets the scores and the model's own probabilities, and gives back those the model goes on with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from backend.families import layout_of
from kernels.score import ScoreSpec

FEATURES = 16  # of the empty queries and keys that stand in for those of the model; every implementation takes them
HIDDEN_BELOW = -9e3  # families hide cells with scores from -1e4 (GPT-1) down to the smallest number of the type
SOFTMAXES = frozenset({torch.softmax, torch.Tensor.softmax, torch.special.softmax, nn.functional.softmax})
PRODUCTS = frozenset({torch.matmul, torch.Tensor.matmul, torch.Tensor.__matmul__, torch.bmm, torch.Tensor.bmm})
WATCHED = SOFTMAXES | PRODUCTS | {torch.logsumexp, torch.exp}
OUTSIDE = -1e30  # the score of a cell that a layout has no place for
HEADS = ("num_heads", "num_attention_heads", "n_heads", "n_head", "num_attn_heads", "heads")


@dataclass(frozen=True, eq=False)
class Softmax:
    """One softmax of a running model over its keys."""

    module: nn.Module
    scores: Tensor  # [B, H, Nq, Nk], masked as the family masks
    weights: Tensor  # [B, H, Nq, Nk], the model's own probabilities


Handler = Callable[[Softmax], Tensor | None]  # returns probabilities to go on with; None = the model's own
Values = Callable[[nn.Module, Tensor | None], None]  # what a module's probabilities were multiplied with, see `watched`


class Watch(TorchFunctionMode):
    """Sends softmaxes to the handler while a watched module runs.

    A softmax is one of torch's, or exp(s - logsumexp(s)) (Reformer).
    """

    def __init__(self, handler: Handler, values: Values | None) -> None:
        super().__init__()
        self.handler = handler
        self.values = values
        self.asked: tuple[nn.Module, tuple[int, ...], Tensor] | None = (
            None  # module, axes, probabilities it goes on with
        )
        self.running: list[nn.Module] = []
        self.length = 0  # tokens that the model reads
        self.waiting: Tensor | None = None  # scores whose logsumexp was taken

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if not self.running or func not in WATCHED:
            return result
        if func in PRODUCTS:
            self.see_values(args)
            return result
        values = args[0] if args else kwargs["input"]
        if func is torch.exp:
            scores, self.waiting = self.waiting, None
            return result if scores is None or scores.shape != result.shape else self.handle(scores, result)
        dim = args[1] if len(args) > 1 else kwargs.get("dim")
        if dim not in (-1, values.ndim - 1):
            return result
        if func is torch.logsumexp:
            self.waiting = values
            return result
        return self.handle(values, result)

    def handle(self, scores: Tensor, result: Tensor) -> Tensor:
        """The probabilities that the model goes on with."""
        module = next((m for m in reversed(self.running) if not is_bare_softmax(m)), None)
        self.tell(None)  # a softmax before this one, whose product was not seen
        layout = None if module is None else layout_of(module, self.length)
        if layout is not None:
            found = Softmax(module, layout.place(scores, OUTSIDE), layout.place(result, 0.0))
            changed = self.handler(found)
            self.asked = (module, tuple(found.weights.shape), found.weights)  # kept as bands: no product of it is seen
            return result if changed is None else layout.back(changed, result)
        shape = None if module is None else four_axes(scores, module)
        if shape is None:
            return result
        changed = self.handler(Softmax(module, scores.reshape(shape), result.reshape(shape)))
        going_on = result if changed is None else changed.to(result.dtype).reshape(result.shape)
        self.asked = (module, shape, going_on)
        return going_on

    def see_values(self, args: tuple) -> None:
        """Tells of a product of the probabilities with something per key: the values, [B, H, Nk, D]."""
        if self.asked is None or self.values is None or len(args) < 2:
            return
        _, (batch, heads, _, n_key), weights = self.asked
        first, second = args[:2]
        if first.data_ptr() != weights.data_ptr() or first.numel() != weights.numel() or second.shape[-2] != n_key:
            return
        if second.ndim == 3 and second.shape[0] == batch * heads:
            second = second.reshape(batch, heads, *second.shape[1:])
        if second.ndim == 4 and second.shape[0] == batch and second.shape[1] in (1, heads):
            self.tell(second.expand(batch, heads, -1, -1))

    def tell(self, values: Tensor | None) -> None:
        """Once per softmax: its values, or None where its module ended without a product that could be seen."""
        if self.asked is not None and self.values is not None:
            self.values(self.asked[0], values)
        self.asked = None


@contextmanager
def watched(
    model: nn.Module, handler: Handler, modules: Iterable[nn.Module] | None = None, values: Values | None = None
) -> Iterator[None]:
    """Send the softmaxes of the model, or of some of its modules, to the handler, in this thread.

    values(module, v) is called after each softmax: with what its probabilities were multiplied with, or with None where
    the module ended, or computed another softmax, before that was seen.
    """
    watch = Watch(handler, values)

    def begin(module: nn.Module, args: tuple, kwargs: dict) -> None:
        ids = kwargs.get("input_ids", args[0] if args else None)
        watch.length = ids.shape[1] if isinstance(ids, Tensor) and ids.ndim > 1 else 0

    def enter(module: nn.Module, args: tuple) -> None:
        watch.running.append(module)

    def leave(module: nn.Module, args: tuple, output) -> None:
        if watch.asked is not None and watch.asked[0] is module:
            watch.tell(None)
        while watch.running and watch.running.pop() is not module:
            pass  # modules that an error left

    modules = list(model.modules() if modules is None else modules)
    hooks = [model.register_forward_pre_hook(begin, with_kwargs=True)]
    hooks += [module.register_forward_pre_hook(enter) for module in modules]
    hooks += [module.register_forward_hook(leave) for module in modules]
    try:
        with watch:
            yield
    finally:
        for hook in hooks:
            hook.remove()


def is_bare_softmax(module: nn.Module) -> bool:
    """A module that is nothing but a softmax; the attention is the one around it."""
    return "softmax" in type(module).__name__.lower()


def four_axes(scores: Tensor, module: nn.Module) -> tuple[int, ...] | None:
    """[B, H, Nq, Nk] of scores that may have batch and heads in one axis; None where they are no attention scores."""
    heads = next((n for name in HEADS if isinstance(n := getattr(module, name, None), int)), None)
    if scores.ndim == 4:
        return tuple(scores.shape)
    if scores.ndim == 3 and heads and scores.shape[0] % heads == 0:
        return (scores.shape[0] // heads, heads, *scores.shape[1:])
    return None


def described(found: Softmax, key_padding: Tensor | None = None) -> ScoreSpec:
    """The softmax as a rule for empty queries and keys: its biases are the logarithms of the probabilities.

    key_padding: bool [B, Nk], True = real token, where the prompt was padded.
    """
    scores, weights = found.scores.detach().float(), found.weights.detach().float()
    visible = ~(scores <= HIDDEN_BELOW) | (weights > 0)
    # A probability too small for its type is still a visible one.
    small = scores - torch.logsumexp(scores, -1, keepdim=True)
    logs = torch.where(weights > 0, weights.log(), small).masked_fill(~visible, 0.0)
    return rule_of(visible, key_padding, bias=logs)


def stand_ins(found: Softmax, *, unit: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Empty query, key and value for a rule of `described`; unit: the output over the value is the map itself."""
    batch, heads, n_query, n_key = found.weights.shape
    query = torch.zeros(batch, heads, n_query, FEATURES, device=found.weights.device)
    key = query.new_zeros(batch, heads, n_key, FEATURES)
    return query, key, torch.eye(n_key, device=key.device).expand(batch, heads, n_key, n_key) if unit else key


def rule_of(visible: Tensor, key_padding: Tensor | None = None, **terms) -> ScoreSpec:
    """The shortest rule that shows exactly the visible cells, bool [B or 1, H or 1, Nq, Nk]; padding aside."""
    if key_padding is not None:
        if bool(key_padding.all()):
            key_padding = None
        else:
            real = key_padding[:, None, None, :]
            rows = key_padding[:, None, :, None] if visible.shape[2] == visible.shape[3] else torch.ones_like(real)
            visible = visible | ~(real & rows)  # padding says itself who is hidden
    terms |= {"scale": 1.0, "key_padding": key_padding}
    n_query, n_key = visible.shape[-2:]
    first = visible[:1, :1]
    places = torch.arange(n_key, device=visible.device)
    back = torch.arange(n_query, device=visible.device)[:, None] - places  # how far behind its row a key is
    if key_padding is None:
        for rule, seen in candidates(first[0, 0], back):
            if bool((visible == seen).all()):
                return ScoreSpec(**terms, **rule)
    elif bool(visible.all()):
        return ScoreSpec(**terms, causal=False)
    if bool((visible == visible[:, :1]).all()):
        visible = visible[:, :1]
    return ScoreSpec(**terms, causal=False, mask=first if bool((visible == first).all()) else visible)


def candidates(seen: Tensor, back: Tensor) -> Iterator[tuple[dict, Tensor]]:
    """Rules that fit the first and the last row of a map [Nq, Nk], with what they show."""
    yield {"causal": False}, torch.ones_like(seen)
    if seen.shape[0] != seen.shape[1]:
        return
    yield {"causal": True}, back >= 0
    window = int(seen[-1].sum())
    yield {"causal": True, "window": max(1, window)}, (back >= 0) & (back < window)
    right, left = int(seen[0].sum()) - 1, window - 1
    if min(left, right) >= 0:
        yield {"causal": False, "around": (left, right)}, (back <= left) & (back >= -right)
