"""Families with their own softmax: the maps kept are the ones their own code reports."""

import copy

import numpy as np
import pytest
import torch

from backend import dense
from backend.capture import capture
from backend.errors import NotFound, Refused
from backend.families import families
from backend.interventions import Gate, HideKeys
from backend.map_sizes import axis_labels, axis_sides, require_tokens
from backend.models import LoadedModel
from backend.options import Options
from backend.pipeline import analyse
from kernels.measures import NOTHING, MeasureRequest
from kernels.window import visible, weights
from tests.backend import tiny, tiny_more

IDS = list(range(3, 15))
TWO_SIDED = ("mvp", "led", "bigbird_pegasus")  # their maps are compared in test_two_sided.py
CAUSAL = ("bloom", "falcon", "mpt", "gpt_neo", "openai-gpt", "gpt_neox_japanese", "xglm")


def reported(model, ids: list[int], **inputs) -> list[torch.Tensor]:
    """The attentions of a separate copy set to eager, with the library's own words."""
    twin = copy.deepcopy(model)
    twin.config._attn_implementation = "eager"  # the public setter does nothing for these families
    if hasattr(twin.config, "attention_type"):  # BigBird reports nothing while it exchanges its attention
        config = copy.deepcopy(model.config)
        config.attention_type, config._attn_implementation = "original_full", "eager"
        twin = type(model)(config).eval()
        twin.load_state_dict(model.state_dict())
    with torch.no_grad():
        output = twin(torch.tensor([ids]), output_attentions=True, **inputs)
    names = ("attentions", "encoder_attentions", "decoder_attentions", "cross_attentions")
    return [part for name in names for part in getattr(output, name, None) or ()]


def at_their_keys(bands: torch.Tensor, reach: int) -> torch.Tensor:
    """[B, H, N, 2 reach + 1] -> [B, H, N, N], cell by cell."""
    batch, heads, rows, width = bands.shape
    whole = torch.zeros(batch, heads, rows, rows)
    for row in range(rows):
        for place in range(width):
            if 0 <= row + place - reach < rows:
                whole[:, :, row, row + place - reach] = bands[:, :, row, place]
    return whole


@pytest.mark.parametrize("model_type", [name for name in tiny_more.DENSE if name not in TWO_SIDED])
def test_stored_maps_are_the_reported_ones(model_type, tmp_path):
    model = tiny_more.build(model_type)
    wrapped = LoadedModel.wrap(model)
    theirs = reported(model, IDS)
    if model_type == "longformer":
        theirs = [at_their_keys(bands, 2) for bands in theirs]
    found = analyse(wrapped, IDS)
    assert found.info["implementation"] == "dense"
    assert found.info["checks"]["maps_equal_eager"]["passed"]
    layers = found.layers()
    assert len(layers) == len(theirs)
    for layer, their in zip(layers, theirs, strict=True):
        for head in range(layer.heads):
            assert np.abs(found.map(layer.layer, head) - their[0, head].numpy()).max() <= 1e-6
    assert set(found.rows().column("lse").to_pylist()) == {None}
    assert all(value is not None for value in found.heads().column("entropy").to_pylist())


@pytest.mark.parametrize("model_type", CAUSAL)
def test_causal_families_are_seen_to_be_causal(model_type):
    wrapped = LoadedModel.wrap(tiny_more.build(model_type))
    assert wrapped.causal and wrapped.predicts_next
    found = analyse(wrapped, IDS)
    seen = found.visible(0, 0)
    assert (seen == np.tri(12, dtype=bool)).all()
    assert found.tokens().column("logprob").to_pylist()[1] < 0


def test_every_dense_family_in_the_list_is_tried():
    listed = {name for family in families() if family.dense and not family.refusal for name in family.model_types}
    assert listed <= set(tiny_more.DENSE)


def test_windows_of_gpt_neo_are_read_from_its_scores():
    found = analyse(LoadedModel.wrap(tiny_more.build("gpt_neo")), IDS)
    assert [layer.window_size for layer in found.layers()] == [None, 4]
    assert found.visible(1, 0).sum(1).tolist() == [1, 2, 3] + [4] * 9


def test_statistics_are_those_of_the_stored_maps():
    found = analyse(LoadedModel.wrap(tiny_more.build("bloom")), IDS)
    head = found.heads(layer=1, head=2).to_pylist()[0]
    map_ = found.map(1, 2).astype(np.float64)
    rows = -(map_ * np.log(map_, where=map_ > 0, out=np.zeros_like(map_))).sum(1)
    assert head["entropy"] == pytest.approx(rows.mean(), abs=1e-5)
    assert head["first_key_importance"] == pytest.approx(map_[:, 0].mean(), abs=1e-6)
    assert head["max_weight"] == pytest.approx(map_[1:].max(1).mean(), abs=1e-6)
    received = found.keys(layer=1, head=2).column("received_sum").to_pylist()
    assert received == pytest.approx(map_.sum(0).tolist(), abs=1e-5)


@pytest.mark.parametrize("side", ["left", "right"])
def test_case_16_padding_of_deberta_gets_no_weight(side):
    model = tiny_more.build("deberta-v2")
    ids, mask = torch.tensor([[5, 6, 7, 8, 9, 0, 0, 0]]), torch.tensor([[1, 1, 1, 1, 1, 0, 0, 0]])
    real = slice(0, 5)
    if side == "left":
        ids, mask, real = ids.flip(1), mask.flip(1), slice(3, 8)
    with capture(model, MeasureRequest()) as layers:
        model(ids, attention_mask=mask)
    for layer in layers:
        pads = [i for i in range(8) if not real.start <= i < real.stop]
        assert float(layer.dense[:, :, real][..., pads].abs().max()) == 0
        assert (layer.dense[:, :, real].sum(-1) - 1).abs().max() <= 1e-6
        assert bool(layer.measures["entropy"][:, :, pads].isnan().all())


def test_case_16_weights_are_not_those_of_queries_and_keys_alone():
    """With the positions' share of the scores set to nothing the maps are others."""
    model = tiny_more.build("deberta-v2")
    before = analyse(LoadedModel.wrap(model), IDS).map(0, 0)
    model.deberta.encoder.rel_embeddings.weight.data.zero_()
    after = analyse(LoadedModel.wrap(model), IDS).map(0, 0)
    assert np.abs(before - after).max() > 0.05


def test_case_30_funnel_has_layers_of_unlike_sizes():
    found = analyse(LoadedModel.wrap(tiny_more.build("funnel")), IDS)
    sizes = found.sql("select queries, keys from layers order by layer").to_pylist()
    assert [(row["queries"], row["keys"]) for row in sizes] == [(12, 12), (6, 12), (3, 6), (12, 12)]
    assert found.map(2, 1).shape == (3, 6)


@pytest.mark.parametrize("model_type", ["bloom", "mpnet"])
def test_case_29_a_closed_gate_changes_the_answer_as_a_head_of_zeros_does(model_type):
    """The gate scales the head's probabilities, so that its output is zero; the values set to zero do the same."""
    model = tiny_more.build(model_type)
    twin = copy.deepcopy(model)
    attention = dict(twin.named_modules())[analyse(LoadedModel.wrap(model), IDS).layers()[0].module]
    if model_type == "bloom":  # [heads, 3, head dim]
        fused = attention.query_key_value
        fused.weight.data.view(4, 3, 8, -1)[1, 2] = 0
        fused.bias.data.view(4, 3, 8)[1, 2] = 0
    else:
        attention.v.weight.data[8:16] = 0
        attention.v.bias.data[8:16] = 0
    ids = torch.tensor([IDS])
    with torch.no_grad():
        expected, plain = twin(ids).logits, model(ids).logits
    with capture(model, NOTHING, interventions=[Gate(heads=((0, 1),), factor=0.0)]):
        changed = model(ids).logits
    assert (changed - expected).abs().max() <= 1e-4
    assert (changed - plain).abs().max() > 1e-2


def test_hidden_keys_get_nothing_and_the_rest_adds_up():
    model = tiny_more.build("bloom")
    with capture(model, NOTHING, interventions=[HideKeys(keys=(3,), rows=(4, None))]) as layers:
        model(torch.tensor([IDS]))
    for layer in layers:
        assert float(layer.dense[0, :, 4:, 3].abs().max()) == 0
        assert (layer.dense[0].sum(-1) - 1).abs().max() <= 1e-5
        whole = slice(0, 12)
        assert (weights(layer.query, layer.key, layer.score, layer.lse, whole, whole) - layer.dense).abs().max() <= 1e-5


def test_long_prompts_are_kept_in_half_precision_and_longer_ones_refused():
    model = LoadedModel.wrap(tiny_more.build("mpt", max_seq_len=2048))
    ids = [3 + i % 90 for i in range(600)]
    found = analyse(model, ids)
    codecs = {row["codec"] for row in found.sql("select codec from maps_0 where part = 'dense'").to_pylist()}
    assert codecs == {"float16:triangle"}
    assert found.weight_error(0, 0) <= 5e-4
    with pytest.raises(Refused, match=r"1,025 tokens.*up to 1,024 tokens"):
        analyse(model, [3] * 1025)


def test_another_implementation_is_refused():
    with pytest.raises(Refused, match="leave auto"):
        analyse(LoadedModel.wrap(tiny_more.build("bloom")), IDS, options=Options(impl="tiled"))


def test_generation_goes_on_behind_the_prompt():
    found = analyse(LoadedModel.wrap(tiny_more.build("bloom")), IDS, options=Options(new_tokens=3))
    assert found.info["n_tokens"] == 15
    assert found.map(1, 0).shape == (15, 15)


def test_rules_are_read_from_what_is_visible():
    causal = torch.ones(6, 6, dtype=torch.bool).tril()
    shapes = {
        "full": (torch.ones(6, 6, dtype=torch.bool), (False, None, None)),
        "causal": (causal, (True, None, None)),
        "window": (causal.triu(-2), (True, 3, None)),
        "around": (torch.ones(6, 6, dtype=torch.bool).tril(1).triu(-2), (False, None, (2, 1))),
        "none": (causal & (torch.arange(6) != 2), (False, None, None)),
    }
    for name, (seen, expected) in shapes.items():
        rule = dense.rule_of(seen[None, None])
        assert (rule.causal, rule.window, rule.around) == expected, name
        assert bool((visible(rule, 6, 6, slice(0, 6), slice(0, 6))[0, 0] == seen).all()), name


def test_a_model_of_the_interface_is_not_captured_dense():
    assert analyse(LoadedModel.wrap(tiny.build("llama")), IDS).info["implementation"] == "tiled"


@pytest.mark.parametrize("length", [10, 12])
def test_case_24_longformer_is_shown_at_the_true_keys(length):
    """Its code pads to a multiple of the window; the two rows behind the tenth are no part of the map."""
    found = analyse(LoadedModel.wrap(tiny_more.build("longformer")), IDS[:length])
    assert [layer.window_size for layer in found.layers()] == [5, 5]
    assert found.map(0, 0).shape == (length, length)
    apart = np.abs(np.arange(length)[:, None] - np.arange(length))
    assert (found.visible(0, 0) == (apart <= 2)).all()
    for head in range(4):
        assert np.abs(found.map(1, head).sum(1) - 1).max() <= 1e-6


def test_case_24_global_attention_is_refused_in_words():
    model = tiny_more.build("longformer")
    chosen = torch.zeros(1, 12, dtype=torch.int64)
    chosen[0, 0] = 1
    with capture(model, NOTHING), pytest.raises(Refused, match="1 tokens have global attention"):
        model(torch.tensor([IDS]), global_attention_mask=chosen)


def test_bands_of_longformer_can_be_changed():
    model = tiny_more.build("longformer")
    with capture(model, NOTHING, interventions=[HideKeys(keys=(3,), rows=(0, None))]) as layers:
        model(torch.tensor([IDS[:10]]))
    for layer in layers:
        assert float(layer.dense[0, :, :, 3].abs().max()) == 0
        assert (layer.dense[0].sum(-1) - 1).abs().max() <= 1e-5


def test_a_short_prompt_does_not_make_big_bird_stay_full():
    """Left alone, the model exchanges its attention for good when a short prompt comes."""
    model = tiny_more.build("big_bird")
    before = [(name, type(module).__name__) for name, module in model.named_modules()]
    wrapped = LoadedModel.wrap(model)
    assert wrapped.max_positions == 7 * 4
    analyse(wrapped, IDS)
    assert [(name, type(module).__name__) for name, module in model.named_modules()] == before
    assert model.bert.attention_type == "block_sparse"
    with pytest.raises(Refused, match="takes at most 28"):
        analyse(wrapped, [3 + i % 90 for i in range(29)])
    first, second = analyse(wrapped, IDS), analyse(wrapped, IDS)
    assert np.abs(first.map(1, 2) - second.map(1, 2)).max() == 0


def test_reformer_reads_one_chunk_and_refuses_two():
    wrapped = LoadedModel.wrap(tiny_more.build("reformer"))
    assert analyse(wrapped, [3 + i % 90 for i in range(32)]).map(1, 0).shape == (32, 32)
    with pytest.raises(Refused, match="takes at most 32"):
        analyse(wrapped, [3 + i % 90 for i in range(33)])


def test_case_30_no_token_label_stands_on_a_pooled_position():
    found = analyse(LoadedModel.wrap(tiny_more.build("funnel")), IDS)
    labels = {"self": [token.label for token in found.tokens_list()]}
    assert axis_sides(found, "self", 0) == ("self", "self")
    assert axis_sides(found, "self", 2) == ("pooled 3", "pooled 6")
    assert axis_labels(found, "self", 2, labels) == (["0", "1", "2"], ["0", "1", "2", "3", "4", "5"])
    assert axis_labels(found, "self", 1, labels)[1] == labels["self"]


def test_case_30_layers_of_unlike_lengths_are_not_laid_side_by_side():
    with pytest.raises(NotFound, match="layers 1, 2 have fewer positions"):
        require_tokens(analyse(LoadedModel.wrap(tiny_more.build("funnel")), IDS), "self")
    require_tokens(analyse(LoadedModel.wrap(tiny_more.build("bloom")), IDS), "self")


@pytest.mark.parametrize(
    ("model_type", "projection", "take"),
    [
        ("gpt_neo", "attn.attention.v_proj", lambda out: out.unflatten(-1, (4, -1))),
        ("xglm", "self_attn.v_proj", lambda out: out.unflatten(-1, (4, -1))),
        ("mpt", "attn.Wqkv", lambda out: out.chunk(3, -1)[2].unflatten(-1, (4, -1))),
        ("bloom", "self_attention.query_key_value", lambda out: out.unflatten(-1, (4, 3, -1))[..., 2, :]),
        ("deberta-v2", "attention.self.value_proj", lambda out: out.unflatten(-1, (4, -1))),
    ],
)
def test_norms_of_values_are_those_of_the_models_own_projection(model_type, projection, take):
    """The values are seen where the probabilities are multiplied with them; keys are not to be seen."""
    model = tiny_more.build(model_type)
    seen = []
    for name, module in model.named_modules():
        if name.endswith(projection):
            module.register_forward_hook(lambda module, args, output: seen.append(output))
    wrapped = LoadedModel.wrap(model)
    seen.clear()
    found = analyse(wrapped, IDS)
    for layer, output in enumerate(seen[-2:]):
        expected = take(output[0]).norm(dim=-1)  # [N, H]
        for head in range(4):
            table = found.keys(layer=layer, head=head)
            assert np.abs(table["value_norm"].to_numpy() - expected[:, head].numpy()).max() <= 1e-5
            assert table["key_norm"].null_count == len(IDS)


def test_maps_kept_as_bands_have_no_norms_of_values():
    found = analyse(LoadedModel.wrap(tiny_more.build("longformer")), IDS)
    assert len(found.layers()) == 2 and found.keys(layer=1)["value_norm"].null_count == 4 * len(IDS)
