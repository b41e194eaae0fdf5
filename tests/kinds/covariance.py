"""`covariance`, whose answers are those of moments."""

from __future__ import annotations

from kinds.tables import CLAMPED, THERE, Oracle

EXAMPLES = {
    "covariance": {"kind": "covariance", "columns": ["v", "w"], "lower": [-1, 0], "upper": [3, 3], "missing": [2, 0]},
}
ORACLES = {
    "covariance": Oracle(
        {"kind": "covariance", "ddof": 0, "columns": ["x", "code"], "lower": [-4, 0], "upper": [8, 9], "missing": "skip"},
        f"SELECT covar_pop({CLAMPED}, greatest(0, least(9, code))) FROM t WHERE {THERE} AND code IS NOT NULL",
        epsilon=3.6e6,
        near=2e-2,
        of_no_rows=None,
    )
}
LAWS = {"covariance": "test_moments_law.py::test_the_second_release_has_noise_for_its_centres"}
