"""`rate`."""

from __future__ import annotations

from typing import Any

from dpcore.query.kinds.rate import PublicRateEstimator, RateEstimator
from kinds.tables import LIST, THERE, TWO, WHERE, Oracle
from support.parts import FREE, Part, noisy

EXAMPLES = {"rate": {"kind": "rate", "column": "v", "lower": 1, "upper": 10}}
MAY_SKIP = {"rate": True}
ORACLES = {
    "rates": Oracle(
        {"kind": "rate", "column": "code", "categories": [1, 2, 3], **TWO},
        "SELECT region, code, avg((coalesce(code, 0) IN (1, 2, 3))::int) FROM t GROUP BY 1, 2",
        near=1e-15,
        of_no_rows=None,
    ),
    "rates that pass": Oracle(
        {"kind": "rate", "column": "x", "lower": 0, "upper": 7.25, "missing": "skip", "where": WHERE, **LIST},
        f"SELECT region, avg((x BETWEEN 0 AND 7.25)::int) FROM t WHERE {THERE} AND ({WHERE}) GROUP BY 1",
        near=1e-15,
        of_no_rows=None,
    ),
}
LAWS = {"rate": "test_release_kinds_law.py::test_a_rate_is_made_of_two_counts_with_noise_of_one_scale"}


def of_private_rows(answer: RateEstimator, total: Any) -> list[Part]:
    """Matching rows and others."""
    return [noisy(total[:-1, :-1].ravel().tolist(), answer.mechanism.scale)]


def of_public_rows(answer: PublicRateEstimator, total: Any) -> list[Part]:
    """Matching rows, and the number of all."""
    cells = total[:-1, :-1]
    return [noisy(cells[:, 0].tolist(), answer.mechanism.scale), noisy(cells.sum(axis=1).tolist(), FREE)]


RELEASED = {PublicRateEstimator: of_public_rows, RateEstimator: of_private_rows}
