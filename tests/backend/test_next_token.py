"""Log-probabilities from chunks of the output projection against the logits of the whole prompt."""

import pytest
import torch

from backend import next_token
from backend.next_token import NextToken, tapped
from tests.backend.tiny import VOCABULARY, build, ids


def run(model, tokens):
    with torch.inference_mode(), tapped(model) as tap:
        logits = model(input_ids=tokens, use_cache=False).logits
        assert logits.shape[1] == 1, "only the last row goes through the projection"
        return NextToken.read(tap, logits[0, -1], model.config)


@pytest.mark.parametrize(
    ("model_type", "changes"),
    [
        ("llama", {}),
        ("gpt2", {}),
        ("gptj", {}),  # its projection has a bias
        ("gemma2", {"final_logit_softcapping": 2.0}),
        ("cohere", {"logit_scale": 0.25}),
        ("granite", {"logits_scaling": 4.0}),
    ],
)
def test_logprobs_and_predictions_are_those_of_the_model(model_type, changes, monkeypatch):
    monkeypatch.setattr(next_token, "CHUNK_BYTES", 5 * 4 * VOCABULARY)  # chunks of 5 rows
    model, tokens = build(model_type, **changes), ids(23)
    with torch.inference_mode():
        whole = torch.log_softmax(model(input_ids=tokens, use_cache=False).logits[0], -1)
    expects = run(model, tokens)
    with torch.inference_mode():
        found = expects.logprobs(tokens[0].tolist())
        predicted = expects.predictions(9, 4)
    assert found[0] is None
    expected = [whole[place - 1, tokens[0, place]].item() for place in range(1, 23)]
    assert found[1:] == pytest.approx(expected, abs=2e-5)

    assert [position for position, _ in predicted] == list(range(9, 23))
    for position, best in predicted:
        values, order = whole[position].topk(4)
        assert [token for token, _ in best] == order.tolist()
        assert [logprob for _, logprob in best] == pytest.approx(values.tolist(), abs=2e-5)


def test_the_model_is_as_before_also_after_an_error():
    model, tokens = build("llama"), ids(8)
    with pytest.raises(RuntimeError, match="stop"):
        with tapped(model):
            raise RuntimeError("stop")
    run(model, tokens)
    assert model(input_ids=tokens).logits.shape[1] == 8
    assert not model.get_output_embeddings()._forward_pre_hooks


def test_an_unknown_step_after_the_projection_gives_no_numbers_rather_than_wrong_ones():
    model, tokens = build("llama"), ids(8)
    with torch.inference_mode(), tapped(model) as tap:
        logits = model(input_ids=tokens, use_cache=False).logits * 1.5 + 1
        expects = NextToken.read(tap, logits[0, -1], model.config)
        assert expects.logprobs(tokens[0].tolist()) is None
        assert [position for position, _ in expects.predictions(2, 3)] == [7], "the last one is the model's own"


@torch.inference_mode()
def test_a_single_token_and_more_predictions_than_the_vocabulary_has():
    expects = run(build("llama"), ids(1))
    assert expects.logprobs([3]) == [None]
    assert len(expects.predictions(0, 10_000)[0][1]) == VOCABULARY
    assert expects.predictions(0, 0) == [(0, [])]


def test_a_model_without_a_head_has_no_next_token():
    model = build("bert", base=True)
    with tapped(model) as tap:
        model(input_ids=ids(5))
    assert tap.head is None
