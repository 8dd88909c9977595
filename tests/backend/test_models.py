"""Loading: bundled models, folders, what is refused, one load for many, and the self-check."""

import json
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from backend.errors import HeadwaterError, Refused
from backend.models import LoadedModel, available, bundled, load, resident, sources
from backend.models.loading import read_model
from tests.backend import tiny, tiny_tokenizers
from tests.backend.eager import eager_maps

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def nothing_resident(monkeypatch):
    monkeypatch.setattr(resident, "_models", type(resident._models)())


@pytest.fixture
def folder(tmp_path) -> Path:
    """A small Llama with a tokenizer, saved."""
    tokenizer = tiny_tokenizers.byte_level()
    tiny.build("llama", vocab_size=len(tokenizer)).save_pretrained(tmp_path / "llama")
    tokenizer.save_pretrained(tmp_path / "llama")
    return tmp_path / "llama"


def change_weights(folder: Path, change) -> None:
    path = folder / "model.safetensors"
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path, {"format": "pt"})


def test_case_33_a_folder_loads_without_a_connection(folder):
    """In a process of its own, where opening any connection is an error."""
    script = (
        "import socket\n"
        "def refuse(*a, **k): raise AssertionError('a connection was opened')\n"
        "socket.socket.connect = refuse; socket.create_connection = refuse; socket.getaddrinfo = refuse\n"
        "from backend.models import load\n"
        f"model = load({str(folder)!r})\n"
        "print(model.name, model.describe().family)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["llama", "Llama"], done.stderr


def test_a_loaded_model_evaluates_without_gradients(folder):
    model = load(str(folder))
    assert not model.model.training
    assert not any(parameter.requires_grad for parameter in model.model.parameters())
    assert (model.dtype, str(model.device)) == ("float32", "cpu")


def test_dtype_can_be_chosen(folder):
    assert load(str(folder), dtype="bfloat16").dtype == "bfloat16"
    with pytest.raises(Refused, match="float32"):
        load(str(folder), dtype="int8")


def test_case_63_many_who_ask_at_once_get_one_model(folder, monkeypatch):
    count, got = [], []

    def counted(*arguments):
        count.append(1)
        return read_model(*arguments)

    monkeypatch.setattr(resident, "read_model", counted)
    threads = [threading.Thread(target=lambda: got.append(load(str(folder)))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(count) == 1
    assert len({id(model) for model in got}) == 1
    assert len(got) == 8


def test_case_64_a_bounded_number_stays_in_memory(folder, monkeypatch):
    monkeypatch.setenv("HEADWATER_MODELS", "2")
    names = []
    for number in range(3):
        names.append(shutil.copytree(folder, folder.parent / f"copy-{number}"))
        load(str(names[-1]))
    assert [future.result().name for future in resident._models.values()] == ["copy-1", "copy-2"]
    first = load(str(names[1]))
    load(str(names[0]))  # copy-2 is now the one unused for longest
    assert load(str(names[1])) is first


def test_a_failed_load_can_be_tried_again(folder):
    config = (folder / "config.json").read_text()
    (folder / "config.json").unlink()
    with pytest.raises(Refused):
        load(str(folder))
    (folder / "config.json").write_text(config)
    assert load(str(folder)).name == "llama"


def set_config(folder: Path, **values) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **values}))


def no_weights(folder):
    (folder / "model.safetensors").unlink()


def pickled(folder):
    no_weights(folder)
    (folder / "pytorch_model.bin").write_bytes(b"\x80")


def no_tokenizer(folder):
    for file in folder.glob("tokenizer*"):
        file.unlink()


def missing_tensor(folder):
    change_weights(folder, lambda tensors: tensors.pop("model.layers.1.self_attn.q_proj.weight"))


def other_shape(folder):
    set_config(folder, intermediate_size=50)


def not_a_number(folder):
    change_weights(
        folder, lambda tensors: tensors["model.layers.0.mlp.up_proj.weight"].__setitem__((0, 0), float("nan"))
    )


def unknown_type(folder):
    set_config(folder, model_type="no_such_thing")


def code_of_its_own(folder):
    set_config(folder, model_type="no_such_thing", auto_map={"AutoConfig": "run.Me", "AutoModelForCausalLM": "run.Me"})
    (folder / "run.py").write_text("open('/tmp/headwater-ran-foreign-code', 'w')")


def broken_weights(folder):
    (folder / "model.safetensors").write_bytes(b"not a weight file")


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (no_weights, "no .safetensors"),
        (pickled, "pickle"),
        (no_tokenizer, "tokenizer"),
        (missing_tensor, "do not match"),
        (other_shape, "weights"),
        (not_a_number, "NaN"),
        (unknown_type, "no architecture"),
        (code_of_its_own, "never run"),
        (broken_weights, "cannot be read"),
    ],
)
def test_folders_that_are_refused(folder, damage, reason):
    damage(folder)
    with pytest.raises(Refused, match=reason) as refusal:
        load(str(folder))
    assert "\n" not in str(refusal.value)
    assert not Path("/tmp/headwater-ran-foreign-code").exists()


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "No model was named"),
        ("/no/such/folder", "no folder"),
        ("../up", "no folder"),
        ("an id with spaces", "no valid model id"),
        ("owner/name/more", "no valid model id"),
        ("nobody-here/not-a-model", "works offline"),
    ],
)
def test_names_that_are_refused(name, reason):
    with pytest.raises(Refused, match=reason):
        load(name)


def test_no_network_is_one_sentence(monkeypatch):
    def unreachable(*arguments, **keywords):
        assert keywords["local_files_only"] is False
        raise sources.LocalEntryNotFoundError("no connection")

    monkeypatch.setattr(sources.constants, "is_offline_mode", lambda: False)
    monkeypatch.setattr(sources, "snapshot_download", unreachable)
    with pytest.raises(Refused, match="the hub cannot be reached"):
        load("owner/name")


def test_a_token_is_in_no_message(monkeypatch):
    with pytest.raises(Refused) as refusal:
        load("owner/name", token="hf_secret")
    assert "hf_secret" not in str(refusal.value)


def test_case_31_an_unlisted_family_that_passes_the_check_is_accepted():
    model = tiny.build("starcoder2", sliding_window=None, num_key_value_heads=2)
    card = LoadedModel.wrap(model).describe()
    assert card.family is None
    assert card.checks["status"] == "checked, not in the list"


def test_case_31_a_classifier_is_read_without_its_head(folder, tmp_path):
    from transformers import LlamaForSequenceClassification

    config = tiny.build("llama", vocab_size=300).config
    LlamaForSequenceClassification(config).save_pretrained(tmp_path / "classifier")
    for file in folder.glob("tokenizer*"):
        shutil.copy(file, tmp_path / "classifier")
    model = load(str(tmp_path / "classifier"))
    assert not model.predicts_next
    assert model.describe().heads == 16


def test_a_model_without_attention_is_refused():
    with pytest.raises(Refused, match="no softmax attention"):
        LoadedModel.wrap(tiny.build("mamba", state_size=4))


def test_case_27_and_28_the_implementation_that_a_model_was_loaded_with_does_not_matter():
    model = tiny.build("gemma2")  # knows eager alone
    assert model.config._attn_implementation == "eager"
    assert LoadedModel.wrap(model).checks["maps_equal_eager"]["passed"]
    assert model.config._attn_implementation == "eager"


def test_case_28_a_folder_that_asks_for_an_attention_which_is_not_here_loads(folder, tmp_path):
    copied = shutil.copytree(folder, tmp_path / "flash")
    settings = json.loads((copied / "config.json").read_text())
    (copied / "config.json").write_text(json.dumps({**settings, "_attn_implementation": "flash_attention_2"}))
    assert load(str(copied)).checks["maps_equal_eager"]["passed"]


def test_the_self_check_finds_a_wrong_map(monkeypatch):
    from backend.models import check

    monkeypatch.setattr(check, "weights", lambda q, k, score, lse, rows, columns: torch.softmax(q @ q.mT, -1))
    with pytest.raises(Refused, match="maps_equal_eager"):
        LoadedModel.wrap(tiny.build("gpt2"))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_case_9_a_model_whose_heads_look_at_their_own_token_alone_is_accepted(dtype):
    model = tiny.build("qwen2", hidden_size=32, num_attention_heads=4, num_hidden_layers=2, use_sliding_window=False)
    for layer in model.model.layers:  # scores fall by thousands with the distance
        layer.self_attn.q_proj.bias.data.fill_(200)
        layer.self_attn.k_proj.bias.data.fill_(200)
    assert LoadedModel.wrap(model.to(dtype)).checks["map_is_used"]["error"] > 0


def test_several_ends_of_text_are_no_obstacle():
    assert LoadedModel.wrap(tiny.build("llama", eos_token_id=[2, 5])).eos_token_id == 2


def test_the_self_check_finds_nan():
    model = tiny.build("llama")
    model.lm_head.weight.data[5] = float("nan")
    with pytest.raises(Refused, match="NaN or infinity"):
        LoadedModel.wrap(model)


def test_the_hash_follows_the_weights_of_a_wrapped_model():
    model = tiny.build("llama")
    loaded = LoadedModel.wrap(model)
    first = loaded.weights_hash
    assert loaded.weights_hash == first == LoadedModel.wrap(tiny.build("llama")).weights_hash
    model.model.layers[0].self_attn.k_proj.weight.data[0, 0] += 1
    assert loaded.weights_hash != first


def test_the_hash_of_a_folder_is_that_of_its_weights(folder):
    copy = shutil.copytree(folder, folder.parent / "copy")
    assert load(str(folder)).weights_hash == load(str(copy)).weights_hash
    assert load(str(folder), dtype="bfloat16").weights_hash != load(str(folder)).weights_hash


@pytest.mark.parametrize(("model_type", "positions"), [("llama", 128), ("gpt2", 64), ("roberta", 126), ("bert", 128)])
def test_positions_a_model_was_made_for(model_type, positions):
    pad = {"pad_token_id": 1} if model_type == "roberta" else {}
    assert LoadedModel.wrap(tiny.build(model_type, **pad)).max_positions == positions


def test_a_gguf_file_is_converted_once_however_many_try(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADWATER_CONVERTED", str(tmp_path / "models"))
    made = []

    def convert(gguf, folder):
        made.append(folder)
        (folder / "model.safetensors").write_text("weights")
        if len(made) == 1:  # somebody else is done while the first one still writes
            bundled.converted(gguf, "name")

    monkeypatch.setattr(bundled, "convert", convert)
    final = bundled.converted(Path("file.gguf"), "name")
    assert (final / "model.safetensors").read_text() == "weights"
    assert [path.name for path in (tmp_path / "models").iterdir()] == ["name"]
    bundled.converted(Path("file.gguf"), "name")
    assert len(made) == 2


def test_a_conversion_that_fails_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADWATER_CONVERTED", str(tmp_path / "models"))

    def convert(gguf, folder):
        (folder / "half").write_text("half")
        raise OSError("disk full")

    monkeypatch.setattr(bundled, "convert", convert)
    with pytest.raises(Refused, match="disk full"):
        bundled.converted(Path("file.gguf"), "name")
    assert list((tmp_path / "models").iterdir()) == []


def test_without_packages_only_what_code_makes_is_offered(monkeypatch):
    monkeypatch.setattr(bundled.importlib.util, "find_spec", lambda name: None)
    assert [choice.name for choice in available()] == ["hand-set-heads"]
    with pytest.raises(Refused, match=r"requirements-models\.txt"):
        load("smollm2-135m-instruct")


def test_case_86_everything_but_the_triton_path_works_without_triton(folder):
    script = (
        "import sys\n"
        "class Absent:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.split('.')[0] == 'triton': raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, Absent())\n"
        "from backend.models import load\n"
        "from backend.capture import capture\n"
        "from backend.prompts import encode\n"
        "import torch\n"
        f"model = load({str(folder)!r})\n"
        "with capture(model) as layers: model.model(torch.tensor([encode(model, 'the cat').token_ids]))\n"
        "print({layer.implementation for layer in layers}, 'triton' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "{'tiled'} False", done.stderr


@pytest.mark.weights
@pytest.mark.parametrize(
    ("name", "layers", "heads", "causal"),
    [("smollm2-135m-instruct", 30, 270, True), ("all-minilm-l6-v2", 6, 72, False)],
)
def test_bundled_models(name, layers, heads, causal):
    assert name in [choice.name for choice in available()]
    model = load(name)
    card = model.describe()
    assert (len(card.layers), card.heads, card.causal, card.dtype) == (layers, heads, causal, "float32")
    assert all(value["passed"] for value in card.checks.values() if isinstance(value, dict))
    assert card.checks["status"] == "in the list"


@pytest.mark.weights
@pytest.mark.parametrize("name", ["smollm2-135m-instruct", "all-minilm-l6-v2"])
def test_bundled_models_have_the_maps_of_eager(name, monkeypatch):
    """Within 1e-5, or four times what the model's own eager and sdpa lie apart."""
    from backend.capture import capture
    from backend.prompts import encode
    from kernels.api import weights
    from kernels.measures import NOTHING
    from tests.backend.eager import sdpa_maps

    model = load(name)
    text = "The old river bends twice before it reaches the sea, and the sea waits."
    inputs = {"input_ids": torch.tensor([encode(model, text).token_ids])}
    with capture(model, NOTHING) as layers:
        model.model(**inputs)
    eager = eager_maps(model.model, inputs)
    sdpa = sdpa_maps(model.model, inputs, monkeypatch)
    own = max((a.float() - b.float()).abs().max().item() for a, b in zip(eager, sdpa, strict=True))
    whole = slice(0, inputs["input_ids"].shape[1])
    ours = [weights(layer.query, layer.key, layer.score, layer.lse, whole, whole) for layer in layers]
    assert max((a - b).abs().max().item() for a, b in zip(ours, eager, strict=True)) <= max(1e-5, 4 * own)


@pytest.mark.parametrize(
    "name", ["~nobody_of_that_name/x", "a" * 10_000, None, 5], ids=["home", "long", "none", "number"]
)
def test_a_name_that_names_nothing_is_refused_in_words(name):
    with pytest.raises(Refused, match=r"Give a .*folder"):
        load(name)


def test_a_config_with_values_of_another_type_is_refused(folder):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "hidden_size": "abc"}))
    with pytest.raises(Refused, match=r"config.json"):
        load(str(folder))


def test_a_gguf_file_that_cannot_be_converted_is_refused(tmp_path):
    (tmp_path / "x.gguf").write_text("no weights")
    with pytest.raises(Refused, match="could not be converted"):
        load(str(tmp_path / "x.gguf"))


def test_a_wrong_setting_does_not_leave_a_load_that_never_ends(folder, monkeypatch):
    monkeypatch.setenv("HEADWATER_MODELS", "many")
    for _ in range(2):
        with pytest.raises(HeadwaterError, match="HEADWATER_MODELS"):
            load(str(folder))
