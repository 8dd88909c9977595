"""The page of studies in a real Chromium behind a path prefix, and runs that are found again after a restart."""

from __future__ import annotations

import pytest

from backend.jobs import Jobs
from backend.models import LoadedModel
from backend.shelf import OWNER_COOKIE
from backend.store import Library
from backend.studies import run_study
from backend.studies.random_repeat import STUDY, Parameters
from tests.backend.tiny import build
from tests.stored import store
from tools.app_server import serve

pytestmark = pytest.mark.browser
PREFIX = "tools/attention"


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def address(data):
    with serve(data, prefix=PREFIX) as url:
        yield url


def test_a_study_is_shared_by_its_link_and_a_head_is_one_click(page, address, data):
    model = LoadedModel.wrap(build("llama"), name="tiny-llama")
    study = run_study(STUDY, model, Parameters(length=6, samples=3), library=Library(data))
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto(f"{address}/studies?study={study.id}&measure=previous_token")
    page.get_by_text("previous token head is").wait_for(timeout=60_000)
    chart = page.locator("[data-testid=stVegaLiteChart] canvas, [data-testid=stVegaLiteChart] svg").first
    chart.wait_for(timeout=60_000)
    box = chart.bounding_box()
    for down in (0.3, 0.4, 0.5):  # title above, axis below: one of them is a row of cells
        page.mouse.click(box["x"] + 0.4 * box["width"], box["y"] + down * box["height"])
        page.wait_for_timeout(2500)
        if "head=" in page.url:
            break
    assert "layer=" in page.url and "head=" in page.url
    page.get_by_role("button", name="Copy the link to this view").click()
    page.get_by_role("button", name="Copy the link to this view").filter(has_text="Copied").wait_for()
    link = page.evaluate("navigator.clipboard.readText()")
    assert link.startswith(f"{address}/studies?study={study.id}")
    place = "{layer}.{head}".format(**dict(part.split("=") for part in link.partition("?")[2].split("&")))
    page.goto(link)
    page.get_by_text(f"Head {place}: ").wait_for(timeout=60_000)
    answer = page.request.get(f"{address}/data/{study.id}/scores.csv")
    assert answer.status == 200 and answer.text().startswith("kind,layer,head,samples,induction")


def test_case_75_runs_of_this_browser_are_found_again_after_a_restart_of_the_server(page, chromium, tmp_path):
    with serve(tmp_path) as first:
        page.goto(f"{first}/glossary")
        page.get_by_text("What does each number mean?").wait_for()
        name = next(cookie["value"] for cookie in page.context.cookies() if cookie["name"] == OWNER_COOKIE)
        page.goto("about:blank")
    stored = store(tmp_path, owner=name, title="what was read", visibility="listed")
    jobs = Jobs(tmp_path)  # the process that ran it; it ends before the server starts again
    jobs.wait(jobs.submit("before the restart", lambda progress, cancel: stored, owner=name).id, 20)
    jobs.close()
    with serve(tmp_path) as second:
        page.goto(second)
        page.get_by_text("before the restart").wait_for(timeout=60_000)
        page.get_by_text("Done.").wait_for()
        stranger = chromium.new_context()
        other = stranger.new_page()
        other.goto(second)
        other.get_by_text("what was read").wait_for(timeout=60_000)
        assert other.get_by_text("before the restart").count() == 0
        other.goto("about:blank")
        stranger.close()
        page.goto("about:blank")
