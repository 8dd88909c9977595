"""The page of sparsity from a link: its sentences, its choices, and what it says where something is missing."""

import json

import pytest

from backend.models import LoadedModel
from backend.pipeline import analyse
from backend.sparsity import rows
from backend.store import Library
from backend.studies import dense_heads, key_dimensions, prompt_patterns, run_study
from backend.studies.policy_sweep import STUDY, Parameters
from tests.backend.tiny import build, ids
from tests.backend.tiny_tokenizers import byte_level
from tests.stored import HOSTILE, store


@pytest.fixture
def page(open_page, library):
    def run(**query):
        app = open_page("sparsity", **query)
        assert not app.exception
        return app

    return run


def plain(app) -> str:
    return "\n".join(element.value for element in app.text)


def test_the_first_part_says_how_concentrated_and_which_pattern(page, library):
    said = plain(page(analysis=library.plain, layer="1", head="2"))
    assert "Half of the 8 heads need at most" in said and "uniform attention would need 95 %" in said
    assert "of the keys of head 1.2 lie elsewhere than the fitted normal says" in said
    assert "Were the scores of a row Gaussian" in said and "the entropy is missed by" in said
    assert "25 of 40 sampled rows: those that see 16 keys or more" in said
    assert "Patterns of 8 heads:" in said
    assert "Head 1.2 is " in said and "with 10 % of the pairs" in said
    assert "The map of head 1.2 with" in said
    assert "The last row of head 1.2 sees 40 keys" in said


@pytest.mark.parametrize("by", ["gini", "share_95", "participation", "score_sigma"])
def test_the_grid_shows_one_number_of_every_head(page, library, by):
    app = page(analysis=library.plain, by=by)
    assert "largest in head" in plain(app) and "layers lie between" in plain(app)


@pytest.mark.parametrize("part, figures", [("shape", 4), ("keys", 3), ("policies", 1)])
def test_what_was_measured_on_the_last_rows_only_says_so(page, library, part, figures, monkeypatch):
    monkeypatch.setattr(rows, "MOST_CELLS", 400)
    assert plain(page(analysis=library.plain, part=part)).count("Measured on the last 10 of 40 rows") == figures


def test_blocks_and_files_of_the_chosen_head(page, library):
    app = page(analysis=library.plain, layer="1", head="2")
    assert "FlexPrefill would choose" in plain(app) and "Quest's bound lies" in plain(app)
    labels = [element.proto.label for element in app.get("download_button")]
    assert "Patterns as MInference's JSON" in labels and "Patterns as DuoAttention's JSON" in labels


def test_the_budget_is_in_the_address(page, library):
    app = page(analysis=library.plain, budget="50")
    assert "with 50 % of the pairs" in plain(app)
    assert "with 10 % of the pairs" in plain(page(analysis=library.plain, budget="<b>"))


def test_heads_without_exact_maps_are_said_to_have_none(page, library):
    some = store(library.folder, n_tokens=40, exact=(1,), title="some heads")
    said = plain(page(analysis=some, head="0"))
    assert "Patterns of 2 heads:" in said and "its pattern cannot be drawn" in said
    none = store(library.folder, n_tokens=40, exact=(), title="no heads")
    assert "No exact map of a head was kept" in plain(page(analysis=none))


def test_one_token_has_nothing_to_concentrate(page, library):
    one = store(library.folder, n_tokens=1, text="a", title="one")
    assert "there is nothing to concentrate" in plain(page(analysis=one))


def test_hostile_text_is_never_markdown_or_html(page, library, texts):
    for marked in texts(page(analysis=library.plain)).marked:
        assert "onerror" not in marked and HOSTILE not in marked


def told(app, component: str) -> dict:
    for element in app.get("bidi_component"):
        if element.proto.component_name == component:
            return json.loads(element.proto.json or element.proto.mixed.json)
    raise AssertionError(f"the page has no {component}")


def test_a_link_shows_what_a_policy_keeps(page, library):
    link = {"part": "policies", "policy": "streaming_llm", "keep": "50", "layer": "1", "head": "3"}
    app = page(analysis=library.plain, **link)
    said = plain(app)
    assert "StreamingLLM: Keeps the first 4 keys and the last ones." in said
    assert "The first 30 tokens are in the cache; later rows judge. With 50 % of the keys," in said
    assert "Head 1.3 reads key head 1, which keeps 15 of 30 keys." in said
    assert "ExpectedAttention needs the model's rotary embedding" in said
    shares = [token["kept"] for token in told(app, "headwater_kept_text")["tokens"]]
    assert shares == [1.0] * 4 + [0.0] * 15 + [1.0] * 11 + [None] * 10


def test_top_theta_is_shown_as_the_rule_it_was_made_as(page, library):
    said = plain(page(analysis=library.plain, part="policies", policy="top_theta", layer="1"))
    assert "As a rule per row, a threshold made for 25 % of the keys lets later rows of head 1.0" in said


@pytest.mark.parametrize(
    "keep, kept, said",
    [
        ("0", "keeps 0 of 30", "No key of the context is kept: what is retained lies on the tokens behind it."),
        ("100", "keeps 30 of 30", "Every key that can be reached is kept: nothing is saved."),
        ("<b>", "keeps 7 of 30", "retains most of those that can be built"),
    ],
)
def test_budgets_from_none_to_all(page, library, keep, kept, said):
    shown = plain(page(analysis=library.plain, part="policies", policy="knorm", keep=keep))
    assert kept in shown and said in shown
    assert "measures the error of each head's output, for which values are needed" in shown


def test_a_policy_that_cannot_be_computed_says_why(page, library):
    app = page(analysis=library.plain, part="policies", policy="expected_attention")
    assert "Run the policies with the model to have it" in plain(app)


def test_policies_need_all_heads_and_two_tokens(page, library):
    some = store(library.folder, n_tokens=40, exact=(1,), title="some heads")
    assert "not all were kept exactly" in plain(page(analysis=some, part="policies"))
    one = store(library.folder, n_tokens=1, text="a", title="one")
    assert "A policy needs at least two tokens" in plain(page(analysis=one, part="policies"))
    two = store(library.folder, n_tokens=2, text="ab", title="two")
    assert "keeps 0 of 1 keys" in plain(page(analysis=two, part="policies"))


def test_hybrid_layers_keep_their_numbers(page, library):
    said = plain(page(analysis=library.hybrid, part="policies", layer="7"))
    assert "Head 7.0 reads key head 0" in said and "Heads 7.0 to 7.1 share it: one choice for all." in said
    counted = "Counted are the 2 layers of softmax attention among the first 8; the others keep no keys."
    assert counted in said and counted in plain(page(analysis=library.hybrid, part="cost"))


@pytest.fixture
def sweep(library):
    parameters = Parameters(
        token_ids=tuple(ids(28)[0].tolist()), policies=("window", "oracle"), patterns=("best",), budgets=(0.25, 0.5),
        new_tokens=2, subject=HOSTILE,
    )  # fmt: skip
    return run_study(STUDY, LoadedModel.wrap(build("llama")), parameters, library=Library(library.folder))


def test_without_a_run_the_prediction_is_shown(page, library):
    said = plain(page(analysis=library.plain, part="cost"))
    assert "Predicted only: with 25 % of the keys," in said and "loses least of those that can be built" in said
    assert "By formula, 32,768 tokens of this model" in said


def test_a_run_is_shown_from_its_link(page, library, sweep, texts):
    app = page(analysis=library.plain, part="cost", study=sweep.id, run="window:0.5", length="1000")
    said = plain(app)
    row = sweep.table("runs", choice="window", budget=0.5).to_pylist()[0]
    assert "Window with 50 % kept" in said and row["text_dense"] in said and row["text"] in said
    assert f"Damage {row['kl']:.3g} nats (predicted {row['prediction']:.3g})" in said
    assert "does least damage of those that can be built" in said and "Most damage is behind token" in said
    assert "This study read another text than the open analysis." in said
    assert "By formula, 1,000 tokens" in said
    for marked in texts(app).marked:
        assert HOSTILE not in marked


def test_a_link_to_a_run_that_is_not_there_shows_another(page, library, sweep):
    said = plain(page(analysis=library.plain, part="cost", study=sweep.id, run="<b>:7"))
    assert "Window with 25 % kept" in said


def test_keys_of_the_chosen_head(page, library):
    said = plain(page(analysis=library.plain, part="keys", layer="1", head="2"))
    assert "of 8 directions hold 90 % of the variance" in said and "Near keys (the last 10 and the first 4)" in said
    assert "unverified default" in said and "From one row to the next, head 1.2" in said
    assert "of 8 heads the last 10 keys and the first 4" in said


TOKENS = tuple(ids(28)[0].tolist())
RUNS = {
    "dense": (dense_heads, {"token_ids": TOKENS, "subject": "a", "policy": "window", "budget": 0.3}),
    "keys": (key_dimensions, {"token_ids": TOKENS, "subject": "a"}),
    "prompts": (prompt_patterns, {"samples": 2, "length": 20, "policies": ("window",)}),
}
SAID = {
    "dense": (
        "Key heads that lose most when they alone drop keys",
        "Chosen together, each with those before it dense: ",
        "Greedy: every step tried the 4 key heads with most damage alone that were not dense yet",
        "of damage; with",
    ),
    "keys": ("Directions for 90 % of the variance, mean over layers", "before the rotary embedding", "effective rank"),
    "prompts": (
        "of 16 heads have the same pattern on all 2 prompts",
        "With 25 % of the keys, Window retains",
        "Measured on all rows of every text: 20 of each, 40 together.",
        "Judged by the last quarter of each text, at most 256 rows",
        "Head 0.0",
    ),
}


@pytest.mark.parametrize("part", sorted(RUNS))
def test_what_a_study_found_is_shown_from_its_link(page, library, part):
    module, given = RUNS[part]
    model = LoadedModel.wrap(build("llama", vocab_size=400), byte_level())
    study = run_study(module.STUDY, model, module.Parameters(**given), library=Library(library.folder))
    said = plain(page(analysis=library.plain, part=part, study=study.id))
    for words in SAID[part]:
        assert words in said, words


@pytest.mark.parametrize("part", ["dense", "prompts"])
def test_without_a_study_the_part_says_what_it_would_show(page, library, part):
    said = plain(page(analysis=library.plain, part=part))
    assert "better left dense" in said or "patterns a head always has" in said


def analysed(library, model_type, length=40, **overrides):
    """A stored analysis of a tiny model of that type."""
    model = LoadedModel.wrap(build(model_type, **overrides))
    return analyse(model, ids(length)[0].tolist(), library=Library(library.folder)).id


def test_a_model_that_reads_both_ways_has_patterns_and_no_cache(page, library):
    encoder = analysed(library, "bert")
    assert "Patterns of 8 heads:" in plain(page(analysis=encoder))
    assert "there is nothing to evict, only patterns apply" in plain(page(analysis=encoder, part="policies"))
    said = plain(page(analysis=encoder, part="cost"))
    assert "only patterns apply" in said and "No cache grows with this text, so no memory is saved" in said
    assert "By formula" not in said
    assert "directions hold 90 %" in plain(page(analysis=encoder, part="keys"))


def test_layers_with_a_window_say_that_keys_out_of_reach_are_no_saving(page, library):
    said = plain(page(analysis=analysed(library, "mistral"), part="policies", policy="knorm", keep="50"))
    assert "In 2 of 2 layers later rows reach only 3 of the 30 keys" in said
    assert "keeps 1 of 30 keys" in said, "half of the three that can be reached"


def test_only_the_weights_of_a_family_with_its_own_softmax_are_there(page, library):
    own = analysed(library, "bloom", n_head=4, n_layer=2)
    said = plain(page(analysis=own))
    assert "Patterns of " in said and "only the weights of this family were stored" in said
    assert "not its queries and keys" in plain(page(analysis=own, part="policies"))
    assert "its keys have no dimensions here" in plain(page(analysis=own, part="keys"))
