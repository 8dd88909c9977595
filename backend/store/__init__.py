"""Where analyses live: the file, the library, and nothing of how they came about."""

from backend.errors import StoreError
from backend.store.cache_key import cache_key
from backend.store.entries import Entry
from backend.store.head_marks import HeadMark
from backend.store.library import Library
from backend.store.maps import Analysis
from backend.store.places import TemporaryLibrary
from backend.store.study import Study, save_study
from backend.store.writer import AnalysisWriter

__all__ = [
    "Analysis",
    "AnalysisWriter",
    "Entry",
    "HeadMark",
    "Library",
    "StoreError",
    "Study",
    "TemporaryLibrary",
    "cache_key",
    "save_study",
]
