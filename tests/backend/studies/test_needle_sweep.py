"""The needle sweep on a model whose copying head is known; texts, scores, refusals; carried on after a stop."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from backend.basins.haystack import haystack
from backend.basins.needle import mass_on
from backend.basins.prose import CUE, NEEDLE, QUESTION, look_alikes, sentences
from backend.basins.retrieval import auroc, retrieval_scores, rouge1_recall
from backend.errors import Cancelled, Refused
from backend.models import LoadedModel
from backend.store import Library
from backend.studies import run_study, unfinished
from backend.studies.needle_sweep import STUDY, Parameters
from tests.backend.studies.hand_set import VOCABULARY, hand_set_model
from tests.backend.tiny import build
from tests.backend.tiny_tokenizers import byte_level
from tests.conftest import ROOT

WORDS = Parameters(
    lengths=(64, 90),
    depths=(0.0, 1.0),
    needle="Answer: w11 w12 w13",
    question="what?",
    cue="",
    answer="w11 w12 w13",
    look_alikes=0,
    new_tokens=3,
    heads_off=1,
    draws=1,
)


def words() -> PreTrainedTokenizerFast:
    """One token per word; what is not known is one token too."""
    pieces = ["<pad>", "<s>", "</s>", "[UNK]", "Answer:", *(f"w{number}" for number in range(5, VOCABULARY))]
    tokenizer = Tokenizer(models.WordLevel({piece: at for at, piece in enumerate(pieces)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    names = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "[UNK]"}
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names)


def copying_model() -> LoadedModel:
    return LoadedModel.wrap(hand_set_model(previous=8.0, induction=16.0), words())


@pytest.fixture(scope="module")
def copying():
    return copying_model()


@pytest.fixture(scope="module")
def study(copying):
    return run_study(STUDY, copying, WORDS)


def test_mass_is_of_the_rows_that_see_the_needle():
    weights = np.array([[[0.2, 0.3, 0.5], [0.1, 0.1, 0.8]], [[0.0, 0.5, 0.5], [0.0, 0.0, 1.0]]])
    seen = np.array([[[True] * 3, [True] * 3], [[False, True, True], [False, False, True]]])
    np.testing.assert_allclose(mass_on(weights, seen, [0, 1]), [0.35, 0.5])
    np.testing.assert_allclose(mass_on(weights, seen, [0]), [0.15, np.nan])


def test_a_head_that_never_sees_the_needle_has_no_mass():
    model = LoadedModel.wrap(build("mistral", sliding_window=8, vocab_size=VOCABULARY), words())
    found = run_study(STUDY, model, replace(WORDS, lengths=(64,), depths=(0.0,)))
    assert (
        set(found.table("heads")["mass"].to_pylist()) == set(found.table("cells")["needle_mass"].to_pylist()) == {None}
    )


def test_r01_a_head_that_copies_the_needle_scores_one():
    ids = [9, 4, 21, 22, 23, 8]
    strongest = np.array([[2, 0], [3, 0], [4, 0]])
    np.testing.assert_array_equal(retrieval_scores(strongest, [21, 22, 23], ids, range(2, 5)), [1.0, 0.0])
    again = np.array([[2, 2], [2, 3], [2, 4]])
    np.testing.assert_allclose(retrieval_scores(again, [21, 21, 21], ids, range(2, 5)), [1 / 3, 1 / 3])


def test_r01_the_sweep_finds_the_hand_set_head(study):
    for cell in study.table("cells").to_pylist():
        assert cell["exact"] == 1 and cell["rouge"] == 1 and cell["text"].split() == ["w11", "w12", "w13"]
    best, other = study.table("heads").to_pylist()
    assert (best["layer"], best["head"]) == (1, 0)
    assert best["retrieval"] == pytest.approx(3 / 4), "all of the needle but the word that the question gives"
    assert other["retrieval"] < 0.1 and best["mass"] > 0.9
    assert best["auroc"] is None, "every cell succeeded, so success does not vary"


def test_the_causal_check_puts_the_copying_head_out(study):
    check = {row["off"]: row for row in study.table("causal_check").to_pylist()}
    assert check["nothing"]["exact"] == 1 and check["top"]["exact"] == 0
    assert check["top"]["logprob"] < check["nothing"]["logprob"] - 1
    assert check["top"]["heads"] == check["random"]["heads"] == 1


def test_needles_are_found_by_offsets():
    model = LoadedModel.wrap(build("llama", vocab_size=300, max_position_embeddings=2000), byte_level())
    needle = NEEDLE.format(answer="4718")
    for depth in (0.0, 0.4, 1.0):
        found = haystack(model, needle, QUESTION, CUE, 1200, depth, alike=3, seed=0)
        tokens = found.encoded.tokens
        assert "".join(tokens[at].text for at in found.needle).strip() == needle
        assert 900 < len(tokens) <= 1200 and found.depth == pytest.approx(depth, abs=0.2)
        assert len(found.others) == 3 and not set(found.needle) & {at for place in found.others for at in place}
        assert "".join(token.text for token in tokens[found.question :]).endswith(f"Answer: {CUE}")


def test_text_and_look_alikes_of_ones_own():
    model = LoadedModel.wrap(build("llama", vocab_size=300, max_position_embeddings=2000), byte_level())
    hay = " ".join(f"The cat sat on mat number {number}!" for number in range(80))
    mine = Parameters(lengths=(600,), depths=(0.5,), hay=hay, others=("The number of the red door is 12.",))
    found = STUDY.text(model, mine, 600, 0.5)
    tokens = found.encoded.tokens
    assert "".join(tokens[at].text for at in found.others[0]).strip() == mine.others[0] and len(found.others) == 1
    assert "The cat sat on mat number 3!" in found.encoded.text and "harbour" not in found.encoded.text
    assert "".join(tokens[at].text for at in found.needle).strip() == mine.needle
    with pytest.raises(Refused, match="tokens and 1,800 were asked for"):
        STUDY.plan(model, replace(mine, lengths=(1800,), hay="A short text."))


def test_the_prose_does_not_repeat_itself_and_hides_no_second_answer():
    lines = sentences(500)
    assert len(set(lines)) == 500 and lines != sentences(500, seed=1) and lines == sentences(500)
    others = look_alikes(14)
    assert len(set(others)) == 14 and not any("green locker at Harlow" in other for other in others)


def test_a_stopped_sweep_is_carried_on(copying, study, data_folder):
    library, asked = Library(data_folder), 0

    def stop() -> bool:
        nonlocal asked
        asked += 1
        return len(list((data_folder / "studies").glob("*/run_*.json"))) >= 3

    with pytest.raises(Cancelled):
        run_study(STUDY, copying, WORDS, library=library, cancel=stop)
    assert len(unfinished(library)[0].done()) == 3
    carried = run_study(STUDY, copying, WORDS, library=library)
    for table in ("cells", "heads", "masked", "causal_check"):
        assert carried.table(table).equals(study.table(table))


CHILD = """
import sys, time
from backend.store import Library
from backend.studies import run_study
from tests.backend.studies.test_needle_sweep import STUDY, WORDS, copying_model

def told(step, done, runs, left):
    print(done, flush=True)
    if done == int(sys.argv[2]):
        time.sleep(600)  # until it is killed

run_study(STUDY, copying_model(), WORDS, library=Library(sys.argv[1]), progress=told)
"""


def test_a_killed_sweep_is_carried_on_and_loses_at_most_one_run(copying, study, data_folder):
    """Killed with SIGKILL in the causal check, when five of eight runs were done and the sixth had begun."""
    process = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(data_folder), "5"], stdout=subprocess.PIPE, text=True, cwd=str(ROOT)
    )
    try:
        assert [process.stdout.readline().strip() for _ in range(6)] == ["0", "1", "2", "3", "4", "5"]
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    library, told = Library(data_folder), []
    (place,) = unfinished(library)
    assert not place.under_way() and library.list() == [] and list(place.done()) == [0, 1, 2, 3, 4]
    carried = run_study(
        STUDY, copying, WORDS, library=library, progress=lambda step, done, runs, left: told.append((step, done))
    )
    assert [done for step, done in told if step == "runs"] == [5, 6, 7] and carried.id == place.begun.id
    for table in ("cells", "heads", "masked", "causal_check"):
        assert carried.table(table).equals(study.table(table))


def test_texts_are_read_from_the_deepest_needle_on_and_told_in_their_order(copying, study):
    assert [WORDS.cells[at] for at in WORDS.order] == [(90, 1.0), (90, 0.0), (64, 1.0), (64, 0.0)]
    rows = study.table("cells").to_pylist()
    assert [(row["cell"], row["length"], row["depth"]) for row in rows] == [
        (at, length, depth) for at, (length, depth) in enumerate(WORDS.cells)
    ]
    assert [row["cell"] for row in study.table("masked").to_pylist()] == [0, 0, 1, 1, 2, 2, 3, 3]


def test_what_texts_share_is_in_the_plan(copying):
    """Of the default, texts of one length share 3/4, 1/2, 1/4 and 0 with the text read before them."""
    plain = Parameters()
    assert [plain.shared(at) for at in range(5)] == [0.0, 0.25, 0.5, 0.75, 0.0]
    windowed = LoadedModel.wrap(build("mistral", sliding_window=8, vocab_size=VOCABULARY), words())
    assert "what texts share is read once" in STUDY.plan(copying, WORDS).sentence
    assert "every text is read whole, because some of its layers forget" in STUDY.plan(windowed, WORDS).sentence


def test_auroc_and_rouge():
    assert auroc([0.1, 0.9, 0.4, 0.8], [False, True, False, True]) == 1
    assert auroc([0.5, 0.5], [True, False]) == 0.5
    assert auroc([0.1, 0.2], [True, True]) is None
    assert rouge1_recall("It is 4718.", "4718") == 1 and rouge1_recall("the blue one", "the green one") == 2 / 3


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"lengths": (10,)}, "64 or more"),
        ({"depths": (2.0,)}, "from 0 to 1"),
        ({"answer": "9"}, "words of the needle"),
        ({"question": " "}, "expected some text"),
        ({"look_alikes": 99}, "look_alikes"),
        ({"others": ("The number of the red locker is 4718.",)}, "hold it too"),
        ({"hay": "Nobody knew. It was 4718, they said."}, "hold it too"),
    ],
)
def test_bad_parameters_are_refused_in_words(changes, words):
    with pytest.raises(Refused, match=words):
        Parameters(**changes)


def test_a_text_that_does_not_fit_is_refused_in_words(copying):
    with pytest.raises(Refused, match="do not fit"):
        run_study(STUDY, copying, Parameters(**{**vars(WORDS), "lengths": (500,)}))
    long = Parameters(**{**vars(WORDS), "needle": "w11 " * 80 + "w12", "answer": "w12"})
    with pytest.raises(Refused, match="tokens alone"):
        run_study(STUDY, copying, long)
    with pytest.raises(Refused, match="does not write text"):
        run_study(STUDY, LoadedModel.wrap(build("bert")), WORDS)
