"""From a prompt to a stored analysis, compared with a separate copy of the model that computes its own eager maps."""

import gc
import json
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import torch

from backend import statistics
from backend.errors import Cancelled, NotSaved, Refused, StoreError
from backend.interventions import Gate
from backend.models import LoadedModel, load
from backend.pipeline import Options, analyse, estimate
from backend.prompts import Prompt
from backend.store import AnalysisWriter, Library
from tests.backend.eager import eager_maps
from tests.backend.tiny import VOCABULARY, WINDOW, build, ids

ROOT = Path(__file__).resolve().parents[2]
TOKENS = ids(40)[0].tolist()


@pytest.fixture
def library(data_folder) -> Library:
    return Library(data_folder)


def wrapped(model_type="llama", **changes) -> LoadedModel:
    return LoadedModel.wrap(build(model_type, **changes))


READ_ELSEWHERE = """
import sys
import numpy as np
from backend.store import Library
library, found = Library(sys.argv[1]), {}
for id in sys.argv[3:]:
    analysis = library.open(id)
    heads = [(layer.layer, head) for layer in analysis.layers() for head in range(layer.heads)]
    found[f"maps {id}"] = np.array([analysis.map(*head) for head in heads])
    found[f"seen {id}"] = np.array([analysis.visible(*head) for head in heads])
np.savez(sys.argv[2], **found)
assert "transformers" not in sys.modules, "an analysis is read without the model's libraries"
"""


def read_in_another_process(library, ids, folder) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """id -> maps [L * H, N, N] and visible cells, read by a process that never saw the models."""
    command = [sys.executable, "-c", READ_ELSEWHERE, str(library.path), str(folder / "maps.npz"), *ids]
    subprocess.run(command, check=True, cwd=ROOT)
    stored = np.load(folder / "maps.npz")
    return {id: (stored[f"maps {id}"], stored[f"seen {id}"]) for id in ids}


def eager_truth(model, token_ids, dtype=None) -> np.ndarray:
    """[L * H, N, N] of a separate deep copy of the model, set to eager."""
    maps = eager_maps(model.model, {"input_ids": torch.tensor([token_ids])}, dtype)
    return torch.cat([layer[0] for layer in maps]).double().numpy()


FAMILIES = ["llama", "mistral", "qwen2", "gpt2", "gemma2", "gpt_oss", "bert", "modernbert"]


@pytest.fixture(scope="module")
def stored_and_true(tmp_path_factory):
    """model type -> stored maps, visible cells, eager maps in float32 and in float64 of a tiny model."""
    folder = tmp_path_factory.mktemp("families")
    library, ids, truth = Library(folder), {}, {}
    for model_type in FAMILIES:
        model = wrapped(model_type)
        truth[model_type] = (eager_truth(model, TOKENS), eager_truth(model, TOKENS, torch.float64))
        ids[model_type] = analyse(model, TOKENS, library=library).id
    stored = read_in_another_process(library, list(ids.values()), folder)
    return {model_type: (*stored[ids[model_type]], *truth[model_type]) for model_type in FAMILIES}


@pytest.mark.parametrize("model_type", FAMILIES)
def test_stored_maps_are_the_eager_maps_of_the_model(model_type, stored_and_true):
    maps, seen, truth, in_float64 = stored_and_true[model_type]
    assert maps.shape == truth.shape
    rounding = np.abs(
        truth - in_float64
    ).max()  # what float32 leaves open: scores are large where weights are drawn wide
    assert np.abs(maps - truth).max() <= max(1e-5, 4 * rounding)
    assert (maps[~seen] == 0).all()
    visible_keys = seen[0].sum(-1)
    if model_type in ("mistral", "gemma2", "gpt_oss"):
        assert (visible_keys == np.minimum(np.arange(len(TOKENS)) + 1, WINDOW)).all()
    if model_type in ("bert", "modernbert"):
        assert (visible_keys == len(TOKENS)).all(), "encoders see both sides"


def test_a_model_in_bfloat16(library):
    model = LoadedModel.wrap(build("llama", initializer_range=0.05).to(torch.bfloat16))
    analysis = analyse(model, TOKENS, library=library)
    assert analysis.info["dtype"] == "bfloat16"
    maps = np.stack([analysis.map(layer, head) for layer in (0, 1) for head in range(8)])
    assert np.abs(maps - eager_truth(model, TOKENS)).max() <= 4e-3
    assert np.abs(maps.sum(-1) - 1).max() <= 1e-3


@pytest.mark.parametrize("model_type", ["llama", "mistral", "gpt_oss"])
def test_stored_statistics_and_rows_are_those_of_the_maps(model_type, library):
    model = wrapped(model_type)
    analysis = analyse(model, TOKENS, library=library)
    heads = {(row["layer"], row["head"]): row for row in analysis.heads().to_pylist()}
    assert set(statistics.all()) < set(heads[0, 0])
    for layer, head in [(0, 0), (1, 5)]:
        weights, seen = analysis.map(layer, head).astype(np.float64), analysis.visible(layer, head)
        n = seen.sum(-1)
        row = heads[layer, head]
        assert row["previous_token"] == pytest.approx(np.diagonal(weights, -1).mean(), abs=1e-5)
        assert row["self_attention"] == pytest.approx(np.diagonal(weights)[n >= 2].mean(), abs=1e-5)
        assert row["first_key_importance"] == pytest.approx(weights[seen[:, 0], 0].mean(), abs=1e-5)
        far = np.abs(np.subtract.outer(np.arange(len(TOKENS)), np.arange(len(TOKENS))))
        assert row["mean_distance"] == pytest.approx((weights * far).sum(-1)[n >= 2].mean(), abs=1e-4)
        assert row["negligible_share"] == pytest.approx(
            (seen & (weights < 0.01 / n[:, None])).sum() / seen.sum(), abs=2e-3
        )
        rows = analysis.rows(layer=layer, head=head).to_pydict()
        assert rows["visible_keys"] == n.tolist()
        assert rows["max_weight"] == pytest.approx(weights.max(-1).tolist(), abs=1e-5)
        keys = analysis.keys(layer=layer, head=head).to_pydict()
        assert keys["received_sum"] == pytest.approx(weights.sum(0).tolist(), abs=1e-4)
        distances = analysis.distances(layer=layer, head=head).to_pydict()
        by_distance = dict(zip(distances["distance"], distances["mass_sum"], strict=True))
        assert by_distance[3] == pytest.approx(np.diagonal(weights, -3).sum(), abs=1e-4)


@pytest.mark.parametrize("model_type", ["mistral", "bert"])
def test_triton_stores_the_same_tables_as_tiled(model_type, library):
    """In Triton's interpreter."""
    model, prompt = wrapped(model_type), [3, 9, 4, 9, 4, 17, 3, 9, 30, 31, 4, 8, 9]
    tiled, triton = (
        analyse(model, prompt, library=library, options=Options(impl=impl, pooled=5)) for impl in ("tiled", "triton")
    )
    assert (tiled.info["implementation"], triton.info["implementation"]) == ("tiled", "triton")
    for table in ("rows", "keys", "heads", "distances", "coverage"):
        ours, theirs = triton.table(table), tiled.table(table)
        assert ours.column_names == theirs.column_names and ours.num_rows == theirs.num_rows > 0
        for name in ours.column_names:
            a, b = (np.array([x if x is not None else np.nan for x in t[name].to_pylist()]) for t in (ours, theirs))
            if a.dtype.kind in "fi":
                np.testing.assert_allclose(a, b, atol=1e-5, rtol=1e-5, err_msg=f"{table}.{name}")
            else:
                assert (a == b).all(), f"{table}.{name}"
    for how in ("mean", "max"):
        np.testing.assert_allclose(triton.pooled(1, 2, 5, how=how), tiled.pooled(1, 2, 5, how=how), atol=1e-3)


def test_tokens_predictions_and_facts_of_the_run(library):
    model = wrapped()
    analysis = analyse(model, TOKENS, library=library, options=Options(predictions=3))
    with torch.inference_mode():
        logprobs = torch.log_softmax(model.model(torch.tensor([TOKENS])).logits[0], -1)
    tokens = analysis.tokens_list()
    assert [token.token_id for token in tokens] == TOKENS and tokens[0].logprob is None
    expected = [logprobs[i - 1, token].item() for i, token in enumerate(TOKENS)][1:]
    assert [token.logprob for token in tokens[1:]] == pytest.approx(expected, abs=1e-4)
    best = logprobs[-1].topk(3)
    predictions = analysis.predictions().to_pylist()
    assert [p["token_id"] for p in predictions] == best.indices.tolist()
    assert [p["rank"] for p in predictions] == [0, 1, 2] and predictions[0]["position"] == len(TOKENS) - 1
    assert predictions[0]["logprob"] == pytest.approx(best.values[0].item(), abs=1e-4)

    info = analysis.info
    assert info["type"] == "analysis" and info["n_tokens"] == 40 and info["prompt"] == {"token_ids": TOKENS}
    assert info["implementation"] == "tiled" and info["options"]["predictions"] == 3
    assert info["versions"]["torch"] == torch.__version__ and info["timings"]["layers"] > 0
    assert info["checks"]["maps_equal_eager"]["passed"] and info["peak_memory_mb"] > 0
    uniform = {(row["kind"], row["layer"]): row for row in info["uniform"]}
    assert uniform["self", 1]["effective_keys"] == pytest.approx(20.5, abs=1e-4)


def test_an_encoder_has_no_next_token(library):
    analysis = analyse(wrapped("bert"), TOKENS, library=library)
    assert analysis.predictions().num_rows == 0
    assert all(token.logprob is None for token in analysis.tokens_list())


def test_runs_that_share_one_model_take_turns(library):
    """Each in a thread of its own, some writing text first: every one gets what it would get alone."""
    model, lengths, found = wrapped(), (40, 33, 26, 19), {}
    options = [Options(new_tokens=5 * (n % 2)) for n in lengths]

    def run(n: int, chosen: Options) -> None:
        found[n] = analyse(model, TOKENS[:n], options=chosen)

    threads = [threading.Thread(target=run, args=pair) for pair in zip(lengths, options, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for n, chosen in zip(lengths, options, strict=True):
        alone = analyse(model, TOKENS[:n], options=chosen)
        for table in ("tokens", "rows", "predictions"):
            assert found[n].table(table).equals(alone.table(table)), (n, table)


def test_the_same_work_is_found_again_by_those_who_may_see_it(library):
    model = wrapped()
    first = analyse(model, TOKENS, library=library)
    assert analyse(model, TOKENS, library=library, owner="me").id == first.id
    others = [
        analyse(model, TOKENS[:-1], library=library),
        analyse(model, TOKENS, library=library, options=Options(pooled=16)),
        analyse(model, TOKENS, library=library, options=Options(interventions=(Gate(heads=((0, 0),), factor=0.0),))),
        analyse(wrapped(seed=1), TOKENS, library=library),
        analyse(model, TOKENS, library=library, options=Options(impl="reference")),
    ]
    assert len({first.id, *(other.id for other in others)}) == 6


def test_what_was_asked_for_as_private_is_private_and_a_link_is_a_link(library):
    model = wrapped()
    analyse(model, TOKENS, library=library, owner="you")
    mine = analyse(model, TOKENS, library=library, visibility="private", owner="me")
    assert (library.entry(mine.id).visibility, library.entry(mine.id).owner) == ("private", "me")
    shared = analyse(model, TOKENS, library=library, owner="me")
    assert library.entry(shared.id).visibility == "link"


def test_a_damaged_file_is_no_answer(library):
    model = wrapped()
    first = analyse(model, TOKENS, library=library)
    first.path.write_bytes(bytes(1000))
    again = analyse(model, TOKENS, library=library)
    assert again.id != first.id
    assert again.map(0, 0).shape == (40, 40)


def test_equal_weights_with_another_window_are_other_work(library):
    narrow, wide = wrapped("mistral"), wrapped("mistral", sliding_window=9)
    assert narrow.weights_hash == wide.weights_hash
    found = analyse(wide, TOKENS, library=library)
    assert analyse(narrow, TOKENS, library=library).id != found.id


def test_a_private_analysis_is_found_by_its_owner_alone(library):
    model = wrapped()
    mine = analyse(model, TOKENS, library=library, visibility="private", owner="me")
    assert analyse(model, TOKENS, library=library, visibility="private", owner="me").id == mine.id
    theirs = analyse(model, TOKENS, library=library, owner="you")
    assert theirs.id != mine.id and library.entry(theirs.id).visibility == "link"
    with pytest.raises(Refused, match="owner"):
        analyse(model, TOKENS, library=library, visibility="private")
    with pytest.raises(Refused, match="visibility"):
        analyse(model, TOKENS, library=library, visibility="public")


def test_without_a_library_the_data_folder_is_untouched(data_folder):
    analysis = analyse(wrapped(), TOKENS)
    folder = analysis.path.parent
    assert analysis.map(0, 0).shape == (40, 40)
    assert list(data_folder.iterdir()) == []
    del analysis
    gc.collect()
    assert not folder.exists(), "the temporary file goes with the analysis"


def test_interventions_change_the_run_and_are_named(library):
    model = wrapped()
    plain = analyse(model, TOKENS, library=library)
    gated = analyse(model, TOKENS, library=library, options=Options(interventions=(Gate(layers=(0,), factor=0.0),)))
    assert np.allclose(plain.map(0, 3), gated.map(0, 3), atol=1e-6), "a gate changes what the map is used for"
    assert not np.allclose(plain.map(1, 3), gated.map(1, 3), atol=1e-3)
    assert len(gated.info["interventions"]) == 1 and plain.info["interventions"] == []
    with pytest.raises(Refused, match="no attention layer 9"):
        analyse(model, TOKENS, library=library, options=Options(interventions=(Gate(layers=(9,), factor=0.0),)))


@pytest.mark.parametrize("choice", [{}, {"num_beams": 3}, {"temperature": 1.0, "top_p": 0.9, "seed": 5}], ids=str)
def test_written_text_is_read_with_the_prompt(choice, library):
    model, options = wrapped(), Options(new_tokens=6, predictions=4, **choice)
    analysis = analyse(model, TOKENS[:9], library=library, options=options)
    ids = [token.token_id for token in analysis.tokens_list()]
    assert ids[:9] == TOKENS[:9] and 9 < len(ids) <= 15
    segment = analysis.info["segments"][-1]
    assert (segment["name"], segment["start"], segment["end"]) == ("generated", 9, len(ids))
    assert analysis.info["n_prompt_tokens"] == 9
    maps = np.stack([analysis.map(layer, head) for layer in (0, 1) for head in range(8)])
    assert np.abs(maps - eager_truth(model, ids)).max() <= 2e-5
    predictions = analysis.predictions().to_pylist()
    assert sorted({p["position"] for p in predictions}) == list(range(8, len(ids))), "one list per written token"
    if not choice:  # greedy: what was written is what was most probable
        likeliest = {p["position"]: p["token_id"] for p in predictions if p["rank"] == 0}
        assert [likeliest[place - 1] for place in range(9, len(ids))] == ids[9:]
    assert analyse(model, TOKENS[:9], library=library, options=options).id == analysis.id


def test_writing_tells_its_progress_and_can_be_stopped(library):
    progress = Progress(stop_at=("write", 3))
    with pytest.raises(Cancelled):
        analyse(
            wrapped(), TOKENS[:9], library=library, options=Options(new_tokens=50), progress=progress,
            cancel=progress.cancel,
        )  # fmt: skip
    assert progress.told[-1][:3] == ("write", 3, 50) and library.list() == []


def test_chosen_heads_keep_exact_maps_and_the_others_their_strongest_links(library):
    options = Options(exact_maps=[(1, 2)], top_links=3)
    analysis = analyse(wrapped(), TOKENS, library=library, options=options)
    assert analysis.exact_heads(0) == () and tuple(analysis.exact_heads(1)) == (2,)
    links = analysis.links(layer=0, head=4).to_pydict()
    full = analyse(wrapped(), TOKENS, library=library)
    row = full.map(0, 4)[20]
    strongest = [key for query, key in zip(links["query"], links["key"], strict=True) if query == 20]
    assert sorted(strongest) == sorted(np.argsort(-row)[:3].tolist())
    assert "exact maps for 1 of 16 heads" in estimate(wrapped(), 40, options).sentence


class Progress:
    """Notes what it is told; sets an event at a chosen layer."""

    def __init__(self, stop_at=None):
        self.told, self.stop_at, self.cancel = [], stop_at, threading.Event()

    def __call__(self, step, layer, n_layers, seconds_left):
        self.told.append((step, layer, n_layers, seconds_left))
        if (step, layer) == self.stop_at:
            self.cancel.set()


def test_progress_is_told_layer_by_layer(library):
    progress = Progress()
    analyse(wrapped("qwen2"), TOKENS, library=library, progress=progress)
    steps = [(step, layer) for step, layer, _, _ in progress.told]
    assert steps == [("prepare", 0), *(("layers", n) for n in (1, 2, 3, 4)), ("tokens", 4), ("save", 4)]
    assert {n for step, _, n, _ in progress.told if step == "layers"} == {4}
    assert all(left is None or left >= 0 for *_, left in progress.told)


@pytest.mark.parametrize("stop_at", [("layers", 1), ("layers", 4), ("tokens", 4)])
def test_cancel_stops_between_layers_and_stores_nothing(stop_at, library):
    model, progress = wrapped("qwen2"), Progress(stop_at)
    with pytest.raises(Cancelled):
        analyse(model, TOKENS, library=library, progress=progress, cancel=progress.cancel)
    assert library.list() == [] and progress.told[-1][:2] == stop_at
    assert not list(library.path.rglob("*.duckdb")) and not list(library.path.rglob("*.writing"))
    assert model.model.config._attn_implementation != "headwater"
    assert analyse(model, TOKENS, library=library, cancel=lambda: False).info["n_tokens"] == 40


@pytest.mark.parametrize(
    ("prompt", "options", "message"),
    [
        ([], Options(), "empty"),
        ([3, VOCABULARY], Options(), "whole numbers from 0 to 99; got 100"),
        (TOKENS, Options(max_tokens=39), "40 tokens and at most 39"),
        (list(range(3, 93)) * 2, Options(), "180 tokens and in-memory takes at most 128"),
        ("text", Options(), "without a tokenizer"),
        (TOKENS, Options(new_tokens=257), "0 to 256, got 257"),
        (TOKENS, Options(new_tokens=100), "40 tokens, 100 shall be written, and in-memory takes at most 128"),
        (TOKENS, Options(keep_media="yes"), "keep_media"),
        (TOKENS, Options(exact_maps=[(5, 0)]), "no attention layer 5"),
    ],
)
def test_refusals_come_before_the_run_and_store_nothing(prompt, options, message, library):
    with pytest.raises(Refused, match=message):
        analyse(wrapped(), prompt, options=options, library=library)
    assert not list(library.path.rglob("*.duckdb"))


def test_triton_without_a_device_is_refused_before_the_run(library, monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET")
    with pytest.raises(Refused, match="expected tensors on a GPU"):
        analyse(wrapped(), TOKENS, library=library, options=Options(impl="triton"))


def test_nan_in_the_middle_of_a_run_is_refused_by_layer(library):
    model = wrapped()
    with torch.no_grad():
        model.model.get_input_embeddings().weight[50] = torch.nan  # no token of the self-check
    with pytest.raises(Refused, match="Layer 0 gives NaN in float32"):
        analyse(model, [5, 50, 6], library=library)
    assert library.list() == []


def test_case_61_memory_and_disk_are_refused_with_both_numbers(library, monkeypatch):
    model = wrapped()
    monkeypatch.setenv("HEADWATER_DISK_RESERVE_MB", str(10**9))
    with pytest.raises(Refused, match=r"needs about \d+ MB on disk and 0 MB are free"):
        analyse(model, TOKENS, library=library)
    monkeypatch.delenv("HEADWATER_DISK_RESERVE_MB")
    monkeypatch.setattr("backend.estimate.free_memory_mb", lambda model: 10.0)
    with pytest.raises(Refused, match=r"needs about \d+ MB of memory and 10 MB are free"):
        analyse(model, TOKENS, library=library)


@pytest.mark.parametrize("moment", ["layer", "publish"])
def test_case_71_a_result_that_cannot_be_saved_is_kept_and_saved_later(moment, library, monkeypatch):
    model, original = wrapped(), getattr(AnalysisWriter, moment)

    def full_disk(writer, *args, **kwargs):
        if writer.library is library:
            raise StoreError("The disk is full.")
        return original(writer, *args, **kwargs)

    monkeypatch.setattr(AnalysisWriter, moment, full_disk)
    with pytest.raises(NotSaved, match=r"The disk is full\. The result is kept") as caught:
        analyse(model, TOKENS, library=library)
    assert library.list() == []
    kept = caught.value
    assert kept.analysis.map(0, 0).shape == (40, 40)
    monkeypatch.undo()
    stored = library.open(kept.save())
    assert np.array_equal(stored.map(1, 5), kept.analysis.map(1, 5))


def test_case_42_gpt2_reads_its_16_positions_and_refuses_17_before_the_run(library):
    model = LoadedModel.wrap(build("gpt2", max_position_embeddings=16))
    assert analyse(model, [5] * 16, library=library).map(0, 0).shape == (16, 16)
    with pytest.raises(Refused, match=r"17 tokens.*at most 16"):
        analyse(model, [5] * 17, library=library)
    assert len(library.list()) == 1


def test_a_single_token(library):
    analysis = analyse(wrapped(), [5], library=library)
    assert analysis.map(0, 0).tolist() == [[1.0]]
    row = analysis.heads(layer=0, head=0).to_pylist()[0]
    assert row["entropy"] == 0 and row["first_mass"] is None and row["previous_token"] is None


def test_estimate_in_words_and_learning_from_a_run(library):
    model = wrapped()
    before = estimate(model, 4000)
    assert before.sentence.startswith("4,000 tokens · about ")
    assert before.sentence.endswith(" MB on disk · exact maps for all 16 heads")
    assert before.seconds > estimate(model, 100).seconds and before.memory_mb > estimate(model, 100).memory_mb
    half = estimate(model, 4000, Options(disk_budget_mb=2))
    assert half.exact_heads == (tuple(range(8)), ()) and "exact maps for 8 of 16 heads" in half.sentence
    assert "no exact maps" in estimate(model, 4000, Options(exact_maps="none")).sentence


@pytest.mark.weights
def test_minilm_reads_a_pair_as_two_sentences(library):
    model = load("all-minilm-l6-v2")
    pair = ("A man plays a guitar.", "Someone makes music on a stage.")
    analysis = analyse(model, Prompt(pair=pair), library=library)
    inputs = dict(model.tokenizer(*pair, return_tensors="pt"))
    assert inputs["token_type_ids"].sum() > 0
    truth = torch.cat([layer[0] for layer in eager_maps(model.model, inputs)]).numpy()
    maps = np.stack([analysis.map(layer, head) for layer in range(6) for head in range(12)])
    assert np.abs(maps - truth).max() <= 1e-5
    assert [segment["name"] for segment in analysis.info["segments"]] == ["sentence 1", "sentence 2"]


@pytest.mark.weights
def test_smollm2_end_to_end(library, tmp_path):
    model = load("smollm2-135m-instruct")
    text = "The river rose in the night. The river rose again, and by morning the lower field was a lake."
    analysis = analyse(model, text, library=library)
    tokens = analysis.tokens_list()
    assert "".join(token.text for token in tokens) == text
    assert analysis.info["implementation"] == "tiled" and analysis.info["checks"]["status"] == "in the list"
    token_ids = [token.token_id for token in tokens]
    truth = eager_truth(model, token_ids)
    maps, _ = read_in_another_process(library, [analysis.id], tmp_path)[analysis.id]
    assert maps.shape == truth.shape == (270, len(tokens), len(tokens))
    assert np.abs(maps - truth).max() <= 1e-4
    assert json.loads(json.dumps(analysis.info)) == analysis.info
    assert analyse(model, text, library=library).id == analysis.id
