"""Published sink percentages of known models: what others measured, shown beside a study and never as its result."""

from __future__ import annotations

from dataclasses import dataclass

SOURCE = "When Attention Sink Emerges in Language Models (arXiv 2410.10781), as quoted in a digest of the paper"


@dataclass(frozen=True)
class Published:
    """One value: 64 tokens, epsilon 0.3, first token."""

    model: str
    texts: str  # "natural", "random"
    percent: float
    source: str = SOURCE


PUBLISHED = (
    Published("Mistral-7B", "natural", 97.49),
    Published("Mistral-7B chat", "natural", 88.34),
    Published("Llama2-7B", "natural", 92.47),
    Published("Llama2-7B chat", "natural", 92.88),
    Published("Llama2-13B", "natural", 91.69),
    Published("Llama2-13B chat", "natural", 90.94),
    Published("Llama3-8B", "natural", 99.02),
    Published("Llama3-8B chat", "natural", 98.85),
    Published("GPT2-XL", "random", 70.29),
    Published("Llama3-8B", "random", 91.23),
)
LENGTH, EPSILON = 64, 0.3  # of the protocol; 100 samples
