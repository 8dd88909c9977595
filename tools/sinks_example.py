"""Prints the figures of docs/sinks.md: those of the bundled story at once, those of the model with --model.

python -m tools.sinks_example            no model is needed
python -m tools.sinks_example --model    SmolLM2-135M-Instruct, some minutes
"""

from __future__ import annotations

import sys

import numpy as np

from backend.models import load
from backend.settings import bundled_folder
from backend.sinks.budget import PARTS, budget
from backend.sinks.detection import detected, sink_heads, sink_tokens
from backend.sinks.importance import importance
from backend.sinks.massive import massive_activations, massive_dimensions
from backend.sinks.mechanics import mechanics
from backend.sinks.token_types import token_types
from backend.sinks.value_weighted import shares
from backend.store import Analysis, Library
from backend.studies import run_study, sink_percentage, sink_sets, sink_whatif, sink_window

STORY = "bundled-story"


def stored(analysis: Analysis) -> None:
    """What the file alone tells."""
    found, tokens = importance(analysis), analysis.tokens_list()
    sinks, heads = detected(found), sink_heads(found)
    print(f"{analysis.info['model']}, {len(tokens)} tokens: {heads.sum()} of {found.heads} sink heads")
    print(f"uniform importance of token 0: {found.uniform[0, 0]:.4f}")
    for one in sink_tokens(found, sinks)[:4]:
        place = "{}.{}".format(*one.largest_head)
        print(
            f"  token {one.key} {tokens[one.key].label!r}: {one.heads} heads, {one.mass:.1%} of all attention, most in "
            f"{place} ({one.largest:.3f})"
        )
    parts = budget(analysis, found, sinks, token_types(tokens)).shares.mean((0, 1))
    print("  budget: " + ", ".join(f"{name} {share:.1%}" for name, share in zip(PARTS, parts, strict=True)))
    both = shares(analysis, found, sinks)
    larger = (both.raw > both.weighted)[heads].sum()
    print(
        f"  raw share above value-weighted share in {larger} of {heads.sum()} sink heads (means "
        f"{both.raw[heads].mean():.1%}, {both.weighted[heads].mean():.1%})"
    )
    why, where = mechanics(analysis, found, 0), sinks[:, :, 0]
    for name in ("key_norm", "value_norm", "cosine", "other_cosine", "gap"):
        print(f"  {name}, median over its {where.sum()} heads: {np.nanmedian(getattr(why, name)[where]):.2f}")
    massive = massive_activations(analysis, found)
    for position in sorted({one.position for one in massive}):
        layers = [one.layer for one in massive if one.position == position]
        print(f"  massive activation at token {position} in {len(layers)} layers, {min(layers)} to {max(layers)}")
    dimensions = massive_dimensions(analysis, found)
    slow = np.mean([one.band >= one.bands // 2 for one in dimensions])
    print(f"  massive dimensions: {len(dimensions)}, {slow:.0%} in the slower half of the rotary bands")


def measured(analysis: Analysis) -> None:
    """What it takes the model to find."""
    model = load(analysis.info["model"])
    for row in run_study(sink_percentage.STUDY, model).table("summary").to_pylist():
        print(f"  sink percentage, {row['set']}: {row['percent']:.1f} % ({row['low']:.1f} to {row['high']:.1f})")
    ids = tuple(token.token_id for token in analysis.tokens_list())
    for row in run_study(sink_whatif.STUDY, model, sink_whatif.Parameters(token_ids=ids)).table("effects").to_pylist():
        numbers = {name: row[name] for name in ("kl", "loss_before", "loss_after", "sink_after", "first_after")}
        print(f"  {row['edit']}: " + ", ".join(f"{name} {value:.3f}" for name, value in numbers.items() if value))
    for row in run_study(sink_window.STUDY, model).table("variants").to_pylist():
        kept = "" if row["retained"] is None else f", retained {row['retained']:.0%}"
        print(f"  {row['variant']}, {row['budget']} keys: perplexity {row['perplexity']:.1f}{kept}")
    for row in run_study(sink_sets.STUDY, model).table("lengths").to_pylist():
        print(f"  {row['length'] or 'whole'} tokens: {row['percent']:.1f} ± {row['spread']:.1f} %")


def main() -> None:
    """Prints everything that was asked for."""
    analysis = Library(bundled_folder()).open(STORY)
    stored(analysis)
    if "--model" in sys.argv[1:]:
        measured(analysis)


if __name__ == "__main__":
    main()
