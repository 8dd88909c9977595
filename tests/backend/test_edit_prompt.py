"""Edits of what the model reads: words in every form of a prompt, tokens with their segments."""

import pytest

from backend.edit_prompt import edited_words, encode_edited
from backend.errors import Refused
from backend.interventions import EditText, EditTokens
from backend.models import LoadedModel
from backend.prompts import Prompt
from backend.types import Segment
from tests.backend.tiny import build

IDS = [5, 17, 9, 30]


@pytest.fixture(scope="module")
def model():
    return LoadedModel.wrap(build("llama"))


ROME = EditText(old="Paris", new="Rome")


@pytest.mark.parametrize(
    ("prompt", "field", "expected"),
    [
        ("In Paris. Paris!", "text", "In Rome. Rome!"),
        (Prompt(chat=[{"role": "user", "content": "Paris?"}]), "chat", [{"role": "user", "content": "Rome?"}]),
        (Prompt(documents=["Paris", "Oslo"], question="Where?"), "documents", ["Rome", "Oslo"]),
        (Prompt(documents=["Oslo"], question="Where is Paris?"), "question", "Where is Rome?"),
        (Prompt(examples=[("Paris", "France")], question="Oslo"), "examples", [("Rome", "France")]),
        (Prompt(pair=("Paris", "Oslo")), "pair", ("Rome", "Oslo")),
    ],
)
def test_words_are_replaced_in_every_form(prompt, field, expected):
    assert getattr(edited_words(prompt, [ROME]), field) == expected


def test_a_role_is_no_text_of_the_person():
    edited = edited_words(Prompt(chat=[{"role": "user", "content": "a user"}]), [EditText(old="user", new="person")])
    assert edited.chat == [{"role": "user", "content": "a person"}]


def test_edits_that_find_nothing_are_refused():
    with pytest.raises(Refused, match="'Paris' does not stand in the prompt"):
        edited_words("In Oslo.", [ROME])
    with pytest.raises(Refused, match="given as token ids"):
        edited_words(IDS, [ROME])


def test_tokens_leave_and_come_with_their_segments(model):
    encoded = encode_edited(model, IDS, [EditTokens(start=0, stop=1)])
    assert encoded.token_ids == [17, 9, 30]
    assert encoded.segments == [Segment("text", "text", 0, 3)]
    assert [token.position for token in encoded.tokens] == [0, 1, 2]
    assert encoded.prompt == {"token_ids": IDS}, "what was asked stays on record"
    assert encode_edited(model, IDS, [EditTokens(start=1, stop=2, token_ids=(8, 8))]).token_ids == [5, 8, 8, 9, 30]


def test_token_edits_are_checked(model):
    with pytest.raises(Refused, match="from 0 to 99; got 100"):
        encode_edited(model, IDS, [EditTokens(start=0, stop=1, token_ids=(100,))])
    with pytest.raises(Refused, match="takes at most 128"):
        encode_edited(model, IDS, [EditTokens(start=0, stop=0, token_ids=(7,) * 125)])


def test_without_edits_nothing_differs(model):
    assert encode_edited(model, IDS, []).token_ids == IDS
