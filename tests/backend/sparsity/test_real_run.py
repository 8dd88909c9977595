"""Runs with less against dense eager attention with the same cells hidden; what is kept costs nothing."""

from types import SimpleNamespace

import pytest
import torch

from backend import policies
from backend.comparison import divergence
from backend.models import LoadedModel
from backend.rotary import rotary_of
from backend.sparsity.head_masks import CHOICES, HeadMasks
from backend.sparsity.patterns import paths
from backend.sparsity.real_run import Prepared, output_error
from backend.sparsity.rows import uniform_rows
from backend.sparsity.simulate import Simulation
from tests.backend.policies.planted import dense, layer
from tests.backend.test_cache import masked_eager
from tests.backend.tiny import build, ids

TOKENS = ids(28)[0].tolist()
N = 20


def prepared(model_type="llama", **overrides):
    model = LoadedModel.wrap(build(model_type, **overrides))
    return model, Prepared(model, TOKENS, N, 3, lambda: None)


def kept_by(text, name, budget):
    outcome = Simulation.of(text.layers(), [name]).outcomes(budget)[0]
    return outcome, {one.layer: one.kept for one in outcome.layers}


def expected(model, hidden):
    """KL of every judge and its loss, by eager attention in which hidden(layer, head) cells cannot be seen."""
    nothing = torch.zeros(len(TOKENS), len(TOKENS), dtype=torch.bool)
    dense = masked_eager(model, TOKENS, lambda layer, head: nothing)
    less = masked_eager(model, TOKENS, hidden)
    assert (dense - less).abs().max() > 1e-3, "nothing that matters was hidden"
    return less[N:], divergence(less[N:], dense[N:])


@pytest.mark.parametrize("model_type", ["llama", "mistral", "gpt_oss", "gpt2"])
@pytest.mark.parametrize("name", ["snapkv", "oracle", "random"])
def test_a_shortened_cache_answers_as_masked_attention(model_type, name):
    model, text = prepared(model_type)
    outcome, kept = kept_by(text, name, 0.4)
    damage = text.evicted(model, kept)
    group = {one.layer: len(one.retained) // len(one.kept) for one in outcome.layers}

    def hidden(layer, head):
        gone = torch.zeros(len(TOKENS), len(TOKENS), dtype=torch.bool)
        gone[N:, :N] = ~kept[layer][head // group[layer]]
        return gone

    logits, kl = expected(model, hidden)
    assert torch.allclose(damage.kl, kl, atol=1e-4)
    loss = torch.nn.functional.cross_entropy(logits[:-1].double(), torch.tensor(TOKENS[N + 1 :]))
    assert damage.loss == pytest.approx(float(loss), abs=1e-4)
    entries = sum(int(one.kept.sum()) + (len(TOKENS) - N) * len(one.kept) for one in outcome.layers)
    every = sum(len(TOKENS) * len(one.kept) for one in outcome.layers)
    assert damage.nbytes * every == damage.full_nbytes * entries


class Noted(HeadMasks):
    """Masks that remember what they gave: of the text, and of the rows behind it."""

    def __call__(self, place):
        self.given = getattr(self, "given", {}) | {place: super().__call__(place)}
        return self.given[place]

    def hidden(self, layer, head, length):
        """Cells that a head hides in a text of that length, which is this one and what was written behind it."""
        shown = torch.zeros(length, length, dtype=torch.bool)
        shown[: len(TOKENS), : len(TOKENS)] = self.given[layer][head]
        for row in range(len(TOKENS), length):
            shown[row, : row + 1] = self.behind(layer, row)[head]
        return ~shown


@pytest.mark.parametrize("model_type", ["llama", "mistral"])
@pytest.mark.parametrize("family", CHOICES)
def test_a_pattern_answers_and_writes_as_masked_attention(family, model_type):
    model, text = prepared(model_type)
    masks = Noted(text, family, 0.3)
    damage = text.masked(model, masks)
    _, kl = expected(model, lambda layer, head: masks.hidden(layer, head, len(TOKENS)))
    assert torch.allclose(damage.kl, kl, atol=1e-4)
    found = masks.summary()
    cells = len(TOKENS) * (len(TOKENS) + 1) / 2 if model_type == "llama" else 4 * len(TOKENS) - 6
    assert 0.2 < found["kept"] <= 0.3 + len(TOKENS) / cells and 0 < found["retained"] < 1
    assert found["prediction"] > 0
    every = [*TOKENS, *damage.written]
    logits = masked_eager(model, every, lambda layer, head: masks.hidden(layer, head, len(every)))
    assert damage.written == logits[len(TOKENS) - 1 : -1].argmax(-1).tolist()
    assert len(damage.written) == 3 or damage.written[-1] == model.eos_token_id
    assert damage.nbytes == damage.full_nbytes, "the cache keeps everything"


def test_rows_behind_the_text_go_on_with_the_pattern():
    """What a pattern keeps of a row that it was not made on, for each family."""
    rows = uniform_rows(64)
    known, far = paths(rows), 70
    assert known["local"].onward(3).row(far).nonzero()[0].tolist() == [68, 69, 70]
    assert known["a_shape"].onward(2).row(far).nonzero()[0].tolist() == [0, 69, 70]
    diagonals = known["diagonal"].onward(2).row(far).nonzero()[0]
    assert len(diagonals) == len({*(far - known["diagonal"].onward(2).distances), far})
    step = known["vertical_slash"].step_within(int(0.2 * 64 * 65 / 2))
    size, kept = known["vertical_slash"].size(step), known["vertical_slash"].onward(step)
    assert len(kept.columns) == size["columns"] and len(kept.distances) == size["diagonals"]
    blocks = known["block"].onward(1).row(far)
    assert blocks[64:].all() and blocks[:64].sum() == 4, "one block of four keys, and what follows the text"
    for name, path in known.items():
        last = path.mask(step := len(path.pairs) // 3)[-1]
        again = path.onward(step).row(63)
        assert (again | last == again).all() and again[63], name
        assert again.sum() <= last.sum() + 1, "nothing is kept besides but the row itself"


@pytest.mark.parametrize("rule", [{"chunk": 8}, {"window": 5, "keep_first": 2}])
def test_patterns_are_made_of_the_cells_that_the_rule_shows(rule):
    one = layer(n=20, length=28, strength=1.0, **rule)
    masks = HeadMasks(SimpleNamespace(layers=lambda: [lambda: one]), "a_shape", 1.0)
    assert (masks(0) & (dense(one) > 0) == (dense(one) > 0)).all() and masks.summary()["kept"] == 1


@pytest.mark.parametrize("model_type", ["llama", "mistral"])
def test_a_cache_that_keeps_everything_changes_nothing(model_type):
    model, text = prepared(model_type)
    for name in policies.all():
        outcome, kept = kept_by(text, name, 1.0)
        if model_type == "mistral":  # keys out of reach are dropped, which nobody can notice
            assert outcome.layers[0].reachable == 3
        pairs = zip(text.layers(), text.parts, strict=True)
        errors = [output_error(part, load(), kept[part.layer]) for load, part in pairs]
        assert torch.cat(errors).max() < 1e-5, name
    damage = text.evicted(model, kept)
    assert damage.kl.max() < 1e-8 and damage.agrees.all() and damage.written == text.written
    assert damage.loss == pytest.approx(text.loss, abs=1e-6)


def test_the_output_error_is_that_of_the_recomputed_output():
    _, text = prepared()
    _, kept = kept_by(text, "streaming_llm", 0.4)
    part, layer = text.parts[1], text.layers()[1]()
    found = output_error(part, layer, kept[1])
    value = part.value.double().repeat_interleave(layer.group, 0)
    key = part.key.double().repeat_interleave(layer.group, 0)
    scores = part.query[:, N:].double() @ key.mT * part.score.scale
    seen = torch.arange(len(TOKENS)) <= torch.arange(N, len(TOKENS))[:, None]
    full = scores.masked_fill(~seen, -torch.inf).softmax(-1) @ value
    open_keys = torch.cat([kept[1], torch.ones(2, len(TOKENS) - N, dtype=torch.bool)], 1).repeat_interleave(4, 0)
    short = scores.masked_fill(~(seen[None] & open_keys[:, None]), -torch.inf).softmax(-1) @ value
    again = ((full - short).norm(dim=-1) / full.norm(dim=-1)).mean(-1)
    assert torch.allclose(found, again, atol=1e-5)


@pytest.mark.parametrize(
    "model_type, known",
    [("llama", True), ("qwen3", True), ("mistral", True), ("gpt_neox", False), ("gpt2", False), ("gptj", False),
     ("cohere", False), ("gemma3_text", False)],
)  # fmt: skip
def test_the_rotary_embedding_is_known_only_where_it_can_be_checked(model_type, known):
    assert (rotary_of(LoadedModel.wrap(build(model_type))) is not None) == known
