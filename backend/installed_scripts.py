"""Scripts for the browser that come with installed packages, found without importing the packages.

BertViz's views are scripts of its package; the two libraries they use come with packages of which nothing else is
needed (requirements-models.txt).
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

SCRIPTS = {  # name -> package, file in it
    "jquery": ("sphinxcontrib-jquery", "sphinxcontrib/jquery/jquery.js"),
    "d3": ("mpld3", "mpld3/js/d3.v5.min.js"),
    "head_view": ("bertviz", "bertviz/head_view.js"),
    "model_view": ("bertviz", "bertviz/model_view.js"),
    "neuron_view": ("bertviz", "bertviz/neuron_view.js"),
}
INSTALL = "Install it with: pip install --no-deps -r requirements-models.txt"


@cache
def script(name: str) -> bytes | None:
    """The bytes of a script; None where its package is not installed or has no such file."""
    path = path_of(name)
    return path.read_bytes() if path is not None else None


def path_of(name: str) -> Path | None:
    """Where a script lies."""
    if name not in SCRIPTS:
        return None
    package, file = SCRIPTS[name]
    try:
        path = Path(str(distribution(package).locate_file(file)))
    except PackageNotFoundError:
        return None
    return path if path.is_file() else None


def version_of(name: str) -> str:
    """The version of the package that a script comes with."""
    try:
        return distribution(SCRIPTS[name][0]).version
    except PackageNotFoundError:
        return ""


def missing(names: tuple[str, ...]) -> str | None:
    """A sentence that says which package is not there; None where all are."""
    packages = sorted({SCRIPTS[name][0] for name in names if path_of(name) is None})
    if not packages:
        return None
    return f"This view needs the package {' and '.join(packages)}, which is not installed. {INSTALL}"
