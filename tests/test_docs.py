"""The docs say what the code says."""

from pathlib import Path

import pytest

from backend.settings import PROJECT, SETTINGS

DOCS = Path(PROJECT) / "docs"


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_every_setting_is_documented_with_its_default_and_meaning(setting):
    default = "cache_db" if setting.name == "HEADWATER_DATA" else setting.default
    assert f"| `{setting.name}` | `{default}` | {setting.help} |" in (DOCS / "operating.md").read_text("utf-8")


def test_readme_names_the_two_commands():
    readme = (Path(PROJECT) / "README.md").read_text("utf-8")
    assert "make run" in readme
    assert "make test" in readme
