"""How long a model takes until it can be run: as it took before in this process, else by the size of its files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from backend.duration import duration
from backend.models import bundled
from backend.settings import converted_folder

FIXED_SECONDS = 0.4  # tokenizer, self-check
BYTES_PER_SECOND = 350e6  # of safetensors, on a laptop's disk
GGUF_BYTES_PER_SECOND = 7e6  # of a GGUF file that is converted first, once

_measured: dict[str, float] = {}  # name -> seconds of the last load that read files


@dataclass(frozen=True)
class LoadTime:
    """What loading will take, and how that is known."""

    seconds: float
    measured: bool

    @property
    def sentence(self) -> str:
        """Such as "about 2.1 s, as last time"."""
        return f"about {duration(self.seconds)}, {'as last time' if self.measured else 'by the size of its files'}"


def learn(name: str, seconds: float) -> None:
    """Keeps what a load took."""
    _measured[name] = seconds


def load_time(name: str) -> LoadTime | None:
    """What loading this model from its files will take; None where that is not known: it must be fetched first."""
    if name in _measured:
        return LoadTime(_measured[name], measured=True)
    known = bundled.find(name)
    if isinstance(known, bundled.Built):
        return LoadTime(FIXED_SECONDS, measured=False)
    try:
        place = Path(name).expanduser() if known is None else known.source()
        if place is None:
            return None
        if place.is_file() and known is not None:
            final = converted_folder() / f"{known.choice.name}-{known.revision()}"
            if not final.exists():
                return LoadTime(FIXED_SECONDS + place.stat().st_size / GGUF_BYTES_PER_SECOND, measured=False)
            place = final
        size = sum(path.stat().st_size for path in place.glob("*.safetensors"))
    except (OSError, RuntimeError, ValueError):  # too long, not readable, or the home of nobody
        return None
    return LoadTime(FIXED_SECONDS + size / BYTES_PER_SECOND, measured=False) if size else None
