"""What may change about an analysis: a small JSON file beside it, replaced as a whole.

It also repeats a few facts of the file (the summary), so that a list of ten thousand analyses need not open them. The
file stays the truth: a summary that does not fit its size is read again from it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path

from backend.errors import HeadwaterError
from backend.store import access, files
from backend.store.access import VISIBILITIES
from backend.store.tables import storable, storable_tree

FILE = "entry.json"
UNREADABLE = "entry.damaged.json"  # what a file that is no sidecar is called once it was replaced
TITLE_LENGTH = 80
HEAD = re.compile(r"((encoder|decoder|cross):)?\d{1,5}\.\d{1,5}")  # kind "self" is not said
HEAD_FIELDS = {"label": str, "note": str, "pinned": bool}
LONGEST = 20_000  # characters of a note


@dataclass(frozen=True)
class Sidecar:
    """The changing part of an entry."""

    title: str = ""
    tags: tuple[str, ...] = ()
    notes: str = ""
    pinned: bool = False
    visibility: str = "link"  # "listed": everybody finds it; "link": whoever has the id; "private": its owner
    owner: str | None = None
    imported: bool = False  # came from another place: never an answer to a run of this one
    made_of: tuple[str, ...] = ()  # ids of the entries it was made of, see `derived`
    heads: dict[str, dict] = field(default_factory=dict)  # "L.H" -> label, note, pinned
    summary: dict = field(default_factory=dict)  # facts of the file, see entries.summary_of


def read(folder: Path, info: Callable[[], dict] = dict) -> Sidecar:
    """The sidecar of an entry. What is missing or is no sidecar costs title, tags and notes, never the privacy.

    Owner and visibility are then those of access.json, else those that the file itself was saved with (`info` reads its
    facts), else it is private and nobody's.
    """
    values = _values(folder)
    known = access.from_dict(values)
    content = from_dict(values)
    if known is None:
        known = access.kept(folder, damaged=values is not None, info=info)
    return replace(content, **vars(known))


def _values(folder: Path) -> object:
    """What is in the file: None where there is none, a text where it is no JSON."""
    try:
        return json.loads((folder / FILE).read_text("utf-8"))
    except FileNotFoundError:
        return None
    except (ValueError, RecursionError):
        return "damaged"


def from_dict(values: object) -> Sidecar:
    """Takes what fits from a JSON value; anything else keeps its default."""
    if not isinstance(values, dict):
        return Sidecar()
    kept = {}
    for item in fields(Sidecar):
        value = values.get(item.name)
        default = getattr(Sidecar(), item.name)
        if item.name == "tags" and isinstance(value, list):
            kept["tags"] = tuple(tag for tag in value if isinstance(tag, str))
        elif item.name not in ("tags", "made_of") and isinstance(value, type(default)):
            kept[item.name] = value
    return Sidecar(**kept)


def write(folder: Path, content: Sidecar) -> None:
    """Replaces the sidecar, and before it what is known of owner and visibility apart from it."""
    access.write(folder, access.Access(content.visibility, content.owner, content.imported, content.made_of))
    if access.from_dict(_values(folder)) is None and (folder / FILE).is_file():
        (folder / FILE).replace(folder / UNREADABLE)  # perhaps somebody can still mend it
    files.write_text(folder / FILE, as_json(content))


def as_json(content: Sidecar) -> str:
    """The text of the file."""
    return json.dumps(storable_tree(asdict(content)), indent=1)


def changed(content: Sidecar, changes: dict[str, object]) -> Sidecar:
    """With new values for title, tags, notes, pinned, visibility and heads, checked. None leaves a field as it is."""
    kept = {name: value for name, value in changes.items() if value is not None}
    for name in ("title", "notes"):
        if name in kept:
            kept[name] = _text(name, kept[name])
    if "tags" in kept:
        tags = kept["tags"]
        if isinstance(tags, str) or not all(isinstance(tag, str) for tag in tags):
            raise HeadwaterError(f"tags: expected a list of texts, got {tags!r}.")
        kept["tags"] = tuple(dict.fromkeys(_text("tag", tag).strip() for tag in tags if tag.strip()))
    if "pinned" in kept and not isinstance(kept["pinned"], bool):
        raise HeadwaterError(f"pinned: expected True or False, got {kept['pinned']!r}.")
    if kept.get("visibility", "link") not in VISIBILITIES:
        raise HeadwaterError(f"visibility: expected {', '.join(VISIBILITIES)}, got {kept['visibility']!r}.")
    if "heads" in kept:
        kept["heads"] = _heads(content.heads, kept["heads"])
    return replace(content, **kept)


def _heads(old: dict[str, dict], changes: object) -> dict[str, dict]:
    """Labels by head; a head given as None or {} loses its label."""
    if not isinstance(changes, dict):
        raise HeadwaterError(f'heads: expected "layer.head" -> label, note, pinned; got {changes!r}.')
    merged = dict(old)
    for name, value in changes.items():
        if not isinstance(name, str) or HEAD.fullmatch(name) is None:
            raise HeadwaterError(f'heads: expected names like "12.3" (layer.head), got {name!r}.')
        if not value:
            merged.pop(name, None)
            continue
        wrong = {key for key, item in value.items() if not isinstance(item, HEAD_FIELDS.get(key, ()))}
        if wrong:
            raise HeadwaterError(f"heads: expected label and note as text and pinned as True or False, got {value!r}.")
        merged[name] = {key: _text(key, item) if isinstance(item, str) else item for key, item in value.items()}
    return merged


def _text(name: str, value: object) -> str:
    if not isinstance(value, str) or len(value) > LONGEST:
        raise HeadwaterError(f"{name}: expected a text of at most {LONGEST:,} characters.")
    return storable(value)


MEDIA = ("image", "audio")  # fields of a prompt that hold facts about a file instead of text


def title_of(info: dict) -> str:
    """A title where none was given: the beginning of the prompt, on one line."""
    line = " ".join(prompt_text(info).split())
    short = line[: TITLE_LENGTH - 1].rstrip() + "…" if len(line) > TITLE_LENGTH else line
    return short or str(info.get("id", ""))


def prompt_text(info: dict) -> str:
    """The prompt as one text, for titles and search."""
    prompt = info.get("prompt")
    if not isinstance(prompt, dict):
        return str(prompt or "")
    if "token_ids" in prompt:
        return f"{len(prompt['token_ids'])} token ids"
    media = [prompt[key]["name"] for key in MEDIA if isinstance(prompt.get(key), dict) and "name" in prompt[key]]
    return " ".join([*media, *_texts({key: value for key, value in prompt.items() if key not in MEDIA})])


def _texts(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for key, item in value.items() if key != "role" for text in _texts(item)]
    return [text for item in value for text in _texts(item)] if isinstance(value, list | tuple) else []
