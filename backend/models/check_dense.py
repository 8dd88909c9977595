"""The self-check of models whose own softmax is watched: are the maps taken the ones that its code reports?"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from backend.attention import implementation
from backend.capture import capture
from backend.dense import Softmax, watched
from backend.errors import Refused
from backend.families import layout_of
from backend.models.checked import Eager, Found, final, narrow, result
from backend.sites import survey
from kernels.measures import NOTHING

KINDS = ("self", "encoder", "decoder", "cross")  # the order in which transformers reports its attentions


def eager_maps(model: nn.Module, inputs: dict) -> Eager:
    """What an eager run of the model reports as its attentions, in the order of its kinds."""
    with implementation(model, "eager"):
        output = model(**inputs, output_attentions=True)
    reported = [
        getattr(output, name, None)
        for name in ("attentions", "encoder_attentions", "decoder_attentions", "cross_attentions")
    ]
    length = inputs["input_ids"].shape[1] if "input_ids" in inputs else 0
    maps = [part for parts in reported for part in parts or () if part is not None]
    modules = {kind: [site.module for site in survey(model).sites if site.info.kind == kind] for kind in KINDS}
    for place, module in enumerate(module for kind in KINDS for module in modules[kind]):
        layout = layout_of(module, length)
        if layout is not None and place < len(maps):
            maps[place] = layout.place(maps[place].transpose(1, 2), 0.0)
    return Eager(maps, [], final(output))


def run_watched(model: nn.Module, inputs: dict, eager: Eager, *, only: str = "itself") -> Found:
    """A capture of the probe, compared with what the model reports, and a run in which every token sees one token."""
    with capture(model, NOTHING) as layers:
        captured = final(model(**inputs))
    ours = [layer.dense for kind in KINDS for layer in layers if layer.info.kind == kind]
    same = len(ours) == len(eager.maps) and all(a.shape == b.shape for a, b in zip(ours, eager.maps, strict=True))
    if not same:
        raise Refused(
            f"{type(model).__name__} computes {len(ours)} maps and reports {len(eager.maps)}, or in other shapes: what "
            "they are cannot be told. It is not captured."
        )
    error = max((a.float() - b.float()).abs().max().item() for a, b in zip(ours, eager.maps, strict=True))
    rows = max((map_.float().sum(-1) - 1).abs().max().item() for map_ in ours)
    modules = dict.fromkeys(site.module for site in survey(model).sites)

    def narrowed(found: Softmax) -> Tensor:
        seen = narrow(*found.weights.shape[2:], only, found.weights.device)
        return seen.to(found.weights.dtype).expand_as(found.weights)

    with implementation(model, "eager"), watched(model, narrowed, modules):
        changed = final(model(**inputs))
    return Found(result(error, max(1e-5, torch.finfo(ours[0].dtype).eps)), rows, captured, changed)
