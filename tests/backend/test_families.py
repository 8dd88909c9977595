"""Every family in the list: its maps equal those of a separate copy of the model set to eager.

HEADWATER_WRITE_DOCS=1 writes the table of docs/models.md from what is measured here.
"""

import os
import re
from pathlib import Path

import pytest
import torch

from backend.capture import capture
from backend.families import families, family_of
from backend.models import LoadedModel, check
from backend.pipeline import analyse
from backend.sites import survey
from backend.store import Library
from kernels.api import attend, weights
from kernels.measures import NOTHING
from tests.backend import tiny
from tests.backend.eager import difference, eager_maps, sdpa_maps, valid_cells

DOC = Path(__file__).resolve().parents[2] / "docs" / "models.md"
TYPES = [*tiny.DECODERS, *tiny.ENCODERS]
WITHOUT_SDPA = {"gemma2", "gpt_oss"}  # softcap and learned sinks exist in eager alone
LONG, SHORT = tiny.ids(12)[0].tolist(), [21, 7, 35, 50, 11, 9, 63]
measured: dict[str, float] = {}


def prompts(model_type: str) -> dict[str, dict]:
    """One prompt longer than the window, and a batch of two padded on either side."""
    pad = 1 if model_type in ("roberta", "xlm-roberta") else 0
    alone = {"input_ids": torch.tensor([LONG]), "attention_mask": torch.ones(1, len(LONG), dtype=torch.int64)}
    batches = {side: tiny.padded([LONG, SHORT], side, pad) for side in ("left", "right")}
    for batch in batches.values():
        if model_type in tiny.ENCODERS or model_type in ("opt", "jamba"):
            batch.pop("position_ids")  # they count positions themselves
    return {"alone": alone, **batches}


def build(model_type: str, **overrides):
    pad = {"pad_token_id": 1} if model_type in ("roberta", "xlm-roberta") else {}
    return tiny.build(model_type, **pad, **overrides)


def captured_maps(model, inputs) -> list[torch.Tensor]:
    with capture(model, NOTHING) as layers:
        model(**inputs)
    whole = slice(0, inputs["input_ids"].shape[1])
    return [weights(layer.query, layer.key, layer.score, layer.lse, whole, whole) for layer in layers]


def rounding(model_type, model, monkeypatch) -> float:
    """What float32 leaves open in this model: how far its own ways lie apart (eager, sdpa, and eager in float64)."""
    inputs = prompts(model_type)["alone"]
    cells, eager = valid_cells(inputs["attention_mask"]), eager_maps(model, inputs)
    own = difference(eager, eager_maps(model, inputs, torch.float64), cells)
    return (
        own if model_type in WITHOUT_SDPA else max(own, difference(eager, sdpa_maps(model, inputs, monkeypatch), cells))
    )


@pytest.mark.parametrize("model_type", TYPES)
def test_maps_equal_eager(model_type, monkeypatch):
    model = build(model_type)
    own = rounding(model_type, model, monkeypatch)
    for name, inputs in prompts(model_type).items():
        cells = valid_cells(inputs["attention_mask"])
        theirs = eager_maps(model, inputs)
        ours = captured_maps(model, inputs)
        error = difference(ours, theirs, cells)
        assert error <= max(1e-5, 4 * own), f"{model_type}, {name}: {error:.1e}, the model's own {own:.1e}"
        measured[model_type] = max(error, measured.get(model_type, 0.0))
        assert all(not bool(map_.isnan().any()) for map_ in ours), f"{model_type}, {name}: NaN"
        assert all(not bool((map_ * ~cells).any()) for map_ in ours), f"{model_type}, {name}: weight on padding"


@pytest.mark.parametrize("model_type", TYPES)
def test_logits_are_those_of_an_ordinary_run(model_type):
    model = build(model_type)
    inputs = prompts(model_type)["alone"]
    with torch.no_grad():
        ordinary = model(**inputs).logits
    with capture(model, NOTHING):
        captured = model(**inputs).logits
    assert (captured - ordinary).abs().max() <= 1e-4


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("model_type", TYPES)
def test_self_check_accepts_the_family(model_type, dtype):
    card = LoadedModel.wrap(build(model_type).to(dtype)).describe()
    assert card.family == family_of(model_type).title
    assert all(value["passed"] for value in card.checks.values() if isinstance(value, dict))


@pytest.mark.parametrize("model_type", TYPES)
def test_maps_equal_eager_after_saving_and_reopening(model_type, monkeypatch, tmp_path):
    model = build(model_type)
    theirs = eager_maps(model, {"input_ids": torch.tensor([LONG])})
    library = Library(tmp_path)
    saved = library.open(analyse(LoadedModel.wrap(model), LONG, library=library).id)
    layers = [layer for layer in saved.layers() if layer.attention == "softmax"]
    error = max(
        float(abs(saved.map(layer.layer, head) - their[0, head].numpy()).max())
        for layer, their in zip(layers, theirs, strict=True)
        for head in range(layer.heads)
    )
    assert error <= max(1e-5, 4 * rounding(model_type, model, monkeypatch))


@pytest.mark.parametrize("model_type", TYPES)
def test_maps_in_bfloat16_are_those_of_its_queries_and_keys_and_near_eager(model_type, monkeypatch):
    """bfloat16 eager rounds its scores; the maps here are computed in float32 from the same queries and keys.

    Both from the same residual stream: within 4e-3 of the exact map, and of the eager one within what eager itself lies
    beside the exact one and 4e-3 more.
    """
    found = []

    def compared(call, theirs):
        whole = slice(0, call.query.shape[2]), slice(0, call.key.shape[2])
        lse = attend(call.query, call.key, call.value, call.score, NOTHING).lse
        ours = weights(call.query, call.key, call.score, lse, *whole)
        double = [part.double() for part in (call.query, call.key, call.value)]
        done = attend(*double, call.score, NOTHING, impl="reference")
        exact = weights(double[0], double[1], call.score, done.lse, *whole)
        found.append([(a - b).abs().max().item() for a, b in ((ours, exact), (ours, theirs), (theirs, exact))])
        return real(call, theirs)

    real = check.compare_map
    monkeypatch.setattr(check, "compare_map", compared)
    model = build(model_type).to(torch.bfloat16)
    check.self_check(model)
    assert len(found) >= len(survey(model).sites)
    for ours, beside_eager, eager in found:
        assert ours <= 4e-3
        assert beside_eager <= eager + 4e-3


def test_every_family_in_the_list_is_tried():
    proved = {name for family in families() if not family.refusal and not family.dense for name in family.model_types}
    assert proved == set(TYPES)


def test_hybrids_name_their_other_layers():
    layers = survey(build("qwen3_next")).layers
    assert [layer.layer for layer in layers] == [0, 1, 2, 3]
    assert [layer.attention for layer in layers] == ["linear attention (gated delta rule)"] * 3 + ["softmax"]
    assert [layer.attention for layer in survey(build("jamba")).layers].count("softmax") == 1


def row(model_type: str) -> str:
    family, model = family_of(model_type), build(model_type)
    sites, error = len(survey(model).sites), f"{measured[model_type]:.0e}"
    return f"| {family.title} | `{model_type}` | {sites} | {error} | {family.notes} |"


@pytest.fixture(scope="module")
def document() -> str:
    """docs/models.md; written anew first where asked."""
    text = DOC.read_text("utf-8")
    if os.environ.get("HEADWATER_WRITE_DOCS") == "1":
        before, rest = text.split("<!-- families -->\n")[0], text.split("<!-- end of families -->")[1]
        head = [
            "| family | type | maps in the tiny model | largest error | what its attention does |",
            "|---|---|---|---|---|",
        ]
        table = "\n".join([*head, *(row(model_type) for model_type in TYPES)])
        text = f"{before}<!-- families -->\n{table}\n<!-- end of families -->{rest}"
        DOC.write_text(text, "utf-8")
    return text


@pytest.mark.parametrize(
    "family", [family for family in families() if not family.refusal and not family.dense], ids=lambda f: f.title
)
def test_docs_list_the_family_with_its_error(family, document):
    for model_type in family.model_types:
        found = re.search(rf"^\| {re.escape(family.title)} \| `{model_type}` \| \d+ \| (\S+) \|", document, re.M)
        assert found, (
            f"docs/models.md lacks {family.title}: HEADWATER_WRITE_DOCS=1 pytest tests/backend/test_families.py"
        )
        assert float(found[1]) <= 1e-4
