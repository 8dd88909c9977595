"""Which heads keep their exact maps, and which options are refused."""

import pytest

from backend.errors import Refused
from backend.interventions import Gate
from backend.options import Options, exact_heads
from backend.types import LayerInfo

LAYERS = [LayerInfo("self", number, f"layers.{number}", "softmax", 4, 2, 8, 8) for number in range(7)]


def kept_layers(budget_mb):
    """With 1 MB per layer."""
    kept = exact_heads("auto", budget_mb, LAYERS, lambda layer, heads: 1_000_000)
    assert all(heads in ((), (0, 1, 2, 3)) for heads in kept)
    return [place for place, heads in enumerate(kept) if heads]


@pytest.mark.parametrize(
    ("budget_mb", "layers"),
    [(7, [0, 1, 2, 3, 4, 5, 6]), (6, [0, 2, 4, 6]), (4, [0, 2, 4, 6]), (3, [0, 4]), (1, [0]), (0, [])],
)
def test_auto_keeps_every_second_fourth_eighth_layer_as_the_budget_runs_out(budget_mb, layers):
    assert kept_layers(budget_mb) == layers


def test_all_none_and_chosen_heads():
    free = lambda layer, heads: 10**12  # noqa: E731  beyond every budget
    assert exact_heads("all", 0, LAYERS, free) == [(0, 1, 2, 3)] * 7
    assert exact_heads("none", 0, LAYERS, free) == [()] * 7
    assert exact_heads([(2, 3), [2, 0], (6, 1)], 0, LAYERS, free) == [(), (), (0, 3), (), (), (), (1,)]


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([(7, 0)], "no attention layer 7"),
        ([(0, 4)], "layer 0 has heads 0 to 3, got 4"),
        ([(0, -1)], "heads 0 to 3, got -1"),
        ([3], r"pairs \(layer, head\)"),
        ([(0, "1")], r"pairs \(layer, head\)"),
        ([(True, False)], r"pairs \(layer, head\)"),
    ],
)
def test_heads_that_do_not_exist_are_refused(pairs, message):
    with pytest.raises(Refused, match=message):
        exact_heads(pairs, 0, LAYERS, lambda layer, heads: 0)


@pytest.mark.parametrize(
    "options",
    [
        Options(impl="cuda"),
        Options(exact_maps="some"),
        Options(pooled=0),
        Options(pooled=12.5),
        Options(predictions=-1),
        Options(max_tokens=0),
        Options(new_tokens=-1),
        Options(keep_media="yes"),
        Options(exact_maps=None),
        Options(max_tokens="9"),
        Options(num_beams="2"),
        Options(temperature="1"),
        Options(top_p="1"),
        Options(seed=2**70),
        Options(seed="1"),
        Options(interventions=None),
    ],
    ids=str,
)
def test_options_that_cannot_be_met_are_refused_by_name(options):
    with pytest.raises(Refused, match=r"^Options\.\w+: .*got"):
        options.check()


def test_limits_do_not_change_the_result_but_the_kept_heads_do():
    key = Options().result_key([(0, 1)])
    assert Options(max_tokens=9, disk_budget_mb=1, seed=3).result_key([(0, 1)]) == key
    assert Options(pooled=64).result_key([(0, 1)]) != key
    assert Options().result_key([(0,)]) != key
    assert Options(new_tokens=5).result_key([(0, 1)]) != key
    greedy = Options(new_tokens=5).result_key([(0, 1)])
    assert Options(new_tokens=5, seed=3).result_key([(0, 1)]) == greedy, "no seed takes part in a greedy choice"
    drawn = [Options(new_tokens=5, temperature=1.0, seed=seed).result_key([(0, 1)]) for seed in (3, 4)]
    assert drawn[0] != drawn[1]
    assert Options(interventions=(Gate(heads=((0, 1),), factor=0.0),)).result_key([(0, 1)]) != key


def test_interventions_may_be_given_as_they_are_stored():
    gate = Gate(heads=((0, 1),), factor=0.0)
    stored = Options(interventions=(gate,)).as_dict()["interventions"]
    assert Options(interventions=tuple(stored)).changes == (gate,)
    with pytest.raises(Refused, match="expected one of"):
        Options(interventions=({"intervention": "telepathy"},)).check()
