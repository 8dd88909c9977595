"""Words, sentences and segments, and attention between them (methods H-09: to a word the sum, from a word the mean)."""

from itertools import pairwise

import numpy as np
import pytest

from backend.store import Library
from backend.tokens import token_table
from backend.types import Segment
from backend.unit_attention import Units, between, profile, units_of
from backend.words import Group, gather, groups, is_delimiter, numbers_of
from tests.backend import tiny_tokenizers as tokenizers
from tests.stored import store


def table(tokenizer, text):
    found = tokenizer(text, return_offsets_mapping=True, split_special_tokens=True, verbose=False)
    spans = [None if start == end else (start, end) for start, end in found["offset_mapping"]]
    return token_table(tokenizer, found["input_ids"], text, [], spans=spans)


DIALECTS = {
    "bytes": tokenizers.byte_level(),
    "wordpiece": tokenizers.wordpiece(),
    "sentencepiece": tokenizers.sentencepiece(),
}


@pytest.mark.parametrize("name", DIALECTS)
def test_sub_tokens_become_the_words_that_were_typed(name):
    tokens = table(DIALECTS[name], "unable the cat")
    found = groups(tokens, "word")
    assert [group.text.strip() for group in found if not group.special] == ["unable", "the", "cat"]
    assert [(a.end, b.start) for a, b in pairwise(found)] == [(a.end, a.end) for a in found[:-1]]


def test_a_character_split_over_tokens_is_one_word():
    tokens = table(DIALECTS["bytes"], "Seán 世界 .")
    found = groups(tokens, "word")
    assert [group.text for group in found] == ["Seán", " 世界", " ."]
    assert found[1].label == "·世界" and found[1].end - found[1].start == 7


def test_sentences_end_at_their_marks_and_at_line_breaks():
    text = 'It rained. "Was it cold?" he asked. At 3.14 it stopped…\nNew line (ok?) Yes'
    found = groups(table(DIALECTS["bytes"], text), "sentence")
    assert [group.text.strip() for group in found] == [
        "It rained.",
        '"Was it cold?" he asked.',
        "At 3.14 it stopped…",
        "New line (ok?)",
        "Yes",
    ]


def test_special_tokens_stand_alone_in_every_unit():
    tokens = table(DIALECTS["wordpiece"], "the cat")
    for unit in ("token", "word", "sentence"):
        found = groups(tokens, unit)
        assert (found[0].label, found[-1].label) == ("[CLS]", "[SEP]") and found[0].special
        assert found[0].end == 1 and found[-1].end - found[-1].start == 1


def test_segments_and_what_lies_between_them():
    tokens = token_table(None, [3, 4, 5, 6, 7], "", [])
    found = groups(tokens, "segment", [Segment("a", "text", 0, 2), Segment("b", "text", 3, 5)])
    assert [(group.start, group.end) for group in found] == [(0, 2), (2, 3), (3, 5)]


def test_no_token_is_lost_or_counted_twice():
    for text in ("", "a", " \n\n x", "the cat sat on the mat . the cat lay on the rug ."):
        tokens = table(DIALECTS["bytes"], text)
        for unit in ("token", "word", "sentence", "segment"):
            found = groups(tokens, unit)
            covered = [at for group in found for at in range(group.start, group.end)]
            assert covered == list(range(len(tokens)))
            assert all(group.label.strip() for group in found)


def test_units_of_a_stored_analysis_hold_both_sides(analysis):
    units = units_of(analysis, "self", 1, "token")
    assert len(units.queries) == len(units.keys) == 23 and list(units.query_of) == list(range(23))


def test_an_unknown_unit_is_refused():
    with pytest.raises(ValueError, match="unit: expected"):
        groups(table(DIALECTS["bytes"], "a"), "line")


def test_delimiters_are_punctuation_line_breaks_and_special_tokens():
    tokens = table(DIALECTS["bytes"], "a, b.\n (c) -x 3.5")
    assert "".join(token.text for token in tokens if is_delimiter(token)) == ",.\n()-."
    assert is_delimiter(table(DIALECTS["wordpiece"], "the")[0])


def test_gather_sums_over_keys_and_averages_over_rows():
    weights = np.array([[1.0, 0, 0, 0], [0.25, 0.75, 0, 0], [0.5, 0.25, 0.25, 0], [0.1, 0.2, 0.3, 0.4]])
    visible = np.tril(np.ones((4, 4), bool))
    number = np.array([0, 0, 1, 1])
    found, seen = gather(weights, visible, number, number, 2, 2)
    assert found == pytest.approx(np.array([[1.0, 0.0], [0.525, 0.475]]))
    assert seen.tolist() == [[True, False], [True, True]]
    assert found.sum(1) == pytest.approx([1.0, 1.0])  # rows add up to what they did


def test_a_row_that_sees_nothing_is_in_no_mean():
    weights = np.array([[0.0, 0.0], [0.5, 0.5]])
    visible = np.array([[False, False], [True, True]])
    found, seen = gather(weights, visible, np.array([0, 0]), np.array([0, 1]), 1, 2)
    assert found.tolist() == [[0.5, 0.5]] and seen.all()


@pytest.fixture
def analysis(data_folder):
    text = "the cat sat on a mat ok"
    return Library(data_folder).open(store(data_folder, n_tokens=len(text), text=text))


def test_profiles_and_windows_of_a_stored_map_are_those_of_the_whole_map(analysis):
    n = analysis.info["n_tokens"]
    # letters are tokens here: give them the words that the text has
    cut = [0, 3, 7, 11, 14, 16, 20, n]
    words = [Group(start, end, "", "x") for start, end in pairwise(cut)]
    units = Units(words, words, numbers_of(words, n), numbers_of(words, n))
    whole, seen = gather(analysis.map(1, 2), analysis.visible(1, 2), units.query_of, units.key_of, 7, 7)
    for number in range(7):
        row, row_seen = profile(analysis, 1, 2, "self", units, [number], "from")
        assert row == pytest.approx(whole[number], abs=1e-6) and (row_seen == seen[number]).all()
        column, column_seen = profile(analysis, 1, 2, "self", units, [number], "to")
        assert column == pytest.approx(whole[:, number], abs=1e-6) and (column_seen == seen[:, number]).all()
    both, _ = profile(analysis, 1, 2, "self", units, [2, 5], "from")
    assert both == pytest.approx((whole[2] + whole[5]) / 2, abs=1e-6)
    summed, _ = profile(analysis, 1, 2, "self", units, [0, 3], "to")
    assert summed == pytest.approx(whole[:, 0] + whole[:, 3], abs=1e-6)
    part, part_seen = between(analysis, 1, 2, "self", units, slice(2, 6), slice(1, 4))
    assert part == pytest.approx(whole[2:6, 1:4], abs=1e-6) and (part_seen == seen[2:6, 1:4]).all()
