"""Texts that begin alike: what was read once is not read again, and gives the same numbers to the last digit."""

import pytest
import torch

from backend.basins import readings
from backend.basins.passes import session, step
from backend.basins.readings import BLOCK, forget, kept_mb, prefix_of
from backend.models import LoadedModel
from tests.backend.tiny import build


@pytest.fixture(params=["llama", "gpt2", "deepseek_v3"])
def model(request):
    loaded = LoadedModel.wrap(build(request.param, vocab_size=300, max_position_embeddings=2000))
    yield loaded
    forget(loaded)


@pytest.fixture
def read(model):
    """Numbers of tokens of the passes through the model."""
    passes = []
    handle = model.model.get_input_embeddings().register_forward_pre_hook(
        lambda module, args: passes.append(args[0].numel())
    )
    yield passes
    handle.remove()


def text(n_tokens: int, seed: int = 0) -> list[int]:
    return torch.randint(3, 300, (n_tokens,), generator=torch.Generator().manual_seed(seed)).tolist()


def test_only_blocks_that_differ_are_read(model, read):
    first = text(2 * BLOCK + 40)
    prefix_of(model, first)
    assert read == [BLOCK, BLOCK, 40]
    prefix_of(model, first)
    prefix_of(model, [*first[: BLOCK + 7], *text(BLOCK, seed=1)])
    assert read[3:] == [BLOCK, 7], "the same text is not read again, another one from the block on that differs"


def test_the_rest_of_a_text_reads_the_same_behind_it(model):
    ids = text(BLOCK + 90)
    prefix = prefix_of(model, ids[: BLOCK + 60])
    with session(model):
        behind, whole = step(model, ids[BLOCK + 60 :], prefix.first(BLOCK + 60)), step(model, ids)
    torch.testing.assert_close(behind.logits, whole.logits, atol=1e-5, rtol=1e-5)


def test_what_is_kept_changes_no_digit(model):
    one, other = text(2 * BLOCK + 30), text(20, seed=2)
    alone = logits_behind(model, one, other)
    forget(model)
    prefix_of(model, [*one[: BLOCK + 100], *text(300, seed=3)])
    assert torch.equal(logits_behind(model, one, other), alone)


def logits_behind(model, ids, more):
    prefix = prefix_of(model, ids)
    with session(model):
        return step(model, more, prefix.first(len(ids))).logits


def test_a_reading_that_grows_leaves_what_is_kept_alone(model):
    ids, more = text(BLOCK + 10), text(5, seed=4)
    first = logits_behind(model, ids, more)
    assert torch.equal(logits_behind(model, ids, more), first)
    assert prefix_of(model, ids).cache.get_seq_length() == len(ids)


def test_without_room_nothing_is_kept_and_the_numbers_stay(model, read, monkeypatch):
    ids, more = text(BLOCK + 10), text(5, seed=4)
    first = logits_behind(model, ids, more)
    forget(model)
    monkeypatch.setattr(readings, "ROOM_MB", 0)
    read.clear()
    assert torch.equal(logits_behind(model, ids, more), first) and torch.equal(logits_behind(model, ids, more), first)
    assert read == [BLOCK, 10, 5] * 2


def test_room_is_counted_in_what_keys_and_values_take(model):
    ids = text(BLOCK)
    cache = prefix_of(model, ids).cache
    held = sum(layer.keys.nbytes + layer.values.nbytes for layer in cache.layers) / 1e6
    if model.config.model_type == "deepseek_v3":  # keeps less than keys and values: what they are made of
        assert 0 < held < kept_mb(model, BLOCK)
    else:
        assert kept_mb(model, BLOCK) == pytest.approx(held, rel=1e-6)
