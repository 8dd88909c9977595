"""Dense heads: which key heads must keep everything? Each alone with less, then all with less but the worst ones.

First every key head drops keys while the others keep all: its damage alone. Then all heads drop keys, and the first few
are made dense one after the other: at every step each of some candidates, those with most damage alone, is tried
together with the ones before it, and the one that helps most stays. Last, more and more heads are made dense: in that
order (greedy; behind the steps by damage alone), by damage alone, by what costs no run (-ln of the retained attention),
and by lot.
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
from backend.sparsity.simulate import Judged, Outcome, Simulation, check_budget
from backend.sparsity.stored_layers import context_length
from backend.studies import policy_sweep
from backend.studies.definition import Column, Plan, Row, RunResult, StudyDefinition, Surroundings

SHARES = (0.0, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0)  # of the key heads that stay dense
ORDERS = ("greedy", "damage", "prediction", "lot")
STEPS, CANDIDATES = 5, 8  # heads that are chosen with those before them dense, each from so many

HeadPlace = tuple[int, int]  # layer, key head


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
    "steps": {
        "step": Column("int", "from 0; the heads of the steps before are dense"),
        **PLACE,
        "candidates": Column("int", "key heads that were tried: those with most damage alone that were not dense yet"),
        "rank": Column("int", "place by damage alone, from 0 = most"),
        "kl_before": Column("double", "KL(with less || dense) before it was made dense, nats"),
        "kl": Column("double", "the same with it dense: least of all candidates"),
    },
    "curve": {
        "order": Column("text", "which heads stay dense first: greedy, by damage alone, by prediction, drawn by lot"),
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
    version = 2  # the first heads are chosen together

    def subject(self, parameters: Parameters) -> str:
        return f"{policies.all()[parameters.policy].title}: {parameters.subject}"

    def plan(self, model: LoadedModel, parameters: Parameters) -> Plan:
        given = (parameters.token_ids, "", (parameters.policy,), (), (parameters.budget,), parameters.context, 0)
        one = policy_sweep.STUDY.plan(model, policy_sweep.Parameters(*given))
        layers = softmax_layers(model)
        heads, length = sum(key_heads for _, key_heads in layers), one.n_tokens
        curve, steps = len(ORDERS) * len(SHARES), min(STEPS, heads)
        judging = work(model, length) / speed(model) * (length - parameters.n) / length + 0.1
        seconds = 3 * work(model, length) / speed(model) + (heads + steps * CANDIDATES + curve) * judging
        words = f"{heads:,} key heads alone, {steps} steps of {CANDIDATES} candidates, then {curve} runs on {length:,} "
        words += f"tokens · about {duration(seconds)}"
        return Plan(len(layers) + steps + curve, length, seconds, one.memory_mb, 1.0, words)

    def run(self, model: LoadedModel, parameters: Parameters, number: int, where: Surroundings) -> RunResult:
        text = prepared(model, parameters.token_ids, parameters.n, 0, where.stop_if_cancelled)
        outcome, layers = outcome_of(text, parameters), len(text.parts)
        if number < layers:
            return RunResult({"heads": layer_alone(model, text, outcome, number)})
        alone = [row for at in range(layers) for row in where.earlier[at].rows["heads"]]
        steps = min(STEPS, len(alone))
        chosen = [row for at in range(layers, min(number, layers + steps)) for row in where.earlier[at].rows["steps"]]
        if number < layers + steps:
            return RunResult({"steps": [one_step(model, text, outcome, alone, chosen)]})
        order, share = divmod(number - layers - steps, len(SHARES))
        ranked = ranked_by(ORDERS[order], outcome, alone, chosen)
        first = ranked[: round(SHARES[share] * len(ranked))]
        return RunResult({"curve": [{"order": ORDERS[order], **with_dense(model, text, outcome, first)}]})

    def leave(self, model: LoadedModel) -> None:
        forget(model)

    def combine(self, parameters: Parameters, results: Sequence[RunResult]) -> dict[str, list[Row]]:
        found = {table: [row for result in results for row in result.rows.get(table, [])] for table in TABLES}
        rank = {place: at for at, place in enumerate(by_damage(found["heads"]))}
        return {**found, "heads": [{**row, "rank": rank[place_of(row)]} for row in found["heads"]]}


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


def place_of(row: Row) -> HeadPlace:
    return int(row["layer"]), int(row["key_head"])


def by_damage(alone: Sequence[Row]) -> list[HeadPlace]:
    """Key heads by the damage of dropping keys of theirs alone, most first."""
    return [place_of(row) for row in sorted(alone, key=lambda row: -row["kl"])]


def ranked_by(order: str, outcome: Outcome, alone: Sequence[Row], chosen: Sequence[Row]) -> list[HeadPlace]:
    """All key heads in the order in which they stay dense. chosen: the rows of the steps."""
    if order == "damage":
        return by_damage(alone)
    if order == "greedy":
        return list(dict.fromkeys([*map(place_of, chosen), *by_damage(alone)]))
    places = [place_of(row) for row in alone]
    if order == "prediction":
        worth = [value for one in outcome.layers for value in predictions(one)]
    else:
        worth = torch.rand(len(places), generator=torch.Generator().manual_seed(0)).tolist()
    return [places[at] for at in sorted(range(len(places)), key=lambda at: -worth[at])]


def predictions(one: Judged) -> list[float]:
    """-ln retained of every key head of a layer."""
    return one.divergence.reshape(len(one.kept), -1).mean(-1).tolist()


def layer_alone(model: LoadedModel, text: Prepared, outcome: Outcome, place: int) -> list[Row]:
    """Every key head of one layer shortened alone."""
    one, rows = outcome.layers[place], []
    for head, prediction in enumerate(predictions(one)):
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
    return rows


def one_step(model: LoadedModel, text: Prepared, outcome: Outcome, alone: Sequence[Row], chosen: Sequence[Row]) -> Row:
    """The candidate that leaves least damage when it is made dense together with those of the steps before."""
    ranked, dense = by_damage(alone), [place_of(row) for row in chosen]
    tried = [place for place in ranked if place not in dense][:CANDIDATES]
    before = chosen[-1]["kl"] if chosen else with_dense(model, text, outcome, [])["kl"]
    left = {place: with_dense(model, text, outcome, [*dense, place])["kl"] for place in tried}
    best = min(tried, key=left.get)
    return {
        "step": len(chosen),
        "layer": best[0],
        "key_head": best[1],
        "candidates": len(tried),
        "rank": ranked.index(best),
        "kl_before": before,
        "kl": left[best],
    }


def with_dense(model: LoadedModel, text: Prepared, outcome: Outcome, dense: Sequence[HeadPlace]) -> Row:
    """All key heads shortened but these; remembered with the text."""
    known = text.remembered.setdefault("curve", {})
    key = (outcome.policy, outcome.budget, frozenset(dense))
    if key not in known:
        kept: dict[int, Tensor] = {one.layer: one.kept.clone() for one in outcome.layers}
        for layer, head in dense:
            kept[layer][head] = True
        damage = text.evicted(model, kept)
        known[key] = {
            "dense": len(dense) / sum(len(mask) for mask in kept.values()),
            "kept": sum(int(mask.sum()) for mask in kept.values()) / sum(mask.numel() for mask in kept.values()),
            "kl": float(damage.kl.mean()),
            "same_first": float(damage.agrees.double().mean()),
            "loss": damage.loss,
            "loss_dense": text.loss,
        }
    return dict(known[key])


STUDY = DenseHeads()
