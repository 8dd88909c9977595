"""Shared ground of all tests. The first lines must stay first."""

import os

os.environ.setdefault("TRITON_INTERPRET", "1")  # read when triton is first imported
os.environ.setdefault("HF_HUB_OFFLINE", "1")  # tests never ask a hub
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
os.environ.setdefault(
    "HEADWATER_CONVERTED", str(ROOT / "cache_db" / "models")
)  # SmolLM2 is converted once, not per test
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

import pytest
import torch


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def data_folder(tmp_path_factory, monkeypatch) -> Path:
    """Every test has a data folder of its own; converted models are shared through the session's folder."""
    folder = tmp_path_factory.mktemp("data")
    monkeypatch.setenv("HEADWATER_DATA", str(folder))
    return folder


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """In CI a skipped browser test is a failed one: a page nobody opened is not a page that works."""
    report = yield
    if os.environ.get("CI") and item.get_closest_marker("browser") and report.skipped:
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} was skipped in CI: browser tests must run there"
    return report
