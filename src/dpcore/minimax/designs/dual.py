"""What no linear estimator can reach: a bound for all private channels, from three members of the model.

For members p⁺, p⁻ and q of a model, D = p⁺ − p⁻, and any b ≥ 0 and τ, every ε-private channel Q whose outcome k stands for v_k, and every
center, has largest bias β and largest second moment V over the model with

    β² + V/n ≥ b·(θ(p⁻) − θ(p⁺)) − b² + Στ,   if   h(v) = Σ_x ψ(b·D(x)·v + q(x)·v²/n − τ(x)) ≥ 0   for each output v,

where ψ(d) = min(d, e^ε·d): β² ≥ 2bβ − b², and 2β is at least the difference of the biases at p⁺ and p⁻. The column of an outcome lies
between w and e^ε·w for some w ≥ 0, so Σ_x Q(x, k)·(… − τ(x)) ≥ w·h(v_k).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dpcore.minimax.spaces import certified

if TYPE_CHECKING:
    from dpcore.minimax.designs.program import Design
    from dpcore.minimax.spaces.matrices import Array
    from dpcore.minimax.spaces.models import Model

SHARES = (0.0, 1e-6, 1e-4, 1e-2)
"""Shares of (p⁺ + p⁻)/2 that are mixed into q, so that its mass is nowhere much smaller than theirs."""
UNIT = 2.0**-52
FAR = 1e150
"""No output is larger."""
BLOCK = 1 << 22
"""Factors that are held in memory at a time."""


class Limits(NamedTuple):
    """Lower bounds of bias² + second moment/n over private channels with linear estimators.

    Attributes
    ----------
    on_outputs : float
        Over channels with the given outputs.
    everywhere : float
        Over channels with any real outputs, finitely many or not.
    """

    on_outputs: float
    everywhere: float


def limits(model: Model, epsilon: float, n: int, design: Design) -> Limits:
    """Compute both bounds with the multipliers of a design. `model` is in its standard form."""
    found, members = Limits(0.0, 0.0), _members(model, design)
    for share in SHARES:
        column = _Column(model, epsilon, n, design, members.mixed(share))
        found = Limits(max(found.on_outputs, column.on(design.outputs)), max(found.everywhere, column.everywhere()))
    return found


class _Members(NamedTuple):
    """p⁺, p⁻ and q."""

    high: Array
    low: Array
    spread: Array

    def mixed(self, share: float) -> _Members:
        return self._replace(spread=(1 - share) * self.spread + share / 2 * (self.high + self.low))


def _members(model: Model, design: Design) -> _Members:
    """Return the members of a design, repaired so that they belong to the model."""
    high, low = certified.repaired(model, design.high, design.low)
    return _Members(high, low, certified.repaired(model, design.spread, design.spread)[0])


class _Column:
    """h for one choice of b, D, q and τ, in units in which the result is near 1."""

    def __init__(self, model: Model, epsilon: float, n: int, design: Design, members: _Members) -> None:
        unit = design.objective or 1.0
        b, both = max(design.bias, 0.0), members.high + members.low
        self._grown = math.expm1(epsilon) if epsilon < 600 else math.inf
        self._squares = members.spread / (n * unit)
        self._slopes = b * (members.high - members.low) / unit
        self._sizes = b * both / unit
        """Magnitudes of the slopes before the members were subtracted: masses are rounded, and sum to 1 up to rounding."""
        self._charges = design.charges / unit
        self._unit = unit
        gain = float(model.f @ (members.low - members.high))
        rounding = (model.size + 16) * UNIT * (float(np.abs(model.f) @ both) + b)
        self._base = b / unit * (gain - rounding - certified.lost(model, abs(gain)) - b)

    def _bound(self, least: float, charges: Array) -> float:
        """Return the bound if h ≥ least: a lower τ, by −least in all, makes h ≥ 0, because ψ grows at least as fast as its argument."""
        total = self._base + float(charges.sum()) - len(charges) * UNIT * float(np.abs(charges).sum()) + min(least, 0.0)
        return max(total * self._unit * (1 - 4 * UNIT), 0.0)

    def on(self, outputs: Array) -> float:
        """Return the bound for these outputs."""
        if not math.isfinite(self._grown):
            return self.everywhere()
        v = outputs[:, None]
        terms = self._slopes * v + self._squares * v**2 - self._charges
        sizes = np.abs(self._sizes * v) + self._squares * v**2 + np.abs(self._charges)
        factors = np.where(terms < 0, 1 + self._grown, 1.0)
        values = (factors * terms).sum(axis=1) - self._rounding((factors * sizes).sum(axis=1), sizes.sum(axis=1))
        return max(self._bound(float(values.min()), self._charges), self._public())

    def everywhere(self) -> float:
        """Return the bound for all real outputs."""
        if not math.isfinite(self._grown):
            return self._public()
        return max(self._bound(self._least(), self._charges), self._public())

    def _public(self) -> float:
        """Return the bound with a τ so small that every term of h is ≥ 0 at every v: it needs no privacy."""
        with np.errstate(divide="ignore", invalid="ignore"):
            slopes = np.abs(self._slopes) + (len(self._slopes) + 16) * UNIT * self._sizes
            vertex = np.where(slopes == 0, 0.0, -(slopes**2) / (4 * self._squares)) * (1 + (len(slopes) + 16) * UNIT)
        charges = np.minimum(self._charges, vertex)
        return self._bound(0.0, charges) if np.isfinite(charges).all() else 0.0

    def _least(self) -> float:
        """Return a lower bound of h over all real v.

        Between the roots of its terms and 0, h is a quadratic, and so is the bound of its rounding errors, which is subtracted first.
        """
        left, right = _negative(self._squares, self._slopes, -self._charges)
        active = left < right
        ends = np.unique(np.concatenate([left[active], right[active], [0.0]]))
        ends = ends[np.isfinite(ends)]
        low, high = np.concatenate([[-FAR], ends]), np.concatenate([ends, [FAR]])
        middles = np.concatenate([[2 * ends[0] - 1], (ends[:-1] + ends[1:]) / 2, [2 * ends[-1] + 1]])
        step, least = max(1, BLOCK // len(left)), math.inf
        for first in range(0, len(middles), step):
            part = slice(first, first + step)
            inside = active & (left < middles[part, None]) & (middles[part, None] < right)
            factors: Array = np.where(inside, 1 + self._grown, 1.0)
            least = min(least, self._least_of(factors, low[part], high[part], np.sign(middles[part])))
        return least

    def _least_of(self, factors: Array, low: Array, high: Array, sign: Array) -> float:
        """Return the least of some pieces, with the factor of each term on each piece."""
        lost = self._rounding(factors, np.ones_like(factors))
        A, C = (factors - lost) @ self._squares, -(factors @ self._charges) - lost @ np.abs(self._charges)
        B = factors @ self._slopes - sign * (lost @ self._sizes)
        if (A <= 0).any():
            return -math.inf
        v = np.clip(-B / (2 * A), low, high)
        return float((A * v**2 + B * v + C).min())

    def _rounding(self, weighted: Array, plain: Array) -> Array:
        """Bound the rounding error of h. A term near one of its roots may have been taken with the wrong factor."""
        return ((len(self._charges) + 16) * weighted + 16 * (1 + self._grown) * plain) * UNIT


def _negative(alpha: Array, beta: Array, gamma: Array) -> tuple[Array, Array]:
    """Return the interval where αv² + βv + γ < 0, for each term; an empty one is (0, 0)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        root = np.sqrt(np.maximum(beta**2 - 4 * alpha * gamma, 0.0))
        half = -(beta + np.where(beta >= 0, root, -root)) / 2
        first, second = half / alpha, gamma / half
        curved = np.sort(np.stack([first, np.where(half == 0, first, second)]), axis=0)
        line = -gamma / beta
    real = (beta**2 > 4 * alpha * gamma) & (alpha > 0)
    left = np.where(real, curved[0], np.where(beta > 0, -math.inf, line))
    right = np.where(real, curved[1], np.where(beta < 0, math.inf, line))
    flat = (alpha == 0) & (beta == 0)
    left, right = np.where(flat, -math.inf, left), np.where(flat, math.inf, right)
    none = ((alpha > 0) & ~real) | (flat & (gamma >= 0))
    return np.where(none, 0.0, left), np.where(none, 0.0, right)
