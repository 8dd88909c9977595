"""The page of sinks: what it says of stored analyses, and links that do not fit them."""

from types import SimpleNamespace

import numpy as np
import pytest

from backend.models import LoadedModel
from backend.store import Library
from backend.studies import run_study, sink_sets, sink_whatif, sink_window, streaming_figure
from backend.studies.sink_percentage import STUDY, Parameters
from kernels.score import ScoreSpec
from pages.shared.charts.sink_strip import MOST_BARS, bars_of
from pages.shared.panels.sink_free_values import shown_values
from pages.shared.panels.sink_sentences import sight_sentence
from pages.shared.panels.sink_where import rows_without_sinks
from pages.shared.view_state import ViewState
from tests.backend.sinks.planted import sink_at, stored
from tests.backend.tiny import build
from tests.backend.tiny_tokenizers import byte_level
from tests.stored import store

LIMITS = {"epsilon": "0.5", "theta": "0.2", "least": "5", "near": "3"}


def said(app) -> str:
    return "\n".join(element.value for element in app.text)


def test_the_page_counts_its_sink_heads_with_limit_and_baseline(open_page, library):
    app = open_page("sinks", analysis=library.plain)
    assert not app.exception
    first = Library(library.folder).open(library.plain).statistic("first_key_importance")
    count = int((first > 0.3).sum())
    assert f"{count} of {first.size} heads give" in said(app) and "uniform attention would give it 0.107" in said(app)
    assert "no begin-of-text token: the first token" in said(app)


def test_the_limits_are_in_the_address_and_what_makes_no_sense_is_left_out(open_page, library):
    app = open_page("sinks", analysis=library.plain, **LIMITS)
    assert "more than ε = 0.5" in said(app) and "θ = 0.2" in said(app) and "fewer than 3 tokens away" in said(app)
    wrong = open_page(
        "sinks", analysis=library.plain, epsilon="nan", theta="2", least="-1", near="x", part="no", strip="?"
    )
    assert not wrong.exception and "more than ε = 0.3" in said(wrong) and "θ = 0.1" in said(wrong)


@pytest.mark.parametrize("n_tokens", [1, 2, 12])
def test_a_short_prompt_says_why_no_sink_token_is_defined(open_page, library, n_tokens):
    short = store(library.folder, n_tokens=n_tokens)
    app = open_page("sinks", analysis=short)
    assert not app.exception
    assert ("no row sees two keys" in said(app)) == (n_tokens == 1)
    assert f"not defined because no token is seen by 16 rows: the prompt has {n_tokens} tokens" in said(app)


def test_layers_keep_the_models_own_numbers(open_page, library):
    app = open_page("sinks", analysis=library.hybrid, layer="7", head="1")
    assert not app.exception and "Head 7.1, row by row" in said(app)


def test_heads_without_exact_maps_cost_only_what_needs_them(open_page, library):
    pooled = store(library.folder, n_tokens=30, exact=())
    app = open_page("sinks", analysis=pooled)
    assert not app.exception
    assert "it takes exact maps to tell them apart" in said(app) and "was not kept" in said(app)


def test_many_tokens_share_bars_and_the_largest_is_named():

    values = np.zeros(1000)
    values[777] = 0.5
    bars = bars_of(values, [f"w{i}" for i in range(1000)], values > 0.1, None)
    assert len(bars) == MOST_BARS and max(bars, key=lambda bar: bar["value"])["name"] == "777 w777"
    assert sum(bar["what"] == "sink" for bar in bars) == 1


def test_why_says_what_is_not_defined_and_for_what_reason(open_page, library):
    app = open_page("sinks", analysis=library.plain, part="why")
    assert not app.exception
    assert "the output norms were not kept" in said(app) and "no norms of the residual stream" in said(app)
    assert "is a sink of" in said(app) or "it is a sink" in said(app)
    pooled = store(library.folder, n_tokens=30, exact=())
    app = open_page("sinks", analysis=pooled, part="why")
    assert not app.exception and "not defined because no head was kept exactly" in said(app)
    single = store(library.folder, n_tokens=1)
    app = open_page("sinks", analysis=single, part="why")
    assert not app.exception and "no other token to compare with" in said(app)


def test_a_study_opens_on_its_part_of_the_page(open_page, library):
    parameters = Parameters(sets=("random", "repeated"), samples=3, length=16)
    study = run_study(STUDY, LoadedModel.wrap(build("llama")), parameters, library=Library(library.folder))
    app = open_page("sinks", part="strong", study=study.id, epsilon="0.2")
    assert not app.exception
    assert "Sink heads at 16 tokens and ε = 0.2" in said(app) and "3 samples" in said(app)
    assert "Published values are for 64 tokens" in said(app)
    alone = open_page("studies", study=study.id)
    assert not alone.exception and "Sink heads at 16 tokens and ε = 0.3" in said(alone)


def test_studies_of_what_sinks_do_open_on_their_part_of_the_page(open_page, library):
    model = LoadedModel.wrap(build("llama", vocab_size=300), byte_level())
    own = Library(library.folder)
    tokens = model.tokenizer("the cat sat on the mat . the cat")["input_ids"]
    changed = run_study(sink_whatif.STUDY, model, sink_whatif.Parameters(token_ids=tokens), library=own)
    app = open_page("sinks", part="do", study=changed.id, edit="front")
    assert not app.exception
    assert "“Here is a short text. ” is put in front of the prompt" in said(app)
    assert "ACT) × 0.4: Not defined because no chosen head has a second sink" in said(app)
    asked = streaming_figure.Parameters(samples=4, length=6)
    figure = run_study(streaming_figure.STUDY, model, asked, library=own)
    app = open_page("sinks", part="do", way="figure", study=figure.id)
    assert not app.exception and "mean over 4 sentences of 6 tokens, all heads of the layer" in said(app)
    asked = sink_window.Parameters(length=40, first=2, budgets=(8, 16))
    stream = run_study(sink_window.STUDY, model, asked, library=own)
    app = open_page("sinks", part="do", way="window", study=stream.id)
    assert not app.exception and "2 first keys and the last 6 hold" in said(app)
    assert "there is no" not in said(app)


def test_a_set_of_prompts_opens_with_its_means_and_what_was_left_out(open_page, library):
    model = LoadedModel.wrap(build("llama", vocab_size=300), byte_level())
    asked = sink_sets.Parameters(
        texts=("the cat sat on the mat . the cat sat .", "a"), left_out=((3, "it is not JSON"),), lengths=(6,)
    )
    study = run_study(sink_sets.STUDY, model, asked, library=Library(library.folder))
    app = open_page("sinks", part="hold", study=study.id)
    assert not app.exception
    assert "6 tokens" in said(app) and "whole prompts" in said(app) and "(2 prompts" in said(app)
    assert "1 lines of the set were left out, the first is line 3: it is not JSON." in said(app)
    assert "1 readings were not possible" in said(app)


def test_a_study_on_a_part_that_shows_none_is_said(open_page, library):
    parameters = Parameters(sets=("random",), samples=2, length=16)
    study = run_study(STUDY, LoadedModel.wrap(build("llama")), parameters, library=Library(library.folder))
    app = open_page("sinks", study=study.id)
    assert not app.exception and "“Where are they?” shows no study." in said(app)
    assert "shows no study" not in said(open_page("sinks", part="strong", study=study.id))
    app = open_page("sinks", part="hold", study=study.id)
    assert not app.exception and "this part shows “Sinks over prompts”." in said(app)
    links = [one.proto for one in app.get("page_link") if "Open it" in one.proto.label]
    assert [(one.page, one.query_string) for one in links] == [("studies", f"study={study.id}")]


def test_the_relative_rule_is_in_the_address_and_in_the_words(open_page, library):
    planted = stored(library.folder, [sink_at(40, 0, 3.0), sink_at(40, 5, 3.0)])
    app = open_page("sinks", analysis=planted.id, rule="median", times="8")
    assert not app.exception
    assert "2 tokens are sinks of some head (importance above 8 times the median of its head)" in said(app)
    assert "gets more than 8 times the median of its head in 1 of 2 heads" in said(app)
    assert app.query_params["rule"] == "median" and "θ" not in " ".join(one.label for one in app.number_input)
    none = open_page("sinks", analysis=planted.id, rule="median", times="900")
    assert "No token has an importance above 900 times the median of its head" in said(none)
    wrong = open_page("sinks", analysis=planted.id, rule="mean", times="-3")
    assert not wrong.exception and "importance above θ = 0.1" in said(wrong)


def test_several_tokens_and_factors_of_a_what_if(open_page, library):
    model = LoadedModel.wrap(build("llama", vocab_size=300), byte_level())
    tokens = model.tokenizer("the cat sat on the mat . the cat")["input_ids"]
    asked = sink_whatif.Parameters(token_ids=tokens, edits=("hide", "scale"), keys=(0, 3), factors=(0.0, 0.5))
    study = run_study(sink_whatif.STUDY, model, asked, library=Library(library.folder))
    app = open_page("sinks", part="do", study=study.id, edit="scale_0.5")
    assert not app.exception and "tokens 0 and 3 are multiplied by 0.5" in said(app)
    assert "tokens 0 and 3 cannot be seen" in said(open_page("sinks", part="do", study=study.id))
    form = open_page("sinks", analysis=library.plain, part="do")
    (chosen,) = form.multiselect
    assert chosen.label == "Tokens that are hidden and scaled (sinks first)" and len(chosen.value) == 1
    form.text_input(key="headwater_sinks_do_factors").set_value("0 half").run()
    assert not form.exception and "Factors: expected numbers apart by spaces" in said(form)
    form.text_input(key="headwater_sinks_do_factors").set_value("0 7").run()
    assert "factors: expected 1 to 8 numbers from 0 to 1" in said(form)


def test_the_figure_takes_pasted_sentences(open_page, library):
    app = open_page("sinks", analysis=library.plain, part="do", way="figure")
    app.segmented_control(key="headwater_streaming_from").set_value("pasted").run()
    assert not app.exception and "Paste the sentences." in said(app)
    app.text_area(key="headwater_streaming_text").set_value("The cat sat. The dog ran!\n\nA bird sang.").run()
    assert not app.exception and "The texts are cut into 3 sentences" in said(app)
    assert app.number_input(key="headwater_streaming_samples_3").value == 3


def test_rows_without_sinks_add_up_to_one(open_page, library):
    rows = np.array([[0.0, 0.9, 0.0, 0.02, 0.05, 0.03], [0.1, 0.9, 0.0, 0.0, 0.0, 0.0]])
    shown = rows_without_sinks(rows)
    assert shown[0] == pytest.approx([0, 0, 0, 0.2, 0.5, 0.3]) and np.isnan(shown[1]).all()
    app = open_page("sinks", analysis=library.plain, sinkfree="on")
    assert not app.exception and "Shown without them" in said(app)


def test_the_heads_page_honours_the_view_without_sinks(open_page, library):
    planted = stored(library.folder, [sink_at(40, 0, 3.0), sink_at(40, 0, 3.0)])
    app = open_page("heads", analysis=planted.id, measure="entropy", sinkfree="on", query="20")
    assert not app.exception and "Without sinks: what rows gave" in said(app)
    assert "what the rows of this head gave to its sink is taken out; shares are of what is left." in said(app)
    values, _ = shown_values(ViewState(kind="self", measure="entropy", sinkfree="on"), planted)
    # Without its sink, row i looks at i keys alike.
    assert values.of(0, 0) == pytest.approx(np.mean([np.log(i) for i in range(1, 40)]), abs=1e-5)
    row = open_page("heads", analysis=planted.id, sinkfree="on", query="0")
    assert not row.exception and "nothing is left of this row" in said(row)
    assert "Without sinks: what" not in said(open_page("heads", analysis=planted.id))


def test_what_rows_see_is_told_by_the_rule_of_each_layer():
    def told(*rules: ScoreSpec) -> str:
        layers = list(range(len(rules)))
        analysis = SimpleNamespace(score=lambda layer, kind: rules[layer])
        found = SimpleNamespace(layers=layers)
        return sight_sentence(SimpleNamespace(analysis=analysis, kind="self", found=found, tokens=[None] * 40))

    both, causal = ScoreSpec(scale=1.0, causal=False), ScoreSpec(scale=1.0)
    near = ScoreSpec(scale=1.0, causal=False, around=(4, 4))
    assert told(both, both).startswith("Here every row sees every key")
    assert told(causal) == told(both, causal) == "" and told(ScoreSpec(scale=1.0, window=64)) == ""
    assert "only 9 keys" in told(both, near) and "only 8 keys" in told(causal, ScoreSpec(scale=1.0, chunk=8))
