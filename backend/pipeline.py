"""From a prompt to a stored analysis: the only place that knows the order of the steps.

prompt -> token ids -> refusals and estimate -> stored already? -> the model runs, and layer by layer:
    measures -> statistics -> written -> forgotten
-> log-probabilities and predictions -> published under its id
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from tempfile import gettempdir
from threading import Event

import torch

from backend.capture import capture
from backend.errors import NotSaved, Refused, StoreError
from backend.estimate import Estimate, attention_layers, estimate, learn_speed, refuse_unless_it_fits
from backend.models import LoadedModel
from backend.next_token import tapped, token_logprobs, top_predictions
from backend.options import Options
from backend.prompts import EncodedPrompt, Prompt, encode
from backend.run_layers import Layers
from backend.store import Analysis, AnalysisWriter, Library, TemporaryLibrary, cache_key
from backend.types import Prediction, RunRecord, Token
from kernels.api import why_no_triton
from kernels.measures import MeasureRequest

__all__ = ["Estimate", "Options", "analyse", "estimate"]

Progress = Callable[[str, int, int, float | None], None]  # step, layers done, number of layers, seconds left
VISIBILITIES = ("link", "private")


def analyse(
    model: LoadedModel,
    prompt: str | Prompt | list[int],
    *,
    options: Options | None = None,
    library: Library | None = None,
    visibility: str = "link",
    owner: str | None = None,
    progress: Progress | None = None,
    cancel: Event | Callable[[], bool] | None = None,
) -> Analysis:
    """Runs the prompt through the model, measures every head, and stores what was found.

    library: where it is kept; the same work done before is given back at once, where this owner may see it. None: a
    temporary file that lives as long as the Analysis. visibility: "link" (whoever has the id) or "private" (its owner).
    progress(step, layers done, layers, seconds left) is called as it goes: "prepare", "layers", "tokens", "save".
    cancel is looked at between layers.

    Raises Refused before anything runs (prompt, options, memory, disk), Cancelled when stopped (nothing is stored), and
    NotSaved where the run was finished but the library did not take it (the result is in the error, see NotSaved).
    """
    options = options or Options()
    options.check()
    check_visibility(visibility, owner)
    told = progress or (lambda *_: None)
    told("prepare", 0, 0, None)
    encoded = encode(model, prompt)
    check_length(encoded, options)
    needed = estimate(model, len(encoded.token_ids), options)
    refuse_unless_it_fits(model, needed, library.path if library is not None else Path(gettempdir()))
    run = Run(model, encoded, options, needed, told, is_set(cancel), visibility, owner)
    if library is None:
        return run.into(TemporaryLibrary())
    stored = library.find(run.key, owner=owner)
    if stored is not None:
        return library.open(stored)
    with AnalysisWriter(library) as writer:  # a library that cannot be written at all is told before the run
        try:
            return run.write(writer)
        except StoreError as error:
            failure = error
    raise not_saved(run, library, failure) from failure


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
            },
        )

    def into(self, library: Library) -> Analysis:
        with AnalysisWriter(library) as writer:
            return self.write(writer)

    def write(self, writer: AnalysisWriter) -> Analysis:
        """The run itself: every layer goes into the writer as it comes, then the file is published."""
        start = time.perf_counter()
        layers = self._layers(writer)
        with torch.inference_mode():
            with (
                tapped(self.model.model) as tap,
                capture(self.model, self._request(), impl=self.options.impl, on_layer=layers),
            ):
                output = self.model.model(**self._inputs())
            layers.stop_if_cancelled()
            after_layers = time.perf_counter()
            self.progress("tokens", layers.done, layers.done, layers.rest_seconds)
            tokens, predictions, notices = self._next_tokens(tap, output)
        after_tokens = time.perf_counter()
        layers.stop_if_cancelled()
        self.progress("save", layers.done, layers.done, 0.5 * layers.rest_seconds)
        timings = {
            "layers": after_layers - start,
            "of which statistics and writing": layers.own_seconds,
            "tokens": after_tokens - after_layers,
        }
        info = self._info(layers, timings, notices)
        record = RunRecord(tokens, self.encoded.segments, predictions, info)
        analysis_id = writer.publish(record, visibility=self.visibility, owner=self.owner)
        learn_speed(self.model, len(self.encoded.token_ids), time.perf_counter() - start)
        return writer.library.open(analysis_id)

    def _layers(self, writer: AnalysisWriter) -> Layers:
        places = [(layer.kind, layer.layer) for layer in attention_layers(self.model)]
        return Layers(
            write=writer.layer,
            exact=dict(zip(places, self.needed.exact_heads, strict=True)),
            tokens=self._input_ids(),
            progress=self.progress,
            cancelled=self.cancelled,
            rest_seconds=0.1 * self.needed.seconds,
        )

    def _input_ids(self) -> torch.Tensor:
        return torch.tensor([self.encoded.token_ids], device=self.model.device)  # [1, N]

    def _inputs(self) -> dict:
        return {"input_ids": self._input_ids(), **({"use_cache": False} if self.model.causal else {})}

    def _request(self) -> MeasureRequest:
        all_exact = sum(map(len, self.needed.exact_heads)) == self.needed.n_heads
        return MeasureRequest(
            pooled=self.options.pooled,
            top=0 if all_exact else self.options.top_links,
            tokens=self._input_ids(),
        )

    def _next_tokens(self, tap, output) -> tuple[list[Token], list[Prediction], list[str]]:
        """The token table with log-probabilities, the predictions, and what must be said about them."""
        tokens, notices = self.encoded.tokens, list(self.encoded.notices)
        if not self.model.predicts_next:
            return tokens, [], notices
        last_logits = output.logits[0, -1]
        logprobs = token_logprobs(tap, last_logits, self.encoded.token_ids, self.model.config)
        if logprobs is None:
            notices.append(
                "The probabilities of the tokens are not shown: this model changes its logits in a way not known here."
            )
        else:
            tokens = [replace(token, logprob=value) for token, value in zip(tokens, logprobs, strict=True)]
        best = top_predictions(last_logits, self.options.predictions)
        place = len(tokens) - 1
        return (
            tokens,
            [Prediction(place, rank, i, text_of(self.model, i), logprob) for rank, (i, logprob) in enumerate(best)],
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
            "architecture": card.architecture,
            "parameters": card.parameters,
            "prompt": self.encoded.prompt,
            "segments": [asdict(segment) for segment in self.encoded.segments],
            "dtype": self.model.dtype,
            "device": str(self.model.device),
            "implementation": layers.implementation,
            "options": asdict(self.options),
            "seed": self.options.seed,
            "versions": versions(),
            "timings": {name: round(seconds, 4) for name, seconds in timings.items()},
            "peak_memory_mb": round(layers.peak_bytes / 1e6, 1),
            "checks": card.checks,
            "notices": notices,
            "uniform": layers.uniform,
            "layers_without_maps": [asdict(layer) for layer in card.layers if layer not in softmax],
        }


def not_saved(run: Run, library: Library, failure: StoreError) -> NotSaved | StoreError:
    """The library took nothing: the run is done once more into a temporary file, so that its result is not lost."""
    kept = TemporaryLibrary()
    try:
        analysis = run.into(kept)
    except StoreError:
        return failure  # no place for it anywhere
    return NotSaved(
        f"The run is finished but could not be saved: {str(failure).rstrip('.')}. The result is kept until the program "
        "ends; free some space and save it again.",
        analysis,
        library,
    )


def check_visibility(visibility: str, owner: str | None) -> None:
    """Refused for a visibility that does not exist, or a private analysis that would belong to nobody."""
    if visibility not in VISIBILITIES:
        raise Refused(f"visibility: expected {' or '.join(VISIBILITIES)}, got {visibility!r}.")
    if visibility == "private" and owner is None:
        raise Refused("A private analysis needs an owner: give one, or make it visible by its link.")


def check_length(encoded: EncodedPrompt, options: Options) -> None:
    """Refused above the limit that was set for this run; the model's own limit is checked with the prompt."""
    count = len(encoded.token_ids)
    if options.max_tokens is not None and count > options.max_tokens:
        raise Refused(f"The prompt has {count:,} tokens and at most {options.max_tokens:,} are allowed. Shorten it.")


def is_set(cancel: Event | Callable[[], bool] | None) -> Callable[[], bool]:
    """One way to ask whether the person wants to stop."""
    if cancel is None:
        return lambda: False
    return cancel.is_set if hasattr(cancel, "is_set") else cancel


def resolved(impl: str, model: LoadedModel) -> str:
    """The implementation that `attend` will choose for this model."""
    weight = model.model.get_input_embeddings().weight
    if impl != "auto":
        return impl
    return "triton" if weight.is_cuda and why_no_triton(weight) is None else "tiled"


def text_of(model: LoadedModel, token_id: int) -> str:
    """A predicted token as text; its number where there is no tokenizer."""
    return str(token_id) if model.tokenizer is None else model.tokenizer.decode([token_id])


def versions() -> dict[str, str]:
    """Versions of what made the numbers."""
    return {
        "python": platform.python_version(),
        **{name: version(name) for name in ("torch", "transformers", "duckdb")},
    }
