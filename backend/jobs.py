"""Background work: a fair queue with one worker per device, progress, cancel, and records that outlive the process.

The queue belongs to the process, not to a page: whoever knows a job's id, or asks for the jobs of an owner, sees it
from any tab. A small file per job, <data>/jobs/<id>.json, lets the jobs of an owner be found again after a restart;
those that were under way when their process ended are then "interrupted".
"""

from __future__ import annotations

import hashlib
import logging
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from backend import job_records
from backend.errors import Cancelled, HeadwaterError, NotFound, NotSaved, Refused, without_paths
from backend.job_queue import FairQueue
from backend.job_records import UNDER_WAY, Job
from backend.priority import give_way
from backend.settings import READ_ONLY, RUNS, data_folder

__all__ = ["Job", "Jobs", "key_of", "process_jobs"]

Progress = Callable[[str, int, int, float | None], None]  # step, layer, number of layers, seconds left
Work = Callable[[Progress, threading.Event], str]  # does the work and gives the id of what it stored

WATCH_SECONDS = 0.5  # how soon a job hears that another process wants it stopped
TELL_SECONDS = 1.0  # how often other processes hear how far a job is
KEPT_IN_MEMORY = 200  # finished jobs; older ones are read from their records
NOTHING_UNSAVED = "There is no unsaved result of that run in this process. Start the run again."
log = logging.getLogger(__name__)


@dataclass(eq=False)
class _Entry:
    """A job of this process: what is shown of it, and what only the worker needs."""

    job: Job
    work: Work | None
    cancel: threading.Event = field(default_factory=threading.Event)
    over: threading.Event = field(default_factory=threading.Event)
    unsaved: NotSaved | None = None
    told: float = 0.0  # when its record was last written
    saving: threading.Lock = field(default_factory=threading.Lock)


class Jobs:
    """Queue of one data folder in this process. Thread-safe; every `Job` handed out is a snapshot."""

    def __init__(self, folder: Path | None = None, *, most: int = 0) -> None:
        """most: how many runs a person may have waiting and running at a time; 0 = any number."""
        self._most = most
        self._records = job_records.Records((folder or data_folder()) / "jobs")
        self._lock = threading.RLock()
        self._entries: dict[str, _Entry] = {}  # in order of submission
        self._queues: dict[str, FairQueue[_Entry]] = {}
        self._closed = threading.Event()

    def submit(
        self,
        title: str,
        work: Work,
        *,
        type: str = "analysis",
        device: str = "cpu",
        owner: str | None = None,
        key: str | None = None,
    ) -> Job:
        """Queues `work(progress, cancel) -> id of what it stored` for its device; people are served in turn.

        type: what that is, "analysis" or "study". key: what the work is, see `key_of`: where the same work of the same
        owner waits or runs already, in any process, that job is given back and nothing is queued.

        work calls progress(step, layer, n_layers, seconds_left) as it goes and stops with Cancelled when the event
        `cancel` is set. What it raises becomes the job's error.
        """
        created = datetime.now(UTC).isoformat(timespec="seconds")
        names = {"type": type, "device": device, "owner": owner, "key": key, "created_at": created}
        entry = _Entry(Job(secrets.token_urlsafe(16), title, "queued", **names), work)
        with self._lock:
            if READ_ONLY.text() == "1":
                raise Refused("This server only shows what is stored. Install Headwater to run a prompt.")
            if self._closed.is_set():
                raise HeadwaterError(
                    "No work is accepted any more: the server is shutting down. Try again in a minute."
                )
            mine = [job for job in self.jobs() if job.owner == owner and job.state in UNDER_WAY]
            same = next((job for job in mine if key is not None and job.key == key), None)
            if same is not None:
                return same
            if self._most and len(mine) >= self._most:
                raise Refused(
                    f"{len(mine)} of your runs are waiting or running and at most {self._most} may be. Wait for one to "
                    "end, or cancel one."
                )
            self._entries[entry.job.id] = entry
            self._update(entry)
            self._queue_of(device).put(owner, entry)
        return self.get(entry.job.id)

    def get(self, job_id: str) -> Job:
        """The job as it stands now; NotFound for an id that is not known."""
        with self._lock:
            entry = self._entries.get(job_id)
            if entry is not None:
                return self._snapshot(entry)
        job = self._records.read(job_id)
        if job is None:
            raise NotFound("There is no run of that name. Its record may have been removed: start the run again.")
        return job

    def jobs(self, owner: str | None = None) -> list[Job]:
        """All jobs, newest first, also those of earlier processes; only those of `owner` where one is given."""
        with self._lock:
            known = {key: self._snapshot(entry) for key, entry in self._entries.items()}
            for job in self._records.read_all():
                known.setdefault(job.id, job)
        mine = [job for job in reversed(known.values()) if owner is None or job.owner == owner]
        return sorted(mine, key=lambda job: job.created_at, reverse=True)

    def cancel(self, job_id: str) -> Job:
        """Stops the job: at once while it waits, after the layer at hand while it runs; else it stays as it is."""
        with self._lock:
            entry = self._entries.get(job_id)
            if entry is not None:
                entry.cancel.set()
                if entry.job.state == "queued":
                    self._queues[entry.job.device].remove(entry.job.owner, entry)
                    self._end(entry, state="cancelled")
        job = self.get(job_id)
        if entry is None and job.state in UNDER_WAY:
            self._records.ask_to_cancel(job_id)  # the process that has it looks for that
        return job

    def wait(self, job_id: str, timeout: float | None = None) -> Job:
        """Waits until the job is over, at most `timeout` seconds, and gives it as it then stands."""
        with self._lock:
            entry = self._entries.get(job_id)
        if entry is not None:
            entry.over.wait(timeout)
        return self.get(job_id)

    def save_again(self, job_id: str) -> Job:
        """Tries once more to store a result that could not be saved; the job is "done" when that succeeds."""
        with self._lock:
            entry = self._entries.get(job_id)
        if entry is None:
            raise NotFound(NOTHING_UNSAVED)
        with entry.saving:  # two clicks, perhaps in two tabs, store one result once
            if entry.unsaved is None:
                raise NotFound(NOTHING_UNSAVED)
            analysis_id = entry.unsaved.save()
            with self._lock:
                entry.unsaved = None
                self._end(entry, state="done", analysis_id=analysis_id, error=None, unsaved=False)
        return self.get(job_id)

    def close(self) -> None:
        """Cancels what waits and runs, and lets the workers end. The records stay."""
        with self._lock:
            self._closed.set()
            for entry in list(self._entries.values()):
                self.cancel(entry.job.id)
            for waiting in self._queues.values():
                waiting.close()
        for entry in list(self._entries.values()):
            entry.over.wait(10)
        self._records.close()

    # -- the worker's side -------------------------------------------------------------------------------------------

    def _queue_of(self, device: str) -> FairQueue[_Entry]:
        if not self._queues:
            threading.Thread(target=self._watch, name="headwater-cancel", daemon=True).start()
        if device not in self._queues:
            self._queues[device] = FairQueue()
            name = f"headwater-worker-{device}"
            threading.Thread(target=self._worker, args=(self._queues[device],), name=name, daemon=True).start()
        return self._queues[device]

    def _watch(self) -> None:
        """Stops the jobs of this process that another one was asked to stop, and tells it which are next."""
        while not self._closed.wait(WATCH_SECONDS):
            with self._lock:
                under_way = [key for key, entry in self._entries.items() if entry.job.state in UNDER_WAY]
                for entry in [self._entries[key] for key in under_way if self._entries[key].job.state == "queued"]:
                    if entry.job.position != (position := self._position(entry)):
                        self._update(entry, position=position)
            for job_id in self._records.asked_to_cancel(under_way):
                self.cancel(job_id)

    def _worker(self, waiting: FairQueue[_Entry]) -> None:
        give_way()
        while (entry := waiting.take()) is not None:
            with self._lock:
                work, entry.work = entry.work, None
                if work is None or entry.job.state != "queued":
                    continue
                self._update(
                    entry, state="running", position=0, started_at=datetime.now(UTC).isoformat(timespec="seconds")
                )
            outcome = self._outcome(entry, work)
            del work
            with self._lock:
                self._end(entry, **outcome)

    def _outcome(self, entry: _Entry, work: Work) -> dict:
        """Runs the work; the fields of the job that tell how it ended."""

        def progress(step: str, layer: int = 0, n_layers: int = 0, seconds_left: float | None = None) -> None:
            with self._lock:
                entry.job = replace(entry.job, step=step, layer=layer, n_layers=n_layers, seconds_left=seconds_left)
                if time.monotonic() - entry.told >= TELL_SECONDS:
                    self._update(entry)

        try:
            return {"state": "done", "analysis_id": work(progress, entry.cancel), "error": None}
        except Cancelled:
            return {"state": "cancelled", "error": None}
        except NotSaved as error:
            entry.unsaved = error
            return {"state": "failed", "error": str(error), "unsaved": True}
        except HeadwaterError as error:
            return {"state": "failed", "error": str(error)}
        except Exception as error:  # whatever a run dies of is its own: the worker lives on for the others
            log.exception("job %s failed", entry.job.id)
            return {"state": "failed", "error": unexpected(error)}

    def _update(self, entry: _Entry, **changes) -> None:
        entry.job, entry.told = replace(entry.job, **changes), time.monotonic()
        try:
            self._records.write(entry.job)
        except OSError as error:  # a full disk must not end the worker; the job goes on and is known in this process
            log.warning("the record of job %s could not be written: %s", entry.job.id, error)

    def _end(self, entry: _Entry, **changes) -> None:
        now = datetime.now(UTC).isoformat(timespec="seconds")
        self._update(entry, finished_at=now, seconds_left=None, **changes)
        entry.work = None
        entry.over.set()
        finished = [key for key, e in self._entries.items() if e.over.is_set() and e.unsaved is None]
        for key in finished[: max(0, len(finished) - KEPT_IN_MEMORY)]:
            del self._entries[key]

    def _snapshot(self, entry: _Entry) -> Job:
        return replace(entry.job, position=self._position(entry))

    def _position(self, entry: _Entry) -> int:
        """How many jobs of the same device come first, the running one included; 0 once it runs or is over."""
        order = self._queues[entry.job.device].order() if entry.job.state == "queued" else []
        if entry not in order:
            return 0
        here = [other.job for other in self._entries.values() if other.job.device == entry.job.device]
        return order.index(entry) + sum(job.state == "running" for job in here)


def key_of(*parts: object) -> str:
    """One text for what a piece of work is: equal for equal parts (of data classes and plain values), else another."""
    return hashlib.sha256(repr(parts).encode("utf-8", "backslashreplace")).hexdigest()


def unexpected(error: BaseException) -> str:
    """One sentence for an error that nobody foresaw: its type, its first line, and what to do."""
    first_line = without_paths((str(error).strip().splitlines() or [""])[0])[:300].rstrip(".")
    what = f"{type(error).__name__}: {first_line}" if first_line else type(error).__name__
    return f"The run stopped with {what}. Nothing was stored; try again, or a shorter prompt if memory ran out."


_process_jobs: dict[Path, Jobs] = {}
_process_lock = threading.Lock()


def process_jobs() -> Jobs:
    """The queue of this process for the current data folder: the same object for every page and session."""
    folder = data_folder()
    with _process_lock:
        if folder not in _process_jobs:
            _process_jobs[folder] = Jobs(folder, most=RUNS.integer())
        return _process_jobs[folder]
