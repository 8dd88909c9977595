"""Pictures and sound at the level of capture: the case book's numbers."""

import copy

import pytest
import torch

from backend.capture import capture
from backend.models import LoadedModel
from backend.probes import probe_inputs
from kernels.api import weights
from kernels.measures import NOTHING, MeasureRequest
from tests.backend import tiny_media

IDS = list(range(3, 15))


def maps(layers) -> list[torch.Tensor]:
    return [
        weights(x.query, x.key, x.score, x.lse, slice(0, x.query.shape[2]), slice(0, x.key.shape[2])) for x in layers
    ]


@pytest.mark.parametrize("model_type", tiny_media.PICTURES)
def test_picture_encoders_equal_eager(model_type):
    model = tiny_media.picture_model(model_type)
    wrapped = LoadedModel.wrap(model)
    assert wrapped.reads == "picture" and wrapped.checks["maps_equal_eager"]["passed"]
    inputs = probe_inputs(model)
    twin = copy.deepcopy(model)
    twin.set_attn_implementation("eager")
    with capture(model, NOTHING) as layers:
        model(**inputs)
    with torch.no_grad():
        theirs = twin(**inputs, output_attentions=True).attentions
    assert len(layers) == len(theirs) == 2
    for ours, their in zip(maps(layers), theirs, strict=True):
        assert (ours - their).abs().max() <= 1e-5


def test_case_23_whisper_reads_frames_and_writes_tokens():
    model = tiny_media.whisper()
    assert LoadedModel.wrap(model).reads == "sound"
    sound = torch.randn(1, 8, 60, generator=torch.Generator().manual_seed(1))
    with capture(model, NOTHING) as layers:
        model(input_features=sound, decoder_input_ids=torch.tensor([IDS[:5]]), use_cache=False)
    shapes = {layer.info.kind: (layer.query.shape[2], layer.key.shape[2]) for layer in layers}
    assert shapes == {"encoder": (30, 30), "decoder": (5, 5), "cross": (5, 30)}
    twin = copy.deepcopy(model)
    twin.set_attn_implementation("eager")
    with torch.no_grad():
        theirs = twin(
            input_features=sound, decoder_input_ids=torch.tensor([IDS[:5]]), use_cache=False, output_attentions=True
        ).cross_attentions
    ours = maps([layer for layer in layers if layer.info.kind == "cross"])
    assert max((a - b).abs().max() for a, b in zip(ours, theirs, strict=True)) <= 1e-5


def test_case_25_the_words_behind_a_picture_keep_their_places():
    model = tiny_media.llava()
    ids = torch.tensor([[1, 99, 99, 99, 99, 5, 6, 7]])
    with capture(model, MeasureRequest()) as layers:
        model(input_ids=ids, pixel_values=torch.randn(1, 3, 28, 28))
    assert [tuple(map_.shape) for map_ in maps(layers)] == [(1, 4, 8, 8)] * 2
    assert [layer.info.module.split(".")[-2:] for layer in layers] == [["0", "self_attn"], ["1", "self_attn"]]
    assert layers[0].measures["visible_keys"][0, 0].tolist() == list(range(1, 9))


def test_case_26_a_picture_and_its_prefix_see_both_ways():
    model = tiny_media.pali_gemma()
    ids = torch.tensor([[99, 99, 99, 99, 1, 5, 6, 7]])
    types = torch.tensor([[0, 0, 0, 0, 0, 0, 1, 1]])
    with capture(model, MeasureRequest()) as layers:
        model(input_ids=ids, pixel_values=torch.randn(1, 3, 28, 28), token_type_ids=types)
    for layer in layers:
        assert layer.measures["visible_keys"][0, 0].tolist() == [6, 6, 6, 6, 6, 6, 7, 8]


def test_case_26_a_picture_in_gemma_3_sees_itself_and_what_is_before_it():
    model = tiny_media.gemma_3()
    ids = torch.tensor([[1, 98, 99, 99, 99, 99, 97, 5, 6]])
    with capture(model, MeasureRequest()) as layers:
        model(input_ids=ids, pixel_values=torch.randn(1, 3, 28, 28), token_type_ids=(ids == 99).long())
    assert [layer.measures["visible_keys"][0, 0].tolist() for layer in layers] == [[1, 2, 6, 6, 6, 6, 7, 8, 9]] * 2


@pytest.mark.parametrize("parts", [("sdpa", "eager"), ("eager", "sdpa")])
def test_case_27_what_each_part_was_set_to_does_not_matter(parts):
    model, given = tiny_media.llava(), tiny_media.llava()
    given.set_attn_implementation({"text_config": parts[0], "vision_config": parts[1]})
    inputs = {"input_ids": torch.tensor([[1, 99, 99, 99, 99, 5, 6, 7]]), "pixel_values": torch.randn(1, 3, 28, 28)}
    found = []
    for one in (model, given):
        with capture(one, NOTHING) as layers:
            one(**inputs)
        found.append(maps(layers))
    assert len(found[1]) == 2 and max((a - b).abs().max() for a, b in zip(*found, strict=True)) <= 1e-5
    text = given.model.language_model.config
    assert text._attn_implementation == parts[0] and given.model.vision_tower.config._attn_implementation == parts[1]
