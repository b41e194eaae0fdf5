"""`count_distinct`."""

from __future__ import annotations

import numpy as np

from dpcore.query.kinds.count_distinct import UnitsEstimator, ValuesEstimator
from kinds.tables import BANDS, LIST, Oracle
from support.parts import noisy

EXAMPLES = {
    "units": {"kind": "count_distinct"},
    "values": {"kind": "count_distinct", "column": "code", "max_values_per_unit": 2},
    "numbers": {"kind": "count_distinct", "column": "v", "max_values_per_unit": 2},
    "declared values": {"kind": "count_distinct", "column": "c", "k": 5, "max_values_per_unit": 2},
}
SHARPER = {
    "values": {"column": "c", "max_values_per_unit": 1},
    "numbers": {"max_values_per_unit": 1},
    "declared values": {"k": 3, "max_values_per_unit": 1},
}
ORACLES = {
    "values": Oracle({"kind": "count_distinct", "column": "region", "max_values_per_unit": 1000}, "SELECT count(DISTINCT region) FROM t"),
    "values of bands": Oracle(
        {"kind": "count_distinct", "column": "region", "max_values_per_unit": 1000, "group_by": "band", "groups": BANDS},
        "SELECT band, count(DISTINCT region) FROM t GROUP BY 1",
    ),
    "units": Oracle({"kind": "count_distinct"}, "SELECT count(DISTINCT person) + count(*) FILTER (person IS NULL) FROM t", of_units=True),
    "units of a list": Oracle(
        {"kind": "count_distinct", **LIST},
        "SELECT region, count(DISTINCT person) + count(*) FILTER (person IS NULL) FROM t GROUP BY 1",
        of_units=True,
    ),
}
RELEASED = dict.fromkeys((UnitsEstimator, ValuesEstimator), lambda answer, total: [noisy(np.ravel(total).tolist(), answer.mechanism.scale)])
LAWS = {"count_distinct": "test_release_groups_law.py::test_people"}
