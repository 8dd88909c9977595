"""docs/analysis-file.md, taken at its word: its tables are those of a file, its code reads a map without Headwater."""

import re
import subprocess
import sys
from pathlib import Path

import duckdb
import numpy as np
import pytest
from store_records import layer_record, store

from backend.store import codec, schema, sidecar

DOCUMENT = (Path(__file__).resolve().parents[3] / "docs" / "analysis-file.md").read_text("utf-8")
CODE = "".join(re.findall(r"```python\n(.*?)```", DOCUMENT, re.DOTALL))


@pytest.mark.parametrize("n", [30, 800])
def test_its_code_gives_the_weights_in_plain_duckdb_and_numpy(library, tmp_path, n):
    records = [layer_record(i, n=n, dim=64, heads=8, key_heads=4) for i in range(2)]
    analysis = library.open(store(library, records))
    script = f"path = {str(analysis.path)!r}\n{CODE}\nnp.save({str(tmp_path / 'weights.npy')!r}, weights)"
    script += "\nimport sys\nassert not {'torch', 'backend', 'kernels'} & set(sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose(np.load(tmp_path / "weights.npy"), analysis.map(1, 2), atol=1e-5)
    codecs = {
        row["codec"] for row in analysis.sql("SELECT DISTINCT codec FROM maps_0 WHERE part = 'query'").to_pylist()
    }
    assert codecs == {"float32" if n == 30 else "int16"}


def test_it_names_every_table_and_column(library):
    path = library.open(store(library, [layer_record()])).path
    named = documented_tables()
    with duckdb.connect(str(path), read_only=True) as file:
        for table in schema.tables():
            columns = [row[0] for row in file.execute(f"DESCRIBE {table}").fetchall()]
            if table == "heads":
                columns = columns[:3]
                named[table] = named[table][:3]
            assert named[table] == columns, table
        assert named["maps_0, maps_1 ..."] == list(schema.maps_columns())


def documented_tables() -> dict[str, list[str]]:
    """Table -> columns, as the first table of the document lists them; remarks in brackets left out."""
    named = {}
    for line in DOCUMENT.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 3:
            columns = re.sub(r"\([^)]*\)", "", cells[2]).split(",")
            named[cells[0]] = [column.strip() for column in columns]
    return named


def test_it_names_every_codec_and_every_field_of_the_sidecar():
    for name in codec.CODECS:
        assert name in DOCUMENT
    for field in sidecar.Sidecar.__dataclass_fields__:
        assert field in DOCUMENT


def test_its_check_of_the_checksums_holds(library):
    path = library.open(store(library, [layer_record()])).path
    query = re.search(r"`(SELECT part, head FROM maps_0 .*?)`", DOCUMENT)[1]
    with duckdb.connect(str(path), read_only=True) as file:
        assert file.execute(query).fetchall() == []
        assert file.execute("SELECT count(*) FROM maps_0").fetchone()[0] > 0
