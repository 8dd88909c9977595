"""The waiting work of one device: everybody in turn, each person's own in the order it came."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from typing import Generic, TypeVar

Item = TypeVar("Item")


class FairQueue(Generic[Item]):
    """Thread-safe. Whoever was served last waits behind everybody else who waits."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[str | None, deque[Item]] = OrderedDict()  # whose turn is next comes first
        self._changed = threading.Condition()
        self._closed = False

    def put(self, owner: str | None, item: Item) -> None:
        """Behind what this person has waiting already."""
        with self._changed:
            self._waiting.setdefault(owner, deque()).append(item)
            self._changed.notify()

    def take(self) -> Item | None:
        """The next one, as soon as there is one; None once the queue is closed and empty."""
        with self._changed:
            while not self._waiting:
                if self._closed:
                    return None
                self._changed.wait()
            owner, mine = self._waiting.popitem(last=False)
            item = mine.popleft()
            if mine:
                self._waiting[owner] = mine  # behind the others
            return item

    def remove(self, owner: str | None, item: Item) -> None:
        """Takes one out that is no longer wanted."""
        with self._changed:
            mine = self._waiting.get(owner, deque())
            if item in mine:
                mine.remove(item)
                if not mine:
                    del self._waiting[owner]

    def order(self) -> list[Item]:
        """What waits, in the order in which it would be taken if nothing came in between."""
        with self._changed:
            rounds = [list(mine) for mine in self._waiting.values()]
        longest = max(map(len, rounds), default=0)
        return [mine[turn] for turn in range(longest) for mine in rounds if turn < len(mine)]

    def close(self) -> None:
        """Lets whoever takes from it end, once nothing waits."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
