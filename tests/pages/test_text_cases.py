"""Known troubles of text on pages, by their number: charts, parts and sentences of the page Heads."""

import json

import numpy as np
import pytest

from backend.bertviz_data import VIEWS, feed
from backend.store import Library
from backend.words import Group
from pages.shared.charts.candidates import candidates
from pages.shared.charts.head_places import head_places
from pages.shared.charts.head_profile import head_profile
from pages.shared.charts.labelled_heads import NONE, labelled_heads
from pages.shared.charts.row_bars import row_bars
from pages.shared.line_view import LineView, strongest
from pages.shared.text_view import TextView
from tests.stored import store

PARTS = ("labels", "card", "alike", "text", "lines", "bertviz", "generation", "probe", "notes")
MARKDOWN = "Pay $5 or $6, a_b_c, **x**, :red[y], # head"
NAMES = ["layers.0.self_attn", "[CLS]", "it's", "a.b", "'", "\\", "head[0].1", "$x$", "</script>"]


def marks(chart, layer: int = 0) -> list[dict]:
    spec = chart.to_dict()
    part = spec["layer"][layer] if "layer" in spec else spec
    return part["data"]["values"]


def test_case_45_a_prompt_is_never_markdown(open_page, library, texts):
    id = store(library.folder, n_tokens=len(MARKDOWN), text=MARKDOWN, title=MARKDOWN)
    for part in PARTS:
        app = open_page("heads", analysis=id, part=part)
        assert not app.exception
        for marked in texts(app).marked:
            assert ":red[" not in marked and "**x" not in marked and "$5" not in marked


def test_case_47_long_tokens_lose_their_middle_and_can_be_told_apart():
    url = "https://example.org/" + "a" * 30 + "/first", "https://example.org/" + "a" * 30 + "/other"
    rows = marks(row_bars(np.array([0.5, 0.3, 0.2]), np.ones(3, bool), [*url, "1" * 40]))
    assert len({row["label"] for row in rows}) == 3
    assert [row["whole"] for row in rows] == [f"{at} {text}" for at, text in enumerate([*url, "1" * 40])]
    assert rows[0]["label"].startswith("0 https") and rows[0]["label"].endswith("first") and "…" in rows[0]["label"]
    bars = marks(candidates(list(url), [0.6, 0.4], 1))
    assert [row["whole"] for row in bars] == list(url) and bars[0]["label"] != bars[1]["label"]


def test_case_51_more_than_5000_marks_are_drawn():
    heads = [{"layer": layer, "head": head, "label": NONE, "labels": NONE} for layer in range(71) for head in range(71)]
    chart = labelled_heads(heads, ["sink"], layers=range(71), most=71, selected=(0, 0))
    assert len(marks(chart)) == 5041
    rows = marks(row_bars(np.full(9000, 1 / 9000), np.ones(9000, bool), [str(at) for at in range(9000)], most=6000))
    assert len(rows) == 6000


def test_case_52_names_with_dots_and_brackets_are_values_and_not_fields():
    bars = candidates(NAMES, np.linspace(0.2, 0.01, len(NAMES)).tolist(), None)
    assert [row["whole"] for row in marks(bars)] == NAMES
    profile = [{"name": name, "share": 0.5, "value": name, "uniform": name, "uniform_share": None} for name in NAMES]
    assert len(marks(head_profile(profile), 2)) == len(NAMES)
    point = {"layer": 0, "head": 0, "x": 0.0, "y": 0.0, "group": "0", "role": "", "distance": "", "labels": "[a.b]"}
    assert len(marks(head_places([{**point, "name": name} for name in NAMES]))) == len(NAMES)
    assert fields_of(bars.to_dict()) == {"label", "probability", "what", "whole"}


def fields_of(spec) -> set[str]:
    """The names of fields anywhere in a chart."""
    if isinstance(spec, list):
        return set().union(*map(fields_of, spec))
    if not isinstance(spec, dict):
        return set()
    own = {spec["field"]} if isinstance(spec.get("field"), str) else set()
    return own.union(*(fields_of(part) for name, part in spec.items() if name not in ("data", "datasets")))


@pytest.mark.parametrize("part", ["labels", "card", "alike"])
def test_case_55_the_head_of_the_link_stays_chosen(open_page, library, part):
    app = open_page("heads", analysis=library.plain, layer="1", head="3", part=part)
    for _ in range(2):
        assert "Head 1.3" in "\n".join(element.value for element in app.text)
        assert '"selected": {"layer": 1, "head": 3}' in json.dumps(
            [
                json.loads(one.proto.json or one.proto.mixed.json)
                for one in app.get("bidi_component")
                if "grid" in one.proto.component_name
            ]
        )
        app.run()


def test_case_58_and_59_what_is_sent_at_once_is_bounded(data_folder):
    analysis = Library(data_folder).open(store(data_folder, n_tokens=200, heads=12, layers=(0, 1, 2)))
    for view in VIEWS:
        fed = feed(analysis, view, 1, 5, "self", every=True)
        assert len(json.dumps(fed.params)) < 1_000_000
    n = 32_768
    words = [Group(at, at + 1, "世界" * 3, "世界" * 3) for at in range(n)]
    text = TextView(words, np.full(n, 1 / n), np.ones(n, bool), [n - 1], "x", "y").message()
    assert len(json.dumps(text)) < 1_000_000
    lines = strongest(np.full((400, 400), 1 / 400), np.ones((400, 400), bool))
    assert len(json.dumps(LineView("0.0", words[:400], words[:400], 0, 0, lines, "y").message())) < 1_000_000
