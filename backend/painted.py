"""Pictures that a browser has told to be on its screen, so that a page's script can wait for one before it goes on."""

from __future__ import annotations

from threading import Condition

MOST = 256  # pictures whose names are remembered


class Painted:
    """Names of pictures that are on a screen. Safe between threads; another process does not hear of them."""

    def __init__(self) -> None:
        self._names: dict[str, None] = {}
        self._news = Condition()

    def tell(self, name: str) -> None:
        """The picture of that name is on the screen."""
        with self._news:
            self._names[name] = None
            while len(self._names) > MOST:
                del self._names[next(iter(self._names))]
            self._news.notify_all()

    def wait(self, name: str, seconds: float) -> bool:
        """Waits for the picture, at most so long; whether it is there."""
        with self._news:
            return self._news.wait_for(lambda: name in self._names, seconds)


painted = Painted()  # of this process
