"""Threads of the CPU path: each runs whole pieces of work with torch's own threads switched off inside it.

A matrix product of one strip is too small to share among cores; strips are not. torch keeps the number of its threads
per thread, so the threads started here are told to use one, and everybody else's setting stays.
"""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import torch

_lock = threading.Lock()
_pool: ThreadPoolExecutor | None = None
_size = 0


def numba_is_here() -> bool:
    """Whether compiled loops can run in these threads."""
    return importlib.util.find_spec("numba") is not None


def threads() -> int:
    """How many threads torch may use here."""
    return torch.get_num_threads()


def run_all(work: Sequence[Callable[[], None]], *, parallel: bool) -> None:
    """Run all pieces; the first error is raised once none is running any more."""
    if not parallel or threads() == 1 or len(work) == 1:
        for piece in work:
            piece()
        return
    inference = torch.is_inference_mode_enabled()  # kept per thread, and tensors made under it accept no others

    def run(piece: Callable[[], None]) -> None:
        with torch.inference_mode(inference):
            piece()

    pool = _executor(threads())
    futures = [pool.submit(run, piece) for piece in work]
    errors = [error for future in futures if (error := future.exception()) is not None]
    if errors:
        raise errors[0]


def _executor(size: int) -> ThreadPoolExecutor:
    global _pool, _size  # one pool per process, as torch has
    with _lock:
        if _pool is None or _size != size:
            if _pool is not None:
                _pool.shutdown(wait=False)
            _pool, _size = ThreadPoolExecutor(size, "headwater-strip"), size
            everybody = threading.Barrier(size + 1)
            for _ in range(size):
                _pool.submit(_use_one_thread, everybody)
            everybody.wait()
            torch.set_num_threads(size)  # the last word on what threads that start later get
        return _pool


def _use_one_thread(everybody: threading.Barrier) -> None:
    torch.set_num_threads(1)
    everybody.wait()
