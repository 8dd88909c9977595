"""What is kept of a job on disk: one small JSON file per job, replaced atomically.

Several processes may share the folder. Each holds a lock file of its own while it lives, so that another can tell a job
that is under way elsewhere from one whose process has ended.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import secrets
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

from filelock import FileLock, Timeout

from backend.errors import HeadwaterError

KEPT = 1000  # records of finished jobs; the oldest beyond that are removed when a process starts
UNDER_WAY = ("queued", "running")
ID = re.compile(r"[A-Za-z0-9_-]{22}")
INTERRUPTED = "The server was stopped before this run was finished. Start the run again."
NEVER_SAVED = (
    "This run was finished, but its result had not been saved when the server was stopped. Start the run again."
)
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Job:
    """One piece of work, as it stood at one moment."""

    id: str
    title: str
    state: str  # "queued", "running", "done", "failed", "cancelled", "interrupted" (its process ended)
    type: str = "analysis"  # or "study": what its result is
    device: str = "cpu"
    owner: str | None = None
    key: str | None = None  # what the work is; equal work of one owner is done once
    created_at: str = ""  # UTC, ISO 8601
    started_at: str | None = None
    finished_at: str | None = None
    position: int = 0  # jobs ahead of it on its device, the running one included
    step: str = ""  # "layer", "store" ..., in the words of the pipeline
    layer: int = 0  # layers done
    n_layers: int = 0
    seconds_left: float | None = None
    analysis_id: str | None = None
    error: str | None = None  # one sentence: what happened and what to do
    unsaved: bool = False  # its result is kept in this process and can be saved again


class Records:
    """The job records of one folder, as seen by this process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._process = secrets.token_hex(8)
        self._known: dict[Path, tuple[int, tuple[Job, str] | None]] = {}  # records by the time of their last change
        self._alive = FileLock(folder / f"{self._process}.lock")
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._alive.acquire()
        except OSError as error:
            raise HeadwaterError(
                f"Runs cannot be started: the data folder cannot be written ({error.strerror}). "
                "Make it writable or set HEADWATER_DATA to another folder."
            ) from error
        self._clean()

    def write(self, job: Job) -> None:
        """Stores the record; a half-written one is never seen."""
        text = json.dumps({**asdict(job), "process": self._process})
        temporary = self.folder / f"{job.id}.{self._process}.tmp"
        temporary.write_text(text, "utf-8")
        temporary.replace(self.folder / f"{job.id}.json")

    def read(self, job_id: str) -> Job | None:
        """The record of one job, None where there is none; the id may come from a link."""
        return self._read(self.folder / f"{job_id}.json") if ID.fullmatch(job_id) else None

    def read_all(self) -> list[Job]:
        """All records of the folder, oldest first; what did not change is not read again. One thread at a time."""
        stamps = {}
        for path in self.folder.glob("*.json"):
            with contextlib.suppress(FileNotFoundError):  # another process removed an old one meanwhile
                stamps[path] = path.stat().st_mtime_ns
        for path in self._known.keys() - stamps.keys():
            del self._known[path]
        for path, stamp in stamps.items():
            if path not in self._known or self._known[path][0] != stamp:
                self._known[path] = (stamp, self._parsed(path))
        jobs = [self._as_it_stands(*parsed) for _, parsed in self._known.values() if parsed is not None]
        return sorted(jobs, key=lambda job: job.created_at)

    def ask_to_cancel(self, job_id: str) -> None:
        """Tells the process that has this job to stop it."""
        try:
            (self.folder / f"{job_id}.cancel").touch()
        except OSError as error:
            log.warning("job %s of another process cannot be told to stop: %s", job_id, error)

    def asked_to_cancel(self, job_ids: list[str]) -> list[str]:
        """Those out of `job_ids` that another process was asked to stop; each is given once."""
        asked = []
        for job_id in job_ids:
            with contextlib.suppress(OSError):
                (self.folder / f"{job_id}.cancel").unlink()
                asked.append(job_id)
        return asked

    def close(self) -> None:
        self._alive.release()
        (self.folder / f"{self._process}.lock").unlink(missing_ok=True)

    def _read(self, path: Path) -> Job | None:
        parsed = self._parsed(path)
        return None if parsed is None else self._as_it_stands(*parsed)

    def _parsed(self, path: Path) -> tuple[Job, str] | None:
        """A record and the process it belongs to."""
        try:
            content = json.loads(path.read_text("utf-8"))
            # What an older record does not have yet keeps its default.
            return Job(**{f.name: content[f.name] for f in fields(Job) if f.name in content}), str(content["process"])
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError):
            log.warning("the job record %s cannot be read and is left out", path)
            return None

    def _as_it_stands(self, job: Job, process: str) -> Job:
        if job.state in UNDER_WAY and not self._lives(process):
            return replace(job, state="interrupted", error=INTERRUPTED, seconds_left=None)
        if job.unsaved and process != self._process:  # what is kept can be saved by the process that keeps it only
            return replace(job, unsaved=False, error=job.error if self._lives(process) else NEVER_SAVED)
        return job

    def _lives(self, process: str) -> bool:
        if process == self._process:
            return True
        lock = self.folder / f"{process}.lock"
        if not re.fullmatch(r"[0-9a-f]{16}", process) or not lock.exists():
            return False
        try:
            with FileLock(lock, timeout=0):
                return False
        except Timeout:
            return True

    def _clean(self) -> None:
        """Removes what ended processes left behind: their locks, half-written files, and the oldest records."""
        for lock in self.folder.glob("*.lock"):
            if not self._lives(lock.stem):
                lock.unlink(missing_ok=True)
        for temporary in self.folder.glob("*.tmp"):
            if not self._lives(temporary.stem.split(".")[-1]):
                temporary.unlink(missing_ok=True)
        for asked in self.folder.glob("*.cancel"):
            if (job := self.read(asked.stem)) is None or job.state not in UNDER_WAY:
                asked.unlink(missing_ok=True)
        over = sorted(self.folder.glob("*.json"), key=os.path.getmtime)
        for path in over[: max(0, len(over) - KEPT)]:
            if (job := self._read(path)) is None or job.state not in UNDER_WAY:
                path.unlink(missing_ok=True)
