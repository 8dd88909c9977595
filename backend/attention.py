"""The transformers attention function and its mask function, registered as one pair under the name "headwater".

`switched(model, handler)` makes every attention call of the model go through `handler` and puts back what it changed.
A function without its mask function would lose the padding; see `register`.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, PreTrainedConfig
from transformers.masking_utils import AttentionMaskInterface, prepare_padding_mask, sdpa_mask

from backend.errors import HeadwaterError, Refused
from backend.families import steady
from backend.masks import CompactMask, Rule, mask_of_tensor, read_rule
from kernels.api import attend
from kernels.measures import NOTHING
from kernels.score import ScoreSpec

NAME = "headwater"

# Keywords that models pass along and that do not change what attention computes.
HARMLESS = frozenset(
    {
        *("cache", "cache_position", "deterministic", "layer_idx", "logits_to_keep", "max_length_k", "max_length_q"),
        *("num_items_in_batch", "output_attentions", "output_hidden_states", "output_router_logits"),
        *("past_key_value", "past_key_values", "position_embeddings", "position_ids", "return_dict"),
        *("sliding_window", "target_dtype", "token_type_ids", "training", "use_cache"),
    }
)


@dataclass(frozen=True, eq=False)
class Call:
    """One attention call of a running model."""

    module: nn.Module
    query: Tensor  # [B, H, Nq, D]
    key: Tensor  # [B, Hk, Nk, D]
    value: Tensor  # [B, Hk, Nk, Dv]
    score: ScoreSpec


Handler = Callable[[Call], Tensor]  # returns the output [B, H, Nq, Dv]

_handlers: weakref.WeakKeyDictionary[nn.Module, Handler] = weakref.WeakKeyDictionary()
_busy: weakref.WeakSet[nn.Module] = weakref.WeakSet()
_busy_lock = threading.Lock()
_turns: weakref.WeakKeyDictionary[nn.Module, threading.RLock] = weakref.WeakKeyDictionary()


def register() -> None:
    """Make transformers know the pair. Doing it twice is harmless."""
    AttentionInterface.register(NAME, attention)
    AttentionMaskInterface.register(NAME, compact_mask)


def compact_mask(
    batch_size: int,
    q_length: int,
    kv_length: int,
    q_offset: int | Tensor = 0,
    kv_offset: int = 0,
    mask_function: Callable | None = None,
    attention_mask: Tensor | CompactMask | None = None,
    local_size: int | None = None,
    allow_is_causal_skip: bool = True,
    allow_is_bidirectional_skip: bool = False,
    use_vmap: bool = False,
    device: torch.device | str = "cpu",
    **kwargs,
) -> CompactMask:
    """The mask function of the pair: a CompactMask for every layer, never None.

    transformers allows a skip exactly where the mask is a function of positions alone; only then can a rule be read
    off samples. Everything else (packed prompts, picture blocks, masks of the caller) becomes a boolean mask.
    """
    if isinstance(attention_mask, CompactMask):
        return attention_mask
    first_query = int(q_offset) - int(kv_offset)  # position of query 0 among the keys
    key_padding = prepare_padding_mask(attention_mask, kv_length, kv_offset)
    if key_padding is not None:
        key_padding = key_padding[:, kv_offset : kv_offset + kv_length].bool()
    rule = None
    if (allow_is_causal_skip or allow_is_bidirectional_skip) and not use_vmap:
        rule = read_rule(mask_function, batch_size, int(kv_offset) + kv_length, local_size, device)
    end, visible, keys = first_query + q_length, None, kv_length
    if rule is not None and rule.causal:
        keys = min(kv_length, end)  # slots of a fixed-size cache behind the last query hold nothing yet
    left_padded = key_padding is not None and not bool(key_padding[:, 0].all())
    if rule is None or (rule.causal and keys != end) or (rule.chunk is not None and left_padded):
        rule = Rule(causal=False)
        place = {"q_offset": q_offset, "kv_offset": kv_offset, "device": device, "allow_is_causal_skip": False}
        pattern = {"mask_function": mask_function, "attention_mask": attention_mask, "use_vmap": use_vmap}
        visible = sdpa_mask(batch_size, q_length, kv_length, **place, **pattern)
        keys = end if end < kv_length and not bool(visible[..., end:].any()) else kv_length
        visible = visible[..., :keys]
    if key_padding is not None:
        key_padding = None if bool(key_padding[:, :keys].all()) else key_padding[:, :keys]
    return CompactMask((batch_size, 1, q_length, kv_length), rule, keys, key_padding, visible)


def attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | CompactMask | None,
    *,
    scaling: float | None = None,
    dropout: float = 0.0,
    softcap: float | None = None,
    position_bias: Tensor | None = None,
    s_aux: Tensor | None = None,
    is_causal: bool | None = None,
    **kwargs,
) -> tuple[Tensor, None]:
    """The attention function of the pair: describes the call, lets the handler compute it. Output [B, Nq, H, Dv]."""
    refuse_unknown(module, kwargs)
    if dropout:
        raise Refused(f"{type(module).__name__} runs with dropout {dropout}: call model.eval() before the capture.")
    if is_causal is None:
        is_causal = bool(getattr(module, "is_causal", True))
    terms = {
        "scale": query.shape[-1] ** -0.5 if scaling is None else float(scaling),
        "softcap": softcap,
        "sink": None if s_aux is None else s_aux.detach().float(),
    }
    score, keys = describe(query, key, attention_mask, is_causal, position_bias, terms)
    call = Call(module, query, key[:, :, :keys], value[:, :, :keys], score)
    output = _handlers.get(module, plain)(call)
    return output.transpose(1, 2).contiguous(), None


def plain(call: Call) -> Tensor:
    """Attention of a module that nobody watches (another model that shares the configuration object)."""
    return attend(call.query, call.key, call.value, call.score, NOTHING).output


def refuse_unknown(module: nn.Module, kwargs: dict) -> None:
    """Refuse keywords that may change what attention means."""
    unknown = {k: v for k, v in kwargs.items() if k not in HARMLESS and v is not None and v is not False}
    if unknown:
        raise Refused(
            f"{type(module).__name__} passes {', '.join(sorted(unknown))} to its attention, which may change the "
            "weights and is not understood here. This model cannot be captured."
        )


def describe(
    query: Tensor,
    key: Tensor,
    mask: Tensor | CompactMask | None,
    is_causal: bool,
    position_bias: Tensor | None,
    terms: dict,
) -> tuple[ScoreSpec, int]:
    """The call as a ScoreSpec, and how many keys it really has."""
    n_query, n_key = query.shape[2], key.shape[2]
    bias = None
    if isinstance(mask, CompactMask):
        keys = min(mask.keys, n_key)
        specify = mask.score
    elif mask is None:
        # As sdpa reads it: rows and keys start together, what lies behind the last row is empty.
        causal = is_causal and n_query > 1
        keys = n_query if causal and n_key > n_query else n_key
        specify = CompactMask((query.shape[0], 1, n_query, n_key), Rule(causal), keys).score
    elif mask.ndim == 4:
        keys = n_key
        visible, bias = mask_of_tensor(mask, n_query, n_key)
        specify = CompactMask((query.shape[0], 1, n_query, n_key), Rule(False), keys, visible=visible).score
    else:
        raise Refused(f"An attention mask with {mask.ndim} axes came, 4 were expected. This model cannot be captured.")
    if position_bias is not None and bool(position_bias.any()):  # T5 gives zeros to its cross-attention
        position_bias = position_bias[..., :keys]
        distances = None if bias is not None else by_distance(position_bias)
        if distances is not None:
            terms = {**terms, "bias_by_distance": distances}
        else:
            bias = position_bias if bias is None else bias + position_bias
    return specify(query.device, bias=bias, **terms), keys


def by_distance(bias: Tensor) -> Tensor | None:
    """[H, Nq + Nk - 1] of a bias [1, H, Nq, Nk] that depends on row - key alone, else None."""
    if bias.shape[0] != 1:
        return None
    table = bias[0]  # [H, Nq, Nk]
    line = torch.cat([table[:, 0].flip(-1), table[:, 1:, 0]], dim=-1)  # index (row - key) + Nk - 1
    bands = line.flip(-1).unfold(-1, table.shape[2], 1)  # [H, Nq, Nk], last row first
    return line.contiguous() if torch.equal(bands, table.flip(1)) else None


@contextmanager
def switched(model: nn.Module, handler: Handler) -> Iterator[None]:
    """Send every attention call of `model` through `handler`; on exit everything is as before, also after an error."""
    register()
    with implementation(model, NAME):
        modules = list(model.modules())
        try:
            for module in modules:
                _handlers[module] = handler
            yield
        finally:
            for module in modules:
                _handlers.pop(module, None)


def turn(model: nn.Module) -> threading.RLock:
    """Held by the thread that runs a model in a state of our own, so that nobody's pass goes through another's run."""
    with _busy_lock:
        return _turns.setdefault(model, threading.RLock())


@contextmanager
def implementation(model: nn.Module, name: str) -> Iterator[None]:
    """Run `model` with the named attention implementation in every part, evaluating and without gradients.

    Configurations and training flags are put back one by one to what they were. Other threads wait for their turn.
    """
    with turn(model), steady(model), _switched_to(model, name):
        yield


@contextmanager
def _switched_to(model: nn.Module, name: str) -> Iterator[None]:
    with _busy_lock:
        if model in _busy:
            raise HeadwaterError("This model is being captured already. Wait until that run is done.")
        _busy.add(model)
    configs = {
        id(config): config
        for m in model.modules()
        if isinstance(config := getattr(m, "config", None), PreTrainedConfig)
    }
    before = [(config, config._attn_implementation_internal) for config in configs.values()]
    training = [module for module in model.modules() if module.training]
    try:
        for config, _ in before:
            config._attn_implementation_internal = name  # the public setter would also write into the parts' own
        for module in training:
            module.training = False
        with torch.no_grad():
            yield
    finally:
        for config, value in before:
            config._attn_implementation_internal = value
        for module in training:
            module.training = True
        with _busy_lock:
            _busy.discard(model)
