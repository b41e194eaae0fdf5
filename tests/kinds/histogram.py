"""`histogram`."""

from __future__ import annotations

from dpcore.query.kinds.histogram import HistogramEstimator
from kinds.tables import Oracle
from support.parts import noisy

EXAMPLES = {
    "categories": {"kind": "histogram", "column": "c", "k": 5, "missing": 0, "unknown": 1},
    "bins": {"kind": "histogram", "column": "v", "edges": [-10, 0, 10], "missing": 0},
}
SHARPER = {"categories": {"k": 3}}
ORACLES = {
    "cells": Oracle(
        {"kind": "histogram", "column": "code", "k": 6, "missing": "skip", "unknown": "skip"},
        "SELECT code, count(*) FROM t GROUP BY 1",
    )
}
RELEASED = {HistogramEstimator: lambda answer, total: [noisy(total[:-1, :-1].ravel().tolist(), answer.mechanism.scale)]}
LAWS = {"histogram": "test_release_law.py::test_counts_and_histograms"}
