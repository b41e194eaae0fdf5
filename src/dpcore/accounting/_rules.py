"""The rules that `compose` chooses from. Each computes, for the uses that it was made for, ε at a δ and δ at an ε, both rounded up."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Protocol

from dpcore._exact.intervals import fraction_up
from dpcore.accounting import _calibration, _composition, _optimal, concentrated, gaussian_privacy
from dpcore.accounting._two_kinds import TwoKinds

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dpcore.accounting._composition import Part
    from dpcore.accounting.uses import Uses

MOST_FOR_OPTIMAL = 10**7
"""Up to this number of uses the optimum takes a fraction of a second, so that a search can evaluate it often."""


class Rule(Protocol):
    """The interface of a rule for `compose` and its inverses."""

    name: str

    def guarantee(self, delta: float) -> tuple[float, float]:
        """Return the least ε at a total δ, and the part of δ that it needs."""

    def delta(self, epsilon: float) -> float:
        """Return the least total δ at ε."""


class Basic:
    """Sums of ε and δ."""

    name = "basic"

    def __init__(self, parts: Sequence[Part]) -> None:
        self._epsilon = sum((k * Fraction(epsilon) for k, epsilon, _ in parts), Fraction(0))
        self._delta = sum((k * Fraction(delta) for k, _, delta in parts), Fraction(0))

    def guarantee(self, delta: float) -> tuple[float, float]:
        """Return Σε if Σδ fits."""
        return (fraction_up(self._epsilon), fraction_up(self._delta)) if self._delta <= delta else (math.inf, delta)

    def delta(self, epsilon: float) -> float:
        """Return Σδ if Σε fits."""
        return min(fraction_up(self._delta), 1.0) if self._epsilon <= epsilon else 1.0


class Advanced:
    """Hoeffding's inequality for the losses of randomised response."""

    name = "advanced"

    def __init__(self, parts: Sequence[Part]) -> None:
        self._parts = parts

    def guarantee(self, delta: float) -> tuple[float, float]:
        """Return the bound at the δ that failures leave."""
        left = _composition.left_over(self._parts, delta)
        return (_composition.hoeffding_epsilon(self._parts, left) if left > 0 else math.inf), delta

    def delta(self, epsilon: float) -> float:
        """Solve the bound for δ."""
        return _composition.with_failures(self._parts, _composition.hoeffding_delta(self._parts, epsilon))


class Optimal:
    """The exact optimum for parts that are equal."""

    name = "optimal"

    def __init__(self, k: int, epsilon: float, delta: float) -> None:
        self._k, self._epsilon, self._delta = k, epsilon, delta

    def guarantee(self, delta: float) -> tuple[float, float]:
        """Find the least ε."""
        return _optimal.optimal_epsilon(self._epsilon, self._delta, self._k, delta), delta

    def delta(self, epsilon: float) -> float:
        """Return the least δ."""
        return _optimal.optimal_delta(self._epsilon, self._delta, self._k, epsilon)


class OptimalFailing:
    """The optimum for parts that differ in δ only."""

    name = "optimal"

    def __init__(self, parts: Sequence[Part], epsilon: float) -> None:
        self._parts, self._epsilon = parts, epsilon
        self._k = sum(k for k, epsilon, _ in parts if epsilon)

    def guarantee(self, delta: float) -> tuple[float, float]:
        """Find the least ε at the δ that failures leave."""
        left = _composition.left_over(self._parts, delta)
        return (_optimal.optimal_epsilon(self._epsilon, 0.0, self._k, left) if left > 0 else math.inf), delta

    def delta(self, epsilon: float) -> float:
        """Return the least δ, failures included."""
        return _composition.with_failures(self._parts, _optimal.optimal_delta(self._epsilon, 0.0, self._k, epsilon))


class OptimalKinds:
    """The optimum for two values of ε. If there are more, all but the largest count as the second largest."""

    name = "optimal"

    def __init__(self, parts: Sequence[Part], epsilons: Sequence[float]) -> None:
        largest, second = epsilons[:2]
        many = sum(k for k, epsilon, _ in parts if epsilon == largest)
        rest = sum(k for k, epsilon, _ in parts if 0 < epsilon < largest)
        self._parts, self._most = parts, _composition.sum_up([many * largest, rest * second]) * (1 + 2.0**-50)
        self._kinds = TwoKinds((many, largest), (rest, second))

    def guarantee(self, delta: float) -> tuple[float, float]:
        """Search the least ε at the δ that failures leave."""
        left = _composition.left_over(self._parts, delta)
        if left <= 0:
            return math.inf, delta
        if self._kinds.delta(0.0) <= left:
            return 0.0, delta
        return _composition.least_passing(lambda epsilon: self._kinds.delta(epsilon) <= left, 0.0, self._most), delta

    def delta(self, epsilon: float) -> float:
        """Return the least δ, failures included."""
        return _composition.with_failures(self._parts, self._kinds.delta(epsilon))


class Concentrated:
    """Sums of ρ, and the failures of approximate uses."""

    name = "zcdp"

    def __init__(self, rho: Fraction, parts: Sequence[Part]) -> None:
        self._rho, self._parts = fraction_up(rho), parts

    def guarantee(self, delta: float) -> tuple[float, float]:
        """Convert Σρ at the δ that failures leave."""
        left = _composition.left_over(self._parts, delta)
        return (_calibration.zcdp_epsilon(self._rho, left) if left > 0 and self._rho < math.inf else math.inf), delta

    def delta(self, epsilon: float) -> float:
        """Convert Σρ at ε."""
        converted = _calibration.zcdp_delta(self._rho, epsilon) if self._rho < math.inf else 1.0
        return _composition.with_failures(self._parts, converted)


class Gaussian:
    """Gaussian noise alone."""

    name = "gaussian"

    def __init__(self, rho: Fraction) -> None:
        self._ratio = _composition.gaussian_ratio(rho)

    def guarantee(self, delta: float) -> tuple[float, float]:
        """Solve the exact δ for ε."""
        if not self._ratio:
            return 0.0, 0.0
        return (_composition.gaussian_epsilon(delta, self._ratio) if delta else math.inf), delta

    def delta(self, epsilon: float) -> float:
        """Return the exact δ."""
        return _calibration.gaussian_delta(epsilon, self._ratio) if self._ratio else 0.0


class MixedGaussian:
    """Gaussian noise beside ε-private uses, each of which counts as the Gaussian noise that protects less than it."""

    name = "gdp"

    def __init__(self, rho: Fraction, parts: Sequence[Part]) -> None:
        squares = sum((k * Fraction(gaussian_privacy.mu_pure(epsilon)) ** 2 for k, epsilon, _ in parts), 2 * rho)
        self._parts, self._ratio = parts, _composition.gaussian_ratio(squares / 2)

    def guarantee(self, delta: float) -> tuple[float, float]:
        """Solve the exact δ for ε, at the δ that failures leave."""
        left = _composition.left_over(self._parts, delta)
        if not self._ratio:
            return 0.0, delta
        return (_composition.gaussian_epsilon(left, self._ratio) if left > 0 else math.inf), delta

    def delta(self, epsilon: float) -> float:
        """Return the δ at ε, failures included."""
        converted = _calibration.gaussian_delta(epsilon, self._ratio) if self._ratio else 0.0
        return _composition.with_failures(self._parts, converted)


def rho_of(use: Uses) -> float:
    """Return ρ of one use, for an approximate one while it does not fail."""
    if use.rho is not None:
        return use.rho
    if use.mechanism == "laplace":
        return concentrated.rho_laplace(use.epsilon)
    if use.mechanism == "bounded_range":
        return concentrated.rho_bounded_range(use.epsilon)
    return concentrated.rho_pure(use.epsilon)


def applicable(uses: Sequence[Uses]) -> Iterator[Rule]:
    """Yield the rules that apply to these uses, the cheap ones first."""
    parts = [(use.uses, use.epsilon, use.delta) for use in uses if use.rho is None]
    if len(parts) == len(uses):
        yield Basic(parts)
        yield Advanced(parts)
    rho = sum((use.uses * Fraction(rho_of(use)) for use in uses), Fraction(0))
    yield Concentrated(rho, parts)
    if uses and all(use.mechanism == "gaussian" for use in uses):
        yield Gaussian(rho)
    elif any(use.mechanism == "gaussian" for use in uses) and all(use.mechanism != "concentrated" for use in uses):
        yield MixedGaussian(sum((use.uses * Fraction(use.rho) for use in uses if use.rho is not None), Fraction(0)), parts)
    if len(parts) == len(uses) and sum(use.uses for use in uses) <= MOST_FOR_OPTIMAL:
        yield from optimal(parts)


def optimal(parts: Sequence[Part]) -> Iterator[Rule]:
    """Yield the optimum, or a bound close to it."""
    epsilons = sorted({epsilon for _, epsilon, _ in parts if epsilon}, reverse=True)
    if len({part[1:] for part in parts}) == 1:
        yield Optimal(sum(part[0] for part in parts), *parts[0][1:])
    elif len(epsilons) == 1:
        yield OptimalFailing(parts, epsilons[0])
    elif epsilons:
        yield OptimalKinds(parts, epsilons)
