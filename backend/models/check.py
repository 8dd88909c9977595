"""The self-check of a model: are the maps read here the ones the model itself computes?

On a short probe: maps equal the model's own eager maps, rows add up to what they must, logits are those of an ordinary
run, and changing the map changes the logits (so that what is shown is what the model uses).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import torch
from torch import Tensor, nn

from backend.attention import Call, implementation, switched
from backend.errors import Refused
from backend.families import family_of, steady
from backend.models.check_dense import eager_maps, run_watched
from backend.models.checked import Eager, Found, final, narrow, result
from backend.probes import probe_inputs
from backend.sites import survey
from kernels.api import attend, weights
from kernels.measures import NOTHING

PROBE = 16
COPIES = 3  # of the probe in one pass, see run_captured
# Of the logits, relative to the largest; or four times what the eager and the ordinary run differ by. Rounding to half
# precision is amplified from layer to layer: there this finds gross faults, and the maps are compared layer by layer.
LOGITS = {torch.float16: 2e-2, torch.bfloat16: 0.15}  # float32: 1e-4
ROWS = {torch.bfloat16: 4e-3}  # a row's sum; float32 and float16: 1e-3


@torch.no_grad()
def self_check(model: nn.Module) -> dict:
    """The results by name, each with its error and tolerance; Refused where one fails, with the numbers."""
    dense = survey(model).dense
    inputs = probe_inputs(model, PROBE)
    ordinary = run_ordinary(model, inputs)
    if not bool(torch.isfinite(ordinary).all()):
        raise Refused(
            f"{type(model).__name__} in {model.dtype} gives NaN or infinity on a probe of {PROBE} tokens: damaged "
            "weights, or a type too small for them. Load it as float32 or bfloat16."
        )
    eager = eager_maps(model, inputs) if dense else run_eager(model, inputs)
    run = run_watched if dense else run_captured
    largest = ordinary.abs().max().item() or 1.0

    def apart(logits: Tensor) -> float:
        return (logits - ordinary).abs().max().item() / largest

    found = run(model, inputs, eager)
    own, captured, changed = apart(eager.logits), apart(found.captured), apart(found.changed)
    own = own if own == own else 0.0  # the eager code overflows
    noise = max(own, captured)
    if changed <= 2 * noise:  # every head looks at its own token alone anyway
        changed = apart(run(model, inputs, eager, only="first").changed)
    family = family_of(model.config.get_text_config().model_type)
    checks = {
        "family": family.title if family else None,
        "status": "in the list" if family else "checked, not in the list",
        "maps_equal_eager": found.equal,
        "rows_add_up": result(found.row_error, ROWS.get(model.dtype, 1e-3)),
        "logits_unchanged": result(captured, max(LOGITS.get(model.dtype, 1e-4), 4 * own)),
        "map_is_used": {"error": changed, "passed": changed > noise},
    }
    failed = [name for name, value in checks.items() if isinstance(value, dict) and not value["passed"]]
    if failed:
        numbers = ", ".join(f"{name}: {checks[name]}" for name in failed)
        raise Refused(f"The maps of {type(model).__name__} cannot be trusted here: {numbers}. It is not captured.")
    return checks


def run_ordinary(model: nn.Module, inputs: dict) -> Tensor:
    """What the model answers without us."""
    try:
        with steady(model):
            return final(model(**inputs))
    except (RuntimeError, ValueError, TypeError, IndexError, KeyError, AttributeError) as error:
        raise Refused(f"{type(model).__name__} does not run on a probe of {PROBE} tokens: {error}") from error


def run_eager(model: nn.Module, inputs: dict) -> Eager:
    """The model's own maps, and the residual stream in front of every block."""
    maps: list[Tensor | None] = []
    streams: list[Tensor] = []

    def keep_map(module: nn.Module, args: tuple, output) -> None:
        found = [part for part in (output if isinstance(output, tuple) else ()) if isinstance(part, Tensor)]
        maps.append(next((part for part in reversed(found) if part.ndim == 4), None))

    def keep_stream(block: nn.Module, args: tuple) -> None:
        streams.append(args[0] if args and isinstance(args[0], Tensor) else None)

    hooks = [module.register_forward_hook(keep_map) for module in sites(model, "module")]
    hooks += [block.register_forward_pre_hook(keep_stream) for block in sites(model, "block")]
    with hooked(hooks), implementation(model, "eager"):
        return Eager(maps, streams, final(model(**inputs)))


def sites(model: nn.Module, part: str) -> list[nn.Module]:
    """The attention modules, or the blocks that hold them, each once."""
    found = (getattr(site, part) for site in survey(model).sites)
    return [module for module in dict.fromkeys(found) if module is not None]


@contextmanager
def hooked(hooks: list) -> Iterator[None]:
    """Remove the hooks on exit."""
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def run_captured(model: nn.Module, inputs: dict, eager: Eager, *, only: str = "itself") -> Found:
    """Three copies of the probe in one pass, which costs little more than one.

    The first is captured as any prompt is. The second's blocks get the residual streams of the eager run, so that
    differences do not grow from layer to layer: its maps are compared with the eager ones. In the third every token
    sees only "itself", or only the "first".
    """
    streams, places = iter(eager.streams), iter(range(len(eager.maps)))
    worst: dict = result(0.0, 1.0)
    rows = 0.0

    def enter(block: nn.Module, args: tuple):
        stream = next(streams)
        if stream is None or args[0].shape[0] != COPIES or not bool(stream.isfinite().all()):
            return None
        return (torch.cat([args[0][:1], stream, args[0][2:]]), *args[1:])

    def handler(call: Call) -> Tensor:
        nonlocal worst, rows
        plain, compared, changed = (sample_of(call, number) for number in range(COPIES))
        place = next(places, None)
        found, row_error, output = compare_map(compared, None if place is None else eager.maps[place])
        rows = max(rows, row_error)
        if found["error"] / found["tolerance"] >= worst["error"] / worst["tolerance"]:
            worst = found
        return torch.cat([attended(plain), output, attended(narrowed(changed, only))])

    tripled = {
        name: value.repeat(COPIES, *[1] * (value.ndim - 1)) if isinstance(value, Tensor) else value
        for name, value in inputs.items()
    }
    hooks = [block.register_forward_pre_hook(enter) for block in sites(model, "block")]
    with hooked(hooks), switched(model, handler):
        logits = final(model(**tripled))
    return Found(worst, rows, logits[:1], logits[2:])


def sample_of(call: Call, number: int) -> Call:
    """One sample of a batch of COPIES."""
    own = slice(number, number + 1)
    batched = {
        name: value[own]
        for name in ("key_padding", "row_padding", "mask", "key_bias", "row_bias", "bias")
        if (value := getattr(call.score, name)) is not None and value.shape[0] == COPIES
    }
    return Call(call.module, call.query[own], call.key[own], call.value[own], replace(call.score, **batched))


def attended(call: Call) -> Tensor:
    return attend(call.query, call.key, call.value, call.score, NOTHING).output


def compare_map(call: Call, theirs: Tensor | None) -> tuple[dict, float, Tensor]:
    """Headwater's map of a call against the eager one, the largest error of a row's sum, and the call's output.

    What is left between them is the rounding of scores: a score s in a type of precision eps is off by up to
    s * eps / 2, and a weight by as much.
    """
    done = attend(call.query, call.key, call.value, call.score, replace(NOTHING, rows=True))
    whole = slice(0, call.query.shape[2]), slice(0, call.key.shape[2])
    ours = weights(call.query, call.key, call.score, done.lse, *whole)
    if theirs is not None and bool(theirs.isnan().any()):  # its eager code overflows in this type
        exact = attend(*(part.double() for part in (call.query, call.key, call.value)), call.score, NOTHING)
        theirs = weights(call.query.double(), call.key.double(), call.score, exact.lse, *whole)
    row_error = (ours.sum(-1) - (1 - done.measures["learned_sink_mass"])).abs().max().item()
    fits = theirs is not None and theirs.shape == ours.shape
    error = (ours.float() - theirs.float()).abs().max().item() if fits else float("inf")
    return result(error, map_tolerance(call)), row_error, done.output


def map_tolerance(call: Call) -> float:
    """How far two ways of computing this call's weights may lie apart in its type."""
    repeated = call.key.float().repeat_interleave(call.query.shape[1] // call.key.shape[1], dim=1)
    largest = (call.query.float() @ repeated.mT).abs().max().item() * abs(call.score.scale)
    eps = torch.finfo(call.query.dtype).eps
    return max(1e-5, eps) + largest * eps / 2


def narrowed(call: Call, only: str) -> Call:
    """The same call with every row seeing one key."""
    seen = narrow(call.query.shape[2], call.key.shape[2], only, call.query.device)
    return replace(call, score=replace(call.score, mask=seen[None, None]))
