"""Why something could not be stored is said by its kind, and never with a place on the server."""

import errno

import duckdb
import pytest
from filelock import Timeout

from backend.errors import without_paths
from backend.store import database

PLACE = "/srv/attention data/analyses/x/analysis.writing"


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError(errno.ENOSPC, "No space left on device", PLACE), "the disk is full. Free some space"),
        (OSError(errno.EDQUOT, "Disk quota exceeded", PLACE), "the disk is full"),
        (OSError(errno.EFBIG, "File too large", PLACE), "the disk is full"),
        (duckdb.IOException(f'IO Error: Could not write file "{PLACE}": No space left on device'), "the disk is full"),
        (duckdb.OutOfMemoryException("failed to offload data block ('max_temp_directory_size')"), "the disk is full"),
        (PermissionError(errno.EACCES, "Permission denied", PLACE), "its folder cannot be written. Make the data"),
        (OSError(errno.EROFS, "Read-only file system", PLACE), "its folder cannot be written"),
        (duckdb.IOException(f'IO Error: Cannot open file "{PLACE}": Permission denied'), "its folder cannot be"),
        (duckdb.IOException(f'IO Error: Could not set lock on file "{PLACE}": held in PID 7'), "another program holds"),
        (Timeout(PLACE), "another program holds its file"),
        (duckdb.OutOfMemoryException("Out of Memory Error: could not allocate block"), "not enough memory"),
        (OSError(errno.EIO, "Input/output error", PLACE), "could not be read back. Check the disk"),
        (duckdb.IOException(f"IO Error: Corrupt database file {PLACE}"), "could not be read back"),
        (OSError(errno.ENOENT, "No such file or directory", PLACE), "No such file or directory. Save again"),
        (duckdb.TransactionException("TransactionContext Error: Conflict on update"), "Conflict on update. Save again"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_each_kind_has_its_advice_and_no_place(error, words):
    said = str(database.store_error(error))
    assert said.startswith("The analysis could not be saved: ") and words in said
    assert "/srv" not in said and "analysis.writing" not in said
    assert ("space" in said) == ("disk is full" in said)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ('Cannot open file "/tmp/x y/a.duckdb": No such file', "Cannot open file …: No such file"),
        ("Could not write to /var/data/x.writing now", "Could not write to … now"),
        ("[Errno 13] Permission denied: '/data/x'", "[Errno 13] Permission denied: …"),
        (r"C:\Users\me\b.txt is gone", "… is gone"),
        (r"'\\server\share\b' is gone", "… is gone"),
        ("~/secret/x", "…"),
        ("near 4/2, a / b, a/b/c, and/or", "near 4/2, a / b, a/b/c, and/or"),
        ("http://localhost/x/y", "http://localhost/x/y"),
        ("organisation/model", "organisation/model"),
    ],
)
def test_places_are_taken_out_of_sentences_and_nothing_else(text, wanted):
    assert without_paths(text) == wanted
