"""Glossary: every statistic and every other term of the app: what it says, how it is computed, its unit and range."""

from __future__ import annotations

import streamlit as st

from backend import statistics, terms
from pages.shared.frame import plain_frame
from pages.shared.panels.terms import definition_of

plain_frame("glossary")
st.text(
    "What does each number mean? A statistic is one number per head. Cells that a query may not see are in no sum and "
    "in no count."
)
st.caption(
    "In formulas, row i is a query and column j a key. A_ij: the weight of query i on key j. p_i: the place of query i "
    "among the keys. n_i: how many keys it may see."
)
wanted = st.text_input("Search", key="headwater_glossary", live=True, placeholder="sink, entropy, distance") or ""
known = dict(sorted({**terms.all(), **statistics.all()}.items()))
for name, what in known.items():
    text = f"{name.replace('_', ' ')} {what.caption} {what.formula}".casefold()
    if all(word in text for word in wanted.casefold().split()):
        with st.container(border=True, key=f"headwater_term_{name}"):
            st.subheader(name.replace("_", " "), anchor=name)
            definition_of(what)
