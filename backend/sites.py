"""Where a model computes attention: found by running it once on a few tokens, not by guessing from names.

The survey of a model is kept as long as the model lives. It gives the attention layers in call order, the block each
belongs to, the output projection where it is a plain matrix, and the layers that do something else. A model past
transformers' attention interface is surveyed through its softmaxes (backend/dense.py).
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field, replace

from torch import Tensor, nn

from backend.attention import Call, implementation, switched
from backend.dense import Softmax, described, watched
from backend.errors import Refused
from backend.families import family_of, mixer_name, steady
from backend.probes import PROBE_TOKENS, is_encoder_decoder, probe_inputs
from backend.types import LayerInfo
from kernels.api import attend
from kernels.measures import NOTHING
from kernels.score import ScoreSpec

SIZES = ("heads", "key_heads", "head_dim", "value_dim")


@dataclass(eq=False)
class Site:
    """One attention call of a forward pass."""

    info: LayerInfo
    module: nn.Module
    block: nn.Module | None  # the layer that holds the module; its input is the residual stream
    causal: bool
    projection: nn.Module | None  # W_O where it is a plain matrix applied to the attention output
    length: tuple[int, int] = (0, 0)  # queries and keys of the probe; every prompt's, where a picture has one size
    factor: Tensor | None = field(default=None, repr=False)  # of W_O per head, see capture.output_norm
    stamp: tuple[int, int] | None = None  # the weights that the factor was made of


@dataclass(frozen=True, eq=False)
class Survey:
    """All sites of a model in call order, and every layer in order of its number."""

    sites: tuple[Site, ...]
    layers: tuple[LayerInfo, ...]
    dense: bool = False  # its softmaxes are watched, there are no queries and keys


_surveys: weakref.WeakKeyDictionary[nn.Module, Survey] = weakref.WeakKeyDictionary()


def survey(model: nn.Module) -> Survey:
    """The attention layers of `model`. Refused where it has none that can be captured."""
    if model not in _surveys:
        family = family_of(model.config.get_text_config().model_type)
        if family is not None and family.refusal:
            raise Refused(f"Models of type {model.config.model_type} cannot be captured: {family.refusal}.")
        with steady(model):
            _surveys[model] = surveyed(model, dense=family is not None and family.dense)
    return _surveys[model]


def surveyed(model: nn.Module, *, dense: bool) -> Survey:
    """Probe the model through the interface, or where it has no calls there (`dense`: known), through its softmaxes."""
    found, failure = [], None
    if not dense:
        try:
            found = probe(model)
        except Refused as error:
            failure = error
    dense = not found
    found = found or probe_softmaxes(model, failure)
    if not found:
        raise failure or Refused(no_sites(model))
    infos = number(model, found)
    modules = dict(model.named_modules())
    sites = [
        Site(info, one.module, modules.get(block_name(info.module)), one.causal, one.projection, one.length)
        for one, info in zip(found, infos, strict=True)
    ]
    return Survey(tuple(sites), with_other_layers(model, infos), dense)


@dataclass(eq=False)
class Found:
    """An attention call that a probe met."""

    module: nn.Module
    sizes: tuple[int, int, int, int]  # heads, key heads, head dim, value dim; 0 = not to be seen from outside
    window: int | None
    causal: bool
    length: tuple[int, int]
    projection: nn.Module | None = None


def probe(model: nn.Module) -> list[Found]:
    """Run a few tokens through the model: its calls of the attention interface, and where each one's output goes."""
    found: list[Found] = []
    outputs: list[Tensor] = []

    def handler(call: Call) -> Tensor:
        score = call.score
        window = score.window or score.chunk or (sum(score.around) + 1 if score.around else None)
        sizes = (call.query.shape[1], call.key.shape[1], call.query.shape[-1], call.value.shape[-1])
        found.append(Found(call.module, sizes, window, looks_back(score), (call.query.shape[2], call.key.shape[2])))
        output = attend(call.query, call.key, call.value, call.score, NOTHING).output
        # The layout that the attention function returns, so that what the model receives is a view of what is kept.
        outputs.append(output.transpose(1, 2).contiguous())
        return outputs[-1].transpose(1, 2)

    def reads_output(module: nn.Module, args: tuple) -> None:
        for number, output in enumerate(outputs):
            if args and isinstance(args[0], Tensor) and args[0].data_ptr() == output.data_ptr():
                found[number].projection = found[number].projection or module

    matrices = [
        module for name, module in model.named_modules() if is_plain_matrix(module) and "base_layer" not in name
    ]
    hooks = [module.register_forward_pre_hook(reads_output) for module in matrices]
    try:
        with switched(model, handler):
            run_probe(model)
    finally:
        for hook in hooks:
            hook.remove()
    return found


def looks_back(score: ScoreSpec) -> bool:
    """Whether no row sees a key behind it, by rule or by mask."""
    return score.causal or (score.mask is not None and not bool(score.mask.triu(1).any()))


def probe_softmaxes(model: nn.Module, failure: Refused | None) -> list[Found]:
    """The same for a model past the interface: the softmaxes of its own code."""
    found: list[Found] = []

    def note(one: Softmax) -> None:
        sizes = (one.scores.shape[1], one.scores.shape[1], 0, 0)
        found.append(Found(one.module, sizes, None, described(one).causal, tuple(one.scores.shape[2:])))

    try:
        with implementation(model, "eager"), watched(model, note):
            run_probe(model)
    except Refused:
        raise failure or Refused(no_sites(model)) from None
    return found


def run_probe(model: nn.Module) -> None:
    """A few tokens through the model; Refused where it does not take them."""
    try:
        model(**probe_inputs(model))
    except (RuntimeError, ValueError, TypeError, IndexError, KeyError, AttributeError) as error:
        raise Refused(f"A probe of {PROBE_TOKENS} tokens failed in {type(model).__name__}: {error}") from error


def is_plain_matrix(module: nn.Module) -> bool:
    """A weight matrix in floating point with nothing around it (not quantised, no adapter)."""
    return type(module) is nn.Linear or type(module).__name__ == "Conv1D"


def matrix_of(module: nn.Module) -> Tensor:
    """The weight of a plain matrix as [in, out]."""
    return module.weight.T if type(module) is nn.Linear else module.weight


def number(model: nn.Module, found: list[Found]) -> list[LayerInfo]:
    """LayerInfo of every call, in call order."""
    names = {module: name for name, module in model.named_modules()}
    infos = []
    for one in found:
        name = names[one.module]
        place = {"kind": kind_of(model, name), "layer": layer_number(one.module, name), "module": name}
        infos.append(
            LayerInfo(**place, attention="softmax", **dict(zip(SIZES, one.sizes, strict=True)), window_size=one.window)
        )
    if len({(info.kind, info.layer) for info in infos}) < len(infos):  # one module used by several layers (ALBERT)
        counts: dict[str, int] = {}
        for place, info in enumerate(infos):
            infos[place] = replace(info, layer=counts.get(info.kind, 0))
            counts[info.kind] = counts.get(info.kind, 0) + 1
    return infos


def kind_of(model: nn.Module, name: str) -> str:
    """ "self", or "encoder", "decoder", "cross" in an encoder-decoder."""
    if any(part in name for part in ("EncDecAttention", "encoder_attn", "crossattention")):
        return "cross"
    if not is_encoder_decoder(model):
        return "self"
    return "encoder" if "encoder" in name.split(".") else "decoder"


def layer_number(module: nn.Module, name: str) -> int:
    """The model's own number of the layer."""
    own = getattr(module, "layer_idx", None)
    numbers = [int(part) for part in name.split(".") if part.isdigit()]
    return own if isinstance(own, int) else (numbers[0] if numbers else 0)


def block_name(module: str) -> str | None:
    """The layer that holds an attention module: its name up to the last number."""
    parts = module.split(".")
    places = [place for place, part in enumerate(parts) if part.isdigit()]
    return ".".join(parts[: places[-1] + 1]) if places else None


def with_other_layers(model: nn.Module, infos: list[LayerInfo]) -> tuple[LayerInfo, ...]:
    """The attention layers and, at their own numbers, the layers beside them that do something else."""
    modules = dict(model.named_modules())
    blocks = {name for info in infos if (name := block_name(info.module))}
    others = []
    for stack in sorted({name.rpartition(".")[0] for name in blocks}):
        kinds = [info.kind for info in infos if info.module.startswith(stack + ".") and info.kind != "cross"]
        for index, block in modules[stack].named_children():
            if f"{stack}.{index}" not in blocks and index.isdigit() and kinds:
                name = f"{stack}.{index}"
                others.append(LayerInfo(kinds[0], int(index), name, mixer_name(block), 0, 0, 0, 0))
    return tuple(sorted([*infos, *others], key=lambda info: (info.kind, info.layer)))


def no_sites(model: nn.Module) -> str:
    """Why a model without a single captured call is refused."""
    return (
        f"{type(model).__name__} has no softmax attention that can be read: not one layer went through transformers' "
        "attention interface. Take a model of a family in docs/models.md."
    )
