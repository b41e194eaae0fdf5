"""Slow twins of densities by cosine series and of exponential mechanisms: direct sums, finite laws, and neighbours one by one."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from dpcore import _backend
from support.kernels import Array

GRID, LARGEST = _backend.COSINE_GRID, _backend.COSINE_LARGEST
Records = tuple[float, ...]


def series(coefficients: Array, x: Array) -> Array:
    """1 + Σ b_j √2 cos(πjx), term by term."""
    angles = np.pi * np.asarray(x)[..., None] * np.arange(1, len(coefficients) + 1)
    return 1 + math.sqrt(2) * np.cos(angles) @ np.asarray(coefficients)


def primitive(coefficients: Array, x: Array) -> Array:
    """The integral of the series from 0 to x: a sum of sines."""
    j = np.arange(1, len(coefficients) + 1)
    return np.asarray(x) + math.sqrt(2) * np.sin(np.pi * np.asarray(x)[..., None] * j) @ (np.asarray(coefficients) / (np.pi * j))


def colleague_roots(coefficients: Array) -> Array:
    """Roots of the series in [0, 1]: a polynomial in cos(πx), whose roots are the eigenvalues of its colleague matrix."""
    roots = np.polynomial.chebyshev.chebroots(np.append(1.0, math.sqrt(2) * np.asarray(coefficients)))
    real = roots.real[(np.abs(roots.imag) < 1e-9) & (np.abs(roots.real) <= 1)]
    return np.sort(np.arccos(real) / np.pi)


def slow_cdf(coefficients: Array, roots: Array, x: Array) -> Array:
    """The cut and renormalised distribution function, from given roots: sums of sines between them."""
    ends = np.concatenate([[0.0], roots, [1.0]])
    positive = series(coefficients, (ends[1:] + ends[:-1]) / 2) > 0
    total, upto = 0.0, np.zeros(np.shape(x))
    for left, right, counts in zip(ends[:-1], ends[1:], positive, strict=True):
        if counts:
            total += primitive(coefficients, np.array(right)) - primitive(coefficients, np.array(left))
            upto += primitive(coefficients, np.clip(x, left, right)) - primitive(coefficients, np.array(left))
    return upto / total


def cosines(points: Sequence[float], terms: int) -> Array:
    """Rounded cosines in units of the grid, as Python integers: shape (n, terms)."""
    return _backend.rounded_cosines(np.array(points, np.float64), terms).astype(object)


def data_sets(points: Sequence[float], n: int) -> list[Records]:
    """All data sets of n records among the points; their order does not matter."""
    return list(itertools.combinations_with_replacement(points, n))


def neighbours(sets: Iterable[Records]) -> list[tuple[int, int]]:
    """Numbers of the pairs of data sets that differ by the value of one record."""
    number = {records: i for i, records in enumerate(sets)}
    points = sorted({p for records in number for p in records})
    pairs = set()
    for records, i in number.items():
        for place, p in itertools.product(range(len(records)), points):
            other = tuple(sorted((*records[:place], *records[place + 1 :], p)))
            pairs.add((i, number[other]))
    return sorted(pairs)


def log_laws(exponents: Array, weights: Array | None = None) -> Array:
    """ln of the law ∝ weight·e^−E of candidates, one row for each data set."""
    base = np.zeros(exponents.shape[1]) if weights is None else np.log(weights)
    logs = base - exponents
    top = logs.max(axis=1, keepdims=True)
    return logs - top - np.log(np.exp(logs - top).sum(axis=1, keepdims=True))


def largest_loss(logs: Array, pairs: Sequence[tuple[int, int]]) -> float:
    """The largest ln P(z | x)/P(z | x') over pairs and candidates."""
    left, right = np.array(pairs).T
    return float((logs[left] - logs[right]).max())


def table(of: Callable[[Any, Any], float], rows: Sequence[Any], columns: Sequence[Any]) -> Array:
    """A function of data set and candidate, as an array."""
    return np.array([[of(row, column) for column in columns] for row in rows])
