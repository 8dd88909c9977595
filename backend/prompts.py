"""encode(): a prompt in any form as the token ids that the model reads, with named segments and a token table.

Every form but a sentence pair becomes one text first (backend/prompt_forms.py); then the text is tokenised once.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any

from torch import Tensor

from backend.errors import Refused
from backend.models import LoadedModel
from backend.probes import PICTURE, TEXT, reads_prefix
from backend.prompt_forms import DRAFTS, Draft, Prompt, check_texts, main_form
from backend.tokens import Span, empty, token_table
from backend.types import Segment, Token

__all__ = ["EncodedPrompt", "Prompt", "encode"]


@dataclass(frozen=True)
class EncodedPrompt:
    """What the model reads."""

    token_ids: list[int]
    text: str  # what was typed, templates included; the texts of the tokens joined
    segments: list[Segment]
    tokens: list[Token]
    prompt: dict  # for info["prompt"]: the Prompt fields that are set, or token_ids
    notices: list[str]
    token_types: list[int] | None = None  # of a pair: which sentence, where the model was trained to be told
    inputs: dict[str, Tensor] | None = None  # of a picture or sound: what the forward takes in place of token ids
    beside: dict[str, Tensor] | None = None  # of a text with a picture: what it takes beside them
    media: dict | None = None  # the picture or sound itself, as it is kept where that was asked for
    patches: dict | None = None  # of a picture: its first patch's token, and their grid (rows, columns)


def encode(model: LoadedModel, prompt: str | Prompt | list[int]) -> EncodedPrompt:
    """The token ids of a prompt, its segments and its token table. Refused, with what to do, before anything runs."""
    if model.reads != TEXT:
        return encode_unread(model, prompt)
    if isinstance(prompt, list):
        check_words_alone(model)
        return check_length(model, encode_ids(model, prompt))
    prompt = Prompt(text=prompt) if isinstance(prompt, str) else prompt
    if not isinstance(prompt, Prompt):
        raise Refused(f"A prompt is a text, a Prompt or a list of token ids; got {type(prompt).__name__}.")
    form = main_form(prompt, model.name, picture=model.sees)
    check_texts(prompt)
    if model.tokenizer is None:
        raise Refused(f"{model.name} came without a tokenizer: give the prompt as a list of token ids.")
    if prompt.image is not None:
        return check_length(model, encode_seen(model, prompt, form))
    check_words_alone(model)
    if form == "pair":
        encoded = encode_pair(model, prompt)
    else:
        encoded = encode_draft(model, prompt, DRAFTS[form](prompt, model.tokenizer))
    if all(token.is_special for token in encoded.tokens):
        raise Refused("The prompt holds special tokens only, so there is nothing to attend to. Type some text.")
    return check_length(model, encoded)


def encode_unread(model: LoadedModel, prompt: str | Prompt | list[int]) -> EncodedPrompt:
    """Of a model whose input is no text."""
    from backend.media import encode_media  # which builds on this file

    if not isinstance(prompt, Prompt):
        form = "image" if model.reads == PICTURE else "audio"
        raise Refused(f"{model.name} reads a {model.reads}, not text: give Prompt({form}=...).")
    return encode_media(model, prompt)


def encode_seen(model: LoadedModel, prompt: Prompt, form: str) -> EncodedPrompt:
    """Of a text with a picture."""
    from backend.picture_text import encode_with_picture  # which builds on this file

    return encode_with_picture(model, prompt, form)


def check_words_alone(model: LoadedModel) -> None:
    """Refused where a model reads no text without a picture (PaliGemma)."""
    if reads_prefix(model.model):
        raise Refused(f"{model.name} reads a text with a picture: give both, as in Prompt(text=..., image=...).")


_locks: weakref.WeakKeyDictionary[Any, threading.RLock] = weakref.WeakKeyDictionary()
_locks_lock = threading.Lock()


@contextmanager
def locked(tokenizer) -> Iterator[None]:
    """Whether text may become special tokens is a state of the tokenizer, so that one thread at a time may ask."""
    with _locks_lock:
        lock = _locks.setdefault(tokenizer, threading.RLock())
    with lock:
        yield


def tokenise(tokenizer, *texts: str, add_special: bool, parse_special: bool, target: bool = False):
    """The tokenizer's answer, with spans where it gives them. `target`: as the text that a decoder reads."""
    with locked(tokenizer):
        before = getattr(tokenizer, "split_special_tokens", False)
        try:
            return tokenizer(
                *(() if target else texts),
                **({"text_target": texts[0]} if target else {}),
                add_special_tokens=add_special,
                split_special_tokens=not parse_special,
                return_offsets_mapping=bool(tokenizer.is_fast),
                truncation=False,
                verbose=False,
            )
        finally:
            if tokenizer.is_fast:
                tokenizer.backend_tokenizer.encode_special_tokens = before


def encode_draft(model: LoadedModel, prompt: Prompt, draft: Draft) -> EncodedPrompt:
    """One text, tokenised once; in a chat the template's own special tokens are parsed and the person's are not."""
    tokenizer, notices = model.tokenizer, []
    typed_special = special_texts(tokenizer, draft, prompt)
    if prompt.chat is None:
        pieces = [(0, len(draft.text), prompt.parse_special)]
    elif typed_special and not prompt.parse_special:
        pieces = chat_pieces(draft)
    else:
        pieces = [(0, len(draft.text), True)]
    if typed_special and not prompt.parse_special:
        notices.append(f"{', '.join(typed_special)} in the prompt is read as text, not as special tokens.")
    ids: list[int] = []
    spans: list[Span] = []
    typed: list[bool] = []
    for start, end, parse in pieces:
        found = tokenise(tokenizer, draft.text[start:end], add_special=prompt.chat is None, parse_special=parse)
        ids += found["input_ids"]
        offsets = found.get("offset_mapping") or search(tokenizer, draft.text[start:end], found["input_ids"])
        spans += [None if empty(span) else (span[0] + start, span[1] + start) for span in offsets]
        typed += [not parse and not empty(span) for span in offsets]
    bos = tokenizer.bos_token_id
    if prompt.chat is not None and adds_bos(tokenizer) and ids[:1] != [bos]:
        ids, spans, typed = [bos, *ids], [None, *spans], [False, *typed]
    if bos is not None and adds_bos(tokenizer) and sum(i == bos for i in ids) > 1:
        notices.append(f"The prompt holds {sum(i == bos for i in ids)} BOS tokens ({tokenizer.bos_token}).")
    segments = [
        segment for name, kind, start, end in draft.segments if (segment := to_tokens(name, kind, start, end, spans))
    ]
    tokens = token_table(tokenizer, ids, draft.text, segments, spans=spans, typed=typed)
    return EncodedPrompt(ids, draft.text, segments, tokens, as_dict(prompt), notices)


def special_texts(tokenizer, draft: Draft, prompt: Prompt) -> list[str]:
    """Special tokens that the person typed."""
    contents = [draft.text] if prompt.chat is None else [draft.text[start:end] for _, _, start, end in draft.segments]
    return [mark for mark in tokenizer.all_special_tokens if any(mark in content for content in contents)]


def chat_pieces(draft: Draft) -> list[tuple[int, int, bool]]:
    """The chat's text as (start, end, parse special tokens): the template's parts and the person's in turn."""
    pieces, at = [], 0
    for _, _, start, end in draft.segments:
        pieces += [(at, start, True), (start, end, False)]
        at = end
    return [piece for piece in [*pieces, (at, len(draft.text), True)] if piece[0] < piece[1]]


def adds_bos(tokenizer) -> bool:
    """Whether the tokenizer begins ordinary text with its BOS token."""
    bos = tokenizer.bos_token_id
    return bos is not None and tokenizer("a", verbose=False)["input_ids"][:1] == [bos] and bos != tokenizer.cls_token_id


def search(tokenizer, text: str, ids: Sequence[int]) -> list[Span]:
    """Spans for a tokenizer that reports none: each token's text, looked for from left to right."""
    spans, at = [], 0
    for i in ids:
        piece = tokenizer.decode([i], skip_special_tokens=True).strip()
        found = text.find(piece, at) if piece else -1
        spans.append((found, found + len(piece)) if found >= 0 else None)
        at = at if found < 0 else found + len(piece)
    return spans


def to_tokens(name: str, kind: str, start: int, end: int, spans: Sequence[Span]) -> Segment | None:
    """The tokens of a span of characters: those whose last character lies in it; None where there is none."""
    places = [place for place, span in enumerate(spans) if not empty(span) and start < span[1] <= end]
    return Segment(name, kind, places[0], places[-1] + 1) if places else None


def encode_pair(model: LoadedModel, prompt: Prompt) -> EncodedPrompt:
    """Two sentences, with whatever the tokenizer puts around and between them."""
    first, second = prompt.pair
    found = tokenise(model.tokenizer, first, second, add_special=True, parse_special=prompt.parse_special)
    ids, offsets = found["input_ids"], found.get("offset_mapping")
    if offsets is None:
        raise Refused(f"The tokenizer of {model.name} reports no positions of its tokens, which a sentence pair needs.")
    sides = found.sequence_ids()
    spans = [
        None if side is None or empty(span) else (span[0] + side * len(first), span[1] + side * len(first))
        for span, side in zip(offsets, sides, strict=True)
    ]
    bounds = [("sentence 1", 0, len(first)), ("sentence 2", len(first), len(first) + len(second))]
    segments = [s for name, start, end in bounds if (s := to_tokens(name, "sentence", start, end, spans))]
    typed = [not prompt.parse_special and span is not None for span in spans]
    tokens = token_table(model.tokenizer, ids, first + second, segments, spans=spans, typed=typed)
    types = found.get("token_type_ids")  # only tokenizers whose models read them give them
    return EncodedPrompt(ids, first + second, segments, tokens, as_dict(prompt), [], types)


def encode_ids(model: LoadedModel, token_ids: list[int]) -> EncodedPrompt:
    """Token ids as they are."""
    size = model.config.vocab_size
    wrong = next((i for i in token_ids if isinstance(i, bool) or not isinstance(i, int) or not 0 <= i < size), None)
    if wrong is not None:
        raise Refused(f"Token ids of {model.name} are whole numbers from 0 to {size - 1}; got {wrong!r}.")
    if not token_ids:
        raise Refused("The prompt is empty: it holds no token. Give at least one token id.")
    segments = [Segment("text", "text", 0, len(token_ids))]
    tokens = token_table(model.tokenizer, token_ids, "", segments)
    text = "".join(token.text for token in tokens)
    return EncodedPrompt(list(token_ids), text, segments, tokens, {"token_ids": list(token_ids)}, [])


def check_length(model: LoadedModel, encoded: EncodedPrompt) -> EncodedPrompt:
    """Refuse what is empty or longer than the model allows."""
    count, most = len(encoded.token_ids), model.max_positions
    if count == 0:
        raise Refused("The prompt is empty: it gives no token. Type some text.")
    if most is not None and count > most:
        raise Refused(f"The prompt has {count} tokens and {model.name} takes at most {most}. Shorten it.")
    return encoded


def as_dict(prompt: Prompt) -> dict:
    """The fields that are set."""
    return {f.name: value for f in fields(prompt) if (value := getattr(prompt, f.name)) not in (None, False)}
