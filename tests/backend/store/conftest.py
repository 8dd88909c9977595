"""Libraries of the tests of this room."""

from __future__ import annotations

import pytest

from backend.store import Library


@pytest.fixture(scope="module")
def shared_library(tmp_path_factory) -> Library:
    """A library for the tests of one file that only read."""
    return Library(tmp_path_factory.mktemp("shared"))


@pytest.fixture
def library(tmp_path) -> Library:
    return Library(tmp_path / "library")
