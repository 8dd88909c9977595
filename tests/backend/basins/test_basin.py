"""The page's numbers against maps that the model's own eager attention computes."""

import numpy as np
import pytest
import torch

from backend.basins.basin import read_basin
from backend.basins.between import across, between
from backend.basins.profile import shape
from backend.basins.slots import Slot, Slots, slots_of
from backend.errors import Refused
from backend.models import LoadedModel
from backend.pipeline import analyse
from backend.prompts import Prompt
from backend.store import Library
from kernels.score import ScoreSpec
from tests.backend.eager import eager_maps
from tests.backend.sinks import planted
from tests.backend.tiny import build
from tests.backend.tiny_tokenizers import CHAT, byte_level

DOCUMENTS = ["the cat sat", "on the mat .", "hello world of text", "unable table"]
QUESTION = "the cat sat on ?"


@pytest.fixture(scope="module")
def model():
    return LoadedModel.wrap(build("llama", vocab_size=300, max_position_embeddings=400), byte_level(chat_template=CHAT))


@pytest.fixture
def asked(model, data_folder):
    return analyse(model, Prompt(documents=DOCUMENTS, question=QUESTION), library=Library(data_folder))


def eager(model, analysis) -> np.ndarray:
    """[layers, heads, N, N] in float64."""
    ids = torch.tensor([[token.token_id for token in analysis.tokens_list()]])
    return torch.stack(eager_maps(model.model, {"input_ids": ids}, torch.float64))[:, 0].numpy()


def dense_view(maps: np.ndarray, sinkfree: bool) -> tuple[np.ndarray, np.ndarray]:
    """Weights [heads, N, N] and sinks [heads, N], by the definitions and nothing of ours."""
    maps = maps.reshape(-1, *maps.shape[2:])
    n = maps.shape[-1]
    importance = maps.sum(1) / (n - np.arange(n))
    sinks = (importance > 0.1) & (n - np.arange(n) >= 16) & sinkfree
    kept = np.where(sinks[:, None, :], 0.0, maps)
    rest = kept.sum(-1, keepdims=True)
    return np.where(rest < 1e-6, np.nan, kept / np.where(rest < 1e-6, 1, rest)), sinks


@pytest.mark.parametrize("sinkfree", [True, False])
@pytest.mark.parametrize("looking", ["question", "last"])
def test_b01_profile_equals_a_dense_eager_recomputation(model, asked, looking, sinkfree):
    slots = slots_of(asked.segments(), asked.tokens_list())
    found = read_basin(asked, slots, looking=looking, sinkfree=sinkfree)
    view, sinks = dense_view(eager(model, asked), sinkfree)
    rows = slots.rows(looking)
    for per_token in (False, True):
        expected = np.stack(
            [
                np.nanmean(view[:, rows, p.start : p.stop].sum(-1), -1)
                / (np.maximum((~sinks[:, p.start : p.stop]).sum(-1), 1) if per_token else 1)
                for p in slots.parts
            ],
            -1,
        )
        masses = found.masses(per_token=per_token)
        there = np.isfinite(masses)
        assert there.mean() > 0.9
        np.testing.assert_allclose(masses[there], expected[there], atol=1e-4)
        if there.all():
            np.testing.assert_allclose(found.profile(per_token=per_token), expected.mean(0), atol=1e-4)
    assert found.sink_tokens == (len(set(np.nonzero(sinks)[1])))


@pytest.mark.parametrize("sinkfree", [True, False])
def test_r09_rows_sum_to_one_and_equal_eager(model, asked, sinkfree):
    slots = slots_of(asked.segments(), asked.tokens_list())
    places = [(layer.layer, head) for layer in asked.layers() for head in range(layer.heads)]
    found = between(asked, slots, places, sinkfree=sinkfree)
    atol = 0.01 if sinkfree else 1e-6  # a head whose sinks are a whole part sees nothing of it
    np.testing.assert_allclose(np.nansum(found.mass, 1), 1, atol=atol)
    view, sinks = dense_view(eager(model, asked), sinkfree)
    seen = np.isfinite(view) & ~sinks[:, None] & np.tri(view.shape[-1], dtype=bool)
    parts = [*slots.parts, slots.question]
    for a, row in enumerate(parts):
        for b, column in enumerate(parts):
            truth = np.nanmean(view[:, row.start : row.stop, column.start : column.stop].sum(-1), 1)
            sees = seen[:, row.start : row.stop, column.start : column.stop].any((1, 2))
            truth = truth[np.isfinite(truth) & sees].mean() if sees.any() else np.nan
            assert np.isnan(found.mass[a, b]) if b > a else found.mass[a, b] == pytest.approx(truth, abs=1e-4)
    assert 0 < found.across < 1


def three_parts(tmp_path, layers):
    """Parts of ten tokens each, and a last one of ten that asks."""
    parts = [Slot(f"part {at + 1}", 10 * at, 10 * at + 10) for at in range(3)]
    return planted.stored(tmp_path, layers), Slots("document", tuple(parts[:2]), parts[2], 29)


def test_r09_a_head_that_cannot_see_a_part_is_not_in_its_mean(tmp_path):
    near = ScoreSpec(scale=1.0, window=5)
    analysis, slots = three_parts(tmp_path, [planted.uniform(30), planted.uniform(30, near)])
    wide, both = (between(analysis, slots, places, sinkfree=False) for places in ([(0, 0)], [(0, 0), (1, 0)]))
    assert both.mass[2, 0] == pytest.approx(wide.mass[2, 0], abs=1e-6)  # the windowed head ends before part 1
    own = between(analysis, slots, [(1, 0)], sinkfree=False)
    assert np.isnan(own.mass[2, 0]) and both.across == pytest.approx((wide.across + own.across) / 2, abs=1e-6)


def test_r09_a_part_without_rows_is_not_in_the_share_that_crosses():
    slots = Slots("document", (Slot("a", 0, 90), Slot("b", 90, 100)), None, 99)
    mass = np.array([[np.nan] * 3, [0.3, 0.7, 0.0]])
    assert across(mass, slots) == pytest.approx(0.3)
    assert across(np.full((2, 3), np.nan), slots) is None


def test_slots_are_the_documents_and_the_question(asked):
    slots = slots_of(asked.segments(), asked.tokens_list())
    tokens = asked.tokens_list()
    assert slots.names == [f"document {k}" for k in (1, 2, 3, 4)]
    texts = ["".join(token.text for token in tokens[p.start : p.stop]).strip() for p in slots.parts]
    assert texts == DOCUMENTS
    assert "".join(t.text for t in tokens[slots.question.start : slots.question.stop]).strip() == QUESTION
    assert slots.last == len(tokens) - 1


def test_slots_of_turns_and_paragraphs(model, data_folder):
    library = Library(data_folder)
    turns = [
        {"role": role, "content": text} for role, text in zip(["user", "assistant", "user"], DOCUMENTS, strict=False)
    ]
    chat = analyse(model, Prompt(chat=turns), library=library)
    slots = slots_of(chat.segments(), chat.tokens_list())
    assert (slots.what, slots.names, slots.question.name) == ("turn", ["user 1", "assistant"], "user 2")
    text = analyse(model, "the cat sat\n\non the mat .\n\n\nunable", library=library)
    slots = slots_of(text.segments(), text.tokens_list())
    assert (slots.what, slots.names, slots.question.name) == (
        "paragraph",
        ["paragraph 1", "paragraph 2"],
        "paragraph 3",
    )
    tokens = text.tokens_list()
    texts = ["".join(t.text for t in tokens[p.start : p.stop]).strip() for p in (*slots.parts, slots.question)]
    assert texts == ["the cat sat", "on the mat .", "unable"]


def test_one_part_is_refused_in_words(model, data_folder):
    one = analyse(model, "the cat sat on the mat .", library=Library(data_folder))
    with pytest.raises(Refused, match="one part only"):
        slots_of(one.segments(), one.tokens_list())


def test_generated_text_is_not_looked_from(model, data_folder):
    from backend.pipeline import Options

    prompt = Prompt(documents=DOCUMENTS, question=QUESTION)
    written = analyse(model, prompt, options=Options(new_tokens=3), library=Library(data_folder))
    plain = analyse(model, prompt, library=Library(data_folder))
    slots = slots_of(written.segments(), written.tokens_list())
    assert slots.last == plain.info["n_tokens"] - 1
    assert shape(
        read_basin(written, slots, looking="last", sinkfree=False).profile(per_token=True)
    ).depth == pytest.approx(
        shape(read_basin(plain, slots, looking="last", sinkfree=False).profile(per_token=True)).depth, abs=1e-5
    )
