"""Jamba: a few attention layers between state-space layers."""

from backend.families import Family

FAMILIES = (
    Family(
        "Jamba",
        ("jamba",),
        "most layers are state-space layers; attention without positions",
        mixers={"JambaMambaMixer": "state space (Mamba)"},
    ),
)
