"""Capture on small models: the case book's numbers, padding, caches, and that everything is put back."""

import copy

import pytest
import torch

from backend.capture import capture
from backend.errors import Cancelled, HeadwaterError, NotFound
from backend.sites import matrix_of, survey
from kernels.api import weights
from kernels.measures import NOTHING, MeasureRequest
from tests.backend import tiny

IDS = tiny.ids(12)


def maps(model, request=NOTHING, **inputs) -> list[torch.Tensor]:
    with capture(model, request) as layers:
        model(**inputs)
    return [
        weights(x.query, x.key, x.score, x.lse, slice(0, x.query.shape[2]), slice(0, x.key.shape[2])) for x in layers
    ]


def seen(model, **inputs) -> list[list[int]]:
    """Visible keys per row of the first head, per layer."""
    with capture(model, MeasureRequest()) as layers:
        model(**inputs)
    return [layer.measures["visible_keys"][0, 0].tolist() for layer in layers]


@pytest.mark.parametrize("model_type", ["llama", "gpt2", "bert"])
def test_case_1_every_layer_gives_its_map(model_type):
    model = tiny.build(model_type)
    assert model.config._attn_implementation == "sdpa"
    assert [tuple(map_.shape) for map_ in maps(model, input_ids=IDS)] == [
        (1, survey(model).sites[0].info.heads, 12, 12)
    ] * 2


def test_case_2_nothing_above_the_diagonal():
    model = tiny.build("llama")
    alone = maps(model, input_ids=IDS)
    masked = maps(model, input_ids=IDS, attention_mask=torch.ones_like(IDS))
    batch = maps(model, input_ids=tiny.ids(12, batch=2))
    for plain, with_mask, two in zip(alone, masked, batch, strict=True):
        assert float(plain.triu(1).abs().max()) == 0 == float(two.triu(1).abs().max())
        assert (plain - with_mask).abs().max() <= 1e-6
        assert (plain - two[:1]).abs().max() <= 1e-5


def test_case_3_heads_read_their_own_key_head():
    model = tiny.build("llama")
    for layer in model.model.layers:
        layer.self_attn.k_proj.weight.data[8:] = 0  # key head 1 of 2
    first = maps(model, input_ids=IDS)[0][0]
    uniform = torch.ones(12, 12).tril() / torch.arange(1, 13)[:, None]
    assert [bool((head - uniform).abs().max() < 1e-6) for head in first] == [False] * 4 + [True] * 4


@pytest.mark.parametrize("side", ["left", "right"])
def test_case_4_padding_is_no_part_of_the_prompt(side):
    model, row = tiny.build("llama"), [5, 6, 7, 8]
    batch = tiny.padded([row, list(range(3, 11))], side)
    with capture(model, MeasureRequest()) as layers:
        model(**batch)
    with capture(model, MeasureRequest()) as single:
        model(torch.tensor([row]))
    real = slice(4, 8) if side == "left" else slice(0, 4)
    for padded, alone in zip(layers, single, strict=True):
        for name in ("entropy", "first_mass", "mean_distance", "received_sum", "received_max"):
            ours, theirs = padded.measures[name][0][:, real], alone.measures[name][0]
            assert torch.allclose(ours, theirs, atol=1e-5, equal_nan=True), name
        outside = [i for i in range(8) if not real.start <= i < real.stop]
        assert bool(padded.measures["entropy"][0][:, outside].isnan().all())
        assert int(padded.measures["visible_keys"][0][:, outside].sum()) == 0
        assert not bool(padded.measures["pooled_mean"][0].isinf().any())


def test_case_5_left_padding_does_not_move_positions():
    model, row = tiny.build("gpt2"), [5, 6, 7, 8]
    batch = tiny.padded([row, list(range(3, 11))], "left")
    together = maps(model, **batch)
    for padded, alone in zip(together, maps(model, input_ids=torch.tensor([row])), strict=True):
        assert (padded[0, :, 4:, 4:] - alone[0]).abs().max() <= 1e-5


def test_case_6_no_weight_on_padding():
    model = tiny.build("bert")
    ids, mask = torch.tensor([[5, 6, 7, 8, 0, 0, 0, 0]]), torch.tensor([[1, 1, 1, 1, 0, 0, 0, 0]])
    for map_ in maps(model, input_ids=ids, attention_mask=mask):
        assert float(map_[..., 4:].abs().max()) == 0
        assert (map_[0, :, :4].sum(-1) - 1).abs().max() <= 1e-5


def test_case_7_a_model_in_training_is_evaluated_and_put_back():
    model = tiny.build("llama", attention_dropout=0.5).train()
    model.model.layers[0].eval()
    before = {name: module.training for name, module in model.named_modules()}
    first, second = maps(model, input_ids=IDS), maps(model, input_ids=IDS)
    assert all(bool((a == b).all()) for a, b in zip(first, second, strict=True))
    assert all((map_.sum(-1) - 1).abs().max() <= 1e-3 for map_ in first)
    assert {name: module.training for name, module in model.named_modules()} == before


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float16, 1e-3), (torch.bfloat16, 4e-3)])
def test_case_8_rows_add_up_in_half_precision(dtype, tolerance):
    model = tiny.build("llama", max_position_embeddings=512).to(dtype)
    for map_ in maps(model, input_ids=torch.randint(3, 97, (1, 400))):
        assert map_.dtype == torch.float32
        assert (map_.sum(-1) - 1).abs().max() <= tolerance


def test_case_9_large_biases_do_not_overflow_in_float16():
    model = tiny.build("qwen2", hidden_size=32, num_attention_heads=4, num_hidden_layers=2, use_sliding_window=False)
    for layer in model.model.layers:
        layer.self_attn.q_proj.bias.data.fill_(200)
        layer.self_attn.k_proj.bias.data.fill_(200)
    for map_ in maps(model.half(), input_ids=IDS):
        assert bool(map_.isfinite().all())
        assert (map_.sum(-1) - 1).abs().max() <= 1e-3


@pytest.mark.parametrize("model_type", ["mistral", "phi3"])
def test_case_10_a_window_counts_itself(model_type):
    assert seen(tiny.build(model_type), input_ids=IDS) == [[1, 2, 3] + [4] * 9] * 2


@pytest.mark.parametrize(("model_type", "full"), [("qwen2", {0, 1}), ("gemma2", {1, 3}), ("gemma3_text", {5})], ids=str)
def test_case_11_windows_only_where_they_belong(model_type, full):
    model = tiny.build(model_type)
    layers = seen(model, input_ids=IDS)
    for number, rows in enumerate(layers):
        assert rows == (list(range(1, 13)) if number in full else [1, 2, 3] + [4] * 9)
    assert [info.window_size for info in survey(model).layers] == [None if n in full else 4 for n in range(len(layers))]


def test_case_12_windows_to_both_sides():
    model = tiny.build("modernbert")
    local = [3, 4, 5, 5, 5, 5, 5, 5, 5, 5, 4, 3]
    assert seen(model, input_ids=IDS) == [[12] * 12, local, local, [12] * 12]
    mask = torch.tensor([[1] * 5 + [0] * 3])
    for map_ in maps(model, input_ids=IDS[:, :8] * mask, attention_mask=mask):
        assert float(map_[:, :, :5, 5:].abs().max()) == 0


def test_case_13_softcap_bounds_the_ratio_of_weights():
    model = tiny.build("gemma2", num_hidden_layers=2, sliding_window=64)
    for layer in model.model.layers:
        for part in (layer.self_attn.q_proj, layer.self_attn.k_proj):
            torch.nn.init.normal_(part.weight, std=1.0)
    for map_ in maps(model, input_ids=IDS):
        last = map_[0, :, -1]
        ratio = (last.amax(-1) / last.amin(-1)).max()
        assert 7 < ratio <= 7.3891


def test_case_14_learned_sinks_take_their_share():
    model = tiny.build("gpt_oss")
    for layer in model.model.layers:
        layer.self_attn.q_proj.weight.data.zero_()
        layer.self_attn.q_proj.bias.data.zero_()
        layer.self_attn.sinks.data = torch.arange(8.0) - 3
    with capture(model, MeasureRequest()) as layers:
        model(IDS)
    share = torch.exp(torch.arange(8.0) - 3)
    assert torch.allclose(1 - layers[1].measures["learned_sink_mass"][0, :, -1], 12 / (12 + share), atol=1e-6)
    rows = 1 - layers[0].measures["learned_sink_mass"][0, 3]  # window of 4, sink 0
    assert torch.allclose(rows[:5], torch.tensor([0.5, 2 / 3, 0.75, 0.8, 0.8]), atol=1e-6)


def test_case_17_the_answer_stays_the_same():
    model = tiny.build("llama")
    with torch.no_grad():
        ordinary = model(IDS).logits
    with capture(model, MeasureRequest()):
        captured = model(IDS).logits
    assert (captured - ordinary).abs().max() <= 1e-4
    assert captured[0, -1].topk(5).indices.tolist() == ordinary[0, -1].topk(5).indices.tolist()


@pytest.mark.parametrize("side", ["left", "right"])
def test_case_18_a_prompt_does_not_depend_on_its_neighbour(side):
    model, short, long = tiny.build("llama"), list(range(20, 27)), IDS[0].tolist()
    together = maps(model, **tiny.padded([long, short], side))
    part = slice(5, 12) if side == "left" else slice(0, 7)
    for both, alone in zip(together, maps(model, input_ids=torch.tensor([short])), strict=True):
        assert (both[1][:, part, part] - alone[0]).abs().max() <= 1e-5


@pytest.mark.parametrize("cache", [None, "static"])
def test_cases_19_and_20_steps_of_a_generation_see_the_tokens_so_far(cache):
    model = tiny.build("llama")
    with capture(model, MeasureRequest()) as layers:
        model.generate(
            IDS, max_new_tokens=4, min_new_tokens=4, do_sample=False, cache_implementation=cache, disable_compile=True
        )
    shapes = [(layer.query.shape[2], layer.key.shape[2]) for layer in layers if layer.info.layer == 0]
    assert shapes == [(12, 12), (1, 13), (1, 14), (1, 15)]
    assert layers[-1].measures["visible_keys"].flatten().tolist() == [15] * 8


def test_a_prompt_read_in_two_parts_gives_the_same_map():
    model = tiny.build("mistral")
    whole = maps(model, input_ids=IDS)
    with capture(model, NOTHING) as layers:
        first = model(IDS[:, :7], use_cache=True)
        model(IDS[:, 7:], cache=first.past_key_values)
    for late, full in zip(layers[2:], whole, strict=True):
        rows, keys = late.query.shape[2], late.key.shape[2]
        part = weights(late.query, late.key, late.score, late.lse, slice(0, rows), slice(0, keys))
        assert (part - full[:, :, 7:, 12 - keys :]).abs().max() <= 1e-4  # rounding, twice through two sharp layers


def test_a_mask_of_the_callers_own_is_followed():
    model = tiny.build("llama")
    visible = torch.rand(1, 1, 12, 12, generator=torch.Generator().manual_seed(1)) > 0.5
    visible |= torch.eye(12, dtype=torch.bool)
    for map_ in maps(model, input_ids=IDS, attention_mask=visible):
        assert float((map_ * ~visible).abs().max()) == 0
        assert (map_.sum(-1) - 1).abs().max() <= 1e-5


def test_packed_prompts_see_only_themselves():
    model = tiny.build("llama")
    positions = torch.tensor([[0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 5, 6]])
    for map_ in maps(model, input_ids=IDS, position_ids=positions, use_cache=False):
        assert float(map_[..., 5:, :5].abs().max()) == 0


def state(model) -> tuple:
    hooks = [(len(m._forward_hooks), len(m._forward_pre_hooks)) for m in model.modules()]
    return [m.config._attn_implementation for m in model.modules() if hasattr(m, "config")], hooks


def test_everything_is_put_back_also_after_an_error():
    model = tiny.build("llama")
    model.model.config = copy.deepcopy(model.config)  # a part with a setting of its own
    model.model.config._attn_implementation_internal = "eager"
    before, grad = state(model), torch.is_grad_enabled()

    def stop(layer):
        raise Cancelled("The person stopped the work.")

    with pytest.raises(Cancelled), capture(model, NOTHING, on_layer=stop):
        assert model.config._attn_implementation == "headwater"
        model(IDS)
    assert (state(model), torch.is_grad_enabled()) == (before, grad)
    assert "headwater" not in before[0]


def test_another_model_with_the_same_configuration_is_not_captured_but_right():
    model = tiny.build("llama")
    other = type(model)(model.config).eval()
    with torch.no_grad():
        ordinary = other(IDS).logits
    with capture(model, NOTHING) as layers:
        foreign = other(IDS).logits
    assert len(layers) == 0
    assert (foreign - ordinary).abs().max() <= 1e-4


def test_one_capture_at_a_time():
    model = tiny.build("llama")
    with capture(model), pytest.raises(HeadwaterError, match="being captured already"), capture(model):
        pass


def test_layers_are_handed_over_in_order_and_not_kept():
    model, order = tiny.build("llama"), []
    with capture(model, NOTHING, on_layer=lambda layer: order.append(layer.info.layer)) as layers:
        model(IDS)
    assert order == [0, 1]
    assert len(layers) == 0


def test_by_layer_names_what_there_is():
    model = tiny.build("llama")
    with capture(model, NOTHING) as layers:
        model(IDS)
    assert layers.by_layer(1).info.module == "model.layers.1.self_attn"
    with pytest.raises(NotFound, match="Layer 7"):
        layers.by_layer(7)


KEYS = MeasureRequest(rows=False, keys=True, distances=False, pooled=None, sampled=0)


@pytest.mark.parametrize("model_type", ["llama", "gpt2", "bert", "modernbert", "deepseek_v3"])
def test_norms_of_the_stream_and_of_the_values(model_type):
    model = tiny.build(model_type)
    with capture(model, KEYS) as layers:
        hidden = model(IDS, output_hidden_states=True).hidden_states
    for layer, site, stream in zip(layers, survey(model).sites, hidden, strict=False):
        assert torch.allclose(layer.hidden_norm, stream.norm(dim=-1), atol=1e-4)
        assert torch.allclose(layer.hidden_max, stream.abs().amax(-1), atol=1e-5)
        per_head = matrix_of(site.projection).reshape(site.info.heads, site.info.value_dim, -1)
        value = layer.value.repeat_interleave(site.info.heads // site.info.key_heads, dim=1)
        direct = torch.einsum("bhnd,hdm->bhnm", value, per_head).norm(dim=-1)
        assert torch.allclose(layer.output_norm, direct, rtol=1e-4, atol=1e-4)


def test_no_norm_of_values_where_keys_are_not_measured():
    model = tiny.build("llama")
    with capture(model, NOTHING) as layers:
        model(IDS)
    assert len(layers) == 2 and all(layer.output_norm is None for layer in layers)


def test_no_norm_through_a_gate():
    model = tiny.build("qwen3_next")
    with capture(model, KEYS) as layers:
        model(IDS)
    assert layers[0].output_norm is None


def test_changed_projection_weights_are_noticed():
    model = tiny.build("llama")
    with capture(model, KEYS) as before:
        model(IDS)
    with torch.no_grad():
        model.model.layers[0].self_attn.o_proj.weight.mul_(2)
    with capture(model, KEYS) as after:
        model(IDS)
    assert torch.allclose(after[0].output_norm, 2 * before[0].output_norm, rtol=1e-4)
