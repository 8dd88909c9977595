"""Computing for requests: a few threads that each use one core.

A window of a map is too small to share among cores, and many people look at once. torch keeps the number of its threads
per thread, so the work of requests has threads of its own; a run under way keeps all its cores.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TypeVar

import torch

Answer = TypeVar("Answer")


def computed(work: Callable[..., Answer], *arguments: object) -> Answer:
    """What the work gives, made in one of the threads; the caller waits in its own."""
    return _threads().submit(work, *arguments).result()


@cache
def _threads() -> ThreadPoolExecutor:
    size = max(2, os.cpu_count() or 1)
    before = torch.get_num_threads()
    everybody = threading.Barrier(size + 1)

    def begin() -> None:
        torch.set_num_threads(1)
        everybody.wait()

    pool = ThreadPoolExecutor(size, "headwater-request")
    for _ in range(size):
        pool.submit(begin)
    everybody.wait()
    torch.set_num_threads(before)  # the last word on what threads that start later get
    return pool
