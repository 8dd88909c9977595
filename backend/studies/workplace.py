"""What a study has done so far, on disk: <library>/studies/<id>/study.json and one file per finished run.

Each file is written under another name and renamed, so a run is there completely or not at all. Whoever works on a
study holds its lock; a folder whose lock nobody holds is a study that was stopped and can be carried on. The id is the
one under which the finished study will be published.
"""

from __future__ import annotations

import json
import logging
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from filelock import FileLock, Timeout

from backend.errors import NotFound, Refused, StoreError
from backend.store import Library, files, ids
from backend.studies.definition import RunResult

FOLDER = "studies"
FACTS = "study.json"
LOCK = "study.lock"
RUN = re.compile(r"run_(\d{6})\.json")
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Begun:
    """What is known of a study from its start."""

    id: str
    study: str  # name of its definition
    parameters: dict
    runs: int
    key: str  # what decides its results: model, parameters, versions
    model: str
    weights_hash: str
    visibility: str
    owner: str | None
    made_of: tuple[str, ...]
    title: str
    created_at: str  # UTC, ISO 8601


class Workplace:
    """The folder of one study that is not finished."""

    def __init__(self, folder: Path) -> None:
        """NotFound where the folder holds no study."""
        self.folder = folder
        try:
            facts = json.loads((folder / FACTS).read_text("utf-8"))
            facts["made_of"] = tuple(facts["made_of"])
            self.begun = Begun(**{item.name: facts[item.name] for item in fields(Begun)})
        except (FileNotFoundError, NotADirectoryError):
            raise NotFound(f"There is no unfinished study {folder.name!r}. It may be finished or discarded.") from None
        except (ValueError, KeyError, TypeError) as error:
            raise NotFound(f"The unfinished study {folder.name!r} cannot be read ({error}). Start it again.") from None

    @classmethod
    def create(cls, library: Library, begun: Begun) -> Workplace:
        """Makes the folder; it counts as a study once study.json has its name."""
        folder = library.path / FOLDER / ids.checked(begun.id)
        try:
            folder.mkdir(parents=True)
            files.write_text(folder / FACTS, json.dumps(asdict(begun), allow_nan=False))
        except OSError as error:
            raise not_written(error) from error
        return cls(folder)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Held by whoever works on the study; Refused where somebody else does."""
        lock = FileLock(self.folder / LOCK)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            raise Refused("This study is under way already, here or in another program. Wait for it.") from None
        try:
            yield
        finally:
            lock.release()

    def under_way(self) -> bool:
        """Whether somebody works on it now."""
        try:
            with FileLock(self.folder / LOCK, timeout=0):
                return False
        except Timeout:
            return True

    def continues(self, key: str, visibility: str, made_of: tuple[str, ...]) -> bool:
        """Whether this is that very study, and nobody works on it."""
        begun = self.begun
        return (begun.key, begun.visibility, begun.made_of) == (key, visibility, made_of) and not self.under_way()

    def done(self) -> dict[int, Path]:
        """number -> file of the finished runs, in order."""
        found = {int(match[1]): path for path in self.folder.iterdir() if (match := RUN.fullmatch(path.name))}
        return dict(sorted(found.items()))

    def read(self, number: int) -> RunResult | None:
        """The result of a finished run; None where it is missing or damaged, and must be made again."""
        try:
            content = json.loads(self._path(number).read_text("utf-8"))
            return RunResult(content["rows"], tuple(content["members"]))
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError):
            log.warning("the result of run %d in %s cannot be read: the run is made again", number, self.folder)
            return None

    def write(self, number: int, result: RunResult) -> None:
        """Keeps the result of a run."""
        text = json.dumps({"rows": result.rows, "members": list(result.members)}, allow_nan=False)
        try:
            files.write_text(self._path(number), text)
        except OSError as error:
            raise not_written(error) from error

    def remove(self) -> None:
        """Forgets everything: the study is published, or was given up."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _path(self, number: int) -> Path:
        return self.folder / f"run_{number:06d}.json"


def unfinished(library: Library, owner: str | None = None) -> list[Workplace]:
    """Studies of this owner (None: those that belong to nobody) that are not finished, newest first."""
    found = []
    for facts in (library.path / FOLDER).glob(f"*/{FACTS}"):
        try:
            found.append(Workplace(facts.parent))
        except NotFound as error:
            log.warning("%s", error)
    mine = [place for place in found if place.begun.owner == owner]
    return sorted(mine, key=lambda place: place.begun.created_at, reverse=True)


def workplace_of(library: Library, id: str) -> Workplace:
    """The unfinished study of that id; NotFound where there is none. The id may come from anywhere."""
    return Workplace(library.path / FOLDER / ids.checked(id))


def not_written(error: OSError) -> StoreError:
    """The disk did not take the result of a run."""
    return StoreError(
        f"The result of a run could not be written ({error.strerror}). The runs before it are kept: free some disk "
        "space and start the study again."
    )
