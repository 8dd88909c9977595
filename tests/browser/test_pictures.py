"""The script that takes the README's pictures."""

import io
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from pages.shared.menu import menu
from tools.app_server import CHROMIUM, PROJECT
from tools.pictures import LARGEST_BYTES, PICTURES, SIZE, save

pytestmark = pytest.mark.browser


def test_the_pictures_of_a_page_and_of_a_lesson_are_taken(chromium_installed, tmp_path):
    command = [sys.executable, "-m", "tools.pictures", "--into", str(tmp_path), "glossary", "lesson"]
    subprocess.run(command, cwd=PROJECT, check=True, timeout=300)
    for path in tmp_path.iterdir():
        picture = Image.open(path)
        assert picture.size == (SIZE["width"], SIZE["height"]) and path.stat().st_size <= LARGEST_BYTES
        assert len(picture.convert("RGB").getcolors(1 << 24)) > 20  # not an empty page
    assert {path.stem for path in tmp_path.iterdir()} == {"glossary", "lesson"}


def test_a_picture_that_cannot_be_small_is_refused(tmp_path):
    noise = np.random.default_rng(0).integers(0, 255, (720, 1280, 3), dtype=np.uint8)
    png = io.BytesIO()
    Image.fromarray(noise).save(png, "PNG")
    with pytest.raises(SystemExit, match=r"loud\.png has"):
        save(png.getvalue(), tmp_path / "loud.png")


def test_every_page_has_its_picture():
    assert {name for name, _ in menu()} <= set(PICTURES)


@pytest.fixture
def chromium_installed():
    if CHROMIUM is None:
        pytest.skip("No Chromium was found: apt-get install chromium")
