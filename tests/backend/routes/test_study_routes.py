"""A study at the addresses for programs: its tables and its file like those of an analysis; it has no maps."""

import io

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from backend.store import save_study
from tests.stored import store

SCORES = pa.table({"layer": [0, 0], "head": [0, 1], "induction": [0.5, None]})


@pytest.fixture(scope="module")
def study(served):
    return save_study(served.shelf.own, "random_repeat", {}, [], {"scores": SCORES})


def test_its_tables_and_its_file_are_answered(served, study, tmp_path):
    get = served.client.get
    assert pq.read_table(io.BytesIO(get(f"/data/{study}/scores.parquet").content)).equals(SCORES)
    assert get(f"/data/{study}/scores.csv").text == "layer,head,induction\r\n0,0,0.5\r\n0,1,\r\n"
    assert get(f"/data/{study}/scores.json").json()["rows"] == [[0, 0, 0.5], [0, 1, None]]
    (tmp_path / "study.duckdb").write_bytes(get(f"/data/{study}/analysis.duckdb").content)
    with duckdb.connect(str(tmp_path / "study.duckdb"), read_only=True) as plain:
        assert plain.execute("SELECT count(*) FROM scores").fetchone() == (2,)


@pytest.mark.parametrize("path", ["map/self/0/0", "grid/self/0.png", "links.json", "rows.csv"])
def test_what_it_does_not_have_is_said_as_json(served, study, path):
    answer = served.client.get(f"/data/{study}/{path}")
    assert answer.status_code == 404 and answer.headers["content-type"] == "application/json"
    assert "study" in answer.json()["error"] or "There is no table" in answer.json()["error"]


def test_a_private_one_is_its_owners(served):
    private = save_study(served.shelf.own, "s", {}, [], {"scores": SCORES}, visibility="private", owner="a" * 32)
    assert served.client.get(f"/data/{private}/scores.json").status_code == 404
    mine = served.client.get(f"/data/{private}/scores.json", headers={"cookie": f"headwater_owner={'a' * 32}"})
    assert mine.status_code == 200 and mine.headers["cache-control"].startswith("private")


def test_every_address_of_what_was_made_of_an_analysis_closes_with_it(served):
    library, owner = served.shelf.own, {"cookie": f"headwater_owner={'b' * 32}"}
    source = store(served.folder, owner="a" * 32)
    study = save_study(library, "s", {}, [], {"scores": SCORES}, owner="b" * 32, made_of=(source,))
    again = store(served.folder, owner="b" * 32, made_of=(source,))
    addresses = [f"{study}/scores.{form}" for form in ("json", "csv", "parquet")] + [f"{study}/analysis.duckdb"]
    addresses += [f"{again}/{rest}" for rest in ("map/self/0/0", "grid/self/0.png", "grid.png", "tokens.json")]
    addresses += [f"{again}/analysis.duckdb", f"{again}/heads.parquet"]

    def answers(**headers) -> set[tuple[int, str]]:
        found = [served.client.get(f"/data/{one}", headers=headers) for one in addresses]
        return {(answer.status_code, answer.headers["cache-control"].partition(",")[0]) for answer in found}

    served.client.cookies.clear()
    assert answers() == {(200, "public")}
    library.update(source, visibility="private")
    assert answers() == {(404, "no-store")} and answers(**owner) == {(200, "private")}
    library.update(source, visibility="link")
    assert answers() == {(200, "public")}
