"""Cases of the store that take a whole run or more than one process; the others stand with what they test."""

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from backend.errors import Refused
from backend.models import LoadedModel
from backend.pipeline import analyse
from backend.prompts import Prompt
from backend.store import Library
from tests.backend import tiny
from tests.backend.tiny_tokenizers import byte_level
from tests.stored import store

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("text", ["x\ud83d", "a\0b", "\udc00\ud800", "a\ufffeb", "\ud83d\ude00 in halves"], ids=ascii)
def test_case_46_text_that_is_no_unicode_is_told_before_the_run_or_stored_whole(data_folder, text):
    """Whatever is typed: a refusal in words before anything runs, or an analysis that can be opened and found."""
    library = Library(data_folder)
    model = LoadedModel.wrap(tiny.build("llama", vocab_size=1000), byte_level())
    try:
        analysis = analyse(model, Prompt(text=text), library=library)
    except Refused as refused:
        assert str(refused) and library.list() == []
        return
    again = Library(data_folder).open(analysis.id)
    n = again.info["n_tokens"]
    assert again.map(0, 0).shape == (n, n)
    kept = again.info["prompt"]["text"]
    assert kept.encode("utf-8") and len(kept) == len(text)
    assert "".join(token.text for token in again.tokens_list()) == kept
    assert again.id in [entry.id for entry in library.list()]


WRITER = """
    import sys
    sys.path.insert(0, {root!r})
    from pathlib import Path
    from tests.stored import store
    print("ready", flush=True)
    for number in range(6):
        store(Path({path!r}), title=f"written elsewhere {{number}}", n_tokens=20)
        print(number, flush=True)
"""


def test_case_66_readers_and_a_writing_process_never_lock_each_other_out(data_folder):
    """There is no owner process: finished files are read by everybody while others are being written."""
    library = Library(data_folder)
    first = store(data_folder, n_tokens=20)
    script = textwrap.dedent(WRITER).format(root=str(ROOT), path=str(data_folder))
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout.readline() == "ready\n"
        reads = 0
        while writer.poll() is None:
            for entry in library.list():
                assert library.open(entry.id).map(0, 0).shape == (20, 20)
                library._opened.let_go(entry.id)
                reads += 1
        assert writer.returncode == 0 and reads > 0
    assert len(library.list()) == 7 and library.open(first).rows().num_rows == 2 * 4 * 20


PEAK = """
    import sys, threading
    sys.path.insert(0, {root!r})
    import torch
    from backend.models import load
    def own() -> int:
        with open("/proc/self/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("RssAnon")) * 1024
    load({small!r})  # imports and their memory come first
    before, peak, over = own(), 0, threading.Event()
    def watch():
        global peak
        while not over.wait(0.005):
            peak = max(peak, own())
    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    model = load({large!r})
    over.set(); watcher.join()
    weights = sum(p.numel() * p.element_size() for p in model.model.parameters())
    print(weights, max(peak, own()) - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_case_64_loading_takes_little_more_than_the_weights(tmp_path):
    small, large = tmp_path / "small", tmp_path / "large"
    for folder, width in ((small, 64), (large, 1024)):
        model = tiny.build(
            "llama", hidden_size=width, intermediate_size=4 * width, num_hidden_layers=4, initializer_range=0.02
        )
        model.save_pretrained(folder)
        byte_level().save_pretrained(folder)
        del model
    script = textwrap.dedent(PEAK).format(root=str(ROOT), small=str(small), large=str(large))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    weights, peak = map(int, done.stdout.split())
    assert weights > 200e6
    assert peak <= 1.3 * weights, f"{peak / weights:.2f} times the weights"
