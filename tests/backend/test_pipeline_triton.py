"""The whole pipeline with the Triton kernels, in the interpreter: the same tables as the other paths store.

The tiny models are steep, and what a layer rounds differently the next one multiplies. So the truth is the float64
reference, and Triton may be as far from it as 1e-5 or as 4 times what the tiled path is, whichever is more.
"""

import numpy as np
import pytest

from backend.models import LoadedModel
from backend.options import Options
from backend.pipeline import analyse
from tests.backend.tiny import build

TABLES = ("rows", "keys", "heads", "distances", "links")
PLACE = ("kind", "layer", "head", "query", "key", "distance")
TOLERANCE = 1e-5  # of a weight; of quantities in tokens or sums over rows, times the largest of the column
NOISE = 4  # times the difference between tiled and reference


def columns(analysis, name):
    table = getattr(analysis, name)()
    place = [(column, "ascending") for column in PLACE if column in table.column_names]
    table = table.sort_by(place)
    return {column: table[column].to_numpy(zero_copy_only=False) for column in table.column_names}


def apart(one, other):
    """The largest difference; undefined must be undefined in both."""
    np.testing.assert_array_equal(np.isnan(one), np.isnan(other))
    return np.nanmax(np.abs(one - other), initial=0.0)


@pytest.mark.parametrize("family", ["llama", "bert"])
def test_triton_stores_what_the_others_store(family):
    model = LoadedModel.wrap(build(family), name=f"tiny-{family}")
    tokens = np.random.default_rng(7).integers(5, 90, 21).tolist()
    made = {impl: analyse(model, tokens, options=Options(impl=impl)) for impl in ("reference", "tiled", "triton")}
    assert made["triton"].info["implementation"] == "triton"
    for name in TABLES:
        truth, tiled, triton = (columns(analysis, name) for analysis in made.values())
        assert truth.keys() == triton.keys()
        for column, values in truth.items():
            if values.dtype.kind == "f":
                allowed = TOLERANCE * max(1.0, np.nanmax(np.abs(values), initial=0.0))
                allowed = max(allowed, NOISE * apart(tiled[column], values))
                assert apart(triton[column], values) <= allowed, f"{name}.{column}"
            else:
                np.testing.assert_array_equal(triton[column], values, err_msg=f"{name}.{column}")
