"""`with capture(model, request) as captured:` runs a model whose attention measures itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace

import torch
from torch import Tensor, nn

from backend.attention import Call, switched
from backend.errors import NotFound
from backend.intervene import Plan, plan
from backend.interventions import Intervention
from backend.sites import Site, matrix_of, survey
from backend.types import LayerCapture, Segment
from kernels.measures import MeasureRequest


class Captured(Sequence):
    """The layers of the passes run so far, in call order. Empty where they were handed to on_layer."""

    def __init__(self) -> None:
        self._layers: list[LayerCapture] = []

    def __getitem__(self, place):
        return self._layers[place]

    def __len__(self) -> int:
        return len(self._layers)

    def append(self, layer: LayerCapture) -> None:
        self._layers.append(layer)

    def by_layer(self, layer: int, kind: str = "self") -> LayerCapture:
        """The last pass through a layer, by the model's own number. NotFound names the layers there are."""
        for captured in reversed(self._layers):
            if (captured.info.layer, captured.info.kind) == (layer, kind):
                return captured
        there = sorted({(c.info.kind, c.info.layer) for c in self._layers})
        raise NotFound(f"Layer {layer} of kind {kind!r} was not captured. Captured: {there}.")


@dataclass(eq=False)
class Session:
    """One open capture of one model."""

    sites: dict[nn.Module, list[Site]]
    request: MeasureRequest
    impl: str
    plan: Plan
    on_layer: Callable[[LayerCapture], None]
    entering: dict[nn.Module, Tensor] = field(default_factory=dict)  # block -> residual stream of this pass
    calls: dict[nn.Module, int] = field(default_factory=dict)  # how often a module ran in this pass

    def start_pass(self, *_) -> None:
        self.entering.clear()
        self.calls.clear()

    def enter_block(self, block: nn.Module, args: tuple, kwargs: dict) -> None:
        stream = args[0] if args else kwargs.get("hidden_states")
        if isinstance(stream, Tensor):
            self.entering[block] = stream

    def attend(self, call: Call) -> Tensor:
        """The handler: compute, measure, hand over."""
        turn = self.calls.get(call.module, 0)
        self.calls[call.module] = turn + 1
        site = self.sites[call.module][turn]
        request = on_device(self.request, call.query.device)
        attended, score = self.plan.attend(
            site.info, call.query, call.key, call.value, call.score, request, impl=self.impl
        )
        stream = self.entering.get(site.block)
        self.on_layer(
            LayerCapture(
                info=site.info,
                query=call.query,
                key=call.key,
                value=call.value,
                score=score,
                lse=attended.lse,
                measures=attended.measures,
                implementation=attended.impl,
                hidden_norm=None if stream is None else torch.linalg.vector_norm(stream, dim=-1, dtype=torch.float32),
                hidden_max=None if stream is None else largest_magnitude(stream),
                output_norm=None if site.projection is None else output_norm(site, call.value),
            )
        )
        return attended.output


@contextmanager
def capture(
    model,
    request: MeasureRequest | None = None,
    *,
    impl: str = "auto",
    on_layer: Callable[[LayerCapture], None] | None = None,
    interventions: Sequence[Intervention] = (),
    segments: Sequence[Segment] = (),
) -> Iterator[Captured]:
    """Capture every attention layer of the forward passes run inside.

    `model` is a LoadedModel or a transformers model; the caller simply calls it. Without `on_layer` the layers are kept
    in the sequence this yields; with it each LayerCapture is handed over when its layer is done, and not kept. Inside,
    the model evaluates and makes no gradients. On exit everything that was changed on this very model is as before,
    also after an error. A left-padded batch needs position_ids where the model does not derive them from the mask.

    With `interventions` the model runs as they change it, and what is captured is the map after the change;
    `segments` are those of the prompt, which interventions may name. Edits of the prompt are made before, see
    backend/intervene.py.
    """
    module: nn.Module = getattr(model, "model", model) if not isinstance(model, nn.Module) else model
    captured = Captured()
    sites: dict[nn.Module, list[Site]] = {}
    for site in survey(module).sites:
        sites.setdefault(site.module, []).append(site)
    session = Session(
        sites,
        request or MeasureRequest(),
        impl,
        plan(interventions, survey(module).layers, segments),
        on_layer or captured.append,
    )
    with switched(module, session.attend):
        hooks = [module.register_forward_pre_hook(session.start_pass)]
        for block in {site.block for found in sites.values() for site in found if site.block is not None}:
            hooks.append(block.register_forward_pre_hook(session.enter_block, with_kwargs=True))
        try:
            yield captured
        finally:
            for hook in hooks:
                hook.remove()


def on_device(request: MeasureRequest, device: torch.device) -> MeasureRequest:
    """The request with its tensors where this layer runs."""
    moved = {f.name: v.to(device) for f in fields(request) if isinstance(v := getattr(request, f.name), Tensor)}
    return replace(request, **moved) if moved else request


def largest_magnitude(stream: Tensor) -> Tensor:
    """max |x| over the features: [B, N] float32; twenty times as fast as the norm of order infinity."""
    return torch.maximum(stream.amax(-1), -stream.amin(-1)).float()


def output_norm(site: Site, value: Tensor) -> Tensor | None:
    """|W_O^h v_j| for every query head and key: [B, H, Nk] float32.

    With the thin factorisation W_O^h = Q R (Q orthonormal) the norm of W_O^h v is that of R v, in the few
    dimensions of a head instead of all of the model's.
    """
    batch, key_heads, n_key, dim = value.shape
    heads = site.info.heads
    matrix = matrix_of(site.projection)  # [H * Dv, model]
    if matrix.is_meta:  # it lies on the disk until its layer needs it
        return None
    stamp = (matrix.data_ptr(), matrix._version)
    if site.factor is None or site.stamp != stamp:
        per_head = matrix.float().reshape(heads, dim, -1).transpose(1, 2)  # [H, model, Dv]
        factor = torch.linalg.qr(per_head, mode="r").R  # [H, R, Dv], R = min(model, Dv)
        # Heads that read the same key head are done in one product: [Hk, Dv, g * R].
        site.factor = factor.reshape(key_heads, -1, dim).transpose(1, 2).contiguous()
        site.stamp = stamp
    turned = value.float() @ site.factor  # [B, Hk, Nk, g * R]
    turned = turned.reshape(batch, key_heads, n_key, heads // key_heads, -1)
    return torch.linalg.vector_norm(turned, dim=-1).transpose(2, 3).reshape(batch, heads, n_key)
