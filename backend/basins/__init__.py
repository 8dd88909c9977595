"""Positional basins: where a model looks and what it overlooks (methods.md B-01 to B-09, R-01, R-02, R-04, R-09).

Pure arithmetic on weights that others captured or stored; the studies that make many runs are in backend/studies.
"""
