"""Analysts who choose each release after seeing the answers before it, and the exact privacy of all they see.

Everything is rational: a mechanism is the pair of its laws on two neighbouring data sets, a strategy is played out over every sequence of
answers. Nothing here knows how a ledger adds up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from dpcore import Privacy
from dpcore.accounting import Uses

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Grants = Callable[[tuple["Mechanism", ...]], bool]

NOTHING = Fraction(0)


@dataclass(frozen=True)
class Mechanism:
    """Laws of the answer on one data set and on its neighbour, and what the release costs."""

    name: str
    laws: tuple[tuple[Fraction, Fraction], ...]
    amount: Any


def above(exact: Fraction) -> float:
    """A float64 a little above a number, as it is and as it is written."""
    return math.nextafter(math.nextafter(float(exact), math.inf), math.inf)


def randomised_response(odds: Fraction, failure: Fraction = NOTHING) -> Mechanism:
    """The worst (ln odds, failure)-private mechanism: it tells the data set by chance, or with these odds."""
    likely, unlikely = (1 - failure) * odds / (1 + odds), (1 - failure) / (1 + odds)
    laws = [(likely, unlikely), (unlikely, likely)]
    if failure:
        laws += [(failure, NOTHING), (NOTHING, failure)]
    epsilon = 0.0 if odds == 1 else above(Fraction(Decimal(math.log(odds))))
    return Mechanism(f"odds {odds}, failure {failure}", tuple(laws), Privacy(epsilon, above(failure) if failure else 0.0))


def exponential(epsilon: float) -> Fraction:
    """e^ε, to fifty digits."""
    return Fraction(Context(prec=50).exp(Decimal(epsilon)))


class Worst:
    """The largest true δ at ε of any strategy that uses mechanisms of a menu, in any order, as long as they are granted.

    The analyst wants to tell the first data set from the second; that the laws of a menu come in both orders covers the other way.
    """

    def __init__(self, menu: Sequence[Mechanism], granted: Grants, epsilon: float, steps: int) -> None:
        self._menu, self._granted, self._bound, self._steps = tuple(menu), granted, exponential(epsilon), steps
        self._known: dict[Any, Fraction] = {}

    def delta(self) -> Fraction:
        """Σ over sequences of answers of (P − e^ε·Q)₊, for the best strategy."""
        return self._best(Fraction(1), Fraction(1), ())

    def _best(self, here: Fraction, there: Fraction, used: tuple[Mechanism, ...]) -> Fraction:
        if not here:
            return NOTHING
        # All that matters of the past is the likelihood ratio and what was used: the value scales with the probability.
        state = (there / here, tuple(sorted(mechanism.name for mechanism in used)))
        if state not in self._known:
            self._known[state] = self._value(there / here, used)
        return here * self._known[state]

    def _value(self, ratio: Fraction, used: tuple[Mechanism, ...]) -> Fraction:
        best = max(1 - self._bound * ratio, NOTHING)
        if len(used) < self._steps:
            for mechanism in self._menu:
                after = (*used, mechanism)
                if self._granted(after):
                    best = max(best, sum((self._best(p, ratio * q, after) for p, q in mechanism.laws), NOTHING))
        return best


def played(choose: Callable[[tuple[int, ...]], Mechanism | None], granted: Grants, epsilon: float) -> Fraction:
    """The true δ at ε of one strategy: what it chooses after each sequence of answers; None, or a refusal, ends it."""
    bound = exponential(epsilon)

    def value(history: tuple[int, ...], used: tuple[Mechanism, ...], here: Fraction, there: Fraction) -> Fraction:
        mechanism = choose(history)
        if mechanism is None or not granted((*used, mechanism)):
            return max(here - bound * there, NOTHING)
        answers = enumerate(mechanism.laws)
        return sum((value((*history, i), (*used, mechanism), here * p, there * q) for i, (p, q) in answers), NOTHING)

    return value((), (), Fraction(1), Fraction(1))


def repeated(odds: Fraction, times: int) -> Mechanism:
    """So many randomised responses at once, by the number of answers that are right."""
    single = randomised_response(odds)
    right, wrong = single.laws[0]
    ways = [math.comb(times, j) for j in range(times + 1)]
    laws = [(ways[j] * right**j * wrong ** (times - j), ways[j] * wrong**j * right ** (times - j)) for j in range(times + 1)]
    return Mechanism(f"{times} responses of odds {odds}", tuple(laws), Uses("pure", uses=times, epsilon=single.amount.epsilon))
