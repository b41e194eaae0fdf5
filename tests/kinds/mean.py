"""`mean`."""

from __future__ import annotations

from dpcore.query.kinds.mean import PrivateMeanEstimator, PublicMeanEstimator
from kinds.tables import BANDS, CLAMPED, FOUND, LIST, NUMBERS, THERE, Oracle, X
from support.parts import exact_sums, noisy

EXAMPLES = {"mean": {"kind": "mean", **NUMBERS}, "found mean": {"kind": "mean", **FOUND}}
NEAR = {"epsilon": 1.8e6, "near": 2e-3, "of_no_rows": None}
ORACLES = {
    "means": Oracle({"kind": "mean", **X, **LIST}, f"SELECT region, avg({CLAMPED}) FROM t WHERE {THERE} GROUP BY 1", **NEAR),
    "means of what is derived": Oracle(
        {"kind": "mean", "column": "twice", "lower": 0, "upper": 30, "missing": "skip", "group_by": "band", "groups": BANDS},
        "SELECT band, avg(greatest(0, least(30, twice))) FROM t WHERE twice IS NOT NULL GROUP BY 1",
        **NEAR,
    ),
}
RELEASED = {
    PublicMeanEstimator: lambda answer, total: [noisy(exact_sums(total), answer.mechanism.scale)],
    PrivateMeanEstimator: lambda answer, total: [
        noisy(exact_sums(total), answer.total.scale),
        noisy(total.counts.tolist(), answer.count.scale),
    ],
}
LAWS = {"mean": "test_release_law.py::test_a_mean_over_a_noisy_count"}
