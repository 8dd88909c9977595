"""Version 1: one table per kind of fact, and one or more tables of arrays."""

TABLES = {
    "info": {"name": "VARCHAR", "value": "VARCHAR"},  # value is JSON
    "tokens": {
        "side": "VARCHAR",
        "position": "INTEGER",
        "token_id": "INTEGER",
        "text": "VARCHAR",
        "label": "VARCHAR",
        "raw": "VARCHAR",
        "bytes": "BLOB",
        "start": "INTEGER",
        "stop": "INTEGER",
        "is_special": "BOOLEAN",
        "segment": "INTEGER",
        "word": "INTEGER",
        "logprob": "DOUBLE",
    },
    "segments": {"segment": "INTEGER", "name": "VARCHAR", "kind": "VARCHAR", "start": "INTEGER", "stop": "INTEGER"},
    "layers": {
        "kind": "VARCHAR",
        "layer": "INTEGER",
        "module": "VARCHAR",
        "attention": "VARCHAR",
        "heads": "INTEGER",
        "key_heads": "INTEGER",
        "head_dim": "INTEGER",
        "value_dim": "INTEGER",
        "window_size": "INTEGER",
        "queries": "INTEGER",
        "keys": "INTEGER",
        "score": "VARCHAR",  # JSON: the scalars of the rule; its tensors are blobs
        "maps": "VARCHAR",  # name of the table that holds this layer's arrays
    },
    "rows": {
        "kind": "VARCHAR",
        "layer": "INTEGER",
        "head": "INTEGER",
        "query": "INTEGER",
        "visible_keys": "INTEGER",
        "lse": "FLOAT",
        "entropy": "FLOAT",
        "max_weight": "FLOAT",
        "max_key": "INTEGER",
        "sum_square": "FLOAT",
        "mean_distance": "FLOAT",
        "first_mass": "FLOAT",
        "self_mass": "FLOAT",
        "previous_mass": "FLOAT",
        "duplicate_mass": "FLOAT",
        "induction_mass": "FLOAT",
        "learned_sink_mass": "FLOAT",
        "negligible": "INTEGER",
    },
    "keys": {
        "kind": "VARCHAR",
        "layer": "INTEGER",
        "head": "INTEGER",
        "key": "INTEGER",
        "visible_rows": "INTEGER",
        "received_sum": "FLOAT",
        "received_mean": "FLOAT GENERATED ALWAYS AS (received_sum / nullif(visible_rows, 0)) VIRTUAL",
        "received_max": "FLOAT",
        "key_norm": "FLOAT",
        "value_norm": "FLOAT",
        "output_norm": "FLOAT",
    },
    "heads": {"kind": "VARCHAR", "layer": "INTEGER", "head": "INTEGER"},  # and a DOUBLE per statistic
    "distances": {
        "kind": "VARCHAR",
        "layer": "INTEGER",
        "head": "INTEGER",
        "distance": "INTEGER",
        "rows": "INTEGER",
        "mass_sum": "FLOAT",
        "mean_weight": "FLOAT GENERATED ALWAYS AS (mass_sum / nullif(rows, 0)) VIRTUAL",
    },
    "coverage": {
        "kind": "VARCHAR",
        "layer": "INTEGER",
        "head": "INTEGER",
        "query": "INTEGER",
        "percent": "UTINYINT",
        "share": "DOUBLE GENERATED ALWAYS AS (percent / 100) VIRTUAL",
        "keys": "INTEGER",
    },
    "links": {
        "kind": "VARCHAR",
        "layer": "INTEGER",
        "head": "INTEGER",
        "query": "INTEGER",
        "key": "INTEGER",
        "weight": "FLOAT",
    },
    "hidden": {"kind": "VARCHAR", "layer": "INTEGER", "position": "INTEGER", "norm": "FLOAT", "max_abs": "FLOAT"},
    "predictions": {
        "position": "INTEGER",
        "rank": "INTEGER",
        "token_id": "INTEGER",
        "text": "VARCHAR",
        "logprob": "DOUBLE",
    },
}

# The arrays: maps_0, and further tables where one would grow too large; all arrays of a layer are in one table.
MAPS = {
    "kind": "VARCHAR",
    "layer": "INTEGER",
    "part": "VARCHAR",  # query, key, lse, dense, pooled_mean, pooled_max, score.<tensor of the rule>
    "head": "INTEGER",  # query head; key head for "key"; NULL for the rule's tensors
    "codec": "VARCHAR",
    "shape": "INTEGER[]",
    "weight_error": "FLOAT",  # largest error of a weight on sampled rows, beside "query" and "dense"
    "checksum": "VARCHAR",  # SHA-256 of data, hexadecimal
    "data": "BLOB USING COMPRESSION 'uncompressed'",
}
