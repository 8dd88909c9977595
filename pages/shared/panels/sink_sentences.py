"""Sentences of the page of sinks, made from its numbers; what is not defined is said with its reason."""

from __future__ import annotations

import numpy as np

from backend.sinks.detection import sink_tokens
from backend.sinks.token_types import begin_positions
from kernels.score import ScoreSpec
from pages.shared.panels.head_sentences import three_digits
from pages.shared.panels.sink_data import SinkData, begin_token

NAMED = 3  # sinks that a sentence names


def head_count_sentence(data: SinkData) -> str:
    """How many heads are sink heads, with limit, length and the baseline."""
    found, limit = data.found, data.limits.epsilon
    uniform = np.nanmean(found.uniform[:, 0]) if np.isfinite(found.uniform[:, 0]).any() else np.nan
    verb = "gives" if data.n_sink_heads == 1 else "give"
    text = (
        f"{data.n_sink_heads} of {found.heads} heads {verb} token 0 “{data.tokens[0].label}” more than ε = {limit:g} "
        f"of their attention, over {found.queries:,} rows; uniform attention would give it {three_digits(uniform)}."
    )
    if uniform > limit:
        text += " The prompt is so short that uniform attention is above ε too: these heads say nothing yet."
    return text


def tokens_sentence(data: SinkData) -> str:
    """Which tokens are sinks."""
    limits = data.limits
    eligible = int((data.found.rows >= limits.least).any((0, 1)).sum())
    if not eligible:
        return (
            f"Sink tokens are not defined because no token is seen by {limits.least} rows: the prompt has "
            f"{len(data.tokens)} tokens. Lower the number of rows on the left, or take a longer prompt."
        )
    tokens = sink_tokens(data.found, data.sinks)
    if not tokens:
        return (
            f"No token has an importance above {limits.limit_words} in any head (seen by {limits.least} rows or more)."
        )
    named = [
        f"{one.key} “{data.tokens[one.key].label}” ({one.heads} {'head' if one.heads == 1 else 'heads'}, "
        f"{one.mass:.1%} of all attention)"
        for one in tokens[:NAMED]
    ]
    rest = f" and {len(tokens) - NAMED} more" if len(tokens) > NAMED else ""
    are = "One token is a sink" if len(tokens) == 1 else f"{len(tokens)} tokens are sinks"
    return f"{are} of some head (importance above {limits.limit_words}): {', '.join(named)}{rest}."


def begin_sentence(data: SinkData) -> str:
    """What the first token is: begin of text, several of them, or content."""
    places = begin_positions(data.tokens, begin_token(data.analysis))
    if not places:
        return f"This text has no begin-of-text token: the first token, “{data.tokens[0].label}”, is content."
    if len(places) > 1:
        where = ", ".join(map(str, places[:8]))
        return f"The tokens {where}{' …' if len(places) > 8 else ''} count as begin of text; their shares are apart."
    return f"Token {places[0]} “{data.tokens[places[0]].label}” is the begin of text."


def sight_sentence(data: SinkData) -> str:
    """Where layers see only part of the prompt, by the rule of each."""
    rules = [data.analysis.score(layer, data.kind) for layer in data.found.layers]
    short = sorted({size for rule in rules if (size := reach(rule)) is not None and size < len(data.tokens)})
    if short:
        return (
            f"Some layers see only {', '.join(map(str, short))} keys: a key out of sight is no weak sink, its "
            "importance is that over the rows that see it."
        )
    hidden = any(rule.causal or rule.mask is not None for rule in rules)
    return "" if hidden else "Here every row sees every key, so that no key is early: each is judged by all rows."


def reach(rule: ScoreSpec) -> int | None:
    """The most keys that a row of this rule sees; None where only the prompt ends its sight."""
    sizes = [size for size in (rule.window, rule.chunk, rule.around and sum(rule.around) + 1) if size is not None]
    return min(sizes) if sizes else None


def learned_sentence(data: SinkData) -> str:
    """What learned sinks take."""
    if not data.has_learned:
        return ""
    mean = float(np.nanmean(data.found.learned))
    return f"The model has learned sinks; they take {mean:.1%} of all attention and are shown as a column of their own."


def notes(data: SinkData) -> list[str]:
    """What must be known beside the pictures."""
    return [text for text in (begin_sentence(data), sight_sentence(data), learned_sentence(data)) if text]


def key_sentence(data: SinkData) -> str:
    """What the heat shows."""
    values = data.head_values
    if not np.isfinite(values).any():
        return f"No row sees {data.named_key}."
    layer, head = np.unravel_index(int(np.nanargmax(values)), values.shape)
    what = "The learned sink" if data.learned_chosen else f"T{data.named_key[1:]}"
    relative = data.limits.rule == "median" and not data.learned_chosen
    limit = data.limits.limit_words if relative else f"θ = {data.limits.theta:g}"
    above = int(data.sinks[:, :, data.key].sum() if relative else (np.nan_to_num(values) > data.limits.theta).sum())
    return (
        f"{what} gets more than {limit} in {above} of {data.found.heads} heads; most in head "
        f"{data.found.layers[layer]}.{head}: {three_digits(float(values[layer, head]))}."
    )
