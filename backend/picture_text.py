"""A text with a picture as one prompt (LLaVA, PaliGemma, Gemma 3, Qwen2-VL): the picture's tokens stand in the text.

The model's own processor says how many tokens a picture takes and what is written around them. The text it lays out is
tokenised here, so that what a person typed is never read as a special token and every token knows its place in it.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass, replace
from math import isqrt
from typing import Any

import numpy as np
import torch
from torch import Tensor

from backend.errors import Refused
from backend.media import facts_of_picture, open_picture, patch_labels, seen_picture
from backend.models import LoadedModel
from backend.prompt_forms import DRAFTS, Draft, Prompt
from backend.prompts import EncodedPrompt, as_dict, locked, to_tokens, tokenise
from backend.tokens import Span, empty, token_table
from backend.types import Segment, Token

NO_INPUTS = ("input_ids", "attention_mask", "labels", "text_replacement_offsets")  # of what a processor gives
TYPES = "token_type_ids"


@dataclass(frozen=True)
class Laid:
    """The text as the processor lays it out: what was typed before the picture, its tokens, what was typed behind."""

    text: str
    before: int  # characters in front of the picture that were typed
    behind: tuple[int, int]  # where the rest of what was typed stands

    @property
    def typed(self) -> str:
        return self.text[: self.before] + self.text[slice(*self.behind)]

    def to_typed(self, span: Span) -> Span:
        """A span of the laid out text in what was typed; None where it covers nothing typed."""
        if empty(span):
            return None
        start, end = span
        if start < self.before:
            return start, min(end, self.before)
        start, end = max(start, self.behind[0]), min(end, self.behind[1])
        shift = self.before - self.behind[0]
        return (start + shift, end + shift) if start < end else None

    def to_laid(self, place: int, *, first: bool = False) -> int:
        """A place of what was typed in the laid out text; `first`: the place of a beginning, not of an end."""
        front = place < self.before or (place == self.before and not first)
        return place if front else place - self.before + self.behind[0]


class WithPicture:
    """The processor's chat template, with the picture in the first turn of the user."""

    def __init__(self, processor, mark: str) -> None:
        self.processor, self.mark = processor, mark
        self.chat_template = getattr(processor, "chat_template", None)

    def apply_chat_template(self, chat: list[dict], *, tokenize: bool, add_generation_prompt: bool) -> str:
        placed = any(self.mark in turn["content"] for turn in chat)
        turns = []
        for turn in chat:
            parts: list[dict[str, Any]] = [{"type": "text", "text": turn["content"]}]
            if turn["role"] == "user" and not placed:
                parts, placed = [{"type": "image"}, *parts], True
            turns.append({"role": turn["role"], "content": parts})
        return self.processor.apply_chat_template(turns, tokenize=tokenize, add_generation_prompt=add_generation_prompt)


def encode_with_picture(model: LoadedModel, prompt: Prompt, form: str) -> EncodedPrompt:
    """Token ids, token table, and what the model takes beside them. Refused where text and picture do not fit."""
    processor = model.processor
    mark = getattr(processor, "image_token", None)
    if mark is None or not getattr(getattr(processor, "tokenizer", None), "is_fast", False):
        raise Refused(
            f"{model.name} came without a processor that prepares a picture with its text, or with a tokenizer that "
            "reports no positions: load it from its folder, with its tokenizer.json."
        )
    if form == "pair":
        raise Refused("A picture comes with one text, not with a sentence pair. Give Prompt(text=..., image=...).")
    picture, name = open_picture(prompt.image)
    draft, chunk = with_place(model, prompt, DRAFTS[form](prompt, WithPicture(processor, mark)), mark)
    with locked(processor.tokenizer):
        found = prepared(model, picture, draft.text, add_special=prompt.chat is None)
        laid = layout(model, found, picture, draft.text, chunk)
    ids, spans, typed, notices = read(model, prompt, draft, laid, chunk, found["input_ids"][0])
    places = [place for place, one in enumerate(ids) if one in set(processor.image_token_ids)]
    if not places:
        raise Refused(f"The processor of {model.name} gave the picture no token. This picture cannot be shown.")
    grid, before = grid_of(processor, found, len(places))
    segments = segments_of(draft, laid, spans, chunk, (places[0], places[-1] + 1))
    tokens = token_table(processor.tokenizer, ids, laid.typed, segments, spans=spans, typed=typed)
    tokens = with_patches(tokens, places, grid, before)
    seen = seen_picture(getattr(processor, "image_processor", None), found.get("pixel_values"), picture)
    facts, media = facts_of_picture(picture, name, seen)
    return EncodedPrompt(
        ids,
        laid.typed,
        segments,
        tokens,
        {**as_dict(prompt), "image": facts},
        notices,
        beside=beside(model, found, ids),
        media=media,
        patches=None if grid is None else {"start": places[before], "grid": list(grid)},
    )


def with_place(model: LoadedModel, prompt: Prompt, draft: Draft, mark: str) -> tuple[Draft, str]:
    """The draft with one place for the picture (typed, the template's, or the beginning), and what stands there."""
    typed = sum(draft.text[start:end].count(mark) for _, _, start, end in draft.segments)
    if typed and not prompt.parse_special:
        raise Refused(
            f"{mark} in the text stands for the picture in {model.name}. Leave it out, and the picture comes first; or "
            "let special tokens be parsed, and it comes there."
        )
    count = draft.text.count(mark)
    if count > 1:
        raise Refused(f"The text has {count} places for one picture ({mark}). Keep one.")
    if count:
        return draft, mark
    front, back = around(model)
    chunk = front + mark + back
    moved = [(name, kind, a + len(chunk), b + len(chunk)) for name, kind, a, b in draft.segments]
    return Draft(chunk + draft.text, moved), chunk


def around(model: LoadedModel) -> tuple[str, str]:
    """The tokens that frame a picture in models that name them in their configuration (Qwen2-VL)."""
    ids = [getattr(model.model.config, f"vision_{side}_token_id", None) for side in ("start", "end")]
    known = model.processor.tokenizer.convert_ids_to_tokens
    names = [known(one) if isinstance(one, int) else None for one in ids]
    return (names[0], names[1]) if all(isinstance(one, str) for one in names) else ("", "")


def prepared(model: LoadedModel, picture, text: str, *, add_special: bool) -> dict[str, Any]:
    """What the model's processor makes of picture and text."""
    try:
        return dict(
            model.processor(
                images=[picture],
                text=[text],
                return_text_replacement_offsets=True,
                images_kwargs={"return_tensors": "pt"},
                text_kwargs={"add_special_tokens": add_special},
            )
        )
    except (ValueError, TypeError, IndexError, KeyError) as error:
        raise Refused(f"The processor of {model.name} does not take this picture with this text: {error}") from error


def layout(model: LoadedModel, found: dict, picture, text: str, chunk: str) -> Laid:
    """Where what was typed stands in the text that the processor tokenised."""
    _, texts, *_ = model.processor.prepare_inputs_layout(images=[picture], text=[text])
    places = [one for one in found["text_replacement_offsets"][0] if one["type"] == "image"]
    if len(places) != 1:
        raise Refused(f"The processor of {model.name} found {len(places)} places for one picture.")
    start, end = places[0]["span"]
    whole = texts[0][:start] + places[0]["replacement"] + texts[0][end:]
    before, _, behind = text.partition(chunk)
    at = whole.rfind(behind) if behind else len(whole)
    return Laid(whole, len(before), (at, at + len(behind)))


def read(
    model: LoadedModel, prompt: Prompt, draft: Draft, laid: Laid, chunk: str, theirs: list[int]
) -> tuple[list[int], list[Span], list[bool], list[str]]:
    """Token ids, spans in what was typed, which are ordinary text whatever their number, and notices.

    Without special tokens in what was typed the ids are the processor's; with them, what was typed is tokenised apart.
    """
    tokenizer = model.processor.tokenizer
    marks = typed_marks(tokenizer, draft)
    apart = bool(marks) and not prompt.parse_special
    notices = [f"{', '.join(marks)} in the prompt is read as text, not as special tokens."] if apart else []
    pieces = typed_apart(draft, laid, chunk) if apart else [(0, len(laid.text), True)]
    ids: list[int] = []
    spans: list[Span] = []
    typed: list[bool] = []
    for number, (start, end, parse) in enumerate(pieces):
        add = prompt.chat is None and number == 0
        found = tokenise(tokenizer, laid.text[start:end], add_special=add, parse_special=parse)
        ids += found["input_ids"]
        moved = [None if empty(span) else (span[0] + start, span[1] + start) for span in found["offset_mapping"]]
        spans += [laid.to_typed(span) for span in moved]
        typed += [not parse] * len(moved)
    if not apart and ids != list(theirs):
        raise Refused("The tokens of this text with its picture cannot be told apart here; it is not captured.")
    return ids, spans, typed, notices


def typed_marks(tokenizer, draft: Draft) -> list[str]:
    """Special tokens that the person typed."""
    typed = [draft.text[start:end] for _, _, start, end in draft.segments]
    return [mark for mark in tokenizer.all_special_tokens if any(mark in text for text in typed)]


def typed_apart(draft: Draft, laid: Laid, chunk: str) -> list[tuple[int, int, bool]]:
    """The laid out text as (start, end, parse special tokens): what was typed and what stands around it in turn."""
    pieces, at = [], 0
    for start, end in (laid_span(laid, chunk, a, b) for _, _, a, b in draft.segments):
        pieces += [(at, start, True), (start, end, False)]
        at = end
    return [piece for piece in [*pieces, (at, len(laid.text), True)] if piece[0] < piece[1]]


def laid_span(laid: Laid, chunk: str, start: int, end: int) -> tuple[int, int]:
    """A span of the draft in the laid out text."""
    return laid.to_laid(in_typed(laid, chunk, start), first=True), laid.to_laid(in_typed(laid, chunk, end))


def in_typed(laid: Laid, chunk: str, place: int) -> int:
    """A place of the draft in what was typed, where the place of the picture is missing."""
    return place if place <= laid.before else max(laid.before, place - len(chunk))


def segments_of(draft: Draft, laid: Laid, spans: list[Span], chunk: str, picture: tuple[int, int]) -> list[Segment]:
    """The picture and the segments of the text; one that the picture stands in is cut in two."""
    found = [Segment("picture", "picture", *picture)]
    for name, kind, start, end in draft.segments:
        segment = to_tokens(name, kind, in_typed(laid, chunk, start), in_typed(laid, chunk, end), spans)
        if segment is None:
            continue
        if segment.start < picture[0] and segment.end > picture[1]:
            found.append(replace(segment, end=picture[0]))
            segment = replace(segment, name=f"{name}, behind the picture", start=picture[1])
        found.append(segment)
    return sorted(found, key=lambda one: one.start)


def grid_of(processor, found: dict, count: int) -> tuple[tuple[int, int] | None, int]:
    """Rows and columns of the picture's tokens, and how many stand in front of them; None where they are no grid."""
    if "image_grid_thw" in found:
        merge = getattr(processor.image_processor, "merge_size", 1)
        _, height, width = np.asarray(found["image_grid_thw"])[0].tolist()
        grid = (height // merge, width // merge)
        return (grid, 0) if grid[0] * grid[1] == count else (None, 0)
    values = found.get("pixel_values")
    if values is None or values.ndim != 4 or len(values) != 1:
        return None, 0
    height, width = values.shape[-2:]
    for before in (0, 1):  # the vision tower's own first token may be kept
        rows = isqrt((count - before) * height // width)
        columns = (count - before) // max(rows, 1)
        if rows * columns == count - before > 0 and rows * width == columns * height:
            return (rows, columns), before
    return None, 0


def with_patches(tokens: list[Token], places: list[int], grid: tuple[int, int] | None, before: int) -> list[Token]:
    """The table with the picture's tokens named by row and column; they stand for no text and are no special tokens."""
    labels = ["[CLS]"] * before + (patch_labels(*grid) if grid else [])
    labels = labels or [f"picture {number}" for number in range(len(places))]
    table = list(tokens)
    for place, label in zip(places, labels, strict=True):
        table[place] = replace(table[place], text="", label=label, is_special=label == "[CLS]", start=-1, end=-1)
    return table


def beside(model: LoadedModel, found: dict, ids: list[int]) -> dict[str, Tensor]:
    """What the model takes beside the token ids."""
    taken, wanted = {}, inspect.signature(model.model.forward).parameters
    for name, value in found.items():
        if name in NO_INPUTS or name not in wanted:
            continue
        tensor = value if isinstance(value, Tensor) else torch.as_tensor(np.asarray(value))
        if name.endswith(TYPES):  # of a token by what it is
            of = dict(zip(found["input_ids"][0], tensor[0].tolist(), strict=True))
            tensor = torch.tensor([[of.get(one, min(of.values())) for one in ids]])
        taken[name] = tensor.to(model.device, model.model.dtype if tensor.is_floating_point() else None)
    return taken


def grown(beside: dict[str, Tensor] | None, count: int) -> dict[str, Tensor] | None:
    """The same for a sequence with `count` tokens more, which the model wrote: of another type than the picture's."""
    if beside is None or count == 0:
        return beside
    return {
        name: torch.cat([value, value.new_full((1, count), 0 if bool(value.any()) else 1)], 1)
        if name.endswith(TYPES)
        else value
        for name, value in beside.items()
    }
