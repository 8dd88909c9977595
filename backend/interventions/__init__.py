"""The shelf of interventions: one file per kind, the folder is the registry.

An intervention is plain data: it says what is changed, where, and how much. `backend/intervene.py` checks a list of
them against a model and a prompt and applies them while the model runs. To add one, add a file that defines
`INTERVENTION`; its name is the file's name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from backend.errors import Refused
from backend.interventions.bias_keys import BiasKeys
from backend.interventions.edit_text import EditText
from backend.interventions.edit_tokens import EditTokens
from backend.interventions.gate import Gate
from backend.interventions.hide_keys import HideKeys
from backend.interventions.intervention import HeadEdit, Intervention, KeyEdit, PromptEdit
from backend.interventions.redistribute import Redistribute
from backend.interventions.scale_keys import ScaleKeys
from backend.interventions.target_share import TargetShare
from backend.interventions.temperature import Temperature
from backend.interventions.uniform import Uniform

__all__ = [
    "BiasKeys",
    "EditText",
    "EditTokens",
    "Gate",
    "HeadEdit",
    "HideKeys",
    "Intervention",
    "KeyEdit",
    "PromptEdit",
    "Redistribute",
    "ScaleKeys",
    "TargetShare",
    "Temperature",
    "Uniform",
    "all",
    "from_dict",
    "sentences",
]

HELPERS = {"intervention"}


@cache
def _shelf() -> dict[str, type[Intervention]]:
    names = sorted(module.name for module in iter_modules(__path__) if module.name not in HELPERS)
    return {name: import_module(f"{__name__}.{name}").INTERVENTION for name in names}


def all() -> dict[str, type[Intervention]]:
    """Every kind of intervention by name, in alphabetical order."""
    return dict(_shelf())


def from_dict(data: Mapping) -> Intervention:
    """The intervention that `to_dict` described. Refused for an unknown kind or field."""
    kinds = all()
    name = data.get("intervention")
    if name not in kinds:
        raise Refused(f"Intervention: expected one of {', '.join(kinds)}, got {name!r}.")
    known = {field.name for field in fields(kinds[name])}
    unknown = sorted(set(data) - known - {"intervention"})
    if unknown:
        raise Refused(f"Intervention {name}: unknown field {unknown[0]!r}; it has {', '.join(sorted(known))}.")
    try:
        return kinds[name](**{key: _frozen(value) for key, value in data.items() if key != "intervention"})
    except TypeError as error:  # a field without a default is missing
        raise Refused(f"Intervention {name}: {error}.") from None


def _frozen(value):
    """JSON's lists as tuples, at every depth."""
    return tuple(_frozen(part) for part in value) if isinstance(value, list | tuple) else value


def sentences(interventions: Iterable[Intervention]) -> list[str]:
    """What is changed, in words, one sentence each."""
    return [intervention.sentence() for intervention in interventions]
