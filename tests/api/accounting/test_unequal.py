"""Optimal composition of unequal guarantees against enumeration, and against bounds that do not share its idea."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpcore import Privacy, accounting
from dpcore.accounting import _unequal
from dpcore.errors import ParameterError
from support.composed import enumerated


@pytest.mark.some(5)
@pytest.mark.parametrize("delta", [1e-5, 1e-2, 0.4])
@pytest.mark.parametrize("tolerance", [0.1, 1e-3])
@pytest.mark.parametrize("epsilons", [(0.3,), (0.1, 0.25, 0.7, 0.7), (1.5, 0.01, 0.2, 0.33, 0.9, 0.41, 0.17, 0.05)])
def test_unequal_parts_are_within_the_tolerance_of_the_optimum(epsilons, tolerance, delta):
    found = accounting.optimal_heterogeneous([Privacy(e) for e in epsilons], delta_total=delta, tolerance=tolerance)
    assert enumerated(epsilons, found) <= delta
    if found > tolerance:
        assert enumerated(epsilons, found - tolerance * 1.001) > delta


def test_unequal_parts_that_are_equal():
    parts = [Privacy(0.1, 1e-9)] * 100
    exact = accounting.optimal(0.1, 1e-9, uses=100, delta_total=1e-6)
    assert exact <= accounting.optimal_heterogeneous(parts, delta_total=1e-6, tolerance=1e-3) <= exact + 1e-3
    assert accounting.optimal_heterogeneous(parts, delta_total=0.0, tolerance=1e-3) == math.inf
    assert accounting.optimal_heterogeneous([Privacy(0.5), Privacy(0.25)], delta_total=0.0, tolerance=1e-3) == 0.75
    assert accounting.optimal_heterogeneous([], delta_total=1e-6, tolerance=1e-3) == 0.0


def rounded(epsilons, grid, total, upward):
    """δ₀(ε') of responses whose ε are rounded to a grid, all up or all down: a bound from above, or from below."""
    law = np.ones(1)
    for step in [int(np.ceil(e / grid) if upward else np.floor(e / grid)) for e in epsilons]:
        likely = 1 / (1 + np.exp(-step * grid))
        law = np.pad(law, (step, 0)) * likely + np.pad(law, (0, step)) * (1 - likely)
    losses = (2.0 * np.arange(law.size) - (law.size - 1)) * grid
    return float(np.sum(law[losses > total] * -np.expm1(total - losses[losses > total])))


@pytest.mark.some(3)
@pytest.mark.parametrize("grid", [1.0, 0.25, 2.0**-5])
@pytest.mark.parametrize("epsilons", [(0.3,), (0.1, 0.25, 0.7, 0.7), (0.9, 0.9, 0.9, 0.9, 0.9), (1.5, 0.01, 0.2, 0.33, 0.9, 0.41)])
def test_mixtures_on_a_grid_are_above_the_true_curve_by_less_than_their_excess(epsilons, grid):
    composed = _unequal.Composition([_unequal.Mixture(e, grid) for e in epsilons], grid)
    for total in np.linspace(0.0, sum(epsilons), 41):
        exact, found = float(enumerated(epsilons, float(total))), composed.delta(float(total))
        assert exact <= found * (1 + composed.relative) + composed.absolute
        assert composed.shortfall(float(total), exact * (1 + 1e-9)) > 1  # else the true value would exceed itself for certain


def test_four_hundred_parts_have_an_answer():
    epsilons = [0.05 + i * 0.95 / 399 for i in range(400)]
    found = accounting.optimal_heterogeneous([Privacy(e) for e in epsilons], delta_total=1e-6, tolerance=0.25)
    assert rounded(epsilons, 2.0**-10, found, upward=False) <= 1e-6 < rounded(epsilons, 2.0**-10, found - 0.25, upward=True)


def test_what_has_no_answer_is_refused_before_the_work(monkeypatch):
    cells = []
    added_to = _unequal.Mixture.added_to

    def counted(self, law):
        cells.append(law.size)
        return added_to(self, law)

    monkeypatch.setattr(_unequal.Mixture, "added_to", counted)
    parts = [Privacy(0.05 + i * 0.95 / 399) for i in range(400)]
    with pytest.raises(ParameterError, match="tolerance must be larger for these 400 parts"):
        accounting.optimal_heterogeneous(parts, delta_total=1e-6, tolerance=1e-6)
    assert sum(cells) < _unequal.MOST_CELLS / 4
    with pytest.raises(ParameterError, match="tolerance must be larger"):
        accounting.optimal_heterogeneous([Privacy(1e12)], delta_total=1e-6, tolerance=1e-6)
    assert accounting.optimal_heterogeneous([Privacy(1e12)], delta_total=1e-6, tolerance=1e13) == 1e12
