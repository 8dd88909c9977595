"""The first page: a prompt becomes a run, the run is seen from other tabs, and what is stored can be found again."""

import threading
from types import SimpleNamespace

import pytest

from backend.errors import Cancelled, Refused, StoreError
from backend.jobs import Job, process_jobs
from backend.models import LoadedModel
from backend.prompts import Prompt
from backend.shelf import Shelf, person
from backend.store import Library, quota
from backend.store.entries import Entry
from backend.store.quota import Evicted
from pages.shared.examples import EXAMPLES
from pages.shared.model_access import any_model, check_model
from pages.shared.panels.library_list import amount, arrange, eviction
from pages.shared.panels.prompt_form import paragraphs, shots, turns
from pages.shared.panels.run_cards import sentence
from pages.shared.panels.run_form import title_of
from tests.backend.tiny import build
from tests.stored import HOSTILE, store


def button(app, label):
    return next(b for b in app.button if b.label == label)


def entry(title, **facts):
    values = {"id": title, "title": title, "model": "m", "created_at": "", "n_tokens": 1, "n_layers": 1, "bytes": 1}
    values |= {"tags": (), "pinned": False, "visibility": "link", "type": "analysis"}
    return Entry(**values | facts)


def test_the_page_shows_stored_and_bundled_analyses(open_page, library, texts):
    app = open_page()
    assert not app.exception
    plain = texts(app).plain
    assert HOSTILE in plain
    assert {"hybrid", "A first bundled one", "B second bundled one"} <= set(plain)
    assert "secret" not in plain
    assert not any("onerror" in text or "**x**" in text for text in texts(app).marked)
    assert app.caption[-1].value.startswith("2 stored")


def test_storage_used_and_what_the_quota_took_are_said(open_page, library, texts, monkeypatch):
    other = Library(library.folder)
    mine = store(library.folder, title="old one of mine", owner="b" * 32)
    theirs = store(library.folder, title="secret of theirs", owner="c" * 32, visibility="private")
    quota.keep(other, 1)
    assert other.list() == []
    monkeypatch.setenv("HEADWATER_QUOTA_MB", "7")
    monkeypatch.setattr("pages.shared.panels.library_list.owner", lambda: "b" * 32)
    new = store(library.folder, title="new", owner="b" * 32)
    app = open_page()
    assert not app.exception and {mine, theirs, new}
    said = [text for text in texts(app).plain if "storage quota" in text]
    assert len(said) == 1 and "“old one of mine”" in said[0] and "secret" not in said[0]
    assert app.caption[-1].value.startswith("1 stored. Storage used: ") and app.caption[-1].value.endswith(" of 7 MB.")
    assert said == [text for text in texts(app.run()).plain if "storage quota" in text]
    app.switch_page("pages/glossary.py").run()
    app.switch_page("app.py").run()
    assert not any("storage quota" in text for text in texts(app).plain)


def test_an_eviction_is_one_sentence():
    gone = [Evicted(str(n), f"title {n}", 2_000_000, None) for n in range(5)]
    assert eviction(gone[:1]) == (
        "To stay within the storage quota the oldest analysis was removed (2 MB): “title 0”. Pin what is to stay."
    )
    assert "the 5 oldest analyses were removed (10 MB): “title 0”, “title 1”, “title 2” and 2 more." in eviction(gone)


def test_without_a_model_package_one_sentence_says_how_to_get_one(open_page, library, texts, monkeypatch):
    monkeypatch.setattr("backend.models.bundled.BUNDLED", ())
    app = open_page()
    assert not app.exception
    assert sum("No model is installed as a package" in text for text in texts(app).plain) == 1
    assert "A first bundled one" in texts(app).plain


def test_a_data_folder_that_cannot_be_written_is_still_read(open_page, library, texts, tmp_path, monkeypatch):
    (library.folder / "jobs").write_text("no folder can be made here")
    monkeypatch.setattr("pages.shared.panels.run_form.loading", lambda name: pytest.fail("nothing is loaded by a test"))
    monkeypatch.setattr("pages.shared.panels.model_choice.available", list)
    app = open_page()
    assert not app.exception and "hybrid" in texts(app).plain
    app.text_area[0].set_value("The cat").run()
    next(field for field in app.text_input if field.label.startswith("Id")).set_value("owner/name").run()
    button(app, "Run").click().run()
    assert not app.exception
    assert sum("Runs cannot be started" in text for text in texts(app).plain) >= 1


def test_run_waits_for_a_prompt(open_page, library, texts):
    app = open_page()
    assert button(app, "Run").disabled
    assert "Type or paste a text, or press an example." in texts(app).plain
    app.text_area[0].set_value(" \n\t ").run()
    assert button(app, "Run").disabled


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.title)
def test_an_example_is_one_click(open_page, library, example, monkeypatch):
    monkeypatch.setattr("pages.shared.panels.run_form.load", lambda name: pytest.fail("nothing is loaded by a test"))
    monkeypatch.setattr("pages.shared.panels.run_form.loading", lambda name: SimpleNamespace(done=lambda: False))
    app = open_page()
    button(app, example.title).click().run()
    assert not app.exception
    area = app.text_area[0].value
    assert area == (example.text or "\n\n".join(example.documents))
    if example.documents:
        assert paragraphs(area) == list(example.documents)
        assert any(field.value == example.question for field in app.text_input)
    assert not button(app, "Run").disabled


def test_case_65_a_run_is_seen_while_it_goes_from_every_tab_and_can_be_stopped(open_page, library, monkeypatch, texts):
    """The model is not what is tested: the work only waits to be stopped."""
    begun = threading.Event()

    def wait(model, prompt, *, progress, cancel, **_):
        progress("layer", 12, 30, 4.2)
        begun.set()
        assert cancel.wait(30)
        raise Cancelled("stopped")

    monkeypatch.setattr("pages.shared.panels.run_form.analyse", wait)
    monkeypatch.setattr("pages.shared.panels.run_form.load", lambda name: None)
    monkeypatch.setattr("pages.shared.panels.run_form.loading", lambda name: SimpleNamespace(done=lambda: False))
    monkeypatch.setattr("pages.shared.panels.run_cards.owner", lambda: "b" * 32)
    monkeypatch.setattr("pages.shared.panels.run_form.owner", lambda: "b" * 32)
    app = open_page()
    app.text_area[0].set_value(HOSTILE).run()
    button(app, "Run").click().run()
    assert begun.wait(30)
    for tab in (app.run(), open_page()):
        assert not tab.exception
        assert "Reading: layer 12 of 30, about 4.2 s left." in texts(tab).plain
        assert any(text.startswith(HOSTILE) for text in texts(tab).plain)
        assert not any("onerror" in text for text in texts(tab).marked)
    button(tab, "Cancel").click().run()
    job = process_jobs().jobs("b" * 32)[0]
    process_jobs().wait(job.id, 30)
    assert "Stopped on request; nothing was stored." in texts(app.run()).plain
    button(app, "Close").click().run()
    assert "Stopped on request; nothing was stored." not in texts(app).plain


@pytest.mark.parametrize(
    ("setting", "value", "words"),
    [
        ("HEADWATER_MAX_TOKENS", "5", "The prompt has 8 tokens and at most 5 are allowed. Shorten it."),
        ("HEADWATER_DISK_RESERVE_MB", str(10**9), "MB on disk and 0 MB are free"),
    ],
)
def test_what_does_not_fit_is_refused_on_the_form_with_both_numbers(
    open_page, library, monkeypatch, texts, setting, value, words
):
    model = LoadedModel.wrap(build("llama"), name="tiny")
    monkeypatch.setenv(setting, value)
    done = SimpleNamespace(done=lambda: True, result=lambda: None, exception=lambda: None)
    encoded = SimpleNamespace(token_ids=list(range(8)), notices=[])
    monkeypatch.setattr("pages.shared.panels.run_form.load", lambda name: model)
    monkeypatch.setattr("pages.shared.panels.run_form.loading", lambda name: done)
    monkeypatch.setattr("pages.shared.panels.run_form.encode", lambda model, prompt: encoded)
    app = open_page()
    app.text_area[0].set_value("eight tokens").run()
    assert not app.exception
    assert sum(words in text for text in texts(app).plain) == 1


def test_deleting_can_be_undone_until_the_page_is_left(open_page, library, texts):
    app = open_page()
    next(b for b in app.button if b.key == f"headwater_delete_{library.plain}").click().run()
    assert f"Deleted: {HOSTILE}" in texts(app).plain
    assert HOSTILE not in texts(app).plain
    button(app, "Undo").click().run()
    assert HOSTILE in texts(app).plain
    next(b for b in app.button if b.key == f"headwater_delete_{library.plain}").click().run()
    app.switch_page("pages/heads.py").run()
    app.switch_page("app.py").run()
    assert not any(HOSTILE in text for text in texts(app).plain)


def test_pins_and_tags_are_kept(open_page, library, texts):
    app = open_page()
    next(b for b in app.button if b.key == f"headwater_pin_{library.hybrid}").click().run()
    field = next(f for f in app.text_input if f.key == f"headwater_tags_{library.hybrid}")
    field.set_value(" sinks,, long ").run()
    assert not app.exception
    kept = Library(library.folder).entry(library.hybrid)
    assert (kept.pinned, kept.tags) == (True, ("sinks", "long"))
    assert any("pinned" in text and "sinks · long" in text for text in texts(app).plain)


def test_what_was_made_of_a_private_analysis_is_shown_as_private_and_cannot_be_shared(
    open_page, library, texts, monkeypatch
):
    source = store(library.folder, title="the source", owner="b" * 32)
    again = store(library.folder, title="read again", owner="b" * 32, made_of=(source,))
    for module in ("library_row", "library_list"):
        monkeypatch.setattr(f"pages.shared.panels.{module}.owner", lambda: "b" * 32)
    app = open_page()
    assert not any(text.startswith("private · ") for text in texts(app).plain)
    key = "headwater_visibility_"
    next(box for box in app.selectbox if box.key == key + source).select("private").run()
    assert [text.startswith("private · ") for text in texts(app).plain].count(True) == 2
    choice = next(box for box in app.selectbox if box.key == key + again)
    assert choice.value == "private"
    choice.select("listed").run()
    assert any("made of a private analysis" in text for text in texts(app).plain)
    assert next(box for box in app.selectbox if box.key == key + again).value == "private"


def test_only_who_ran_it_may_hide_or_delete_it(open_page, library, texts, monkeypatch):
    mine = store(library.folder, title="mine", owner="b" * 32)
    app = open_page()
    assert "mine" not in texts(app).plain, "a link is found by its link"
    assert Library(library.folder).update(mine, visibility="listed")
    app = open_page()
    assert "mine" in texts(app).plain
    assert not any(b.key == f"headwater_delete_{mine}" for b in app.button)
    for module in ("library_row", "library_list"):
        monkeypatch.setattr(f"pages.shared.panels.{module}.owner", lambda: "b" * 32)
    app = open_page()
    assert any(text.startswith("listed · ") for text in texts(app).plain)
    choice = next(box for box in app.selectbox if box.key == f"headwater_visibility_{mine}")
    assert choice.options == ["only me", "whoever has the link", "everybody: it is on their first page"]
    choice.select("private").run()
    assert Library(library.folder).entry(mine).visibility == "private"
    assert any(text.startswith("private · ") for text in texts(app).plain)


def test_a_server_that_only_shows_runs_and_changes_nothing(open_page, library, texts, monkeypatch):
    monkeypatch.setenv("HEADWATER_READ_ONLY", "1")
    app = open_page()
    assert not app.exception
    assert HOSTILE in texts(app).plain and any("only shows what is stored" in text for text in texts(app).plain)
    assert not any(b.label in ("Run", "Delete", "Pin") for b in app.button) and not app.text_area
    with pytest.raises(Refused, match="only shows"):
        process_jobs().submit("run", lambda progress, cancel: "x")
    with pytest.raises(StoreError):
        Shelf(library.folder).own.delete(library.plain)
    with pytest.raises(StoreError):
        Shelf(library.folder).take_in(Library(library.folder).folder(library.plain) / "analysis.duckdb", None)
    assert len(Library(library.folder).list()) == 3


@pytest.mark.parametrize(
    ("setting", "address", "allowed"),
    [
        ("auto", "127.0.0.1", True),
        ("auto", "0.0.0.0", False),
        ("auto", None, False),
        ("0", "::1", False),
        ("1", "", True),
    ],
)
def test_folders_and_hub_ids_are_for_the_owner_of_the_machine(monkeypatch, setting, address, allowed):
    monkeypatch.setenv("HEADWATER_ANY_MODEL", setting)
    monkeypatch.setattr("streamlit.get_option", lambda name: address)
    assert any_model() is allowed
    for name in ("/etc", "../models", "organisation/model", "https://10.0.0.1/model"):
        if allowed:
            assert check_model(name) == name
        else:
            with pytest.raises(Refused, match="runs packaged models only"):
                check_model(name)


def test_without_leave_the_form_offers_packaged_models_only(open_page, library, monkeypatch):
    monkeypatch.setenv("HEADWATER_ANY_MODEL", "0")
    app = open_page()
    assert not app.exception
    assert not any(field.label.startswith(("Id", "Folder", "Or its path")) for field in app.text_input)


def test_an_import_by_path_is_checked_and_told(open_page, library, texts, tmp_path):
    Library(library.folder).export(library.hybrid, tmp_path / "given.duckdb")
    (tmp_path / "evil.duckdb").write_bytes(b"PK\x03\x04" * 1000)
    app = open_page()
    field = next(f for f in app.text_input if f.label.startswith("Or its path"))
    field.set_value(str(tmp_path / "given.duckdb")).run()
    assert not app.exception and any(text.startswith("Imported: ") for text in texts(app).plain)
    assert len(Library(library.folder).list()) == 4
    field.set_value(str(tmp_path / "evil.duckdb")).run()
    assert any("it is no DuckDB file" in text for text in texts(app).plain)
    field.set_value(str(tmp_path / "nothing")).run()
    assert not app.exception and len(Library(library.folder).list()) == 4


@pytest.mark.parametrize("facts", [{"is_logged_in": True, "iss": "i", "sub": "7", "email": HOSTILE}, {}])
def test_who_is_signed_in_owns_what_they_ran_in_every_browser(open_page, library, texts, monkeypatch, facts):
    for module in ("opened", "panels.sign_in"):
        monkeypatch.setattr(f"pages.shared.{module}.signs_in", lambda: True)
    monkeypatch.setattr("streamlit.user", SimpleNamespace(to_dict=lambda: facts))
    mine = store(library.folder, title="mine alone", owner=person(None, facts) or "c" * 32, visibility="private")
    app = open_page()
    assert not app.exception and mine
    assert ("mine alone" in texts(app).plain) == bool(facts)
    assert {"Sign out" if facts else "Sign in"} == {b.label for b in app.button if b.label.startswith("Sign")}
    assert any(text.startswith(f"Signed in as {HOSTILE}") for text in texts(app).plain) == bool(facts)
    assert not any("onerror" in text for text in texts(app).marked)


def test_search_and_sort():
    entries = [entry("Ducks", tags=("story",), n_tokens=5), entry("keys", prompt="the blue key", n_tokens=9)]
    assert [e.title for e in arrange(entries, "blue KEY", "Newest")] == ["keys"]
    assert [e.title for e in arrange(entries, "story", "Newest")] == ["Ducks"]
    assert [e.title for e in arrange(entries, "", "Tokens")] == ["keys", "Ducks"]
    assert [e.title for e in arrange(entries, "", "Title")] == ["Ducks", "keys"]
    pinned = [*entries, entry("z", pinned=True)]
    assert arrange(pinned, "", "Title")[0].title == "z"


def test_prompts_from_text():
    assert paragraphs("a\nb\n\n \n\nc\n") == ["a\nb", "c"]
    assert turns("system: be brief\n\nuser: hi\n\nthere\n\nASSISTANT: yes") == [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "hi\n\nthere"},
        {"role": "assistant", "content": "yes"},
    ]
    assert turns("hello") == [{"role": "user", "content": "hello"}]
    assert shots("2+2 => 4\nnothing\na => b => c") == [("2+2", "4"), ("a => b", "c")]


def test_the_title_of_a_run_is_the_beginning_of_its_prompt():
    assert title_of(Prompt(text="a\n b ")) == "a b"
    assert title_of(Prompt(text="x" * 100)) == "x" * 60 + "…"
    assert title_of(Prompt(pair=("a", "b"))) == "a / b"
    assert title_of(Prompt(chat=[{"role": "user", "content": "hi"}])) == "hi"
    assert title_of(Prompt(documents=["d"], question="q?")) == "q?"


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"state": "queued", "position": 1}, "Next in line."),
        ({"state": "queued", "position": 3}, "Waiting: 3 runs are before it."),
        ({"state": "running", "step": "loading the model"}, "Reading: loading the model."),
        (
            {"state": "running", "step": "loading the model", "seconds_left": 12.4},
            "Loading the model takes about 12 s; the run follows.",
        ),
        ({"state": "failed", "error": "Too long: 9,000 tokens."}, "Too long: 9,000 tokens."),
        ({"state": "interrupted", "error": "The server was stopped."}, "The server was stopped."),
    ],
)
def test_a_run_says_how_it_stands(facts, words):
    assert sentence(Job(id="x", title="t", **facts)) == words


def test_amounts_are_for_people():
    assert [amount(n) for n in (5_000, 3_400_000, 2_150_000_000)] == ["5 kB", "3 MB", "2.1 GB"]
