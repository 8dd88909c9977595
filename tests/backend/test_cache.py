"""Caches that shrink: as exact as masked attention, and really smaller."""

import pytest
import torch
from transformers import AttentionInterface
from transformers.masking_utils import AttentionMaskInterface, eager_mask

from backend.attention import implementation
from backend.cache import CHUNK, Stream, shrinking
from backend.errors import Refused
from backend.models import LoadedModel
from tests.backend.tiny import build, ids

PROMPT = ids(14)[0].tolist()
AFTER = [40, 61, 7, 22, 90]
FAMILIES = ["llama", "gpt2", "mistral", "gemma2", "gpt_oss", "deepseek_v3", "llama4_text", "phi3"]


def wrapped(model_type="llama", **overrides):
    return LoadedModel.wrap(build(model_type, **overrides))


def masked_eager(model, token_ids, hidden):
    """Logits of one full pass of dense eager attention; hidden(layer, head) -> bool [N, N] of cells kept from view."""

    def attention(module, query, key, value, mask, scaling=None, softcap=None, s_aux=None, **kwargs):
        heads = query.shape[1]
        key, value = (t.repeat_interleave(heads // t.shape[1], 1).double() for t in (key, value))
        scores = query.double() @ key.mT * (query.shape[-1] ** -0.5 if scaling is None else scaling)
        if softcap is not None:
            scores = softcap * torch.tanh(scores / softcap)
        scores = scores.masked_fill(mask < -1e30, -torch.inf)
        for head in range(heads):
            scores[:, head] = scores[:, head].masked_fill(hidden(module.layer_idx, head), -torch.inf)
        if s_aux is not None:
            scores = torch.cat([scores, s_aux.double().reshape(1, -1, 1, 1).expand(*scores.shape[:3], 1)], -1)
        weight = torch.softmax(scores, -1)[..., : key.shape[2]]
        return (weight @ value).to(query.dtype).transpose(1, 2).contiguous(), None

    AttentionInterface.register("masked_eager", attention)
    AttentionMaskInterface.register("masked_eager", eager_mask)
    with implementation(model.model, "masked_eager"):
        return model.model(torch.tensor([token_ids])).logits[0]


def drawn(run, per_head):
    """Positions to keep, drawn per layer and key head."""
    generator = torch.Generator().manual_seed(5)
    return {
        number: [
            torch.randperm(len(PROMPT), generator=generator)[: per_head(number, head)].sort().values.tolist()
            for head in range(len(layer.positions))
        ]
        for number, layer in run.layers.items()
    }


def check_eviction(model, per_head):
    with shrinking(model) as run:
        before = run.read(PROMPT)
        full = run.nbytes
        kept = drawn(run, per_head)
        run.evict(kept)
        assert run.nbytes < full
        after = run.read(AFTER)
        measured, formula = run.nbytes, run.full_nbytes
    shared = {number: len(heads) for number, heads in kept.items()}
    heads = {info.layer: info.heads for info in model.describe().layers}

    def hidden(layer, head):
        gone = torch.zeros(len(PROMPT) + len(AFTER), len(PROMPT) + len(AFTER), dtype=torch.bool)
        gone[len(PROMPT) :, : len(PROMPT)] = True
        gone[len(PROMPT) :, kept[layer][head // (heads[layer] // shared[layer])]] = False
        return gone

    expected = masked_eager(model, PROMPT + AFTER, hidden)
    assert (before - expected[: len(PROMPT)]).abs().max() < 1e-4
    assert (after - expected[len(PROMPT) :]).abs().max() < 1e-4
    nothing = torch.zeros(len(PROMPT) + len(AFTER), len(PROMPT) + len(AFTER), dtype=torch.bool)
    plain = masked_eager(model, PROMPT + AFTER, lambda layer, head: nothing)
    assert (plain - expected).abs().max() > 1e-3, "nothing that matters was dropped"
    kept_entries = sum(len(head) + len(AFTER) for heads in kept.values() for head in heads)
    all_entries = sum(len(PROMPT) + len(AFTER) for heads in kept.values() for _ in heads)
    assert measured * all_entries == formula * kept_entries  # bytes are exactly those of the entries that are left


@pytest.mark.parametrize("model_type", FAMILIES)
def test_an_evicted_cache_equals_masked_attention(model_type):
    check_eviction(wrapped(model_type), lambda layer, head: 6)


@pytest.mark.parametrize("model_type", ["llama", "gpt_oss"])
def test_heads_may_keep_unlike_numbers(model_type):
    check_eviction(wrapped(model_type), lambda layer, head: 3 + 4 * ((layer + head) % 2))


def test_a_head_may_keep_nothing_of_the_prompt():
    check_eviction(wrapped(), lambda layer, head: 5 * head)


@pytest.mark.parametrize("model_type", ["llama", "gpt2", "mistral", "gpt_oss"])
def test_a_streamed_cache_equals_masked_attention_and_stays_small(model_type, monkeypatch):
    monkeypatch.setattr("backend.cache.CHUNK", 4)
    model, stream = wrapped(model_type), Stream(first=2, recent=5)
    row, key = torch.arange(19)[:, None], torch.arange(19)[None]
    hidden = (key >= 2) & (key <= row - 5)
    with shrinking(model, stream) as run:
        logits = run.read(PROMPT + AFTER)
        kept = run.kept()
        assert run.nbytes < 0.4 * run.full_nbytes
    expected = masked_eager(model, PROMPT + AFTER, lambda layer, head: hidden)
    assert (logits - expected).abs().max() < 1e-4
    assert all(head == [0, 1, 15, 16, 17, 18] for heads in kept.values() for head in heads)
    assert CHUNK == 256


def test_reading_in_pieces_is_reading_at_once():
    model = wrapped()
    with shrinking(model) as run:
        whole = run.read(PROMPT + AFTER)
    with shrinking(model) as run:
        pieces = torch.cat([run.read(PROMPT), run.read(AFTER[:1]), run.read(AFTER[1:])])
    assert (whole - pieces).abs().max() < 1e-4
    with shrinking(model) as run:
        assert (run.read(PROMPT + AFTER, last=3) - whole[-3:]).abs().max() < 1e-4
        assert run.nbytes == run.full_nbytes


def test_writes_what_full_passes_would():
    model = wrapped()
    with shrinking(model) as run:
        written = run.write(5, run.read(PROMPT)[-1])
    token_ids = list(PROMPT)
    for _ in written:
        with torch.no_grad():
            token_ids.append(int(model.model(torch.tensor([token_ids])).logits[0, -1].argmax()))
    assert written == token_ids[len(PROMPT) :]


def test_the_model_is_left_as_it_was():
    model = wrapped()
    before = model.model(torch.tensor([PROMPT])).logits
    with pytest.raises(Refused), shrinking(model) as run:
        run.read(PROMPT)
        run.evict({0: [[99], [0]]})
    assert torch.equal(model.model(torch.tensor([PROMPT])).logits, before)


@pytest.mark.parametrize(
    ("kept", "words"),
    [({9: [[0], [0]]}, "no layer 9"), ({0: [[0]]}, "2 key heads"), ({0: [[0], [14]]}, "not in the cache")],
)
def test_what_cannot_be_kept(kept, words):
    with shrinking(wrapped()) as run:
        run.read(PROMPT)
        with pytest.raises(Refused, match=words):
            run.evict(kept)


@pytest.mark.parametrize(("model_type", "words"), [("bert", "left to right"), ("jamba", "other states")])
def test_models_without_such_a_cache(model_type, words):
    with pytest.raises(Refused, match=words), shrinking(wrapped(model_type)):
        pass


def test_streams_that_make_no_sense():
    with pytest.raises(Refused, match="recent of 1 or more"):
        Stream(first=4, recent=0)
