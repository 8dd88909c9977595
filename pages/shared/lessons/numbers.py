"""How the numbers of a lesson are written, and what their queries give."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

from backend.errors import HeadwaterError
from backend.store import Analysis
from pages.shared.lessons import masses
from pages.shared.lessons.lesson import Number, Step

LEAST_PERCENT = 0.001


def three_digits(value: float) -> str:
    """Three significant digits, no exponent from 0.0001 on."""
    if value == 0:
        return "0"
    places = max(0, 2 - math.floor(math.log10(abs(float(f"{value:.2e}")))))
    return f"{value:.2e}" if places > 6 else f"{value:.{places}f}"


def percent(value: float) -> str:
    """A share: whole from 10 % on, else two digits."""
    share = 100 * value
    if 0 < share < LEAST_PERCENT:
        return f"under {LEAST_PERCENT:g} %"
    if share >= 9.95 or share == 0:
        return f"{share:.0f} %"
    return f"{three_digits(float(f'{share:.1e}')).rstrip('0').rstrip('.')} %"


FORMS = {
    "percent": percent,
    "weight": three_digits,
    "nats": lambda value: f"{three_digits(value)} nats",
    "count": lambda value: f"{int(value):,}",
    "times": lambda value: f"{three_digits(value)} times" if value < 10 else f"{value:.0f} times",
    "tokens": lambda value: f"{three_digits(value)} tokens",
    "kilobytes": lambda value: f"{value / 1000:,.0f} kB",
    "text": str,  # such as the name of a head
}


def value_of(analysis: Analysis, sql: str) -> Any:
    """The one value of a SELECT."""
    rows = analysis.sql(sql).to_pylist()
    if len(rows) != 1 or len(rows[0]) != 1:
        raise HeadwaterError(f"Expected one row with one value, got {len(rows)} rows. The query: {sql}")
    return next(iter(rows[0].values()))


def number_value(analysis: Analysis, number: Number) -> Any:
    """What a number's query gives."""
    value = value_of(analysis, number.sql) if number.sql else masses.share(analysis, **number.mass)
    if value is None:
        raise HeadwaterError(f"The query gives no value: {number.query}")
    return value


def holds(analysis: Analysis, step: Step) -> bool:
    """Whether the answer of a step is true.

    Its check is a SELECT that gives one true, or says how numbers of the step compare: {falling: [names], also:
    [names]} = each larger than the next; {below: {name: limit}}."""
    if isinstance(step.check, str):
        return value_of(analysis, step.check) is True
    known = {name: number_value(analysis, number) for name, number in step.numbers.items()}
    lines = [[known[name] for name in step.check.get(order, ())] for order in ("falling", "also")]
    falling = all(above > below for line in lines for above, below in pairwise(line))
    return falling and all(known[name] < limit for name, limit in step.check.get("below", {}).items())


def written(analysis: Analysis, number: Number) -> str:
    """What the sentence must say."""
    return FORMS[number.form](number_value(analysis, number))
