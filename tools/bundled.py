"""Makes the analyses that ship with the project: `make bundled`, or `python -m tools.bundled story pair`.

Each is run from a model that came as a package, or from the one whose weights are set by hand, saved under a fixed name
in cache_db/bundled and tracked by git, so that every page has something true to show before anything is installed.
Run again, it gives the same tables; only times and dates differ.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from backend.models import load
from backend.models.hand_set import NAME as HAND_SET
from backend.pipeline import Options, analyse
from backend.prompts import Prompt
from backend.settings import bundled_folder
from backend.store import Library

SMOLLM, MINILM = "smollm2-135m-instruct", "all-minilm-l6-v2"
FEWEST, MOST = 60, 130  # tokens
LARGEST_BYTES = 60_000_000  # all together


@dataclass(frozen=True)
class Bundled:
    """One analysis: its title, the model that reads it, and what is read."""

    title: str
    model: str
    prompt: Prompt


STORY = Prompt(
    text="Lily lived by the river. Every morning Lily fed the ducks. One day the ducks did not come. "
    "Lily walked along the water until she heard them behind the old mill, where the wind was weak and the reeds were "
    "high. She sat down in the grass and waited. When the sun went down the ducks swam home, and from then on Lily fed "
    "the ducks there every evening."
)
NAMES = Prompt(
    text="Down at the harbour, Zephyrine Okonkwo repaired old clocks. People said that nobody knew clocks as well as "
    "Zephyrine Okonkwo. When the great clock of the town hall stopped, the mayor wrote a letter to Zephyrine Okonkwo. "
    "Three days later the clock ran again, and the bill was signed by Zephyrine"
)
DOCUMENTS = Prompt(
    documents=[
        "Mara keeps the red key.",
        "Pavel keeps the white key.",
        "Jonas keeps the blue key.",
        "Ines keeps the green key.",
        "Selma keeps the black key.",
    ],
    question="Who keeps the blue key?",
)
CODE = Prompt(
    text='def largest(values):\n    """Returns the largest of the values."""\n    best = values[0]\n'
    "    for value in values:\n        if value > best:\n            best = value\n    return best\n\n\n"
    'def smallest(values):\n    """Returns the smallest of the values."""\n    best = values[0]\n    for'
)
CHAT = Prompt(
    chat=[
        {"role": "system", "content": "You answer in one short sentence."},
        {"role": "user", "content": "My cat is called Pepper. What is a good name for a second cat?"},
        {"role": "assistant", "content": "Salt would be a good name for your second cat."},
        {"role": "user", "content": "And what was the name of my first cat?"},
    ]
)
PAIR = Prompt(
    pair=(
        "The ferry to the island leaves at eight in the morning and takes two hours when the sea is calm, but in "
        "winter it often stays in the harbour.",
        "In calm weather the boat needs two hours to the island; it departs at eight, and in winter storms keep it at "
        "the quay.",
    )
)
RHYME = "the fox met a hen near one old barn while two geese slept under that tall tree by our pond"
BUNDLED = {
    "bundled-story": Bundled("A short story: Lily and the ducks", SMOLLM, STORY),
    "bundled-names": Bundled("Repeated name: the clocks of Zephyrine Okonkwo", SMOLLM, NAMES),
    "bundled-documents": Bundled("Five documents and a question: the blue key", SMOLLM, DOCUMENTS),
    "bundled-code": Bundled("Code: the largest and the smallest value", SMOLLM, CODE),
    "bundled-chat": Bundled("Chat: two cats", SMOLLM, CHAT),
    "bundled-pair": Bundled("Sentence pair: the ferry to the island", MINILM, PAIR),
    "bundled-hand-set": Bundled("Set by hand: a rhyme told three times", HAND_SET, Prompt(text=" ".join([RHYME] * 3))),
}


def make(name: str, folder: Path | None = None) -> Path:
    """Runs one prompt and puts its analysis at <folder>/analyses/<name>, cache_db/bundled where no folder is given."""
    what = BUNDLED[name]
    with tempfile.TemporaryDirectory() as scratch:
        library = Library(Path(scratch))
        made = analyse(load(what.model), what.prompt, options=Options(), library=library)
        library.update(made.id, title=what.title)
        tokens = made.info["n_tokens"]
        if not FEWEST <= tokens <= MOST:
            raise SystemExit(f"{name} has {tokens} tokens; expected {FEWEST} to {MOST}: change its prompt.")
        target = (folder or bundled_folder()) / "analyses" / name
        if target.exists():
            shutil.rmtree(target)
        shutil.copytree(Path(scratch) / "analyses" / made.id, target, ignore=shutil.ignore_patterns("*.lock"))
    size = (target / "analysis.duckdb").stat().st_size
    print(f"{name}: {tokens} tokens, {size / 1e6:.2f} MB")
    return target


def main(names: list[str], folder: Path | None = None) -> None:
    """Makes the named ones, or all, and checks the size of all of them together."""
    for name in names or BUNDLED:
        make(f"bundled-{name.removeprefix('bundled-')}", folder)
    files = list((folder or bundled_folder()).rglob("*.duckdb"))
    total = sum(file.stat().st_size for file in files)
    print(f"{len(files)} files, {total / 1e6:.1f} MB together")
    if total > LARGEST_BYTES:
        raise SystemExit(f"Together they have {total} bytes, at most {LARGEST_BYTES}: shorten a prompt.")


if __name__ == "__main__":
    main(sys.argv[1:])
