"""Example queries: the numbers of each page, asked directly."""

from __future__ import annotations

from dataclasses import dataclass

from pages.shared.view_state import ViewState


@dataclass(frozen=True)
class Example:
    """One query; {kind}, {layer}, {head} and {query} stand for what is chosen."""

    page: str
    title: str
    text: str

    @property
    def label(self) -> str:
        return f"{self.page}: {self.title}"

    def filled(self, state: ViewState) -> str:
        """With the choices of the address, which are numbers and one of four words."""
        return self.text.format(
            kind=state.kind or "self", layer=state.layer or 0, head=state.head or 0, query=state.query or 0
        )


EXAMPLES = (
    Example(
        "Heads",
        "which heads look at the first token",
        "SELECT layer || '.' || head AS name, first_mass\nFROM heads\nWHERE kind = '{kind}'\n"
        "ORDER BY first_mass DESC NULLS LAST\nLIMIT 30",
    ),
    Example(
        "Heads",
        "entropy of the rows of the chosen head",
        "SELECT query, entropy, max_weight, max_key\nFROM rows\n"
        "WHERE kind = '{kind}' AND layer = {layer} AND head = {head}\nORDER BY query",
    ),
    Example(
        "Heads",
        "heads that look back by one token",
        "SELECT layer || '.' || head AS name, previous_token, entropy\nFROM heads\nWHERE previous_token > 0.3\n"
        "ORDER BY previous_token DESC",
    ),
    Example(
        "Sinks",
        "what each token receives, over all heads",
        "SELECT k.key, any_value(t.label) AS token, avg(k.received_mean) AS received\n"
        "FROM keys k JOIN tokens t ON t.position = k.key\nWHERE k.kind = '{kind}'\n"
        "GROUP BY k.key\nORDER BY k.key",
    ),
    Example(
        "Sinks",
        "sink heads: over 30 % on the first token, by layer",
        "SELECT layer, count(*) FILTER (first_key_importance > 0.3) AS sink_heads, count(*) AS heads\nFROM heads\n"
        "GROUP BY layer\nORDER BY layer",
    ),
    Example(
        "Basins",
        "what each part of the prompt receives per token",
        "SELECT s.segment || ' ' || s.name AS part, sum(k.received_sum) / count(DISTINCT k.key) AS mass_per_token\n"
        "FROM segments s JOIN tokens t ON t.segment = s.segment JOIN keys k ON k.key = t.position\n"
        "WHERE k.kind = '{kind}' AND k.layer = {layer}\nGROUP BY s.segment, s.name\nORDER BY s.segment",
    ),
    Example(
        "Basins",
        "weight by distance of the chosen head",
        "SELECT distance, mean_weight\nFROM distances\n"
        "WHERE kind = '{kind}' AND layer = {layer} AND head = {head}\nORDER BY distance",
    ),
    Example(
        "Sparsity",
        "keys that hold 90 % of a row, by layer",
        "SELECT layer, avg(keys) AS keys_for_90\nFROM coverage\nWHERE percent = 90\nGROUP BY layer\nORDER BY layer",
    ),
    Example(
        "Sparsity",
        "heads with the most negligible weights",
        "SELECT layer || '.' || head AS name, negligible_share\nFROM heads\n"
        "ORDER BY negligible_share DESC NULLS LAST\nLIMIT 30",
    ),
    Example(
        "Lessons",
        "the tokens and how surprising each was",
        "SELECT position, label, -logprob AS surprise\nFROM tokens\nORDER BY position",
    ),
    Example("Facts", "what is known about the run", "SELECT name, value\nFROM info\nORDER BY name"),
)


def study_examples(tables: list[str]) -> tuple[Example, ...]:
    """For a study: each of its tables."""
    names = [name for name in tables if name != "info"]
    own = [Example("Study", f"the table {name}", f'SELECT *\nFROM "{name}"\nLIMIT 200') for name in names]
    return (*own, EXAMPLES[-1])
