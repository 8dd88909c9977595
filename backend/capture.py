"""`with capture(model, request) as captured:` runs a model whose attention measures itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, fields, replace

import torch
from torch import Tensor, nn

from backend.attention import Call, implementation, plain, switched
from backend.dense import Softmax, described, stand_ins, watched
from backend.errors import NotFound, Refused
from backend.intervene import Plan, plan
from backend.interventions import Intervention
from backend.sites import Site, matrix_of, survey
from backend.types import LayerCapture, Segment
from kernels.measures import MeasureRequest
from kernels.window import weights


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
    request: MeasureRequest | Mapping[str, MeasureRequest]  # or one per kind
    impl: str
    plan: Plan
    on_layer: Callable[[LayerCapture], None]
    entering: dict[nn.Module, Tensor] = field(default_factory=dict)  # block -> residual stream of this pass
    calls: dict[nn.Module, int] = field(default_factory=dict)  # how often a module ran in this pass
    padding: Tensor | None = None  # bool [B, N], True = real token, as the model was told
    waiting: LayerCapture | None = None  # a layer of a model's own softmax, until its values are seen

    def start_pass(self, model: nn.Module, args: tuple, kwargs: dict) -> None:
        self.entering.clear()
        self.calls.clear()
        mask = kwargs.get("attention_mask")
        self.padding = mask.bool() if isinstance(mask, Tensor) and mask.ndim == 2 else None

    def enter_block(self, block: nn.Module, args: tuple, kwargs: dict) -> None:
        stream = args[0] if args else kwargs.get("hidden_states")
        if isinstance(stream, Tensor):
            self.entering[block] = stream

    def site_of(self, module: nn.Module) -> Site | None:
        """The site of this call; None for one that the survey did not meet."""
        if module not in self.sites:
            return None
        turn = self.calls.get(module, 0)
        self.calls[module] = turn + 1
        return self.sites[module][turn] if turn < len(self.sites[module]) else None

    def request_of(self, site: Site, device: torch.device) -> MeasureRequest:
        """What to measure at a site, on its device."""
        request = self.request if isinstance(self.request, MeasureRequest) else self.request[site.info.kind]
        return on_device(request, device)

    def stream_of(self, site: Site) -> dict[str, Tensor | None]:
        """Norms of the residual stream that entered the site's block."""
        stream = self.entering.get(site.block)
        if stream is None:
            return {}
        norm = torch.linalg.vector_norm(stream, dim=-1, dtype=torch.float32)
        return {"hidden_norm": norm, "hidden_max": largest_magnitude(stream)}

    def attend(self, call: Call) -> Tensor:
        """The handler of the attention interface: compute, measure, hand over."""
        site = self.site_of(call.module)
        if site is None:  # a part that the probe did not run: the picture tower beside a text model
            return plain(call)
        request = self.request_of(site, call.query.device)
        attended, score = self.plan.attend(
            site.info, call.query, call.key, call.value, call.score, request, impl=self.impl
        )
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
                output_norm=output_norm(site, call.value) if site.projection is not None and request.keys else None,
                **self.stream_of(site),
            )
        )
        return attended.output

    def softmax(self, found: Softmax) -> Tensor | None:
        """The handler of a model's own softmax: measure its probabilities, hand them over.

        Empty queries and keys stand in for the model's, and the logarithms of the probabilities are biases on their
        scores; where something is changed, the output of such attention over a unit matrix is the changed map.
        """
        site = self.site_of(found.module)
        if site is None:
            return None
        batch, _, _, n_key = found.weights.shape
        padding = self.padding
        if padding is not None and (padding.shape != (batch, n_key) or site.info.kind == "decoder"):
            padding = None
        score = described(found, padding)
        changes = (site.info.kind, site.info.layer) in self.plan.changes
        query, key, value = stand_ins(found, unit=changes)
        request = self.request_of(site, key.device)
        if request.tokens is not None and request.tokens.shape[1] != n_key:  # a layer that reads fewer positions
            request = replace(request, tokens=None)
        attended, changed = self.plan.attend(site.info, query, key, value, score, request, impl="auto")
        whole = slice(0, query.shape[2]), slice(0, n_key)
        # A gate changes what the model goes on with, not the map.
        kept = weights(query, key, changed, attended.lse, *whole) if changes else found.weights
        window = score.window or (sum(score.around) + 1 if score.around else None)
        info = site.info if window is None else replace(site.info, window_size=window)
        self.waiting = LayerCapture(
            info=info,
            query=query,
            key=key,
            value=key,
            score=changed,
            lse=attended.lse,
            measures=attended.measures,
            implementation="dense",
            dense=kept,
            **self.stream_of(site),
        )
        return attended.output if changes else None

    def values(self, module: nn.Module, value: Tensor | None) -> None:
        """What the probabilities were multiplied with, None where that was not seen; the layer is handed over."""
        waiting, self.waiting = self.waiting, None
        if waiting is not None:
            self.on_layer(waiting if value is None else replace(waiting, dense_value=value))


@contextmanager
def capture(
    model,
    request: MeasureRequest | Mapping[str, MeasureRequest] | None = None,
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
    `request`: what is measured, for all kinds of attention or by kind.

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
    with ExitStack() as stack:
        if survey(module).dense:
            if impl != "auto":
                raise Refused(f"This model's own probabilities are captured: leave impl at auto, not {impl!r}.")
            stack.enter_context(implementation(module, "eager"))
            stack.enter_context(watched(module, session.softmax, sites, session.values))
        else:
            stack.enter_context(switched(module, session.attend))
        hooks = [module.register_forward_pre_hook(session.start_pass, with_kwargs=True)]
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
