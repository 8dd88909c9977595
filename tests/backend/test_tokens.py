"""The token table in the three dialects."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backend.tokens import cut, spans_of_bytes, token_table, visible
from backend.types import Segment
from tests.backend import tiny_tokenizers as tokenizers

DIALECTS = {
    "bytes": tokenizers.byte_level(),
    "wordpiece": tokenizers.wordpiece(),
    "sentencepiece": tokenizers.sentencepiece(),
}
TEXTS = [
    "Seán naïve 世界 Γεια",
    "unable — 世",
    "a\n\n\tb   c",
    "👩‍👩‍👧 e\u0301 ﬁ \u202eabc\u200b",
    'a<b<c & "x" <img src=x onerror=alert(1)>',
    "Pay $5 or $6, a_b_c, **x**, :red[y], # head",
    "<s>Yay!</s> [MASK] <|endoftext|>",
    "  leading and trailing  ",
    "\ufffd is what was typed",
]


def table(tokenizer, text):
    found = tokenizer(text, return_offsets_mapping=True, split_special_tokens=True, verbose=False)
    spans = [None if start == end else (start, end) for start, end in found["offset_mapping"]]
    return token_table(tokenizer, found["input_ids"], text, [], spans=spans)


@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize("text", TEXTS)
def test_texts_joined_are_the_prompt_and_labels_show_something(name, text):
    tokens = table(DIALECTS[name], text)
    assert "".join(token.text for token in tokens) == text
    for token in tokens:
        assert token.label.strip()
        assert "\ufffd" not in token.label
        assert not any(character in token.label for character in " \n\t\u202e\u200b")
        assert token.start == -1 or text[token.start : token.end]


@settings(max_examples=60, deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=40))
def test_any_text_round_trips(text):
    for tokenizer in DIALECTS.values():
        tokens = table(tokenizer, text)
        if tokens and any(token.start >= 0 for token in tokens):  # a tokenizer may find nothing in a control character
            assert "".join(token.text for token in tokens) == text
        assert all(token.label.strip() and "\ufffd" not in token.label for token in tokens)


def test_case_34_labels_are_text_and_not_byte_letters():
    tokens = table(DIALECTS["bytes"], "Seán 世界")
    assert not any(mark in "".join(token.label for token in tokens) for mark in ("Ġ", "Ã", "ä¸"))
    parts = [token for token in tokens if "世" in token.label]
    assert [token.label for token in parts] == ["世[1/3]", "世[2/3]", "世[3/3]"]
    assert [token.text for token in parts] == ["", "", "世"]
    assert b"".join(token.bytes for token in parts) == "世".encode()
    assert parts[0].raw == "ä"


@pytest.mark.parametrize("name", DIALECTS)
def test_case_35_a_word_start_is_told_from_a_continuation(name):
    joined = [token for token in table(DIALECTS[name], "unable") if token.text]
    apart = [token for token in table(DIALECTS[name], "un able") if token.text]
    assert "·" not in "".join(token.label for token in joined)
    assert any(token.label.startswith("·") for token in apart)
    assert len({token.word for token in joined}) == 1
    assert len({token.word for token in apart}) == 2


def test_case_35_an_unknown_piece_keeps_its_source_text():
    tokens = table(DIALECTS["wordpiece"], "the 世 cat")
    unknown = next(token for token in tokens if token.raw == "[UNK]")
    assert (unknown.text, unknown.start, unknown.end) == (" 世", 4, 5)


def test_case_39_white_space_has_marks():
    labels = "".join(token.label for token in table(DIALECTS["bytes"], "a\n\n\tb   c"))
    assert labels == "a↵↵⇥b···c"


def test_case_40_equal_words_are_positions_of_their_own():
    tokens = table(DIALECTS["bytes"], "the cat sat on the mat . the cat lay on the rug .")
    assert [token.position for token in tokens] == list(range(len(tokens)))


def test_case_44_special_tokens_stand_apart_and_take_no_text():
    tokens = table(DIALECTS["wordpiece"], "the cat")
    assert [(token.label, token.is_special, token.text) for token in tokens] == [
        ("[CLS]", True, ""),
        ("the", False, "the"),
        ("·cat", False, " cat"),
        ("[SEP]", True, ""),
    ]
    assert (tokens[0].start, tokens[0].word) == (-1, -1)


def test_ids_alone_give_the_same_texts():
    tokenizer, text = DIALECTS["bytes"], "naïve 世界\n"
    ids = tokenizer(text)["input_ids"]
    tokens = token_table(tokenizer, ids, "", [])
    assert [token.text for token in tokens] == [token.text for token in table(tokenizer, text)]
    assert [token.label for token in tokens] == [token.label for token in table(tokenizer, text)]


def test_bytes_that_are_no_text_are_shown_as_bytes():
    tokenizer = DIALECTS["bytes"]
    half = tokenizer("世")["input_ids"][:1]
    assert [token.label for token in token_table(tokenizer, half, "", [])] == ["0xE4"]


def test_without_a_tokenizer_labels_are_the_ids():
    tokens = token_table(None, [3, 4], "", [Segment("text", "text", 0, 2)])
    assert [(token.label, token.text, token.segment) for token in tokens] == [("#3", "", 0), ("#4", "", 0)]


def test_segments_are_found_by_position():
    tokens = token_table(None, [3, 4, 5], "", [Segment("first", "text", 0, 1), Segment("last", "text", 2, 3)])
    assert [token.segment for token in tokens] == [0, -1, 1]


def test_cut_gives_gaps_to_the_token_after_and_the_rest_to_the_last():
    assert cut(" ab  cd ", [(1, 3), None, (5, 7)]) == [" ab", "", "  cd "]
    assert cut("", []) == []


def test_spans_of_bytes_count_characters():
    assert spans_of_bytes([b"a\xe4", b"\xb8\x96", b"", b"b"]) == ("a世b", [(0, 2), (1, 2), None, (2, 3)])


def test_what_cannot_be_seen_is_named():
    assert visible(" \n\t\u202e\ufffd\u0301x") == "·↵⇥⟨U+202E⟩⟨U+FFFD⟩\u0301x"
    assert visible("\u0301") == "◌\u0301"
