"""The shelf of policies: which keys of a read text are kept. One file per policy, the folder is the registry.

To add one, add a file that defines `POLICY`, an instance of a subclass of Policy. Its name is the file's name.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from backend.policies.layer import Layer
from backend.policies.policy import Policy, Scored

__all__ = ["Layer", "Policy", "Scored", "all"]

HELPERS = {"layer", "policy"}


@cache
def _shelf() -> dict[str, Policy]:
    names = sorted(module.name for module in iter_modules(__path__) if module.name not in HELPERS)
    return {name: import_module(f"{__name__}.{name}").POLICY for name in names}


def all() -> dict[str, Policy]:
    """Every policy by name, in alphabetical order."""
    return dict(_shelf())
