"""From a prompt to a stored analysis: the only place that knows the order of the steps.

prompt -> token ids -> refusals and estimate -> stored already? -> the model runs, and layer by layer:
    measures -> statistics -> written -> forgotten
-> log-probabilities and predictions -> published under its id
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import gettempdir
from threading import Event

from backend.edit_prompt import encode_edited
from backend.errors import Damaged, NotFound, NotSaved, Refused, StoreError
from backend.estimate import TARGET_TOKENS, Estimate, estimate, refuse_unless_it_fits
from backend.intervene import check_interventions
from backend.models import LoadedModel
from backend.options import Options
from backend.prompts import EncodedPrompt, Prompt
from backend.reading import check_target, given_target
from backend.run import Progress, Run, writing_of
from backend.store import Analysis, AnalysisWriter, Library, TemporaryLibrary
from backend.store.access import VISIBILITIES

__all__ = ["Estimate", "Options", "analyse", "estimate"]


def analyse(
    model: LoadedModel,
    prompt: str | Prompt | list[int],
    *,
    options: Options | None = None,
    library: Library | None = None,
    visibility: str = "link",
    owner: str | None = None,
    made_of: tuple[str, ...] = (),
    progress: Progress | None = None,
    cancel: Event | Callable[[], bool] | None = None,
) -> Analysis:
    """Runs the prompt through the model, measures every head, and stores what was found.

    library: where it is kept; the same work done before is given back at once, where this owner may see it and it has
    this visibility. None: a temporary file that lives as long as the Analysis.
    visibility: "link" (whoever has the id), "private" (its owner) or "listed" (everybody finds it).
    made_of: ids of the entries whose text this reads again: while one of them is private, so is this.
    progress(step, layers done, layers, seconds left) is called as it goes: "prepare", "write", "layers",
    "tokens", "save"; while text is written it counts tokens instead of layers.
    cancel is looked at between layers.

    Raises Refused before anything runs (prompt, options, memory, disk), Cancelled when stopped (nothing is stored), and
    NotSaved where the run was finished but the library did not take it (the result is in the error, see NotSaved).
    """
    options = options or Options()
    options.check()
    check_visibility(visibility, owner)
    told = progress or (lambda *_: None)
    model = model.tower_for(prompt)
    told("prepare", 0, 0, None)
    encoded = encode_edited(model, prompt, options.changes)
    target = target_of(model, prompt, options)
    check_length(encoded, options)
    check_changes(model, encoded, target, options)
    needed = needs(model, encoded, target, options)
    refuse_unless_it_fits(model, needed, library.path if library is not None else Path(gettempdir()))
    run = Run(model, encoded, options, needed, told, is_set(cancel), visibility, owner, made_of, target)
    if library is None:
        return run.into(TemporaryLibrary())
    stored = library.find(run.key, owner=owner, visibility=visibility)  # who asks for a private one gets a private one
    if stored is not None:
        with suppress(NotFound, Damaged):  # deleted since, or damaged: the work is done anew
            return library.open(stored)
    with AnalysisWriter(library) as writer:  # a library that cannot be written at all is told before the run
        try:
            return run.write(writer)
        except StoreError as error:
            failure = error
    raise not_saved(run, library, failure) from failure


def needs(model: LoadedModel, encoded: EncodedPrompt, target: EncodedPrompt | None, options: Options) -> Estimate:
    """What the run will take. Refused where the text that was asked for cannot be written."""
    writing = writing_of(options, model) if target is None else None
    if writing is not None:
        writing.check(model, len(encoded.token_ids))
    behind = 0 if model.two_sided else options.new_tokens
    n_target = None if target is None else len(target.token_ids)
    return estimate(model, len(encoded.token_ids) + behind, options, n_target=n_target)


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


def target_of(model: LoadedModel, prompt: str | Prompt | list[int], options: Options) -> EncodedPrompt | None:
    """The tokens of the prompt's target; None where it has none. Refused where it makes no sense."""
    target = prompt.target if isinstance(prompt, Prompt) else None
    check_target(model, target)
    if target is None:
        return None
    if options.new_tokens:
        raise Refused("A target was given, so that nothing is written: leave new_tokens at 0, or leave the target out.")
    return given_target(model, target)


def check_changes(model: LoadedModel, encoded: EncodedPrompt, target: EncodedPrompt | None, options: Options) -> None:
    """Refused for interventions that do not fit the model or the prompt."""
    changes = options.changes
    decoder = [change for change in changes if getattr(change, "kind", "self") == "decoder"]
    written = target is None and model.two_sided
    for edits, read in ((decoder, target), ([change for change in changes if change not in decoder], encoded)):
        if edits:
            check_interventions(
                edits,
                model.describe().layers,
                causal=model.causal or edits is decoder,
                n_tokens=TARGET_TOKENS + 1 if read is None else len(read.token_ids),
                segments=encoded.segments if read is None else read.segments,
                new_tokens=options.new_tokens if not model.two_sided or written else 0,
            )


def is_set(cancel: Event | Callable[[], bool] | None) -> Callable[[], bool]:
    """One way to ask whether the person wants to stop."""
    if cancel is None:
        return lambda: False
    return cancel.is_set if hasattr(cancel, "is_set") else cancel
