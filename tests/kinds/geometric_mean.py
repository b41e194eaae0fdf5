"""`geometric_mean`."""

from __future__ import annotations

from dpcore.query.kinds.geometric_mean import GeometricMeanEstimator
from kinds.mean import RELEASED as OF_MEANS
from kinds.tables import LIST, THERE, Oracle

EXAMPLES = {"geometric mean": {"kind": "geometric_mean", "column": "v", "lower": 0.5, "upper": 3.0, "missing": 2.0}}
ORACLES = {
    "geometric means": Oracle(
        {"kind": "geometric_mean", "column": "x", "lower": 0.1, "upper": 8.0, "missing": "skip", **LIST},
        f"SELECT region, exp(avg(ln(greatest(0.1, least(8.0, x))))) FROM t WHERE {THERE} GROUP BY 1",
        epsilon=1.8e6,
        near=2e-3,
        of_no_rows=None,
    )
}
RELEASED = {GeometricMeanEstimator: lambda answer, total: OF_MEANS[type(answer.logs)](answer.logs, total)}
LAWS = {"geometric_mean": "test_release_kinds_law.py::test_a_geometric_mean_has_the_noise_of_a_mean_of_logarithms"}
