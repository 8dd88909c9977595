"""Runs give way to pages, and only they do."""

from __future__ import annotations

import os
import sys
import threading

import pytest

from backend.jobs import Jobs
from backend.priority import BEHIND


def niceness() -> int:
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux knows a priority of threads")
def test_a_run_and_what_it_starts_give_way_and_others_do_not(tmp_path):
    found = {}

    def work(progress, cancel) -> str:
        found["run"] = niceness()
        below = threading.Thread(target=lambda: found.update(below=niceness()))
        below.start()
        below.join()
        return "x"

    before, jobs = niceness(), Jobs(tmp_path)
    try:
        jobs.wait(jobs.submit("a run", work, owner="a" * 32).id, 20)
    finally:
        jobs.close()
    assert found == {"run": max(before, BEHIND), "below": max(before, BEHIND)}
    assert niceness() == before
