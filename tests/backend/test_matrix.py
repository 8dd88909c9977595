"""Every text architecture of the installed transformers: proved, dense, refused with a reason, or not built small.

The whole matrix is a long test; every fourth architecture is tried in every run of the tests. After a new release of
transformers, HEADWATER_WRITE_DOCS=1 pytest -m long tests/backend/test_matrix.py tries them all and writes
docs/models.md anew.
"""

import os
import re
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.backend import matrix

DOC = Path(__file__).resolve().parents[2] / "docs" / "models.md"
BEGIN, END = "<!-- matrix -->\n", "<!-- end of matrix -->"
PART = 4  # every fourth one
ROW = re.compile(r"^\| `([^`]+)` \| (proved|dense|refused|not built) \| (\d*) \| (\S*) \|", re.MULTILINE)


def documented() -> dict[str, tuple[str, str]]:
    """model type -> (result, number of maps) as docs/models.md says."""
    text = DOC.read_text("utf-8").split(BEGIN)[1].split(END)[0]
    return {name: (result, maps) for name, result, maps, _ in ROW.findall(text)}


def versions() -> str:
    return f"transformers {version('transformers')}, torch {version('torch').split('+')[0]}"


def reason(text: str) -> str:
    """One short line without what would break a table, or would differ from machine to machine."""
    text = re.sub(r"0x[0-9a-f]+|\d\.\d+(e-\d+)?", "...", text.split(": ", 1)[-1])
    return text.replace("|", "/").replace("<", "(").replace(">", ")")[:160]


def row(outcome: matrix.Outcome) -> str:
    error = "" if outcome.error is None else f"{outcome.error:.0e}"
    maps = outcome.maps or ""
    return f"| `{outcome.model_type}` | {outcome.result} | {maps} | {error} | {reason(outcome.reason)} |"


def write(outcomes: list[matrix.Outcome]) -> None:
    """Puts the table into docs/models.md."""
    text = DOC.read_text("utf-8")
    good = sum(outcome.result in ("proved", "dense") for outcome in outcomes)
    lines = [
        f"Tried with {versions()}: {len(outcomes)} architectures, {good} of them proved or dense.",
        "",
        "| type | result | maps | largest error | why not |",
        "|---|---|---|---|---|",
        *(row(outcome) for outcome in outcomes),
    ]
    before, rest = text.split(BEGIN)[0], text.split(END)[1]
    DOC.write_text(f"{before}{BEGIN}{chr(10).join(lines)}\n{END}{rest}", "utf-8")


def as_documented(outcome: matrix.Outcome) -> None:
    result, maps = documented()[outcome.model_type]
    found = (outcome.result, str(outcome.maps or ""))
    assert found == (result, maps), (
        f"{outcome.model_type}: {found}, docs/models.md says {(result, maps)}. {outcome.reason}"
    )


@pytest.mark.parametrize("model_type", matrix.text_types()[::PART])
def test_every_fourth_architecture_fares_as_documented(model_type):
    as_documented(matrix.try_one(model_type))


@pytest.mark.long
def test_every_architecture_fares_as_documented():
    outcomes = [matrix.try_one(model_type) for model_type in matrix.text_types()]
    if os.environ.get("HEADWATER_WRITE_DOCS") == "1":
        write(outcomes)
    for outcome in outcomes:
        as_documented(outcome)


def test_the_document_says_its_versions_and_at_least_eighty_can_be_shown():
    assert f"Tried with {versions()}" in DOC.read_text("utf-8")
    assert set(documented()) == set(matrix.text_types())
    assert sum(result in ("proved", "dense") for result, _ in documented().values()) >= 80
