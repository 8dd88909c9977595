"""One run: the model reads the prompt once, its layers are written as they come, and the file is published."""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import version

import torch

from backend.basins.rope import rotary_facts
from backend.capture import capture
from backend.errors import Refused
from backend.estimate import TARGET_TOKENS, Estimate, attention_layers, learn_speed
from backend.generate import Writing, continued, generate
from backend.interventions import sentences
from backend.models import LoadedModel
from backend.next_token import NextToken, Tap, tapped
from backend.options import Options
from backend.probes import first_weight
from backend.prompts import EncodedPrompt
from backend.reading import Reading, written_target
from backend.run_layers import Layers
from backend.sites import survey
from backend.store import Analysis, AnalysisWriter, Library, cache_key
from backend.types import Prediction, RunRecord, Token
from kernels.api import why_no_triton
from kernels.measures import MeasureRequest

Progress = Callable[[str, int, int, float | None], None]  # step, layers done, number of layers, seconds left
NO_PROBABILITIES = (
    "The probabilities of the tokens are not shown: this model changes its logits in a way not known here."
)
# parts of a configuration that change nothing of what the model computes
IDLE = {
    "_name_or_path",
    "transformers_version",
    "architectures",
    "dtype",
    "use_cache",
    "return_dict",
    "output_attentions",
    "output_hidden_states",
    "id2label",
    "label2id",
    "problem_type",
}


@dataclass(eq=False)
class Run:
    """One run that has been found possible."""

    model: LoadedModel
    encoded: EncodedPrompt
    options: Options
    needed: Estimate
    progress: Progress
    cancelled: Callable[[], bool]
    visibility: str
    owner: str | None
    made_of: tuple[str, ...] = ()
    target: EncodedPrompt | None = None  # of an encoder-decoder, where it was given
    read: Reading = field(init=False)  # the prompt, and what was written behind it

    def __post_init__(self) -> None:
        self.implementation = resolved(self.options.impl, self.model)
        self.key = cache_key(
            weights_hash=self.model.weights_hash,
            tokenizer_hash=self.model.tokenizer_hash,
            token_ids=self.encoded.token_ids,
            dtype=self.model.dtype,
            implementation=self.implementation,
            options={
                **self.options.result_key(self.needed.exact_heads),
                "prompt": self.encoded.prompt,
                "text": self.encoded.text,
                "segments": [asdict(segment) for segment in self.encoded.segments],
                "architecture": architecture(self.model),
                "target": None if self.target is None else self.target.token_ids,
                "media": self.options.keep_media and self.encoded.media is not None,
            },
        )

    def into(self, library: Library) -> Analysis:
        with AnalysisWriter(library) as writer:
            return self.write(writer)

    def write(self, writer: AnalysisWriter) -> Analysis:
        """The run itself: every layer goes into the writer as it comes, then the file is published."""
        start = time.perf_counter()
        self.read = self._written()
        after_writing = time.perf_counter()
        layers = self._layers(writer)
        with torch.inference_mode():
            with tapped(self.model.model) as tap, self._capture(layers):
                output = self.model.model(**self.read.inputs(self.model))
            layers.stop_if_cancelled()
            after_layers = time.perf_counter()
            self.progress("tokens", layers.done, layers.done, layers.rest_seconds)
            tokens, predictions, notices = self._next_tokens(tap, output, layers.seen_ahead)
        after_tokens = time.perf_counter()
        layers.stop_if_cancelled()
        self.progress("save", layers.done, layers.done, 0.5 * layers.rest_seconds)
        timings = {
            "writing": after_writing - start,
            "layers": after_layers - after_writing,
            "of which statistics and storing": layers.own_seconds,
            "tokens": after_tokens - after_layers,
        }
        info = self._info(layers, timings, notices)
        record = RunRecord(tokens, self.read.segments, predictions, info)
        analysis_id = writer.publish(record, visibility=self.visibility, owner=self.owner, made_of=self.made_of)
        learn_speed(self.model, len(self.read.encoded.token_ids), time.perf_counter() - after_writing)
        return writer.library.open(analysis_id)

    def _written(self) -> Reading:
        """The prompt with what the model writes behind it, or as a target, where that was asked for."""
        encoded = self.encoded
        if self.target is not None:
            return Reading(encoded, len(self.target.token_ids), self.target)
        writing = writing_of(self.options, self.model)
        if writing is None:
            return Reading(encoded, len(encoded.token_ids))
        if self.model.two_sided:
            return Reading(encoded, 1, written_target(self.model, self._generate(writing)))
        return Reading(continued(self.model, encoded, self._generate(writing)), len(encoded.token_ids))

    def _generate(self, writing: Writing) -> list[int]:
        return generate(
            self.model,
            self.encoded.token_ids,
            writing,
            interventions=self.options.changes,
            segments=self.encoded.segments,
            impl=self.options.impl,
            inputs=self.encoded.inputs or self.encoded.beside,
            progress=lambda written: self.progress("write", written, writing.new_tokens, None),
            cancelled=self.cancelled,
        ).token_ids

    def _capture(self, layers: Layers):
        return capture(
            self.model,
            self._requests(),
            impl=self.options.impl,
            on_layer=layers,
            interventions=self.options.changes,
            segments=self.read.segments,
        )

    def _layers(self, writer: AnalysisWriter) -> Layers:
        places = [(layer.kind, layer.layer) for layer in attention_layers(self.model)]
        return Layers(
            write=writer.layer,
            exact=dict(zip(places, self.needed.exact_heads, strict=True)),
            tokens=self.read.ids(self.model.device),
            progress=self.progress,
            cancelled=self.cancelled,
            rest_seconds=0.1 * self.needed.seconds,
        )

    def _requests(self) -> dict[str, MeasureRequest]:
        """What is measured, by kind: between the two sequences of a cross-attention there is no distance."""
        all_exact = sum(map(len, self.needed.exact_heads)) == self.needed.n_heads
        top = 0 if all_exact else self.options.top_links
        own = {
            kind: MeasureRequest(pooled=self.options.pooled, top=top, tokens=ids)
            for kind, ids in self.read.ids(self.model.device).items()
        }
        plain = MeasureRequest(pooled=self.options.pooled, top=top)
        return {"self": plain, "encoder": plain, "cross": replace(plain, distances=False), **own}

    def _next_tokens(self, tap: Tap, output, seen_ahead: set[int]) -> tuple[list[Token], list[Prediction], list[str]]:
        """The token table with log-probabilities, the predictions, and what must be said about them.

        A token that the position before it had seen already (seen_ahead), or one of a picture, has no probability.
        """
        notices = list(self.read.notices)
        if not self.model.predicts_next:
            return self.read.tokens(), [], notices
        expects = NextToken.read(tap, output.logits[0, -1], self.model.config)
        logprobs = expects.logprobs(self.read.going_on.token_ids)
        if logprobs is not None:
            known_before = {row + 1 for row in seen_ahead} | self.read.picture
            logprobs = [None if at in known_before else value for at, value in enumerate(logprobs)]
        else:
            notices.append(NO_PROBABILITIES)
        # After the last position, and after each one behind which a token was written.
        first = self.read.n_given - 1
        return (
            self.read.tokens(logprobs),
            [
                Prediction(position, rank, token_id, text_of(self.model, token_id), logprob)
                for position, best in expects.predictions(first, self.options.predictions)
                for rank, (token_id, logprob) in enumerate(best)
            ],
            notices,
        )

    def _info(self, layers: Layers, timings: dict[str, float], notices: list[str]) -> dict:
        card = self.model.describe()
        softmax = attention_layers(self.model)
        return {
            "cache_key": self.key,
            "model": self.model.name,
            "revision": self.model.revision,
            "weights_hash": self.model.weights_hash,
            "tokenizer_hash": self.model.tokenizer_hash,
            "bos_token_id": getattr(self.model.tokenizer, "bos_token_id", None),
            "architecture": card.architecture,
            "parameters": card.parameters,
            "prompt": self.encoded.prompt,
            "segments": [asdict(segment) for segment in self.read.segments],
            "n_prompt_tokens": len(self.encoded.token_ids),
            **({} if self.read.target is None else {"n_target_tokens": len(self.read.target.token_ids)}),
            "dtype": self.model.dtype,
            "device": str(self.model.device),
            "implementation": layers.implementation,
            "options": self.options.as_dict(),
            **({"media": self.encoded.media} if self.options.keep_media and self.encoded.media else {}),
            "interventions": sentences(self.options.changes),
            "seed": self.options.seed,
            "versions": versions(),
            "timings": {name: round(seconds, 4) for name, seconds in timings.items()},
            "peak_memory_mb": round(layers.peak_bytes / 1e6, 1),
            "checks": card.checks,
            "notices": notices,
            "uniform": layers.uniform,
            **({"patches": self.encoded.patches} if self.encoded.patches else {}),
            "rotary": None if self.encoded.beside else rotary_facts(self.model),  # a picture's places are no numbers
            "layers_without_maps": [asdict(layer) for layer in card.layers if layer not in softmax],
        }


def resolved(impl: str, model: LoadedModel) -> str:
    """The implementation that `attend` will choose for this model. Refused for triton where it cannot run."""
    if survey(model.model).dense:
        if impl != "auto":
            raise Refused(
                f"Options.impl: {model.name} computes its own softmax, which is captured as it is: leave auto."
            )
        return "dense"
    weight = first_weight(model.model)
    why_not = why_no_triton(weight)
    if impl == "triton" and why_not is not None:
        raise Refused(f'Options.impl "triton": {why_not} Choose "auto" or "tiled".')
    if impl != "auto":
        return impl
    return "triton" if weight.is_cuda and why_not is None else "tiled"


def writing_of(options: Options, model: LoadedModel) -> Writing | None:
    """How text is to be written; None where none is asked for. An encoder-decoder without a target writes one."""
    if options.new_tokens == 0 and not model.two_sided:
        return None
    room = TARGET_TOKENS if model.max_positions is None else max(1, model.max_positions - 1)
    new_tokens = options.new_tokens or min(TARGET_TOKENS, room)
    return Writing(new_tokens, options.num_beams, options.temperature, options.top_p, options.seed)


def text_of(model: LoadedModel, token_id: int) -> str:
    """A predicted token as text; its number where there is no tokenizer."""
    return str(token_id) if model.tokenizer is None else model.tokenizer.decode([token_id])


def versions() -> dict[str, str]:
    """Versions of what made the numbers."""
    return {
        "python": platform.python_version(),
        **{name: version(name) for name in ("torch", "transformers", "duckdb")},
    }


def architecture(model: LoadedModel) -> str:
    """The model's class and configuration: with equal weights, another window or rotary base gives other maps."""
    settings = {name: value for name, value in model.model.config.to_dict().items() if name not in IDLE}
    return f"{type(model.model).__name__} {json.dumps(settings, sort_keys=True, default=str)}"
