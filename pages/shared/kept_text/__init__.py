"""The prompt as text: kept tokens solid, dropped ones faded and struck through, those behind the context underlined."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import streamlit as st

HERE = Path(__file__).parent
MOST = 3000  # tokens shown; of a longer text the last ones

_text = st.components.v2.component(
    "headwater_kept_text",
    css=(HERE / "kept_text.css").read_text("utf-8"),
    js=(HERE / "kept_text.js").read_text("utf-8"),
)


def kept_text(labels: Sequence[str], kept: Sequence[float], *, key: str) -> int:
    """labels: of all tokens; kept: of the first ones, the share of heads that keeps each. Returns how many it left out.

    Tokens without a share are behind the context.
    """
    first = max(0, len(labels) - MOST)
    tokens = [
        {"at": at, "label": labels[at], "kept": round(float(kept[at]), 4) if at < len(kept) else None}
        for at in range(first, len(labels))
    ]
    _text(key=key, data={"tokens": tokens}, height="content")
    return first
