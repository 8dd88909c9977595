"""Encoders with learned positions: every token sees every token."""

from backend.families import Family

FAMILIES = (
    Family("BERT", ("bert",), "sees both sides"),
    Family("RoBERTa", ("roberta",), "positions counted from behind the padding id"),
    Family("XLM-R", ("xlm-roberta",), "as RoBERTa"),
    Family("DistilBERT", ("distilbert",), "sees both sides"),
    Family("ELECTRA", ("electra",), "sees both sides"),
)
