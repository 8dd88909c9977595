"""Settings: one table, read from the environment. The docs are generated from the same table."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from backend.errors import HeadwaterError

PROJECT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Setting:
    """One environment variable."""

    name: str
    default: str
    help: str

    def text(self) -> str:
        return os.environ.get(self.name, "").strip() or self.default

    def integer(self) -> int:
        text = self.text()
        try:
            return int(text)
        except ValueError:
            raise HeadwaterError(f"{self.name}: expected a whole number, got {text!r}. Correct or unset it.") from None


DATA = Setting("HEADWATER_DATA", str(PROJECT / "cache_db"), "Folder of the analyses and converted models.")
CONVERTED = Setting("HEADWATER_CONVERTED", "", "Folder of converted models; empty = models/ in the data folder.")
MODELS = Setting("HEADWATER_MODELS", "2", "How many models stay in memory at once.")
MAX_TOKENS = Setting("HEADWATER_MAX_TOKENS", "32768", "Longest prompt that the app accepts, in tokens.")
DISK_RESERVE_MB = Setting("HEADWATER_DISK_RESERVE_MB", "512", "Disk space a run must leave free.")
QUOTA_MB = Setting(
    "HEADWATER_QUOTA_MB", "0", "Disk space of all analyses, in MB; above it the oldest unpinned ones go. 0 = no limit."
)
RUNS = Setting("HEADWATER_RUNS", "20", "Runs that one person may have waiting and running at a time; 0 = any number.")
IMPORT_MB = Setting("HEADWATER_IMPORT_MB", "1000", "Largest analysis file that is imported, in MB.")
UPLOAD_MB = Setting("HEADWATER_UPLOAD_MB", "2000", "What one person may import in all, in MB; 0 = any amount.")
READ_ONLY = Setting(
    "HEADWATER_READ_ONLY", "0", "1 = a server that only shows: no runs, no imports, nothing is changed or deleted."
)
ANY_MODEL = Setting(
    "HEADWATER_ANY_MODEL",
    "auto",
    "1 = visitors may name folders of the server and models of the hub, 0 = only packaged models, auto = 1 where the "
    "server listens on this machine alone.",
)
SQL_SECONDS = Setting("HEADWATER_SQL_SECONDS", "10", "How long a query on the page SQL may take, in seconds.")
SQL_MB = Setting("HEADWATER_SQL_MB", "512", "Memory that a query on the page SQL may take, in MB.")
SQL_ROWS = Setting("HEADWATER_SQL_ROWS", "20000", "Rows that a query on the page SQL gives at most.")
OFFLINE = Setting("HEADWATER_OFFLINE", "0", "1 = never ask the Hugging Face hub, also where a person types an id.")

SETTINGS = (
    DATA,
    CONVERTED,
    MODELS,
    MAX_TOKENS,
    DISK_RESERVE_MB,
    QUOTA_MB,
    RUNS,
    IMPORT_MB,
    UPLOAD_MB,
    READ_ONLY,
    ANY_MODEL,
    SQL_SECONDS,
    SQL_MB,
    SQL_ROWS,
    OFFLINE,
)


def data_folder() -> Path:
    """Where analyses and converted models live."""
    return Path(DATA.text()).expanduser().resolve()


def converted_folder() -> Path:
    """Where models converted to safetensors live."""
    text = CONVERTED.text()
    return Path(text).expanduser().resolve() if text else data_folder() / "models"


def bundled_folder() -> Path:
    """The analyses that ship with the project."""
    return PROJECT / "cache_db" / "bundled"
