"""Text that a model writes behind a prompt: greedy, sampled with a seed, or the best of several beams.

The model's own loop does the work; it can be stopped between tokens. What is analysed afterwards is one pass over
prompt and text together: causal rows do not change when text is added behind them, so every row is the one the model
had when it wrote the next token, and the last token, whose row the loop never computes, has one too.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import (
    DynamicCache,
    GenerationConfig,
    GenerationMixin,
    LogitsProcessor,
    LogitsProcessorList,
    StoppingCriteria,
    StoppingCriteriaList,
    TemperatureLogitsWarper,
    TopPLogitsWarper,
)

from backend.attention import Call, implementation, plain, switched, turn
from backend.dense import Softmax, described, stand_ins, watched
from backend.errors import Cancelled, Refused
from backend.families import steady
from backend.intervene import plan
from backend.interventions import Intervention, PromptEdit
from backend.models import LoadedModel
from backend.picture_text import grown
from backend.probes import places_of_media
from backend.prompts import EncodedPrompt
from backend.sites import survey
from backend.start_of_writing import given_to, target_settings
from backend.tokens import token_table
from backend.types import Segment, Token
from kernels.measures import NOTHING

MOST_NEW_TOKENS = 256
MOST_BEAMS = 16
WRITTEN = (
    'The text of the segment "generated" was written by the model. All rows of the maps come from one pass over prompt '
    "and text together; so does the row of the last token, behind which nothing was written any more."
)


@dataclass(frozen=True)
class Generated:
    """What was written."""

    token_ids: list[int]  # without the prompt; of an encoder-decoder the whole target, its start token first
    ended: bool  # the model ended the text itself


@dataclass(frozen=True)
class Writing:
    """How text is written."""

    new_tokens: int
    num_beams: int = 1
    temperature: float | None = None  # None = the most probable token each time
    top_p: float = 1.0
    seed: int = 0

    def check(self, model: LoadedModel, n_prompt: int) -> None:
        """Refused where a value makes no sense, or the model cannot write or has no room for it."""
        if not 1 <= self.new_tokens <= MOST_NEW_TOKENS:
            raise Refused(f"new_tokens: expected 0 to {MOST_NEW_TOKENS}, got {self.new_tokens!r}.")
        if not 1 <= self.num_beams <= MOST_BEAMS:
            raise Refused(f"num_beams: expected 1 to {MOST_BEAMS}, got {self.num_beams!r}.")
        if self.temperature is not None and not 0 < self.temperature <= 100:
            raise Refused(f"temperature: expected a number above 0, or None for greedy, got {self.temperature!r}.")
        if not 0 < self.top_p <= 1:
            raise Refused(f"top_p: expected a share above 0 and up to 1, got {self.top_p!r}.")
        if self.num_beams > 1 and self.temperature is not None:
            raise Refused("Beams look for the most probable text, sampling draws one: give num_beams or temperature.")
        if not model.predicts_next:
            raise Refused(f"{model.name} does not write text: leave new_tokens at 0, or take a decoder model.")
        most, before = model.max_positions, 1 if model.two_sided else n_prompt
        if most is not None and before + self.new_tokens > most:
            raise Refused(
                f"The prompt has {before} tokens, {self.new_tokens} shall be written, and {model.name} takes at most "
                f"{most} together. Shorten the prompt or write fewer."
            )


def generate(
    model: LoadedModel,
    token_ids: Sequence[int],
    writing: Writing,
    *,
    interventions: Sequence[Intervention] = (),
    segments: Sequence[Segment] = (),
    impl: str = "auto",
    inputs: dict[str, Tensor] | None = None,
    progress: Callable[[int], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Generated:
    """Writes up to `writing.new_tokens` tokens behind `token_ids`, under the interventions where there are any.

    inputs: what the model reads in place of token ids (sound), or beside them (a picture with its text).

    progress(tokens written) is called after each one, `cancelled` asked. Raises Cancelled.
    """
    writing.check(model, len(token_ids))
    changes = [edit for edit in interventions if not isinstance(edit, PromptEdit)]
    given, start = given_to(model, token_ids, inputs)
    watch = Watch(start, progress or (lambda _: None), cancelled or (lambda: False))
    with torch.inference_mode(), changed(model, changes, segments, impl) if changes else evaluating(model):
        # Whisper's own generate cuts and joins sounds; the loop of all other models is what is wanted.
        written = GenerationMixin.generate(
            model.model,
            **given,
            generation_config=configuration(model, writing),
            logits_processor=LogitsProcessorList(drawing(writing, model.device)),
            stopping_criteria=StoppingCriteriaList([watch]),
            # A cache that drops what left a layer's window would number its keys anew; see `changed`.
            **({"cache": DynamicCache()} if changes and windowed(model) else {}),
        )
    new = written[0, start:].tolist()
    ends = ends_of(model)
    while len(new) > 1 and new[-2] in ends:
        new.pop()  # padding behind the end of a beam
    ended = bool(new) and new[-1] in ends
    if model.two_sided:  # the end is no position whose row would say what comes next
        return Generated(written[0, :start].tolist() + (new[:-1] if ended else new), ended)
    return Generated(new, ended)


def configuration(model: LoadedModel, writing: Writing) -> GenerationConfig:
    """Nothing but what was asked for: what a model's own file says of sampling or penalties is set aside."""
    ends = ends_of(model)
    return GenerationConfig(
        max_new_tokens=writing.new_tokens,
        min_new_tokens=0,
        num_beams=writing.num_beams,
        do_sample=False,  # drawing() samples, with a seed of its own
        repetition_penalty=1.0,
        no_repeat_ngram_size=0,
        length_penalty=1.0,
        early_stopping=False,
        num_return_sequences=1,
        use_cache=True,
        eos_token_id=ends or None,
        pad_token_id=ends[0] if ends else 0,
        return_dict_in_generate=False,
        output_attentions=False,
        output_scores=False,
        **(target_settings(model) if model.two_sided else {}),
        **({"suppress_tokens": places_of_media(model.model)} if model.sees else {}),
    )


def ends_of(model: LoadedModel) -> list[int]:
    """The tokens that end a text."""
    ids = getattr(model.model.generation_config, "eos_token_id", None)
    ids = model.eos_token_id if ids is None else ids
    return [] if ids is None else list(ids) if isinstance(ids, list | tuple) else [ids]


class Watch(StoppingCriteria):
    """Looks up between tokens: tells how far the text is, and stops where the person wants to."""

    def __init__(self, n_prompt: int, progress: Callable[[int], None], cancelled: Callable[[], bool]) -> None:
        self.n_prompt, self.progress, self.cancelled = n_prompt, progress, cancelled

    def __call__(self, input_ids: Tensor, scores: Tensor, **kwargs) -> Tensor:
        if self.cancelled():
            raise Cancelled("The run was stopped while text was written; nothing was stored.")
        self.progress(input_ids.shape[1] - self.n_prompt)
        return torch.zeros(input_ids.shape[0], dtype=torch.bool, device=input_ids.device)


class Draw(LogitsProcessor):
    """Makes the most probable token a draw: the largest of logit + Gumbel noise is distributed as softmax(logits).

    The generator is its own, so that the same seed gives the same text whatever else the process draws meanwhile.
    """

    def __init__(self, seed: int) -> None:
        self.generator = torch.Generator().manual_seed(seed)

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        uniform = torch.rand(scores.shape, generator=self.generator, dtype=torch.float64)
        noise = -torch.log(-torch.log(uniform.clamp(min=1e-300)))
        return scores + noise.to(scores)


def drawing(writing: Writing, device: torch.device) -> list[LogitsProcessor]:
    """What turns logits into a sampled choice; nothing for greedy and beams."""
    if writing.temperature is None:
        return []
    nucleus = [TopPLogitsWarper(writing.top_p)] if writing.top_p < 1 else []
    return [TemperatureLogitsWarper(float(writing.temperature)), *nucleus, Draw(writing.seed)]


def windowed(model: LoadedModel) -> bool:
    return any(info.window_size is not None for info in survey(model.model).layers)


@contextmanager
def changed(
    model: LoadedModel, interventions: Sequence[Intervention], segments: Sequence[Segment], impl: str
) -> Iterator[None]:
    """Inside, the model runs under the interventions; nothing is measured.

    Keys and rows of an intervention are positions in the sequence, so the cache must hold all of it.
    """
    found = survey(model.model)
    made = plan(interventions, found.layers, segments)
    infos = {site.module: site.info for site in found.sites}

    def handler(call: Call) -> Tensor:
        if call.module not in infos:  # a part that the probe did not run: the picture tower beside a text model
            return plain(call)
        attended, _ = made.attend(infos[call.module], call.query, call.key, call.value, call.score, NOTHING, impl=impl)
        return attended.output

    def softmax(one: Softmax) -> Tensor | None:
        info = infos[one.module]
        if (info.kind, info.layer) not in made.changes:
            return None
        return made.attend(info, *stand_ins(one, unit=True), described(one), NOTHING, impl="auto")[0].output

    if found.dense:
        with implementation(model.model, "eager"), watched(model.model, softmax, infos):
            yield
    else:
        with switched(model.model, handler):
            yield


@contextmanager
def evaluating(model: LoadedModel) -> Iterator[None]:
    """Inside, the model does not train (no dropout) and is nobody else's; afterwards its parts are as they were."""
    with turn(model.model), steady(model.model):
        training = [module for module in model.model.modules() if module.training]
        try:
            for module in training:
                module.training = False
            yield
        finally:
            for module in training:
                module.training = True


def continued(model: LoadedModel, encoded: EncodedPrompt, written: Sequence[int]) -> EncodedPrompt:
    """The prompt with what was written behind it, as a segment named "generated". `prompt` stays what was asked."""
    start, token_ids = len(encoded.token_ids), [*encoded.token_ids, *written]
    segments = [*encoded.segments, Segment("generated", "generated", start, len(token_ids))]
    tokens = [*encoded.tokens, *written_tokens(model, encoded, token_ids, segments)]
    return dataclasses.replace(
        encoded,
        token_ids=token_ids,
        text=encoded.text + "".join(token.text for token in tokens[start:]),
        segments=segments,
        tokens=tokens,
        notices=[*encoded.notices, WRITTEN],
        beside=grown(encoded.beside, len(written)),
    )


def written_tokens(
    model: LoadedModel, encoded: EncodedPrompt, token_ids: list[int], segments: list[Segment]
) -> list[Token]:
    """The token table behind the prompt: spelled together with the prompt, whose own table is kept."""
    start = len(encoded.token_ids)
    spelled = token_table(model.tokenizer, token_ids, "", segments)
    before = sum(len(token.text) for token in spelled[:start])  # characters of the prompt as its ids spell it
    words = max((token.word for token in spelled[:start]), default=-1)
    known = max((token.word for token in encoded.tokens), default=-1)
    table = []
    for token in spelled[start:]:
        shift = 0 if token.start < 0 else len(encoded.text) - before
        word = token.word if token.word < 0 else token.word - words + known
        table.append(
            dataclasses.replace(
                token, start=token.start + shift, end=token.end + shift, word=word, segment=len(segments) - 1
            )
        )
    return table
