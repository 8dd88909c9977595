"""Sets of prompts: text, JSONL, and lines that cannot be read."""

import pytest

from backend.errors import Refused
from backend.prompt_sets import natural, read_bytes, read_set


def test_the_bundled_set_has_forty_different_texts():
    texts = natural().texts
    assert len(set(texts)) == 40 and min(len(text.split()) for text in texts) >= 60


def test_text_is_read_by_paragraphs_or_by_lines():
    assert read_set("one\ntwo\n\nthree\n").texts == ("one\ntwo", "three")
    assert read_set("one\r\ntwo\r\n").texts == ("one", "two")
    assert read_set("\ufeffone").texts == ("one",)


def test_broken_lines_cost_themselves():
    found = read_set(
        '{"text": "a"}\n{"prompt": "b"}\n"c"\n\n{"text": }\n{"title": "x"}\n[1]\n{"text": " "}\n{"text": 3}\n'
    )
    assert found.texts == ("a", "b", "c")
    assert [(one.line, one.reason) for one in found.left_out] == [
        (5, "it is not JSON"),
        (6, "it has no field text or prompt or content"),
        (7, "expected a text, got list"),
        (8, "its text is empty"),
        (9, "expected a text, got int"),
    ]


def test_nesting_without_end_costs_its_line():
    found = read_set('{"text": "a"}\n' + "[" * 200_000)
    assert found.texts == ("a",) and len(found.left_out) == 1


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "holds no prompt"),
        (b"  \n\n", "holds no prompt"),
        (b'{"x": 1}', "Line 1: it has no field"),
        (b"\xff\xfe", "not text in UTF-8"),
        (b"x\n" * 1001, "1,001 prompts and at most 1,000"),
    ],
)
def test_a_set_without_prompts_is_refused_with_the_reason(data, words):
    with pytest.raises(Refused, match=words):
        read_bytes(data)
