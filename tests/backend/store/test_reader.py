"""Reading: maps, pictures and tables say what was measured, whoever reads and from wherever."""

import os
import subprocess
import sys
import tempfile
import textwrap
import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from store_records import layer_record, run_record, store

from backend.errors import NoExactMap, NotFound
from backend.store import Library, TemporaryLibrary
from kernels.score import ScoreSpec
from kernels.window import pooled, visible, weights

ROOT = Path(__file__).resolve().parents[3]
N = 40


def truth(record):
    n = record.query.shape[1]
    return weights(
        record.query[None], record.key[None], record.score, record.lse[None].float(), slice(0, n), slice(0, n)
    )[0].numpy()


@pytest.fixture(scope="module")
def stored(shared_library):
    torch.manual_seed(1)
    records = [layer_record(0, n=N), layer_record(3, n=N, exact=(1,), top=4, pooled=20)]
    return shared_library.open(store(shared_library, records)), records


def test_a_map_is_that_of_the_kernels(stored):
    analysis, records = stored
    for record, heads in zip(records, ((0, 1, 2, 3), (1,)), strict=True):
        layer = record.info.layer
        assert analysis.exact_heads(layer) == heads
        for head in heads:
            assert np.abs(analysis.map(layer, head) - truth(record)[head]).max() < 1e-6
            window = analysis.map(layer, head, slice(3, 9), slice(2, 5))
            np.testing.assert_allclose(window, analysis.map(layer, head)[3:9, 2:5], atol=1e-6)
            assert analysis.weight_error(layer, head) == 0.0
    assert np.array_equal(analysis.visible(3, 0), np.tri(N, dtype=bool))
    assert analysis.weight_error(3, 0) is None


@pytest.mark.parametrize(
    "rule",
    [
        ScoreSpec(scale=0.3, window=7, keep_first=1),
        ScoreSpec(scale=0.3, causal=False, around=(3, 5)),
        ScoreSpec(scale=0.3, causal=False, key_padding=torch.arange(N)[None] >= 4),
        ScoreSpec(scale=0.3, bias_by_distance=torch.randn(4, 2 * N - 1), sink=torch.randn(4)),
        ScoreSpec(scale=0.3, mask=torch.rand(1, 4, N, N) > 0.3),
    ],
    ids=["window", "around", "padding", "biases", "mask"],
)
def test_every_rule_weighs_the_same_after_storage(library, rule):
    record = layer_record(n=N, score=rule)
    analysis = library.open(store(library, [record]))
    seen = visible(rule, N, N, slice(0, N), slice(0, N))[0]
    for head in range(4):
        assert np.abs(analysis.map(0, head) - truth(record)[head]).max() < 1e-6
        own = seen[min(head, len(seen) - 1)].numpy()
        assert np.array_equal(analysis.visible(0, head), own)
        assert (analysis.map(0, head)[~own] == 0).all()


@pytest.mark.parametrize("how", ["mean", "max"])
@pytest.mark.parametrize("size", [1, 7, 16, 128])
def test_a_picture_is_the_pooled_map(stored, how, size):
    analysis, (record, _) = stored
    whole = pooled(
        record.query[None],
        record.key[None],
        record.score,
        record.lse[None].float(),
        slice(0, N),
        slice(0, N),
        size,
        how,
    )
    part = pooled(
        record.query[None],
        record.key[None],
        record.score,
        record.lse[None].float(),
        slice(5, 30),
        slice(0, 33),
        size,
        how,
    )
    found = analysis.pooled(0, 2, size, how=how)
    assert found.shape == (min(size, N),) * 2
    np.testing.assert_allclose(found, whole[0, 2].numpy(), atol=1e-6)
    window = analysis.pooled(0, 2, size, how=how, rows=slice(5, 30), columns=slice(0, 33))
    np.testing.assert_allclose(window, part[0, 2].numpy(), atol=1e-6)


@pytest.mark.parametrize("how", ["mean", "max"])
def test_without_an_exact_map_the_stored_picture_and_its_divisors_are_there(stored, how):
    analysis, (_, record) = stored
    exact = pooled(
        record.query[None], record.key[None], record.score, record.lse[None].float(), slice(0, N), slice(0, N), 10, how
    )
    np.testing.assert_allclose(analysis.pooled(3, 0, 10, how=how), exact[0, 0].numpy(), atol=1e-3)
    assert analysis.pooled(3, 0, 128, how=how).shape == (20, 20)
    assert analysis.pooled(3, 0, 19, how=how).shape == (10, 10)
    assert np.isnan(analysis.pooled(3, 0, how=how)[0, 1:]).all()
    with pytest.raises(NoExactMap, match=r"head 3\.0 was not kept"):
        analysis.pooled(3, 0, 10, rows=slice(0, 20))
    with pytest.raises(NoExactMap):
        analysis.map(3, 2)


@pytest.mark.parametrize(
    ("layer", "head", "kind", "says"),
    [
        (1, 0, "self", "choose 0, 3"),
        (-1, 0, "self", "choose 0, 3"),
        ("0", 0, "self", "choose 0, 3"),
        (True, 0, "self", "choose 0, 3"),
        (0, 4, "self", "choose 0 to 3"),
        (0, -1, "self", "choose 0 to 3"),
        (0, 1.0, "self", "choose 0 to 3"),
        (0, 0, "cross", "choose self"),
        (0, 0, "'; DROP TABLE rows", "choose self"),
    ],
)
@pytest.mark.parametrize("method", ["map", "visible", "pooled"])
def test_what_does_not_exist_is_named_with_what_does(stored, method, layer, head, kind, says):
    with pytest.raises(NotFound, match=says):
        getattr(stored[0], method)(layer, head, kind=kind)


@pytest.mark.parametrize(
    "rows", [slice(-1, 3), slice(0, 41), slice(5, 5), slice(0, 4, 2), slice(0.0, 3), slice("a", 3)]
)
def test_windows_outside_the_map_are_refused(stored, rows):
    with pytest.raises(NotFound, match="within 0 to 40"):
        stored[0].map(0, 0, rows)


@pytest.mark.parametrize("rows", [5, (0, 4), "0:4"])
def test_a_window_is_a_slice(stored, rows):
    with pytest.raises(NotFound, match="expected a slice"):
        stored[0].map(0, 0, rows)


def test_numbers_of_numpy_name_layers_and_heads_too(stored):
    analysis, (layer, head) = stored[0], np.array([3, 1])
    assert np.array_equal(analysis.map(layer, head), analysis.map(3, 1))
    assert np.array_equal(analysis.pooled(layer, head, 10), analysis.pooled(3, 1, 10), equal_nan=True)
    for method in (analysis.rows, analysis.keys, analysis.links):
        assert method(layer=layer, head=head).equals(method(layer=3, head=1))


def test_rows_and_keys_hold_the_measures(stored):
    analysis, records = stored
    for record in records:
        layer, measures = record.info.layer, record.measures
        for head in range(4):
            rows = analysis.rows(layer=layer, head=head).sort_by("query").to_pydict()
            for name in ("entropy", "first_mass", "previous_mass", "mean_distance", "visible_keys", "max_key"):
                stored_values = np.array([np.nan if v is None else v for v in rows[name]], np.float32)
                np.testing.assert_allclose(stored_values, measures[name][head].float().numpy(), rtol=1e-6, err_msg=name)
            assert rows["previous_mass"][0] is None  # the first token has no previous one
            keys = analysis.keys(layer=layer, head=head).sort_by("key").to_pydict()
            np.testing.assert_allclose(keys["received_sum"], measures["received_sum"][head].numpy(), rtol=1e-6)
            mean = measures["received_sum"][head] / measures["visible_rows"][head]
            np.testing.assert_allclose(keys["received_mean"], mean.numpy(), rtol=1e-5)
            assert keys["output_norm"] == [None] * N


def test_distances_and_coverage_hold_the_measures(stored):
    analysis, (record, _) = stored
    found = analysis.distances(layer=0, head=1).sort_by("distance").to_pydict()
    assert found["distance"] == list(range(N)) and found["rows"] == list(range(N, 0, -1))
    np.testing.assert_allclose(found["mass_sum"], record.measures["distance_sum"][1].float().numpy(), rtol=1e-6)
    np.testing.assert_allclose(np.array(found["mean_weight"]), np.array(found["mass_sum"]) / found["rows"], rtol=1e-5)
    rows = analysis.coverage(layer=0, head=1).to_pylist()
    grid = {(row["query"], row["share"]): row["keys"] for row in rows}
    assert {share for _, share in grid} == {0.5, 0.8, 0.9, 0.95, 0.99}
    sampled, keys = record.measures["sampled_rows"].tolist(), record.measures["coverage"][1]
    assert all(grid[q, 0.95] == int(keys[i, 3]) for i, q in enumerate(sampled))


def test_a_two_sided_layer_has_distances_of_both_signs(library):
    record = layer_record(n=9, score=ScoreSpec(scale=0.5, causal=False))
    analysis = library.open(store(library, [record]))
    assert analysis.distances(head=0).sort_by("distance")["distance"].to_pylist() == list(range(-8, 9))


def test_statistics_are_the_grid_and_the_table(stored):
    analysis, records = stored
    grid = analysis.statistic("entropy")
    np.testing.assert_allclose(grid, [record.statistics["entropy"] for record in records])
    assert analysis.heads(layer=3).num_rows == 4
    with pytest.raises(NotFound, match="no statistic 'layers'"):
        analysis.statistic("layers")


def test_links_are_stored_or_computed(stored):
    analysis, records = stored
    for record in records:
        whole = truth(record)
        for head in range(4):
            links = analysis.links(layer=record.info.layer, head=head, top=4).to_pylist()
            assert {(row["kind"], row["layer"], row["head"]) for row in links} == {("self", record.info.layer, head)}
            assert len(links) == 4 * N - 6  # the first rows see fewer than four keys
            assert all(abs(row["weight"] - whole[head, row["query"], row["key"]]) < 1e-5 for row in links)
            strongest = {row["key"] for row in links if row["query"] == 30}
            assert strongest == set(np.argsort(whole[head, 30])[-4:].tolist())
    assert analysis.links().num_rows == 4 * (8 * N - 28) + 3 * (4 * N - 6) + (8 * N - 28)


def test_tokens_segments_and_layers_come_back_as_records(stored):
    analysis, records = stored
    run = run_record(N)
    assert analysis.tokens_list() == run.tokens and analysis.segments() == run.segments
    assert analysis.layers() == [record.info for record in records]
    assert analysis.tokens()["start"].to_pylist()[:2] == [0, 3]
    assert analysis.predictions().to_pylist() == [vars(item) for item in run.predictions]
    assert analysis.hidden(layer=3).num_rows == N
    assert analysis.info["type"] == "analysis" and analysis.info["schema_version"] == 1
    assert {"layers", "segments", "tokens", "rows"} <= set(analysis.tables())
    with pytest.raises(NotFound, match="no table"):
        analysis.table("maps_0")


def test_case_68_eight_threads_share_one_analysis(stored):
    analysis, records = stored
    expected = [truth(record) for record in records]
    wrong: list[object] = []

    def read(seed):
        random = np.random.default_rng(seed)
        for _ in range(200):
            head, start = int(random.integers(4)), int(random.integers(N - 5))
            found = analysis.map(0, head, slice(start, start + 5))
            if np.abs(found - expected[0][head, start : start + 5]).max() > 1e-6:
                wrong.append(found)
            if analysis.sql("SELECT count(*) AS n FROM rows WHERE head = ?", [head])["n"].to_pylist() != [2 * N]:
                wrong.append(head)

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


READ = """
    import os, sys
    sys.path.insert(0, {root!r})
    from backend.store import Library
    if {uid}:
        os.setgroups([]); os.setgid({uid}); os.setuid({uid})
    analysis = Library({path!r}).open({id!r})
    print(float(analysis.map(0, 2, slice(7, 8), slice(3, 4))[0, 0]), len(Library({path!r}).list()))
"""


def read_elsewhere(library: Library, id: str, uid: int = 0) -> list[float]:
    script = textwrap.dedent(READ).format(root=str(ROOT), path=str(library.path), id=id, uid=uid)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [float(text) for text in done.stdout.split()]


def test_case_66_another_process_reads_the_same_while_it_is_open_here(shared_library, stored):
    analysis, (record, _) = stored
    weight, count = read_elsewhere(shared_library, analysis.id)
    assert weight == pytest.approx(truth(record)[2, 7, 3], abs=1e-7) and count == 1


@pytest.mark.skipif(os.name == "nt" or os.geteuid() != 0, reason="needs root, to become somebody who may not write")
def test_a_read_only_folder_will_do():
    with tempfile.TemporaryDirectory() as folder:  # pytest's own folders are closed to other users
        Path(folder).chmod(0o755)
        record, library = layer_record(), Library(Path(folder) / "library")
        id = store(library, [record])
        for path in [library.path, *library.path.rglob("*")]:
            path.chmod(0o555 if path.is_dir() else 0o444)
        weight, count = read_elsewhere(library, id, uid=65534)
    assert weight == pytest.approx(truth(record)[2, 7, 3], abs=1e-6) and count == 1


def test_an_analysis_deleted_while_open_elsewhere_says_so(library):
    analysis = library.open(store(library, [layer_record()]))
    analysis.map(0, 0)
    Library(library.path).delete(analysis.id)
    with pytest.raises(NotFound, match="no longer there"):
        analysis.map(0, 1)
    with pytest.raises(NotFound):
        library.open(analysis.id)


def test_a_temporary_library_lives_as_long_as_its_analyses():
    library = TemporaryLibrary()
    analysis = library.open(store(library, [layer_record()]))
    folder = library.path
    del library
    assert analysis.map(0, 0).shape == (20, 20) and folder.exists()
    del analysis
    assert not folder.exists()


def test_case_66_plain_duckdb_reads_the_file_beside_us(stored):
    import duckdb

    analysis, _ = stored
    analysis.map(0, 0)
    with duckdb.connect(str(analysis.path), read_only=True) as plain:
        assert plain.execute("SELECT count(*) FROM rows").fetchone() == (2 * 4 * N,)
