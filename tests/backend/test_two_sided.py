"""Encoder-decoders: three kinds of attention, two lists of tokens."""

import copy

import numpy as np
import pytest
import torch

from backend.capture import capture
from backend.errors import Refused
from backend.interventions import Gate, HideKeys
from backend.map_sizes import map_sizes
from backend.models import LoadedModel, load
from backend.options import Options
from backend.pipeline import analyse
from backend.prompts import Prompt
from backend.store import Library
from kernels.api import weights
from kernels.measures import NOTHING
from tests.backend import tiny_more, tiny_tokenizers

IDS = list(range(3, 15))
KINDS = {"encoder": "encoder_attentions", "decoder": "decoder_attentions", "cross": "cross_attentions"}


def eager(model, source: list[int], target: list[int], dtype=torch.float32) -> dict[str, list[torch.Tensor]]:
    """Maps of a separate copy set to eager, by kind."""
    twin = copy.deepcopy(model).to(dtype)
    twin.set_attn_implementation("eager")
    ids, decoder = torch.tensor([source]), torch.tensor([target])
    with torch.no_grad():
        output = twin(input_ids=ids, decoder_input_ids=decoder, output_attentions=True, use_cache=False)
    return {kind: list(getattr(output, name)) for kind, name in KINDS.items()}


def target_of(found) -> list[int]:
    return [row["token_id"] for row in found.tokens().to_pylist() if row["side"] == "target"]


@pytest.mark.parametrize("model_type", [*tiny_more.TWO_SIDED, "mvp", "bigbird_pegasus"])
def test_maps_of_all_three_kinds_equal_eager_after_saving(model_type, tmp_path):
    model = tiny_more.build(model_type)
    library = Library(tmp_path)
    made = analyse(LoadedModel.wrap(model), IDS, options=Options(new_tokens=5), library=library)
    found = library.open(made.id)
    target = target_of(found)
    theirs = eager(model, IDS, target)
    exact = eager(model, IDS, target, torch.float64)
    assert {layer.kind for layer in found.layers()} == set(KINDS)
    for layer in found.layers():
        their = theirs[layer.kind][layer.layer][0]
        own = (their - exact[layer.kind][layer.layer][0]).abs().max().item()  # what float32 leaves open
        for head in range(layer.heads):
            ours = found.map(layer.layer, head, kind=layer.kind)
            assert np.abs(ours - their[head].numpy()).max() <= max(1e-5, 4 * own)


def test_led_sees_windows_in_its_encoder_and_all_of_the_source_from_its_decoder():
    model = LoadedModel.wrap(tiny_more.build("led"))
    assert model.checks["maps_equal_eager"]["passed"]
    found = analyse(model, IDS, options=Options(new_tokens=4))
    assert found.info["implementation"] == "dense"
    apart = np.abs(np.arange(12)[:, None] - np.arange(12))
    assert (found.visible(0, 0, kind="encoder") == (apart <= 2)).all()
    assert found.visible(0, 0, kind="cross").all()
    theirs = eager(model.model, IDS, target_of(found))
    for kind in ("decoder", "cross"):
        assert np.abs(found.map(1, 2, kind=kind) - theirs[kind][1][0, 2].numpy()).max() <= 1e-5


@pytest.mark.parametrize("model_type", tiny_more.TWO_SIDED)
def test_logits_are_those_of_an_ordinary_run(model_type):
    model = tiny_more.build(model_type)
    inputs = {"input_ids": torch.tensor([IDS]), "decoder_input_ids": torch.tensor([IDS[:5]])}
    with torch.no_grad():
        ordinary = model(**inputs).logits
    with capture(model, NOTHING):
        captured = model(**inputs).logits
    assert (captured - ordinary).abs().max() <= 1e-4 * ordinary.abs().max()


def test_case_15_t5_uses_one_bias_table_in_every_layer_and_does_not_scale():
    model = tiny_more.build("t5")
    torch.nn.init.normal_(model.encoder.block[0].layer[0].SelfAttention.relative_attention_bias.weight, std=2)
    for block in model.encoder.block:
        block.layer[0].SelfAttention.q.weight.data.zero_()
    with capture(model, NOTHING) as layers:
        model(input_ids=torch.tensor([IDS]), decoder_input_ids=torch.tensor([IDS[:5]]))
    first, second = (layers.by_layer(number, "encoder") for number in (0, 1))
    whole = slice(0, 12)
    maps = [weights(x.query, x.key, x.score, x.lse, whole, whole) for x in (first, second)]
    assert (maps[0] - maps[1]).abs().max() <= 1e-6
    assert maps[0][0, :, 5].max() > 0.2  # uniform would be 0.083
    assert first.score.scale == 1.0
    assert first.score.bias_by_distance is not None and first.score.bias is None


def test_case_21_bart_has_encoder_decoder_and_cross_of_their_own_shapes():
    model = tiny_more.build("bart")
    with capture(model, NOTHING) as layers:
        model(input_ids=torch.tensor([IDS]), decoder_input_ids=torch.tensor([IDS[:5]]), use_cache=False)
    shapes = {
        kind: [
            (x.query.shape[1], x.query.shape[2], x.key.shape[2], x.score.causal) for x in layers if x.info.kind == kind
        ]
        for kind in KINDS
    }
    assert shapes["encoder"] == [(4, 12, 12, False)] * 2
    assert shapes["decoder"] == [(8, 5, 5, True)] * 3
    assert shapes["cross"] == [(8, 5, 12, False)] * 3


def test_case_21_kinds_have_their_own_tokens_and_sizes():
    found = analyse(LoadedModel.wrap(tiny_more.build("bart")), IDS, options=Options(new_tokens=4))
    sides = [row["side"] for row in found.tokens().to_pylist()]
    n_target = sides.count("target")
    assert sides == ["source"] * 12 + ["target"] * n_target
    sizes = map_sizes(found)
    assert {kind: len(layers) for kind, layers in sizes.items()} == {"encoder": 2, "decoder": 3, "cross": 3}
    assert (sizes["cross"][2].heads, sizes["cross"][2].queries, sizes["cross"][2].keys) == (8, n_target, 12)
    rows = found.rows(kind="cross", layer=0, head=0)
    assert rows.num_rows == n_target
    for name in ("previous_mass", "self_mass", "mean_distance", "duplicate_mass", "induction_mass"):
        assert rows.column(name).null_count == n_target, name
    assert found.distances(kind="cross").num_rows == 0
    assert found.keys(kind="cross", layer=0, head=0).num_rows == 12
    assert found.distances(kind="encoder", layer=0, head=0).num_rows == 23


@pytest.mark.parametrize("num_beams", [1, 3])
def test_case_22_the_target_is_the_winning_path_and_its_cross_map_is_one_piece(num_beams):
    model = tiny_more.build("bart")
    found = analyse(LoadedModel.wrap(model), IDS, options=Options(new_tokens=4, num_beams=num_beams))
    target = target_of(found)
    with torch.no_grad():
        written = model.generate(
            torch.tensor([IDS]), max_new_tokens=4, num_beams=num_beams, do_sample=False, length_penalty=1.0
        )[0].tolist()
    while written[-1] == 2 and len(written) > 1:
        written.pop()
    assert target == written
    assert found.map(0, 0, kind="cross").shape == (len(target), 12)
    theirs = eager(model, IDS, target)["cross"]
    assert np.abs(found.map(1, 3, kind="cross") - theirs[1][0, 3].numpy()).max() <= 1e-5


def test_log_probabilities_and_predictions_belong_to_the_target():
    model = tiny_more.build("marian")
    model.final_logits_bias.normal_()  # what Marian adds behind its projection
    found = analyse(LoadedModel.wrap(model), IDS, options=Options(new_tokens=4))
    rows = found.tokens().to_pylist()
    target = target_of(found)
    with torch.no_grad():
        logits = model(torch.tensor([IDS]), decoder_input_ids=torch.tensor([target])).logits[0]
    expected = logits.log_softmax(-1)[range(len(target) - 1), target[1:]].tolist()
    given = [row["logprob"] for row in rows]
    assert given[:13] == [None] * 13
    assert given[13:] == pytest.approx(expected, abs=1e-4)
    predictions = found.predictions().to_pylist()
    assert {row["position"] for row in predictions} == set(range(len(target)))
    best = [row["token_id"] for row in predictions if row["rank"] == 0]
    assert best == logits.argmax(-1).tolist()


@pytest.fixture
def bart_folder(tmp_path):
    tokenizer = tiny_tokenizers.byte_level()
    size = {"vocab_size": len(tokenizer), "max_position_embeddings": 64}
    tiny_more.build("bart", **size).save_pretrained(tmp_path / "bart")
    tokenizer.save_pretrained(tmp_path / "bart")
    return tmp_path / "bart"


def test_a_given_target_is_read_behind_the_start_token(bart_folder):
    model = load(str(bart_folder))
    assert model.two_sided and model.predicts_next and not model.causal
    found = analyse(model, Prompt(text="the old river", target="der alte Fluss"))
    rows = [row for row in found.tokens().to_pylist() if row["side"] == "target"]
    assert rows[0]["token_id"] == model.start_of_target()
    assert "".join(row["text"] for row in rows) == "der alte Fluss"
    segments = found.segments()
    names = {segments[row["segment"]].name for row in rows if row["segment"] is not None}
    assert names == {"target"}
    assert found.info["prompt"] == {"text": "the old river", "target": "der alte Fluss"}
    with pytest.raises(Refused, match="nothing is written"):
        analyse(model, Prompt(text="the old river", target="der"), options=Options(new_tokens=3))
    with pytest.raises(Refused, match="its target holds no visible character"):
        analyse(model, Prompt(text="the old river", target="  "))


def test_a_target_is_refused_where_there_is_no_decoder_of_its_own(tmp_path):
    tokenizer = tiny_tokenizers.byte_level()
    from tests.backend import tiny

    model = LoadedModel.wrap(tiny.build("llama", vocab_size=len(tokenizer)), tokenizer)
    with pytest.raises(Refused, match="no decoder that reads a target"):
        analyse(model, Prompt(text="the old river", target="der"))


def test_a_target_that_has_no_room_is_refused():
    with pytest.raises(Refused, match="takes at most 64"):
        analyse(LoadedModel.wrap(tiny_more.build("bart")), IDS, options=Options(new_tokens=64))


def test_interventions_of_each_kind_act_where_they_say():
    model = LoadedModel.wrap(tiny_more.build("bart"))
    plain = analyse(model, IDS, options=Options(new_tokens=3))
    hidden = (HideKeys(keys=(3,), kind="cross"),)
    found = analyse(model, IDS, options=Options(new_tokens=3, interventions=hidden))
    assert not found.visible(0, 0, kind="cross")[:, 3].any()
    assert found.visible(0, 0, kind="encoder").all()
    assert np.abs(found.map(0, 0, kind="encoder") - plain.map(0, 0, kind="encoder")).max() <= 1e-6
    with pytest.raises(Refused, match="no attention of kind 'self'"):
        analyse(model, IDS, options=Options(interventions=(Gate(heads=((0, 0),), factor=0.0),)))
