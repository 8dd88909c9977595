"""Caching, compression, privacy and unknown addresses: what holds for every data route."""

import gzip
import shutil

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from backend.routes import routes
from backend.shelf import Shelf
from tests.stored import store


def test_an_answer_never_changes_and_says_so(served):
    path = f"/data/{served.ids.plain}/map/self/0/0"
    first = served.client.get(path, params={"rows": "0:4", "columns": "0:4"})
    assert first.headers["cache-control"] == "public, max-age=31536000, immutable"
    again = served.client.get(
        path, params={"columns": "0:4", "rows": "0:4"}, headers={"If-None-Match": f'"x", W/{first.headers["etag"]}'}
    )
    assert (again.status_code, again.content) == (304, b"")
    assert served.client.get(path, headers={"If-None-Match": "*"}).status_code == 304
    other = served.client.get(
        path, params={"rows": "0:5", "columns": "0:4"}, headers={"If-None-Match": first.headers["etag"]}
    )
    assert other.status_code == 200
    assert other.headers["etag"] != first.headers["etag"]


def test_a_bundled_file_may_be_another_one_after_an_update(tmp_path):
    store(tmp_path / "bundled", id="shipped", n_tokens=12)
    client = TestClient(Starlette(routes=routes(Shelf(tmp_path / "own", tmp_path / "bundled").open)))
    paths = [f"/data/shipped/{path}" for path in ("map/self/0/0", "grid/self/0.png", "tokens.json", "analysis.duckdb")]
    before = [client.get(path) for path in paths]
    shutil.rmtree(tmp_path / "bundled" / "analyses")
    store(tmp_path / "bundled", id="shipped", n_tokens=20)
    for path, old in zip(paths, before, strict=True):
        assert old.headers["cache-control"] == "public, no-cache"
        new = client.get(path, headers={"If-None-Match": old.headers["etag"]})
        assert (new.status_code, new.content == old.content) == (200, False)
        assert client.get(path, headers={"If-None-Match": new.headers["etag"]}).status_code == 304


def test_compression_only_where_it_pays_and_is_wanted(served):
    path = f"/data/{served.ids.plain}/keys.csv"
    packed = served.client.get(path, headers={"Accept-Encoding": "gzip"})
    plain = served.client.get(path, headers={"Accept-Encoding": "identity"})
    assert packed.headers["content-encoding"] == "gzip"
    assert plain.headers["content-encoding"] == "identity"
    assert packed.content == plain.content
    assert int(packed.headers["content-length"]) == len(gzip.compress(plain.content, compresslevel=1, mtime=0))
    for refused in ("gzip;q=0", "gzip; q=0.000", "br", "identity, gzip;q=0", "*;q=0", ""):
        assert served.client.get(path, headers={"Accept-Encoding": refused}).headers["content-encoding"] == "identity"
    for taken in ("br, gzip;q=0.5", "GZIP", "*", "x-gzip", "gzip;q=1, *;q=0"):
        assert served.client.get(path, headers={"Accept-Encoding": taken}).headers["content-encoding"] == "gzip"
    small = served.client.get(f"/data/{served.ids.plain}/map/self/0/0?rows=0:4&columns=0:4")
    assert small.headers["content-encoding"] == "identity"


@pytest.mark.parametrize("path", ["map/self/0/0", "grid/self/0.png", "tokens.json", "heads.parquet", "analysis.duckdb"])
def test_a_private_analysis_is_there_for_its_owner_only(served, path):
    served.client.cookies.clear()
    private, missing = f"/data/{served.ids.private}/{path}", f"/data/{'x' * 24}/{path}"
    stranger = served.client.get(private)
    nobody = served.client.get(missing)
    assert stranger.status_code == nobody.status_code == 404
    assert stranger.json()["error"].replace(served.ids.private, "") == nobody.json()["error"].replace("x" * 24, "")
    served.client.cookies.update(served.owner)
    owner = served.client.get(private)
    assert owner.status_code == 200
    assert owner.headers["cache-control"].startswith("private,")
    tag = {"If-None-Match": owner.headers["etag"]}
    assert served.client.get(private, headers=tag).status_code == 304
    served.client.cookies.clear()
    assert served.client.get(private, headers=tag).status_code == 404


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/",
        "/nothing",
        "/%0A",
        "/a%0Ab/c",
        "/{id}/%0D%0A0",
        "/a/b/c/d/e",
        "/{id}/map/self/0",
        "/{id}/secrets.txt",
        "/{id}/grid/self/0.jpg",
        "/{id}",
    ],
)
@pytest.mark.parametrize("prefix", ["", "/tools/attention"])
def test_what_does_not_exist_answers_404_as_json(served, prefix, path):
    answer = served.client.get(f"{prefix}/data{path.format(id=served.ids.plain)}")
    assert answer.status_code in (400, 404)
    assert set(answer.json()) == {"error"}


@pytest.mark.parametrize("id", ["-x", "a" * 65, "%2e%2e", "a.b", "a%00b", "a'b", "ä"])
def test_an_id_that_is_none_is_refused(served, id):
    answer = served.client.get(f"/data/{id}/map/self/0/0")
    assert answer.status_code == 404
    assert set(answer.json()) == {"error"}


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "PROPFIND", "X" * 200])
@pytest.mark.parametrize("path", ["", "/", "/health", "/{id}/heads.json", "/{id}/map/self/0/0", "/nothing"])
def test_only_get_is_answered(served, method, path):
    answer = served.client.request(method, f"/data{path.format(id=served.ids.plain)}")
    assert answer.status_code == 405
    assert "GET" in answer.json()["error"] and len(answer.json()["error"]) < 80


def test_head_answers_like_get_without_a_body(served):
    assert served.client.head(f"/data/{served.ids.plain}/heads.json").status_code == 200


def test_routes_answer_behind_a_prefix_too_with_the_same_tag(served):
    path = f"/data/{served.ids.plain}/heads.json"
    here, there = served.client.get(path), served.client.get(f"/tools/attention{path}")
    assert here.content == there.content
    assert here.headers["etag"] == there.headers["etag"]


def test_health(served):
    answer = served.client.get("/data/health")
    assert (answer.status_code, answer.json()["ok"]) == (200, True)
    assert answer.headers["cache-control"] == "no-store"


def test_a_deleted_analysis_is_gone_at_once(served):
    id = store(served.folder)
    assert served.client.get(f"/data/{id}/map/self/0/0").status_code == 200
    served.shelf.own.delete(id)
    for path in ("map/self/0/0", "grid/self/0.png", "analysis.duckdb"):
        answer = served.client.get(f"/data/{id}/{path}")
        assert answer.status_code == 404
        assert "deleted" in answer.json()["error"]


@pytest.mark.parametrize("prefix", ["", "/tools/attention"])
def test_no_answer_is_taken_for_a_page(served, prefix):
    """Whatever is asked, found or not: nothing in it may run, load or be framed."""
    id = served.ids.plain
    paths = ["", "/", "/health", f"/{id}/map/self/0/0", f"/{id}/grid.png", f"/{id}/tokens.json", f"/{id}/tokens.csv"]
    paths += [
        f"/{id}/analysis.duckdb",
        f"/{id}/heads.parquet",
        "/x/<script>alert(1)</script>",
        f"/{served.ids.private}/rows.csv",
    ]
    for path in paths:
        for method in ("GET", "HEAD", "POST"):
            headers = served.client.request(method, f"{prefix}/data{path}").headers
            policy = headers["content-security-policy"]
            assert "default-src 'none'" in policy and "sandbox" in policy and "frame-ancestors 'none'" in policy
            assert headers["x-content-type-options"] == "nosniff"
            assert "text/html" not in headers.get("content-type", "")
