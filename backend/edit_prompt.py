"""Interventions that change what the model reads: words before the prompt is tokenised, tokens after it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace

from backend.errors import Refused
from backend.interventions import EditText, EditTokens, Intervention
from backend.models import LoadedModel
from backend.prompts import EncodedPrompt, Prompt, encode
from backend.tokens import token_table

TEXTS = ("text", "chat", "documents", "examples", "question", "pair", "target")  # the fields that hold text


def encode_edited(
    model: LoadedModel, prompt: str | Prompt | list[int], interventions: Sequence[Intervention]
) -> EncodedPrompt:
    """`encode` of the prompt after all edits of words, then all edits of tokens, each in the order given.

    `prompt` of the result is what was asked, without the edits; they are told apart in info["interventions"].
    Refused where an edit finds nothing to change or leaves nothing.
    """
    words = [edit for edit in interventions if isinstance(edit, EditText)]
    tokens = [edit for edit in interventions if isinstance(edit, EditTokens)]
    asked = encode(model, prompt)
    encoded = encode(model, edited_words(prompt, words)) if words else asked
    if tokens and encoded.beside is not None:
        raise Refused(
            "Intervention edit_tokens: the prompt holds a picture, whose tokens cannot be moved. Edit its words."
        )
    for edit in tokens:
        encoded = edited_tokens(model, encoded, edit)
    return replace(encoded, prompt=asked.prompt)


def edited_words(prompt: str | Prompt | list[int], edits: Sequence[EditText]) -> str | Prompt:
    """The prompt with words replaced in every field that holds text."""
    if isinstance(prompt, list):
        raise Refused("Intervention edit_text: the prompt is given as token ids. Give it as text, or use edit_tokens.")
    prompt = Prompt(text=prompt) if isinstance(prompt, str) else prompt
    for edit in edits:
        given = {f.name: value for f in fields(prompt) if f.name in TEXTS and (value := getattr(prompt, f.name))}
        changed = {name: edit.edited(value) for name, value in given.items()}
        if changed == given:
            raise edit.not_found()
        prompt = replace(prompt, **changed)
    return prompt


def edited_tokens(model: LoadedModel, encoded: EncodedPrompt, edit: EditTokens) -> EncodedPrompt:
    """The prompt with tokens taken out or put in; segments keep their other tokens."""
    size, most = model.config.vocab_size, model.max_positions
    wrong = [token for token in edit.token_ids if token >= size]
    if wrong:
        raise Refused(f"Token ids of {model.name} are whole numbers from 0 to {size - 1}; got {wrong[0]}.")
    token_ids = edit.edited(encoded.token_ids)
    if most is not None and len(token_ids) > most:
        raise Refused(f"After the edit the prompt has {len(token_ids)} tokens and {model.name} takes at most {most}.")
    moved = [replace(s, start=edit.moved(s.start), end=edit.moved(s.end)) for s in encoded.segments]
    segments = [segment for segment in moved if segment.start < segment.end]
    tokens = token_table(model.tokenizer, token_ids, "", segments)
    text = "".join(token.text for token in tokens)
    types = encoded.token_types
    if types is not None:  # new tokens belong to the sentence they stand in
        own = types[max(0, edit.start - 1)]
        types = [*types[: edit.start], *[own] * len(edit.token_ids), *types[edit.stop :]]
    return replace(encoded, token_ids=token_ids, text=text, segments=segments, tokens=tokens, token_types=types)
