"""Dense heads: which key heads must keep everything? Each alone with less, then all with less but the worst ones.

First every key head drops keys while the others keep all: its damage alone. Then all heads drop keys but the ones with
most damage, more and more of them. The order is greedy, by damage alone, measured once; beside it stand the order by
what costs no run (-ln of the retained attention) and an order drawn by lot.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from backend import policies
from backend.duration import duration
from backend.errors import Refused
from backend.estimate import speed, work
from backend.models import LoadedModel
from backend.sparsity.real_run import Prepared, forget, prepared
from backend.sparsity.simulate import Outcome, Simulation, check_budget
from backend.sparsity.stored_layers import context_length
from backend.studies import policy_sweep
from backend.studies.definition import Column, Plan, Row, RunResult, StudyDefinition, Surroundings

SHARES = (0.0, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0)  # of the key heads that stay dense
ORDERS = ("damage", "prediction", "lot")


@dataclass(frozen=True)
class Parameters:
    """What a person may choose."""

    token_ids: tuple[int, ...] = ()
    subject: str = ""  # the beginning of the text, for the title
    policy: str = "streaming_llm"
    budget: float = 0.25
    context: int = 0  # tokens in the cache when the policy decides; 0 = all but the last quarter, at most 256

    def __post_init__(self) -> None:
        object.__setattr__(self, "token_ids", tuple(self.token_ids))
        if self.policy not in policies.all():
            raise Refused(f"policy: expected one of {', '.join(policies.all())}, got {self.policy!r}.")
        check_budget(self.budget)

    @property
    def n(self) -> int:
        return self.context or context_length(len(self.token_ids))


PLACE = {"layer": Column("int", "the model's own number"), "key_head": Column("int", "key head")}
TABLES = {
    "heads": {
        **PLACE,
        "kl": Column("double", "KL(with less || dense) of the next token with this key head alone shortened, nats"),
        "same_first": Column("double", "share of the judges whose most probable next token is the dense one"),
        "prediction": Column("double", "mean of -ln retained over its query heads and the judges, nats"),
        "rank": Column("int", "place by damage, from 0 = most"),
    },
    "curve": {
        "order": Column("text", "which heads stay dense first: by damage, by prediction, or drawn by lot"),
        "dense": Column("double", "share of the key heads that keep everything"),
        "kept": Column("double", "share of the keys that is kept over all heads"),
        "kl": Column("double", "KL(with less || dense), nats, mean over the judges"),
        "same_first": Column("double", "share of the judges whose most probable next token is the dense one"),
        "loss": Column("double", "loss of the judges, nats per token; null for one judge"),
        "loss_dense": Column("double", "loss of the judges in the dense run"),
    },
}


class DenseHeads(StudyDefinition):
    """Which heads must stay dense."""

    title = "Heads that must stay dense"
    question = "Which key heads must keep all their keys, and how many are enough?"
    Parameters = Parameters
    tables = TABLES

    def subject(self, parameters: Parameters) -> str:
        return f"{policies.all()[parameters.policy].title}: {parameters.subject}"

    def plan(self, model: LoadedModel, parameters: Parameters) -> Plan:
        given = (parameters.token_ids, "", (parameters.policy,), (), (parameters.budget,), parameters.context, 0)
        one = policy_sweep.STUDY.plan(model, policy_sweep.Parameters(*given))
        layers = softmax_layers(model)
        heads, length = sum(key_heads for _, key_heads in layers), one.n_tokens
        curve = len(ORDERS) * len(SHARES)
        judging = work(model, length) / speed(model) * (length - parameters.n) / length + 0.1
        seconds = 3 * work(model, length) / speed(model) + (heads + curve) * judging
        words = f"{heads:,} key heads alone, then {curve} runs on {length:,} tokens · about {duration(seconds)}"
        return Plan(len(layers) + curve, length, seconds, one.memory_mb, 1.0, words)

    def run(self, model: LoadedModel, parameters: Parameters, number: int, where: Surroundings) -> RunResult:
        text = prepared(model, parameters.token_ids, parameters.n, 0, where.stop_if_cancelled)
        if number < len(text.parts):
            return RunResult({"heads": layer_alone(model, text, parameters, number)})
        order, share = divmod(number - len(text.parts), len(SHARES))
        row = with_dense(model, text, parameters, ORDERS[order], SHARES[share])
        if (order, share) == (len(ORDERS) - 1, len(SHARES) - 1):
            forget(model)
        return RunResult({"curve": [row]})

    def combine(self, parameters: Parameters, results: Sequence[RunResult]) -> dict[str, list[Row]]:
        heads = [row for result in results for row in result.rows.get("heads", [])]
        ranked = sorted(range(len(heads)), key=lambda at: -heads[at]["kl"])
        for rank, at in enumerate(ranked):
            heads[at]["rank"] = rank
        return {"heads": heads, "curve": [row for result in results for row in result.rows.get("curve", [])]}


def softmax_layers(model: LoadedModel) -> list[tuple[int, int]]:
    """(layer, key heads) of the layers with a cache."""
    return [(one.layer, one.key_heads) for one in model.describe().layers if one.attention == "softmax"]


def outcome_of(text: Prepared, parameters: Parameters) -> Outcome:
    """What the policy keeps, remembered with the text. Refused where it cannot score this model."""
    kept = text.remembered.setdefault("outcomes", {})
    key = (parameters.policy, parameters.budget)
    if key not in kept:
        made = Simulation.of(text.layers(), [parameters.policy])
        if made.refused:
            raise Refused(made.refused[parameters.policy])
        kept[key] = made.outcomes(parameters.budget)[0]
    return kept[key]


def predictions(outcome: Outcome) -> list[list[float]]:
    """-ln retained of every key head, per layer."""
    return [one.divergence.reshape(len(one.kept), -1).mean(-1).tolist() for one in outcome.layers]


def layer_alone(model: LoadedModel, text: Prepared, parameters: Parameters, place: int) -> list[Row]:
    """Every key head of one layer shortened alone; remembered with the text, because the curve is ordered by it."""
    kept = text.remembered.setdefault("alone", {})
    key = (parameters.policy, parameters.budget, place)
    if key not in kept:
        outcome = outcome_of(text, parameters)
        one, rows = outcome.layers[place], []
        for head, prediction in enumerate(predictions(outcome)[place]):
            alone = torch.ones_like(one.kept)
            alone[head] = one.kept[head]
            damage = text.evicted(model, {one.layer: alone})
            rows.append(
                {
                    "layer": one.layer,
                    "key_head": head,
                    "kl": float(damage.kl.mean()),
                    "same_first": float(damage.agrees.double().mean()),
                    "prediction": prediction,
                    "rank": 0,
                }
            )
        kept[key] = rows
    return [dict(row) for row in kept[key]]


def with_dense(model: LoadedModel, text: Prepared, parameters: Parameters, order: str, share: float) -> Row:
    """All key heads shortened but the first ones of an order."""
    outcome = outcome_of(text, parameters)
    places = [(at, head) for at, one in enumerate(outcome.layers) for head in range(len(one.kept))]
    if order == "damage":
        worth = [row["kl"] for at in range(len(outcome.layers)) for row in layer_alone(model, text, parameters, at)]
    elif order == "prediction":
        worth = [value for values in predictions(outcome) for value in values]
    else:
        worth = torch.rand(len(places), generator=torch.Generator().manual_seed(0)).tolist()
    ranked = sorted(range(len(places)), key=lambda at: -worth[at])
    dense = {places[at] for at in ranked[: round(share * len(places))]}
    kept: dict[int, Tensor] = {}
    for at, one in enumerate(outcome.layers):
        kept[one.layer] = one.kept.clone()
        for head in range(len(one.kept)):
            if (at, head) in dense:
                kept[one.layer][head] = True
    damage = text.evicted(model, kept)
    total = sum(mask.numel() for mask in kept.values())
    return {
        "order": order,
        "dense": len(dense) / len(places),
        "kept": sum(int(mask.sum()) for mask in kept.values()) / total,
        "kl": float(damage.kl.mean()),
        "same_first": float(damage.agrees.double().mean()),
        "loss": damage.loss,
        "loss_dense": text.loss,
    }


STUDY = DenseHeads()
