"""Pictures and sounds as prompts, from a file to a stored analysis; and what is wrong with a file in one sentence."""

import base64
import copy
import io
import sys
import wave

import numpy as np
import pytest
import soundfile
import torch
from PIL import Image
from transformers import CLIPImageProcessorPil, ViTImageProcessorPil, WhisperFeatureExtractor

from backend.errors import Refused
from backend.media import open_sound, resampled
from backend.models import LoadedModel, load
from backend.options import Options
from backend.pipeline import analyse
from backend.prompts import Prompt
from backend.store import Library
from tests.backend import tiny, tiny_media, tiny_tokenizers

SIZE = {"height": 32, "width": 32}


def picture(width: int = 50, height: int = 40) -> Image.Image:
    drawn = np.random.default_rng(0).integers(0, 255, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(drawn)


def file_of(image: Image.Image, form: str = "PNG", **options) -> bytes:
    written = io.BytesIO()
    image.save(written, form, **options)
    return written.getvalue()


def sound(seconds: float, rate: int = 16000, channels: int = 1, width: int = 2) -> bytes:
    """A tone of 440 Hz."""
    times = np.arange(int(seconds * rate)) / rate
    tone = 0.5 * np.sin(2 * np.pi * 440 * times)
    values = {1: (tone * 127 + 128).astype(np.uint8), 2: (tone * 32767).astype("<i2")}[width]
    written = io.BytesIO()
    with wave.open(written, "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(width)
        file.setframerate(rate)
        file.writeframes(np.repeat(values, channels).tobytes())
    return written.getvalue()


def flac(seconds: float, rate: int = 16000, channels: int = 1) -> bytes:
    """The same tone as FLAC."""
    times = np.arange(int(seconds * rate)) / rate
    tone = (0.5 * np.sin(2 * np.pi * 440 * times)).astype(np.float32)
    written = io.BytesIO()
    soundfile.write(written, np.repeat(tone[:, None], channels, 1), rate, format="FLAC", subtype="PCM_16")
    return written.getvalue()


def vit() -> LoadedModel:
    return LoadedModel.wrap(tiny_media.picture_model("vit"), name="tiny ViT", processor=ViTImageProcessorPil(size=SIZE))


def whisper() -> LoadedModel:
    processor = WhisperFeatureExtractor(feature_size=8, chunk_length=1, hop_length=267, n_fft=400)
    processor.n_samples, processor.nb_max_frames = 60 * 267, 60
    return LoadedModel.wrap(tiny_media.whisper(), tiny_tokenizers.byte_level(), "tiny Whisper", processor=processor)


def test_a_picture_is_stored_with_a_token_per_patch(tmp_path):
    model, library = vit(), Library(tmp_path)
    made = analyse(model, Prompt(image=file_of(picture())), library=library)
    found = library.open(made.id)
    labels = [token.label for token in found.tokens_list()]
    assert labels[:2] == ["[CLS]", "patch 0,0"] and labels[-1] == "patch 3,3" and len(labels) == 17
    assert [segment.name for segment in found.segments()] == ["picture"]
    values = model.processor(picture(), return_tensors="pt")["pixel_values"]
    twin = copy.deepcopy(model.model)
    twin.set_attn_implementation("eager")
    with torch.no_grad():
        theirs = twin(values, output_attentions=True).attentions
    for layer, their in enumerate(theirs):
        for head in range(4):
            assert np.abs(found.map(layer, head) - their[0, head].numpy()).max() <= 1e-5
    assert found.info["prompt"]["image"]["width"] == 50
    assert found.heads(layer=0, head=0).column("duplicate_token").to_pylist() == [None]
    assert "media" not in found.info


def test_a_picture_is_kept_only_on_request():
    found = analyse(vit(), Prompt(image=picture()), options=Options(keep_media=True))
    media = found.info["media"]
    assert media["type"] == "image/png" and found.info["patches"] == {"start": 1, "grid": [4, 4]}
    assert Image.open(io.BytesIO(base64.b64decode(media["data"]))).size == (32, 32)


def test_two_pictures_are_two_analyses(tmp_path):
    model, library = vit(), Library(tmp_path)
    first = analyse(model, Prompt(image=picture()), library=library)
    again = analyse(model, Prompt(image=file_of(picture())), library=library)
    other = analyse(model, Prompt(image=picture(60)), library=library)
    kept = analyse(model, Prompt(image=picture()), library=library, options=Options(keep_media=True))
    assert len({first.id, other.id, kept.id}) == 3
    assert np.abs(first.map(0, 0) - again.map(0, 0)).max() == 0


@pytest.mark.parametrize("model_type", ["clip", "siglip"])
def test_two_towers_read_a_picture_or_a_text(model_type):
    tokenizer = tiny_tokenizers.byte_level()
    processor = CLIPImageProcessorPil(size={"shortest_edge": 32}, crop_size=SIZE)
    model = LoadedModel.wrap(tiny_media.two_towers(model_type), tokenizer, processor=processor)
    seen = analyse(model, Prompt(image=picture()))
    read = analyse(model, "the cat sat")
    assert len(seen.tokens_list()) == (17 if model_type == "clip" else 16)
    assert "".join(token.text for token in read.tokens_list()) == "the cat sat"
    assert seen.visible(0, 0).all()
    assert bool(read.visible(0, 0).all()) == (model_type == "siglip")  # CLIP's text is causal


def animated() -> bytes:
    return file_of(picture(), "GIF", save_all=True, append_images=[picture(51).resize((50, 40))])


def huge() -> bytes:
    return file_of(Image.new("1", (10_000, 5_001)))


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: b"no picture", "cannot be read"),
        (lambda: file_of(picture())[:200], "cannot be read"),
        (lambda: b"", "cannot be read"),
        (lambda: "/no/such/picture.png", "cannot be read"),
        (animated, "animated"),
        (huge, r"10,000 x 5,001 pixels; at most 50 million"),
    ],
    ids=["bytes", "cut", "empty", "absent", "animated", "huge"],
)
def test_bad_pictures_are_refused_in_one_sentence(make, sentence):
    with pytest.raises(Refused, match=sentence) as refusal:
        analyse(vit(), Prompt(image=make()))
    assert "\n" not in str(refusal.value)


def test_a_picture_where_text_is_due_and_the_other_way_round():
    words = LoadedModel.wrap(tiny.build("llama", vocab_size=300), tiny_tokenizers.byte_level())
    with pytest.raises(Refused, match="reads text; a picture cannot be given"):
        analyse(words, Prompt(image=picture()))
    with pytest.raises(Refused, match=r"reads a picture, not text: give Prompt\(image="):
        analyse(vit(), "the cat")
    with pytest.raises(Refused, match=r"reads a picture and nothing else"):
        analyse(vit(), Prompt(audio=sound(0.1)))
    with pytest.raises(Refused, match=r"reads a sound, not text: give Prompt\(audio="):
        analyse(whisper(), [3, 4, 5])


def test_case_23_frames_have_times_and_the_target_has_words():
    found = analyse(whisper(), Prompt(audio=sound(0.5)), options=Options(new_tokens=4))
    source = [token for token in found.tokens_list() if token.side == "source"]
    assert len(source) == 30
    assert [token.label for token in source[:3]] == ["0.00 s", "0.03 s", "0.07 s"]
    assert all(token.text == "" for token in source)
    names = [(segment.name, segment.start, segment.end) for segment in found.segments()][:2]
    assert names == [("sound", 0, 15), ("silence behind it", 15, 30)]
    n_target = sum(token.side == "target" for token in found.tokens_list())
    assert found.map(0, 0, kind="cross").shape == (n_target, 30)
    assert found.map(1, 0, kind="encoder").shape == (30, 30)


def test_a_given_target_is_read_with_the_sound():
    found = analyse(whisper(), Prompt(audio=sound(0.5), target="the cat"))
    target = [token for token in found.tokens_list() if token.side == "target"]
    assert "".join(token.text for token in target) == "the cat"


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"fLaC....", "cannot be read"),
        (b"RIFF", "cannot be read"),
        (flac(0.1)[:300], "cannot be read"),
        (flac(3), r"takes 3 seconds and tiny Whisper hears 1 at a time"),
        (sound(3600, 1000, width=1), r"takes 3,600 seconds and tiny Whisper hears 1 at a time"),
        (sound(0.1)[:50], "6 of 3,200 bytes are there"),
        (sound(3), r"takes 3 seconds and tiny Whisper hears 1 at a time"),
        ((np.array([np.nan], np.float32), 16000), "numbers that are none"),
    ],
    ids=["flac", "corrupt", "cut flac", "long flac", "hour", "cut", "long", "nan"],
)
def test_bad_sounds_are_refused_in_one_sentence(data, sentence):
    with pytest.raises(Refused, match=sentence) as refusal:
        analyse(whisper(), Prompt(audio=data))
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(("channels", "width"), [(1, 2), (2, 2), (1, 1)])
def test_wav_files_of_several_kinds_give_the_same_tone(channels, width):
    samples, rate, _ = open_sound(sound(0.1, 8000, channels, width))
    assert rate == 8000 and len(samples) == 800
    expected = 0.5 * np.sin(2 * np.pi * 440 * np.arange(800) / 8000)
    assert np.abs(samples - expected).max() <= (0.02 if width == 1 else 1e-3)


@pytest.mark.parametrize("channels", [1, 2])
def test_flac_holds_the_samples_that_wav_holds(channels):
    """Both keep 16 bits: FLAC loses nothing, so the maps are the same to the bit."""
    samples, rate, _ = open_sound(flac(0.1, 8000, channels))
    same, same_rate, _ = open_sound(sound(0.1, 8000, channels))
    assert rate == same_rate == 8000 and np.abs(samples - same).max() <= 1 / 32768
    model = whisper()
    found = analyse(model, Prompt(audio=flac(0.5)), options=Options(new_tokens=2))
    assert [token.label for token in found.tokens_list()][:2] == ["0.00 s", "0.03 s"]
    again = analyse(model, Prompt(audio=open_sound(flac(0.5))[:2]), options=Options(new_tokens=2))
    assert np.array_equal(found.map(0, 0, kind="cross"), again.map(0, 0, kind="cross"))


def test_a_file_of_an_hour_is_not_decoded_before_it_is_refused(monkeypatch):
    long = flac(5)
    monkeypatch.setattr(soundfile.SoundFile, "read", lambda *_, **__: pytest.fail("was decoded"))
    with pytest.raises(Refused, match="takes 5 seconds"):
        analyse(whisper(), Prompt(audio=long))


def test_without_the_decoder_one_sentence_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "soundfile", None)
    with pytest.raises(Refused, match="package soundfile, which is not here"):
        open_sound(b"fLaC" + bytes(50))


def test_resampling_keeps_a_tone():
    """440 Hz over a whole number of periods: the spectrum moves it to any rate exactly."""
    tone = np.sin(2 * np.pi * 440 * np.arange(8000) / 8000).astype(np.float32)
    again = resampled(tone, 8000, 16000)
    assert np.abs(again - np.sin(2 * np.pi * 440 * np.arange(16000) / 16000)).max() <= 1e-4


def test_a_picture_model_loads_from_its_folder_without_a_tokenizer(tmp_path):
    tiny_media.picture_model("vit").save_pretrained(tmp_path)
    with pytest.raises(Refused, match="no processor for pictures"):
        load(str(tmp_path))
    ViTImageProcessorPil(size=SIZE).save_pretrained(tmp_path)
    model = load(str(tmp_path))
    assert model.reads == "picture" and model.tokenizer is None
    assert analyse(model, Prompt(image=picture())).info["n_tokens"] == 17


def test_a_stored_picture_is_listed_by_its_file(tmp_path):
    path = tmp_path / "river.png"
    path.write_bytes(file_of(picture()))
    library = Library(tmp_path / "library")
    analyse(vit(), Prompt(image=str(path)), library=library)
    assert library.list()[0].title == "river.png"
