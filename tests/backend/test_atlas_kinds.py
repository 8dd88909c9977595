"""Atlas, like heads, units and BertViz data of models that are not one causal stack: encoders, two stacks, pooling."""

import numpy as np
import pytest

from backend.atlas import read_atlas
from backend.bertviz_data import VIEWS, feed
from backend.errors import NoExactMap
from backend.head_similarity import compare_heads
from backend.map_sizes import map_sizes
from backend.models import LoadedModel
from backend.pipeline import analyse
from backend.unit_attention import DIRECTIONS, profile, units_of
from tests.backend import tiny, tiny_more

IDS = [5, 6, 7, 8, 9, 10, 5, 6, 7, 8, 9, 10]
BUILD = {"bert": tiny.build, "gpt_oss": tiny.build, "bloom": tiny.build}  # the others: tiny_more

OWN_SOFTMAX = {"bloom", "funnel"}


@pytest.mark.parametrize("family", ["bert", "gpt_oss", "bloom", "t5", "bart", "funnel"])
def test_every_kind_of_map_can_be_described(family):
    analysis = analyse(LoadedModel.wrap(BUILD.get(family, tiny_more.build)(family)), IDS)
    for kind, sizes in map_sizes(analysis).items():
        atlas = read_atlas(analysis, kind)
        assert set(atlas.layers) == set(sizes) and atlas.labels().keys() == {
            (layer, head) for layer, size in sizes.items() for head in range(size.heads)
        }
        shares = atlas.values["entropy_share"]
        assert ((shares >= -1e-6) & (shares <= 1 + 1e-6)).all()
        assert np.isfinite(atlas.values["next_token"]).any() == (not analysis.score(atlas.layers[0], kind).causal) or (
            kind == "cross"
        )
        found = compare_heads(analysis, kind)
        assert len(found.heads) + found.missing == sum(size.heads for size in sizes.values())
        for layer, size in sizes.items():
            units = units_of(analysis, kind, layer, "word")
            assert (len(units.query_of), len(units.key_of)) == (size.queries, size.keys)
            for direction in DIRECTIONS:
                values, _ = profile(analysis, layer, 0, kind, units, [0], direction)
                assert len(values) == len(units.keys if direction == "from" else units.queries)
            for view in VIEWS:
                if family in OWN_SOFTMAX and view == "neuron":  # no queries and keys are kept
                    with pytest.raises(NoExactMap):
                        feed(analysis, view, layer, 0, kind)
                    continue
                fed = feed(analysis, view, layer, 0, kind, every=True)
                attention = np.array(
                    (fed.params["attention"]["all"] if view == "neuron" else fed.params["attention"][0])["attn"]
                )
                assert attention.shape[2:] == (len(fed.queries), len(fed.keys))
                assert min(size.queries, 40) <= len(fed.queries) <= size.queries
