"""Reading: all that a model reads in one run, whether it has one sequence of tokens or two.

An encoder-decoder reads a source and, in its decoder, a target: the text that was given as such, or what the model
itself writes. The decoder's first token is the one that every target starts with, so that its last row says what
would come next.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from backend.errors import Refused
from backend.models import LoadedModel
from backend.probes import without_cache
from backend.prompts import EncodedPrompt, check_length, search, tokenise
from backend.tokens import token_table
from backend.types import Segment, Token

WRITTEN = "The target was written by the model, token by token; its maps come from one pass over source and target."


@dataclass(frozen=True)
class Reading:
    """What one pass reads, and from where on the model wrote it."""

    encoded: EncodedPrompt  # the one sequence, or the source
    n_given: int  # tokens of the sequence that goes on (the target, where there is one) which the model did not write
    target: EncodedPrompt | None = None  # of an encoder-decoder

    @property
    def going_on(self) -> EncodedPrompt:
        """The sequence whose next tokens are predicted."""
        return self.target or self.encoded

    @property
    def segments(self) -> list[Segment]:
        """Those of the source first."""
        return [*self.encoded.segments, *(self.target.segments if self.target else ())]

    @property
    def notices(self) -> list[str]:
        return [*self.encoded.notices, *(self.target.notices if self.target else ())]

    def tokens(self, logprobs: Sequence[float | None] | None = None) -> list[Token]:
        """The token table, source first; `logprobs` are those of the sequence that goes on."""
        table = self.going_on.tokens
        if logprobs is not None:
            table = [replace(token, logprob=value) for token, value in zip(table, logprobs, strict=True)]
        if self.target is None:
            return table
        behind = len(self.encoded.segments)
        return [
            *(replace(token, side="source") for token in self.encoded.tokens),
            *(replace(t, side="target", segment=t.segment + behind if t.segment >= 0 else -1) for t in table),
        ]

    @property
    def picture(self) -> set[int]:
        """Positions of the picture's tokens in a text."""
        if self.encoded.beside is None:
            return set()
        return {at for segment in self.encoded.segments if segment.kind == "picture" for at in range(*ends(segment))}

    def ids(self, device: torch.device) -> dict[str, torch.Tensor]:
        """kind -> token ids [1, N] of the kinds whose queries and keys are the same tokens, for what is measured.

        Patches and frames are no tokens that could be equal; in a text each has a number of its own.
        """
        sides = {"self" if self.target is None else "encoder": self.encoded, "decoder": self.target}
        picture = self.picture
        return {
            kind: torch.tensor(
                [[-1 - at if at in picture else one for at, one in enumerate(read.token_ids)]], device=device
            )
            for kind, read in sides.items()
            if read is not None and read.inputs is None
        }

    def inputs(self, model: LoadedModel) -> dict:
        """What the model's forward takes."""
        inputs = dict(self.encoded.inputs or {"input_ids": torch.tensor([self.encoded.token_ids], device=model.device)})
        inputs |= self.encoded.beside or {}
        if self.target is not None:
            inputs["decoder_input_ids"] = torch.tensor([self.target.token_ids], device=model.device)
        if self.encoded.token_types is not None:
            inputs["token_type_ids"] = torch.tensor([self.encoded.token_types], device=model.device)
        return inputs | without_cache(model.model)


def ends(segment: Segment) -> tuple[int, int]:
    return segment.start, segment.end


def given_target(model: LoadedModel, text: str) -> EncodedPrompt:
    """The decoder's tokens of a given target, the start token first."""
    tokenizer = model.tokenizer
    found = tokenise(tokenizer, text, add_special=True, parse_special=False, target=True)
    ids = list(found["input_ids"])
    spans = list(found.get("offset_mapping") or search(tokenizer, text, ids))
    if not ids or ids[-1] not in tokenizer.all_special_ids:  # nothing of the text may be dropped
        ids, spans = [*ids, model.start_of_target()], [*spans, None]
    prepare = getattr(model.model, "prepare_decoder_input_ids_from_labels", None)
    if ids[0] == model.start_of_target():  # a tokenizer that writes it itself (Whisper)
        shifted, spans = ids[:-1], spans[:-1]
    else:
        labels = torch.tensor([ids], device=model.device)
        shifted = [model.start_of_target(), *ids[:-1]] if prepare is None else prepare(labels=labels)[0].tolist()
        spans = [None, *spans[:-1]]
    segments = [Segment("target", "target", 1, len(shifted))]
    typed = [span is not None for span in spans]
    tokens = token_table(tokenizer, shifted, text, segments, spans=spans, typed=typed)
    return check_length(model, EncodedPrompt(shifted, text, segments, tokens, {}, []))


def written_target(model: LoadedModel, token_ids: list[int]) -> EncodedPrompt:
    """The decoder's tokens as the model wrote them, the start token first."""
    segments = [Segment("generated", "generated", 1, len(token_ids))] if len(token_ids) > 1 else []
    tokens = token_table(model.tokenizer, token_ids, "", segments)
    text = "".join(token.text for token in tokens[1:])
    return EncodedPrompt(token_ids, text, segments, tokens, {}, [WRITTEN])


def check_target(model: LoadedModel, target: str | None) -> None:
    """Refused for a target where the model has no decoder of its own."""
    if target is None:
        return
    if not model.two_sided:
        raise Refused(f"{model.name} has no decoder that reads a target beside the prompt. Leave the target out.")
    if not isinstance(target, str) or not target.strip():
        raise Refused("The target is empty. Give the text that the decoder reads, or leave it out to have it written.")
