"""Models that read a text with a picture: from their folder to a stored analysis, against a separate eager copy."""

import base64
import copy
import io

import numpy as np
import pytest
import torch
from PIL import Image

from backend.errors import Refused
from backend.interventions import EditTokens, Gate
from backend.models import LoadedModel, load
from backend.options import Options
from backend.pipeline import analyse
from backend.probes import places_of_media
from backend.prompts import Prompt, encode
from backend.store import Library
from tests.backend import tiny_pictures

TEXT = "the cat sat"
GRIDS = {"llava": [4, 4], "paligemma": [4, 4], "gemma3": [2, 2], "qwen2_vl": [2, 3]}


def picture(width: int = 50, height: int = 40) -> Image.Image:
    drawn = np.random.default_rng(0).integers(0, 255, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(drawn)


def wrapped(model_type: str) -> LoadedModel:
    model, processor = tiny_pictures.build(model_type)
    return LoadedModel.wrap(model, name=f"tiny {model_type}", processor=processor)


def laid_out(model_type: str, text: str) -> str:
    """What a person would give the processor themselves."""
    if model_type == "qwen2_vl":
        return f"<|vision_start|><|image_pad|><|vision_end|>{text}"
    return {"gemma3": "<start_of_image>"}.get(model_type, "<image>") + text


@torch.no_grad()
def theirs(model, processor, text: str, written: tuple[int, ...] = (), types: int = 0) -> tuple[list, torch.Tensor]:
    """Maps of a separate copy set to eager, and the token ids, from the processor's own inputs."""
    inputs = dict(processor(images=[picture()], text=[text], return_tensors="pt"))
    inputs.pop("labels", None)
    inputs.pop("attention_mask", None)
    for name in [name for name in inputs if name.endswith("_ids")]:
        more = list(written) if name == "input_ids" else [types] * len(written)
        inputs[name] = torch.cat([inputs[name], torch.tensor([more], dtype=inputs[name].dtype)], 1)
    twin = copy.deepcopy(model)
    twin.set_attn_implementation("eager")
    output = twin(**inputs, output_attentions=True, use_cache=False)
    return [one for one in output.attentions if one is not None], inputs["input_ids"][0]


@pytest.mark.parametrize("model_type", tiny_pictures.TYPES)
def test_from_a_folder_to_a_stored_analysis_with_the_maps_of_an_eager_copy(model_type, tmp_path):
    model, processor = tiny_pictures.save(model_type, tmp_path / "model")
    loaded = load(str(tmp_path / "model"))
    assert loaded.sees and loaded.reads == "text"
    library = Library(tmp_path / "library")
    made = analyse(loaded, Prompt(text=TEXT, image=picture()), library=library)
    found = Library(tmp_path / "library").open(made.id)
    maps, ids = theirs(model, processor, laid_out(model_type, TEXT))
    tokens = found.tokens_list()
    assert [token.token_id for token in tokens] == ids.tolist()
    layers = found.layers()
    assert len(layers) == len(maps) == (7 if model_type == "gemma3" else 2)
    for layer, their in zip(layers, maps, strict=True):
        for head in range(layer.heads):
            assert np.abs(found.map(layer.layer, head) - their[0, head].numpy()).max() <= 1e-5
            assert np.array_equal(found.visible(layer.layer, head), their[0, head].numpy() > 0)
    rows, columns = GRIDS[model_type]
    segment = next(one for one in found.segments() if one.kind == "picture")
    assert (segment.name, segment.end - segment.start) == ("picture", rows * columns)
    labels = [token.label for token in tokens[segment.start : segment.end]]
    assert labels[0] == "patch 0,0" and labels[-1] == f"patch {rows - 1},{columns - 1}"
    assert found.info["patches"] == {"start": segment.start, "grid": [rows, columns]}
    assert "".join(token.text for token in tokens) == TEXT
    words = [token for token in tokens if token.text]
    assert words[0].segment == found.segments().index(next(s for s in found.segments() if s.kind == "text"))
    assert "media" not in found.info and found.info["prompt"]["text"] == TEXT
    assert found.info["prompt"]["image"]["width"] == 50


@pytest.mark.parametrize("model_type", tiny_pictures.TYPES)
def test_case_26_picture_blocks_see_what_the_model_lets_them_see(model_type):
    found = analyse(wrapped(model_type), Prompt(text=TEXT, image=picture()))
    n = len(found.tokens_list())
    seen = found.visible(0, 0).sum(-1).tolist()
    segment = next(one for one in found.segments() if one.kind == "picture")
    if model_type == "paligemma":
        assert seen == [n] * n
    elif model_type == "gemma3":  # layer 5 sees all that is before, layer 0 six tokens; both the whole picture
        inside = range(segment.start, segment.end)
        full = found.visible(5, 0).sum(-1).tolist()
        assert full == [segment.end if row in inside else row + 1 for row in range(n)]
        expected = [
            sum(row - 6 < key <= row or (row in inside and key in inside) for key in range(n)) for row in range(n)
        ]
        assert seen == expected
    else:
        assert seen == list(range(1, n + 1))


def test_what_a_row_had_seen_has_no_probability():
    """PaliGemma's prompt sees itself whole; only what is written behind it is predicted."""
    found = analyse(wrapped("paligemma"), Prompt(text=TEXT, image=picture()), options=Options(new_tokens=3))
    tokens = found.tokens_list()
    given = found.info["n_prompt_tokens"]
    assert all(token.logprob is None for token in tokens[:given])
    assert len(tokens) > given and all(token.logprob is not None for token in tokens[given:])
    other = analyse(wrapped("llava"), Prompt(text=TEXT, image=picture())).tokens_list()
    assert [token.logprob is None for token in other] == [not token.text for token in other]


@pytest.mark.parametrize("model_type", tiny_pictures.TYPES)
def test_written_text_has_the_maps_it_was_written_with(model_type):
    loaded = wrapped(model_type)
    found = analyse(loaded, Prompt(text=TEXT, image=picture()), options=Options(new_tokens=3))
    given = found.info["n_prompt_tokens"]
    written = tuple(token.token_id for token in found.tokens_list()[given:])
    inputs = dict(loaded.processor(images=[picture()], text=[laid_out(model_type, TEXT)], return_tensors="pt"))
    inputs.pop("labels", None)
    with torch.no_grad():
        never = places_of_media(loaded.model)  # an untrained model would write the tokens of pictures
        expected = loaded.model.generate(**inputs, max_new_tokens=3, do_sample=False, suppress_tokens=never)[0, given:]
    assert list(written) == expected.tolist()
    types = 1 if model_type == "paligemma" else 0
    maps, _ = theirs(loaded.model, loaded.processor, laid_out(model_type, TEXT), written, types)
    for layer, their in zip(found.layers(), maps, strict=True):
        assert np.abs(found.map(layer.layer, 0) - their[0, 0].numpy()).max() <= 1e-5


def test_patches_are_no_duplicates_of_each_other():
    found = analyse(wrapped("llava"), Prompt(text="the the the", image=picture()))
    rows = found.rows(layer=0, head=0).to_pylist()
    segment = next(one for one in found.segments() if one.kind == "picture")
    assert all(rows[row]["duplicate_mass"] is None for row in range(segment.end))
    ids = [token.token_id for token in found.tokens_list()]
    words = [row for row in range(segment.end, len(ids)) if ids[row] in ids[segment.end : row]]
    assert words and all(rows[row]["duplicate_mass"] is not None for row in words)


def test_an_intervention_changes_the_words_and_leaves_the_tower_alone():
    loaded, prompt = wrapped("llava"), Prompt(text=TEXT, image=picture())
    gated = (Gate(heads=((0, 1),), factor=0.0),)
    found = analyse(loaded, prompt, options=Options(new_tokens=3, interventions=gated))
    plain = analyse(loaded, prompt)
    assert np.array_equal(found.map(0, 0)[:20, :20] > 0, plain.map(0, 0)[:20, :20] > 0)
    assert np.abs(found.map(1, 0)[:20, :20] - plain.map(1, 0)[:20, :20]).max() > 1e-3
    with pytest.raises(Refused, match="whose tokens cannot be moved"):
        analyse(loaded, prompt, options=Options(interventions=(EditTokens(start=0, stop=1),)))


def test_a_chat_has_the_picture_in_the_first_turn_of_the_user():
    loaded = wrapped("llava")
    chat = [{"role": "system", "content": "Say it."}, {"role": "user", "content": "What is <s>?"}]
    encoded = encode(loaded, Prompt(chat=chat, image=picture()))
    names = [(segment.name, segment.kind) for segment in encoded.segments]
    assert names == [("system", "system"), ("picture", "picture"), ("user", "user")]
    assert encoded.text == "[system]Say it.\n[user]What is <s>?\n[assistant]"
    assert "".join(token.text for token in encoded.tokens) == encoded.text
    assert any("<s>" in notice and "read as text" in notice for notice in encoded.notices)
    user = encoded.segments[2]
    spelled = "".join(token.text for token in encoded.tokens[user.start : user.end])
    assert spelled == "What is <s>?"
    assert loaded.tokenizer.bos_token_id not in encoded.token_ids


def test_the_picture_stands_where_its_mark_was_typed():
    loaded = wrapped("llava")
    encoded = encode(loaded, Prompt(text="the <image> cat", image=picture(), parse_special=True))
    assert [segment.name for segment in encoded.segments] == ["text", "picture", "text, behind the picture"]
    assert "".join(token.text for token in encoded.tokens) == "the  cat"
    expected = loaded.processor(images=[picture()], text=["the <image> cat"])["input_ids"][0]
    assert encoded.token_ids == expected


def test_the_picture_is_kept_as_the_model_sees_it():
    """A picture that is cut to its middle: the patches lie over the middle, so it is the middle that is kept."""
    wide = Image.new("RGB", (96, 32), (255, 0, 0))
    wide.paste((0, 0, 255), (32, 0, 64, 32))
    found = analyse(wrapped("llava"), Prompt(text=TEXT, image=wide), options=Options(keep_media=True))
    kept = np.asarray(Image.open(io.BytesIO(base64.b64decode(found.info["media"]["data"]))))
    assert kept.shape == (32, 32, 3)
    assert np.abs(kept.reshape(-1, 3).astype(int) - [0, 0, 255]).max() <= 1


@pytest.mark.parametrize(
    ("model_type", "prompt", "sentence"),
    [
        ("llava", {"image": b"x"}, r"reads a text with its picture: give both"),
        ("llava", {"text": "a", "image": b"no picture"}, "cannot be read"),
        ("llava", {"text": "a <image> b", "image": picture()}, "stands for the picture"),
        ("llava", {"text": "<image><image>", "image": picture(), "parse_special": True}, "2 places for one picture"),
        ("llava", {"pair": ("a", "b"), "image": picture()}, "not with a sentence pair"),
        ("llava", {"text": "a", "audio": b"x"}, "reads text; a sound cannot be given"),
        ("paligemma", {"text": "a"}, "reads a text with a picture: give both"),
    ],
    ids=["no text", "corrupt", "typed mark", "two marks", "pair", "sound", "no picture"],
)
def test_what_does_not_fit_is_refused_in_one_sentence(model_type, prompt, sentence):
    with pytest.raises(Refused, match=sentence) as refusal:
        analyse(wrapped(model_type), Prompt(**prompt))
    assert "\n" not in str(refusal.value)


def test_text_alone_is_read_by_a_model_that_may_have_a_picture():
    loaded = wrapped("llava")
    found = analyse(loaded, TEXT)
    assert "patches" not in found.info and found.visible(0, 0).sum(-1).tolist() == list(
        range(1, found.info["n_tokens"] + 1)
    )
