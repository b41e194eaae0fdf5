"""Projective spaces over finite fields: how many points they have, the tables of the fields, and which space suits ε and k."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from dpcore._backend import ProjectiveSpace
from dpcore._dataclasses import dataclass
from dpcore._exact.probability import Probability, inclusion, logistic_complement
from dpcore.local._categories import fraction

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    Table = npt.NDArray[np.uint16]

MOST_POINTS = 2**25
"""Counts of all points take 8 bytes each, and as much twice more while they become estimates."""
AROUND = 3
"""Orders that are tried on each side of e^ε + 1: fewer points make up for an order that is a little farther from it."""
LARGEST_WITH_SUMS = 2**10
"""Order up to which fields that are not those of the integers modulo a prime are used: sums are a table of its square."""


def points_of(q: int, t: int) -> int:
    """(q^t − 1)/(q − 1)."""
    count: int = (q**t - 1) // (q - 1)
    return count


def factors(q: int) -> tuple[int, int] | None:
    """(p, m) with q = p^m for a prime p, or None."""
    p = next((d for d in range(2, math.isqrt(q) + 1) if q % d == 0), q)
    m, rest = 0, q
    while rest % p == 0:
        m, rest = m + 1, rest // p
    return (p, m) if rest == 1 and q > 1 else None


def is_order(q: int) -> bool:
    """Whether q is the order of a field that is used."""
    found = factors(q)
    return found is not None and (found[1] == 1 or q <= LARGEST_WITH_SUMS)


@dataclass(frozen=True, slots=True)
class Geometry:
    """Points and hyperplanes, each of which stands for a category; on a line they are the points themselves.

    Attributes
    ----------
    q, t : int
        Elements of the field, and coordinates of a point. On a line t is 2, and q = points − 1 need not be a field's.
    points : int
        (q^t − 1)/(q − 1).
    hyperplane : int
        Points of each hyperplane, (q^(t − 1) − 1)/(q − 1).
    common : int
        Points of two of them, (q^(t − 2) − 1)/(q − 1).
    """

    q: int
    t: int
    points: int
    hyperplane: int
    common: int

    @staticmethod
    def of(q: int, t: int) -> Geometry:
        """The space of vectors of t elements of a field of q."""
        return Geometry(q, t, *(points_of(q, t - i) for i in range(3)))

    def support(self, epsilon: float) -> tuple[Probability, Probability]:
        """Probabilities that a report lies on the hyperplane of its category, and on another one."""
        others = self.hyperplane - self.common
        shared = Probability(
            Fraction(others), Fraction(self.common), Fraction(self.points - self.hyperplane), Fraction(self.hyperplane), Fraction(epsilon)
        )
        return inclusion(epsilon, self.points, self.hyperplane), shared

    def variance(self, epsilon: float) -> Fraction:
        """q(1 − q)/(p − q)² of these probabilities, up to 2^−250 of its size."""
        p, q = (fraction(x) for x in self.support(epsilon))
        return q * (1 - q) / (p - q) ** 2


def candidates(epsilon: float, k: int) -> Iterator[Geometry]:
    """The line, and for each t some orders on both sides of e^ε + 1 whose space is large enough, and not too large."""
    yield Geometry(k - 1, 2, k, 1, 0)
    ideal = 1 / fraction(logistic_complement(epsilon))
    for t in range(3, k.bit_length() + 2):
        least = next(q for q in range(max(2, int(k ** (1 / (t - 1))) - 2), k + 2) if points_of(q, t) >= k and is_order(q))
        middle = min(max(least, math.floor(ideal)), math.isqrt(MOST_POINTS))
        below = islice(filter(is_order, range(middle, least - 1, -1)), AROUND)
        above = islice(filter(is_order, range(middle + 1, 2**16)), AROUND)
        yield from (Geometry.of(q, t) for q in {least, *below, *above} if points_of(q, t) <= MOST_POINTS)


@lru_cache(maxsize=256)
def best_geometry(epsilon: float, k: int) -> Geometry:
    """The one whose reports estimate a category of frequency 0 best; the one with fewer points of equals."""
    return min(candidates(epsilon, k), key=lambda space: (space.variance(epsilon), space.points))


@lru_cache(maxsize=32)
def space_of(q: int, t: int) -> ProjectiveSpace:
    """The space with the tables of its field."""
    p, m = _factors(q)
    powers = _powers_of_prime(q) if m == 1 else _powers(p, m)
    log, exp = np.zeros(q, np.uint16), np.resize(np.array(powers, np.uint16), 2 * q)
    log[powers] = np.arange(q - 1)
    return ProjectiveSpace(q, t, p - 1, log, exp, None if m == 1 else _sums(p, m))


def incidence(space: ProjectiveSpace, first: int, stop: int) -> npt.NDArray[np.bool_]:
    """Whether each point, a column, lies on the hyperplanes of the categories from `first` on; by inner products, entry for entry."""
    points = vectors_of(space.q, space.t)
    inner = np.zeros((stop - first, len(points)), np.uint16)
    for a, b in zip(points[first:stop, ::-1].T, points.T, strict=True):
        product = space.exp[space.log[a][:, None].astype(np.int64) + space.log[b]]
        product = np.where((a[:, None] == 0) | (b == 0), np.uint16(0), product)
        if space.sums is None:
            inner = ((inner.astype(np.int64) + product) % space.q).astype(np.uint16)
        else:
            inner = space.sums[space.q * inner.astype(np.int64) + product]
    found: npt.NDArray[np.bool_] = inner == 0
    return found


def vectors_of(q: int, t: int) -> npt.NDArray[np.uint16]:
    """The points in the order of their numbers, shape (K, t): any m elements, the first one changes fastest, a one, and zeros."""
    rows = []
    for m in range(t):
        block = np.zeros((q**m, t), np.uint16)
        block[:, m] = 1
        for i in range(m):
            block[:, i] = np.arange(q**m) // q**i % q
        rows.append(block)
    return np.concatenate(rows)


def _factors(q: int) -> tuple[int, int]:
    found = factors(q)
    if found is None:
        raise AssertionError(f"{q} is not the power of a prime")
    return found


def _powers_of_prime(p: int) -> list[int]:
    """Powers 0 … p − 2 of the least number that gives all residues but 0."""
    for g in range(1, p):
        powers = [1]
        while (further := powers[-1] * g % p) != 1:
            powers.append(further)
        if len(powers) == p - 1:
            return powers
    raise AssertionError("a prime has a primitive root")


def _powers(p: int, m: int) -> list[int]:
    """Powers 0 … q − 2 of x modulo the first monic polynomial of degree m for which they are all elements but 0."""
    q = p**m
    for low in range(1, q):  # the polynomial is x^m + low, digit by digit
        tail = [-(low // p**i) % p for i in range(m)]
        powers, digits = [1], [1, *[0] * (m - 1)]
        while True:
            top = digits[-1]
            digits = [(shifted + top * c) % p for shifted, c in zip([0, *digits[:-1]], tail, strict=True)]
            value = sum(digit * p**i for i, digit in enumerate(digits))
            if value in {0, 1} or len(powers) == q - 1:
                break
            powers.append(value)
        if value == 1 and len(powers) == q - 1:
            return powers
    raise AssertionError("a field has a primitive polynomial")


def _sums(p: int, m: int) -> Table:
    """a + b at qa + b, digit by digit modulo p."""
    a, total = np.arange(p**m), np.zeros((p**m, p**m), np.int64)
    for i in range(m):
        digit = a // p**i % p
        total += (digit[:, None] + digit) % p * p**i
    return total.astype(np.uint16).reshape(-1)
