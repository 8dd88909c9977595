"""Chromium for the browser tests."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import psutil
import pytest

from tools.app_server import CHROMIUM, CHROMIUM_FLAGS

CLOSING_SECONDS = 30
STREAMLITS_OWN = "/_stcore/"  # Streamlit asks for two addresses beside every deep link that do not exist; harmless


@pytest.fixture(scope="session")
def chromium() -> Iterator:
    """One browser for all tests; each test opens contexts of its own."""
    if CHROMIUM is None:
        pytest.skip("No Chromium was found: apt-get install chromium")
    from playwright.sync_api import sync_playwright

    playwright = sync_playwright().start()
    drivers = [child for child in psutil.Process().children() if "run-driver" in child.cmdline()]
    browser = playwright.chromium.launch(executable_path=CHROMIUM, args=CHROMIUM_FLAGS)
    yield browser
    # Playwright's driver now and then never says that the browser has gone; the run must not wait for it for ever.
    patience = threading.Timer(CLOSING_SECONDS, lambda: [driver.kill() for driver in drivers])
    patience.start()
    browser.close()
    playwright.stop()
    patience.cancel()


@pytest.fixture
def page(chromium) -> Iterator:
    """A fresh page at 1280 x 720 that fails the test on any error in the browser's console."""
    context = chromium.new_context(viewport={"width": 1280, "height": 720})
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text) if is_error(message) else None)
    page.console_errors = errors
    yield page
    context.close()
    assert not errors, f"errors in the browser's console: {errors}"


def is_error(message) -> bool:
    """Whether a line of the browser's console is an error of ours."""
    return message.type == "error" and STREAMLITS_OWN not in message.location.get("url", "")
