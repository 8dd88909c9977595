"""Generation: what is written, and that the maps over prompt and text are those of one eager pass."""

import pytest
import torch

from backend.capture import capture
from backend.errors import Cancelled, Refused
from backend.generate import Writing, continued, generate
from backend.interventions import BiasKeys, Gate, HideKeys, TargetShare
from backend.models import LoadedModel
from backend.prompts import encode
from backend.types import Segment
from tests.backend.tiny import build

PROMPT = [5, 17, 9, 30, 22, 41, 8, 63]


def wrapped(model_type="llama", **overrides):
    return LoadedModel.wrap(build(model_type, **overrides))


def step_by_step(model, choose, count, prompt=PROMPT):
    """One full pass per token, without a cache."""
    ids = list(prompt)
    for _ in range(count):
        with torch.no_grad():
            logits = model.model(torch.tensor([ids])).logits[0, -1]
        ids.append(int(choose(logits)))
    return ids[len(prompt) :]


@pytest.mark.parametrize("model_type", ["llama", "mistral", "gpt2", "gpt_oss", "jamba", "qwen3_next", "llama4_text"])
def test_greedy_text_is_the_most_probable_token_each_time(model_type):
    model = wrapped(model_type)
    written = generate(model, PROMPT, Writing(6))
    expected = step_by_step(model, torch.argmax, len(written.token_ids))
    assert written.token_ids == expected
    assert written.ended == (expected[-1] == 2)


def test_what_the_models_file_says_of_sampling_is_set_aside():
    model = wrapped()
    plain = generate(model, PROMPT, Writing(6))
    model.model.generation_config.update(do_sample=True, temperature=9.0, repetition_penalty=5.0, top_k=3)
    assert generate(model, PROMPT, Writing(6)) == plain


def test_a_seed_gives_the_same_text_whatever_else_is_drawn():
    model = wrapped()
    one = generate(model, PROMPT, Writing(12, temperature=2.0, seed=4))
    torch.randn(5)
    assert generate(model, PROMPT, Writing(12, temperature=2.0, seed=4)) == one
    others = {tuple(generate(model, PROMPT, Writing(12, temperature=2.0, seed=s)).token_ids) for s in range(5)}
    assert len(others) > 1


def test_sampling_follows_the_probabilities():
    model = wrapped(initializer_range=0.1)
    with torch.no_grad():
        probabilities = (model.model(torch.tensor([PROMPT])).logits[0, -1] / 1.5).softmax(-1)
    draws = [generate(model, PROMPT, Writing(1, temperature=1.5, seed=s)).token_ids[0] for s in range(200)]
    counts = torch.bincount(torch.tensor(draws), minlength=100) / 200
    kept = probabilities.topk(5).indices
    assert (counts[kept] - probabilities[kept]).abs().max() < 0.1


def test_top_p_of_almost_nothing_is_greedy():
    model = wrapped()
    assert generate(model, PROMPT, Writing(6, temperature=1.0, top_p=1e-6)) == generate(model, PROMPT, Writing(6))


def logprob(model, token_ids):
    with torch.no_grad():
        logits = model.model(torch.tensor([PROMPT + token_ids])).logits[0].log_softmax(-1)
    return sum(float(logits[len(PROMPT) + k - 1, token]) for k, token in enumerate(token_ids))


def test_beams_find_a_text_at_least_as_probable():
    model = wrapped(initializer_range=0.1)
    greedy = generate(model, PROMPT, Writing(5)).token_ids
    beams = generate(model, PROMPT, Writing(5, num_beams=4)).token_ids
    assert logprob(model, beams) / len(beams) >= logprob(model, greedy) / len(greedy) - 1e-6


def test_stops_between_tokens_and_leaves_the_model_as_it_was():
    model = wrapped()
    before = model.model(torch.tensor([PROMPT])).logits
    written = []
    for edits in ((), (Gate(factor=0.5),)):
        with pytest.raises(Cancelled):
            generate(
                model,
                PROMPT,
                Writing(50),
                interventions=edits,
                progress=written.append,
                cancelled=lambda: len(written) > 2,
            )
    assert torch.equal(model.model(torch.tensor([PROMPT])).logits, before)


def test_progress_counts_tokens():
    told = []
    written = generate(wrapped(), PROMPT, Writing(4), progress=told.append)
    assert told == list(range(1, len(written.token_ids) + 1))


@pytest.mark.parametrize("model_type", ["llama", "mistral", "llama4_text"])
def test_text_written_under_interventions_is_that_of_full_passes_under_them(model_type):
    model = wrapped(model_type)
    edits = [
        BiasKeys(bias=2.0, keys=(6, 7)),
        TargetShare(share=0.5, keys=(5,), rows=(6, None)),
        Gate(factor=0.3, layers=(0,)),
    ]
    written = generate(model, PROMPT, Writing(6), interventions=edits)

    ids = list(PROMPT)
    for _ in written.token_ids:
        with capture(model, interventions=edits):
            ids.append(int(model.model(torch.tensor([ids])).logits[0, -1].argmax()))
    assert written.token_ids == ids[len(PROMPT) :]
    assert written != generate(model, PROMPT, Writing(6))


def test_generated_text_is_a_segment_behind_the_prompt():
    model = wrapped()
    encoded = continued(model, encode(model, PROMPT), [4, 9])
    assert encoded.token_ids == [*PROMPT, 4, 9]
    assert encoded.segments[-1] == Segment("generated", "generated", 8, 10)
    assert [token.position for token in encoded.tokens] == list(range(10))
    assert [token.segment for token in encoded.tokens][-3:] == [0, 1, 1]
    assert encoded.prompt == {"token_ids": PROMPT}
    assert "the row of the last token" in encoded.notices[-1]


@pytest.mark.parametrize(
    ("writing", "words"),
    [
        (Writing(257), "0 to 256"),
        (Writing(4, num_beams=0), "num_beams"),
        (Writing(4, temperature=0.0), "temperature"),
        (Writing(4, top_p=0.0), "top_p"),
        (Writing(4, num_beams=2, temperature=1.0), "num_beams or temperature"),
        (Writing(121), "at most 128 together"),
    ],
)
def test_refusals(writing, words):
    with pytest.raises(Refused, match=words):
        generate(wrapped(), PROMPT, writing)


def test_an_encoder_does_not_write():
    with pytest.raises(Refused, match="does not write text"):
        generate(wrapped("bert"), PROMPT, Writing(4))


def test_hidden_keys_stay_hidden_while_text_is_written():
    model = wrapped()
    hidden = generate(model, PROMPT, Writing(6), interventions=[HideKeys(keys=(0, 1, 2), rows=(3, None))])
    assert hidden != generate(model, PROMPT, Writing(6))
