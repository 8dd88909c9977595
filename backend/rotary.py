"""The rotary embedding of a model: how queries and keys of a layer were turned by their position, and back."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from backend.capture import capture
from backend.models import LoadedModel
from backend.probes import probe_inputs
from backend.sites import survey
from kernels.measures import NOTHING

CLOSE = 1e-3  # of the largest entry: turned by hand and turned by the model must agree so well


@dataclass(frozen=True, eq=False)
class Rotary:
    """Rotation of halves (feature i with feature i + R/2), of the first R features of a head."""

    frequency: Tensor  # [R / 2], radians per token
    factor: float = 1.0  # cos and sin are multiplied by it (some long-context variants)

    def angles(self, start: int, count: int) -> tuple[Tensor, Tensor]:
        """cos and sin, [count, R]."""
        place = torch.arange(start, start + count, dtype=torch.float64)
        angle = place[:, None] * self.frequency.double()[None]
        angle = torch.cat([angle, angle], -1)
        return (angle.cos() * self.factor).float(), (angle.sin() * self.factor).float()

    def rotate(self, states: Tensor, start: int) -> Tensor:
        """[..., n, D] as they are at positions start, start + 1 ..."""
        return self._turn(states, start, 1.0, 1.0)

    def unrotate(self, states: Tensor, start: int) -> Tensor:
        """What `rotate` made of: [..., n, D]."""
        return self._turn(states, start, -1.0, 1 / self.factor**2)

    def _turn(self, states: Tensor, start: int, sign: float, size: float) -> Tensor:
        wide = 2 * len(self.frequency)
        cos, sin = (part.to(states.device) for part in self.angles(start, states.shape[-2]))
        turned, rest = states[..., :wide], states[..., wide:]
        half = torch.cat([-turned[..., wide // 2 :], turned[..., : wide // 2]], -1)
        return torch.cat([(turned * cos + sign * half * sin) * size, rest], -1)

    def mean_rotation(self, start: int, count: int, features: int | None = None) -> Tensor:
        """The mean over positions start .. start + count - 1 of the rotation as a matrix: [D, D]."""
        wide = 2 * len(self.frequency)
        cos, sin = (part.mean(0) for part in self.angles(start, count))
        matrix = torch.eye(features or wide)
        place = torch.arange(wide // 2)
        matrix[:wide, :wide] = torch.diag(cos)
        matrix[place, place + wide // 2] = -sin[: wide // 2]
        matrix[place + wide // 2, place] = sin[wide // 2 :]
        return matrix


def rotary_of(model: LoadedModel) -> Rotary | None:
    """The rotary embedding of a model that has one for all its layers, checked against what the model does; else None.

    None too where keys are turned in another way (pairs of neighbours, several bases), which is not known here.
    """
    parts = {
        id(module): module
        for module in model.model.modules()
        if isinstance(getattr(module, "inv_freq", None), Tensor) and module.inv_freq.ndim == 1
    }
    if len({tuple(part.inv_freq.tolist()) for part in parts.values()}) != 1:
        return None
    part = next(iter(parts.values()))
    found = Rotary(part.inv_freq.detach().float().cpu(), float(getattr(part, "attention_scaling", 1.0)))
    return found if agrees(model, found) else None


@torch.no_grad()
def agrees(model: LoadedModel, rotary: Rotary) -> bool:
    """Whether the keys before the embedding, turned by hand, are the keys that attention gets, in every layer."""
    before: dict[str, Tensor] = {}
    hooks = []
    for site in survey(model.model).sites:
        source = before_rotation(site.module)
        if source is None:
            return False

        def keep(module: nn.Module, args: tuple, output: Tensor, name: str = site.info.module) -> None:
            before[name] = output

        hooks.append(source.register_forward_hook(keep))
    try:
        with capture(model, NOTHING) as layers:
            model.model(**{**probe_inputs(model.model), "use_cache": False})
    finally:
        for hook in hooks:
            hook.remove()
    for layer in layers:
        raw = before[layer.info.module]
        plain = raw if raw.ndim == 4 else raw.reshape(*raw.shape[:2], -1, layer.info.head_dim)
        if plain.shape[1] == layer.key.shape[2]:
            plain = plain.transpose(1, 2)
        if plain.shape != layer.key.shape:
            return False
        apart = (rotary.rotate(plain[0].float().cpu(), 0) - layer.key[0].float().cpu()).abs().max()
        if not bool(apart <= CLOSE * layer.key.float().abs().max().cpu()):
            return False
    return True


def before_rotation(module: nn.Module) -> nn.Module | None:
    """The part of an attention module whose output is its keys before the embedding: norm or projection."""
    for name in ("k_norm", "k_proj"):
        part = getattr(module, name, None)
        if isinstance(part, nn.Module):
            return part
    return None
