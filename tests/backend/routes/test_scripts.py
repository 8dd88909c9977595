"""Scripts of the pages: fetched once by a name that changes with their text, packed where the browser takes that."""

from __future__ import annotations

import re

from backend.scripts import publish
from pages.shared import head_grid, map_viewer
from pages.shared.scripts import by_reference


def test_a_published_script_is_answered_for_good_packed_and_plain(served):
    text = "export default () => 'é';" * 50
    name = publish("sample", text)
    assert name != publish("sample", text + " ") and name == publish("sample", text)
    for prefix in ("", "/tools/attention"):
        packed = served.client.get(f"{prefix}/data/scripts/{name}.js", headers={"accept-encoding": "gzip"})
        assert packed.text == text and packed.headers["content-encoding"] == "gzip"
        assert "immutable" in packed.headers["cache-control"] and "javascript" in packed.headers["content-type"]
    plain = served.client.get(f"/data/scripts/{name}.js", headers={"accept-encoding": "identity"})
    assert plain.text == text and "content-encoding" not in plain.headers


def test_an_unknown_script_is_refused_in_words(served):
    answer = served.client.get("/data/scripts/sample-0000.js")
    assert answer.status_code == 404 and "There is no script" in answer.json()["error"]


def test_the_stub_names_the_script_that_is_answered(served):
    for room in (map_viewer, head_grid):
        name = re.search(r"data/scripts/([\w-]+\.js)", by_reference(room.__name__.rsplit(".")[-1], room.script()))[1]
        assert served.client.get(f"/data/scripts/{name}").text == room.script()
