"""Errors a person reads. Each message says what was expected, what came and what to do."""

from __future__ import annotations

import re

# A place on this machine, quoted or bare, of two parts or more: "/data/x", 'C:\\x'. A division (a / b, 4/2) is none.
_PLACE = re.compile(
    r"""(?P<quote>["'`])(?:~?/|[A-Za-z]:[\\/]|\\\\)[^"'`\n]*(?P=quote)|(?<![\w.:/])(?:~?/[^\s/"'`,;:()]+|[A-Za-z]:[\\/]"""
    r"""[^\s"'`,;:()]*)(?:[\\/][^\s"'`,;()]*)+"""
)


def without_paths(text: str) -> str:
    """A sentence without the places on this machine that it names: it may be read by strangers."""
    return _PLACE.sub("…", text)


class HeadwaterError(Exception):
    """Base of all errors whose text is meant for the person at the screen."""


class Refused(HeadwaterError):
    """The work was not started: model, prompt or options cannot be handled, and the text says why."""


class Cancelled(HeadwaterError):
    """The person stopped the work; nothing was stored."""


class NotFound(HeadwaterError):
    """There is no analysis, study, layer or head of that name."""


class NoExactMap(HeadwaterError):
    """Queries and keys of this head were not kept, so exact weights cannot be computed."""


class Damaged(HeadwaterError):
    """A stored file or a part of it does not have the content it was written with."""


class NewerFile(HeadwaterError):
    """The file was written by a newer Headwater than the one that reads it."""


class NotSaved(HeadwaterError):
    """The run is finished but could not be stored. It is kept: `.analysis` can be read, `.save()` tries again."""

    def __init__(self, message: str, analysis, library) -> None:
        super().__init__(message)
        self.analysis = analysis
        self.library = library

    def save(self) -> str:
        """Stores the result in the library it was meant for; its id."""
        return self.library.save(self.analysis)


class StoreError(HeadwaterError):
    """What was to be stored could not be written: the disk is full, the folder is read-only, or the disk failed."""
