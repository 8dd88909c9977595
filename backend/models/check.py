"""The self-check of a model: are the maps read here the ones the model itself computes?

On a short probe: maps equal the model's own eager maps, rows add up to what they must, logits are those of an ordinary
run, and changing the map changes the logits (so that what is shown is what the model uses).
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from backend.attention import Call, implementation, switched
from backend.errors import Refused
from backend.families import family_of
from backend.sites import probe_inputs, survey
from kernels.api import attend, weights
from kernels.measures import NOTHING

# Largest accepted error per dtype: (maps, sum of a row, logits relative to their largest).
TOLERANCES = {torch.float32: (1e-4, 1e-4, 1e-4), torch.float64: (1e-4, 1e-4, 1e-4)}
HALF_TOLERANCES = (5e-2, 4e-3, 5e-2)
PROBE = 16


@torch.no_grad()
def self_check(model: nn.Module) -> dict:
    """The results by name, each with its error and tolerance; Refused where one fails, with the numbers."""
    survey(model)
    inputs = probe_inputs(model, PROBE)
    ordinary = final(model(**inputs))
    if not bool(torch.isfinite(ordinary).all()):
        raise Refused(
            f"{type(model).__name__} in {model.dtype} gives NaN or infinity on a probe of {PROBE} tokens: damaged "
            "weights, or a type too small for them. Load it as float32 or bfloat16."
        )
    own = eager_maps(model, inputs)
    maps, rows, logits = captured_maps(model, inputs)
    perturbed = perturbed_logits(model, inputs)
    largest = ordinary.abs().max().item() or 1.0
    for_maps, for_rows, for_logits = TOLERANCES.get(model.dtype, HALF_TOLERANCES)
    family = family_of(model.config.get_text_config().model_type)
    checks = {
        "family": family.title if family else None,
        "status": "in the list" if family else "checked, not in the list",
        "maps_equal_eager": result(largest_difference(maps, own), for_maps),
        "rows_add_up": result(rows, for_rows),
        "logits_unchanged": result((logits - ordinary).abs().max().item() / largest, for_logits),
        "map_is_used": {
            "error": (perturbed - ordinary).abs().max().item() / largest,
            "passed": bool((perturbed != ordinary).any()),
        },
    }
    failed = [name for name, value in checks.items() if isinstance(value, dict) and not value["passed"]]
    if failed:
        numbers = ", ".join(f"{name}: {checks[name]}" for name in failed)
        raise Refused(f"The maps of {type(model).__name__} cannot be trusted here: {numbers}. It is not captured.")
    return checks


def result(error: float, tolerance: float) -> dict:
    return {"error": error, "tolerance": tolerance, "passed": bool(error <= tolerance)}


def final(output) -> Tensor:
    """The logits, or the last hidden states of a model without a head."""
    logits = getattr(output, "logits", None)
    return (output.last_hidden_state if logits is None else logits).float()


def eager_maps(model: nn.Module, inputs: dict) -> list[Tensor | None]:
    """The model's own maps [B, H, Nq, Nk] per site, from its eager code; None where a module keeps them to itself."""
    maps: list[Tensor | None] = []

    def keep(module: nn.Module, args: tuple, output) -> None:
        found = [part for part in (output if isinstance(output, tuple) else ()) if isinstance(part, Tensor)]
        maps.append(next((part for part in reversed(found) if part.ndim == 4), None))

    modules = dict.fromkeys(site.module for site in survey(model).sites)
    hooks = [module.register_forward_hook(keep) for module in modules]
    try:
        with implementation(model, "eager"):
            model(**inputs)
    finally:
        for hook in hooks:
            hook.remove()
    return maps


def captured_maps(model: nn.Module, inputs: dict) -> tuple[list[Tensor], float, Tensor]:
    """The maps that Headwater would show, the largest error of a row's sum, and the logits."""
    maps: list[Tensor] = []
    worst = 0.0

    def handler(call: Call) -> Tensor:
        nonlocal worst
        done = attend(call.query, call.key, call.value, call.score, replace(NOTHING, rows=True))
        n_query, n_key = call.query.shape[2], call.key.shape[2]
        maps.append(weights(call.query, call.key, call.score, done.lse, slice(0, n_query), slice(0, n_key)))
        expected = 1 - done.measures["learned_sink_mass"]
        worst = max(worst, (maps[-1].sum(-1) - expected).abs().max().item())
        return done.output

    with switched(model, handler):
        logits = final(model(**inputs))
    return maps, worst, logits


def perturbed_logits(model: nn.Module, inputs: dict) -> Tensor:
    """The logits when every token sees only itself."""

    def handler(call: Call) -> Tensor:
        n_query, n_key = call.query.shape[2], call.key.shape[2]
        if n_query != n_key:
            return attend(call.query, call.key, call.value, call.score, NOTHING).output
        itself = torch.eye(n_query, dtype=torch.bool, device=call.query.device)[None, None]
        return attend(call.query, call.key, call.value, replace(call.score, mask=itself), NOTHING).output

    with switched(model, handler):
        return final(model(**inputs))


def largest_difference(maps: list[Tensor], own: list[Tensor | None]) -> float:
    """Over all sites; infinity where the model gives no map or another number of maps."""
    if len(maps) != len(own) or any(theirs is None for theirs in own):
        return float("inf")
    return max((ours.float() - theirs.float()).abs().max().item() for ours, theirs in zip(maps, own, strict=True))
