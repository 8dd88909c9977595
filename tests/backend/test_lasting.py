"""Modules are left out of garbage collection; what a run leaves behind is still collected."""

from __future__ import annotations

import gc
import sys
import types
import weakref

from backend import lasting


class Ring:
    """An object that holds itself."""

    def __init__(self) -> None:
        self.itself = self


def test_modules_are_left_out_once_and_garbage_is_still_found(monkeypatch):
    monkeypatch.setattr(lasting, "_known", 0)
    try:
        assert lasting.leave_out_modules() and gc.get_freeze_count() > 1000
        assert not lasting.leave_out_modules(), "nothing was imported since"
        gone = weakref.ref(Ring())
        gc.collect()
        assert gone() is None
        for number in range(lasting.NEWS):
            monkeypatch.setitem(sys.modules, f"imported_later_{number}", types.ModuleType("later"))
        assert lasting.leave_out_modules()
    finally:
        gc.unfreeze()
