"""What-if, StreamingLLM's figure, window with and without sinks: against dense eager attention and closed forms."""

import math

import numpy as np
import pytest
import torch

from backend.capture import capture
from backend.errors import Refused
from backend.interventions import EditTokens, HideKeys, ScaleKeys
from backend.models import LoadedModel
from backend.sinks.act import act
from backend.sinks.what_if import effect
from backend.studies import run_study, sink_whatif, sink_window, streaming_figure
from kernels.measures import NOTHING
from kernels.window import weights
from tests.backend.eager import eager_maps
from tests.backend.test_interventions import Edit, dense
from tests.backend.tiny import build, ids
from tests.backend.tiny_tokenizers import byte_level

N = 24


def logits_of(model, tokens) -> torch.Tensor:
    with torch.no_grad():
        return model(torch.tensor([tokens])).logits[0].double()


class ActOnWeights(Edit):
    """I-03 on weights: in every head the sinks but the first times beta, what is freed to the others in proportion."""

    def __init__(self, sinks, beta):
        self.sinks, self.beta = sinks, beta

    def weights(self, module, weight):
        result = weight.clone()
        for head in range(weight.shape[1]):
            later = torch.zeros(weight.shape[-1], dtype=torch.bool)
            later[np.flatnonzero(self.sinks[module.layer_idx, head])[1:].tolist()] = True
            own = weight[:, head]
            freed = (1 - self.beta) * own[..., later].sum(-1, keepdim=True)
            rest = own[..., ~later].sum(-1, keepdim=True)
            scaled = torch.where(later, self.beta * own, own * (1 + freed / rest))
            result[:, head] = torch.where(rest > 1e-30, scaled, own)
        return result


def test_act_changes_logits_as_a_dense_eager_model_does_and_rows_add_up():
    model, inputs = build("llama"), {"input_ids": ids(N)}
    maps = torch.stack([layer[0] for layer in eager_maps(model, inputs)])  # [L, H, N, N]
    rows = torch.arange(N, 0, -1)
    sinks = ((maps.sum(2) / rows > 0.05) & (rows >= 4)).numpy()
    changes = act(sinks, (0, 1))
    assert changes and all(isinstance(change, ScaleKeys) and change.factor == 0.4 for change in changes)
    with torch.no_grad(), capture(model, NOTHING, impl="tiled", interventions=changes) as captured:
        ours = model(**inputs).logits
    with torch.no_grad():
        theirs, edited = dense(model, ActOnWeights(sinks, 0.4), inputs)
        plain = model(**inputs).logits
    assert (ours - theirs).abs().max() < 1e-4 and (theirs - plain).abs().max() > 1e-2
    for layer in captured:
        own = weights(layer.query, layer.key, layer.score, layer.lse, slice(None), slice(None))
        assert own.sum(-1) == pytest.approx(torch.ones(1, 8, N), abs=1e-5)
        assert (own.double() - edited[layer.info.layer]).abs().max() < 1e-4


def test_act_leaves_the_first_sink_alone_and_the_heads_that_were_not_chosen():
    sinks = np.zeros((2, 2, 6), bool)
    sinks[0, 0, [0, 3, 5]] = sinks[0, 1, [2]] = sinks[1, 1, [1, 3]] = True
    found = {change.keys: change.heads for change in act(sinks, (3, 7))}
    assert found == {(3, 5): ((3, 0),), (3,): ((7, 1),)}
    assert [change.heads for change in act(sinks, (3, 7), heads=((7, 1),))] == [((7, 1),)]
    assert act(sinks, (3, 7), heads=((3, 1),)) == []


def test_an_effect_is_that_of_two_plain_runs():
    model = LoadedModel.wrap(build("llama"))
    tokens = ids(N)[0].tolist()
    for edit, other, first in (
        (EditTokens(start=0, stop=1), tokens[1:], 2),
        (EditTokens(start=0, stop=1, token_ids=(50,)), [50, *tokens[1:]], 1),
        (EditTokens(start=0, stop=0, token_ids=(50, 51)), [50, 51, *tokens], 1),
    ):
        found = effect(model, tokens, [edit])
        old, new = (logits_of(model.model, one).log_softmax(-1) for one in (tokens, other))
        shift = len(other) - N
        assert found.shift == shift and found.compared == N - first
        losses = [
            -np.mean([float(one[place + move - 1, tokens[place]]) for place in range(first, N)])
            for one, move in ((old, 0), (new, shift))
        ]
        assert (found.loss_before, found.loss_after) == pytest.approx(losses, abs=1e-4)
        assert found.kl == pytest.approx(float((new[-1].exp() * (new[-1] - old[-1])).sum()), abs=1e-4)
        assert found.total_variation == pytest.approx(float((new[-1].exp() - old[-1].exp()).abs().sum() / 2), abs=1e-5)
        places = [place for place in range(N) if place >= edit.stop and place + shift >= 0]
        pairs = [(new[place + shift], old[place]) for place in places]
        kl = float(sum((a.exp() * (a - b)).sum() for a, b in pairs)) / len(pairs)
        assert found.kl_mean == pytest.approx(kl, abs=1e-4)


def test_hiding_a_sink_for_chosen_heads_is_that_of_a_dense_eager_model():
    class Hidden(Edit):
        def scores(self, module, scores):
            scores = scores.clone()
            if module.layer_idx == 1:
                scores[:, 2, 1:, 0] = -torch.inf
            return scores

    model, tokens = build("llama"), ids(N)
    found = effect(LoadedModel.wrap(model), tokens[0].tolist(), [HideKeys(heads=((1, 2),), keys=(0,), rows=(1, None))])
    with torch.no_grad():
        old, (new, _) = model(tokens).logits[0], dense(model, Hidden(), {"input_ids": tokens})
    new, old = new[0].double().log_softmax(-1), old.double().log_softmax(-1)
    every = (new.exp() * (new - old)).sum(-1)
    assert found.kl == pytest.approx(float(every[-1]), abs=1e-4)
    assert found.kl_mean == pytest.approx(float(every.mean()), abs=1e-4) and found.kl_mean > 1e-2


def test_the_study_has_every_edit_or_its_reason():
    model = LoadedModel.wrap(build("llama", vocab_size=300), byte_level())
    tokens = model.tokenizer("the cat sat on the mat . the cat sat")["input_ids"]
    study = run_study(sink_whatif.STUDY, model, sink_whatif.Parameters(token_ids=tokens, least_rows=100))
    effects = {row["edit"]: row for row in study.table("effects").to_pylist()}
    assert list(effects) == ["hide", "scale", "act", "front", "swap", "drop"]
    assert effects["act"]["note"].startswith("Not defined because no chosen head has a second sink")
    for edit in ("hide", "scale", "front", "swap", "drop"):
        row = effects[edit]
        assert row["note"] is None and row["kl"] >= 0 and math.isfinite(row["loss_after"]), edit
    assert effects["hide"]["sink_after"] is None and effects["drop"]["sink_after"] is None
    assert (
        effects["front"]["sink_after"] is not None and effects["scale"]["sink_after"] < effects["scale"]["sink_before"]
    )
    rows = study.table("heads").to_pylist()
    assert len(rows) == 5 * 2 * 8
    own = eager_maps(model.model, {"input_ids": torch.tensor([tokens])})
    for row in rows:
        expected = own[row["layer"]][0, row["head"], :, 0].double().mean().item()
        assert row["first_before"] == pytest.approx(expected, abs=1e-5)


def test_every_factor_is_a_change_of_its_own_and_several_keys_are_changed_together():
    model, tokens = build("llama"), ids(N)[0].tolist()
    asked = sink_whatif.Parameters(token_ids=tokens, edits=("scale",), keys=(0, 5), factors=(0.0, 0.5, 1.0, 0.5))
    assert asked.changes == [("scale", 0.0), ("scale", 0.5), ("scale", 1.0)]
    rows = run_study(sink_whatif.STUDY, LoadedModel.wrap(model), asked).table("effects").to_pylist()
    before = logits_of(model, tokens)
    for row, factor in zip(rows, (0.0, 0.5, 1.0), strict=True):
        every = [(layer, head) for layer in range(2) for head in range(8)]
        changed = np.zeros((2, 8, N), bool)
        changed[:, :, [0, 5]] = True
        with torch.no_grad():
            after, _ = dense(model, ScaleOnWeights(changed, factor), {"input_ids": torch.tensor([tokens])})
        new, old = (values[-1].log_softmax(-1) for values in (after[0].double(), before))
        assert row["factor"] == factor and len(every) == changed.any(-1).sum()
        assert row["kl"] == pytest.approx((new.exp() * (new - old)).sum().item(), abs=1e-4)
    assert rows[2]["kl"] == pytest.approx(0, abs=1e-6) and rows[0]["kl"] > rows[1]["kl"] > 0


class ScaleOnWeights(ActOnWeights):
    """The keys marked in [L, H, N] times beta, what is freed to the others in proportion."""

    def weights(self, module, weight):
        keys = torch.from_numpy(self.sinks[module.layer_idx])[None, :, None]
        rest = weight.masked_fill(keys, 0).sum(-1, keepdim=True)
        freed = (1 - self.beta) * weight.masked_fill(~keys, 0).sum(-1, keepdim=True)
        scaled = torch.where(keys, self.beta * weight, weight * (1 + freed / rest))
        return torch.where(rest > 1e-30, scaled, weight)


@pytest.mark.parametrize("length", [1, 2])
def test_a_prompt_of_one_or_two_tokens_is_measured_where_defined(length):
    model = LoadedModel.wrap(build("llama"))
    study = run_study(sink_whatif.STUDY, model, sink_whatif.Parameters(token_ids=[5, 9][:length]))
    notes = {row["edit"]: row["note"] for row in study.table("effects").to_pylist()}
    assert notes["act"] and notes["front"].endswith("no text was given to put in front.")
    assert (notes["drop"] is None) == (length == 2)


def test_what_if_refuses_what_has_no_next_token_and_keys_that_do_not_exist():
    with pytest.raises(Refused, match="does not predict the next token"):
        sink_whatif.STUDY.plan(LoadedModel.wrap(build("bert", base=True)), sink_whatif.Parameters(token_ids=(1, 2)))
    with pytest.raises(Refused, match="There is no prompt: start this study on the page Sinks"):
        sink_whatif.STUDY.plan(LoadedModel.wrap(build("llama")), sink_whatif.Parameters())
    with pytest.raises(Refused, match="keys: expected positions from 0 to 1"):
        sink_whatif.Parameters(token_ids=(1, 2), keys=(2,))
    with pytest.raises(Refused, match="factors: expected 1 to 8 numbers from 0 to 1"):
        sink_whatif.Parameters(token_ids=(1, 2), factors=())


def test_the_figure_is_the_mean_over_dense_logits_and_weights():
    model = LoadedModel.wrap(build("llama", vocab_size=300), byte_level())
    parameters = streaming_figure.Parameters(samples=20, length=8)
    study = run_study(streaming_figure.STUDY, model, parameters)
    sentences = streaming_figure.sentences_of(model, parameters)[:20]
    causal = torch.ones(8, 8, dtype=torch.bool).tril()
    own = eager_maps(model.model, {"input_ids": torch.tensor(sentences)})
    for row in study.table("positions").to_pylist():
        mass = own[row["layer"]][..., row["key"]].double()  # [B, H, rows]
        assert row["probability"] == pytest.approx(mass[:, :, row["key"] :].mean().item(), abs=1e-5)
        assert row["cells"] == 20 * 8 * (8 - row["key"])
        assert row["uniform"] == pytest.approx(np.mean([1 / (i + 1) for i in range(row["key"], 8)]), abs=1e-9)
    with torch.no_grad(), capture(model, NOTHING) as captured:
        model.model(torch.tensor(sentences), use_cache=False)
    maps = {(row["layer"], row["row"], row["key"]): row for row in study.table("maps").to_pylist()}
    assert len(maps) == 2 * 36
    for layer in captured:
        raw = layer.query.double() @ layer.key.double().repeat_interleave(4, 1).mT * layer.score.scale
        for i, j in causal.nonzero().tolist():
            row = maps[layer.info.layer, i, j]
            assert row["logit"] == pytest.approx(raw[:, :, i, j].mean().item(), abs=1e-4)


def test_the_figure_of_texts_of_ones_own():
    model = LoadedModel.wrap(build("llama", vocab_size=300), byte_level())
    texts = ("The cat sat on the mat. The cat sat on a table?", "A world of text lay on the mat!")
    study = run_study(streaming_figure.STUDY, model, streaming_figure.Parameters(samples=3, length=6, texts=texts))
    (first,) = [row for row in study.table("maps", layer=0).to_pylist() if (row["row"], row["key"]) == (0, 0)]
    assert first["cells"] == 3 * 8
    with pytest.raises(Refused, match="4 sentences of 6 tokens were asked for and the texts have 3"):
        streaming_figure.STUDY.plan(model, streaming_figure.Parameters(samples=4, length=6, texts=texts))


def test_the_figure_leaves_cells_out_of_the_window_out():
    model = LoadedModel.wrap(build("mistral", vocab_size=300), byte_level())
    study = run_study(streaming_figure.STUDY, model, streaming_figure.Parameters(samples=3, length=8))
    rows = {(row["layer"], row["key"]): row for row in study.table("positions").to_pylist()}
    assert rows[0, 0]["cells"] == 3 * 8 * 4  # four rows see it
    with pytest.raises(Refused, match="9000 sentences of 8 tokens were asked for and the texts have"):
        streaming_figure.STUDY.plan(model, streaming_figure.Parameters(samples=9000, length=8))


@pytest.mark.parametrize("family", ["llama", "mistral", "gpt_oss"])
def test_retained_mass_and_loss_are_those_of_the_dense_model(family):
    model, tokens = build(family), ids(30)
    parameters = sink_window.Parameters(token_ids=tokens[0].tolist(), first=2, budgets=(4, 8))
    study = run_study(sink_window.STUDY, LoadedModel.wrap(model), parameters)
    own = eager_maps(model, {"input_ids": tokens})
    row, key = torch.arange(30)[:, None], torch.arange(30)[None]
    windows = {layer.layer: layer.window_size or 30 for layer in LoadedModel.wrap(model).describe().layers}
    for found in study.table("heads").to_pylist():
        stream = parameters.stream(found["variant"], found["budget"])
        full = own[found["layer"]][0, found["head"]].double()
        kept = (key < stream.first) | (key > row - stream.recent)
        size = windows[found["layer"]]
        loses = ((key <= row) & (key > row - size) & ~kept).any(-1)
        if not loses.any():
            assert found["retained"] is None
            continue
        assert found["retained"] == pytest.approx((full * kept)[loses].sum(-1).mean().item(), abs=1e-4)
    variants = {(row["variant"], row["budget"]): row for row in study.table("variants").to_pylist()}
    logprobs = logits_of(model, tokens[0].tolist()).log_softmax(-1)
    losses = [-float(logprobs[place - 1, tokens[0, place]]) for place in range(1, 30)]
    assert variants["all keys", 0]["loss"] == pytest.approx(np.mean(losses), abs=1e-4)
    assert variants["window", 4]["full_late"] == pytest.approx(np.mean(losses[4:]), abs=1e-4)
    assert variants["window", 8]["perplexity"] == pytest.approx(math.exp(variants["window", 8]["loss"]))


def test_a_window_alone_loses_the_sinks_mass():
    from backend.cache import Stream
    from backend.types import LayerCapture, LayerInfo
    from kernels.api import attend
    from kernels.measures import MeasureRequest
    from kernels.score import ScoreSpec

    query, key = torch.zeros(1, 1, 101, 4), torch.zeros(1, 1, 101, 4)
    query[..., 0], key[0, 0, 0, 0] = 8.0, 1.0
    score = ScoreSpec(scale=1.0)
    found = attend(query, key, key, score, MeasureRequest(), impl="reference")
    layer = LayerCapture(
        LayerInfo("self", 0, "x", "softmax", 1, 1, 4, 4), query, key, key, score, found.lse.float(), {}, "reference"
    )
    alone, both = (float(sink_window.retained_shares(layer, Stream(first, 16 - first))) for first in (0, 4))
    rows = range(16, 101)
    assert alone == pytest.approx(np.mean([16 / (math.e**8 + i) for i in rows]), abs=1e-6)
    assert both == pytest.approx(np.mean([(math.e**8 + 15) / (math.e**8 + i) for i in rows]), abs=1e-6)


def test_a_text_that_fits_the_budget_has_nothing_to_lose():
    with pytest.raises(Refused, match="has 6 tokens and a budget of 8 keeps them all"):
        sink_window.STUDY.plan(
            LoadedModel.wrap(build("llama")), sink_window.Parameters((3, 4, 5, 6, 7, 8), budgets=(8,))
        )
