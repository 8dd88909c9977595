"""Background work: order, progress, cancel, crashes, and what is found again after the process ended."""

import json
import subprocess
import sys
import threading
import time

import pytest

from backend.errors import Cancelled, HeadwaterError, NotFound, NotSaved, Refused
from backend.jobs import Jobs, key_of, process_jobs
from backend.models import LoadedModel
from backend.options import Options
from backend.pipeline import analyse
from backend.prompts import Prompt
from backend.store import Library
from tests.backend.tiny import build

PATIENCE = 20  # seconds; reached only when something hangs


@pytest.fixture
def jobs(data_folder):
    jobs = Jobs(data_folder)
    yield jobs
    jobs.close()


class Steps:
    """Work that waits for a permission before each of its layers."""

    def __init__(self, layers=3):
        self.layers, self.go, self.started = layers, threading.Semaphore(0), threading.Event()

    def __call__(self, progress, cancel):
        self.started.set()
        for layer in range(self.layers):
            assert self.go.acquire(timeout=PATIENCE)
            if cancel.is_set():
                raise Cancelled("Stopped.")
            progress("layer", layer + 1, self.layers, float(self.layers - layer - 1))
        return "analysis-of-steps"

    def allow(self, layers=1):
        for _ in range(layers):
            self.go.release()


def until(condition):
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.005)


def test_a_job_shows_its_progress_and_ends_with_the_id_of_its_analysis(jobs):
    work = Steps(3)
    job = jobs.submit("The cat sat", work, owner="me")
    work.allow(2)
    until(lambda: jobs.get(job.id).layer == 2)
    seen = jobs.get(job.id)
    assert (seen.state, seen.step, seen.n_layers, seen.seconds_left) == ("running", "layer", 3, 1.0)
    work.allow()
    done = jobs.wait(job.id, PATIENCE)
    assert (done.state, done.analysis_id, done.error) == ("done", "analysis-of-steps", None)
    assert done.title == "The cat sat" and done.finished_at


def test_one_worker_per_device_and_the_position_in_its_queue(jobs):
    first, second, third, elsewhere = Steps(1), Steps(1), Steps(1), Steps(1)
    a, b, c = (jobs.submit("run", work) for work in (first, second, third))
    d = jobs.submit("run", elsewhere, device="cuda:0")
    assert first.started.wait(PATIENCE) and elsewhere.started.wait(PATIENCE)
    assert [jobs.get(job.id).position for job in (a, b, c, d)] == [0, 1, 2, 0]
    assert not second.started.is_set()
    first.allow()
    assert jobs.wait(a.id, PATIENCE).state == "done"
    assert second.started.wait(PATIENCE)
    assert jobs.get(c.id).position == 1
    for work in (second, third, elsewhere):
        work.allow()
    assert [jobs.wait(job.id, PATIENCE).state for job in (b, c, d)] == ["done"] * 3


def test_cancel_while_waiting_and_while_running(jobs):
    running, waiting = Steps(2), Steps(2)
    a, b = jobs.submit("a", running), jobs.submit("b", waiting)
    assert running.started.wait(PATIENCE)
    assert jobs.cancel(b.id).state == "cancelled"
    jobs.cancel(a.id)
    running.allow()
    assert jobs.wait(a.id, PATIENCE).state == "cancelled"
    assert not waiting.started.is_set()
    assert jobs.cancel(a.id).state == "cancelled"


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (Refused("The prompt has 40 tokens, the model takes 32. Shorten it."), "The prompt has 40 tokens"),
        (ZeroDivisionError("division by zero\nsecond line"), "ZeroDivisionError: division by zero. Nothing was stored"),
        (MemoryError(), "MemoryError. Nothing was stored"),
    ],
)
def test_a_crash_is_one_sentence_and_the_worker_lives_on(jobs, error, text):
    def work(progress, cancel):
        raise error

    failed = jobs.wait(jobs.submit("bad", work).id, PATIENCE)
    assert failed.state == "failed" and text in failed.error and "\n" not in failed.error
    assert jobs.wait(jobs.submit("good", lambda progress, cancel: "fine").id, PATIENCE).state == "done"


def test_a_result_that_could_not_be_saved_is_kept_and_saved_on_request(jobs):
    class Shelf:
        full = True

        def save(self, analysis):
            if self.full:
                raise HeadwaterError("The disk is full.")
            return f"saved-{analysis}"

    shelf = Shelf()

    def work(progress, cancel):
        raise NotSaved("The run is finished but could not be saved. Free some space and save again.", "result", shelf)

    job = jobs.wait(jobs.submit("run", work).id, PATIENCE)
    assert job.state == "failed" and "save again" in job.error and job.unsaved
    with pytest.raises(HeadwaterError, match="full"):
        jobs.save_again(job.id)
    shelf.full = False
    saved = jobs.save_again(job.id)
    assert (saved.state, saved.analysis_id, saved.error, saved.unsaved) == ("done", "saved-result", None, False)
    with pytest.raises(NotFound):
        jobs.save_again(job.id)


def test_two_clicks_save_one_result_once(jobs):
    go_on, saved = threading.Event(), []

    class Shelf:
        def save(self, analysis):
            assert go_on.wait(PATIENCE)
            saved.append(analysis)
            return "saved-once"

    def work(progress, cancel):
        raise NotSaved("Not saved.", "result", Shelf())

    job = jobs.wait(jobs.submit("run", work).id, PATIENCE)
    outcomes = []

    def click():
        try:
            outcomes.append(jobs.save_again(job.id).analysis_id)
        except NotFound:
            outcomes.append("nothing left to save")

    clicks = [threading.Thread(target=click) for _ in range(2)]
    for thread in clicks:
        thread.start()
    go_on.set()
    for thread in clicks:
        thread.join(PATIENCE)
    assert saved == ["result"] and sorted(outcomes) == ["nothing left to save", "saved-once"]


def test_what_was_never_saved_is_said_so_after_the_server_was_stopped(data_folder):
    first, second = Jobs(data_folder), Jobs(data_folder)

    def work(progress, cancel):
        raise NotSaved("Not saved: free some space and save it again.", "result", None)

    job = first.wait(first.submit("run", work, owner="me").id, PATIENCE)
    assert job.unsaved
    # Another process cannot save what this one keeps in memory.
    assert not second.get(job.id).unsaved and "save it again" in second.get(job.id).error
    first.close()
    (seen,) = second.jobs("me")
    assert (seen.state, seen.unsaved) == ("failed", False) and "Start the run again" in seen.error
    second.close()


def test_records_of_an_older_version_are_still_found(jobs, data_folder):
    job = jobs.wait(jobs.submit("old", lambda progress, cancel: "x", owner="me").id, PATIENCE)
    path = data_folder / "jobs" / f"{job.id}.json"
    record = json.loads(path.read_text())
    for name in ("type", "unsaved"):
        del record[name]
    (data_folder / "jobs" / ("y" * 22 + ".json")).write_text(json.dumps({**record, "id": "y" * 22}))
    assert jobs.get("y" * 22).type == "analysis"


def test_my_runs_are_mine_and_newest_first(jobs):
    ids = [
        jobs.submit(title, lambda p, c: "x", owner=owner).id
        for title, owner in [("1", "me"), ("2", "you"), ("3", "me")]
    ]
    for job_id in ids:
        jobs.wait(job_id, PATIENCE)
    assert [job.title for job in jobs.jobs("me")] == ["3", "1"]
    assert len(jobs.jobs()) == 3


def test_the_process_has_one_queue_per_data_folder():
    assert process_jobs() is process_jobs()


ANOTHER_PROCESS = """
import sys, time
from backend.jobs import Jobs
jobs = Jobs()
done = jobs.submit("finished", lambda p, c: "stored-id", owner="me")
jobs.wait(done.id)
stuck = jobs.submit("under way", lambda p, c: time.sleep(60), owner="me")
waits = jobs.submit("in the queue", lambda p, c: "never", owner="me")
while jobs.get(stuck.id).state != "running":
    time.sleep(0.01)
print(done.id, stuck.id, waits.id, flush=True)
time.sleep(60)
"""


def test_case_75_runs_are_found_again_after_their_process_was_killed(data_folder):
    process = subprocess.Popen([sys.executable, "-c", ANOTHER_PROCESS], stdout=subprocess.PIPE, text=True)
    try:
        done, stuck, waits = process.stdout.readline().split()
        jobs = Jobs(data_folder)
        # While the other process lives its jobs are what they are.
        assert [jobs.get(j).state for j in (done, stuck, waits)] == ["done", "running", "queued"]
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    assert [jobs.get(j).state for j in (done, stuck, waits)] == ["done", "interrupted", "interrupted"]
    jobs.close()
    again = Jobs(data_folder)
    mine = {job.id: job for job in again.jobs("me")}
    assert mine[done].analysis_id == "stored-id"
    assert mine[stuck].state == "interrupted" and "Start the run again" in mine[stuck].error
    assert [p.suffix for p in (data_folder / "jobs").iterdir()].count(".lock") == 1, "locks of ended processes go"
    again.close()


def test_records_that_cannot_be_read_and_ids_from_links_are_harmless(jobs, data_folder):
    (data_folder / "jobs" / ("x" * 22 + ".json")).write_text("{half")
    (data_folder / "secret.json").write_text(json.dumps({"state": "done"}))
    for bad in ("x" * 22, "../secret", "", "a/b", "\0"):
        with pytest.raises(NotFound):
            jobs.get(bad)
    assert jobs.jobs() == []


def test_a_full_disk_does_not_end_the_worker(jobs, data_folder, monkeypatch):
    job = jobs.submit("one", lambda p, c: "first")
    jobs.wait(job.id, PATIENCE)
    monkeypatch.setattr(
        type(jobs._records), "write", lambda self, job: (_ for _ in ()).throw(OSError(28, "No space left"))
    )
    assert jobs.wait(jobs.submit("two", lambda p, c: "second").id, PATIENCE).analysis_id == "second"


def test_a_data_folder_that_cannot_be_written_is_said_so(tmp_path):
    (tmp_path / "jobs").write_text("a file where the folder should be")
    with pytest.raises(HeadwaterError, match="HEADWATER_DATA"):
        Jobs(tmp_path)


def test_an_analysis_in_the_background_and_one_that_is_stopped(jobs, data_folder):
    model, library = LoadedModel.wrap(build("qwen2")), Library(data_folder)
    reached, go_on = threading.Event(), threading.Event()

    def work(progress, cancel):
        def held(step, layer, n_layers, seconds_left):
            progress(step, layer, n_layers, seconds_left)
            if (step, layer) == ("layers", 2):
                reached.set()
                assert go_on.wait(PATIENCE)

        return analyse(model, [5, 6, 7, 8], library=library, progress=held, cancel=cancel).id

    stopped = jobs.submit("stopped", work)
    assert reached.wait(PATIENCE)
    seen = jobs.get(stopped.id)
    assert (seen.step, seen.layer, seen.n_layers) == ("layers", 2, 4) and seen.seconds_left >= 0
    jobs.cancel(stopped.id)
    go_on.set()
    assert jobs.wait(stopped.id, PATIENCE).state == "cancelled" and library.list() == []
    done = jobs.wait(jobs.submit("done", work).id, PATIENCE)
    assert done.state == "done" and library.open(done.analysis_id).map(3, 1).shape == (4, 4)


def test_people_are_served_in_turn_and_see_how_many_come_before_them(jobs):
    first = Steps(1)
    jobs.submit("first", first, owner="a")
    assert first.started.wait(PATIENCE)
    served, waiting = [], {}
    for owner, name in (("a", "a1"), ("a", "a2"), ("a", "a3"), ("b", "b1"), ("b", "b2"), (None, "n1")):
        waiting[name] = jobs.submit(name, lambda p, c, name=name: served.append(name) or name, owner=owner).id
    places = {name: jobs.get(id).position for name, id in waiting.items()}
    assert places == {"a1": 1, "b1": 2, "n1": 3, "a2": 4, "b2": 5, "a3": 6}
    assert jobs.cancel(waiting["b1"]).state == "cancelled"
    assert {name: jobs.get(waiting[name]).position for name in ("a1", "n1", "b2")} == {"a1": 1, "b2": 2, "n1": 3}
    first.allow()
    for id in waiting.values():
        jobs.wait(id, PATIENCE)
    assert served == ["a1", "b2", "n1", "a2", "a3"]


def test_a_storm_of_clicks_is_one_run(jobs):
    work, key = Steps(1), key_of("model", Prompt(text="The cat"), Options())
    assert key == key_of("model", Prompt(text="The cat"), Options())
    assert key != key_of("model", Prompt(text="The cat "), Options())
    found = []

    def click():
        found.append(jobs.submit("run", work, owner="me", key=key).id)

    clicks = [threading.Thread(target=click) for _ in range(10)]
    for thread in clicks:
        thread.start()
    for thread in clicks:
        thread.join(PATIENCE)
    assert len(set(found)) == 1 == len(jobs.jobs("me"))
    assert work.started.wait(PATIENCE)  # running is as good as waiting
    assert jobs.submit("run", work, owner="me", key=key).id == found[0]
    theirs = jobs.submit("run", Steps(0), owner="you", key=key)
    other = jobs.submit("run", Steps(0), owner="me", key=key_of("model", Prompt(text="A dog"), Options()))
    unnamed = [jobs.submit("run", Steps(0), owner="me").id for _ in range(2)]
    assert len({found[0], theirs.id, other.id, *unnamed}) == 5
    work.allow()
    assert jobs.wait(found[0], PATIENCE).state == "done"
    again = jobs.submit("run", Steps(0), owner="me", key=key)
    assert again.id != found[0], "what is over is run again, or found in the library"


def test_a_person_has_so_many_runs_at_a_time(data_folder):
    jobs, work = Jobs(data_folder, most=2), Steps(1)
    try:
        first = jobs.submit("one", work, owner="me")
        jobs.submit("two", Steps(0), owner="me")
        with pytest.raises(Refused, match="2 of your runs are waiting or running and at most 2 may be"):
            jobs.submit("three", Steps(0), owner="me")
        assert jobs.submit("mine", Steps(0), owner="you").state == "queued"
        work.allow()
        jobs.wait(first.id, PATIENCE)
        until(lambda: all(job.state == "done" for job in jobs.jobs("me")))
        assert jobs.submit("three", Steps(0), owner="me")
    finally:
        jobs.close()


CANCELLED_FROM_ELSEWHERE = """
import sys
from backend.errors import Cancelled
from backend.jobs import Jobs
jobs = Jobs()
def work(progress, cancel):
    print(job_ids[0], job_ids[1], flush=True)
    cancel.wait(60)
    raise Cancelled("stopped")
job_ids = ["", ""]
import threading
ready = threading.Event()
def first(progress, cancel):
    ready.wait(60)
    return work(progress, cancel)
job_ids[0] = jobs.submit("under way", first, owner="me", key="k").id
job_ids[1] = jobs.submit("in the queue", lambda p, c: "never", owner="me").id
ready.set()
print(jobs.wait(job_ids[0], 60).state, jobs.wait(job_ids[1], 60).state, flush=True)
"""


def test_a_run_of_another_process_can_be_stopped_and_is_not_begun_again(jobs, data_folder):
    with subprocess.Popen(
        [sys.executable, "-c", CANCELLED_FROM_ELSEWHERE], stdout=subprocess.PIPE, text=True
    ) as process:
        running, waiting = process.stdout.readline().split()
        assert jobs.submit("the same", Steps(0), owner="me", key="k").id == running
        assert jobs.cancel(waiting).state == "queued", "it is asked to stop and has not done so yet"
        jobs.cancel(running)
        assert process.stdout.readline() == "cancelled cancelled\n"
        process.wait(PATIENCE)
    assert [jobs.get(id).state for id in (running, waiting)] == ["cancelled", "cancelled"]
    jobs.cancel(running)  # over: nothing is asked
    assert not list((data_folder / "jobs").glob("*.cancel"))


SEEN_FROM_ELSEWHERE = """
import sys
from backend.jobs import Jobs
from backend.settings import data_folder
jobs = Jobs(data_folder())
def work(progress, cancel):
    for layer in range(1, 301):
        progress("layers", layer, 300, 300.0 - layer)
        if sys.stdin.readline().strip() == "end":
            return "A" * 24
ids = [jobs.submit("under way", work, owner="me").id]
ids += [jobs.submit(f"waits {n}", lambda p, c: "B" * 24).id for n in "12"]
print(*ids, flush=True)
jobs.wait(ids[-1], 60)
"""


def test_a_run_of_another_process_shows_how_far_it_is(jobs, monkeypatch):
    with subprocess.Popen(
        [sys.executable, "-c", SEEN_FROM_ELSEWHERE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        running, _, last = process.stdout.readline().split()

        def seen(id, fits):
            end = time.monotonic() + PATIENCE
            while not fits(jobs.get(id)) and time.monotonic() < end:
                process.stdin.write("on\n")  # one layer more
                process.stdin.flush()
                time.sleep(0.2)
            return jobs.get(id)

        assert seen(last, lambda job: job.position == 2).position == 2
        job = seen(running, lambda job: job.layer > 3)
        assert job.state == "running" and job.n_layers == 300 and job.seconds_left == 300.0 - job.layer
        assert next(one for one in jobs.jobs("me") if one.id == running).layer >= job.layer
        process.communicate("end\n", timeout=PATIENCE)
    assert [jobs.get(id).state for id in (running, last)] == ["done", "done"] and jobs.get(last).position == 0


def test_an_error_nobody_foresaw_names_no_place_on_the_server(jobs):
    def work(progress, cancel):
        raise FileNotFoundError(2, "No such file or directory", "/srv/models/secret/config.json")

    error = jobs.wait(jobs.submit("bad", work).id, PATIENCE).error
    assert "No such file or directory" in error and "/srv" not in error
