"""Labels of heads: one rule per file, the folder is the registry.

To add one, add a file that defines LABEL and put its name into ORDER, in which labels are shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from backend.head_labels.label import Condition, HeadLabel

__all__ = ["Condition", "HeadLabel", "all", "conditions", "judge"]

HELPERS = {"label"}
ORDER = ("sink", "previous_token", "induction", "duplicate", "delimiter", "local", "broad")


@cache
def _shelf() -> dict[str, HeadLabel]:
    names = [module.name for module in iter_modules(__path__) if module.name not in HELPERS]
    names.sort(key=lambda name: (ORDER.index(name) if name in ORDER else len(ORDER), name))
    return {name: import_module(f"{__name__}.{name}").LABEL for name in names}


def all() -> dict[str, HeadLabel]:
    """Every label by name, in the order in which they are shown."""
    return dict(_shelf())


def conditions() -> dict[str, Condition]:
    """Every condition by the name of its limit."""
    return {condition.name: condition for label in all().values() for condition in label.conditions}


def judge(values: Mapping[str, float], limits: Mapping[str, float] | None = None) -> dict[str, float]:
    """label -> the value of its first condition, for the labels that hold.

    values: condition name -> value of one head, NaN where undefined. limits: those that differ from the defaults.
    """
    limits = limits or {}

    def holds(condition: Condition) -> bool:
        value = values.get(condition.name, float("nan"))
        return condition.holds(value, limits.get(condition.name, condition.limit))

    return {
        name: values[label.conditions[0].name]
        for name, label in all().items()
        if label.conditions and [holds(condition) for condition in label.conditions].count(False) == 0
    }
