"""Lower bounds that two members of a model prove, as functions of their distance, and the search for the best distance."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dpcore._dataclasses import dataclass
from dpcore.minimax.spaces.moduli import Pair, hellinger_pairs, largest_difference_tv, whole_range

if TYPE_CHECKING:
    from dpcore.minimax.losses import Loss
    from dpcore.minimax.spaces.matrices import Array
    from dpcore.minimax.spaces.models import Model

PLACES = 4096
"""Radii that a search compares."""
NARROWEST = 1e-3
"""The smallest radius, in units of the one at which n reports begin to distinguish two members."""
CLOSE = 1e-4
"""A search ends when no other radius can be better by more than this, relatively."""
MOST_PROGRAMS = 24
WIDER = 10
"""Pairs further apart, whose middle parts are tried."""
SHARES = np.geomspace(1e-5, 1.0, 400)
METHODS = ("lecam", "van_trees")
ROUNDING = 1e-12
"""An allowance for rounding, far larger than the rounding errors of the formulas."""
INFORMATION = math.pi**2 * (1 + 2.0**-50)
"""Fisher information of the prior cos²(πs/2) on [−1, 1]."""


@dataclass(frozen=True, slots=True)
class Problem:
    """What a bound from two members needs to know, beside the members.

    Attributes
    ----------
    epsilon : float
        Privacy loss of one record.
    n : int
        Number of records.
    constant : float
        c of the contraction χ² ≤ c·tv².
    slope : float
        Steinberger's contraction: n private reports of members at total variation distance T have one of at most slope·T.
    loss : Loss
        The loss.
    """

    epsilon: float
    n: int
    constant: float
    slope: float
    loss: Loss

    @property
    def squared(self) -> bool:
        """Whether the loss is the squared error."""
        return self.loss.kind == "power" and self.loss.parameter == 2.0

    def exponent(self, lost: Any) -> Any:
        """Return 2 ln A for the affinity A ≥ (1 − lost)^n of all reports, rounded down."""
        with np.errstate(divide="ignore"):
            return 2 * self.n * np.log1p(-np.minimum(lost * (1 + ROUNDING), 1.0))

    def private(self, tv: Any) -> Any:
        """Return a lower bound of 2 ln A for private reports of members at this total variation distance."""
        return self.exponent(self.constant * np.square(tv) / 8)

    def public(self, hellinger: Any) -> Any:
        """Return the same for records at this Hellinger distance that nobody hides."""
        return self.exponent(np.square(hellinger) / 2)

    def lecam(self, gap: Any, exponent: Any) -> Any:
        """Bound the worse of two risks from below, for affinities with A² = e^exponent; see docs/exactness-minimax.md."""
        loss, half = self.loss, gap / 2
        if loss.kind == "power" and loss.parameter < 1:
            return testing_error(exponent) / 2 * loss(gap)
        found = testing_error(exponent) * loss(half)
        if loss.kind == "huber":
            return np.where(gap <= loss.parameter, np.exp(exponent) * np.square(half) / 2, found)
        if loss.parameter >= 2:
            return np.maximum(found, np.exp(exponent * loss.parameter / 2) * loss(half))
        return found

    def van_trees(self, gap: Any, information: Any) -> Any:
        """Bound the squared risk on the segment between two members from below; Fisher information is that of a record, in units of it."""
        with np.errstate(over="ignore"):
            return np.square(gap / 2) / (self.n * information + INFORMATION)

    def steinberger_tv(self, gap: Any, tv: Any) -> Any:
        """Return l(δ/2)·η/2 with the η of inequality (2.3.5)."""
        return self._tested(gap, np.maximum(1 - self.slope * tv * (1 + ROUNDING), 0.0))

    def steinberger_hellinger(self, gap: Any, hellinger: Any) -> Any:
        """Return l(δ/2)·η/2 with the η of Satz 3.3."""
        return self._tested(gap, testing_error(self.public(hellinger)))

    def _tested(self, gap: Any, eta: Any) -> Any:
        return eta / 2 * self.loss(gap / 2)


class Contractions(NamedTuple):
    """How much reports about a record can tell about two members, by each of three arguments: their distances or a part of them.

    Attributes
    ----------
    tv, ratio, hellinger : number or ndarray
        Of χ² ≤ c·tv², of the ratios of the probabilities of an outcome, and of records that nobody hides. For affinities, upper bounds of
        1 − affinity; for information, upper bounds of the Fisher information on the segment, in units of the segment [−1, 1].
    """

    tv: Any
    ratio: Any
    hellinger: Any

    @property
    def best(self) -> Any:
        """The smallest, element by element."""
        return np.minimum(np.minimum(self.tv, self.ratio), self.hellinger)


def ratio_lost(ratio: Any) -> Any:
    """Bound 1 − affinity if the probabilities of every outcome have a quotient in [1/ratio, ratio]."""
    return np.square(np.sqrt(ratio) - 1) / (1 + ratio)


class Segment:
    """The members middle ± s·half for s in (0, 1]: the part of a segment between two members around its middle.

    Parameters
    ----------
    p0, p1 : ndarray, shape (X,)
        Two members.
    gain : float
        θ(p1) − θ(p0).
    """

    def __init__(self, p0: Array, p1: Array, gain: float) -> None:
        self.middle, self.half, self.gain = (p0 + p1) / 2, (p1 - p0) / 2, gain
        with np.errstate(divide="ignore", invalid="ignore"):
            slope = np.where(self.half == 0, 0.0, self.half / self.middle)
        order = np.argsort(-slope, kind="stable")
        self._tops = np.cumsum(self.middle[order]), np.cumsum(self.half[order])
        self._bottoms = np.cumsum(self.middle[order[::-1]]), -np.cumsum(self.half[order[::-1]])

    def ends(self, share: float) -> tuple[Array, Array]:
        """Return the two members of a part."""
        return self.middle - share * self.half, self.middle + share * self.half

    def measured(self, problem: Problem, shares: Array) -> tuple[Contractions, Contractions]:
        """Return bounds of 1 − affinity and of the Fisher information for each part."""
        tv = shares * float(np.abs(self.half).sum())
        ratio, s = self._ratio(problem, shares), shares[:, None]
        low, high = np.maximum(self.middle - s * self.half, 0.0), np.maximum(self.middle + s * self.half, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            apart = np.where(self.half == 0, 0.0, np.square(2 * s * self.half) / np.square(np.sqrt(low) + np.sqrt(high)))
            public = np.where(self.half == 0, 0.0, np.square(s * self.half) / np.minimum(low, high))
        affinity = Contractions(problem.constant * tv**2 / 8, ratio_lost(ratio), apart.sum(axis=1) / 2)
        with np.errstate(over="ignore"):
            return affinity, Contractions(problem.constant * tv**2 / 4, np.square((ratio - 1) / 2), public.sum(axis=1))

    def _ratio(self, problem: Problem, shares: Array) -> Array:
        """Return the largest quotient of the probabilities of an outcome: sets of large likelihood ratio are answered E times as often."""
        grown = math.expm1(problem.epsilon)
        found = np.ones(len(shares))
        for middle, half in (self._tops, self._bottoms):
            moved = shares[:, None] * half
            found = np.maximum(found, ((1 + grown * (middle + moved)) / (1 + grown * np.maximum(middle - moved, 0.0))).max(axis=1))
        return found


def testing_error(exponent: Any) -> Any:
    """Return 1 − √(1 − A²) for A² = e^exponent: no test has a smaller sum of error probabilities."""
    return np.exp(exponent) / (1 + np.sqrt(-np.expm1(exponent)))


@dataclass(eq=False, slots=True)
class Envelope:
    """A modulus on a grid of radii. It is concave in radius^power, so its tangents at solved radii lie above it.

    Attributes
    ----------
    distance : {"tv", "hellinger"}
        The distance that the radius limits.
    radii : ndarray
        The grid, ascending.
    power : int
        1 for total variation, 2 for Hellinger distance.
    solve : callable
        Finds a pair within a radius.
    above : ndarray
        An upper bound of the modulus at each radius.
    pairs : dict
        The pairs found so far, by the index of the radius.
    """

    distance: str
    radii: Array
    power: int
    solve: Callable[[float], Pair]
    above: Array
    pairs: dict[int, Pair] = field(default_factory=dict)

    def pair(self, index: int) -> Pair:
        """Return a pair within a radius of the grid."""
        if index not in self.pairs:
            found = self.pairs[index] = self.solve(float(self.radii[index]) * (1 - ROUNDING))
            places = self.radii**self.power
            steepness = found.slope if self.power == 1 else found.slope / math.sqrt(float(places[index]))
            tangent = found.value + steepness * (places - places[index])
            self.above = np.maximum(np.minimum(self.above, tangent), 0.0)
        return self.pairs[index]


def tv_envelope(model: Model, problem: Problem) -> Envelope:
    """Return the total variation modulus of a model in its standard form, around the radius that n private reports resolve."""
    radii = _grid(math.sqrt(8 / problem.n) / math.sqrt(problem.constant), 1.0)
    return Envelope("tv", radii, 1, partial(largest_difference_tv, model), np.full(PLACES, whole_range(model)))


def hellinger_envelope(model: Model, problem: Problem) -> Envelope:
    """Return the Hellinger modulus, around the radius that n open records resolve."""
    radii = _grid(math.sqrt(2 / problem.n), math.sqrt(2.0) * (1 - ROUNDING))
    return Envelope("hellinger", radii, 2, lambda radius: next(hellinger_pairs(model, radius, None)), np.full(PLACES, whole_range(model)))


def _grid(resolved: float, most: float) -> Array:
    middle = min(resolved, most)
    return np.geomspace(NARROWEST * middle, most, PLACES)


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """A bound, and the two members that prove it.

    Attributes
    ----------
    value : float
        The bound, not rounded.
    method, distance : str
        How it follows from the members.
    p0, p1 : ndarray
        The members.
    """

    value: float
    method: str
    distance: str
    p0: Array
    p1: Array


@dataclass(frozen=True, slots=True)
class Route:
    """A way to a lower bound: risk(gap, radius), vectorized, for the pairs of an envelope."""

    method: str
    envelope: Envelope
    risk: Callable[[Any, Any], Any]

    def best(self, floor: float) -> Candidate:
        """Find the largest bound. It is close to the best one if that exceeds the floor."""
        envelope, radii = self.envelope, self.envelope.radii
        index, found = _middle(radii), None
        for _ in range(MOST_PROGRAMS):
            pair = envelope.pair(index)
            value = float(self.risk(pair.value, radii[index]))
            if found is None or value > found.value:
                found = Candidate(value, self.method, envelope.distance, pair.p0, pair.p1)
            possible = self.risk(envelope.above, radii)
            index = int(possible.argmax())
            if possible[index] <= max(found.value, floor) * (1 + CLOSE):
                break
        return found or self.best(floor)


def _middle(radii: Array) -> int:
    """Return the place of the radius at which n reports begin to distinguish members."""
    return int(np.searchsorted(radii, radii[0] / NARROWEST * (1 - ROUNDING)).clip(0, PLACES - 1))


def best_candidate(model: Model, problem: Problem, method: str) -> Candidate:
    """Find the members that prove the largest bound by a method, or by any. `model` is in its standard form."""
    private, public = tv_envelope(model, problem), hellinger_envelope(model, problem)
    if method == "steinberger":
        ways = [Route(method, private, problem.steinberger_tv), Route(method, public, problem.steinberger_hellinger)]
        found = ways[0].best(0.0)
        return max(found, ways[1].best(found.value), key=_value)
    methods = [name for name in METHODS if method in ("best", name) and (name == "lecam" or problem.squared)]
    best, floor = [], 0.0
    for name in methods:
        best.append(_route(name, private, problem).best(floor))
        floor = max(floor, best[-1].value)
    if "lecam" in methods:
        best.append(Route("lecam", public, lambda gap, distance: problem.lecam(gap, problem.public(distance))).best(floor))
    for index in np.linspace(_middle(private.radii), PLACES - 1, WIDER).astype(int).tolist():
        private.pair(index)
    pairs = [*private.pairs.values(), *public.pairs.values()]
    best += [candidate for pair in pairs for candidate in _parts(Segment(pair.p0, pair.p1, pair.value), problem, methods)]
    return max(best, key=_value)


def _route(name: str, envelope: Envelope, problem: Problem) -> Route:
    if name == "lecam":
        return Route(name, envelope, lambda gap, tv: problem.lecam(gap, problem.private(tv)))
    return Route(name, envelope, lambda gap, tv: problem.van_trees(gap, problem.constant * np.square(tv) / 4))


def _parts(segment: Segment, problem: Problem, methods: list[str]) -> Iterator[Candidate]:
    """Yield the best part of a segment for each method."""
    affinity, information = segment.measured(problem, SHARES)
    gaps = segment.gain * SHARES
    for name in methods:
        measured = affinity if name == "lecam" else information
        values = problem.lecam(gaps, problem.exponent(measured.best)) if name == "lecam" else problem.van_trees(gaps, measured.best)
        index = int(np.argmax(values))
        distance = Contractions._fields[int(np.argmin([np.asarray(each)[index] for each in measured]))]
        yield Candidate(float(values[index]), name, distance, *segment.ends(float(SHARES[index])))


def _value(candidate: Candidate) -> float:
    return candidate.value
