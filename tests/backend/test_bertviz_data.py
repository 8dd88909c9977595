"""What BertViz's views are fed with is what the maps say; the scripts come from installed packages."""

import numpy as np
import pytest
from starlette.testclient import TestClient

from backend import installed_scripts
from backend.bertviz_data import MOST_LINES, VIEWS, feed
from backend.errors import NoExactMap
from backend.store import Library
from tests.stored import HOSTILE, store


@pytest.fixture
def analysis(data_folder):
    return Library(data_folder).open(store(data_folder, n_tokens=150, text=HOSTILE, layers=(0, 1, 3)))


def test_the_head_view_has_the_weights_of_one_layer(analysis):
    fed = feed(analysis, "head", 1, 2, "self")
    (data,) = fed.params["attention"]
    n = len(fed.queries)
    assert fed.layers == [1] and n == 100 and n * n * 4 <= MOST_LINES["head"] < (n + 1) ** 2 * 4
    given = np.array(data["attn"])
    assert given.shape == (1, 4, n, n)
    for head in range(4):
        assert given[0, head] == pytest.approx(analysis.map(1, head, slice(0, n), slice(0, n)), abs=5.1e-5)
    assert fed.held == pytest.approx(1.0, abs=1e-5)  # from the first token on, rows see nothing outside
    assert data["left_text"] == [token.label for token in analysis.tokens_list()[:n]]


def test_a_later_window_says_how_much_it_holds(analysis):
    fed = feed(analysis, "neuron", 3, 1, "self", 60)
    window = slice(fed.queries.start, fed.queries.stop)
    assert fed.queries.start == 60 and len(fed.queries) == 40
    expected = np.mean([analysis.map(3, head, window, window).sum(1).mean() for head in range(4)])
    assert fed.held == pytest.approx(expected, abs=1e-6) and fed.held < 0.99
    assert feed(analysis, "neuron", 3, 1, "self", 149).queries == range(110, 150)


def test_the_neuron_view_has_the_stored_queries_and_keys(analysis):
    fed = feed(analysis, "neuron", 3, 1, "self")
    data = fed.params["attention"]["all"]
    query, key = np.array(data["queries"][0][0]), np.array(data["keys"][0][0])
    scores = query @ key.T * analysis.score(3).scale
    scores[np.triu_indices(len(query), 1)] = -np.inf
    weights = np.exp(scores - scores.max(1, keepdims=True))
    weights /= weights.sum(1, keepdims=True)
    assert np.array(data["attn"][0][0]) == pytest.approx(weights, abs=1e-3)  # both sides are rounded to 4 digits
    assert fed.params["bidirectional"] is False


def test_the_model_view_has_the_layers_around_or_all(analysis):
    assert feed(analysis, "model", 0, 0, "self").layers == [0, 1, 3]
    assert feed(analysis, "model", 3, 0, "self", every=True).params["total_heads"] == 4


@pytest.mark.parametrize("view", VIEWS)
def test_heads_without_exact_maps(data_folder, view):
    analysis = Library(data_folder).open(store(data_folder, n_tokens=20, exact=(1,)))
    if view == "neuron":
        with pytest.raises(NoExactMap):
            feed(analysis, view, 0, 0, "self")
    fed = feed(analysis, view, 0, 1, "self")
    assert fed.missing == {"head": 3, "model": 6, "neuron": 3}[view]


def test_nothing_to_draw_is_said(data_folder):
    analysis = Library(data_folder).open(store(data_folder, n_tokens=20, exact=()))
    for view in VIEWS:
        with pytest.raises(NoExactMap):
            feed(analysis, view, 0, 0, "self")


def test_scripts_are_served_from_installed_packages_and_nothing_else():
    from starlette.applications import Starlette

    from backend.routes import routes

    client = TestClient(Starlette(routes=routes(lambda *_: None)))
    for name, (package, _) in installed_scripts.SCRIPTS.items():
        assert installed_scripts.missing((name,)) is None, package
        answer = client.get(f"/data/scripts/{name}.js?v={installed_scripts.version_of(name)}")
        assert answer.status_code == 200 and answer.headers["content-type"].startswith("text/javascript")
        assert (
            answer.content == installed_scripts.path_of(name).read_bytes()
            and "immutable" in answer.headers["cache-control"]
        )
    for wrong in ("jquery%2f..%2f", "__init__", "..%2f..%2fsetup", "x"):
        assert client.get(f"/data/scripts/{wrong}.js").status_code == 404


def test_a_missing_package_is_named_with_how_to_install_it(monkeypatch):
    monkeypatch.setitem(installed_scripts.SCRIPTS, "d3", ("no-such-package", "d3.js"))
    sentence = installed_scripts.missing(("jquery", "d3"))
    assert "no-such-package" in sentence and "--no-deps -r requirements-models.txt" in sentence
    assert installed_scripts.path_of("d3") is None
