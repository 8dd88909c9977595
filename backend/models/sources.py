"""From what a person names to a folder on this machine: bundled model, local folder, GGUF file, or hub id."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from huggingface_hub import constants, snapshot_download
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from backend.errors import Refused
from backend.models import bundled
from backend.settings import OFFLINE

PATTERNS = ["*.safetensors", "*.safetensors.index.json", "*.json", "*.model", "*.txt", "*.jinja"]
UNUSED = ["consolidated*", "original/*", "onnx/*", "openvino/*", "coreml/*"]
PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt")
STALL_S = 5  # a hub that does not answer for this long counts as no network


@dataclass(frozen=True)
class Source:
    """Where a model lies, and what it is called."""

    name: str
    folder: Path | None  # None where code makes it
    revision: str | None
    bundled: bool = False
    build: Callable | None = None  # () -> the model and its tokenizer


def locate(name: str, revision: str | None, token: str | None) -> Source:
    """The folder of a model. Refused, with what to do, where there is none."""
    if not isinstance(name, str) or not (name := name.strip()):
        raise Refused("No model was named. Give a bundled model, a folder, or a Hugging Face id such as owner/name.")
    known = bundled.find(name)
    if isinstance(known, bundled.Built):
        return Source(known.choice.name, None, None, bundled=True, build=known.build)
    if known is not None:
        return Source(known.choice.name, known.folder(), known.revision(), bundled=True)
    try:
        path = Path(name).expanduser()
        is_gguf, is_folder = path.suffix == ".gguf" and path.is_file(), path.is_dir()
    except (OSError, RuntimeError) as error:  # too long, not readable, or the home of nobody
        raise Refused(
            f"{name[:80]!r} cannot be looked up here ({str(error)[:80]}). Give a folder or a model id."
        ) from None
    if is_gguf:
        return Source(path.stem, bundled.converted(path, gguf_name(path)), None)
    if is_folder:
        require_weights(path, name)
        return Source(path.name, path, None)
    if name.startswith(("/", ".", "~")) or "\\" in name:
        raise Refused(f"There is no folder {name}. Give a folder with config.json and safetensors, or a model id.")
    return from_hub(name, revision, token)


def gguf_name(path: Path) -> str:
    """A folder name for a converted file: another file of the same name is another folder."""
    stat = path.stat()
    stamp = hashlib.sha256(f"{path.resolve()} {stat.st_size} {stat.st_mtime_ns}".encode()).hexdigest()[:12]
    return f"{path.stem}-{stamp}"


def require_weights(folder: Path, name: str) -> None:
    """Refuse a folder that lacks what a model needs, naming the missing file."""
    if not (folder / "config.json").is_file():
        raise Refused(f"The folder {name} has no config.json, so it holds no model. Give a model's own folder.")
    if any(folder.glob("*.safetensors")):
        return
    pickles = [file.name for pattern in PICKLES for file in folder.glob(pattern)]
    if pickles:
        raise Refused(
            f"{name} holds its weights in {pickles[0]}, a pickle file, which can run code when read. "
            "Save the model as safetensors (save_pretrained does) and load that."
        )
    raise Refused(f"{name} has a config.json but no weights: no .safetensors file was found in it.")


def from_hub(name: str, revision: str | None, token: str | None) -> Source:
    """A model of the Hugging Face hub: downloaded once, found in its cache later."""
    offline = OFFLINE.text() == "1" or constants.is_offline_mode()
    at = f" at revision {revision}" if revision else ""
    try:
        folder = snapshot_download(
            name,
            revision=revision,
            token=token or None,
            allow_patterns=PATTERNS,
            ignore_patterns=UNUSED,
            local_files_only=offline,
            etag_timeout=STALL_S,
        )
    except GatedRepoError:
        raise Refused(f"{name} is gated: accept its terms on the hub, then give an access token.") from None
    except RepositoryNotFoundError:
        raise Refused(
            f"The hub has no model {name!r} that is open to you. Check the spelling, or give a token."
        ) from None
    except RevisionNotFoundError:
        raise Refused(f"{name} has no revision {revision!r}. Give a branch, a tag or a commit of it.") from None
    except HFValidationError:
        raise Refused(f"{name!r} is no folder here and no valid model id. An id looks like owner/name.") from None
    except LocalEntryNotFoundError:
        reason = "this server works offline" if offline else "the hub cannot be reached"
        raise Refused(
            f"{name}{at} is not on this machine and {reason}. Take a bundled model, give a local folder, or try again "
            "with a network."
        ) from None
    except HfHubHTTPError as error:
        raise Refused(f"The hub refused {name}{at}: {error.response.status_code}. Try again later.") from None
    require_weights(Path(folder), name)
    return Source(name, Path(folder), Path(folder).name)
