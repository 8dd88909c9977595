"""The browser tells that a picture is on its screen; a page's script waits for that, but never long."""

from __future__ import annotations

import threading

from backend.painted import MOST, Painted, painted

NAME = "a-picture-of-this-test"


def test_the_route_tells_and_checks_the_name(served):
    answer = served.client.get(f"/data/painted/{NAME}")
    assert answer.status_code == 204 and answer.headers["cache-control"] == "no-store"
    assert painted.wait(NAME, 0)
    for name in ("short", "x" * 65, "with.a.dot.in.its.name"):
        refused = served.client.get(f"/data/painted/{name}")
        assert refused.status_code == 400 and "expected 16 to 64 letters" in refused.json()["error"]
    assert served.client.get(f"/data/painted/{NAME}?more=1").status_code == 400


def test_waiting_ends_with_the_news_or_after_a_while():
    pictures = Painted()
    assert not pictures.wait("never", 0.02)
    threading.Timer(0.05, pictures.tell, ("soon",)).start()
    assert pictures.wait("soon", 20.0)


def test_old_names_are_forgotten():
    pictures = Painted()
    for number in range(MOST + 1):
        pictures.tell(str(number))
    assert not pictures.wait("0", 0) and pictures.wait(str(MOST), 0)
