"""What is computed about attention sinks, from what an analysis keeps: no model is needed (methods.md, section 3).

One subject per file: importance (K-01), detection (K-02), token_types, budget (K-03), mechanics (K-04), value_weighted
(F-03), massive (B-09). The view without sinks (K-05) serves every page and is backend/sink_free.py.
"""
