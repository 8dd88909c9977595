"""The map route: exact windows equal the stored map bit for bit, pooled ones its blocks; nothing else gets through."""

import numpy as np
import pytest


def get(served, path, **parameters):
    return served.client.get(f"/data/{path}", params=parameters)


def test_a_small_map_comes_exact(served, decode):
    answer = get(served, f"{served.ids.plain}/map/self/1/2")
    header, values, visible = decode(answer.content)
    analysis = served.shelf.open(served.ids.plain).analysis
    assert header["exact"] is True
    assert (header["rows"], header["columns"], header["map"]) == ([0, 40], [0, 40], [40, 40])
    np.testing.assert_array_equal(values, analysis.map(1, 2))
    np.testing.assert_array_equal(visible, np.tril(np.ones((40, 40), bool)))
    assert values[~visible].max() == 0
    np.testing.assert_allclose(values.sum(-1), 1, atol=1e-5)


@pytest.mark.parametrize(("rows", "columns"), [((0, 1), (0, 1)), ((7, 20), (3, 40)), ((39, 40), (0, 40))])
def test_a_window_is_that_part_of_the_map(served, decode, rows, columns):
    path = f"{served.ids.plain}/map/self/0/3"
    answer = get(served, path, rows=f"{rows[0]}:{rows[1]}", columns=f"{columns[0]}:{columns[1]}")
    header, values, visible = decode(answer.content)
    analysis = served.shelf.open(served.ids.plain).analysis
    assert (header["rows"], header["columns"]) == (list(rows), list(columns))
    np.testing.assert_array_equal(values, analysis.map(0, 3, slice(*rows), slice(*columns)))
    np.testing.assert_allclose(values, analysis.map(0, 3)[slice(*rows), slice(*columns)], rtol=1e-5)
    np.testing.assert_array_equal(visible, np.tril(np.ones((40, 40), bool))[slice(*rows), slice(*columns)])


@pytest.mark.parametrize("how", ["mean", "max"])
def test_a_larger_window_comes_pooled_over_visible_cells(served, decode, how):
    answer = get(served, f"{served.ids.plain}/map/self/1/0", rows="4:40", columns="0:30", size="7", how=how)
    header, values, visible = decode(answer.content)
    assert (header["exact"], header["dtype"], header["shape"]) == (False, "float16", [7, 7])
    assert header["cells_per_value"] == [round(36 / 7, 4), round(30 / 7, 4)]
    whole = served.shelf.open(served.ids.plain).analysis.map(1, 0)
    seen = np.tril(np.ones((40, 40), bool))
    for p in range(7):
        for q in range(7):
            block = np.s_[4 + p * 36 // 7 : 4 + (p + 1) * 36 // 7, q * 30 // 7 : (q + 1) * 30 // 7]
            cells = whole[block][seen[block]]
            assert visible[p, q] == (cells.size > 0)
            if cells.size:
                assert values[p, q] == pytest.approx(getattr(cells, how)(), rel=2e-3, abs=1e-6)
            else:
                assert np.isnan(values[p, q])


def test_a_window_of_too_many_cells_comes_sampled_and_says_so(served, decode, monkeypatch):
    monkeypatch.setattr("backend.store.maps.PICTURE_CELLS", 200)
    answer = get(served, f"{served.ids.plain}/map/self/1/0", rows="4:40", columns="0:30", size="3")
    header, values, visible = decode(answer.content)
    assert (header["exact"], header["values"], header["shape"]) == (False, "sampled", [3, 3])
    whole = served.shelf.open(served.ids.plain).analysis.map(1, 0)
    for p, rows in enumerate(([7, 13], [19, 25], [31, 37])):  # two of the twelve rows of each block: 2 * 3 * 30 <= 200
        for q in range(3):
            cells = [whole[row, key] for row in rows for key in range(q * 10, q * 10 + 10) if key <= row]
            assert visible[p, q] == bool(cells)
            if cells:
                assert values[p, q] == pytest.approx(np.mean(cells), rel=2e-3, abs=1e-6)
    small = decode(get(served, f"{served.ids.plain}/map/self/1/0", rows="4:14", columns="0:20", size="3").content)[0]
    assert small["values"] == "pooled"


def test_without_queries_and_keys_the_whole_is_pooled_and_a_part_refused(served, decode):
    path = f"{served.ids.pooled_only}/map/self/0/0"
    header, _, _ = decode(get(served, path).content)
    assert header["exact"] is False
    refused = get(served, path, rows="0:4", columns="0:4")
    assert refused.status_code == 404
    assert "was not kept" in refused.json()["error"]


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("self/-1/0", 400, "layer: expected a whole number from 0, got '-1'"),
        ("self/two/0", 400, "layer: expected a whole number"),
        ("self/0/-1", 400, "head: expected a whole number"),
        ("self/0/<b>", 400, "head: expected a whole number"),
        ("self/2/0", 404, "no layer 2"),
        ("self/0/4", 404, "no head 4 in layer 0; there are 0 to 3"),
        ("cross/0/0", 404, "no maps of kind 'cross'"),
        ("self/0/0?rows=0:41", 400, "rows: expected start:stop with 0 <= start < stop <= 40"),
        ("self/0/0?columns=5:5", 400, "columns: expected start:stop"),
        ("self/0/0?size=0", 400, "size: expected a whole number from 1 to 4096"),
        ("self/0/0?size=1e9", 400, "size: expected a whole number"),
        ("self/0/0?how=median", 400, "how: expected one of mean, max"),
        ("self/0/0?window=all", 400, "no parameter 'window'"),
    ],
)
def test_bad_requests_are_refused_as_json(served, path, status, words):
    answer = served.client.get(f"/data/{served.ids.plain}/map/{path}")
    assert answer.status_code == status
    assert words in answer.json()["error"]
    assert answer.headers["cache-control"] == "no-store"


def test_layers_are_the_models_own(served, decode):
    assert get(served, f"{served.ids.layers_3_7}/map/self/0/0").status_code == 404
    header, _, _ = decode(get(served, f"{served.ids.layers_3_7}/map/self/7/0").content)
    assert header["map"] == [24, 24]
