"""Times in plans, cards and estimates read the same everywhere."""

from __future__ import annotations

import pytest

from backend.duration import duration


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.0, "0.1 s"), (9.94, "9.9 s"), (42.4, "42 s"), (119.0, "119 s"), (150.0, "2 min"), (9000.0, "2.5 h")],
)
def test_a_time_is_told_as_exactly_as_an_estimate_is(seconds, words):
    assert duration(seconds) == words
