"""The permutation study: known answers, and every shift against the model's own eager maps."""

import numpy as np
import pytest
import torch

from backend.basins.orders import cyclic, ordered, places_in, prompt_from
from backend.basins.permuted import LOOKS, combined
from backend.basins.slots import slots_of
from backend.errors import Refused
from backend.models import LoadedModel
from backend.prompts import Prompt, encode
from backend.studies import run_study
from backend.studies.permutation import STUDY, Parameters
from tests.backend.basins.test_basin import dense_view
from tests.backend.eager import eager_maps
from tests.backend.tiny import build
from tests.backend.tiny_tokenizers import CHAT as TEMPLATE
from tests.backend.tiny_tokenizers import byte_level, sentencepiece, wordpiece

DOCUMENTS = ["the cat sat", "on the mat .", "hello world of text", "unable table"]
PROMPT = {"documents": DOCUMENTS, "question": "the cat sat on ?"}


@pytest.fixture(scope="module")
def model():
    return LoadedModel.wrap(build("llama", vocab_size=300, max_position_embeddings=400), byte_level())


@pytest.fixture(scope="module")
def study(model):
    return run_study(STUDY, model, Parameters(prompt=PROMPT, answer="the mat"))


def test_b01_every_part_visits_every_place():
    orders = np.array(cyclic(5, None))
    assert orders[0].tolist() == [0, 1, 2, 3, 4]
    assert all(sorted(column) == [0, 1, 2, 3, 4] for column in orders.T)
    assert cyclic(5, 2) == [orders[0].tolist(), orders[2].tolist()]


def test_b01_every_shift_equals_a_dense_eager_recomputation(model, study):
    for shift, order in enumerate(cyclic(4, None)):
        encoded = encode(model, ordered(prompt_from(PROMPT), order))
        slots = slots_of(encoded.segments, encoded.tokens)
        ids = torch.tensor([encoded.token_ids])
        maps = torch.stack(eager_maps(model.model, {"input_ids": ids}, torch.float64))[:, 0].numpy()
        for view, looking, sinkfree in (("question", "question", True), ("last_all", "last", False)):
            dense, sinks = dense_view(maps, sinkfree)
            rows = study.sql(f"SELECT {view} FROM masses WHERE shift = {shift} ORDER BY layer, head, slot")
            found = np.array([np.nan if v is None else v for v in rows[view].to_pylist()]).reshape(len(dense), 4)
            lengths = np.stack([(~sinks[:, p.start : p.stop]).sum(-1) for p in slots.parts], -1)
            truth = np.stack(
                [np.nanmean(dense[:, slots.rows(looking), p.start : p.stop].sum(-1), -1) for p in slots.parts], -1
            ) / np.maximum(lengths, 1)
            there = np.isfinite(found) & np.isfinite(truth)
            assert there.mean() > 0.9
            np.testing.assert_allclose(found[there], truth[there], atol=1e-4)


def test_b01_profile_is_the_mean_over_shifts_and_heads(study):
    shifts = study.table("shifts").to_pylist()
    for slot in range(4):
        mean = np.mean([row["question_all"] for row in shifts if row["slot"] == slot])
        row = study.table("profile", view="question_all", slot=slot).to_pylist()[0]
        assert row["mean"] == pytest.approx(mean)
        assert row["low"] < mean < row["high"] and 0 < row["uniform"] < 1
    model_row = study.table("model", view="question_all").to_pylist()[0]
    assert model_row["r2"] == pytest.approx(model_row["r2_content"] + model_row["r2_position"])
    assert study.table("heads").num_rows == 16 * len(LOOKS)


def test_b01_uniform_attention_has_depth_zero(model):
    flat = build("llama", vocab_size=300, max_position_embeddings=400)
    with torch.no_grad():
        for layer in flat.model.layers:
            layer.self_attn.q_proj.weight.zero_()
    study = run_study(STUDY, LoadedModel.wrap(flat, byte_level()), Parameters(prompt=PROMPT))
    for row in study.table("profile", view="last_all").to_pylist():
        assert row["mean"] == pytest.approx(row["uniform"], rel=1e-5)
    for row in study.table("heads", view="last_all").to_pylist():
        assert row["depth"] == pytest.approx(0, abs=1e-5)


def test_the_answer_is_as_probable_as_the_model_says(model, study):
    for shift, order in enumerate(cyclic(4, None)):
        encoded = encode(model, ordered(prompt_from(PROMPT), order))
        whole = model.tokenizer(encoded.text + " the mat")["input_ids"]
        with torch.no_grad():
            logits = model.model(torch.tensor([whole])).logits[0].log_softmax(-1)
        start = len(encoded.token_ids)
        truth = sum(float(logits[at - 1, whole[at]]) for at in range(start, len(whole)))
        row = study.table("answers", shift=shift).to_pylist()[0]
        assert row["logprob"] == pytest.approx(truth, abs=1e-4) and row["answer_tokens"] == len(whole) - start


def test_examples_and_paragraphs_change_places_too():
    examples = Prompt(examples=[("a", "b"), ("c", "d")], question="e")
    assert ordered(examples, [1, 0]).examples == [("c", "d"), ("a", "b")]
    text = Prompt(text="one\n\ntwo\n\n\nthree?")
    assert ordered(text, [1, 0]).text == "two\n\none\n\nthree?"


def test_an_encoder_is_read_without_an_answer():
    encoder = LoadedModel.wrap(build("bert", vocab_size=100, max_position_embeddings=200), wordpiece())
    prompt = {"documents": ["the cat", "a table", "unable"], "question": "the cat"}
    study = run_study(STUDY, encoder, Parameters(prompt=prompt))
    assert study.table("answers")["logprob"].null_count == 3
    assert study.table("profile", view="last")["mean"].null_count == 0
    with pytest.raises(Refused, match="predicts no next token"):
        run_study(STUDY, encoder, Parameters(prompt=prompt, answer="cat"))


def test_a_part_out_of_the_window_is_null_and_not_zero():
    windowed = LoadedModel.wrap(
        build("mistral", vocab_size=300, max_position_embeddings=400, sliding_window=30), byte_level()
    )
    study = run_study(STUDY, windowed, Parameters(prompt=PROMPT))
    rows = study.table("profile", view="last_all").sort_by("slot").to_pylist()
    assert rows[0]["mean"] is None and rows[-1]["mean"] > 0
    assert all(row["depth"] is None for row in study.table("heads", view="last_all").to_pylist())


@pytest.mark.parametrize(
    ("prompt", "words"),
    [
        (None, "two parts or more"),
        ({"documents": ["one"], "question": "q"}, "two parts or more"),
        ({"text": "one paragraph"}, "two parts or more"),
        ({"documents": ["a", " "], "question": "q"}, "is empty"),
        ({"nonsense": 1}, "two parts or more"),
    ],
)
def test_bad_prompts_are_refused_in_words(model, prompt, words):
    with pytest.raises(Refused, match=words):
        run_study(STUDY, model, Parameters(prompt=prompt))


def test_bad_parameters_are_refused_in_words():
    with pytest.raises(Refused, match="shifts"):
        Parameters(shifts=1)
    with pytest.raises(Refused, match="answer"):
        Parameters(answer=" ")


def test_duplicates_have_the_same_content(model):
    twins = {"documents": ["the cat sat", "on the mat .", "the cat sat", "on the mat ."], "question": "the cat ?"}
    study = run_study(STUDY, model, Parameters(prompt=twins))
    values = study.table("contents", view="question_all").sort_by("part")["content"].to_pylist()
    assert values[0] == pytest.approx(values[2], abs=1e-9) and values[1] == pytest.approx(values[3], abs=1e-9)


def test_combined_without_any_difference_has_no_r2():
    shifts = [
        {
            "shift": c,
            "slot": s,
            "part": (s - c) % 3,
            **dict.fromkeys(LOOKS, 0.1),
            **{f"{v}_uniform": 0.1 for v in LOOKS},
        }
        for c in range(3)
        for s in range(3)
    ]
    masses = [
        {"shift": c, "layer": 0, "head": 0, "slot": s, **dict.fromkeys(LOOKS, 0.1)} for c in range(3) for s in range(3)
    ]
    found = combined(masses, shifts)
    assert all(row["r2"] is None for row in found["model"])


CHAT = [
    {"role": "system", "content": "hello world"},
    {"role": "user", "content": "the cat sat"},
    {"role": "assistant", "content": "on the mat ."},
    {"role": "user", "content": "unable table"},
    {"role": "assistant", "content": "able"},
    {"role": "assistant", "content": "hello text"},
    {"role": "user", "content": "the mat ?"},
]
FIRST_IS_ANOTHER = (
    "{% for m in messages %}{{ loop.index if m.role == 'assistant' else '' }} {{ m.content }}\n{% endfor %}"
)


def chatting(template: str) -> LoadedModel:
    return LoadedModel.wrap(
        build("llama", vocab_size=300, max_position_embeddings=400), byte_level(chat_template=template)
    )


def test_rounds_of_a_chat_change_places_whole_between_the_system_and_the_question():
    model, prompt = chatting(TEMPLATE), prompt_from({"chat": CHAT})
    moved = ordered(prompt, [1, 0])
    assert moved.chat == [CHAT[0], *CHAT[3:6], *CHAT[1:3], CHAT[6]]
    encoded = encode(model, moved)
    places = places_in(moved, encoded)
    read = ["".join(token.text for token in encoded.tokens[part.start : part.stop]).strip() for part in places.parts]
    assert places.names == ["round 1", "round 2"]
    assert read == [
        "unable table\n[assistant] able\n[assistant] hello text",
        "the cat sat\n[assistant] on the mat .",
    ]
    study = run_study(STUDY, model, Parameters(prompt={"chat": CHAT}))
    assert (
        study.info["runs"] == 2
        and study.table("shifts").num_rows == 4
        and "the mat ?" in STUDY.title_of(Parameters(prompt={"chat": CHAT}))
    )


def test_a_round_that_the_template_writes_otherwise_elsewhere_cannot_change_places():
    with pytest.raises(Refused, match="Round 2 is read as other tokens at place 1 than at place 2"):
        run_study(STUDY, chatting(FIRST_IS_ANOTHER), Parameters(prompt={"chat": CHAT}))


def test_a_paragraph_that_begins_otherwise_elsewhere_cannot_change_places():
    """Llama's kind of tokenizer puts a space before the first word of a text and of no other paragraph."""
    text = {"text": "the cat\n\nable\n\nthe able ?"}
    model = LoadedModel.wrap(build("llama", vocab_size=300, max_position_embeddings=400), sentencepiece())
    with pytest.raises(Refused, match="Paragraph 2 is read as other tokens at place 1"):
        run_study(STUDY, model, Parameters(prompt=text))
    assert run_study(STUDY, chatting(TEMPLATE), Parameters(prompt=text)).info["runs"] == 2


@pytest.mark.parametrize(
    ("prompt", "words"),
    [
        ({"chat": CHAT[:4]}, "This chat has 1 round before its last question. Orders can be changed where"),
        ({"chat": CHAT[:2]}, "This chat has 0 rounds"),
        ({"chat": CHAT[:6]}, "The last turn of this chat is not the user's"),
        ({"text": "the cat"}, "This text has 1 paragraph. "),
        ({"text": "the cat\n\nsat"}, "This text has 2 paragraphs. "),
    ],
)
def test_too_few_parts_are_refused_in_words(prompt, words):
    with pytest.raises(Refused, match=words):
        prompt_from(prompt)


def test_a_turn_that_the_template_leaves_out_is_said():
    users_only = "{% for m in messages if m.role != 'assistant' %}{{ m.content }}\n{% endfor %}"
    with pytest.raises(Refused, match="has 7 turns and the template writes 4 of them"):
        run_study(STUDY, chatting(users_only), Parameters(prompt={"chat": CHAT}))
