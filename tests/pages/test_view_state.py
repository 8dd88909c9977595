"""Addresses: every view survives the round trip, and no address makes a page fail."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.map_sizes import MapSize
from pages.shared.view_state import Outline, ViewState, fit, fit_part, parse, to_query, without_defaults

OUTLINE = Outline(
    sites={"self": {layer: MapSize(heads=9, queries=50, keys=50) for layer in range(30)}},
    measures=frozenset({"entropy", "first_mass"}),
)
HYBRID = Outline(sites={"self": {3: MapSize(4, 20, 20), 7: MapSize(4, 20, 20)}}, measures=frozenset({"first_mass"}))


def test_a_full_address_survives_the_round_trip():
    query = {
        "analysis": "a1b2-c3_d4",
        "kind": "cross",
        "layer": "12",
        "head": "3",
        "rows": "0:128",
        "columns": "64:200",
        "measure": "entropy",
        "query": "17",
        "key": "0",
        "palette": "viridis",
        "theme": "projector",
        "grid": "values",
    }
    state, notices = parse(query)
    assert notices == []
    assert (state.layer, state.head, state.rows, state.columns) == (12, 3, (0, 128), (64, 200))
    assert state.more("grid") == "values"
    assert to_query(state) == query


def test_defaults_are_left_out():
    assert to_query(ViewState()) == {}
    assert parse({}) == (ViewState(), [])
    fitted, _ = fit(ViewState(analysis="x"), OUTLINE)
    assert (fitted.kind, fitted.layer, fitted.head, fitted.measure) == ("self", 0, 0, "first_mass")
    assert to_query(without_defaults(fitted, OUTLINE)) == {"analysis": "x"}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("layer", "abc"),
        ("layer", "1e3"),
        ("layer", "٣"),
        ("layer", "9" * 5000),
        ("head", "<img src=x onerror=alert(1)>"),
        ("rows", "5:5"),
        ("rows", "9:2"),
        ("rows", "-1:4"),
        ("columns", "a:b"),
        ("analysis", "../../etc/passwd"),
        ("analysis", "a" * 65),
        ("measure", "x'; drop table rows"),
        ("palette", "jet"),
    ],
)
def test_what_cannot_be_read_is_left_out_and_said(name, text):
    state, notices = parse({name: text})
    assert state == ViewState()
    assert len(notices) == 1
    assert name in notices[0]
    assert len(notices[0]) < 200


@pytest.mark.parametrize(("layer", "shown"), [(-1, 0), (30, 29), (10**8, 29)])
def test_a_layer_out_of_range_falls_to_the_nearest(layer, shown):
    state, notices = fit(parse({"layer": str(layer)})[0], OUTLINE)
    assert state.layer == shown
    assert notices == [f"There is no layer {layer} (0 to 29 exist); layer {shown} is shown."]


def test_layers_keep_the_models_own_numbers():
    assert fit(ViewState(), HYBRID)[0].layer == 3
    assert fit(ViewState(layer=6), HYBRID)[0].layer == 7
    assert fit(ViewState(layer=7), HYBRID) == (fit(ViewState(layer=7), HYBRID)[0], [])


def test_windows_are_cut_to_the_sequence_and_the_whole_one_is_none():
    state, notices = fit(ViewState(rows=(40, 90), columns=(0, 50)), OUTLINE)
    assert state.rows == (40, 50)
    assert state.columns is None
    assert len(notices) == 1
    assert fit(ViewState(rows=(60, 90)), OUTLINE)[0].rows == (49, 50)


def test_unknown_kind_and_measure_fall_to_what_there_is():
    state, notices = fit(ViewState(kind="cross", measure="charm"), OUTLINE)
    assert (state.kind, state.measure) == ("self", "first_mass")
    assert len(notices) == 2


def test_a_repeated_parameter_takes_the_last():
    assert parse({"layer": ["1", "2"]})[0].layer == 2
    assert parse({"layer": []})[0].layer is None


def test_page_parameters_can_be_set_and_removed():
    state = ViewState().with_more(grid="values", view="lines")
    assert to_query(state) == {"grid": "values", "view": "lines"}
    assert to_query(state.with_more(view=None)) == {"grid": "values"}


@given(st.dictionaries(st.text(max_size=12), st.text(max_size=40), max_size=8))
def test_no_address_fails_and_parsing_is_stable(query):
    state, _ = parse(query)
    fitted, _ = fit(state, OUTLINE)
    again, notices = parse(to_query(fitted))
    assert again == fitted
    assert notices == []
    assert fit(fitted, OUTLINE) == (fitted, [])


@given(
    st.builds(
        ViewState,
        layer=st.integers(-5, 40),
        head=st.integers(-5, 40),
        rows=st.none() | st.tuples(st.integers(0, 60), st.integers(61, 90)),
        query=st.none() | st.integers(-3, 90),
    )
)
def test_a_fitted_view_lies_inside_the_analysis(state):
    fitted, _ = fit(state, OUTLINE)
    assert 0 <= fitted.layer < 30
    assert 0 <= fitted.head < 9
    assert fitted.rows is None or 0 <= fitted.rows[0] < fitted.rows[1] <= 50
    assert fitted.query is None or 0 <= fitted.query < 50


def test_a_part_that_the_page_does_not_have_falls_to_its_first_with_a_notice():
    parts = {"where": "Where are they?", "why": "Why?"}
    gone, said = fit_part(parse({"part": "whence"})[0], parts)
    assert gone.more("part") == "" and said == ["This page has no part 'whence'; 'Where are they?' is shown."]
    kept, said = fit_part(parse({"part": "why"})[0], parts)
    assert kept.more("part") == "why" and said == []
    other, said = fit_part(parse({"part": "anything"})[0], None)
    assert other.more("part") == "anything" and said == [], "a page without parts leaves the address as it is"
