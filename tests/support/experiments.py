"""Slow twins for experiments, from the definitions: enumeration of events and of decision rules, in fractions where it matters."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from dpcore.blackwell import Experiment
from support.kernels import Array


def random_rows(rng: np.random.Generator, n: int, m: int, concentration: float = 1.0) -> Array:
    """Row-stochastic; a small concentration makes most entries tiny."""
    weights = rng.gamma(concentration, size=(n, m)) + 1e-300
    return weights / weights.sum(axis=1, keepdims=True)


def rational_rows(rows: list[list[int]]) -> Array:
    """Rows of integer weights, which must not all be 0, as probabilities."""
    weights = np.array(rows, np.float64)
    return weights / weights.sum(axis=1, keepdims=True)


def geometric_rows(epsilon: float, n: int) -> Array:
    """P_i(y) ∝ e^(−ε|i − y|): near states have near rows."""
    distances = np.abs(np.subtract.outer(np.arange(n), np.arange(n)))
    weights = np.exp(-epsilon * distances)
    return weights / weights.sum(axis=1, keepdims=True)


def slow_delta(matrix: Array, epsilon: float, pairs: Any = None) -> float:
    """Max over ordered pairs of Σ (P_i − e^ε P_j)_+, summed without rounding errors but those of the terms."""
    listed = itertools.permutations(range(len(matrix)), 2) if pairs is None else [p for a, b in pairs for p in ((a, b), (b, a))]
    terms = (math.fsum(max(p - math.exp(epsilon) * q, 0.0) for p, q in zip(matrix[i], matrix[j], strict=True)) for i, j in listed)
    return max(terms, default=0.0)


def events(m: int) -> Iterator[tuple[int, ...]]:
    """All sets of outcomes."""
    return itertools.chain.from_iterable(itertools.combinations(range(m), k) for k in range(m + 1))


def error_points(matrix: Array, i: int, j: int) -> Array:
    """(P_MD, P_FA) of every set S on which state i is rejected in favour of j."""
    points = []
    for event in events(matrix.shape[1]):
        inside = np.zeros(matrix.shape[1], bool)
        inside[list(event)] = True
        points.append((matrix[j, ~inside].sum(), matrix[i, inside].sum()))
    return np.array(points)


def rule_risks(matrix: Array, actions: Array) -> Array:
    """Risk vectors of every deterministic rule from outcomes to actions."""
    rules = itertools.product(range(len(actions)), repeat=matrix.shape[1])
    return np.array([sum(matrix[:, y] * actions[a] for y, a in enumerate(rule)) for rule in rules])


def fractions(matrix: Array) -> list[list[Fraction]]:
    """Rows as they are stored, scaled to sums of exactly 1."""
    rows = [[Fraction(float(x)) for x in row] for row in matrix]
    return [[x / sum(row) for x in row] for row in rows]


def exact_bayes_risk(experiment: Experiment, loss: Array, prior: Array) -> Fraction:
    """Σ_y min over decisions of Σ_i prior_i P_i(y) loss_i, in fractions."""
    rows, n = fractions(experiment.matrix), len(experiment.matrix)
    weights = [[Fraction(float(prior[i])) * Fraction(float(x)) for x in loss[i]] for i in range(n)]
    total = Fraction(0)
    for y in range(len(rows[0])):
        total += min(sum((weights[i][k] * rows[i][y] for i in range(n)), Fraction(0)) for k in range(loss.shape[1]))
    return total


def check_answer(P: Experiment, Q: Experiment, answer: Any) -> None:
    """A yes comes with a channel, a no with a decision problem, and each proves what it says."""
    if answer.holds:
        assert answer.problem is None
        assert (answer.T >= 0).all()
        assert np.abs(answer.T.sum(axis=1) - 1).max() <= 1e-12
        assert np.abs(P.matrix @ answer.T - Q.matrix).max() <= 1e-9
        assert answer.deficiency <= 1e-9 * Q.matrix.shape[1]
        return
    problem = answer.problem
    assert answer.T is None
    assert problem.loss.shape == Q.matrix.shape
    assert ((problem.loss >= 0) & (problem.loss <= 1)).all()
    assert abs(problem.prior.sum() - 1) <= 1e-12
    risk_p, risk_q = (exact_bayes_risk(each, problem.loss, problem.prior) for each in (P, Q))
    assert risk_p > risk_q
    assert abs(float(risk_p) - problem.risk_P) <= 1e-15
    assert abs(float(risk_q) - problem.risk_Q) <= 1e-15
    # the problem that separates best, among those with losses in [0, 1]: by duality the deficiency
    assert abs(problem.risk_P - problem.risk_Q - answer.deficiency) <= 1e-8
