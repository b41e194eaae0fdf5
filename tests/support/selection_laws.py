"""Exact probabilities of the selection methods, written from the definitions: softmax, integrals in closed form, enumeration.

Nothing here knows how the kernels work. Scores are divided by the noise's scale first, so that all noise has unit scale. Arithmetic is
mpmath's with `DIGITS` digits; results are good to far more than the 10^-12 that the tests of ε ask for.
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import lru_cache, reduce
from typing import Any

import mpmath

DIGITS = 60
Number = Any  # mpmath.mpf
Units = tuple[Number, ...]
"""Scores in units of the noise's scale."""
Sequence_ = tuple[int, ...]
Law = dict[Sequence_, Number]
"""Probability of every sequence of selected indices."""


def units(scores: Sequence[float], scale: float | Fraction) -> Units:
    """Scores over the scale, from exact fractions."""
    with mpmath.workdps(DIGITS):
        shares = [Fraction(score) / Fraction(scale) for score in scores]
        return tuple(mpmath.mpf(share.numerator) / share.denominator for share in shares)


# Functions that are sums of t^m e^(kt) between knots

Terms = dict[tuple[int, int], Number]
"""{(m, k): c} stands for the sum of c t^m e^(kt)."""


class Piecewise:
    """A function of t that is a sum of such terms on each piece between `knots`, the first piece from −∞, the last one to ∞."""

    def __init__(self, knots: tuple[Number, ...], pieces: Sequence[Terms]) -> None:
        assert len(pieces) == len(knots) + 1
        self.knots, self.pieces = knots, list(pieces)

    @classmethod
    def of(cls, knots: tuple[Number, ...], at: Number, below: Terms, above: Terms) -> Piecewise:
        """One form below the knot `at`, another above."""
        return cls(knots, [above if at <= left else below for left in (-mpmath.inf, *knots)])

    def __mul__(self, other: Piecewise) -> Piecewise:
        return Piecewise(self.knots, [_product(a, b) for a, b in zip(self.pieces, other.pieces, strict=True)])

    def above(self) -> Piecewise:
        """The integral from t to ∞ as a function of t; it must exist."""
        pieces, rest = [], mpmath.mpf(0)
        for i in reversed(range(len(self.pieces))):
            primitive = _primitive(self.pieces[i])
            right = self.knots[i] if i < len(self.knots) else mpmath.inf
            piece = {key: -c for key, c in primitive.items()}
            piece[0, 0] = piece.get((0, 0), mpmath.mpf(0)) + _value(primitive, right) + rest
            pieces.append(piece)
            if i:
                rest = _value(piece, self.knots[i - 1])
        return Piecewise(self.knots, pieces[::-1])

    def integral(self) -> Number:
        """The integral over all t."""
        return _value(self.above().pieces[0], -mpmath.inf)

    def __call__(self, t: Number) -> Number:
        return _value(self.pieces[bisect_right(self.knots, t)], t)


def _product(a: Terms, b: Terms) -> Terms:
    product: Terms = defaultdict(lambda: mpmath.mpf(0))
    for (m, k), c in a.items():
        for (n, j), e in b.items():
            product[m + n, k + j] += c * e
    return {key: c for key, c in product.items() if c}


def _primitive(terms: Terms) -> Terms:
    primitive: Terms = defaultdict(lambda: mpmath.mpf(0))
    for (m, k), c in terms.items():
        if k == 0:
            primitive[m + 1, 0] += c / (m + 1)
            continue
        for i in range(m + 1):
            primitive[m - i, k] += c * (-1) ** i * math.perm(m, i) / mpmath.mpf(k) ** (i + 1)
    return dict(primitive)


def _value(terms: Terms, t: Number) -> Number:
    if not mpmath.isinf(t):
        return mpmath.fsum(c * t**m * mpmath.exp(k * t) for (m, k), c in terms.items())
    # in the limit falling exponentials vanish, and what grows must have cancelled: no integral of a density diverges
    assert all((m, k) == (0, 0) or k * t < 0 for (m, k), c in terms.items() if c)
    return terms.get((0, 0), mpmath.mpf(0))


def _parts(kind: str, knots: tuple[Number, ...], at: Number) -> tuple[Piecewise, Piecewise]:
    """Density and distribution function of `at` plus noise."""
    fall = {(0, -1): mpmath.exp(at)}
    if kind == "exponential":
        return Piecewise.of(knots, at, {}, fall), Piecewise.of(knots, at, {}, {(0, 0): mpmath.mpf(1), (0, -1): -mpmath.exp(at)})
    assert kind == "laplace"
    half_fall, half_rise = {(0, -1): mpmath.exp(at) / 2}, {(0, 1): mpmath.exp(-at) / 2}
    return (
        Piecewise.of(knots, at, half_rise, half_fall),
        Piecewise.of(knots, at, half_rise, {(0, 0): mpmath.mpf(1), (0, -1): -mpmath.exp(at) / 2}),
    )


def _one_shot(kind: str, u: Units, chosen: Sequence_) -> Number:
    """P(the largest of u + noise are `chosen`, in this order): nested integrals from the least chosen upwards."""
    knots = tuple(sorted(set(u)))
    parts = [_parts(kind, knots, x) for x in u]
    one = Piecewise(knots, [{(0, 0): mpmath.mpf(1)}] * (len(knots) + 1))
    longer = one  # as a function of t: P(key_1 > key_2 > … > t)
    for r in chosen[:-1]:
        longer = (parts[r][0] * longer).above()
    others = (parts[j][1] for j in range(len(u)) if j not in chosen)
    return reduce(Piecewise.__mul__, others, parts[chosen[-1]][0] * longer).integral()


# The methods


def softmax(u: Units) -> list[Number]:
    """P(r) ∝ exp(u_r)."""
    weights = [mpmath.exp(x - max(u)) for x in u]
    return [w / mpmath.fsum(weights) for w in weights]


@lru_cache(maxsize=4096)
def _argmax(kind: str, u: Units) -> tuple[Number, ...]:
    with mpmath.workdps(DIGITS):
        if kind == "gumbel":
            return tuple(softmax(u))
        return tuple(_one_shot(kind, u, (r,)) for r in range(len(u)))


def argmax_law(kind: str, u: Units) -> Law:
    """P(r is the largest of u + noise), noise "gumbel", "laplace" or "exponential"."""
    return {(r,): p for r, p in enumerate(_argmax(kind, u))}


def peeling_law(kind: str, u: Units, s: int) -> Law:
    """Sequences of s rounds, each with fresh noise on what has not been chosen yet: products of the rounds' probabilities."""
    law: Law = {}
    with mpmath.workdps(DIGITS):
        for chosen in itertools.permutations(range(len(u)), s):
            p = mpmath.mpf(1)
            for i, r in enumerate(chosen):
                left = [j for j in range(len(u)) if j not in chosen[:i]]
                p *= _argmax(kind, tuple(u[j] for j in left))[left.index(r)]
            law[chosen] = p
    return law


def one_shot_law(kind: str, u: Units, s: int) -> Law:
    """Sequences of the s largest of u + noise, drawn once."""
    if kind == "gumbel":
        return peeling_law(kind, u, s)  # the theorem; `gumbel_order` below checks it by integration
    with mpmath.workdps(DIGITS):
        return {chosen: _one_shot(kind, u, chosen) for chosen in itertools.permutations(range(len(u)), s)}


def gumbel_order(u: Units) -> Number:
    """P(u_0 + G_0 > u_1 + G_1 > the others), by numerical integration: independent of the theorem that peeling gives it."""
    with mpmath.workdps(30):
        rest = mpmath.fsum(mpmath.exp(x) for x in u[2:])

        def density(t: Number) -> Number:
            own = mpmath.exp(u[1] - t)
            return own * mpmath.exp(-own) * mpmath.exp(-rest * mpmath.exp(-t)) * -mpmath.expm1(-mpmath.exp(u[0] - t))

        middle = max(u)
        return mpmath.quad(density, [middle + x for x in (-40, -8, -4, -2, -1, 0, 1, 2, 4, 8, 16, 40, 90)])


def permute_and_flip_law(u: Units) -> Law:
    """The algorithm as it is defined: in random order, take r with probability exp(u_r − max u), until one is taken."""
    with mpmath.workdps(DIGITS):
        take = [mpmath.exp(x - max(u)) for x in u]
        law: Law = {}
        for r in range(len(u)):
            others, total = [j for j in range(len(u)) if j != r], mpmath.mpf(0)
            for n in range(len(u)):
                orders = mpmath.mpf(math.factorial(n) * math.factorial(len(u) - 1 - n)) / math.factorial(len(u))
                total += orders * mpmath.fsum(mpmath.fprod(1 - take[j] for j in before) for before in itertools.combinations(others, n))
            law[r,] = take[r] * total
    return law


def expected_score(law: Law, scores: Sequence[float]) -> Number:
    """Mean score of what an argmax law selects."""
    with mpmath.workdps(DIGITS):
        return mpmath.fsum(p * mpmath.mpf(scores[r]) for (r,), p in law.items())


# Neighbours


def moves(d: int, sensitivity: float, *, together: bool) -> Iterator[tuple[float, ...]]:
    """Ways in which the scores of a neighbour differ: all of {−Δ, 0, Δ}^d, or only those in which all scores move the same way.

    Beyond d = 3 the corners {−Δ, Δ}^d stand for all of it; for an argmax they are the worst.
    """
    if together:
        for direction in (-sensitivity, sensitivity):
            yield from itertools.product((0.0, direction), repeat=d)
    else:
        yield from itertools.product((-sensitivity, 0.0, sensitivity) if d <= 3 else (-sensitivity, sensitivity), repeat=d)


def largest_log_ratio(law_of: Callable[[Sequence[float]], Law], scores: Sequence[float], sensitivity: float, *, together: bool) -> float:
    """Largest |ln P(A | scores)/P(A | neighbour)| over outcomes A and the neighbours of `moves`."""
    here, most = law_of(scores), mpmath.mpf(0)
    with mpmath.workdps(DIGITS):
        for move in moves(len(scores), sensitivity, together=together):
            there = law_of([x + m for x, m in zip(scores, move, strict=True)])
            most = max(most, *(abs(mpmath.log(p / there[outcome])) for outcome, p in here.items()))
    return float(most)
