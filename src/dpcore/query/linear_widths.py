r"""Intervals of estimates that are linear in numbers with Laplace noise: half-widths of Y = Σ a_i X_i, for independent X_i.

The law of Y is the convolution of those of its terms, so its characteristic function φ is a product of theirs:

    Laplace of scale b:           φ(u) = 1/(1 + b²u²);
    discrete Laplace of scale b:  φ(u) = 1/(1 + sin²(u/2)/sinh²(1/(2b))).

**Convolution.** Let W be the sum of p = 8 uniform numbers on [−w/p, w/p], independent of Y. As |W| ≤ w, P(|Y| > t) is at most
P(|Y + W| > t − w). The law of Z = Y + W has the characteristic function φ·(sin(uw/p)/(uw/p))^p, which falls like u^−p even where Y is
discrete. Wrapped around a circle of length 2M it has a Fourier series, and so

    P(|Z| ≤ τ) ≥ τ/M + (2/π)·Σ_{k ≤ K} φ_Z(πk/M)·sin(πkτ/M)/k − P(|Z| ≥ 2M − τ) − (2/(πp))·(pM/(πwK))^p.

The third term is bounded by Markov's inequality, the last one bounds the rest of the series. Both are made small against β; w is a small
part of the width. What is found is a half-width that Y leaves with probability β at most, and less than a per cent above the least one.

**Bound.** ln E e^(λY) ≤ −Σ ln(1 − λ²c_i²), c_i = |a_i|·b_i, for both laws: the moment generating function of discrete Laplace noise is
below that of Laplace noise of its scale, as (cosh x − 1)/x² increases. With c ≥ c_i it is at most −(Σc_i²/c²)·ln(1 − λ²c²), and
P(|Y| ≥ t) ≤ 2·exp(−λt)·E e^(λY).
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from dpcore.query.adding_up import LeastSquares

    Floats = npt.NDArray[np.float64]
    Coefficients = Counter[tuple[int, float]]


UNIFORMS = 8
"""p."""
SMOOTHED = 0.006
"""w over the width, about."""
WRAPPED, CUT = 1e-4, 1e-3
"""What the third and the last term may be, of β."""
LEAST_BETA = 1e-9
"""Below, rounding errors of the sum are not small against β."""
MOST_NODES, MOST_TERMS = 1 << 14, 1 << 13
"""Nodes of a tree whose laws are found, and terms of all laws together; of larger trees intervals are the bound."""


def bound_widths(beta: float, squares: Floats, largest: float) -> Floats:
    """Half-widths by the bound, given Σ c² and a bound of each c."""
    most = np.minimum(largest, np.sqrt(squares))
    many, log = squares / most**2, math.log(2 / beta)
    low, high = np.zeros_like(squares), np.ones_like(squares)
    for _ in range(50):  # to where the bound is least; it holds for any x in (0, 1)
        middle = (low + high) / 2
        is_low = 2 * many * middle**2 / (1 - middle**2) < log - many * np.log1p(-(middle**2))
        low, high = np.where(is_low, middle, low), np.where(is_low, high, middle)
    x = np.where(low > 0, low, high / 2)
    return np.asarray(most * (log - many * np.log1p(-(x**2))) / x)


def width(beta: float, law: str, coefficients: Mapping[tuple[int, float], int], scales: Sequence[float]) -> float:
    """The half-width of one law by convolution.

    Parameters
    ----------
    beta : float
        Probability outside, from `LEAST_BETA` on.
    law : str
        "laplace" or "discrete_laplace".
    coefficients : mapping
        How often each coefficient comes, by the level of its number.
    scales : sequence of float
        Scale of the noise of each level.
    """
    steps = np.array([abs(each) for _, each in coefficients])
    sizes = np.array([scales[level] for level, _ in coefficients])
    times = np.array(list(coefficients.values()), np.float64)
    squares, largest = np.array([float(times @ (steps * sizes) ** 2)]), float((steps * sizes).max())
    outer = float(bound_widths(beta, squares, largest)[0])
    smoothed = SMOOTHED * outer / 2
    reach = float(bound_widths(WRAPPED * beta, squares, largest)[0]) + outer + smoothed
    count = math.ceil(UNIFORMS * reach / (math.pi * smoothed) * (2 / (math.pi * UNIFORMS * CUT * beta)) ** (1 / UNIFORMS))
    k = np.arange(1, count + 1)
    angles = np.pi * k / reach
    logs = np.zeros(count)
    for step, size, often in zip(steps, sizes, times, strict=True):
        base = size * step * angles if law == "laplace" else np.sin(step * angles / 2) / math.sinh(min(0.5 / size, 350.0))
        logs -= often * np.log1p(base * base)
    terms = np.exp(logs) * np.sinc(angles * smoothed / (UNIFORMS * np.pi)) ** UNIFORMS * 2 / (np.pi * k)
    lost = (WRAPPED + CUT) * beta + 1e-12

    def outside(inner: float) -> float:
        return 1 - inner / reach - float(terms @ np.sin(angles * inner)) + lost

    low, high = 0.0, outer
    if outside(high) > beta:
        return outer
    while high - low > 1e-4 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if outside(middle) <= beta else (middle, high)
    return min(high + smoothed, outer)


def laws(fit: LeastSquares) -> tuple[list[npt.NDArray[np.int64]], list[Coefficients]] | None:
    """For the nodes of each level which law their estimates have, and the coefficients of each; None if they are too many.

    Nodes of a level have one law if what is below them has one shape, and so have their siblings, and those of the nodes above them.
    """
    tree, last = fit.tree, len(fit.tree.sizes) - 1
    if sum(tree.sizes) > MOST_NODES:
        return None
    shapes: list[list[int]] = [[0] * tree.sizes[last]]
    below: list[list[Counter[int]]] = [[Counter({0: 1})]]
    best: list[list[Coefficients]] = [[Counter({(last, 1.0): 1})]]
    for level in range(last - 1, -1, -1):
        held: list[list[int]] = [[] for _ in range(tree.sizes[level])]
        for parent, shape in zip(tree.parents[level].tolist(), shapes[0], strict=True):
            held[parent].append(shape)
        known: dict[tuple[tuple[int, int], ...], int] = {}
        own, kinds, sums = [], [], []
        for alpha, children in zip(fit.alphas[level].tolist(), held, strict=True):
            counted = Counter(children)
            key = tuple(sorted(counted.items()))
            if key not in known:
                known[key] = len(known)
                kinds.append(counted)
                sums.append(_scaled(_joined(best[0], counted), 1 - alpha) + Counter({(level, alpha): 1}))
            own.append(known[key])
        shapes.insert(0, own)
        below.insert(0, kinds)
        best.insert(0, sums)
    return _from_roots(fit, shapes, below, best)


def _from_roots(
    fit: LeastSquares, shapes: list[list[int]], below: list[list[Counter[int]]], best: list[list[Coefficients]]
) -> tuple[list[npt.NDArray[np.int64]], list[Coefficients]] | None:
    tree, last = fit.tree, len(fit.tree.sizes) - 1
    numbers: list[npt.NDArray[np.int64]] = []
    found: list[Coefficients] = []
    terms = 0
    above: dict[int, tuple[float, Coefficients]] = {}
    for level in range(last + 1):
        known: dict[tuple[int, int], int] = {}
        here: dict[int, tuple[float, Coefficients]] = {}
        own = np.empty(tree.sizes[level], np.int64)
        parents = tree.parents[level - 1].tolist() if level else [0] * tree.sizes[0]
        for node, (parent, shape) in enumerate(zip(parents, shapes[level], strict=True)):
            key = (int(numbers[level - 1][parent]) if level else -1, shape)
            if key not in known:
                known[key] = len(found)
                alpha = float(fit.alphas[level][node])
                if level:
                    share, (kappa, outside) = float(fit.shares[level - 1][node]), above[key[0]]
                    beside = share * (kappa - 1)
                    siblings = below[level - 1][shapes[level - 1][parent]] - Counter({shape: 1})
                    rest = _scaled(_joined(best[level], siblings), beside) + _scaled(outside, share)
                else:
                    beside, rest = 0.0, Counter()
                other = rest + Counter({(level, abs((1 + beside) * alpha)): 1})
                kappa = (1 - alpha) * (1 + beside)
                here[known[key]] = kappa, other
                children = Counter() if level == last else _scaled(_joined(best[level + 1], below[level][shape]), kappa)
                found.append(other + children)
                terms += len(found[-1])
                if terms > MOST_TERMS:
                    return None
            own[node] = known[key]
        numbers.append(own)
        above = here
    return numbers, found


def _joined(each: list[Coefficients], counted: Counter[int]) -> Coefficients:
    """The coefficients of the sum of numbers of some shapes, each so many times."""
    joined: Coefficients = Counter()
    for shape, times in counted.items():
        for key, often in each[shape].items():
            joined[key] += often * times
    return joined


def _scaled(coefficients: Coefficients, factor: float) -> Coefficients:
    scaled: Coefficients = Counter()
    for (level, each), often in coefficients.items():
        if each * factor:
            scaled[level, abs(each * factor)] += often
    return scaled
