"""Studies as work: carried on after a kill or a stop, stored once, kept where saving fails, opened elsewhere."""

import json
import subprocess
import sys
import threading
import time

import pytest

from backend.errors import Cancelled, NotFound, NotSaved, Refused, StoreError
from backend.jobs import Jobs
from backend.models import LoadedModel
from backend.store import Library, Study
from backend.studies import discard_study, resume_study, run_study, unfinished
from backend.studies.random_repeat import STUDY, Parameters
from backend.studies.workplace import Workplace
from tests.backend.tiny import build
from tests.conftest import ROOT

PARAMETERS = Parameters(length=5, samples=4)


@pytest.fixture(scope="module")
def model():
    return LoadedModel.wrap(build("llama"))


@pytest.fixture
def library(data_folder):
    return Library(data_folder)


def stopped(model, library, after: int, **more) -> Workplace:
    """A study that was stopped when `after` runs were done."""
    cancel = threading.Event()

    def progress(step, done, runs, seconds_left):
        assert (step, runs) == ("runs", 4) and seconds_left > 0
        if done == after:
            cancel.set()

    with pytest.raises(Cancelled, match="carry on"):
        run_study(STUDY, model, PARAMETERS, library=library, progress=progress, cancel=cancel, **more)
    (place,) = unfinished(library, more.get("owner"))
    return place


def steps_of(run) -> list[int]:
    """The numbers of done runs that are told while `run(progress)` goes."""
    seen = []
    run(lambda step, done, runs, left: seen.append(done) if step == "runs" else None)
    return seen


def test_a_study_is_stored_listed_and_opened_like_an_analysis(model, library):
    study = run_study(STUDY, model, PARAMETERS, library=library, visibility="private", owner="o" * 32)
    assert isinstance(study, Study)
    info = study.info
    assert (info["type"], info["study"], info["members"], info["n_tokens"]) == ("study", "random_repeat", [], 11)
    assert info["parameters"] == {
        "length": 5,
        "samples": 4,
        "seed": 0,
        "first_token": None,
        "keep_analyses": False,
    }
    assert set(study.tables()) == {"info", *STUDY.tables}
    for name, columns in STUDY.tables.items():
        assert study.table(name).column_names == list(columns)
        assert info["tables"][name] == {column: what.meaning for column, what in columns.items()}
    (entry,) = library.list()
    assert (entry.id, entry.type, entry.visibility, entry.owner) == (study.id, "study", "private", "o" * 32)
    assert entry.title == "Random repeat · in-memory"
    assert unfinished(library, "o" * 32) == []


def test_the_same_study_is_found_and_another_is_not(model, library):
    first = run_study(STUDY, model, PARAMETERS, library=library)
    assert steps_of(lambda told: run_study(STUDY, model, PARAMETERS, library=library, progress=told)) == []
    assert run_study(STUDY, model, PARAMETERS, library=library).id == first.id
    other = run_study(STUDY, model, Parameters(length=5, samples=4, seed=1), library=library)
    retrained = run_study(STUDY, LoadedModel.wrap(build("llama", seed=1)), PARAMETERS, library=library)
    assert len({first.id, other.id, retrained.id}) == 3


def test_a_study_that_was_stopped_is_carried_on(model, library):
    whole = run_study(STUDY, model, PARAMETERS)
    place = stopped(model, library, after=2)
    assert list(place.done()) == [0, 1] and library.list() == []
    studies = []
    told = steps_of(lambda told: studies.append(run_study(STUDY, model, PARAMETERS, library=library, progress=told)))
    assert told == [2, 3]
    assert studies[0].id == place.begun.id and unfinished(library) == []
    for name in STUDY.tables:
        assert studies[0].table(name).equals(whole.table(name))


def test_a_study_is_carried_on_by_its_id_with_the_same_model_only(model, library):
    place = stopped(model, library, after=1, owner="o" * 32)
    assert unfinished(library) == [] and unfinished(library, "somebody else") == []
    with pytest.raises(Refused, match="Use the same one"):
        resume_study(place.begun.id, LoadedModel.wrap(build("llama", seed=1)), library=library)
    study = resume_study(place.begun.id, model, library=library)
    assert study.id == place.begun.id and library.entry(study.id).owner == "o" * 32
    for wrong in (place.begun.id, "no-such-study", "../jobs"):
        with pytest.raises(NotFound):
            resume_study(wrong, model, library=library)


def test_a_study_can_be_given_up(model, library):
    place = stopped(model, library, after=1)
    with place.locked(), pytest.raises(Refused, match="under way"):
        discard_study(place.begun.id, library)
    discard_study(place.begun.id, library)
    assert unfinished(library) == [] and not place.folder.exists()


def test_a_damaged_result_is_made_again(model, library):
    place = stopped(model, library, after=2)
    (place.folder / "run_000001.json").write_text('{"rows": {"sco')
    told = steps_of(lambda told: run_study(STUDY, model, PARAMETERS, library=library, progress=told))
    assert len(told) == 3
    (place.folder.parent / "half-made").mkdir()
    assert unfinished(library) == []


def test_a_study_published_before_the_kill_is_not_published_twice(model, library):
    place = stopped(model, library, after=2)
    kept = {path.name: path.read_text() for path in place.folder.iterdir() if path.suffix == ".json"}
    study = run_study(STUDY, model, PARAMETERS, library=library)
    place.folder.mkdir()  # as if it had been killed before the folder was removed
    for name, text in kept.items():
        (place.folder / name).write_text(text)
    again = resume_study(place.begun.id, model, library=library)
    assert again.id == study.id and len(library.list()) == 1 and not place.folder.exists()


class FullLibrary(Library):
    """A library whose disk is full while `full` is set."""

    full = True

    def put(self, id, temporary, content):
        if self.full:
            raise StoreError("The analysis could not be saved (No space left on device).")
        super().put(id, temporary, content)


def test_a_study_that_could_not_be_saved_is_kept_and_saved_on_request(model, data_folder):
    library, jobs = FullLibrary(data_folder), Jobs(data_folder)
    try:
        job = jobs.submit(
            "study",
            lambda progress, cancel: run_study(STUDY, model, PARAMETERS, library=library, progress=progress).id,
            type="study",
        )
        job = jobs.wait(job.id, 60)
        assert (job.state, job.type, job.unsaved) == ("failed", "study", True) and "save it again" in job.error
        assert len(unfinished(library)) == 1 and library.list() == []
        library.full = False
        saved = jobs.save_again(job.id)
        assert (saved.state, saved.unsaved) == ("done", False)
        assert library.open(saved.analysis_id).table("scores").num_rows == 16
        assert unfinished(library) == []
    finally:
        jobs.close()


def test_a_study_that_could_not_be_saved_can_be_read_and_carried_on_later(model, data_folder):
    library = FullLibrary(data_folder)
    with pytest.raises(NotSaved) as failure:
        run_study(STUDY, model, PARAMETERS, library=library)
    assert failure.value.analysis.table("scores").num_rows == 16
    told = steps_of(lambda told: run_study(STUDY, model, PARAMETERS, library=Library(data_folder), progress=told))
    assert told == [] and len(Library(data_folder).list()) == 1


def test_too_little_disk_is_refused_before_the_first_run_with_both_numbers(model, library, monkeypatch):
    monkeypatch.setenv("HEADWATER_DISK_RESERVE_MB", str(10**9))
    with pytest.raises(Refused, match=r"needs about \d+ MB on disk and 0 MB are free"):
        run_study(STUDY, model, PARAMETERS, library=library)
    assert unfinished(library) == []


CHILD = """
import json, sys, time
from backend.models import LoadedModel
from backend.store import Library
from backend.studies import run_study
from backend.studies.random_repeat import STUDY, Parameters
from tests.backend.tiny import build

def told(step, done, runs, left):
    print(json.dumps([step, done]), flush=True)
    if done == int(sys.argv[2]):
        time.sleep(600)  # a kill that comes late still finds the study under way

model = LoadedModel.wrap(build("llama"))
study = run_study(STUDY, model, Parameters(length=40, samples=24), library=Library(sys.argv[1]), progress=told)
print(json.dumps(["id", study.id]), flush=True)
"""


def child(folder, waits_at=-1):
    return subprocess.Popen(
        [sys.executable, "-c", CHILD, str(folder), str(waits_at)], stdout=subprocess.PIPE, text=True, cwd=str(ROOT)
    )


def test_a_kill_loses_at_most_one_run(model, data_folder, library):
    """Killed with SIGKILL in the middle of a run; another process finishes it, a third one reads it."""
    process = child(data_folder, waits_at=20)
    try:
        for line in process.stdout:
            if json.loads(line) == ["runs", 5]:
                time.sleep(0.02)
                break
        process.kill()
        begun = 1 + max([5, *(json.loads(line)[1] for line in process.stdout)])
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    (place,) = unfinished(library)
    assert not place.under_way() and library.list() == []
    done = list(place.done())
    assert done == list(range(len(done))) and begun - 1 <= len(done) <= begun  # told runs: all but the last are kept
    for number in done:
        assert place.read(number) is not None
    finishing = child(data_folder)
    output = [json.loads(line) for line in finishing.communicate(timeout=300)[0].splitlines()]
    assert finishing.returncode == 0
    assert [value for step, value in output if step == "runs"] == list(range(len(done), 24))
    id = output[-1][1]
    assert id == place.begun.id and unfinished(library) == []
    whole = run_study(STUDY, model, Parameters(length=40, samples=24))
    for name in STUDY.tables:
        assert library.open(id).table(name).equals(whole.table(name))
