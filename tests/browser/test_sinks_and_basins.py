"""The pages Sinks and Basins in a real Chromium: opened by link, another part, a study run by a click, its result."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from backend.models import load
from backend.pipeline import analyse
from backend.prompts import Prompt
from backend.store import Library
from tools.app_server import serve

pytestmark = pytest.mark.browser

DOCUMENTS = ["the fox met a hen", "one old barn", "two geese slept under that tall tree", "by our pond"]
LONG = 60_000


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def documents(data):
    """An analysis of four documents by the model that is set by hand."""
    prompt = Prompt(documents=DOCUMENTS, question="a hen near one old barn")
    return analyse(load("hand-set-heads"), prompt, library=Library(data)).id


@pytest.fixture(scope="module")
def address(data, documents):
    with serve(data) as url:
        yield url


def part(page, title: str) -> None:
    page.get_by_role("radio", name=title).or_(page.get_by_role("button", name=title, exact=True)).first.click()


def test_a_what_if_of_the_sinks_is_run_by_a_click_and_kept_in_the_address(page, address):
    page.goto(f"{address}/sinks?analysis=bundled-hand-set&layer=1&head=2")
    page.get_by_text("Which tokens hold attention?").wait_for(timeout=LONG)
    part(page, "What do they do?")
    expect(page).to_have_url(re.compile("part=do"), timeout=LONG)
    page.get_by_text("6 changes, 12 runs of").wait_for(timeout=LONG)
    page.get_by_role("button", name="Run", exact=True).click()
    page.get_by_text("The largest divergence comes from").wait_for(timeout=2 * LONG)
    expect(page).to_have_url(re.compile("study="), timeout=LONG)
    link = page.url
    assert "layer=1" in link and "head=2" in link
    page.get_by_text("Swap the first token", exact=True).first.click()  # of the result; the form is below it
    expect(page).to_have_url(re.compile("edit=swap"), timeout=LONG)
    page.goto("about:blank")
    page.goto(link)
    page.get_by_text("The largest divergence comes from").wait_for(timeout=LONG)
    part(page, "Where are they?")
    expect(page).not_to_have_url(re.compile("study="), timeout=LONG)


def test_a_permutation_of_the_documents_is_run_by_a_click_and_found_again_from_another_tab(page, address, documents):
    page.goto(f"{address}/basins?analysis={documents}")
    page.get_by_text("gets most from all tokens of the question").wait_for(timeout=LONG)
    part(page, "Position or content?")
    expect(page).to_have_url(re.compile("part=position"), timeout=LONG)
    page.get_by_text("4 shifts of").wait_for(timeout=LONG)
    page.get_by_role("button", name="Run", exact=True).click()
    page.get_by_text("Of the differences between shifts and places").wait_for(timeout=2 * LONG)
    expect(page).to_have_url(re.compile("study="), timeout=LONG)
    other = page.context.new_page()
    other.goto(f"{address}/basins?analysis={documents}&part=position")
    other.get_by_text("Finished while you were away: Permutation of the parts").wait_for(timeout=LONG)
    other.get_by_role("button", name="Show it", exact=True).click()
    other.get_by_text("Of the differences between shifts and places").wait_for(timeout=LONG)
    other.close()


def test_basins_opens_on_documents_and_every_choice_of_the_needle_sweep_can_be_read(page, address):
    page.goto(f"{address}/basins")
    page.get_by_text("Five documents and a question").first.wait_for(timeout=LONG)
    page.get_by_text("gets most from all tokens of the question").wait_for(timeout=LONG)
    page.goto(f"{address}/basins?analysis=bundled-hand-set&part=needle")
    for length in ("128", "1,024", "2,048", "8,192"):
        choice = page.get_by_role("button", name=length, exact=True)
        choice.wait_for(timeout=LONG)
        assert choice.evaluate("one => one.scrollWidth <= one.clientWidth")
        box = choice.bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= 1280
