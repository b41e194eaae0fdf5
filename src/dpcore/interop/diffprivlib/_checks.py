"""Checks of diffprivlib's mechanisms in a few comparisons, where nothing is wrong; everything else goes to diffprivlib's own checks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Check = Callable[[Any, Any], Any]
ADMITTED = (float, int, np.floating, np.integer)
ADMITTED_WHOLE = (int, np.integer)
"""Types that diffprivlib's own checks let pass; `_draws` refuses some of them afterwards."""


def _is_delta(delta: Any) -> bool:
    return type(delta) is float and 0.0 <= delta <= 1.0


def _is_bounds(lower: Any, upper: Any) -> bool:
    return isinstance(lower, ADMITTED) and isinstance(upper, ADMITTED) and bool(lower <= upper)


def of_reals(own: Any, original: Check, *, bounded: bool) -> Check:
    """Of a mechanism for real numbers, with bounds or without."""

    def _check_all(self: Any, value: Any) -> Any:
        if (
            type(self) is own and isinstance(value, ADMITTED) and type(self.epsilon) is float and self.epsilon > 0.0
            and type(self.sensitivity) is float and self.sensitivity >= 0.0 and _is_delta(self.delta)
            and (not bounded or _is_bounds(self.lower, self.upper))
        ):  # fmt: skip
            return True
        return original(self, value)

    return _check_all


def of_integers(own: Any, original: Check, *, bounds: Callable[[Any, Any], bool] | None) -> Check:
    """Of a mechanism for integers."""

    def _check_all(self: Any, value: Any) -> Any:
        if (
            type(self) is own and isinstance(value, ADMITTED_WHOLE) and type(self.epsilon) is float and self.epsilon > 0.0
            and isinstance(self.sensitivity, ADMITTED_WHOLE) and self.sensitivity >= 0 and self.delta == 0.0
            and (bounds is None or bounds(self.lower, self.upper))
        ):  # fmt: skip
            return True
        return original(self, value)

    return _check_all


def are_whole(lower: Any, upper: Any) -> bool:
    """Whether bounds are integers in order; others go to diffprivlib's check."""
    return isinstance(lower, ADMITTED_WHOLE) and isinstance(upper, ADMITTED_WHOLE) and bool(lower <= upper)


def are_halves(lower: Any, upper: Any) -> bool:
    """The same with halves of integers."""
    return _is_bounds(lower, upper) and bool((2 * lower) % 1 == 0 == (2 * upper) % 1)


def of_gaussian(own: Any, original: Check, *, most: float, whole: bool) -> Check:
    """Of a mechanism with Gaussian noise and ε up to `most`."""
    kinds, number = (ADMITTED_WHOLE, ADMITTED_WHOLE) if whole else (ADMITTED, (float,))

    def _check_all(self: Any, value: Any) -> Any:
        if (
            type(self) is own and isinstance(value, kinds) and type(self.epsilon) is float and 0.0 < self.epsilon <= most
            and isinstance(self.sensitivity, number) and self.sensitivity >= 0 and _is_delta(self.delta) and self.delta > 0.0
        ):  # fmt: skip
            return True
        return original(self, value)

    return _check_all


def of_noise_bound(own: Any, original: Check) -> Check:
    """Of the Laplace mechanism with bounded noise."""

    def _check_all(self: Any, value: Any) -> Any:
        if (
            type(self) is own and isinstance(value, ADMITTED) and type(self.epsilon) is float and self.epsilon > 0.0
            and type(self.sensitivity) is float and self.sensitivity >= 0.0 and type(self.delta) is float and 0.0 < self.delta < 0.5
        ):  # fmt: skip
            return True
        return original(self, value)

    return _check_all


def of_binary(own: Any, original: Check) -> Check:
    """Of the binary mechanism."""

    def _check_all(self: Any, value: Any) -> Any:
        zero, one = self.value0, self.value1
        if (
            type(self) is own and type(value) is str and type(zero) is str and type(one) is str and value in (zero, one)
            and zero != one and zero and one and type(self.epsilon) is float and self.epsilon > 0.0 and self.delta == 0.0
        ):  # fmt: skip
            return True
        return original(self, value)

    return _check_all


def of_categories(own: Any, original: Check) -> Check:
    """Of the exponential mechanisms on categories."""

    def _check_all(self: Any, value: Any) -> Any:
        if (
            type(self) is own and type(value) is str and value in self._normalising_constant
            and type(self.epsilon) is float and self.epsilon > 0.0 and self.delta == 0.0
        ):  # fmt: skip
            return True
        return original(self, value)

    return _check_all


def of_candidates(own: Any, original: Check) -> Check:
    """Of the exponential mechanism and permute-and-flip: numbers are looked at once they are an array, see `_choices`."""

    def _check_all(self: Any, value: Any) -> Any:
        utility, candidates = self.utility, self.candidates
        if (
            type(self) is own and value is None and type(utility) is list and utility and type(self.epsilon) is float and self.epsilon > 0.0
            and type(self.sensitivity) is float and self.sensitivity >= 0.0 and self.delta == 0.0
            and (candidates is None or (type(candidates) is list and len(candidates) == len(utility)))
            and all(map(_NUMBERS.__contains__, map(type, utility))) and (self.measure is None or _is_measure(self.measure, len(utility)))
        ):  # fmt: skip
            return True
        return original(self, value)

    return _check_all


_NUMBERS = frozenset({float, int, np.float64, np.int64})


def _is_measure(measure: Any, size: int) -> bool:
    return type(measure) is list and len(measure) == size and all(map(_NUMBERS.__contains__, map(type, measure)))
