"""Who waits for whom where runs and pages share the processor."""

from __future__ import annotations

import os
import sys
import threading

BEHIND = 10  # of 19: a tenth of the processor's time while somebody else wants it, all of it otherwise


def give_way() -> None:
    """The calling thread, and the threads that it starts, let those that serve pages go first.

    Only Linux knows a priority of threads; elsewhere nothing changes. A thread cannot take it back without rights."""
    if sys.platform == "linux":
        thread = threading.get_native_id()
        os.setpriority(os.PRIO_PROCESS, thread, max(BEHIND, os.getpriority(os.PRIO_PROCESS, thread)))
