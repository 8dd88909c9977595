"""Labels and scores of heads on models whose heads were set by hand (methods H-01 to H-07, H-13, K-01, K-02)."""

import math

import numpy as np
import pytest

from backend import head_labels, head_scores
from backend.atlas import read_atlas
from backend.models import LoadedModel
from backend.pipeline import analyse
from backend.studies import run_study
from backend.studies.random_repeat import STUDY, Parameters
from tests.backend.hand_set_heads import BETA, NEAR, one_head_model
from tests.backend.studies.hand_set import BOS, hand_set_model

E = math.exp(BETA)
TEXT = "a b c d . e f g , h i j . k l m , n o p . q r s , t u v"  # no letter twice
TWICE = "a b c d e f g h i j k l m n o p a b c d e f g h i j k l m n o p"
KINDS = ("sink", "previous_token", "duplicate", "delimiter", "local", "broad")
LABELS = ("sink", "previous_token", "induction", "duplicate", "delimiter", "local", "broad")


@pytest.fixture(scope="module")
def atlases():
    """kind -> (atlas, number of tokens) of a text that lets the head do what it does."""
    found = {}
    for kind in KINDS:
        analysis = analyse(one_head_model(kind), TWICE if kind == "duplicate" else TEXT)
        found[kind] = read_atlas(analysis, "self"), analysis.info["n_tokens"]
    return found


@pytest.fixture(scope="module")
def induction():
    """A model with a previous-token head in layer 0 and an induction head in layer 1, on a text that repeats."""
    letters = list(range(3, 53))
    return read_atlas(analyse(LoadedModel.wrap(hand_set_model()), [BOS, *letters, *letters]), "self")


def labels_of(atlas, layer=0, **limits):
    return list(atlas.labels(limits)[layer, 0])


def test_every_label_is_in_the_registry_in_its_order():
    assert tuple(head_labels.all()) == LABELS


@pytest.mark.parametrize("kind", KINDS)
def test_a_head_set_by_hand_has_its_label(atlases, kind):
    assert kind in labels_of(atlases[kind][0])


@pytest.mark.parametrize("label", LABELS)
def test_a_model_without_such_a_head_has_no_such_label(atlases, label):
    other = "sink" if label in ("broad", "local") else "broad"  # uniform attention is nothing but broad
    assert label not in labels_of(atlases[other][0])
    if label != "broad":
        assert labels_of(atlases["broad"][0]) == ["broad"]


def test_induction_head_in_layer_1_and_not_in_layer_0(induction):
    assert labels_of(induction, 1) == ["induction"]
    assert "previous_token" in labels_of(induction, 0) and "induction" not in labels_of(induction, 0)


def test_scores_have_their_closed_forms(atlases):
    sink, n = atlases["sink"]
    rows = np.arange(1, n + 1)
    weight = E / (E + rows - 1)
    assert sink.of(0, 0)["first_key_importance"] == pytest.approx(weight.mean(), abs=1e-6)
    assert sink.of(0, 0)["detected_sinks"] == 1
    previous, n = atlases["previous_token"]
    rows = np.arange(2, n + 1)
    assert previous.of(0, 0)["previous_token"] == pytest.approx((E / (E + rows - 1)).mean(), abs=1e-6)
    duplicate, n = atlases["duplicate"]
    rows = np.arange(n // 2 + 1, n + 1)  # one earlier copy has e^beta, the token itself 1, the others 1
    assert duplicate.of(0, 0)["duplicate_token"] == pytest.approx((E / (E + rows - 1)).mean(), abs=1e-6)
    local, n = atlases["local"]
    rows = np.arange(n)
    near = np.minimum(rows + 1, NEAR)
    expected = [
        (E * sum(range(k)) + sum(range(k, i + 1))) / (E * k + i + 1 - k) for i, k in zip(rows, near, strict=True)
    ]
    assert local.of(0, 0)["mean_distance"] == pytest.approx(np.mean(expected[1:]), abs=1e-5)
    assert local.of(0, 0)["mean_distance_ratio"] == pytest.approx(
        np.mean(expected[1:]) / (rows[1:] / 2).mean(), abs=1e-5
    )


def test_delimiter_mass_is_the_weight_on_punctuation(atlases):
    atlas, n = atlases["delimiter"]
    marks = np.array([word in ".," for word in TEXT.split()])
    seen, keys = np.cumsum(marks), np.arange(1, n + 1)
    expected = (E * seen / (E * seen + keys - seen))[1:]
    assert atlas.of(0, 0)["delimiter_mass"] == pytest.approx(expected.mean(), abs=1e-6)
    assert atlas.uniform["delimiter_mass"][0] == pytest.approx((seen / keys)[1:].mean(), abs=1e-9)
    uniform = atlases["broad"][0]
    assert uniform.of(0, 0)["delimiter_mass"] == pytest.approx((seen / keys)[1:].mean(), abs=1e-6)


def test_uniform_attention_has_its_uniform_values(atlases):
    atlas, n = atlases["broad"]
    values, keys = atlas.of(0, 0), np.arange(1, n + 1)
    assert values["entropy_share"] == pytest.approx(1.0, abs=1e-6)
    assert values["participation_ratio"] == pytest.approx((n + 1) / 2, abs=1e-4)
    assert values["renyi_2"] == pytest.approx(np.log(keys[1:]).mean(), abs=1e-5)
    assert values["min_entropy"] == pytest.approx(np.log(keys[1:]).mean(), abs=1e-5)
    assert values["hoyer_mean"] == pytest.approx(0.0, abs=1e-5)
    assert values["content_entropy"] == pytest.approx(np.log(keys[1:] - 1).mean(), abs=1e-5)
    assert values["local_mass_16"] == pytest.approx((np.minimum(keys, 16) / keys)[1:].mean(), abs=1e-6)
    assert math.isnan(values["next_token"])  # causal attention has no later keys
    for name, score in head_scores.all().items():
        if score.uniform is not None and score.of_rows is None:
            assert atlas.uniform[name][0] == pytest.approx(values[name], abs=1e-4), name


def test_the_dyadic_row_has_its_published_values():
    """Row (1/2, 1/4, 1/8, 1/16, 1/16): the sums of squares, entropy and Hoyer of methods H-01, H-02."""
    row = np.array([1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 16])
    assert -(row * np.log(row)).sum() == pytest.approx(1.299651, abs=1e-6)
    answer = one_row({"entropy": 1.2996509635498618, "sum_square": 0.3359375, "max_weight": 0.5, "n": 5})
    assert answer["participation_ratio"] == pytest.approx(2.976744, abs=1e-6)
    assert answer["hoyer_mean"] == pytest.approx(0.413200, abs=1e-6)
    assert answer["renyi_2"] == pytest.approx(-math.log(0.3359375), abs=1e-9)
    assert answer["min_entropy"] == pytest.approx(math.log(2), abs=1e-9)
    rest = row[1:] / 0.5  # without the first key
    assert answer["content_entropy"] == pytest.approx(-(rest * np.log(rest)).sum(), abs=1e-9)


def one_row(facts: dict) -> dict:
    """The scores of a head that has one row."""
    import duckdb

    given = ", ".join(f"{value}::DOUBLE AS {name}" for name, value in facts.items())
    scores = {name: score for name, score in head_scores.all().items() if score.table == "rows"}
    columns = ", ".join(f"{score.value} AS {name}" for name, score in scores.items())
    query = f"WITH facts AS (SELECT {given}, n AS outcomes, 0.5 AS first_mass, 0.5 AS a) SELECT {columns} FROM facts"
    return dict(zip(scores, duckdb.sql(query).fetchall()[0], strict=True))


def test_limits_can_be_moved(atlases):
    atlas = atlases["sink"][0]
    assert "sink" in labels_of(atlas)
    assert "sink" not in labels_of(atlas, first_key_importance=0.9999)
    assert "sink" not in labels_of(atlas, entropy=0.0)
    assert "broad" in labels_of(atlas, entropy_share=0.0)


def test_a_label_comes_with_the_value_of_its_first_condition(atlases):
    atlas = atlases["sink"][0]
    given = atlas.labels()[0, 0]
    assert given["sink"] == atlas.of(0, 0)["first_key_importance"]


def test_an_undefined_score_gives_no_label():
    nothing = dict.fromkeys(head_labels.conditions(), math.nan)
    assert head_labels.judge(nothing) == {}
    assert head_labels.judge({}) == {}


def test_the_probe_stands_before_the_text():
    model = LoadedModel.wrap(hand_set_model())
    analysis = analyse(model, [BOS, *range(3, 30)])  # nothing is repeated: the text says nothing of induction
    plain = read_atlas(analysis, "self")
    assert math.isnan(plain.of(1, 0)["induction"]) and "induction" not in labels_of(plain, 1)
    study = run_study(STUDY, model, Parameters(samples=1))
    joined = read_atlas(analysis, "self", study)
    assert joined.of(1, 0)["induction"] == pytest.approx(0.973330482, abs=1e-6)
    assert joined.uniform["induction"][1] == pytest.approx(0.013569307, abs=1e-9)
    assert "induction" in labels_of(joined, 1) and "induction" in joined.probed


def test_percentile_counts_the_heads_at_or_below(induction):
    first, second = induction.of(0, 0)["induction"], induction.of(1, 0)["induction"]
    assert first < second
    assert induction.percentile("induction", 0, 0) == 0.5 and induction.percentile("induction", 1, 0) == 1.0
