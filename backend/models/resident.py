"""load(): one model for however many people ask for it, and a bounded number of models in memory."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from concurrent.futures import Future

from backend.models.load_time import learn, load_time
from backend.models.loaded import LoadedModel
from backend.models.loading import read_model
from backend.settings import MODELS

_models: OrderedDict[tuple, Future[LoadedModel]] = OrderedDict()  # least recently used first
_lock = threading.Lock()


def load(
    name_or_path: str,
    *,
    revision: str | None = None,
    token: str | None = None,
    dtype: str = "auto",
    device: str = "auto",
) -> LoadedModel:
    """A model ready to be captured: a bundled one by name, a folder, a GGUF file, or a Hugging Face id.

    dtype "auto" is float32 on the CPU and for bundled models, else the file's own; or "float32", "bfloat16", "float16".
    device "auto" is a GPU where there is one; "spread" lays the layers over all GPUs, then memory, then the disk.
    Who asks for a model that somebody is loading waits for that one. At most
    HEADWATER_MODELS stay in memory; the one unused for longest goes first. Raises Refused with one sentence.
    """
    # A model that was opened with a token is shared only with those who hold the token.
    key = (str(name_or_path).strip(), revision, token, dtype, device)
    with _lock:
        future = _models.get(key)
        mine = future is None
        if mine:
            future = _models[key] = Future()
        _models.move_to_end(key)
    if mine:
        try:
            make_room()
            start = time.perf_counter()
            model = read_model(name_or_path, revision, token, dtype, device)
            learn(key[0], time.perf_counter() - start)
            future.set_result(model)
        except BaseException as error:
            with _lock:
                _models.pop(key, None)  # the next one tries again
            future.set_exception(error)
            raise
    return future.result()


def in_memory(name: str, revision: str | None = None) -> bool:
    """Whether `load` would give this model at once."""
    with _lock:
        return any(key[:2] == (name.strip(), revision) and future.done() for key, future in _models.items())


def seconds_to_load(name: str, revision: str | None = None) -> float | None:
    """What `load` will take, before it is called; None where it is in memory, or where that is not known."""
    expected = None if in_memory(name, revision) else load_time(name.strip())
    return None if expected is None else expected.seconds


def make_room() -> None:
    """Let go of the models unused for longest until one more fits. Who still works with one keeps it."""
    limit = max(1, MODELS.integer())
    with _lock:
        for key in [key for key, future in _models.items() if future.done()]:
            if len(_models) <= limit:
                break
            del _models[key]
