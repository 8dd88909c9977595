"""ModernBERT: two of three layers see a window to both sides."""

from backend.families import Family

FAMILIES = (Family("ModernBERT", ("modernbert",), "rotary positions; windows to both sides in two of three layers"),)
