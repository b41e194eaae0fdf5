"""Scales of a top-s selection: from its parameters to the least noise that composition shows to be enough."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import Literal

import numpy as np

from dpcore import accounting
from dpcore._dataclasses import dataclass
from dpcore._exact.intervals import log_up
from dpcore._spread import tail_of
from dpcore._validation import check_choice, check_positive, check_real, check_sensitivity
from dpcore.accounting.scales import quotient_up
from dpcore.errors import ParameterError, ParameterTypeError
from dpcore.noise import FLOAT_SCALE
from dpcore.privacy import Privacy, Relation

Method = Literal["gumbel", "peeling", "oneshot_laplace"]
METHODS = ("gumbel", "peeling", "oneshot_laplace")
ONESHOT_EPSILON, ONESHOT_DELTA = 0.2, 0.05
"""The theorem of Qiao, Su & Zhang (2021) holds below these."""


def check_scale(scale: float, epsilon: float, sensitivity: float) -> float:
    low, high = FLOAT_SCALE
    if not low <= scale <= high:
        raise ParameterError(
            f"epsilon={epsilon!r} and sensitivity={sensitivity!r} must give a noise scale in [2**-960, 2**960], got scale {scale!r}"
        )
    return scale


def spread(relation: Relation, *, monotone: bool) -> int:
    """How far apart two scores can move, in sensitivities."""
    check_choice("relation", relation, ("replace", "add_remove"))
    if not isinstance(monotone, bool | np.bool_):
        raise ParameterTypeError(f"monotone must be a bool, got {monotone!r}")
    if monotone and relation == "replace":
        raise ParameterError(
            "monotone=True needs relation='add_remove': when a record is replaced, scores can move in opposite directions, got 'replace'"
        )
    return 1 if monotone else 2


def argmax_scale(epsilon: float, sensitivity: float, draws: int, relation: Relation, *, monotone: bool) -> float:
    """Scale of the noise of an argmax: twice the sensitivity, or the sensitivity if monotone, over ε for each of so many draws."""
    plain = type(epsilon) is float and type(sensitivity) is float and type(relation) is str and type(monotone) is bool
    return (_kept_argmax_scale if plain else _argmax_scale)(epsilon, sensitivity, draws, relation, monotone)


def _argmax_scale(epsilon: float, sensitivity: float, draws: int, relation: Relation, monotone: bool) -> float:
    factor = draws * spread(relation, monotone=monotone)
    epsilon, sensitivity = check_positive("epsilon", epsilon), check_sensitivity(sensitivity)
    return check_scale(quotient_up(sensitivity, epsilon, factor), epsilon, sensitivity)


_kept_argmax_scale = lru_cache(maxsize=1024)(_argmax_scale)


def shortfall(method: Method, scale: float, size: int, s: int, confidence: float) -> float:
    r"""Return how far each of s chosen of so many candidates is at most below the s-th best, at a confidence, rounded up.

    A chosen candidate is t or more below the s-th best only if its noise is t above that of one of the s best which is left: in each of s
    picks one of at most d candidates, for "oneshot_laplace" one of at most d·s pairs. With unit scale the difference of two Gumbel
    variables is above t with probability 1/(1 + e^t) ≤ e^(−t), that of two Laplace variables with (1 + t/2)e^(−t)/2. So t = ln(d·s/β) is
    enough for Gumbel noise, and the t with t = ln(d·s/2β) + ln(1 + t/2) for Laplace noise.
    """
    if s == size:  # nothing is left out
        return 0.0
    beta, pairs = tail_of(confidence), size * s
    width = math.log(pairs / beta)
    if method != "gumbel":
        least = math.log(pairs / (2 * beta))
        width = 2 * least + 2  # above the solution, and so is all that follows
        for _ in range(60):
            width = least + math.log1p(width / 2)
    return scale * width * (1 + 2.0**-40)  # far more than the roundings before


@dataclass(frozen=True, slots=True)
class Request:
    """The parameters of `top_s`, checked."""

    s: int
    epsilon: float
    sensitivity: float
    delta: float
    spread: int
    value_share: float
    has_values: bool
    relation: Relation

    def uses(self, method: Method, scale: float, value_scale: float) -> list[accounting.Uses]:
        """The uses of noise by the rounds and the values at these scales."""
        pick = quotient_up(self.sensitivity, scale, self.spread)
        uses = [accounting.Uses("bounded_range" if method == "gumbel" else "pure", uses=self.s, epsilon=pick)]
        if self.has_values:
            uses.append(accounting.Uses("laplace", uses=self.s, epsilon=quotient_up(self.sensitivity, value_scale)))
        return uses

    def is_within_basic(self, scale: float, value_scale: float) -> bool:
        """Whether the ε of all picks and values sum to at most the given one: exactly, without the roundings of `uses`."""
        from fractions import Fraction

        spent = Fraction(self.spread) / Fraction(scale) + (1 / Fraction(value_scale) if self.has_values else 0)
        return self.s * Fraction(self.sensitivity) * spent <= Fraction(self.epsilon)


@dataclass(frozen=True, slots=True)
class Plan:
    """The scales, and the rule that shows that they are enough."""

    scale: float
    value_scale: float
    rule: str


@lru_cache(maxsize=1024)
def make_plan(method: Method, scale: float | Literal["calibrated"] | None, request: Request, d: int) -> Plan:
    if method == "oneshot_laplace":
        return _oneshot_plan(scale, request, d)
    if scale is None and method == "peeling" and request.delta > 0:
        return _checked_plan(method, _peeling_scale(request), request, "the formula 2Δ√(3 s ln(1/δ))/ε")
    if scale is None or scale == "calibrated":
        return _calibrated_plan(method, request)
    return _checked_plan(method, scale, request, f"scale={scale!r}")


def check_given_scale(scale: object) -> float | Literal["calibrated"] | None:
    if scale is None:
        return None
    if isinstance(scale, str):
        check_choice("scale", scale, ("calibrated",))
        return "calibrated"
    return check_real("scale", scale, low=FLOAT_SCALE[0], high=FLOAT_SCALE[1])


def _peeling_scale(request: Request) -> float:
    """b = 2λ√(3 s ln(1/δ))/ε of Private inference (chapter 9), Algorithm 9.2.2."""
    scale = 2 * request.sensitivity * math.sqrt(3 * request.s * log_up(1 / Fraction(request.delta))) / request.epsilon
    return check_scale(scale, request.epsilon, request.sensitivity)


def _checked_plan(method: Method, scale: float, request: Request, what: str) -> Plan:
    if request.is_within_basic(scale, scale):
        return Plan(scale, scale, "basic")
    found = accounting.compose(request.uses(method, scale, scale), request.delta)
    if not found.privacy.epsilon <= request.epsilon:
        raise ParameterError(
            f"{what} gives b = {scale!r}, for which composition shows epsilon = {found.privacy.epsilon!r} at delta = {request.delta!r}, "
            f"not epsilon={request.epsilon!r}; scale='calibrated' finds the least b that it shows"
        )
    return Plan(scale, scale, found.rule)


def _calibrated_plan(method: Method, request: Request) -> Plan:
    """The least noise: "gumbel" splits each ε between picks and values by `value_share`, "peeling" has one b for both."""
    share = request.value_share if request.has_values and method == "gumbel" else 0.0

    def scales(size: float) -> tuple[float, float]:
        if not share:
            return size, size
        return size * request.spread / (1 - share), size / share

    if request.delta == 0.0:
        size, rule = _basic_size(method, request, scales), "basic"
    else:
        target = Privacy(request.epsilon, request.delta, request.relation)
        start = request.s * request.sensitivity / request.epsilon
        found = accounting.least_scale(lambda size: request.uses(method, *scales(size)), target, start=start)
        size, rule = found.parameter, found.rule
    scale, value_scale = (check_scale(b, request.epsilon, request.sensitivity) for b in scales(size))
    return Plan(scale, value_scale, rule)


def _basic_size(method: Method, request: Request, scales: Callable[[float], tuple[float, float]]) -> float:
    """The size at which the ε of all picks and values sum to the given one, rounded up."""
    in_shares = method == "gumbel" and request.has_values  # a pick and a value then cost Δ/size together
    factor = request.s * (1 if in_shares else request.spread + request.has_values)
    size = quotient_up(request.sensitivity, request.epsilon, factor)
    while size < math.inf and not request.is_within_basic(*scales(size)):
        size = math.nextafter(size, math.inf)
    return size


def _oneshot_plan(scale: object, request: Request, d: int) -> Plan:
    """Scale of Qiao, Su & Zhang (2021); values take their share of ε and of δ."""
    if scale is not None:
        raise ParameterError(f"scale must be None for method='oneshot_laplace', whose theorem gives it, got {scale!r}")
    if request.spread != 2:
        raise ParameterError("monotone must be False for method='oneshot_laplace', whose theorem does not use it, got True")
    if not request.epsilon < ONESHOT_EPSILON:
        raise ParameterError(f"epsilon must be in (0, {ONESHOT_EPSILON}) for method='oneshot_laplace', got {request.epsilon!r}")
    if not 0.0 < request.delta < ONESHOT_DELTA:
        raise ParameterError(f"delta must be in (0, {ONESHOT_DELTA}) for method='oneshot_laplace', got {request.delta!r}")
    share = request.value_share if request.has_values else 0.0
    epsilon, delta = math.nextafter(request.epsilon * (1 - share), 0.0), math.nextafter(request.delta * (1 - share), 0.0)
    b = 8 * request.sensitivity * math.sqrt(request.s * log_up(Fraction(d) / Fraction(delta))) / epsilon
    b = check_scale(b * (1 + 2.0**-45), request.epsilon, request.sensitivity)  # more than the rounding of the line before
    if not share:
        return Plan(b, b, "qiao-su-zhang")
    rest = Privacy(math.nextafter(request.epsilon * share, 0.0), math.nextafter(request.delta * share, 0.0), request.relation)
    found = accounting.calibrate(rest, "laplace", uses=request.s, sensitivity=request.sensitivity)
    return Plan(b, check_scale(found.parameter, request.epsilon, request.sensitivity), "qiao-su-zhang")
