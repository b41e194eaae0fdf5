"""The two questions of a planner, and their answers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from functools import cache
from typing import Any, Literal, Protocol

from dpcore._dataclasses import dataclass
from dpcore._error_curves import MEASURES, SIZE, STEPS, Aim, ErrorCurve, Measure, grid, least, three_digits
from dpcore._html import facts_table
from dpcore._validation import check_integer, check_real
from dpcore.errors import ParameterError, ParameterTypeError

LOOKED_BACK, BACK = 16, 16
"""Places that are tried below an answer whose curve need not fall: between a half of it and itself, and directly below."""
SLOWLY = 4
"""A curve that takes long is asked at a quarter of these places."""
WORDS: dict[Measure, str] = {"rmse": "root mean square error", "width": "width of the interval", "power": "probability of a miss"}


class Plannable(Protocol):
    """What can be planned: anything with this method."""

    @property
    def error_curve(self) -> Callable[..., ErrorCurve]:
        """A method that takes an aim, and what is assumed.

        It takes an `Aim`, and by keyword what the error depends on besides n and ε; each class documents its own. It returns a curve
        and raises `ParameterError` for a measure that the class has not.
        """
        ...


@dataclass(frozen=True, slots=True)
class Plan:
    """The least n or the least ε that meets a target, and the bound that proves it.

    Attributes
    ----------
    asked : {"n", "epsilon"}
        Which of the two was searched.
    n : int
        Number of records.
    epsilon : float
        Privacy loss ε.
    aim : Aim
        Measure, target and confidence.
    error : float
        The bound at the answer, at most the target; for "power" the probability of a miss, at most 1 − target.
    less : float
        The next smaller n or ε that was considered; NaN if there is none.
    error_at_less : float
        The bound there, above the target; NaN if there is no smaller one.
    least : bool
        Whether no smaller one meets the target, which is known where the bound never grows. Otherwise no smaller one did among those tried,
        and larger ones need not meet it either: with more records use n of them, and where more ε is allowed use this one.
    exact : bool
        Whether `error` is the error itself, at the worst case that `formula` names, and not a bound above it.
    what, formula, source : str
        What errs, the bound as a formula, and what proves it.
    details : mapping
        What is needed to reach the error, such as the δ of adaptive queries.

    Notes
    -----
    In a notebook a plan shows as a table.
    """

    asked: Literal["n", "epsilon"]
    n: int
    epsilon: float
    aim: Aim
    error: float
    less: float
    error_at_less: float
    least: bool
    exact: bool
    what: str
    formula: str
    source: str
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def _relation(self) -> str:
        return "=" if self.exact else "≤"

    def __repr__(self) -> str:
        found = f"n={self.n:,}, epsilon={self.epsilon:.6g}" if self.asked == "n" else f"epsilon={self.epsilon:g}, n={self.n:,}"
        return f"Plan({found}: {WORDS[self.aim.measure]} {self._relation} {self.error:.6g}, {self._formatted_less()})"

    def _formatted_less(self) -> str:
        if math.isnan(self.less):
            return "nothing smaller is planned"
        name, number = ("n", f"{int(self.less):,}") if self.asked == "n" else ("epsilon", f"{self.less:g}")
        return f"{self.error_at_less:.6g} at {name}={number}"

    def _repr_html_(self) -> str:
        measure, target = WORDS[self.aim.measure], self.aim.allowed
        at = f" at {self.aim.confidence:g}" if self.aim.measure == "width" else ""
        facts = [
            ("records", f"{self.n:,}"),
            ("ε", f"{self.epsilon:.6g}"),
            (f"{measure}{at}", f"{self._relation} {self.error:.6g}, of {target:.6g}"),
            ("with less", self._formatted_less()),
            ("least", "yes" if self.least else "of those tried"),
            ("formula", self.formula),
            ("source", self.source),
            *((name, f"{value:.6g}" if isinstance(value, float) else str(value)) for name, value in self.details.items()),
        ]
        return facts_table(f"Plan: {self.what}", facts)


def sample_size(
    thing: Plannable,
    *,
    rmse: float | None = None,
    width: float | None = None,
    power: float | None = None,
    confidence: float = 0.95,
    epsilon: float | None = None,
    **assumed: Any,
) -> Plan:
    r"""Find the least number of records with which an estimate is exact enough, before there are any.

    Parameters
    ----------
    thing : Plannable
        What shall be estimated, and how: a mechanism of `dpcore.local`, an estimator of `dpcore.minimax`, a design of this module, or any
        object with a method `error_curve`.
    rmse : float, optional
        Largest root mean square error, positive. Exactly one of `rmse`, `width` and `power` is required.
    width : float, optional
        Largest width of the confidence interval, positive: from its lower to its upper end.
    power : float, optional
        Least probability that a test rejects, in (0, 1).
    confidence : float, default 0.95
        Coverage of the interval, in (0, 1).
    epsilon : float, optional
        Privacy loss ε. By default that of `thing`; required where it has none.
    **assumed : object
        What the error depends on besides, such as `at=0.1`, a frequency. The method `error_curve` of each class lists its own.

    Returns
    -------
    Plan
        n, the bound of the error there and at one less, its formula and its source.

    Raises
    ------
    ParameterError, ParameterTypeError
        If an argument is wrong, or no n meets the target; the message has the smallest error that can be reached, and why.

    Notes
    -----
    The answer is a bisection: the bound meets the target at n and does not at n − 1. Where the bound never grows with n, as for all
    formulas v/n, n is the least number. Where it may, as for exact binomial intervals, smaller numbers are tried too: some between n/2 and
    n, and those directly below n.
    Cost: that of 20 to 80 bounds.

    Examples
    --------
    >>> from dpcore.local import BinaryResponse
    >>> from dpcore.planning import sample_size
    >>> sample_size(BinaryResponse(1.0), rmse=0.01)
    Plan(n=11,707, epsilon=1: root mean square error = 0.00999989, 0.0100003 at n=11,706)
    >>> sample_size(BinaryResponse(1.0), width=0.04).n
    11349
    """
    if "n" in assumed:
        raise ParameterError("n is what sample_size finds and must not be given; epsilon_for takes it")
    aim = _aim(rmse, width, power, confidence, assumed)
    curve = _curve_of(thing, aim, assumed)
    epsilon_at = _given_epsilon(curve, epsilon)
    low, high = curve.sizes
    first, size_at, last = _sizes(curve)

    @cache
    def error(place: int) -> float:
        n = size_at(place)
        return curve.error(n, epsilon_at(n))

    found = _first_met(error, aim.allowed, first, last)
    if found is None:
        where, best = _smallest(error, {last, *_doubled(first, last)})
        raise _unreachable(aim, best, f"n = {size_at(where):,}", f"n from {low:,} to {high:,}", curve.limit_in_n, known=curve.falls_in_n)
    if not curve.falls_in_n:
        found = _earlier(error, aim.allowed, first, found, curve)
    n = size_at(found)
    below = math.nan if found == first else float(size_at(found - 1))
    return _plan("n", n, epsilon_at(n), aim, curve, error(found), below, math.nan if found == first else error(found - 1))


def epsilon_for(
    thing: Plannable,
    *,
    n: int,
    rmse: float | None = None,
    width: float | None = None,
    power: float | None = None,
    confidence: float = 0.95,
    **assumed: Any,
) -> Plan:
    r"""Find the least ε with which an estimate from n records is exact enough.

    Parameters
    ----------
    thing : Plannable
        As in `sample_size`. Its own ε is not used.
    n : int
        Number of records.
    rmse, width, power : float, optional
        As in `sample_size`; exactly one is required.
    confidence : float, default 0.95
        Coverage of the interval, in (0, 1).
    **assumed : object
        As in `sample_size`.

    Returns
    -------
    Plan
        ε, the least number of three digits that meets the target, the bound of the error there and at the number before, its formula and
        its source.

    Raises
    ------
    ParameterError, ParameterTypeError
        If an argument is wrong, or no ε meets the target; the message has the smallest error that can be reached, and why.

    Notes
    -----
    The numbers are those of `dpcore plan`: 1.00, 1.01, …, 9.99 times powers of ten.
    Cost: that of about 15 bounds.

    Examples
    --------
    >>> from dpcore.local import BoundedMean
    >>> from dpcore.planning import epsilon_for
    >>> epsilon_for(BoundedMean(1.0, 0.0, 100.0), n=10_000, rmse=1.0)
    Plan(epsilon=1.1, n=10,000: root mean square error = 0.998961, 1.00652 at epsilon=1.09)
    """
    if "epsilon" in assumed:
        raise ParameterError("epsilon is what epsilon_for finds and must not be given; sample_size takes it")
    aim = _aim(rmse, width, power, confidence, assumed)
    curve = _curve_of(thing, aim, assumed)
    n = check_integer("n", n, low=curve.sizes[0], high=curve.sizes[1])
    first, last = _places(curve.epsilons)

    @cache
    def error(place: int) -> float:
        return curve.error(n, grid(place))

    if error(last) > aim.allowed:
        where, best = _valley(error, first, last, slow=curve.slow)
        if best > aim.allowed:
            tried = f"epsilon from {grid(first):g} to {grid(last):g}"
            raise _unreachable(aim, best, f"epsilon = {grid(where):g}", tried, curve.limit_in_epsilon, known=curve.falls_in_epsilon)
        last = where
    found = first if error(first) <= aim.allowed else least(lambda place: error(place) <= aim.allowed, first, last)
    if not curve.falls_in_epsilon:
        found = _earlier(error, aim.allowed, first, found, curve)
    below = math.nan if found == first else grid(found - 1)
    return _plan("epsilon", n, grid(found), aim, curve, error(found), below, math.nan if found == first else error(found - 1))


def _aim(rmse: object, width: object, power: object, confidence: object, assumed: Iterable[str]) -> Aim:
    given: dict[Measure, object] = dict(zip(MEASURES, (rmse, width, power), strict=True))
    named = [(measure, value) for measure, value in given.items() if value is not None]
    if len(named) != 1:
        what = " and ".join(measure for measure, _ in named) or ", ".join(assumed) or "none"
        raise ParameterError(f"exactly one of rmse, width (twice a half-width) and power must be given, got {what}")
    measure, value = named[0]
    confidence = check_real("confidence", confidence, low=0.0, high=1.0, include_low=False, include_high=False)
    high = 1.0 if measure == "power" else math.inf
    return Aim(measure, check_real(measure, value, low=0.0, high=high, include_low=False, include_high=False), confidence)


def _curve_of(thing: Any, aim: Aim, assumed: Mapping[str, Any]) -> ErrorCurve:
    if isinstance(thing, type) or not callable(getattr(thing, "error_curve", None)):
        got = f"the class {thing.__name__}" if isinstance(thing, type) else type(thing).__name__
        raise ParameterTypeError(
            "thing must be a mechanism, an estimator, a design of dpcore.planning, or any object with a method error_curve(aim); "
            f"got {got}. A Model is planned as planning.BinarySearch(model), a function of (n, epsilon) as planning.Recipe(function)"
        )
    _check_assumed(thing, assumed)
    curve = thing.error_curve(aim, **assumed)
    if not isinstance(curve, ErrorCurve):
        raise ParameterTypeError(f"{type(thing).__name__}.error_curve must return a planning.ErrorCurve, got {type(curve).__name__}")
    return curve


def _check_assumed(thing: Any, assumed: Mapping[str, Any]) -> None:
    import inspect

    parameters = list(inspect.signature(thing.error_curve).parameters.values())[1:]
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return
    known = [parameter.name for parameter in parameters]
    for name in assumed:
        if name not in known:
            listed = ", ".join(known) or "nothing"
            raise ParameterTypeError(f"{type(thing).__name__} is planned with {listed} besides n and epsilon, got {name}")


def _given_epsilon(curve: ErrorCurve, epsilon: object) -> Callable[[int], float]:
    """ε as a function of n."""
    if epsilon is None and curve.epsilon is None and curve.best_epsilon is not None:
        return curve.best_epsilon
    if epsilon is None:
        if curve.epsilon is None:
            raise ParameterError("epsilon must be given, because what is planned has none of its own")
        own = curve.epsilon  # as it is: that of a channel that claims no level is infinite
        return lambda _: own
    checked = check_real("epsilon", epsilon, low=curve.epsilons[0], high=curve.epsilons[1])
    return lambda _: checked


def _sizes(curve: ErrorCurve) -> tuple[int, Callable[[int], int], int]:
    """The first place, the size at a place, and the last place."""
    low, high = curve.sizes
    if not curve.slow:
        return low, int, high
    return low, _size_of_three_digits, least(lambda place: _size_of_three_digits(place + 1) > high, low - 1, 1000 + 16 * STEPS)


def _places(epsilons: tuple[float, float]) -> tuple[int, int]:
    """The first and the last place of the grid within a range of ε."""
    lowest, highest = epsilons
    places = [place for place in range(SIZE) if lowest <= grid(place) <= highest]
    if not places:
        raise ParameterError(f"epsilon must be in [{lowest:g}, {highest:g}], and no number of three digits from {grid(0):g} on is")
    return places[0], places[-1]


def _size_of_three_digits(place: int) -> int:
    """1, 2, …, 1000, 1010, …: all numbers up to 1000, and then those of three digits."""
    return place if place <= 1000 else int(three_digits(place - 1000, 3))


def _doubled(first: int, last: int) -> Iterator[int]:
    """Places from the first to the last, each twice the one before."""
    while first < last:
        yield first
        first *= 2
    yield last


def _first_met(error: Callable[[int], float], allowed: float, first: int, last: int) -> int | None:
    """A place that meets while the one before it does not; found by doubling and bisection."""
    low = first - 1
    for place in _doubled(first, last):
        if error(place) <= allowed:
            return least(lambda at: error(at) <= allowed, low, place)
        low = place
    return None


def _earlier(error: Callable[[int], float], allowed: float, first: int, found: int, curve: ErrorCurve) -> int:
    """The same, or an earlier one, if a place below meets too: the bound need not fall."""
    share = SLOWLY if curve.slow else 1
    steps = LOOKED_BACK // share
    while True:
        tried = {max(first, found - back) for back in range(2, BACK // share + 2)}
        tried |= {max(first, found - found * step // (2 * steps)) for step in range(1, steps + 1)}
        met = sorted(place for place in tried if place < found and error(place) <= allowed)
        if not met:
            return found
        low = met[0] - 1
        found = met[0] if low < first or error(low) > allowed else least(lambda at: error(at) <= allowed, first - 1, low)


def _smallest(error: Callable[[int], float], places: Iterable[int]) -> tuple[int, float]:
    """The smallest error at some places, and where; the latest of those with the smallest."""
    return min(((place, error(place)) for place in places), key=lambda pair: (pair[1], -pair[0]))


def _valley(error: Callable[[int], float], first: int, last: int, *, slow: bool) -> tuple[int, float]:
    """The smallest error of a curve that falls and rises, and where: among distant places, and then about the best of these."""
    step = STEPS // (SLOWLY if slow else LOOKED_BACK)
    where, best = _smallest(error, range(last, first - 1, -step))
    while step > 1 and not math.isinf(best):
        step //= 2
        around = (max(first, where - step), where, min(last, where + step))
        where, best = _smallest(error, around)
    return where, best


def _unreachable(aim: Aim, best: float, where: str, tried: str, why: str, *, known: bool) -> ParameterError:
    by = f"no {tried}" if known else f"none that was tried of the {tried}"
    if best >= (1.0 if aim.measure == "power" else math.inf):
        reached = "nothing is proved for any of them"
    elif aim.measure == "power":
        reached = f"the best is power {1 - best:.4g}, a miss with probability {best:.3g}, at {where}"
    else:
        reached = f"the best is {aim.measure} {best:.4g} at {where}"
    return ParameterError(f"{aim.measure}={aim.target!r} is met by {by}: {reached}. What remains: {why}")


def _plan(
    asked: Literal["n", "epsilon"], n: int, epsilon: float, aim: Aim, curve: ErrorCurve, error: float, less: float, error_at_less: float
) -> Plan:
    falls = curve.falls_in_n if asked == "n" else curve.falls_in_epsilon
    known = (falls and not (asked == "n" and curve.slow)) or math.isnan(less)
    details = {} if curve.details is None else dict(curve.details(n, epsilon))
    return Plan(asked, n, epsilon, aim, error, less, error_at_less, known, curve.exact, curve.what, curve.formula, curve.source, details)
