"""Log-probabilities from chunks of the output projection against the logits of the whole prompt."""

import pytest
import torch

from backend import next_token
from backend.next_token import tapped, token_logprobs, top_predictions
from tests.backend.tiny import VOCABULARY, build, ids


def run(model, tokens):
    with torch.inference_mode(), tapped(model) as tap:
        logits = model(input_ids=tokens, use_cache=False).logits
    return tap, logits


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
    tap, logits = run(model, tokens)
    assert logits.shape[1] == 1, "only the last row went through the projection"
    found = token_logprobs(tap, logits[0, -1], tokens[0].tolist(), model.config)
    assert found[0] is None
    expected = [whole[place - 1, tokens[0, place]].item() for place in range(1, 23)]
    assert found[1:] == pytest.approx(expected, abs=2e-5)

    best = top_predictions(logits[0, -1], 4)
    values, order = whole[-1].topk(4)
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
    tap, logits = run(model, tokens)
    assert token_logprobs(tap, logits[0, -1] * 1.5 + 1, tokens[0].tolist(), model.config) is None


def test_a_single_token_and_more_predictions_than_the_vocabulary_has():
    model, tokens = build("llama"), ids(1)
    tap, logits = run(model, tokens)
    assert token_logprobs(tap, logits[0, -1], [3], model.config) == [None]
    assert len(top_predictions(logits[0, -1], 10_000)) == VOCABULARY
    assert top_predictions(logits[0, -1], 0) == []


def test_a_model_without_a_head_has_no_next_token():
    model = build("bert", base=True)
    with tapped(model) as tap:
        model(input_ids=ids(5))
    assert tap.head is None
