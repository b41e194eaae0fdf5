"""The constants of Private inference (chapter 9), Algorithm 9.3.3: one place for the test, its error bounds and its proof.

docs/exactness-tests.md shows that they give (4ε, 5δ)-privacy for n ≥ 2, ε ≤ 1 and δ ≤ 1/28, where the chapter states (4ε, 14δ).
Limits are rounded down and scales up: the proof needs the filter to be no wider, and the noise no smaller, than the formulas say.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

from dpcore import accounting
from dpcore._dataclasses import dataclass
from dpcore._validation import check_real
from dpcore.errors import ParameterError
from dpcore.inference._parameters import l2_of_equal

if TYPE_CHECKING:
    from dpcore._exact.intervals import Interval

LARGEST_EPSILON, LARGEST_DELTA = 4.0, 0.5
STEPS, FAILURES = 4, 5
"""The algorithm is (4ε, 5δ)-private for the ε and δ of one step."""
LARGEST_SHARE = 1 / 32
"""Largest δ of one step; the proof needs at most 1/28."""
_BITS = 192
_MOST_STEPS = 40
"""Noise is released on a grid of at least scale·2^-40."""


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Limits of the comparisons in the algorithm, and the scales of its noise.

    Attributes
    ----------
    epsilon, delta : float
        Budget of one step.
    first_scale, first : float
        Scale of r₁, and the limit of z₁.
    sigma : float
        Standard deviation of each coordinate of R.
    filter : int
        Largest |⟨X^(j), X̃⟩| of a row that stays: ⌊Δ_δ + (4d/ε)√(ln(5/4δ)·ln(n/δ))⌋.
    reach : float
        Part of it that is there for R: (4d/ε)√(ln(5/4δ)·ln(n/δ)), rounded down.
    second_scale, second : float
        Scale of r₂, and the limit of z₂.
    grid : int
        Power of two whose multiples T is rounded down to: 1 unless the noise is enormous.
    third_scale : float
        Scale of r₃.
    """

    epsilon: float
    delta: float
    first_scale: float
    first: float
    sigma: float
    filter: int
    reach: float
    second_scale: float
    second: float
    grid: int
    third_scale: float


def check_budget(epsilon: object, delta: object) -> tuple[float, float]:
    """Return a total budget that the proof covers, else raise."""
    return (
        check_real("epsilon", epsilon, low=2.0**-60, high=LARGEST_EPSILON),
        check_real("delta", delta, low=2.0**-900, high=LARGEST_DELTA),
    )


def step_budget(epsilon: float, delta: float) -> tuple[float, float]:
    """ε/4, which is exact, and δ/5 rounded down, or the largest share that the proof covers."""
    share = delta / FAILURES
    exact = share if Fraction(share) * FAILURES <= Fraction(delta) else math.nextafter(share, 0.0)
    return epsilon / STEPS, min(exact, LARGEST_SHARE)


@lru_cache(maxsize=512)
def thresholds(n: int, d: int, epsilon: float, delta: float) -> Thresholds:
    """The constants for a total budget, with natural logarithms."""
    from dpcore._exact.intervals import Interval, log, sqrt

    step, share = step_budget(epsilon, delta)
    e, failure = Interval.of(step, _BITS), Fraction(share)
    ln = log(Interval.of(1 / failure, _BITS))
    ln_d, ln_n = log(Interval.of(d / failure, _BITS)), log(Interval.of(n / failure, _BITS))
    reach = sqrt(log(Interval.of(Fraction(5, 4) / failure, _BITS)) * ln_n) * (4 * d) / e
    width = _width(n, d, e, ln, ln_d, ln_n)
    grid, scale = _noise_of_statistic((4 * width + 12 * reach).ceiling(), step)
    return Thresholds(
        epsilon=step,
        delta=share,
        first_scale=accounting.laplace_scale(step, 2),
        first=(sqrt(2 * n * ln_d) + 2 * ln / e).lower(),
        sigma=accounting.classical_gaussian_scale(step, share, l2_of_equal(2.0, d)),
        filter=math.floor((width + reach).lower()),
        reach=reach.lower(),
        second_scale=accounting.laplace_scale(step, 1),
        second=(ln / e).lower(),
        grid=grid,
        third_scale=scale,
    )


def _width(n: int, d: int, e: Interval, ln: Interval, ln_d: Interval, ln_n: Interval) -> Interval:
    """Δ_δ = 16(d ln(d/δ) + (d/nε²) ln²(1/δ) + √(nd)·√(ln(d/δ) ln(n/δ)) + (√d/ε) ln(1/δ)·√(ln(n/δ)))."""
    from dpcore._exact.intervals import Interval, sqrt

    root = sqrt(Interval.of(d, _BITS))
    return 16 * (d * ln_d + d * (ln / e).power(2) / n + sqrt(n * d * ln_d * ln_n) + root * ln / e * sqrt(ln_n))


def _noise_of_statistic(sensitivity: int, epsilon: float) -> tuple[int, float]:
    """Grid of the rounded statistic, and the scale of the noise for the sensitivity that it then has."""
    scale = accounting.laplace_scale(epsilon, sensitivity)
    if scale <= 2.0**_MOST_STEPS:
        return 1, scale
    grid = int(2 ** (math.frexp(scale)[1] - _MOST_STEPS + 1))  # twice what is needed: the scale grows by the rounding
    return grid, accounting.laplace_scale(epsilon, sensitivity + grid)


def check_ranges(n: int, d: int, limits: Thresholds) -> None:
    """Raise where noise or inner products would leave the integers that the kernels add."""
    if limits.sigma > 2.0**_MOST_STEPS or d * (n + 64 * limits.sigma) >= 2.0**62:
        raise ParameterError(
            f"epsilon={limits.epsilon * STEPS!r} must be larger for n={n} records of d={d} signs: inner products with sums under Gaussian "
            f"noise of scale {limits.sigma!r} must be below 2**62, and the scale at most 2**{_MOST_STEPS}"
        )
