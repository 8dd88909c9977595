"""The docs say what the code says."""

from pathlib import Path

import pytest

from backend.settings import PROJECT, SETTINGS

DOCS = Path(PROJECT) / "docs"


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_every_setting_is_documented_with_its_default_and_meaning(setting):
    default = "cache_db" if setting.name == "HEADWATER_DATA" else setting.default
    assert f"| `{setting.name}` | `{default}` | {setting.help} |" in (DOCS / "operating.md").read_text("utf-8")


def test_no_other_setting_is_documented():
    rows = [
        line.split("|")[1].strip(" `")
        for line in (DOCS / "operating.md").read_text("utf-8").splitlines()
        if line.startswith("| `HEADWATER_")
    ]
    assert rows == [setting.name for setting in SETTINGS]


def test_readme_names_the_two_commands():
    readme = (Path(PROJECT) / "README.md").read_text("utf-8")
    assert "make run" in readme
    assert "make test" in readme


def test_labels_and_numbers_of_heads_are_documented_with_their_limits():
    from backend import head_labels, head_scores
    from pages.shared.panels.head_parts import PARTS

    text = (DOCS / "heads.md").read_text("utf-8")
    for name, label in head_labels.all().items():
        row = next(line for line in text.splitlines() if line.startswith(f"| `{name}` |"))
        for one in label.conditions:
            assert (
                f"{one.score}{' / its uniform value' if one.relative else ''} {'>' if one.above else '<'} {one.limit:g}"
                in row
            )
    assert all(f"`{name}`" in text for name in (*head_scores.all(), *PARTS))
