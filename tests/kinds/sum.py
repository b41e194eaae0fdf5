"""`sum`."""

from __future__ import annotations

from fractions import Fraction

from dpcore.query.kinds.sum import SumEstimator, UnitSumEstimator
from kinds.tables import CLAMPED, FOUND, LIST, NUMBERS, THERE, TWO, WHERE, Oracle, X
from support.parts import exact_sums, noisy

EXAMPLES = {
    "sum": {"kind": "sum", **NUMBERS},
    "sum of decimals": {"kind": "sum", "column": "paid", "lower": 0, "upper": 50, "missing": 0},
    "sum of a unit": {"kind": "sum", "column": "v", "missing": 2.0, "max_sum_per_unit": 3.0},
    "found sum": {"kind": "sum", **FOUND},
}
SHARPER = {"sum of decimals": {"column": "v", "upper": 3}}
NEAR = {"epsilon": 1e12, "near": 1e-5}
ORACLES = {
    "sum": Oracle({"kind": "sum", **X}, f"SELECT sum({CLAMPED}) FROM t WHERE {THERE}", **NEAR),
    "sums": Oracle({"kind": "sum", **X, **TWO}, f"SELECT region, code, sum({CLAMPED}) FROM t WHERE {THERE} GROUP BY 1, 2", **NEAR),
    "sums that pass": Oracle(
        {"kind": "sum", **X, "where": WHERE, **LIST},
        f"SELECT region, sum({CLAMPED}) FROM t WHERE {THERE} AND ({WHERE}) GROUP BY 1",
        **NEAR,
    ),
    "looked up": Oracle(
        {"kind": "sum", "column": "weight", "lower": -10, "upper": 10, "missing": "skip", "group_by": "sort", "groups": ["p", "q"]},
        "SELECT sort, sum(greatest(-10, least(10, weight))) FROM t WHERE weight IS NOT NULL GROUP BY 1",
        **NEAR,
    ),
    "sums of units": Oracle(
        {"kind": "sum", "column": "x", "lower": -4.0, "upper": 8.0, "missing": "skip", "max_sum_per_unit": 1e3, **LIST},
        f"SELECT region, sum({CLAMPED}) FROM t WHERE {THERE} GROUP BY 1",
        of_units=True,
        **NEAR,
    ),
}
RELEASED = {
    SumEstimator: lambda answer, total: [noisy(exact_sums(total), answer.mechanism.scale)],
    UnitSumEstimator: lambda answer, total: [noisy([each * Fraction(answer.step) for each in total], answer.mechanism.scale)],
}
LAWS = {"sum": "test_release_law.py::test_sums_and_means"}
