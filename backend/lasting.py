"""Modules stay for as long as the server runs, so garbage collection need not look through them.

Streamlit collects garbage after every run of a page. With torch and transformers loaded that means half a million
objects of modules: a third of a second in which nobody is served. `gc.freeze` takes them out of the search. What is
frozen is still freed when its last reference goes; only cycles among frozen objects would stay, so it is called when
modules were imported, which ends, and not with every run.
"""

from __future__ import annotations

import gc
import sys
from threading import Lock

NEWS = 20  # modules: less than an import of a library
_lock = Lock()
_known = 0


def leave_out_modules() -> bool:
    """Takes what exists out of garbage collection if modules were imported since the last time; whether it did."""
    global _known  # noqa: PLW0603 a count of the process
    with _lock:
        if len(sys.modules) - _known < NEWS:
            return False
        _known = len(sys.modules)
        gc.freeze()
        return True
