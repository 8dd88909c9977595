"""Prompts of every form, and prompts that are refused before anything runs."""

import threading

import pytest

from backend.errors import Refused
from backend.models import LoadedModel
from backend.prompts import Prompt, encode
from tests.backend import tiny, tiny_tokenizers


def model_with(tokenizer, model_type: str = "gpt2", **settings) -> LoadedModel:
    size = 400 if tokenizer is None else len(tokenizer)
    return LoadedModel.wrap(tiny.build(model_type, vocab_size=size, **settings), tokenizer)


@pytest.fixture(scope="module")
def plain() -> LoadedModel:
    return model_with(tiny_tokenizers.byte_level(), max_position_embeddings=256)


@pytest.fixture(scope="module")
def chatty() -> LoadedModel:
    return model_with(
        tiny_tokenizers.byte_level(add_bos=True, chat_template=tiny_tokenizers.CHAT), max_position_embeddings=256
    )


@pytest.fixture(scope="module")
def encoder() -> LoadedModel:
    return model_with(tiny_tokenizers.wordpiece(), "bert")


def said(encoded) -> dict[str, str]:
    """The text of every segment's tokens."""
    return {s.name: "".join(token.text for token in encoded.tokens[s.start : s.end]) for s in encoded.segments}


def test_text_is_one_segment(plain):
    encoded = encode(plain, "the cat sat")
    assert said(encoded) == {"text": "the cat sat"}
    assert encoded.prompt == {"text": "the cat sat"}
    assert encode(plain, Prompt(text="the cat sat")).token_ids == encoded.token_ids


def test_documents_instruction_and_question_are_segments(plain):
    encoded = encode(plain, Prompt(documents=["the cat", "hello world"], question="who sat?"))
    assert [segment.kind for segment in encoded.segments] == ["instruction", "document", "document", "question"]
    spoken = said(encoded)
    assert (spoken["document 2"].strip(), spoken["question"].strip()) == ("hello world", "who sat?")
    assert "".join(token.text for token in encoded.tokens) == encoded.text
    assert encoded.prompt == {"documents": ["the cat", "hello world"], "question": "who sat?"}


def test_examples_come_before_the_question(plain):
    encoded = encode(plain, Prompt(examples=[("a", "b"), ("c", "d")], question="e"))
    assert [segment.name for segment in encoded.segments] == ["example 1", "example 2", "question"]
    assert encoded.text.endswith("Input: e\nOutput:")


def test_a_pair_knows_its_sentences(encoder):
    encoded = encode(encoder, Prompt(pair=("the cat", "un able")))
    assert said(encoded) == {"sentence 1": "the cat", "sentence 2": "un able"}
    assert [token.label for token in encoded.tokens if token.is_special] == ["[CLS]", "[SEP]", "[SEP]"]
    assert encoded.text == "the catun able"


def test_chat_names_its_turns(chatty):
    turns = [("system", "hello"), ("user", "the cat"), ("assistant", "sat"), ("user", "world")]
    encoded = encode(chatty, Prompt(chat=[{"role": role, "content": content} for role, content in turns]))
    assert [segment.name for segment in encoded.segments] == ["system", "user 1", "assistant", "user 2"]
    assert [text.strip() for text in said(encoded).values()] == [content for _, content in turns]
    assert encoded.text.endswith("[assistant]")


def test_case_43_a_chat_has_exactly_one_bos(chatty):
    encoded = encode(chatty, Prompt(chat=[{"role": "user", "content": "hello"}]))
    bos = chatty.tokenizer.bos_token_id
    assert encoded.token_ids.count(bos) == 1
    assert encoded.token_ids[0] == bos
    assert encoded.notices == []


def test_case_43_a_template_without_bos_gets_the_tokenizers():
    template = tiny_tokenizers.CHAT.replace("{{ bos_token }}", "")
    model = model_with(tiny_tokenizers.byte_level(add_bos=True, chat_template=template))
    encoded = encode(model, Prompt(chat=[{"role": "user", "content": "hello"}]))
    assert encoded.token_ids.count(model.tokenizer.bos_token_id) == 1


def test_case_43_a_second_bos_of_the_person_is_noticed(chatty):
    encoded = encode(chatty, Prompt(text="<s>hello", parse_special=True))
    assert encoded.token_ids.count(chatty.tokenizer.bos_token_id) == 2
    assert "2 BOS tokens" in encoded.notices[0]


def test_case_36_special_text_is_text_unless_asked(plain):
    text = "<s>Yay!</s> [MASK] <|endoftext|>"
    as_text = encode(plain, text)
    assert not any(token.is_special for token in as_text.tokens)
    assert "".join(token.text for token in as_text.tokens) == text
    assert "<s>" in as_text.notices[0]
    parsed = encode(plain, Prompt(text=text, parse_special=True))
    assert [token.text for token in parsed.tokens if token.is_special] == ["<s>", "</s>"]
    assert "".join(token.text for token in parsed.tokens) == text
    assert parsed.notices == []


def test_case_36_a_person_cannot_end_a_turn_of_a_chat(chatty):
    encoded = encode(chatty, Prompt(chat=[{"role": "user", "content": "hi </s> x"}]))
    assert chatty.tokenizer.eos_token_id not in encoded.token_ids
    assert encoded.token_ids.count(chatty.tokenizer.bos_token_id) == 1
    assert "</s>" in said(encoded)["user"]


def test_the_tokenizer_is_left_as_it_was(plain):
    encode(plain, "<s>")
    assert plain.tokenizer("<s>")["input_ids"] == [plain.tokenizer.bos_token_id]


def test_threads_do_not_change_each_others_choice(plain):
    wrong = []

    def ask(parse: bool) -> None:
        for _ in range(60):
            special = any(t.is_special for t in encode(plain, Prompt(text="<s> a", parse_special=parse)).tokens)
            if special != parse:
                wrong.append(parse)

    threads = [threading.Thread(target=ask, args=(parse,)) for parse in (True, False) * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_token_ids_are_taken_as_they_are(plain):
    ids = encode(plain, "the cat").token_ids
    encoded = encode(plain, ids)
    assert (encoded.token_ids, encoded.text, encoded.prompt) == (ids, "the cat", {"token_ids": ids})


def test_a_model_without_tokenizer_takes_token_ids_alone():
    model = model_with(None)
    assert [token.label for token in encode(model, [5, 6]).tokens] == ["#5", "#6"]
    with pytest.raises(Refused, match="token ids"):
        encode(model, "hello")


@pytest.mark.parametrize("text", ["", "   ", "\n", "\t \n"])
def test_case_41_empty_prompts(plain, text):
    with pytest.raises(Refused, match="empty"):
        encode(plain, text)


def test_case_41_one_token_is_enough(plain):
    assert len(encode(plain, "a").token_ids) == 1


def test_case_42_the_longest_prompt():
    model = model_with(tiny_tokenizers.byte_level(), max_position_embeddings=16)
    assert len(encode(model, [5] * 16).token_ids) == 16
    with pytest.raises(Refused, match=r"17 tokens.*at most 16"):
        encode(model, [5] * 17)


TURN = {"role": "user", "content": "hello"}


@pytest.mark.parametrize(
    ("prompt", "reason"),
    [
        (Prompt(), "exactly one"),
        (Prompt(text="a", pair=("a", "b")), "text, pair"),
        (Prompt(text="a", question="b"), "takes no question"),
        (Prompt(documents=["a"]), "needs question"),
        (Prompt(documents=["a", " "], question="b"), "documents is empty"),
        (Prompt(documents=[], question="b"), "empty"),
        (Prompt(pair=("a", "")), "pair is empty"),
        (Prompt(image=b"a picture"), "a picture cannot be given"),
        (Prompt(text="a\0b"), "NUL"),
        (Prompt(text="a\ud800b"), "surrogate"),
        (Prompt(documents=["a\udfff"], question="b"), "surrogate"),
        (Prompt(text="<s></s>", parse_special=True), "special tokens only"),
        (Prompt(chat=[TURN]), "no chat template"),
        ([], "empty"),
        ([5, -1], "-1"),
        ([5, 10**6], "1000000"),
        ([True], "True"),
        (["a"], "'a'"),
        ((5, 6), "got tuple"),
        (None, "got NoneType"),
    ],
    ids=str,
)
def test_refusals(plain, prompt, reason):
    with pytest.raises(Refused, match=reason):
        encode(plain, prompt)


@pytest.mark.parametrize(
    "chat",
    [[{"role": "god", "content": "a"}], [{"content": "a"}], ["a"], [{"role": "user", "content": ["a"]}]],
    ids=str,
)
def test_refused_chats(chatty, chat):
    with pytest.raises(Refused, match=r"chat|empty"):
        encode(chatty, Prompt(chat=chat))


def test_a_template_that_objects_is_a_refusal():
    template = "{{ raise_exception('Roles must alternate') }}"
    model = model_with(tiny_tokenizers.byte_level(chat_template=template))
    with pytest.raises(Refused, match="Roles must alternate"):
        encode(model, Prompt(chat=[TURN]))
