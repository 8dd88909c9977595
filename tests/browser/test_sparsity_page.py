"""The page of sparsity in a browser: opened by its link, its parts clicked through, a study run by a click."""

import re

import pytest
from playwright.sync_api import expect

from backend.models import load
from backend.models.hand_set import NAME
from backend.pipeline import analyse
from backend.store import Library
from tools.app_server import serve

pytestmark = pytest.mark.browser
RHYME = "the fox met a hen near one old barn while two geese slept by our pond and the fox met a hen"
PATIENCE_MS = 120_000


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The app with one analysis of the model whose heads are set by hand; (address, id)."""
    folder = tmp_path_factory.mktemp("data")
    id = analyse(load(NAME), RHYME, library=Library(folder)).id
    with serve(folder) as address:
        yield address, id


def part(page, name: str) -> None:
    page.get_by_role("radio", name=name, exact=True).or_(
        page.get_by_role("button", name=name, exact=True)
    ).first.click()


def test_a_link_a_part_and_a_run(page, site):
    address, id = site
    page.goto(f"{address}/sparsity?analysis={id}&layer=0&head=0")
    said = page.get_by_text("Half of the 8 heads need at most")
    expect(said).to_be_visible(timeout=PATIENCE_MS)
    expect(page.get_by_text("The map of head 0.0 with")).to_be_visible(timeout=PATIENCE_MS)
    expect(page.get_by_text("lie elsewhere than the fitted normal says")).to_be_visible(timeout=PATIENCE_MS)
    part(page, "Policies")
    expect(page).to_have_url(re.compile(r"part=policies"))
    expect(page.get_by_text("retains most of those that can be built")).to_be_visible(timeout=PATIENCE_MS)
    part(page, "Real cost")
    expect(page).to_have_url(re.compile(r"part=cost"))
    expect(page.get_by_text("Predicted only: with 25 % of the keys,")).to_be_visible(timeout=PATIENCE_MS)
    expect(page.get_by_text(re.compile(r"18 runs of 23 tokens, 5 of them judge"))).to_be_visible(timeout=PATIENCE_MS)
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.get_by_text("does least damage of those that can be built")).to_be_visible(timeout=PATIENCE_MS)
    expect(page).to_have_url(re.compile(r"study=[\w-]+"))
    expect(page.get_by_text("With less", exact=True)).to_be_visible()
    expect(page.get_by_text("Most damage is behind token")).to_be_visible(timeout=PATIENCE_MS)
    link = page.url
    page.goto("about:blank")
    page.goto(link)  # the link alone shows the same, without running anything
    expect(page.get_by_text("does least damage of those that can be built")).to_be_visible(timeout=PATIENCE_MS)


@pytest.mark.parametrize("name, said", [("Keys", "layers · about"), ("Dense heads", "8 key heads alone, 5 steps of 8")])
def test_other_parts_say_what_a_run_takes(page, site, name, said):
    address, id = site
    page.goto(f"{address}/sparsity?analysis={id}")
    expect(page.get_by_text("Half of the 8 heads need at most")).to_be_visible(timeout=PATIENCE_MS)
    part(page, name)
    expect(page.get_by_text(said)).to_be_visible(timeout=PATIENCE_MS)
