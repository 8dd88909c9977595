"""Thumbnails: every head of a layer in one picture, invisible cells never in the colour of a weight."""

import io

import numpy as np
import pytest
from PIL import Image

from backend.errors import NotFound
from backend.routes.grid import GAP, HIDDEN, INVISIBLE, blocks_of, coloured, middle, ramp
from tests.backend.sinks.planted import sink_at, stored


def picture(served, path, **parameters):
    answer = served.client.get(f"/data/{served.ids.plain}/grid/{path}", params=parameters)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "image/png"
    return np.asarray(Image.open(io.BytesIO(answer.content)))


def test_all_heads_lie_side_by_side(served):
    pixels = picture(served, "self/1.png", size=40)
    assert pixels.shape == (40, 4 * 40 + 3 * GAP, 4)
    analysis = served.shelf.open(served.ids.plain).analysis
    for head in range(4):
        left = head * (40 + GAP)
        expected = coloured(analysis.pooled(1, head, 40), "cividis", "light")
        np.testing.assert_array_equal(pixels[:, left : left + 40], expected)
    assert (pixels[:, 40 : 40 + GAP, 3] == 0).all()


def test_invisible_cells_are_a_veil_of_grey(served):
    pixels = picture(served, "self/0.png", size=40)[:, :40]
    above = np.triu(np.ones((40, 40), bool), 1)
    assert (pixels[above] == INVISIBLE).all()
    assert not (pixels[~above] == INVISIBLE).all(-1).any()


def test_the_scale_runs_from_the_background_to_the_largest_weight():
    pixels = coloured(np.array([[0.0, 0.5], [np.nan, 0.25]], np.float32), "cividis", "dark")
    assert pixels[0, 0, 3] == 0
    assert tuple(pixels[0, 1]) == tuple(ramp("cividis", "dark")[255])
    assert tuple(pixels[1, 1]) == tuple(ramp("cividis", "dark")[int(np.sqrt(0.5) * 255.999)])
    light = ramp("cividis", "light")[:, :3].sum(-1)
    assert light[40] > light[255]


def test_k05_columns_of_sinks_are_in_no_colour_and_no_scale(served):
    planted = stored(served.folder, [sink_at(40, 0, 3.0)])
    answer = served.client.get(f"/data/{planted.id}/grid/self/0.png", params={"size": 40, "sinks": "hide"})
    pixels = np.asarray(Image.open(io.BytesIO(answer.content)))
    weights = planted.map(0, 0)
    assert (pixels[:, 0] == HIDDEN).all()
    largest = weights[:, 1:].max()
    assert tuple(pixels[30, 7]) == tuple(ramp("cividis", "light")[int(np.sqrt(weights[30, 7] / largest) * 255.999)])
    shown = served.client.get(f"/data/{planted.id}/grid/self/0.png?size=40").content
    assert shown != answer.content
    assert shown == served.client.get(f"/data/{planted.id}/grid/self/0.png?size=40&sinks=show").content


@pytest.mark.parametrize(("n", "blocks"), [(40, 40), (41, 16), (700, 128), (5, 3)])
def test_every_key_is_in_its_block(n, blocks):
    edges = np.arange(blocks + 1) * n // blocks
    for key in range(n):
        [block] = blocks_of((key,), n, np.zeros((1, blocks)))
        assert edges[block] <= key < edges[block + 1]


@pytest.mark.parametrize("values", [np.zeros((3, 3)), np.full((3, 3), np.nan)])
def test_maps_without_weights_have_no_colour(values):
    assert coloured(values.astype(np.float32), "viridis", "light")[..., 3].max() <= INVISIBLE[3]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("self/9.png", 404),
        ("cross/0.png", 404),
        ("self/-1.png", 400),
        ("self/a.png", 400),
        ("self/0.png?size=4000", 400),
        ("self/0.png?palette=jet", 400),
        ("self/0.png?sinks=no", 400),
        ("self/0.png?x=1", 400),
    ],
)
def test_bad_requests_are_refused(served, path, status):
    answer = served.client.get(f"/data/{served.ids.plain}/grid/{path}")
    assert answer.status_code == status
    assert set(answer.json()) == {"error"}


def test_without_a_layer_it_is_one_that_is_there(served):
    """The list of analyses does not know the layers of a hybrid model, nor the kinds of an encoder-decoder."""
    hybrid, plain = (f"/data/{id}/grid" for id in (served.ids.layers_3_7, served.ids.plain))
    assert (
        served.client.get(f"{hybrid}.png?size=32").content == served.client.get(f"{hybrid}/self/7.png?size=32").content
    )
    assert served.client.get(f"{plain}.png").content == served.client.get(f"{plain}/self/1.png").content
    assert middle({"encoder": {0: None, 1: None, 2: None}, "cross": {5: None}}) == ("encoder", 1)
    with pytest.raises(NotFound):
        middle({})
    missing = served.client.get(f"/data/{'x' * 24}/grid.png")
    assert missing.status_code == 404 and set(missing.json()) == {"error"}
