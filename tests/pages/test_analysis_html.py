"""The page of an analysis: exact weights, no text that runs, nothing from elsewhere, its size said before."""

import base64
import json
import re

import numpy as np
import pytest

from backend.errors import NoExactMap, Refused
from backend.map_sizes import MapSize, map_sizes
from backend.store import Library
from pages.shared.exports.analysis_html import LARGEST, POOLED, analysis_html, size_of, too_large
from tests.stored import store

EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(2)> <!--data--> & \"'"


@pytest.fixture
def analysis(data_folder):
    return Library(data_folder).open(store(data_folder, text=EVIL, n_tokens=100, layers=(3, 7)))


def data_in(page: str) -> dict:
    return json.loads(re.search(r'id="lesson-data">(.*?)</script>', page, re.DOTALL)[1])


def test_the_chosen_heads_are_exact(analysis):
    page = analysis_html(analysis, "self", [(3, 1), (7, 2)], title="x")
    maps = data_in(page)["maps"]
    assert len(maps) == 2
    for layer, head in ((3, 1), (7, 2)):
        kept = maps[f"data/{analysis.id}/map/self/{layer}/{head}"]
        weights = np.frombuffer(base64.b64decode(kept["weights"]), "<f4").reshape(kept["shape"])
        np.testing.assert_array_equal(weights, analysis.map(layer, head))
        seen = np.unpackbits(np.frombuffer(base64.b64decode(kept["visible"]), np.uint8), count=100 * 100)
        np.testing.assert_array_equal(seen.reshape(100, 100).astype(bool), analysis.visible(layer, head))
    value = analysis.statistic("entropy")[0, 1]
    assert f"<td>{value:.3g}</td>" in page


def test_no_text_of_a_person_runs(analysis):
    page = analysis_html(analysis, "self", [(3, 1)], title=EVIL)
    assert page.count("<script") == page.count("</script>") == 2
    assert "<img src=x" not in page and "alert(1)</script>" not in page
    assert "&lt;img src=x onerror=alert(2)&gt;" in page


def test_nothing_is_asked_of_anybody(analysis):
    page = analysis_html(analysis, "self", [(3, 1)], title="x")
    assert "default-src 'none'" in page and "connect-src" not in page
    markup = re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
    assert (
        not re.search(r"(src|href)=[\"'](?!data:image/png;base64,)", markup)
        and "@import" not in page
        and "url(" not in markup
    )


@pytest.mark.parametrize("n", [1, 20, 300])
def test_the_size_said_before_is_that_of_the_file_or_a_little_more(data_folder, n):
    analysis = Library(data_folder).open(store(data_folder, n_tokens=n))
    heads = [(0, 0), (1, 3)]
    said = size_of(map_sizes(analysis)["self"], heads, n)
    size = len(analysis_html(analysis, "self", heads, title="x").encode())
    assert size <= said <= 1.5 * size + 300_000


def test_a_page_that_would_be_too_large_and_a_head_without_weights_are_refused(data_folder, analysis, monkeypatch):
    monkeypatch.setattr("pages.shared.exports.analysis_html.LARGEST", 300_000)
    with pytest.raises(Refused, match=r"0 MB and at most 0 MB are made. Choose fewer heads, or pooled maps"):
        analysis_html(analysis, "self", [(3, 1)], title="x")
    monkeypatch.undo()
    assert LARGEST == 20_000_000
    pooled = Library(data_folder).open(store(data_folder, exact=(0,), n_tokens=30))
    with pytest.raises(NoExactMap, match=r"0\.2 was not kept"):
        analysis_html(pooled, "self", [(0, 2)], title="x")


def test_4096_tokens_fit_as_pooled_maps_and_both_numbers_are_said_where_they_do_not():
    sizes = {0: MapSize(queries=4096, keys=4096, heads=9)}
    six = [(0, head) for head in range(6)]
    assert size_of(sizes, six, 4096, pooled=True) <= LARGEST < size_of(sizes, six[:1], 4096)
    assert too_large(size_of(sizes, six, 4096, pooled=True), pooled=True) is None
    assert too_large(95_000_000, pooled=False) == (
        "The page would take 95 MB and at most 20 MB are made. Choose fewer heads, or pooled maps."
    )


def test_a_pooled_page_holds_the_pooled_maps_also_of_heads_without_exact_ones(data_folder):
    n = POOLED + 88
    analysis = Library(data_folder).open(store(data_folder, n_tokens=n, exact=(0,), layers=(0,)))
    heads = [(0, 0), (0, 3)]
    page = analysis_html(analysis, "self", heads, title="x", pooled=True)
    assert len(page.encode()) <= size_of(map_sizes(analysis)["self"], heads, n, pooled=True)
    assert "hold all their weights" not in page and "are pooled" in page
    for layer, head in heads:
        kept = data_in(page)["maps"][f"data/{analysis.id}/map/self/{layer}/{head}"]
        assert kept["of"] == [n, n] and data_in(page)["views"][f"head-{layer}-{head}"]["exact"] is False
        for how in ("mean", "max"):
            given = np.frombuffer(base64.b64decode(kept[how]), "<f2").reshape(kept["shape"])
            np.testing.assert_array_equal(given, analysis.pooled(layer, head, POOLED, how=how).astype("<f2"))
        seen = np.unpackbits(np.frombuffer(base64.b64decode(kept["visible"]), np.uint8), count=given.size)
        np.testing.assert_array_equal(seen.reshape(given.shape).astype(bool), ~np.isnan(given))


def test_the_choice_of_maps_is_offered_where_exact_ones_may_not_fit(data_folder, open_page, texts):
    small, long = store(data_folder, n_tokens=60), store(data_folder, n_tokens=POOLED + 1, layers=(0,), heads=2)
    for id, offered in ((small, False), (long, True)):
        app = open_page("heads", analysis=id, part="page")
        assert not app.exception
        assert any(one.label == "Maps of the page" for one in app.get("button_group")) == offered
