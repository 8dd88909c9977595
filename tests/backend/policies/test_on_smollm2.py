"""On the bundled story, read by SmolLM2: policies differ, and none beats the oracle."""

from itertools import combinations

import pytest
import torch

from backend import policies
from backend.models import load
from backend.shelf import bundled_folder
from backend.sparsity.real_run import Prepared
from backend.sparsity.simulate import Simulation
from backend.sparsity.stored_layers import context_length, stored_layers
from backend.store import Library


@pytest.fixture(scope="module")
def outcomes():
    analysis = Library(bundled_folder(), read_only=True).open("bundled-story")
    made = Simulation.of(stored_layers(analysis, "self"), policies.all())
    assert set(made.refused) == {"expected_attention"}, "the stored analysis has no rotary embedding"
    return {outcome.policy: outcome for outcome in made.outcomes(0.25)}


def test_every_policy_differs_from_every_other(outcomes):
    assert len(outcomes) == 13
    for one, other in combinations(outcomes.values(), 2):
        pairs = zip(one.layers, other.layers, strict=True)
        assert not all(torch.equal(a.kept, b.kept) for a, b in pairs), (one.policy, other.policy)


def test_expected_attention_differs_too_where_the_model_is_there(outcomes):
    """It needs the rotary embedding, which no stored analysis has; the same text and context, read by the model."""
    analysis = Library(bundled_folder(), read_only=True).open("bundled-story")
    token_ids = [token.token_id for token in analysis.tokens_list()]
    text = Prepared(load("smollm2-135m-instruct"), token_ids, context_length(len(token_ids)), 0, lambda: None)
    one = Simulation.of(text.layers(), ["expected_attention"]).outcomes(0.25)[0]
    assert one.retained <= outcomes["oracle"].retained + 1e-3  # the stored numbers were rounded
    for other in outcomes.values():
        pairs = zip(one.layers, other.layers, strict=True)
        assert not all(torch.equal(a.kept, b.kept) for a, b in pairs), other.policy


def test_the_oracle_retains_most(outcomes):
    best = outcomes["oracle"].retained
    assert all(outcome.retained <= best + 1e-12 for outcome in outcomes.values())
    assert all(outcome.kept_share <= 0.25 for outcome in outcomes.values())
    assert outcomes["h2o"].retained > outcomes["random"].retained + 0.2


def test_lengths_of_the_context():
    assert context_length(46) == 35 and context_length(2) == 1 and context_length(8192) == 8192 - 256
