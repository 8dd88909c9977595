"""The badge claims no more than the stored checks show."""

import pytest

from pages.shared.panels.badge import MEANING, figures, state_of

CHECKS = {
    "family": "Llama",
    "status": "in the list",
    "maps_equal_eager": {"error": 7.1e-5, "tolerance": 1e-4, "passed": True},
    "map_is_used": {"error": 0.94, "passed": True},
}


@pytest.mark.parametrize(
    ("checks", "implementation", "state"),
    [
        (CHECKS, "tiled", "checked"),
        ({**CHECKS, "status": "checked, not in the list"}, "tiled", "not in the list"),
        (CHECKS, "dense", "dense capture"),
        ({}, "tiled", "unchecked"),
        ({"status": "in the list"}, "tiled", "unchecked"),
    ],
)
def test_states(checks, implementation, state):
    assert state_of(checks, implementation) == state
    assert state in MEANING


def test_figures_name_what_was_measured_and_what_was_allowed():
    assert figures(CHECKS) == [
        "Family: Llama",
        "Largest difference from the model's own maps, as a weight: 7.1e-05 (allowed 1.0e-04)",
        "Change of the output when every token sees only itself, relative to the largest: 9.4e-01",
    ]
    assert figures({"strange": "text", "x": {"error": "<b>"}}) == []
