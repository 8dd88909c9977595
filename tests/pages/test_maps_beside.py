"""Heads side by side and differences of two maps come from the address; what is not there is left out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from backend.store import Library
from pages.shared.panels import maps_beside as panel
from pages.shared.view_state import ViewState
from tests.stored import store


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    store(folder, id="one", layers=(0, 1, 2), exact=(0, 1))
    store(folder, id="twin", layers=(0, 1))
    store(folder, id="longer", n_tokens=30)
    return Library(folder)


@pytest.fixture
def shelf(library, monkeypatch):
    from backend.shelf import Shelf

    monkeypatch.setattr(panel, "shelf", lambda: Shelf(library.path))
    monkeypatch.setattr(panel, "owner", lambda: None)


def state(**more) -> ViewState:
    return ViewState(analysis="one", kind="self", layer=1, head=0).with_more(**more)


def test_pins_are_read_once_each_and_at_most_six(library):
    one = library.open("one")
    assert panel.pinned_heads(state(pins="2.3,0.1,2.3,9.9,x,1.7,-1.0, 0.2 "), one) == [(2, 3), (0, 1), (0, 2)]
    everything = ",".join(f"{layer}.{head}" for layer in range(3) for head in range(4))
    assert len(panel.pinned_heads(state(pins=everything), one)) == panel.MOST_PINS
    assert panel.pinned_heads(state(), one) == []


def test_the_chosen_head_does_not_stand_beside_itself(library):
    beside = panel.maps_beside(state(pins="1.0,2.3"), library.open("one"))
    assert [(other.layer, other.head, other.exact) for other in beside] == [(2, 3, False)]


def test_a_pin_is_set_and_taken_away(library, monkeypatch):
    chosen = []
    monkeypatch.setattr(panel, "select", lambda **change: chosen.append(change["pins"]))
    one = library.open("one")
    panel.toggle_pin(state(pins="2.3"), one, (0, 1))
    panel.toggle_pin(state(pins="2.3"), one, (2, 3))
    assert chosen == ["2.3,0.1", None]


def test_a_difference_is_of_two_heads_or_of_two_analyses_with_the_same_tokens(library, shelf):
    one = library.open("one")
    head = panel.map_against(state(minus="2.1"), one)
    assert (head.analysis, head.layer, head.head, head.title) == ("one", 2, 1, "")
    twin = panel.map_against(state(minus="twin"), one)
    assert (twin.analysis, twin.layer, twin.head) == ("twin", 1, 0) and twin.title
    for nothing in ("1.0", "7.0", "longer", "nowhere", "a b", ""):
        assert panel.map_against(state(minus=nothing), one) is None
    assert panel._alike(state(), one) == [("twin", twin.title)]


def test_what_is_not_there_is_left_out_of_the_address_and_said(library, shelf, monkeypatch):
    monkeypatch.setattr(panel, "open_study", library.open)
    one = library.open("one")
    fitted, notices = panel.fit_beside(state(pins="2.3,9.9,x, 0.1", minus="longer"), one)
    assert (fitted.more("pins"), fitted.more("minus")) == ("2.3,0.1", "")
    assert len(notices) == 2 and "'9.9, x'; they are left out" in notices[0] and "'longer'" in notices[1]
    for fits in ({"pins": "2.3,1.0", "minus": "2.1"}, {"minus": "1.0"}, {"minus": "twin"}, {}):
        assert panel.fit_beside(state(**fits), one) == (state(**fits), [])
    fitted, notices = panel.fit_beside(replace(state(), study="nowhere"), one)
    assert fitted.study is None and "There is no analysis 'nowhere' here" in notices[0]
