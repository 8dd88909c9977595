"""The page of an analysis: exact weights, no text that runs, nothing from elsewhere, its size said before."""

import base64
import json
import re

import numpy as np
import pytest

from backend.errors import NoExactMap, Refused
from backend.map_sizes import map_sizes
from backend.store import Library
from pages.shared.exports.analysis_html import LARGEST, analysis_html, size_of
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
    with pytest.raises(Refused, match="Choose fewer heads"):
        analysis_html(analysis, "self", [(3, 1)], title="x")
    monkeypatch.undo()
    assert LARGEST == 20_000_000
    pooled = Library(data_folder).open(store(data_folder, exact=(0,), n_tokens=30))
    with pytest.raises(NoExactMap, match=r"0\.2 was not kept"):
        analysis_html(pooled, "self", [(0, 2)], title="x")
