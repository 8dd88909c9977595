"""Models over several devices, quantised ones, and what loading takes in memory."""

import copy
import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from accelerate import dispatch_model

from backend.capture import capture
from backend.errors import Refused
from backend.models import LoadedModel, load
from backend.models import quantised as quantised_models
from backend.pipeline import analyse
from kernels.measures import NOTHING
from tests.backend import tiny, tiny_tokenizers

ROOT = Path(__file__).resolve().parents[2]
IDS = list(range(3, 15))


def spread(model, folder: Path):
    """Half of the layers in memory, half on the disk, where they are fetched from for each pass."""
    places = {"model.embed_tokens": "disk", "model.norm": "cpu", "model.rotary_emb": "cpu", "lm_head": "disk"}
    places |= {f"model.layers.{number}": ("cpu", "disk")[number % 2] for number in range(4)}
    return dispatch_model(model, places, main_device="cpu", offload_dir=str(folder))


def test_case_32_a_model_in_two_places_gives_the_maps_of_one_in_one_place(tmp_path):
    whole = tiny.build("llama", num_hidden_layers=4)
    parts = spread(copy.deepcopy(whole), tmp_path)
    assert parts.get_input_embeddings().weight.is_meta
    ours, theirs = LoadedModel.wrap(parts), LoadedModel.wrap(whole)
    assert str(ours.device) == "cpu"
    assert ours.weights_hash == theirs.weights_hash
    found, expected = analyse(ours, IDS), analyse(theirs, IDS)
    for layer in range(4):
        for head in range(8):
            assert abs(found.map(layer, head) - expected.map(layer, head)).max() <= 1e-6
    assert found.tokens().column("logprob").to_pylist() == pytest.approx(
        expected.tokens().column("logprob").to_pylist(), abs=1e-5
    )


def test_case_32_layers_of_different_devices_are_never_stacked(monkeypatch):
    """Each layer is on the CPU when it is written, wherever it was computed."""
    from backend import run_layers

    devices, real = [], run_layers.record

    def record(captured, exact):
        made = real(captured, exact)
        tensors = [made.query, made.key, made.lse, made.key_norm, *made.measures.values()]
        devices.append({tensor.device.type for tensor in tensors})
        return made

    monkeypatch.setattr(run_layers, "record", record)
    analyse(LoadedModel.wrap(tiny.build("llama")), IDS)
    assert devices == [{"cpu"}] * 2


def test_device_spread_is_taken_by_load(tmp_path):
    tokenizer = tiny_tokenizers.byte_level()
    tiny.build("llama", vocab_size=len(tokenizer)).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    model = load(str(tmp_path), device="spread")
    with capture(model, NOTHING) as layers, torch.no_grad():
        model.model(torch.tensor([IDS]))
    assert len(layers) == 2


@pytest.mark.parametrize(("method", "package"), [("bitsandbytes", "bitsandbytes"), ("gptq", "gptqmodel")])
def test_a_quantised_model_names_the_package_it_needs(tmp_path, method, package, monkeypatch):
    monkeypatch.setattr(quantised_models, "installed", lambda name: False)
    tokenizer = tiny_tokenizers.byte_level()
    tiny.build("llama", vocab_size=len(tokenizer)).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    settings = {"quant_method": method, "bits": 4, "load_in_4bit": True}
    (tmp_path / "config.json").write_text(json.dumps({**config, "quantization_config": settings}))
    with pytest.raises(Refused, match=rf"quantised with {method}.*\({package}\) is not installed"):
        load(str(tmp_path))


PEAK = """
import sys, threading
from backend.models import load

def anonymous():
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon"))

load(sys.argv[1])  # the code that loads a model takes memory of its own, once
peak, done, before = 0, threading.Event(), anonymous()

def watch():
    global peak
    while not done.wait(0.002):
        peak = max(peak, anonymous())

thread = threading.Thread(target=watch)
thread.start()
model = load(sys.argv[2], dtype=sys.argv[3]).model
done.set()
thread.join()
size = sum(p.numel() * p.element_size() for p in model.parameters())
print((max(peak, anonymous()) - before) / size)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="Linux tells how much memory a process holds")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_case_64_loading_holds_no_second_copy_of_the_weights(tmp_path, dtype):
    """Memory of the process itself: pages of the weight file that are only mapped can be dropped at any time."""
    tokenizer = tiny_tokenizers.byte_level()
    for name, size in (
        ("small", {}),
        ("large", {"hidden_size": 512, "intermediate_size": 6144, "num_hidden_layers": 3}),
    ):
        model = tiny.build("llama", vocab_size=len(tokenizer), initializer_range=0.02, **size)
        model.to(torch.bfloat16).save_pretrained(tmp_path / name)
        tokenizer.save_pretrained(tmp_path / name)
    command = [sys.executable, "-c", PEAK, str(tmp_path / "small"), str(tmp_path / "large"), dtype]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) <= 1.3
