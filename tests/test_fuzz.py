"""Anything at all: prompts, addresses, parameters of data routes, analysis files. No crash, no traceback, no leak.

A few hundred examples here; ten thousand with `make test-long`.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import quote

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.testclient import TestClient

from backend.errors import HeadwaterError
from backend.map_sizes import MapSize
from backend.models import LoadedModel
from backend.prompts import Prompt, encode
from backend.routes import routes
from backend.shelf import OWNER_COOKIE, Shelf
from backend.store import Library
from pages.shared.view_state import READERS, Outline, fit, parse, to_query
from tests.backend import tiny
from tests.backend.tiny_tokenizers import byte_level
from tests.stored import store

FEW, MANY = 60, 2_500  # examples of each of the four kinds
ANY = st.text(max_size=200)  # every character there is, also lone halves of pairs
SECRET = "the-secret-of-a-private-analysis"


def fuzz(examples: int):
    """Settings for tests whose examples write files and are slow on a busy machine."""
    calm = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large]
    return settings(max_examples=examples, deadline=None, suppress_health_check=calm, derandomize=examples == FEW)


# -- prompts ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model():
    return LoadedModel.wrap(tiny.build("llama", vocab_size=1000), byte_level())


def prompt_is_read_or_refused(model: LoadedModel, text: str) -> None:
    for prompt in (Prompt(text=text), Prompt(documents=[text, "b"], question=text), Prompt(pair=(text, text))):
        try:
            encoded = encode(model, prompt)
        except HeadwaterError as refused:
            assert str(refused)
            continue
        assert encoded.token_ids and len(encoded.tokens) == len(encoded.token_ids)
        assert all(token.label.strip() for token in encoded.tokens)
        if prompt.text is not None:
            assert "".join(token.text for token in encoded.tokens) == encoded.text


@fuzz(FEW)
@given(ANY)
def test_any_prompt_is_read_or_refused_in_words(model, text):
    prompt_is_read_or_refused(model, text)


@pytest.mark.long
@fuzz(MANY)
@given(ANY)
def test_any_of_many_prompts(model, text):
    prompt_is_read_or_refused(model, text)


# -- addresses of pages -----------------------------------------------------------------------------------------------

OUTLINE = Outline({"self": {3: MapSize(4, 40, 40), 7: MapSize(4, 40, 40)}}, frozenset({"entropy", "first_mass"}))
QUERIES = st.dictionaries(st.sampled_from([*READERS, "sql", "x"]) | ANY, ANY | st.lists(ANY, max_size=2), max_size=8)


def address_becomes_a_view(query: dict) -> None:
    state, notices = parse(query)
    fitted, more = fit(state, OUTLINE)
    assert fitted.layer in (3, 7) and 0 <= fitted.head < 4 and fitted.measure in OUTLINE.measures
    assert all(isinstance(notice, str) and len(notice) < 400 for notice in notices + more)
    again, nothing = parse(to_query(fitted))
    assert again == fitted and nothing == []


@fuzz(FEW)
@given(QUERIES)
def test_any_address_becomes_a_view(query):
    address_becomes_a_view(query)


@pytest.mark.long
@fuzz(MANY)
@given(QUERIES)
def test_any_of_many_addresses(query):
    address_becomes_a_view(query)


# -- data routes ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fuzz")
    plain, private = store(folder, n_tokens=24), store(folder, visibility="private", owner="a" * 32, text=SECRET)
    shelf = Shelf(folder, tmp_path_factory.mktemp("bundled"))
    client = TestClient(Starlette(routes=routes(shelf.open)), raise_server_exceptions=False)
    return SimpleNamespace(client=client, ids=(plain, private), private=private)


PARTS = (
    st.sampled_from(["map", "grid", "self", "0", "1", "heads.json", "analysis.duckdb", "..", ".", "", "rows.csv"]) | ANY
)
VALUES = st.sampled_from(["0:4", "4:2", "-1:3", "0:99999999999", "1e3", "mean", "", "999999"]) | ANY
PARAMETERS = st.dictionaries(st.sampled_from(["rows", "columns", "size", "how", "palette"]) | ANY, VALUES, max_size=4)
ASKED = st.tuples(st.integers(0, 2), st.lists(PARTS, max_size=5), PARAMETERS, ANY)


def request_is_answered(served, asked) -> None:
    which, parts, parameters, cookie = asked
    id = (*served.ids, "x" * 24)[which]
    texts = [quote(part.encode("utf-8", "surrogatepass"), safe="") for part in (id, *parts)]
    # A client would walk up at ".." and ask for another address; here it arrives.
    path = "/".join(text.replace(".", "%2E") if text in (".", "..") else text for text in texts)
    given_parameters = {
        name.encode("utf-8", "replace").decode(): value.encode("utf-8", "replace").decode()
        for name, value in parameters.items()
    }
    headers = {
        "cookie": f"{OWNER_COOKIE}=".encode()
        + cookie.encode("latin-1", "replace").replace(b"\r", b"").replace(b"\n", b"")
    }
    answer = served.client.get(f"/data/{path}", params=given_parameters, headers=headers, follow_redirects=False)
    assert answer.status_code in (200, 206, 304, 307, 400, 404, 405), answer.text[:300]
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    if answer.status_code >= 400:
        assert set(answer.json()) == {"error"} and "Traceback" not in answer.text
    if which == 1:
        assert answer.status_code >= 300 and SECRET.encode() not in answer.content


@fuzz(FEW)
@given(ASKED)
def test_any_request_is_answered_and_nothing_private_leaks(served, asked):
    request_is_answered(served, asked)


@pytest.mark.long
@fuzz(MANY)
@given(ASKED)
def test_any_of_many_requests(served, asked):
    request_is_answered(served, asked)


# -- analysis files ---------------------------------------------------------------------------------------------------

TABLES = ("tokens", "segments", "layers", "rows", "keys", "heads", "distances", "coverage", "links", "maps_0", "info")


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    library = Library(folder)
    return library.export(store(folder, n_tokens=20), folder / "whole.duckdb")


def flipped(path: Path, chance: random.Random) -> None:
    content = bytearray(path.read_bytes())
    for _ in range(chance.choice((1, 1, 3, 50))):
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    path.write_bytes(content)


def truncated(path: Path, chance: random.Random) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: chance.randrange(len(content))])


def swapped(path: Path, chance: random.Random) -> None:
    one, two = chance.sample(TABLES, 2)
    with duckdb.connect(str(path)) as file:
        for old, new in ((one, "between"), (two, one), ("between", two)):
            file.execute(f"ALTER TABLE {old} RENAME TO {new}")


def changed(path: Path, chance: random.Random) -> None:
    """One column of one table holds something else."""
    table = chance.choice(TABLES)
    value = chance.choice(("NULL", "-1", "2147483647", "'x'", "0", "'nan'", "''", "'[]'"))
    with duckdb.connect(str(path)) as file:
        columns = [row[0] for row in file.execute(f"DESCRIBE {table}").fetchall()]
        try:
            file.execute(f'UPDATE {table} SET "{chance.choice(columns)}" = {value} WHERE random() < 0.3')
        except duckdb.Error:
            file.execute(f"DELETE FROM {table} WHERE random() < 0.3")


HARMS = (flipped, truncated, swapped, changed)


def file_is_taken_whole_or_refused(whole: Path, folder: Path, seed: int) -> None:
    """Refused in words, or an analysis all of whose parts can be asked for without anything but words going wrong."""
    chance = random.Random(seed)
    path = folder / "given.duckdb"
    shutil.copyfile(whole, path)
    chance.choice(HARMS)(path, chance)
    library = Library(folder / "library")
    before = {entry.id for entry in library.list()}
    try:
        id = library.import_file(path)
    except HeadwaterError as refused:
        assert str(folder) not in str(refused) and "Traceback" not in str(refused)
        assert {entry.id for entry in library.list()} == before
        return
    analysis = library.open(id)
    for ask in (
        lambda: analysis.map(0, 1),
        lambda: analysis.pooled(1, 0, 8),
        analysis.tokens_list,
        analysis.segments,
        lambda: [analysis.table(name) for name in analysis.tables()],
        lambda: analysis.statistic("entropy"),
        lambda: analysis.links(layer=0),
    ):
        try:
            ask()
        except HeadwaterError as error:
            assert str(folder) not in str(error)
    library.delete(id)
    library.clean_up(undo_seconds=0)


@fuzz(FEW)
@given(st.integers(0, 10**9))
def test_any_file_is_taken_whole_or_refused_in_words(whole, tmp_path, seed):
    file_is_taken_whole_or_refused(whole, tmp_path, seed)


@pytest.mark.long
@fuzz(MANY)
@given(st.integers(0, 10**9))
def test_any_of_many_files(whole, tmp_path, seed):
    file_is_taken_whole_or_refused(whole, tmp_path, seed)
