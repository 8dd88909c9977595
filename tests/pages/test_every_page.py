"""Every part of every page, on analyses one does not expect: readable, and never a word of theirs as markup."""

import ast
import html

import pytest
from transformers import ViTImageProcessorPil

from backend.models import LoadedModel
from backend.options import Options
from backend.pipeline import analyse
from backend.prompts import Prompt
from backend.store import Library
from tests.backend import tiny, tiny_media, tiny_more, tiny_pictures
from tests.backend.test_media import picture, sound, whisper
from tests.conftest import ROOT
from tests.stored import HOSTILE, store

PAGES = ("heads", "sinks", "basins", "sparsity")
PART_FILES = {"heads": "pages/shared/panels/head_parts.py"}
TOKENS = [1, 7, 9, 23, 9, 41, 7, 9, 23, 55, 60, 23, 9, 41, 2, 30, 31, 32, 7, 9]


def parts_of(page: str) -> list[str]:
    """The names of a page's parts, from its source: a new part is walked without being listed here."""
    tree = ast.parse((ROOT / PART_FILES.get(page, f"pages/{page}.py")).read_text("utf-8"))
    found = next(
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and any(getattr(target, "id", "") == "PARTS" for target in node.targets)
    )
    return [key.value for key in found.keys]


def run(library, family: str) -> str:
    make = tiny_more.build if family in tiny_more.DENSE | tiny_more.TWO_SIDED else tiny.build
    model = LoadedModel.wrap(make(family), name=f"tiny-{family}")
    return analyse(model, TOKENS, library=Library(library)).id


def see(library, what: str) -> str:
    """A picture alone, a picture with its text, or a sound."""
    processor, prompt = None, Prompt(image=picture())
    if what == "picture":
        model, processor = tiny_media.picture_model("vit"), ViTImageProcessorPil(size={"height": 32, "width": 32})
    elif what == "picture_text":
        (model, processor), prompt = tiny_pictures.build("gemma3"), Prompt(text="the cat sat", image=picture())
    else:
        heard = whisper()
        return analyse(heard, Prompt(audio=sound(0.5)), library=Library(library), options=Options(new_tokens=4)).id
    loaded = LoadedModel.wrap(model, name=f"tiny-{what}", processor=processor)
    return analyse(loaded, prompt, library=Library(library), options=Options(keep_media=True)).id


@pytest.fixture(scope="module")
def odd(tmp_path_factory):
    """name -> id of analyses in one folder."""
    library = tmp_path_factory.mktemp("odd")
    return library, {
        "hostile": store(library, text=HOSTILE, n_tokens=40, title=HOSTILE),
        "one_token": store(library, n_tokens=1),
        "two_tokens": store(library, n_tokens=2),
        "pooled_only": store(library, n_tokens=40, exact=()),
        "hybrid": store(library, layers=(3, 7)),
        "unlike_heads": store(library, heads=(2, 4)),
        "two_sided": run(library, "bert"),
        "windowed": run(library, "mistral"),
        "learned_sinks": run(library, "gpt_oss"),
        "own_softmax": run(library, "bloom"),
        "encoder_decoder": run(library, "t5"),
        **{what: see(library, what) for what in ("picture", "picture_text", "sound")},
    }


ANALYSES = (
    *("hostile", "one_token", "two_tokens", "pooled_only", "hybrid", "unlike_heads"),
    *("two_sided", "windowed", "learned_sinks", "own_softmax", "encoder_decoder"),
    *("picture", "picture_text", "sound"),
)
SWITCHED = ("encoder_decoder", "own_softmax", "learned_sinks", "picture_text")
WALK = [(page, part) for page in PAGES for part in ("", *parts_of(page))]


@pytest.mark.parametrize("which", ANALYSES)
def test_every_part_is_readable(which, odd, bundled_analyses, open_page, texts, monkeypatch):
    library, ids = odd
    monkeypatch.setenv("HEADWATER_DATA", str(library))
    monkeypatch.setattr("backend.shelf.bundled_folder", lambda: bundled_analyses)
    for page, part in WALK:
        query = {"analysis": ids[which], **({"part": part} if part else {})}
        app = open_page(page, **query)
        assert not app.exception, f"{page} {part}: {[error.message for error in app.exception]}"
        said = texts(app)
        assert said.plain, f"{page} {part}: the page says nothing"
        for text in said.marked:
            assert "onerror" not in html.unescape(str(text)), f"{page} {part}: {text}"


@pytest.mark.parametrize("which", SWITCHED)
def test_pages_open_without_sinks(which, odd, bundled_analyses, open_page, monkeypatch):
    library, ids = odd
    monkeypatch.setenv("HEADWATER_DATA", str(library))
    monkeypatch.setattr("backend.shelf.bundled_folder", lambda: bundled_analyses)
    kinds = ("encoder", "decoder", "cross") if which == "encoder_decoder" else ("self",)
    for page in ("heads", "sinks", "basins"):
        for kind in kinds:
            app = open_page(page, analysis=ids[which], kind=kind, sinkfree="on")
            assert not app.exception, f"{page} {kind}: {[error.message for error in app.exception]}"
