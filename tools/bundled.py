"""Makes the analyses that ship with the project: `make bundled`.

Each is run from the bundled model, saved under a fixed name in cache_db/bundled and tracked by git, so that every page
has something true to show before anything is installed.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from backend.models import load
from backend.pipeline import Options, analyse
from backend.prompts import Prompt
from backend.settings import bundled_folder
from backend.store import Library

STORY = Prompt(
    text="Lily lived by the river. Every morning Lily fed the ducks. One day the ducks did not come. "
    "Lily walked along the water until she heard them behind the old mill, "
    "and from then on Lily fed the ducks there daily."
)
DOCUMENTS = Prompt(
    documents=["Mara keeps the red key.", "Jonas keeps the blue key."],
    question="Who has the blue key?",
)
BUNDLED = {
    "bundled-story": ("A short story: Lily and the ducks", STORY),
    "bundled-documents": ("Two documents and a question: the blue key", DOCUMENTS),
}
LARGEST_BYTES = 4_000_000


def make(name: str, title: str, prompt: Prompt) -> Path:
    """Runs one prompt and puts its analysis at cache_db/bundled/analyses/<name>."""
    with tempfile.TemporaryDirectory() as scratch:
        library = Library(Path(scratch))
        made = analyse(load("smollm2-135m-instruct"), prompt, options=Options(), library=library)
        library.update(made.id, title=title)
        tokens = made.info["n_tokens"]
        target = bundled_folder() / "analyses" / name
        if target.exists():
            shutil.rmtree(target)
        shutil.copytree(Path(scratch) / "analyses" / made.id, target, ignore=shutil.ignore_patterns("*.lock"))
    size = (target / "analysis.duckdb").stat().st_size
    print(f"{name}: {tokens} tokens, {size / 1e6:.2f} MB")
    if size > LARGEST_BYTES:
        raise SystemExit(f"{name} has {size} bytes, at most {LARGEST_BYTES}: shorten its prompt.")
    return target


if __name__ == "__main__":
    for name, (title, prompt) in BUNDLED.items():
        make(name, title, prompt)
