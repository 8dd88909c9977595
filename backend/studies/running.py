"""Runs a study: plan -> refusals -> stored already? begun already? -> run by run, each kept as it ends -> published."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import gettempdir
from threading import Event
from typing import Any

from backend.errors import Cancelled, HeadwaterError, NotFound, NotSaved, Refused, StoreError
from backend.estimate import estimate, refuse_unless_it_fits
from backend.models import LoadedModel
from backend.options import Options
from backend.pipeline import check_visibility, is_set
from backend.run import Progress, architecture, resolved, versions
from backend.store import Library, Study, TemporaryLibrary, cache_key, ids, save_study
from backend.studies.definition import Plan, RunResult, StudyDefinition, Surroundings, as_arrow
from backend.studies.workplace import Begun, Workplace, unfinished, workplace_of


@dataclass(frozen=True, eq=False)
class Work:
    """What carries a study from its working folder to the library."""

    definition: StudyDefinition
    model: LoadedModel
    parameters: Any
    library: Library
    progress: Progress
    cancelled: Callable[[], bool]


def run_study(
    definition: StudyDefinition,
    model: LoadedModel,
    parameters: Any = None,
    *,
    library: Library | None = None,
    visibility: str = "link",
    owner: str | None = None,
    made_of: tuple[str, ...] = (),
    progress: Progress | None = None,
    cancel: Event | Callable[[], bool] | None = None,
) -> Study:
    """Runs the study and stores it; what was done before, finished or not, is not done again.

    parameters: an instance of definition.Parameters, None for its defaults. library: where it is kept; None: a file
    that lives as long as the Study. made_of: ids of the entries whose text it reads, see `analyse`. progress("runs",
    runs done, runs, seconds left) is called as it goes; cancel is looked at between layers.

    Raises Refused before anything runs, Cancelled when stopped (the runs that are done are kept: start it again to
    carry on), StoreError where a run could not be written, NotSaved where all are done but the study could not be
    published.
    """
    parameters = definition.Parameters() if parameters is None else parameters
    check_visibility(visibility, owner)
    needed = definition.plan(model, parameters)
    refuse_what_does_not_fit(model, needed, library.path if library is not None else Path(gettempdir()))
    library = TemporaryLibrary() if library is None else library
    key = key_of(definition, model, parameters)
    if (stored := library.find(key, owner=owner)) is not None:
        return library.open(stored)
    work = Work(definition, model, parameters, library, progress or (lambda *_: None), is_set(cancel))
    for place in unfinished(library, owner):
        if place.continues(key, visibility, made_of):
            return carry_on(work, place, needed)
    begun = Begun(
        id=ids.new_id(),
        study=definition.name,
        parameters=asdict(parameters),
        runs=needed.runs,
        key=key,
        model=model.name,
        weights_hash=model.weights_hash,
        visibility=visibility,
        owner=owner,
        made_of=made_of,
        title=f"{definition.title_of(parameters)} · {model.name}",
        created_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
    )
    library.prepare()
    return carry_on(work, Workplace.create(library, begun), needed)


def resume_study(
    id: str,
    model: LoadedModel,
    *,
    library: Library,
    progress: Progress | None = None,
    cancel: Event | Callable[[], bool] | None = None,
) -> Study:
    """Carries an unfinished study on with the model it was begun with. NotFound, Refused, and as run_study."""
    from backend.studies import all

    place = workplace_of(library, id)
    definition = all().get(place.begun.study)
    if definition is None:
        raise NotFound(f"This Headwater has no study {place.begun.study!r}; there are {', '.join(all())}.")
    parameters = parameters_from(definition, place.begun.parameters)
    needed = definition.plan(model, parameters)
    refuse_what_does_not_fit(model, needed, library.path)
    if key_of(definition, model, parameters) != place.begun.key:
        raise Refused(
            f"The study was begun with {place.begun.model} (weights {place.begun.weights_hash}); this is {model.name} "
            f"(weights {model.weights_hash}), or another version of it. Use the same one, or start the study anew."
        )
    work = Work(definition, model, parameters, library, progress or (lambda *_: None), is_set(cancel))
    return carry_on(work, place, needed)


def discard_study(id: str, library: Library) -> None:
    """Gives an unfinished study up. Refused while somebody works on it."""
    place = workplace_of(library, id)
    with place.locked():
        place.remove()


def carry_on(work: Work, place: Workplace, needed: Plan) -> Study:
    """The runs that are not done yet, then publishing."""
    with place.locked():
        try:
            results = list(runs(work, place, needed))
        finally:
            work.definition.leave(work.model)
        work.progress("save", needed.runs, needed.runs, None)
        try:
            publish(work, place.begun, needed, results, work.library)
        except StoreError as error:
            raise not_saved(work, place, needed, results, error) from error
        place.remove()
    return work.library.open(place.begun.id)


def runs(work: Work, place: Workplace, needed: Plan):
    """The result of every run, in order; those on disk are read, the others made."""

    def stop_if_cancelled() -> None:
        if work.cancelled():
            raise Cancelled("Stopped on request. The runs that are done are kept; start the study again to carry on.")

    kept = {number: result for number in place.done() if (result := place.read(number)) is not None}
    begun = place.begun
    made_of = (begun.id, *begun.made_of)
    where = Surroundings(work.library, begun.visibility, begun.owner, made_of, stop_if_cancelled, kept)
    seconds, made, start = needed.seconds / needed.runs, 0, time.perf_counter()
    for number in range(needed.runs):
        if number not in kept:
            stop_if_cancelled()
            work.progress("runs", len(kept), needed.runs, seconds * (needed.runs - len(kept)))
            kept[number] = work.definition.run(work.model, work.parameters, number, where)
            place.write(number, kept[number])
            made += 1
            seconds = (time.perf_counter() - start) / made
        yield kept[number]


def publish(work: Work, begun: Begun, needed: Plan, results: list[RunResult], library: Library) -> str:
    """Stores the finished study under the id it has had from the start; one that is there already stays."""
    try:
        return library.entry(begun.id).id
    except NotFound:
        pass
    definition = work.definition
    rows = definition.combine(work.parameters, results)
    tables = {name: as_arrow(columns, rows[name]) for name, columns in definition.tables.items()}
    info = {
        "cache_key": begun.key,
        "question": definition.question,
        "tables": {
            name: {column: what.meaning for column, what in columns.items()}
            for name, columns in definition.tables.items()
        },
        "model": work.model.name,
        "revision": work.model.revision,
        "weights_hash": work.model.weights_hash,
        "tokenizer_hash": work.model.tokenizer_hash,
        "dtype": work.model.dtype,
        "device": str(work.model.device),
        "implementation": resolved("auto", work.model),
        "study_version": definition.version,
        "runs": needed.runs,
        "n_tokens": needed.n_tokens,
        "versions": versions(),
        "begun_at": begun.created_at,
    }
    members = [member for result in results for member in result.members]
    return save_study(
        library,
        definition.name,
        begun.parameters,
        members,
        tables,
        info=info,
        id=begun.id,
        title=begun.title,
        visibility=begun.visibility,
        owner=begun.owner,
        made_of=begun.made_of,
    )


class StudyNotSaved(NotSaved):
    """All runs are done but the study could not be published. `.save()` tries again and then clears the working folder;
    the runs stay on disk all the same, so that it can also be carried on after the program has ended."""

    def __init__(self, message: str, study: Study, library: Library, place: Workplace) -> None:
        super().__init__(message, study, library)
        self.place = place

    def save(self) -> str:
        id = super().save()
        self.place.remove()
        return id


def not_saved(work: Work, place: Workplace, needed: Plan, results: list[RunResult], failure: StoreError) -> Exception:
    """The study as a temporary file, to be read and saved again; the failure itself where that cannot be written."""
    kept = TemporaryLibrary()
    try:
        study = kept.open(publish(work, place.begun, needed, results, kept))
    except StoreError:
        return failure
    text = (
        f"All runs are done but the study could not be saved: {str(failure).rstrip('.')}. Its runs are kept; free some "
        "space and save it again."
    )
    return StudyNotSaved(text, study, work.library, place)


def refuse_what_does_not_fit(model: LoadedModel, needed: Plan, folder: Path) -> None:
    """Refused where memory or disk would not do, with both numbers."""
    one = estimate(model, needed.n_tokens, Options(exact_maps="none"))
    refuse_unless_it_fits(model, replace(one, memory_mb=needed.memory_mb, disk_mb=needed.disk_mb), folder)


def key_of(definition: StudyDefinition, model: LoadedModel, parameters: Any) -> str:
    """What decides the results: equal studies have the same, no others."""
    return cache_key(
        weights_hash=model.weights_hash,
        tokenizer_hash=model.tokenizer_hash,
        token_ids=[],
        dtype=model.dtype,
        implementation=resolved("auto", model),
        options={
            "study": definition.name,
            "version": definition.version,
            "parameters": parameters,
            "architecture": architecture(model),
        },
    )


def parameters_from(definition: StudyDefinition, values: dict) -> Any:
    """Parameters from the JSON in a working folder."""
    names = {item.name for item in fields(definition.Parameters)}
    if values.keys() != names:
        raise HeadwaterError(
            f"The unfinished study has the parameters {sorted(values)}, this Headwater knows {sorted(names)}. "
            "Discard it and start it again."
        )
    return definition.Parameters(**values)
