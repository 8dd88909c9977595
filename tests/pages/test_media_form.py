"""The form for pictures and sounds: a tiny model in a folder reads what was uploaded; bad files are told at once."""

import base64
import io

import numpy as np
import pytest
from PIL import Image
from transformers import ViTImageProcessorPil

from backend.jobs import process_jobs
from backend.store import Library
from tests.backend import tiny_media, tiny_pictures
from tests.backend.test_media import animated, file_of, huge, picture, sound

SIZE = {"height": 32, "width": 32}


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Folders of a tiny ViT and a tiny LLaVA."""
    folder = tmp_path_factory.mktemp("models")
    tiny_media.picture_model("vit").save_pretrained(folder / "vit")
    ViTImageProcessorPil(size=SIZE).save_pretrained(folder / "vit")
    tiny_pictures.save("llava", folder / "llava")
    return folder


@pytest.fixture
def form(open_page, library, monkeypatch):
    """The first page with the form for media, and a model in a folder."""
    for module in ("run_form", "run_cards", "library_list"):
        monkeypatch.setattr(f"pages.shared.panels.{module}.owner", lambda: "b" * 32)

    def opened(model: str = "", prompt: str = "Media"):
        app = open_page()
        app.session_state["headwater_form"] = prompt
        app.session_state["headwater_model"] = "Folder"
        app.session_state["headwater_folder"] = model
        return app.run()

    return opened


def run(app):
    """Presses Run and waits for the job; the page drawn anew, and the job."""
    before = {job.id for job in process_jobs().jobs("b" * 32)}
    next(button for button in app.button if button.label == "Run").click().run()
    new = next(job for job in process_jobs().jobs("b" * 32) if job.id not in before)
    return app.run(), process_jobs().wait(new.id, 60)


def upload(app, name: str, content: bytes):
    return app.file_uploader[0].set_value((name, content, "application/octet-stream")).run()


def test_a_picture_is_read_and_kept_only_where_that_was_ticked(form, models, library, texts):
    app = upload(form(str(models / "vit")), "river.png", file_of(picture()))
    assert not app.exception
    app, job = run(app)
    assert job.error is None and not app.exception
    found = Library(library.folder).open(job.analysis_id)
    assert found.info["n_tokens"] == 17 and "media" not in found.info
    next(box for box in app.checkbox if box.label.startswith("Keep the file")).check().run()
    app, job = run(app)
    kept = Library(library.folder).open(job.analysis_id)
    assert "Done." in texts(app.run()).plain
    assert Image.open(io.BytesIO(base64.b64decode(kept.info["media"]["data"]))).size == (32, 32)


def test_a_picture_with_its_text_is_read(form, models, library, texts):
    app = upload(form(str(models / "llava")), "river.png", file_of(picture()))
    next(field for field in app.text_input if field.label.startswith("Text with the picture")).set_value(
        "the cat"
    ).run()
    app, job = run(app)
    found = Library(library.folder).open(job.analysis_id)
    assert app.run() and "Done." in texts(app).plain
    assert found.info["prompt"]["text"] == "the cat" and found.info["patches"]["grid"] == [4, 4]


@pytest.mark.parametrize(
    ("name", "make", "sentence"),
    [
        ("a.png", lambda: b"no picture", "The picture cannot be read"),
        ("a.jpg", lambda: file_of(picture())[:200], "The picture cannot be read"),
        ("a.gif", animated, "The picture is animated."),
        ("a.png", huge, "10,000 x 5,001 pixels"),
        ("a.wav", lambda: b"RIFF", "The sound cannot be read"),
        ("a.flac", lambda: b"fLaC" + bytes(50), "The sound cannot be read"),
        ("a.wav", lambda: sound(3600, 1000, width=1), "The sound takes 3,600 seconds"),
    ],
    ids=["bytes", "cut", "animated", "huge", "wav", "flac", "hour"],
)
def test_what_is_wrong_with_a_file_is_one_sentence_before_the_run(form, texts, name, make, sentence):
    app = upload(form("/no/such/folder"), name, make())
    said = [text for text in texts(app).plain if text.startswith(sentence) or sentence in text]
    assert len(said) == 1 and "\n" not in said[0]
    assert next(button for button in app.button if button.label == "Run").disabled


@pytest.mark.parametrize(
    ("model", "prompt", "name", "content", "sentence"),
    [
        ("vit", "Text", None, None, "reads a picture and nothing else: give Prompt(image=...) without a text."),
        ("vit", "Media", "a.wav", sound(0.1), "reads a picture and nothing else"),
        ("llava", "Media", "a.png", file_of(picture()), "reads a text with its picture: give both"),
    ],
    ids=["text for a picture", "sound for a picture", "picture without its text"],
)
def test_what_does_not_fit_the_model_is_one_sentence(form, models, texts, model, prompt, name, content, sentence):
    app = form(str(models / model), prompt)
    app = app.text_area[0].set_value("the cat").run() if prompt == "Text" else upload(app, name, content)
    app, job = run(app)
    assert sentence in job.error and "\n" not in job.error
    assert job.error in texts(app.run()).plain


def test_a_picture_for_a_model_of_text_is_told_in_the_estimate(form, open_page, texts, monkeypatch):
    from types import SimpleNamespace

    from backend.models import LoadedModel
    from tests.backend import tiny, tiny_tokenizers

    words = LoadedModel.wrap(tiny.build("llama", vocab_size=300), tiny_tokenizers.byte_level(), name="tiny words")
    done = SimpleNamespace(done=lambda: True, result=lambda: None, exception=lambda: None)
    monkeypatch.setattr("pages.shared.panels.run_form.load", lambda name: words)
    monkeypatch.setattr("pages.shared.panels.run_form.loading", lambda name: done)
    app = open_page()
    app.session_state["headwater_form"] = "Media"
    app = upload(app.run(), "a.png", file_of(picture()))
    assert any("tiny words reads text; a picture cannot be given to it here" in text for text in texts(app).plain)


def test_the_name_of_the_picture_is_no_markup(form, models, texts):
    hostile = "**x** <img src=x onerror=alert(1)>.png"
    app = upload(form(str(models / "vit")), hostile, np.random.default_rng(0).bytes(40))
    assert not app.exception and not any("onerror" in str(text) for text in texts(app).marked)
