"""`count`."""

from __future__ import annotations

from dpcore.query.kinds.count import CountEstimator, PublicCountEstimator
from kinds.tables import BANDS, BIN, EDGES, LIST, MONTHS, THERE, TWO, WHERE, Oracle
from support.parts import FREE, noisy

EXAMPLES = {
    "rows": {"kind": "count"},
    "rows between": {"kind": "count", "column": "v", "lower": 1, "upper": 10},
    "rows with a value": {"kind": "count", "column": "v", "missing": "skip"},
    "rows of categories": {"kind": "count", "column": "c", "categories": [1, 2]},
}
ORACLES = {
    "rows": Oracle({"kind": "count"}, "SELECT count(*) FROM t"),
    "rows of a list": Oracle({"kind": "count", **LIST}, "SELECT region, count(*) FROM t GROUP BY 1"),
    "rows of two columns": Oracle({"kind": "count", **TWO}, "SELECT region, code, count(*) FROM t GROUP BY 1, 2"),
    "rows of bins": Oracle(
        {"kind": "count", "group_by": ["x"], "groups": {"x": {"edges": EDGES}}},
        f"SELECT {BIN}, count(*) FROM t WHERE {THERE} GROUP BY 1",
    ),
    "rows of months": Oracle(
        {"kind": "count", "group_by": ["day", "band"], "groups": {"day": MONTHS, "band": BANDS}},
        "SELECT left(day::varchar, 7), band, count(*) FROM t GROUP BY 1, 2",
    ),
    "rows with a number": Oracle({"kind": "count", "column": "x", "missing": "skip", **LIST}, "SELECT region, count(x) FROM t GROUP BY 1"),
    "rows between": Oracle(
        {"kind": "count", "column": "x", "lower": 0, "upper": 7.25}, "SELECT count(*) FROM t WHERE x BETWEEN 0 AND 7.25"
    ),
    "rows that pass": Oracle({"kind": "count", "where": WHERE, **TWO}, f"SELECT region, code, count(*) FROM t WHERE {WHERE} GROUP BY 1, 2"),
}
RELEASED = {
    PublicCountEstimator: lambda _, total: [noisy([int(total[0])], FREE)],
    CountEstimator: lambda answer, total: [noisy(total[:-1].tolist(), answer.mechanism.scale)],
}
LAWS = {"count": "test_release_law.py::test_counts_and_histograms"}
