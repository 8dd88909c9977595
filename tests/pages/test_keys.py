"""The list of keys: what DESIGN promises is there, each key once."""

from __future__ import annotations

from pages.shared.look.keys import KEYS


def test_no_key_has_two_meanings_and_every_line_says_something():
    names = [key.keys for key in KEYS]
    assert len(names) == len(set(names)) and all(key.does for key in KEYS)
    assert not any(key.presses and key.field for key in KEYS)


def test_the_promised_keys_are_listed():
    listed = " ".join(key.keys for key in KEYS).split()
    assert {"←", "→", "↑", "↓", "+", "−", "0", "Home", "/", "s", "l", "t", "d", "c", "p", "?"} <= set(listed)
