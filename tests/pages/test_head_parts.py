"""The parts below the pictures of the page Heads: labels, the card of a head, like heads, notes, the probe."""

import pyarrow as pa
import pytest

from backend.atlas import PROBE, PROBED, read_atlas
from backend.models import LoadedModel
from backend.pipeline import analyse
from backend.shelf import Shelf
from backend.store import Library, save_study
from pages.shared.panels.head_notes import table_of
from tests.backend.tiny_more import build
from tests.stored import HOSTILE


def plain(app) -> str:
    return "\n".join(element.value for element in app.text)


def frame_with(app, column: str):
    """The first table that has a column."""
    return next(one.value for one in app.dataframe if column in one.value.columns)


def test_no_part_is_computed_before_it_is_chosen(open_page, library, monkeypatch):
    for name in ("heads_alike.compare_heads", "head_text.profile", "head_lines.between", "head_bertviz.feed"):
        monkeypatch.setattr(f"pages.shared.panels.{name}", lambda *_, **__: pytest.fail("was computed"))
    app = open_page("heads", analysis=library.plain)
    assert not app.exception and "Heads by first mass" in plain(app)


def test_the_ranking_names_labels_with_scores_and_leaves_them_out_where_they_would_take_long(
    open_page, library, monkeypatch
):
    def names():
        app = open_page("heads", analysis=library.plain, limit_entropy_share="0.1", measure="entropy")
        assert not app.exception and "Heads by entropy" in plain(app)
        return " ".join(str(one.proto) for one in app.get("vega_lite_chart"))

    assert "broad 0." in names()
    monkeypatch.setattr("pages.shared.panels.atlas_data.QUICK_ROWS", 100)
    assert "broad 0." not in names()


def test_labels_come_with_scores_and_follow_the_limits_of_the_address(open_page, library):
    analysis = Library(library.folder).open(library.plain)
    atlas = read_atlas(analysis, "self")
    app = open_page("heads", analysis=library.plain, part="labels", limit_entropy_share="0.1")
    assert not app.exception
    expected = atlas.labels({"entropy_share": 0.1})
    table = frame_with(app, "labels")
    assert list(table["head"]) == [f"{layer}.{head}" for layer, head in expected]
    for at, found in enumerate(expected.values()):
        words = table["labels"][at]
        assert words.count(",") + 1 == len(found) if found else words == ""
        assert not found or f"broad {found['broad']:.2f}" in words
    assert "8 broad" in plain(app) and "One limit is moved." in plain(app)
    field = next(one for one in app.number_input if one.key == "atlas_labels_limit_entropy_share")
    assert field.value == 0.1 and field.help == "0.8: chosen by Headwater"


def test_labels_take_scores_of_a_study_only_where_the_address_names_it_and_say_so(open_page, library):
    scores = {"layer": [0], "head": [0]}
    for name in PROBED:
        scores |= {name: [0.97], f"{name}_uniform": [0.01]}
    given = ({"scores": pa.table(scores)}, {"model": "tiny"})
    probe = save_study(Library(library.folder), PROBE, {}, [], given[0], info=given[1])
    other = save_study(Library(library.folder), PROBE, {}, [], given[0], info={"model": "another"})

    def said(**query):
        app = open_page("heads", analysis=library.plain, layer="0", head="0", part="card", **query)
        assert not app.exception
        return plain(app)

    for text in (said(), said(study=other)):
        assert "on random repeats" not in text and "0.97" not in text
    text = said(study=probe)
    assert "Previous token 0.97 on random repeats: Each token looks" in text
    assert "previous token 0.970 on random repeats, above the limit" in text


def test_a_limit_that_is_moved_goes_into_the_address(open_page, library):
    app = open_page("heads", analysis=library.plain, part="labels")
    next(one for one in app.number_input if one.key == "atlas_labels_limit_entropy").set_value(2.5).run()
    assert app.query_params["limit_entropy"] in (["2.5"], "2.5")


def test_the_label_of_the_address_filters_the_list(open_page, library):
    app = open_page("heads", analysis=library.plain, part="labels", label="delimiter")
    assert not app.exception and "No head has this label with these limits." in plain(app)
    assert not open_page("heads", analysis=library.plain, part="labels", label="<b>").exception


def test_the_card_shows_value_uniform_and_share_of_heads(open_page, library):
    app = open_page("heads", analysis=library.plain, part="card", layer="1", head="2")
    app.session_state["atlas_card_below"] = "Table"
    app.run()
    assert not app.exception
    table = frame_with(app, "heads at or below")
    atlas = read_atlas(Library(library.folder).open(library.plain), "self")
    row = table.set_index("number").loc["entropy"]
    assert row["value"] == pytest.approx(atlas.of(1, 2)["entropy"])
    assert row["heads at or below"] == pytest.approx(atlas.percentile("entropy", 1, 2))
    assert row["meaning"].startswith("How widely")
    assert "Head 1.2 stands out in" in plain(app)


def test_like_heads_are_listed_with_their_divergence(open_page, library):
    app = open_page("heads", analysis=library.plain, part="alike", groups="3")
    assert not app.exception
    assert "Heads like 0.0, most alike first" in plain(app) and "in 3 groups of" in plain(app)
    table = frame_with(app, "nats")
    values = list(table["nats"])
    assert len(values) == 7 and values == sorted(values)


def test_own_labels_and_notes_are_kept_and_literal(open_page, library, texts):
    app = open_page("heads", analysis=library.plain, part="notes", layer="1", head="3")
    next(one for one in app.text_input if "Your label of head 1.3" in one.label).set_value(HOSTILE).run()
    next(one for one in app.text_area if one.label == "Note").set_value("looks at **commas**").run()
    assert not app.exception
    kept = Library(library.folder).details(library.plain).heads
    assert kept == {"1.3": {"label": HOSTILE, "note": "looks at **commas**"}}
    assert not any("onerror" in marked for marked in texts(app).marked)
    next(one for one in app.text_input if "Your label" in one.label).set_value("").run()
    next(one for one in app.text_area if one.label == "Note").set_value("").run()
    assert Library(library.folder).details(library.plain).heads == {}


def test_each_kind_of_attention_has_its_own_notes(open_page, library):
    """As `Shelf.head_marks` gives them to a notebook."""
    model = LoadedModel.wrap(build("t5"), name="tiny-t5")
    id = analyse(model, [1, 7, 9, 23, 9, 41], library=Library(library.folder)).id
    for kind, label in (("cross", "a"), ("encoder", "b")):
        app = open_page("heads", analysis=id, part="notes", layer="1", head="1", kind=kind)
        field = next(one for one in app.text_input if f"Your label of head {kind}:1.1" in one.label)
        assert field.value == ""
        field.set_value(label).run()
        assert not app.exception
    assert "2 heads of this analysis have notes." in plain(app)
    marks = Shelf(library.folder, bundled=library.folder / "none").head_marks(id)
    assert table_of(marks)["head"].to_pylist() == ["cross:1.1", "encoder:1.1"]
    assert {place: mark.label for place, mark in marks.items()} == {("cross", 1, 1): "a", ("encoder", 1, 1): "b"}


def test_a_bundled_analysis_keeps_no_notes(open_page, library):
    app = open_page("heads", analysis="bundled-first", part="notes")
    assert not app.exception and "Only who ran this analysis may write here" in plain(app)
    assert not [one for one in app.text_input if "Your label" in one.label]


def test_the_probe_is_one_click_away(open_page, library):
    app = open_page("heads", analysis=library.plain, part="probe")
    assert not app.exception
    assert any(button.key == "headwater_page_study_run_random_repeat" for button in app.button)


def test_an_unknown_part_is_none(open_page, library):
    app = open_page("heads", analysis=library.plain, part="everything")
    assert not app.exception and "Only heads with the label" not in plain(app)
