"""How axes write their numbers."""

from __future__ import annotations

# Without a number of digits, the axis takes as many as its steps need and writes 100 and 120 as 1e+2 and 1.2e+2.
PLAIN = ".6~g"
