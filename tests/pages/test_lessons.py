"""Lessons: every number is what its query gives, every answer is true, every step can be walked and linked to."""

import base64
import json
import re
from html import escape

import numpy as np
import pytest

from backend import statistics, terms
from backend.map_sizes import map_sizes
from backend.settings import bundled_folder
from backend.store import Library
from pages.shared import lessons
from pages.shared.exports.lesson_html import lesson_html
from pages.shared.lessons import Lesson, Step, View
from pages.shared.lessons.lesson import LessonError, read_lesson, read_step
from pages.shared.lessons.numbers import FORMS, holds, written
from pages.shared.lessons.place import LETTERS, PARAMETERS
from pages.shared.lessons.text import numbers_in, to_markdown, without_numbers
from tests.stored import HOSTILE, store

LESSONS = pytest.mark.parametrize("lesson", lessons.all(), ids=lambda lesson: lesson.name)
STEPS = [(lesson, number) for lesson in lessons.all() for number in range(1, len(lesson.steps) + 1)]


@pytest.fixture(scope="module")
def bundled():
    return Library(bundled_folder(), read_only=True)


def said(step) -> str:
    return f"{step.text}\n\n{step.reveal}"


def plain(app) -> str:
    return "\n".join(element.value for element in (*app.text, *app.markdown, *app.subheader))


@LESSONS
def test_every_number_is_what_its_query_gives(bundled, lesson):
    for step in lesson.steps:
        analysis = bundled.open(step.view.analysis)
        for name, as_written in numbers_in(said(step)):
            assert written(analysis, step.numbers[name]) == as_written, (step.title, name)


@LESSONS
def test_every_answer_is_true(bundled, lesson):
    for step in lesson.steps:
        assert bool(step.ask) == bool(step.choices) == bool(step.check), step.title
        if step.check:
            assert holds(bundled.open(step.view.analysis), step), step.title


@LESSONS
def test_the_spotlight_begins_on_a_part_of_the_map_that_is_in_view(bundled, lesson):
    for step in [one for one in lesson.steps if one.spot]:
        size = map_sizes(bundled.open(step.view.analysis))[step.view.kind or "self"][step.view.layer]
        for name, most in (("rows", size.queries), ("columns", size.keys)):
            first, last = getattr(step.view, name) or (0, most)
            start, stop = step.spot[name]
            assert first <= start < stop <= last, (step.title, name)


@pytest.mark.parametrize("spot", ["{rows: [0, 1]}", "{rows: [0, 1], columns: [0, 1], head: 3}"])
@pytest.mark.parametrize("show", ["map", "bars"])
def test_a_spot_that_names_no_part_of_a_map_is_said(spot, show):
    whole = "{rows: [0, 1], columns: [0, 1]}"
    body = "\n```yaml\nshow: {show}\nlook: here\nspot: {spot}\n```\nWords.\n"
    with pytest.raises(LessonError, match="spot is rows and columns"):
        read_step("A title", body.replace("{show}", show).replace("{spot}", spot), "bundled-story")
    assert read_step("A", body.replace("{show}", "map").replace("{spot}", whole), "bundled-story").spot


@LESSONS
def test_no_number_stands_in_a_sentence_without_a_query(lesson):
    for step in lesson.steps:
        for text in (without_numbers(said(step)), step.look, step.title):
            assert not re.search(r"\d", text), f"{step.title}: {text}"
        if re.search(r"\d", f"{step.ask} {step.choices}"):
            assert step.check


@LESSONS
def test_numbers_are_used_written_in_a_known_form_and_named_in_the_glossary(lesson):
    glossary = {**terms.all(), **statistics.all()}
    for step in lesson.steps:
        assert {name for name, _ in numbers_in(said(step))} == set(step.numbers), step.title
        for number in step.numbers.values():
            assert number.form in FORMS and number.term in glossary


@LESSONS
def test_a_lesson_has_the_shape_of_one(lesson):
    assert 4 <= len(lesson.steps) <= 8
    assert any(step.ask for step in lesson.steps) and all(step.look for step in lesson.steps)
    assert lesson.sources and lesson.question.endswith("?") and 1 <= lesson.minutes <= 15
    assert "!" not in "".join(said(step) + step.look + step.notes for step in lesson.steps)


@LESSONS
def test_every_step_tells_the_presenter_something_in_plain_words(lesson):
    """Notes are drawn as text: no number could name its query there, and marks of Markdown would show."""
    for step in lesson.steps:
        assert 2 <= len(re.findall(r"[.?](?=\s|$)", step.notes)) <= 4, step.title
        assert not re.search(r"[\d!*_`\[\]]", step.notes), f"{step.title}: {step.notes}"


@LESSONS
def test_a_lesson_is_walked_step_by_step(open_page, lesson):
    app = open_page("lessons", lesson=lesson.name)
    guesses = ""
    for number, step in enumerate(lesson.steps, 1):
        assert not app.exception, (step.title, app.exception)
        assert step.title in plain(app)
        assert app.query_params.get("step", "1") == str(number)
        if step.choices:
            app.radio[0].set_value(step.answer).run()
            guesses += f"{number}{LETTERS[step.answer]}"
            assert app.query_params["guess"] == guesses
        if step.hides:
            assert "As you expected" not in plain(app)
            app.button(key="headwater_reveal").click().run()
            assert app.query_params["shown"] == str(number)
        assert to_markdown(step.reveal, links(step)) in [element.value for element in app.markdown] or not step.reveal
        assert not step.choices or f"As you expected: {step.choices[step.answer]}." in plain(app)
        if number < len(lesson.steps):
            app.button(key="headwater_next").click().run()
    assert not app.exception and set(app.query_params) <= set(PARAMETERS)


def links(step) -> dict[str, str]:
    return {name: f"glossary#{number.term}" for name, number in step.numbers.items()}


@pytest.mark.parametrize(
    "lesson, number", [(a, n) for a, n in STEPS if a.steps[n - 1].page], ids=lambda x: getattr(x, "name", str(x))
)
def test_where_a_step_leads_on_opens(open_page, lesson, number):
    page = lesson.steps[number - 1].page
    app = open_page(page["name"], **{name: str(value) for name, value in page.get("query", {}).items()})
    assert not app.exception
    assert not [text.value for text in app.text if "is shown" in text.value or "left out" in text.value]


def test_the_list_begins_a_lesson(open_page):
    app = open_page("lessons")
    assert not app.exception
    first = lessons.all()[0]
    app.button(key=f"headwater_begin_{first.name}").click().run()
    assert app.query_params == {"lesson": first.name} and first.steps[0].title in plain(app)


@pytest.mark.parametrize(
    "query, words",
    [
        ({"lesson": "<script>"}, "There is no lesson '<script>'"),
        ({"lesson": "reading_a_map", "step": "99"}, "step=6 is shown"),
        ({"lesson": "reading_a_map", "step": "-1"}, "a number was expected"),
        ({"lesson": "reading_a_map", "shown": "x"}, "shown='x'"),
    ],
)
def test_a_wrong_address_opens_the_nearest_step(open_page, query, words):
    app = open_page("lessons", **query)
    assert not app.exception and words in plain(app)


def test_guesses_that_the_lesson_does_not_ask_for_are_left_out(open_page):
    app = open_page("lessons", lesson="reading_a_map", guess="1a2b2c9a<")
    assert app.query_params["guess"] == "2c"


def test_the_picture_may_be_changed_and_the_next_step_sets_its_own(open_page):
    app = open_page("lessons", lesson="reading_a_map", layer="3", head="2")
    assert app.query_params["layer"] == "3"
    app.button(key="headwater_next").click().run()
    assert "layer" not in app.query_params and app.query_params["step"] == "2"


def test_without_the_bundled_analysis_the_step_says_so(open_page, library):
    app = open_page("lessons", lesson="reading_a_map")
    assert not app.exception and "There is no analysis 'bundled-story' here" in plain(app)


def test_text_is_escaped_for_markdown():
    assert to_markdown("a_b $5 :red[x] <b> **c_d** `e*f`", {}) == r"a\_b \$5 \:red\[x\] \<b\> **c\_d** `e*f`"
    assert (
        to_markdown("It is [38 %](share).", {"share": "glossary#x"})
        == "It is [**38\N{NO-BREAK SPACE}\\%**](glossary#x)\\."
    )
    assert to_markdown("One\ntwo.\n\n- a\n- b", {}) == "One two\\.\n\n- a\n\n- b"


def test_a_file_that_is_no_lesson_is_refused_with_its_name(tmp_path):
    wrong = tmp_path / "01_wrong.md"
    wrong.write_text("# no facts\n")
    with pytest.raises(LessonError, match=r"01_wrong\.md: expected facts"):
        read_lesson(wrong)
    wrong.write_text("---\ntitle: x\nquestion: y?\nminutes: 1\nanalysis: a\n---\n# Step\ntext\n")
    with pytest.raises(LessonError, match="step 'Step': expected its settings"):
        read_lesson(wrong)
    with pytest.raises(LessonError, match="none of its choices"):
        read_step("Step", "\n```yaml\nlook: x\nask: y\nchoices: [a, b]\nanswer: c\n```\n", "a")
    with pytest.raises(LessonError, match="show is one of"):
        read_step("Step", "\n```yaml\nlook: x\nshow: film\n```\n", "a")


@pytest.mark.parametrize(
    "value, form, text",
    [
        (0.384, "percent", "38 %"),
        (0.0999, "percent", "10 %"),
        (0.0524, "percent", "5.2 %"),
        (0.0004, "percent", "0.04 %"),
        (0.0, "percent", "0 %"),
        (1.0, "percent", "100 %"),
        (0.05237, "weight", "0.0524"),
        (3.16, "nats", "3.16 nats"),
        (12345, "count", "12,345"),
        (2.5, "times", "2.50 times"),
        (41.7, "times", "42 times"),
        (262144, "kilobytes", "262 kB"),
    ],
)
def test_how_numbers_are_written(value, form, text):
    assert FORMS[form](value) == text


@pytest.fixture(scope="module")
def handouts(bundled):
    return {lesson.name: lesson_html(lesson, bundled.open) for lesson in lessons.all()}


@LESSONS
def test_the_hand_out_holds_the_lesson_and_the_weights_of_its_maps(bundled, handouts, lesson):
    page = handouts[lesson.name]
    assert len(page) < 1_000_000 and not re.search(
        r"(src|href)=|url\(|https?://(?!www\.w3\.org)", page.split("<section>")[0]
    )
    data = json.loads(re.search(r'id="lesson-data">(.*?)</script>', page, re.DOTALL)[1])
    assert f"<h1>{escape(lesson.title)}</h1>" in page and "<!--" not in page
    for step in lesson.steps:
        assert escape(step.title) in page
    assert bool(data["views"]) == any(step.view.show != "bars" for step in lesson.steps)
    for address, kept in data["maps"].items():
        _, id, _, kind, layer, head = address.split("/")
        weights = np.frombuffer(base64.b64decode(kept["weights"]), "<f4").reshape(kept["shape"])
        assert np.array_equal(weights, bundled.open(id).map(int(layer), int(head), kind=kind))
        seen = np.unpackbits(np.frombuffer(base64.b64decode(kept["visible"]), np.uint8))[: weights.size]
        assert np.array_equal(seen.reshape(weights.shape), bundled.open(id).visible(int(layer), int(head), kind=kind))


def test_a_hand_out_has_no_markup_of_tokens(data_folder):
    """A hostile text in an analysis comes out as text."""
    id = store(data_folder, text=HOSTILE, n_tokens=40)
    view = View(analysis=id, layer=0, head=1)
    bars = View(show="bars", analysis=id, chart={"title": HOSTILE, "sql": f"SELECT '{HOSTILE}' AS label, 1 AS value"})
    steps = tuple(Step(HOSTILE, one, HOSTILE, HOSTILE, reveal=HOSTILE) for one in (view, bars))
    page = lesson_html(Lesson("x", HOSTILE, HOSTILE, 1, id, steps, (HOSTILE,)), Library(data_folder).open)
    assert "<img" not in page and "&lt;img src=x onerror=alert(1)&gt;" in page


def test_a_picture_that_gives_the_answer_away_comes_with_it(open_page):
    later = [(a, n) for a, n in STEPS if a.steps[n - 1].view.later]
    for lesson, number in later:
        assert lesson.steps[number - 1].ask
        app = open_page("lessons", lesson=lesson.name, step=str(number))
        assert "The picture comes with the answer." in plain(app) and not app.get("vega_lite_chart")
        app = open_page("lessons", lesson=lesson.name, step=str(number), shown=str(number))
        assert "The picture comes with the answer." not in plain(app) and app.get("vega_lite_chart")


def test_presenting_is_large_and_shows_nothing_else(open_page):
    app = open_page("lessons", lesson="reading_a_map")
    app.button(key="headwater_present").click().run()
    assert app.query_params["present"] == "1" and app.query_params["theme"] == "projector"
    assert not app.exception and not app.get("button_group")
    assert told(app, "headwater_presenter") == {
        "role": "show",
        "lesson": "reading_a_map",
        "step": 1,
        "steps": 6,
        "shown": 0,
        "minutes": 8,
        "spot": None,
    }
    assert told(app, "headwater_map_viewer")["large"] is True


def test_the_notes_are_in_a_window_of_their_own(open_page):
    app = open_page("lessons", lesson="reading_a_map", step="2", present="notes")
    step = lessons.find("reading_a_map").steps[1]
    assert not app.exception and " ".join(step.notes.split()) in plain(app)
    assert f"The answer: {step.choices[step.answer]}." in plain(app) and "Not shown yet" in plain_captions(app)
    assert told(app, "headwater_presenter")["role"] == "notes"


def plain_captions(app) -> str:
    return "\n".join(element.value for element in app.caption)


def told(app, component: str) -> dict:
    """What a component of the page was told."""
    for element in app.get("bidi_component"):
        if element.proto.component_name == component:
            return json.loads(element.proto.json or element.proto.mixed.json)
    raise AssertionError(f"the page has no {component}")


def below(app, what: str):
    app.session_state["headwater_lesson_below"] = what
    return app.run()


def test_what_belongs_to_a_step_is_shown_on_demand(open_page):
    app = open_page("lessons", lesson="reading_a_map", step="2", shown="2")
    assert "SELECT max(visible_keys) FROM rows WHERE query = 10" in plain(below(app, "Where the numbers come from"))
    assert "How many keys a query may see" in plain(below(app, "What the words mean"))
    assert "arXiv 1706.03762" in plain(below(app, "Sources"))
    assert 'embed=true" width="1000" height="640"' in plain(below(app, "Take it with you"))
    app.button(key="headwater_handout_reading_a_map_make").click().run()
    assert not app.exception and app.get("download_button")
