"""What people wrote on single heads of an analysis: a label, a note, a pin. It is in the sidecar, not in the file."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

Place = tuple[str, int, int]  # kind, layer, head


@dataclass(frozen=True)
class HeadMark:
    """On one head; empty where nothing was written."""

    label: str = ""
    note: str = ""
    pinned: bool = False

    def with_changes(self, label: str | None, note: str | None, pinned: bool | None) -> HeadMark:
        """None leaves a field as it is."""
        given = {"label": label, "note": note, "pinned": pinned}
        return replace(self, **{name: value for name, value in given.items() if value is not None})

    def stored(self) -> dict[str, object]:
        """What `Library.update(heads=...)` takes: only what is set, nothing where nothing is."""
        return {name: value for name, value in asdict(self).items() if value}


def name_of(kind: str, layer: int, head: int) -> str:
    """The name of a head in the sidecar: "12.3", and "cross:12.3" for the other kinds of an encoder-decoder."""
    return f"{layer}.{head}" if kind == "self" else f"{kind}:{layer}.{head}"


def place_of(name: str) -> Place:
    """The other way round, for a name that the sidecar let in."""
    kind, _, numbers = name.rpartition(":")
    layer, head = numbers.split(".")
    return kind or "self", int(layer), int(head)


def marks(heads: dict[str, dict]) -> dict[Place, HeadMark]:
    """The marks of a sidecar by place; what does not fit is left out."""
    found = {}
    for name, values in heads.items():
        try:
            mark = HeadMark(**values)
            place = place_of(name)
        except (TypeError, ValueError):
            continue
        if isinstance(mark.label, str) and isinstance(mark.note, str) and isinstance(mark.pinned, bool):
            found[place] = mark
    return found
