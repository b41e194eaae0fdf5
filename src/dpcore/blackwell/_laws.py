"""Output probabilities of mechanisms without a channel matrix of their own: integers with noise, and indices of the largest score."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

import numpy as np

from dpcore.errors import ParameterError

if TYPE_CHECKING:
    import numpy.typing as npt

    Matrix = npt.NDArray[np.float64]
    Integers = npt.NDArray[np.int64]

DEVIATIONS = 39
"""Standard deviations beyond which e^(−z²/2σ²) is below the range of float64."""
MAX_TERMS = 2**24
FAR = 600.0
"""Largest distance of two scores, in units of Laplace noise; e^−FAR is well within the range of float64."""
NODES = 16
"""Gauss-Legendre nodes on a piece of one unit, plus one for each score; the error of such products of exponentials is in the last bits."""


def integer_rows(kind: str, scale: float, inputs: Integers, low: int, high: int) -> Matrix:
    """P(clamp(x + Z, low, high) = y), a row for each x and a column for each y, of discrete Laplace or Gaussian noise Z."""
    if low == high:
        return np.ones((len(inputs), 1))
    z = np.arange(low, high + 1) - inputs[:, None]
    if kind == "discrete_laplace":
        mass = _laplace_mass(scale, np.abs(z))
        ends = [_laplace_tail(scale, k) for k in (-z[:, 0], z[:, -1])]
    else:
        mass, ends = _gaussian(scale, z)
    mass[:, 0], mass[:, -1] = ends
    return mass


def _laplace_mass(scale: float, size: Integers) -> Matrix:
    """(1 − r)/(1 + r)·r^|z|, r = e^(−1/t)."""
    mass: Matrix = math.tanh(0.5 / scale) * np.exp(size / -scale)
    return mass


def _laplace_tail(scale: float, k: Integers) -> Matrix:
    """P(Z ≥ k): r^k/(1 + r) for k ≥ 1, by symmetry 1 − r^(1−k)/(1 + r) for the others."""
    upper = np.exp(np.maximum(k, 1 - k) / -scale) / (1 + math.exp(-1 / scale))
    tail: Matrix = np.where(k >= 1, upper, 1 - upper)
    return tail


def _gaussian(scale: float, z: Integers) -> tuple[Matrix, list[Matrix]]:
    """P(Z = z), and for each row P(Z ≤ its first) and P(Z ≥ its last), by sums over all integers with a positive float64 weight."""
    last = int(np.abs(z).max()) + 1 + math.ceil(DEVIATIONS * scale)
    if last > MAX_TERMS:
        raise ParameterError(f"scale and inputs must give a sum over at most {MAX_TERMS} integers, got {last} for the scale {scale!r}")
    weights = np.exp(-((np.arange(last + 1) / scale) ** 2) / 2)
    beyond = np.cumsum(weights[::-1])[::-1]
    total = weights[0] + 2 * beyond[1]

    ends = []
    for k in (-z[:, 0], z[:, -1]):
        upper = beyond[np.maximum(k, 1 - k)] / total
        ends.append(np.where(k >= 1, upper, 1 - upper))
    return weights[np.abs(z)] / total, ends


def argmax_rows(noise: str, scores: Matrix, scale: float) -> Matrix:
    """P(index r has the largest u_r + scale·N_r), a row for each row u of scores."""
    u = (scores - scores.max(axis=1, keepdims=True)) / scale
    if noise == "gumbel":
        weights = np.exp(u)
        softmax: Matrix = weights / weights.sum(axis=1, keepdims=True)
        return softmax
    law = _exponential_argmax if noise == "exponential" else _laplace_argmax
    return np.array([law(row) for row in u])


def peeling_rows(noise: str, scores: Matrix, scale: float, s: int) -> Matrix:
    """P(the s largest, in this order): an argmax of the remaining scores each time. Columns are sequences in lexicographic order."""
    every = range(scores.shape[1])
    rounds: dict[tuple[int, ...], Matrix] = {}
    columns = []
    for sequence in itertools.permutations(every, s):
        chance = np.ones(len(scores))
        for i, index in enumerate(sequence):
            left = tuple(j for j in every if j not in sequence[:i])
            if left not in rounds:
                rounds[left] = argmax_rows(noise, scores[:, left], scale)
            chance = chance * rounds[left][:, left.index(index)]
        columns.append(chance)
    return np.stack(columns, axis=1)


def _unit_nodes(count: int) -> tuple[Matrix, Matrix]:
    """Gauss-Legendre nodes and weights for [0, 1]; exact for polynomials of degree 2·count − 1."""
    from scipy.special import roots_legendre

    nodes, weights = roots_legendre(count)
    return (nodes + 1) / 2, weights / 2


def _exponential_argmax(u: Matrix) -> Matrix:
    """Permute-and-flip: index r comes up at a uniform time t and is taken with probability e^u_r; none of the others was taken before.

    P(r) = e^u_r ∫₀¹ Π_{j≠r} (1 − t·e^u_j) dt, a polynomial.
    """
    take = np.exp(u)
    t, weights = _unit_nodes(len(u) // 2 + 1)
    refused = 1 - t[:, None] * take
    chances: Matrix = take * (weights @ (refused.prod(axis=1, keepdims=True) / refused))
    return chances


def _laplace_argmax(u: Matrix) -> Matrix:
    """∫ f(x − u_r) Π_{j≠r} F(x − u_j) dx over three ranges: below all scores, between them, above the largest, which is 0."""
    lowest = float(u.min())
    if lowest < -FAR:
        raise ParameterError(f"the scores of a row must lie within {FAR:g} scales of the noise, got {-lowest:g}")
    d = len(u)
    # below, every F is an exponential
    below = math.exp(d * lowest - float(u.sum()) - d * math.log(2)) / d
    # above, with s = e^−x: F = 1 − s·e^u/2, a polynomial
    s, weights = _unit_nodes(d // 2 + 1)
    half = np.exp(u) / 2
    others = 1 - s[:, None] * half
    above = half * (weights @ (others.prod(axis=1, keepdims=True) / others))
    chances: Matrix = below + _laplace_between(u, np.unique(u)) + above
    return chances


def _laplace_between(u: Matrix, knots: Matrix) -> Matrix:
    chances = np.zeros(len(u))
    nodes, weights = _unit_nodes(NODES + len(u))
    for left, right in itertools.pairwise(knots.tolist()):
        pieces = math.ceil(right - left)
        width = (right - left) / pieces
        for start in left + width * np.arange(pieces):
            away = start + width * nodes[:, None] - u
            reached = u <= left
            cumulative = np.where(reached, 1 - np.exp(-np.abs(away)) / 2, np.exp(-np.abs(away)) / 2)
            # f/F is 1 below the score and 1/(2e^(x−u) − 1) above it
            ratio = np.where(reached, 1 / (2 * np.exp(np.where(reached, away, 0.0)) - 1), 1.0)
            chances += width * (weights @ (ratio * cumulative.prod(axis=1, keepdims=True)))
    return chances
