"""The parts of the page Heads for pictures and for two texts: heat over the patches, coverage, alignment."""

import base64
import io
import json

import numpy as np
import pytest
from PIL import Image
from transformers import ViTImageProcessorPil

from backend.models import LoadedModel
from backend.options import Options
from backend.patches import kept_picture, patches_of
from backend.pipeline import analyse
from backend.prompts import Prompt
from backend.store import Library
from tests.backend import tiny_media, tiny_more, tiny_pictures
from tests.backend.test_media import picture
from tests.stored import store


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A folder with a ViT's and a LLaVA's analysis, the latter with its picture, a T5's and one of text."""
    folder = tmp_path_factory.mktemp("pictures")
    library = Library(folder)
    processor = ViTImageProcessorPil(size={"height": 32, "width": 32})
    vit = LoadedModel.wrap(tiny_media.picture_model("vit"), name="tiny ViT", processor=processor)
    model, both = tiny_pictures.build("llava")
    llava = LoadedModel.wrap(model, name="tiny LLaVA", processor=both)
    kept = Options(keep_media=True)
    return folder, {
        "vit": analyse(vit, Prompt(image=picture()), library=library).id,
        "llava": analyse(llava, Prompt(text="the cat", image=picture()), library=library, options=kept).id,
        "t5": analyse(LoadedModel.wrap(tiny_more.build("t5"), name="tiny T5"), list(range(3, 15)), library=library).id,
        "text": store(folder, n_tokens=12),
        "pooled": store(folder, n_tokens=40, exact=()),
    }


@pytest.fixture
def see(stored, bundled_analyses, open_page, monkeypatch):
    folder, ids = stored
    monkeypatch.setenv("HEADWATER_DATA", str(folder))
    monkeypatch.setattr("backend.shelf.bundled_folder", lambda: bundled_analyses)

    def opened(which, **query):
        app = open_page("heads", analysis=ids[which], **query)
        assert not app.exception, [error.message for error in app.exception]
        return app, Library(folder).open(ids[which])

    return opened


def charts(app) -> str:
    return " ".join(str(one.proto) for one in app.get("vega_lite_chart"))


def spec(app, key: str) -> dict:
    """The chart of a figure."""
    found = [one for one in app.get("vega_lite_chart") if key in one.proto.id]
    return json.loads((found or app.get("vega_lite_chart"))[-1].proto.spec)


def table(app, column: str):
    return next(one.value for one in app.dataframe if column in one.value.columns)


def test_a_token_looks_at_patches_with_the_weights_of_its_row(see, texts):
    app, found = see("llava", part="picture", layer="1", head="2")
    app.session_state["head_picture_below"] = "Table"
    app.run()
    start, last = found.info["patches"]["start"], found.info["n_tokens"] - 1
    row = found.map(1, 2)[last, start : start + 16]
    assert np.allclose(table(app, "column")["weight"], row)
    said = next(text for text in texts(app).plain if "is on the picture" in text)
    top = divmod(int(row.argmax()), 4)
    assert f"most on patch {top[0]},{top[1]} (counted from 0)" in said
    assert "data:image/png;base64," in charts(app)


def test_a_token_before_the_picture_sees_none_of_it(see, texts):
    app, _ = see("llava", part="picture", query="0")
    assert any("It sees no patch of the picture" in text for text in texts(app).plain)


def test_patches_of_a_picture_alone_show_what_they_get_on_an_empty_grid(see, texts):
    app, found = see("vit", part="picture")
    app.session_state["head_picture_below"] = "Table"
    app.run()
    received = found.map(0, 0).mean(0)[1:]
    assert np.allclose(table(app, "column")["weight"], received, atol=1e-6)
    assert any(
        text.startswith("Of the attention of all tokens, on average, most on patch") for text in texts(app).plain
    )
    assert any("The picture itself was not kept" in text for text in texts(app).plain)
    assert "data:image/png" not in charts(app)
    app.selectbox(key="head_picture_token").set_value(0).run()
    assert app.query_params["query"] in (["0"], "0")
    assert any("is on the picture" in text for text in texts(app).plain)


def test_the_part_is_offered_only_where_there_is_a_picture_or_two_texts(see):
    def offered(which):
        app, _ = see(which)
        chosen = next(one for one in app.get("button_group") if "More about the heads" in str(one.proto))
        return str(chosen.proto)

    assert "Picture" in offered("vit") and "Alignment" not in offered("vit")
    assert "Alignment" in offered("t5") and "Picture" not in offered("t5")
    assert "Picture" not in offered("text") and "Alignment" not in offered("text")


def test_a_link_to_a_part_that_an_analysis_has_not_is_told(see, texts):
    app, _ = see("text", part="picture")
    assert any("read no picture" in text for text in texts(app).plain)
    app, _ = see("text", part="align")
    assert any("no attention from one text to another" in text for text in texts(app).plain)


def test_coverage_and_alignment_of_two_texts(see, texts):
    app, found = see("t5", part="align", kind="encoder")
    next(button for button in app.button if button.label == "Show the cross-attention").click().run()
    assert app.query_params["kind"] in (["cross"], "cross")
    app, found = see("t5", part="align", kind="cross", layer="1", head="3")
    for key in ("source_coverage", "alignment"):
        app.session_state[f"{key}_below"] = "Table"
    app.run()
    weights = found.map(1, 3, kind="cross")
    assert np.allclose(table(app, "rows got")["rows got"], weights.sum(0), atol=1e-5)
    assert list(table(app, "strongest source")["strongest source"]) == weights.argmax(1).tolist()
    assert any("of a target token's attention is on one source token" in text for text in texts(app).plain)
    app, _ = see("t5", part="align", kind="cross", layer="1", of="layer")
    app.session_state["source_coverage_below"] = "Table"
    app.run()
    mean = np.mean([found.map(1, head, kind="cross") for head in range(4)], 0)
    assert np.allclose(table(app, "rows got")["rows got"], mean.sum(0), atol=1e-5)


@pytest.mark.parametrize(
    "said",
    [
        {"start": 0, "grid": [4, 400]},
        {"start": -1, "grid": [2, 2]},
        {"start": "0", "grid": [2, 2]},
        {"grid": [2, 2]},
        {"start": 0, "grid": 4},
        {"start": 0, "grid": [True, 4]},
        "4 x 4",
    ],
)
def test_what_a_file_says_of_its_patches_is_checked(stored, said):
    folder, ids = stored
    found = Library(folder).open(ids["text"])
    found.info["patches"] = said
    assert patches_of(found) is None


@pytest.mark.parametrize(
    "media",
    [
        {"type": "image/svg+xml", "data": base64.b64encode(b"<svg onload=alert(1)>").decode()},
        {"type": "image/png", "data": base64.b64encode(b"<svg onload=alert(1)>").decode()},
        {"type": "image/png", "data": 'x" onerror="alert(1)'},
        {"type": "image/png"},
        "picture",
    ],
)
def test_a_kept_picture_that_is_none_is_not_shown(stored, media):
    folder, ids = stored
    found = Library(folder).open(ids["text"])
    found.info["media"] = media
    assert kept_picture(found) is None


def test_a_kept_picture_is_shown_as_it_was_kept(stored):
    folder, ids = stored
    address = kept_picture(Library(folder).open(ids["llava"]))
    shown = Image.open(io.BytesIO(base64.b64decode(address.split(",", 1)[1])))
    assert shown.size == (32, 32)
