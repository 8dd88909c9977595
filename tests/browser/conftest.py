"""Chromium for the browser tests."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--force-device-scale-factor=1"]


@pytest.fixture(scope="session")
def chromium() -> Iterator:
    """One browser for all tests; each test opens contexts of its own."""
    if CHROMIUM is None:
        pytest.skip("No Chromium was found: apt-get install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def page(chromium) -> Iterator:
    """A fresh page at 1280 x 720 that fails the test on any error in the browser's console."""
    context = chromium.new_context(viewport={"width": 1280, "height": 720})
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.console_errors = errors
    yield page
    context.close()
    assert not errors, f"errors in the browser's console: {errors}"
