"""Interventions: each one changes logits and maps as a dense eager model with the same edit does."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from transformers import AttentionInterface
from transformers.masking_utils import AttentionMaskInterface, eager_mask

from backend import interventions
from backend.attention import implementation
from backend.capture import capture
from backend.errors import Refused
from backend.intervene import check_interventions
from backend.interventions import (
    BiasKeys,
    EditText,
    EditTokens,
    Gate,
    HideKeys,
    Redistribute,
    ScaleKeys,
    TargetShare,
    Temperature,
    Uniform,
)
from backend.models import LoadedModel
from backend.pipeline import Options, analyse
from backend.settings import PROJECT
from backend.sites import survey
from backend.store import Library
from backend.types import Segment
from kernels.api import attend, weights
from kernels.measures import NOTHING
from kernels.score import ScoreSpec
from tests.backend.tiny import build, ids, padded

LENGTH = 12
NONE = 1e-30  # a row that gives less than this to some keys gives them nothing
SEGMENTS = [
    Segment("document 1", "document", 2, 5),
    Segment("document 2", "document", 5, 8),
    Segment("question", "question", 9, 12),
]


# ---- the dense edit, on weights and not on scores, written without the code under test ----


class DenseEdit:
    """Eager attention in float64 whose weights are edited by plain functions; keeps the weights of every layer."""

    def __init__(self, edit):
        self.edit, self.maps = edit, {}

    def __call__(self, module, query, key, value, mask, scaling=None, softcap=None, s_aux=None, **kwargs):
        heads = query.shape[1]
        key, value = (t.repeat_interleave(heads // t.shape[1], 1).double() for t in (key, value))
        scores = query.double() @ key.mT * (query.shape[-1] ** -0.5 if scaling is None else scaling)
        if softcap is not None:
            scores = softcap * torch.tanh(scores / softcap)
        visible = torch.ones_like(scores, dtype=torch.bool) if mask is None else (mask > -1e30).expand_as(scores)
        scores = scores.masked_fill(~visible, -torch.inf)
        scores = self.edit.scores(module, scores)
        if s_aux is not None:
            sinks = s_aux.double().reshape(1, -1, 1, 1).expand(*scores.shape[:3], 1)
            scores = torch.cat([scores, sinks], -1)
        weight = self.edit.weights(module, torch.softmax(scores, -1))
        weight = weight[..., : key.shape[2]]
        self.maps[layer_of(module)] = weight
        output = self.edit.output(module, weight @ value)
        return output.to(query.dtype).transpose(1, 2).contiguous(), None


class Edit:
    """Nothing is changed; the edits below overwrite one step each."""

    def scores(self, module, scores):
        return scores

    def weights(self, module, weight):
        return weight

    def output(self, module, output):
        return output


def layer_of(module):
    return getattr(module, "layer_idx", None) if getattr(module, "layer_idx", None) is not None else id(module)


def dense(model, edit, inputs):
    """Logits (or hidden states) and maps of the model with a dense edit."""
    function = DenseEdit(edit)
    AttentionInterface.register("dense_edit", function)
    AttentionMaskInterface.register("dense_edit", eager_mask)
    with implementation(model, "dense_edit"):
        return model(**inputs)[0], function.maps


def changed(model, edits, inputs, impl="tiled", request=None):
    with capture(model, request, impl=impl, interventions=edits, segments=SEGMENTS) as captured:
        out = model(**inputs)[0]
    return out, captured


def map_of(layer):
    every = slice(None)
    return weights(layer.query, layer.key, layer.score, layer.lse, every, every)


def renormalised(weight, before):
    """Rows brought back to the sum they had."""
    return weight * before.sum(-1, keepdim=True) / weight.sum(-1, keepdim=True)


class Multiplied(Edit):
    """Weights of keys times a factor, then the whole row, learned sink included, brought back to 1."""

    def __init__(self, factor, keys, first_row=0, heads=slice(None)):
        self.factor, self.keys, self.first_row, self.heads = factor, list(keys), first_row, heads

    def weights(self, module, weight):
        edited = weight.clone()
        edited[..., self.first_row :, self.keys] *= self.factor
        result = weight.clone()
        result[:, self.heads] = renormalised(edited, weight)[:, self.heads]
        return result


class Scaled(Edit):
    """I-03: A_is <- beta A_is, the freed mass to the others in proportion; rows with nothing else stay."""

    def __init__(self, factor, keys):
        self.factor, self.keys = factor, list(keys)

    def weights(self, module, weight):
        inside = torch.zeros(weight.shape[-1], dtype=torch.bool)
        inside[self.keys] = True
        mass = weight[..., inside].sum(-1, keepdim=True)
        rest = weight[..., ~inside].sum(-1, keepdim=True)
        edited = torch.where(inside, self.factor * weight, weight * (1 - self.factor * mass) / rest)
        return torch.where((mass > NONE) & (rest > NONE), edited, weight)


class Shared(Edit):
    """I-02, exact: rows below the target get it."""

    def __init__(self, share, keys, lower=False):
        self.share, self.keys, self.lower = share, list(keys), lower

    def weights(self, module, weight):
        inside = torch.zeros(weight.shape[-1], dtype=torch.bool)
        inside[self.keys] = True
        mass = weight[..., inside].sum(-1, keepdim=True)
        rest = weight[..., ~inside].sum(-1, keepdim=True)
        edited = torch.where(inside, weight * self.share / mass, weight * (1 - self.share) / rest)
        applies = (mass > NONE) & (rest > NONE) & ((mass < self.share) | self.lower)
        return torch.where(applies, edited, weight)


class Redivided(Edit):
    """B-04: the mass of the groups together stays and is divided as the shares say, among the groups the row sees."""

    def __init__(self, groups, shares):
        self.groups, self.shares = groups, shares

    def weights(self, module, weight):
        edited = weight.clone()
        mass = torch.stack([weight[..., list(group)].sum(-1) for group in self.groups])
        share = torch.tensor(self.shares, dtype=torch.float64)[:, None, None, None] * (mass > NONE)
        share = share / share.sum(0)
        for place, group in enumerate(self.groups):
            new = share[place] * mass.sum(0) / mass[place]
            new = torch.where((mass[place] > NONE) & new.isfinite(), new, 1.0)
            edited[..., list(group)] *= new[..., None]
        return edited


class Heated(Edit):
    def __init__(self, factor, head):
        self.factor, self.head = factor, head

    def scores(self, module, scores):
        scores = scores.clone()
        scores[:, self.head] = torch.where(
            scores[:, self.head] == -torch.inf, -torch.inf, scores[:, self.head] / self.factor
        )
        return scores


class Gated(Edit):
    def __init__(self, factor, layer, head):
        self.factor, self.layer, self.head = factor, layer, head

    def output(self, module, output):
        if layer_of(module) == self.layer:
            output[:, self.head] *= self.factor
        return output


class Chain(Edit):
    """Several edits, one after the other."""

    def __init__(self, *edits):
        self.edits = edits

    def scores(self, module, scores):
        for edit in self.edits:
            scores = edit.scores(module, scores)
        return scores

    def weights(self, module, weight):
        for edit in self.edits:
            weight = edit.weights(module, weight)
        return weight

    def output(self, module, output):
        for edit in self.edits:
            output = edit.output(module, output)
        return output


PAIRS = {
    "gate off": ([Gate(factor=0.0, heads=((0, 2), (3, 2)))], Chain(Gated(0.0, 0, 2), Gated(0.0, 3, 2))),
    "gate twice": ([Gate(factor=2.0, heads=((0, 1),))], Gated(2.0, 0, 1)),
    "bias": ([BiasKeys(bias=-1.5, keys=(0, 3))], Multiplied(torch.e**-1.5, (0, 3))),
    "bias some rows": (
        [BiasKeys(bias=2.0, segment="question", rows=(6, None))],
        Multiplied(torch.e**2, (9, 10, 11), 6),
    ),
    "hide": ([HideKeys(keys=(2, 3))], Multiplied(0.0, (2, 3))),
    "hide the first": ([HideKeys(keys=(0,), rows=(5, None))], Multiplied(0.0, (0,), 5)),
    "scale": ([ScaleKeys(factor=0.4, keys=(0,))], Scaled(0.4, (0,))),
    "scale to nothing": ([ScaleKeys(factor=0.0, keys=(0, 1))], Scaled(0.0, (0, 1))),
    "share": ([TargetShare(share=0.3, segment="document 1")], Shared(0.3, (2, 3, 4))),
    "share exactly": ([TargetShare(share=0.3, segment="document 1", lower=True)], Shared(0.3, (2, 3, 4), True)),
    "redistribute": (
        [Redistribute(segments=("document 1", "document 2"), shares=(0.9, 0.1))],
        Redivided([(2, 3, 4), (5, 6, 7)], (0.9, 0.1)),
    ),
    "temperature": ([Temperature(temperature=3.0, heads=((0, 1), (1, 1), (2, 1), (3, 1)))], Heated(3.0, 1)),
    "sharper": ([Temperature(temperature=0.5, heads=((0, 0), (1, 0), (2, 0), (3, 0)))], Heated(0.5, 0)),
    "uniform": ([Uniform(heads=((0, 1), (1, 1), (2, 1), (3, 1)))], Heated(torch.inf, 1)),
    "overlapping sets, rows and gates": (
        [
            Gate(factor=0.5, heads=((0, 0),)),
            TargetShare(share=0.5, keys=(2, 3, 4)),
            ScaleKeys(factor=0.3, keys=(4, 5, 6)),
            BiasKeys(bias=1.0, keys=(5, 6, 7), rows=(7, None)),
            HideKeys(keys=(1,), rows=(4, None)),
        ],
        Chain(
            Multiplied(torch.e, (5, 6, 7), 7),
            Multiplied(0.0, (1,), 4),
            Shared(0.5, (2, 3, 4)),
            Scaled(0.3, (4, 5, 6)),
            Gated(0.5, 0, 0),
        ),
    ),
    "uniform with a share and a bias": (
        [
            Uniform(heads=((0, 1), (1, 1), (2, 1), (3, 1))),
            BiasKeys(bias=-0.7, keys=(3,)),
            TargetShare(share=0.25, segment="document 2"),
        ],
        Chain(Heated(torch.inf, 1), Multiplied(torch.e**-0.7, (3,)), Shared(0.25, (5, 6, 7))),
    ),
}
FEW = ("gate off", "hide the first", "scale", "share", "temperature", "overlapping sets, rows and gates")


def of_model(edits, model):
    """The edits without the layers that a model does not have."""
    layers = {info.layer for info in survey(model).layers if info.attention == "softmax"}
    kept = []
    for edit in edits:
        heads = None if edit.heads is None else tuple(pair for pair in edit.heads if pair[0] in layers)
        if heads != ():
            kept.append(replace(edit, heads=heads))
    return kept


def compare(model, name, inputs, impl="tiled", request=None):
    edits, edit = PAIRS[name]
    plain, _ = dense(model, Edit(), inputs)
    expected, maps = dense(model, edit, inputs)
    got, captured = changed(model, of_model(edits, model), inputs, impl, request)
    assert (got - expected).abs().max() < 1e-4
    assert (plain - expected).abs().max() > 1e-3, "the edit changes nothing: the comparison would always pass"
    for layer in captured:
        if layer.info.layer in maps:
            assert (map_of(layer).double() - maps[layer.info.layer]).abs().max() < 1e-4


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("impl", ["reference", "tiled"])
def test_equals_the_dense_edit(name, impl):
    compare(build("llama"), name, {"input_ids": ids(LENGTH)}, impl)


@pytest.mark.parametrize("name", ["overlapping sets, rows and gates", "uniform with a share and a bias"])
def test_equals_the_dense_edit_in_triton(name):
    model = build("llama", num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1)
    compare(model, name, {"input_ids": ids(LENGTH)}, "triton", NOTHING)


OTHERS = [
    (family, name) for family in ("gpt2", "gemma2", "gpt_oss", "bert", "llama4_text", "qwen3_next") for name in FEW
]
OTHERS.remove(("llama4_text", "hide the first"))  # in chunks of five, no row from 5 on sees token 0


@pytest.mark.parametrize(("family", "name"), OTHERS)
def test_equals_the_dense_edit_in_other_families(family, name):
    compare(build(family), name, {"input_ids": ids(LENGTH)})


def test_windows_keep_out_what_they_keep_out():
    compare(build("mistral"), "share", {"input_ids": ids(LENGTH)})


def test_a_padded_batch():
    inputs = padded([list(range(3, 15)), list(range(20, 29))], "right")
    edits, edit = PAIRS["share"]
    expected, _ = dense(build("llama"), edit, inputs)
    got, _ = changed(build("llama"), edits, inputs)
    real = inputs["attention_mask"].bool()
    assert (got - expected)[real].abs().max() < 1e-4


@pytest.mark.parametrize("family", ["llama", "gpt_oss"])
def test_the_stored_map_is_the_one_after_the_change(family, tmp_path):
    edits, edit = PAIRS["overlapping sets, rows and gates"]
    model, token_ids = LoadedModel.wrap(build(family)), ids(LENGTH)[0].tolist()
    _, maps = dense(model.model, edit, {"input_ids": ids(LENGTH)})
    library = Library(tmp_path)
    changes = tuple(change.to_dict() for change in edits)  # as an address or a job would give them
    plain = analyse(model, token_ids, library=library)
    identity = analyse(model, token_ids, library=library, options=Options(interventions=changes)).id
    assert identity != plain.id
    analysis = Library(tmp_path).open(identity)
    for layer, expected in maps.items():
        for head in range(8):
            got = torch.from_numpy(analysis.map(layer, head)).double()
            assert (got - expected[0, head]).abs().max() < 1e-4
    assert analysis.info["interventions"] == [change.sentence() for change in edits]
    hidden = np.zeros((LENGTH, LENGTH), dtype=bool)
    hidden[4:, 1] = True
    assert (analysis.visible(0, 0) == (plain.visible(0, 0) & ~hidden)).all()


# ---- values of the case book and methods.md ----


def one_row(masses):
    """Query, key, value of one head whose only row has the given weights."""
    logits = torch.tensor(masses).log()
    query, key = torch.ones(1, 1, 1, 16) / 16, logits[None, None, :, None].expand(1, 1, -1, 16).contiguous()
    return query, key, torch.randn(1, 1, len(masses), 16), ScoreSpec(scale=1.0)


def after(edit, masses):
    from backend.changed_score import changed_score

    query, key, value, score = one_row(masses)
    score = changed_score(query, key, value, score, None, [(edit, [0], [edit.keys])], impl="reference")
    lse = attend(query, key, value, score, impl="reference").lse
    return weights(query, key, score, lse, slice(None), slice(None))[0, 0, 0].double(), score


def test_pasta_moves_a_fifth_to_its_value():
    row, _ = after(BiasKeys(bias=float(torch.tensor(0.01).log()), keys=(1, 2)), [0.2, 0.5, 0.3])
    assert row[0] == pytest.approx(0.961538, abs=1e-6)
    assert row[1] / row[2] == pytest.approx(5 / 3, abs=1e-5)


def test_target_share_is_exact_and_not_that_of_the_library():
    row, score = after(TargetShare(share=0.3, keys=(0,)), [0.1, 0.6, 0.3])
    assert row[0] == pytest.approx(0.3, abs=1e-6)
    assert float(score.row_bias) == pytest.approx(1.349927, abs=1e-5)


def test_act_rows_keep_their_sum():
    row, _ = after(ScaleKeys(factor=0.4, keys=(1,)), [0.5, 0.3, 0.2])
    assert row.sum() == pytest.approx(1, abs=1e-6)
    assert row[1] == pytest.approx(0.12, abs=1e-6)
    assert row[0] / row[2] == pytest.approx(2.5, abs=1e-5)


def test_never_reduces_unless_asked():
    row, _ = after(TargetShare(share=0.3, keys=(0,)), [0.6, 0.1, 0.3])
    assert row[0] == pytest.approx(0.6, abs=1e-6)


# ---- nothing is left behind ----


def test_no_effect_changes_nothing_at_all():
    model, inputs = build("llama"), {"input_ids": ids(LENGTH)}
    plain, _ = changed(model, [], inputs)
    for edit in (
        Gate(factor=1.0),
        BiasKeys(bias=0.0, keys=(1,)),
        ScaleKeys(factor=1.0, keys=(1,)),
        Temperature(temperature=1.0),
    ):
        out, _ = changed(model, [edit], inputs)
        assert torch.equal(out, plain)


def test_undone_on_exit_also_after_an_error():
    model, inputs = build("llama"), {"input_ids": ids(LENGTH)}
    before = model(**inputs)[0]
    changed(model, [Uniform()], inputs)
    assert torch.equal(model(**inputs)[0], before)
    with pytest.raises(Refused, match="row 0 would see no token"):
        changed(model, [HideKeys(keys=(0,))], inputs)
    assert torch.equal(model(**inputs)[0], before)


def test_statistics_are_those_of_the_changed_map():
    _, captured = changed(build("llama"), [Uniform(heads=((0, 3),)), HideKeys(keys=(2,))], {"input_ids": ids(LENGTH)})
    counts = captured[0].measures["visible_keys"][0, 3]
    assert counts.tolist() == [1, 2, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]
    assert torch.allclose(captured[0].measures["entropy"][0, 3], counts.float().log(), atol=1e-6)


# ---- refusals before the run ----


def check(model, *edits, n_tokens=LENGTH, segments=SEGMENTS, causal=True):
    check_interventions(edits, survey(model).layers, causal=causal, n_tokens=n_tokens, segments=segments)


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (Gate(factor=0.0, heads=((0, 8),)), "head 0.8 does not exist; layer 0 has heads 0 to 7"),
        (Gate(factor=0.0, heads=((7, 0),)), "no attention layer 7"),
        (Uniform(layers=(2,)), "no attention layer 2"),
        (Uniform(kind="cross"), "no attention of kind 'cross'"),
        (HideKeys(keys=(0,)), "row 0 would see no token"),
        (HideKeys(keys=(0, 1, 2), rows=(1, None)), "row 1 would see no token"),
        (HideKeys(keys=(12,)), "token 12 does not exist"),
        (HideKeys(segment="document 9"), "no segment 'document 9'"),
        (BiasKeys(bias=1.0, keys=(0,), rows=(12, 13)), "row 12 does not exist"),
    ],
)
def test_refused_before_the_run(edit, words):
    with pytest.raises(Refused, match=words):
        check(build("llama"), edit)


def test_two_edits_together_may_hide_a_rows_only_keys():
    one, other = HideKeys(keys=(0, 1), rows=(3, None)), HideKeys(keys=(2, 3), rows=(2, 5))
    check(build("llama"), one)
    check(build("llama"), other)
    with pytest.raises(Refused, match="row 3 would see no token"):
        check(build("llama"), one, other)


def test_a_chunk_that_would_be_empty_is_noticed_in_the_run():
    model, hidden = build("llama4_text"), HideKeys(keys=(5,))  # chunks of five: row 5 sees itself alone
    with pytest.raises(Refused, match="row 5 would see no token"):
        changed(model, [hidden], {"input_ids": ids(LENGTH)})


def test_a_window_narrows_what_a_row_has_left():
    hidden = HideKeys(keys=(4, 5, 6, 7))
    check(build("llama"), hidden)
    with pytest.raises(Refused, match="row 7 would see no token"):
        check(build("mistral"), hidden)


@pytest.mark.parametrize(
    ("kind", "fields", "words"),
    [
        (Gate, {"factor": 2.5}, "from 0"),
        (Gate, {"factor": 1.0, "heads": ((0, 1),), "layers": (0,)}, "not both"),
        (Gate, {"factor": 1.0, "heads": ((0, -1),)}, "pairs"),
        (ScaleKeys, {"factor": 1.5, "keys": (0,)}, "target_share"),
        (TargetShare, {"share": 1.0, "keys": (0,)}, "between 0 and 1"),
        (Temperature, {"temperature": 0.0}, "0.01 to 100"),
        (BiasKeys, {"bias": float("nan"), "keys": (0,)}, "hide_keys"),
        (HideKeys, {}, "one of the two"),
        (HideKeys, {"keys": (1,), "segment": "a"}, "one of the two"),
        (HideKeys, {"keys": (1,), "rows": (3, 2)}, "start < stop"),
        (Redistribute, {"segments": ("a", "a"), "shares": (1, 1)}, "each once"),
        (Redistribute, {"segments": ("a", "b"), "shares": (0, 0)}, "not all 0"),
        (EditText, {"old": "", "new": "x"}, "words to replace"),
        (EditTokens, {"start": 3, "stop": 2}, "start <= stop"),
    ],
)
def test_values_that_make_no_sense(kind, fields, words):
    with pytest.raises(Refused, match=words):
        kind(**fields)


# ---- plain data and words ----

EXAMPLES = [
    *[edit for edits, _ in PAIRS.values() for edit in edits],
    EditText(old="Paris", new="Rome"),
    EditTokens(start=0, stop=1),
    EditTokens(start=2, stop=2, token_ids=(7, 8)),
]


@pytest.mark.parametrize("edit", EXAMPLES, ids=lambda edit: edit.NAME)
def test_survives_json(edit):
    data = json.loads(json.dumps(edit.to_dict()))
    assert interventions.from_dict(data) == edit
    assert hash(interventions.from_dict(data)) == hash(edit)
    assert edit.sentence().endswith(".")


def test_every_file_of_the_folder_is_a_kind():
    kinds = interventions.all()
    assert {edit.NAME for edit in EXAMPLES} == set(kinds)
    assert all(name == kind.NAME for name, kind in kinds.items())


def test_sentences():
    assert Gate(factor=0.0, heads=((3, 1), (2, 0))).sentence() == "The output of heads 2.0 and 3.1 is switched off."
    assert HideKeys(keys=(0, 1, 2, 7), rows=(3, None), layers=(4,)).sentence() == (
        "In all heads of layer 4, rows from 3 on, tokens 0-2 and 7 cannot be seen."
    )


@pytest.mark.parametrize(
    "data", [{}, {"intervention": "os"}, {"intervention": "gate", "factor": 1.0, "code": "x"}, {"intervention": "gate"}]
)
def test_unknown_descriptions_are_refused(data):
    with pytest.raises(Refused):
        interventions.from_dict(data)


def test_tokens_are_taken_out_and_put_in():
    edit = EditTokens(start=1, stop=3, token_ids=(9,))
    assert edit.edited([5, 6, 7, 8]) == [5, 9, 8]
    assert [edit.moved(edge) for edge in range(5)] == [0, 1, 2, 2, 3]
    with pytest.raises(Refused, match="no token would be left"):
        EditTokens(start=0, stop=1).edited([5])
    with pytest.raises(Refused, match="has 1 tokens"):
        EditTokens(start=0, stop=2).edited([5])


def test_the_docs_name_every_kind():
    text = (PROJECT / "docs" / "interventions.md").read_text("utf-8")
    assert all(f"| `{name}` |" in text for name in interventions.all())
