"""What ships: seven analyses of the right length and size, whole, and the same tables when they are made again."""

import json

import numpy as np
import pyarrow as pa
import pytest

from backend.models.hand_set import HEADS
from backend.settings import bundled_folder
from backend.store import Library
from tests.backend.test_hand_set import closed_forms
from tools.bundled import BUNDLED, FEWEST, HAND_SET, LARGEST_BYTES, MOST, SMOLLM, make

NAMES = pytest.mark.parametrize("name", BUNDLED)


@pytest.fixture(scope="module")
def bundled():
    return Library(bundled_folder(), read_only=True)


def test_exactly_these_ship_and_they_are_small(bundled):
    assert {entry.id for entry in bundled.list()} == set(BUNDLED)
    files = list(bundled_folder().rglob("*.duckdb"))
    assert sum(file.stat().st_size for file in files) <= LARGEST_BYTES


def test_the_first_one_of_the_list_is_the_story(bundled):
    assert min(bundled.list(), key=lambda entry: entry.title).id == "bundled-story"


@NAMES
def test_each_is_what_its_maker_says(bundled, name):
    what, analysis = BUNDLED[name], bundled.open(name)
    assert bundled.entry(name).title == what.title and analysis.info["model"] == what.model
    assert FEWEST <= analysis.info["n_tokens"] <= MOST
    stored = {field: value for field, value in vars(what.prompt).items() if value not in (None, False)}
    assert analysis.info["prompt"] == json.loads(json.dumps(stored))
    assert analysis.info["checks"]["maps_equal_eager"]["passed"]


@NAMES
def test_every_head_has_its_exact_map(bundled, name):
    analysis = bundled.open(name)
    for layer in analysis.layers():
        assert analysis.exact_heads(layer.layer, layer.kind) == tuple(range(layer.heads))
    last = analysis.layers()[-1]
    rows = analysis.map(last.layer, last.heads - 1, kind=last.kind).sum(-1)
    assert np.abs(rows - 1).max() < 1e-4
    assert max(analysis.weight_error(one.layer, h) or 0 for one in analysis.layers() for h in range(one.heads)) < 2e-3


def test_nothing_of_the_machine_that_made_them_is_in_the_files(bundled):
    for name in BUNDLED:
        text = json.dumps(bundled.open(name).info) + (bundled_folder() / "analyses" / name / "entry.json").read_text()
        assert "/home" not in text and "/root" not in text and "/tmp" not in text and bundled.entry(name).owner is None


def test_the_maps_of_the_model_set_by_hand_equal_their_closed_forms(bundled):
    analysis = bundled.open("bundled-hand-set")
    for (layer, head), closed in closed_forms([token.token_id for token in analysis.tokens_list()]).items():
        assert np.abs(analysis.map(layer, head) - closed).max() < 1e-6, HEADS[layer, head].name


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.weights, *([pytest.mark.long] if what.model == SMOLLM else [])])
        if what.model != HAND_SET
        else name
        for name, what in BUNDLED.items()
    ],
)
def test_made_again_they_have_the_same_tables(bundled, name, tmp_path):
    make(name, tmp_path)
    again, shipped = Library(tmp_path, read_only=True).open(name), bundled.open(name)
    assert again.tables() == shipped.tables()
    for table in set(shipped.tables()) - {"info"}:
        same(again.table(table), shipped.table(table), table)
    times = {"timings", "created_at", "peak_memory_mb", "versions", "id"}
    assert {k: v for k, v in again.info.items() if k not in times}.keys() >= {"prompt", "model", "weights_hash"}
    for fact in ("prompt", "model", "weights_hash", "tokenizer_hash", "segments", "n_tokens", "dtype", "options"):
        assert again.info[fact] == shipped.info[fact], fact


def same(again: pa.Table, shipped: pa.Table, table: str) -> None:
    """Equal, numbers up to the rounding of another order of summation."""
    assert again.schema == shipped.schema and again.num_rows == shipped.num_rows, table
    for column in shipped.column_names:
        left, right = (one.column(column).combine_chunks() for one in (again, shipped))
        if pa.types.is_floating(left.type):
            values = [np.asarray(one.to_numpy(zero_copy_only=False), np.float64) for one in (left, right)]
            assert np.allclose(*values, rtol=1e-3, atol=1e-5, equal_nan=True), (table, column)
        else:
            assert left.equals(right), (table, column)
