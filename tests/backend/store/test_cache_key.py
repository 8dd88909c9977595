"""What is equal has the same key; nothing that differs has."""

from dataclasses import dataclass, replace

import pytest

from backend.store import cache_key


@dataclass(frozen=True)
class Work:
    weights_hash: str = "w1"
    tokenizer_hash: str = "t1"
    token_ids: tuple = (1, 23, 4)
    dtype: str = "float32"
    implementation: str = "tiled"
    options: object = None


BASE = Work(options={"pooled": 128, "seed": 0, "interventions": ()})
OTHERS = {
    "weights": replace(BASE, weights_hash="w2"),
    "tokenizer": replace(BASE, tokenizer_hash="t2"),
    "tokens": replace(BASE, token_ids=(12, 3, 4)),
    "one token less": replace(BASE, token_ids=(1, 23)),
    "dtype": replace(BASE, dtype="bfloat16"),
    "implementation": replace(BASE, implementation="triton"),
    "option": replace(BASE, options={"pooled": 64, "seed": 0, "interventions": ()}),
    "type of an option": replace(BASE, options={"pooled": "128", "seed": 0, "interventions": ()}),
    "truth of an option": replace(BASE, options={"pooled": 128, "seed": False, "interventions": ()}),
    "intervention": replace(BASE, options={"pooled": 128, "seed": 0, "interventions": (Work(),)}),
    "moved border": replace(BASE, weights_hash="w1t", tokenizer_hash="1"),
    "moved border the other way": replace(BASE, weights_hash="w", tokenizer_hash="1t1"),
}


def test_equal_work_has_the_same_key():
    again = replace(BASE, token_ids=[1, 23, 4], options={"seed": 0, "interventions": [], "pooled": 128})
    assert cache_key(**vars(BASE)) == cache_key(**vars(again))
    assert len(cache_key(**vars(BASE))) == 64


@pytest.mark.parametrize("what", OTHERS)
def test_work_that_differs_in_anything_has_another_key(what):
    assert cache_key(**vars(OTHERS[what])) != cache_key(**vars(BASE))


def test_no_two_of_them_share_a_key():
    assert len({cache_key(**vars(work)) for work in OTHERS.values()}) == len(OTHERS)


def test_an_option_that_cannot_be_written_down_is_a_mistake():
    with pytest.raises(TypeError, match="got object"):
        cache_key(**vars(replace(BASE, options={"x": object()})))
