"""Before and after: equal to the two dense runs, by definition."""

import pytest
import torch

from backend.capture import capture
from backend.comparison import compare
from backend.errors import Cancelled, Refused
from backend.interventions import EditTokens, Gate, HideKeys, ScaleKeys, TargetShare, Uniform
from backend.models import LoadedModel
from kernels.window import weights
from tests.backend.tiny import build, ids

PROMPT = ids(12)[0].tolist()
EVERY = slice(None)


@pytest.fixture(scope="module")
def model():
    return LoadedModel.wrap(build("llama"))


def dense(model, edits=(), prompt=PROMPT):
    with capture(model, interventions=edits) as captured, torch.no_grad():
        logits = model.model(torch.tensor([prompt])).logits[0].double()
    return logits, [weights(c.query, c.key, c.score, c.lse, EVERY, EVERY)[0].double() for c in captured]


def test_distributions_tokens_and_losses(model):
    edits = [ScaleKeys(factor=0.2, keys=(0,))]
    before, after = (dense(model, chosen)[0].log_softmax(-1) for chosen in ([], edits))
    result = compare(model, PROMPT, edits, top=5)
    kl = (after.exp() * (after - before)).sum(-1)
    assert result.kl == pytest.approx(float(kl[-1]), rel=1e-4)
    assert result.kl_mean == pytest.approx(float(kl.mean()), rel=1e-3)
    assert result.total_variation == pytest.approx(
        float((after[-1].exp() - before[-1].exp()).abs().sum() / 2), rel=1e-4
    )
    following = torch.tensor(PROMPT[1:])[:, None]
    for logprobs, value in ((before, result.loss_before), (after, result.loss_after)):
        assert value == pytest.approx(-float(logprobs[:-1].gather(1, following).mean()), abs=1e-4)
    best = set(before[-1].topk(5).indices.tolist()) | set(after[-1].topk(5).indices.tolist())
    assert {candidate.token_id for candidate in result.candidates} == best
    assert result.changed_first == bool(before[-1].argmax() != after[-1].argmax())
    first = result.candidates[0]
    assert (first.before, first.after) == pytest.approx(
        (float(before[-1].exp().max()), float(after[-1, first.token_id].exp())), abs=1e-4
    )
    assert result.sentences == (edits[0].sentence(),)


@pytest.mark.parametrize("model_type", ["llama", "mistral", "gpt_oss"])
def test_mass_moved(model_type):
    model, edits = LoadedModel.wrap(build(model_type)), [TargetShare(share=0.6, keys=(3, 4))]
    (_, before), (_, after) = dense(model), dense(model, edits)
    result = compare(model, PROMPT, edits)
    assert result.target == (3, 4)
    for change in result.heads:
        old, new = before[change.layer][change.head], after[change.layer][change.head]
        lost = (1 - new.sum(-1)) - (1 - old.sum(-1))
        windowed = model.describe().layers[change.layer].window_size
        sees = torch.ones(12, 12).tril().bool()
        sees = sees & ~torch.ones(12, 12).tril(-windowed).bool() if windowed else sees
        moved = ((new - old).abs().sum(-1) + (lost.abs() if model_type == "gpt_oss" else 0)) / 2
        assert change.moved == pytest.approx(float(moved[1:].mean()), abs=1e-4)
        rows = sees[:, [3, 4]].any(-1)
        assert change.mass_before == pytest.approx(float(old[rows][:, [3, 4]].sum(-1).mean()), abs=1e-4)
        assert change.mass_after == pytest.approx(float(new[rows][:, [3, 4]].sum(-1).mean()), abs=1e-4)


def test_nothing_changed_is_nothing_moved(model):
    result = compare(model, PROMPT, [Gate(factor=1.0)])
    assert (result.kl, result.kl_mean, result.total_variation) == (0, 0, 0)
    assert {change.moved for change in result.heads} == {0}
    assert {change.mass_before for change in result.heads} == {None}
    assert not result.changed_first


def test_what_is_hidden_has_no_mass(model):
    result = compare(model, PROMPT, [HideKeys(keys=(0,), rows=(1, None))], target=(0,))
    # Row 0 sees token 0 alone and keeps it: one row of twelve.
    assert all(change.mass_after == pytest.approx(1 / 12, abs=1e-6) for change in result.heads)


def test_other_tokens_have_other_rows(model):
    result = compare(model, PROMPT, [EditTokens(start=0, stop=1)])
    assert result.heads == () and result.kl_mean is None
    before, after = dense(model)[0][-1].log_softmax(-1), dense(model, prompt=PROMPT[1:])[0][-1].log_softmax(-1)
    assert result.kl == pytest.approx(float((after.exp() * (after - before)).sum()), rel=1e-4)


def test_one_token_has_no_loss_and_moves_nothing(model):
    result = compare(model, [5], [Uniform()])
    assert result.loss_before is None and result.heads[0].moved is None


def test_stops_and_refuses(model):
    with pytest.raises(Cancelled):
        compare(model, PROMPT, [Uniform()], cancelled=lambda: True)
    with pytest.raises(Refused, match="row 0 would see no token"):
        compare(model, PROMPT, [HideKeys(keys=(0,))])
    with pytest.raises(Refused, match="tokens 0 to 11, got 12"):
        compare(model, PROMPT, [Uniform()], target=(12,))
    with pytest.raises(Refused, match="does not predict the next token"):
        compare(LoadedModel.wrap(build("bert")), PROMPT, [Uniform()])
