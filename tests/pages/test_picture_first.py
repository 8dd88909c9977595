"""What lies below the picture waits for it where there is a browser, and never for long."""

from __future__ import annotations

from typing import ClassVar

import pytest
import streamlit as st

from backend.painted import painted
from pages.shared import picture_first
from pages.shared.picture_first import KEY, after_picture, announce


class Context:
    headers: ClassVar = {"Host": "localhost"}


@pytest.fixture
def state(monkeypatch):
    """A session of a browser, and how long its script waited: a list of steps."""
    kept, steps = {}, []
    monkeypatch.setattr(st, "session_state", kept)
    monkeypatch.setattr(st, "context", Context)
    monkeypatch.setattr(painted, "wait", lambda name, seconds: bool(steps.append(name)) or len(steps) == 3)
    kept["steps"] = steps
    return kept


def test_a_picture_keeps_its_name_until_another_is_shown(state):
    first = announce("map 0.0")
    assert announce("map 0.0") == first != announce("map 0.1")


def test_the_script_waits_for_the_announced_picture_once(state):
    name = announce("map 0.0")
    after_picture()
    assert state["steps"] == [name] * 3
    announce("map 0.0")
    after_picture()
    assert len(state["steps"]) == 3, "the same picture is there already"


def test_nothing_is_waited_for_without_picture_or_browser(state, monkeypatch):
    after_picture()
    announce("map 0.0")
    monkeypatch.setattr(Context, "headers", {})
    after_picture()
    assert state["steps"] == [] and state[KEY]["wait"] == picture_first.FIRST
