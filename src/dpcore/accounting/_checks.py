"""Checks of the parameters of `dpcore.accounting`, and exact sums of them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from dpcore._validation import TINY_NORMAL, check_integer, check_real
from dpcore.errors import ParameterError, ParameterTypeError
from dpcore.privacy import Privacy

if TYPE_CHECKING:
    from collections.abc import Iterable
    from fractions import Fraction

    from dpcore.privacy import Relation

MOST_USES = 10**18


def check_open_delta(name: str, delta: object) -> float:
    """Return a failure mass as a float in (0, 1), else raise."""
    return check_real(name, delta, low=0.0, high=1.0, include_low=False, include_high=False)


def check_delta(name: str, delta: object) -> float:
    """Return a failure mass as a float in [0, 1), else raise."""
    return check_real(name, delta, low=0.0, high=1.0, include_high=False)


def check_nonnegative(name: str, value: object) -> float:
    """Return `value` as a finite float ≥ 0, else raise."""
    return check_real(name, value, low=0.0, high=math.inf, include_high=False)


def check_loss(name: str, value: object, *, high: float = math.inf) -> float:
    """Return a privacy loss of a release, in [0, high), as a float rounded up, else raise. Limits are rounded down instead."""
    return check_real(name, value, low=0.0, high=high, include_high=False, rounding="up")


def check_noise_scale(scale: object) -> float:
    """Return the scale of given noise, positive and normal, as a float rounded down, else raise: less noise protects less."""
    return check_real("scale", scale, low=TINY_NORMAL, high=math.inf, include_high=False, rounding="down")


def check_uses(uses: object) -> int:
    """Return a number of uses, at least 1, else raise."""
    return check_integer("uses", uses, low=1, high=MOST_USES)


def check_privacy(name: str, value: object) -> Privacy:
    """Return `value` if it is a guarantee, else raise."""
    if not isinstance(value, Privacy):
        raise ParameterTypeError(f"{name} must be a dpcore.Privacy, got {value!r}")
    return value


def check_parts(parts: Iterable[Privacy]) -> tuple[tuple[Privacy, ...], Relation]:
    """Return guarantees and their relation, else raise if they have different ones."""
    checked = tuple(check_privacy(f"parts[{i}]", part) for i, part in enumerate(parts))
    relations = sorted({part.relation for part in checked})
    if len(relations) > 1:
        raise ParameterError(f"parts must all have one relation of neighbours, got {' and '.join(map(repr, relations))}")
    return checked, checked[0].relation if checked else "replace"


def total_delta(total: Fraction, what: str) -> float:
    """Round a sum of failure masses up, and raise if it is 1 or more, which guarantees nothing."""
    from dpcore._exact.intervals import fraction_up

    rounded = fraction_up(total)
    if rounded >= 1:
        raise ParameterError(f"{what} must be below 1 for any guarantee, got {rounded!r}")
    return rounded
