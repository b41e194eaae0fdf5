"""Optimal composition of two kinds of guarantee, many uses each, such as the selections and the values of a top-s release.

The losses of the kinds are (k₁ − 2L₁)ε₁ and (k₂ − 2L₂)ε₂ with independent binomial L's (see `_optimal`), so that

    δ₀(ε') = Σ_l P(L₂ = l)·δ₁(ε' − (k₂ − 2l)ε₂),   δ₁(x) = A(m) − e^(x − (k₁−2m)ε₁)·C(m),   m the last l with (k₁ − 2l)ε₁ > x,

A(m) = Σ_{l ≤ m} P(L₁ = l) and C(m) = Σ_{l ≤ m} P(L₁ = l)·e^(−2(m−l)ε₁). Everything is computed in float64, and a bound of the
rounding errors is added to the result.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from dpcore.accounting._optimal import likeliest

if TYPE_CHECKING:
    from numpy.typing import NDArray

ROUNDING = 2.0**-53
LEAST = 1e-303
LOST = 1e-290
"""Bound of everything that underflows, is cut off, or lies outside the windows."""


class _Binomial:
    """P(L = first + i), L ~ Bin(k, 1/(1+e^ε)), over all l that matter."""

    def __init__(self, k: int, epsilon: float) -> None:
        mode, at_mode = likeliest(k, epsilon)
        deviation = math.sqrt(k / (2 + 2 * math.cosh(min(epsilon, 700.0))))
        reach = 800 + math.ceil(45 * deviation)  # beyond lies less than 10^−438, by Bernstein's inequality
        below, above = min(mode, reach), min(k - mode, reach)
        down = np.arange(mode, mode - below, -1.0)
        up = np.arange(mode, mode + above, 1.0)
        lower = np.cumprod(down / (k - down + 1) * math.exp(min(epsilon, 700.0)))
        upper = np.cumprod((k - up) / (up + 1) * math.exp(-epsilon))
        law = at_mode * np.concatenate([lower[::-1], [1.0], upper])
        # Numbers at the end of float64's range are slow to compute with and do not affect the sum; the law rises to its mode and falls.
        kept = np.flatnonzero(law > LEAST)
        self.first = mode - below + int(kept[0])
        self.law: NDArray[np.float64] = law[kept[0] : kept[-1] + 1]
        self.k, self.epsilon = k, epsilon
        # Every factor has four roundings of at most two units, and e^±ε one more; sums add one unit for every term.
        self.relative = (12 * self.law.size + 64) * ROUNDING

    def losses(self) -> NDArray[np.float64]:
        """Return (k − 2l)ε, one rounding each."""
        values = self.first + np.arange(self.law.size, dtype=np.float64)
        result: NDArray[np.float64] = np.multiply(self.k - 2 * values, self.epsilon)
        return result


class TwoKinds:
    """δ₀ of k₁ responses with ε₁ and k₂ with ε₂, never below the true one."""

    def __init__(self, one: tuple[int, float], other: tuple[int, float]) -> None:
        self._one, self._other = _Binomial(*one), _Binomial(*other)
        self._most = (one[0] * one[1] + other[0] * other[1]) * (1 + 4 * ROUNDING)
        self._near = np.concatenate([[0.0], np.cumsum(self._one.law)])
        self._far = np.concatenate([[0.0], self._discounted()])
        self._losses = self._other.losses()

    def _discounted(self) -> NDArray[np.float64]:
        discount, total = math.exp(-2 * self._one.epsilon), 0.0
        result = np.empty(self._one.law.size)
        for i, mass in enumerate(self._one.law.tolist()):
            total = mass + total * discount
            result[i] = total
        return result

    def delta(self, epsilon: float) -> float:
        """Bound δ₀(ε') from above."""
        if epsilon >= self._most:
            return 0.0
        one = self._one
        rest = epsilon - self._losses
        last = np.ceil((one.k - rest / one.epsilon) / 2) - 1
        count = np.clip(last - one.first + 1, 0, one.law.size).astype(np.int64)
        # Beyond the window the sum stays what it was, but its losses are those of the window's end.
        top = (one.k - 2.0 * (one.first + count - 1)) * one.epsilon
        near, far = self._near[count], self._far[count] * np.exp(np.clip(rest - top, -700.0, 0.0))
        delta = float(np.sum(self._other.law * np.maximum(near - far, 0.0)))
        # A loss that rounding puts on the wrong side of ε' is nearly ε' and counts for as little as its rounding: one more than counted.
        size = float(np.sum(self._other.law * self._near[np.minimum(count + 1, one.law.size)]))
        exponent = 8 * (abs(epsilon) + float(np.abs(self._losses).max()) + one.k * one.epsilon) * ROUNDING
        return min(delta + size * 4 * (one.relative + self._other.relative + exponent) + LOST, 1.0)
