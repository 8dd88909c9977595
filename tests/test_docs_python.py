"""The examples of docs/python.md run as they stand there."""

import re

import pytest

from backend.models import available
from backend.settings import PROJECT
from backend.store import Library

TEXT = (PROJECT / "docs" / "python.md").read_text("utf-8")
EXAMPLES = {
    re.match(r"[A-Za-z]+", section)[0]: code
    for section in TEXT.split("\n## ")[1:]
    for code in re.findall(r"```python\n(.*?)```", section, re.DOTALL)
}
LAST_LINES = {  # example -> what its last line prints
    "Capture": r"tensor\(\[1\.0000, 1\.0000",
    "Analyse": r"\S",
    "Library": r"'induction': 0\.\d+",
    "Study": r"^82$",
}


def test_there_are_four_examples():
    assert list(EXAMPLES) == list(LAST_LINES)
    assert all(len(code.splitlines()) <= 24 for code in EXAMPLES.values()), "short enough to be read"


@pytest.mark.skipif(
    "smollm2-135m-instruct" not in [choice.name for choice in available()], reason="the model is not installed"
)
@pytest.mark.parametrize("name", LAST_LINES)
def test_an_example_runs(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    exec(compile(EXAMPLES[name], f"docs/python.md, {name}", "exec"), {})
    printed = capsys.readouterr().out.strip().splitlines()
    assert re.search(LAST_LINES[name], printed[-1]), printed
    if name in ("Library", "Study"):
        entries = Library(tmp_path / "my-analyses").list()
        assert [entry.type for entry in entries] == ["analysis" if name == "Library" else "study"]
