"""`randomise` of the mechanisms that add noise: Laplace, geometric and Gaussian, whole, truncated and folded.

Each function here takes diffprivlib's own method, which serves where there is no noise to add: ε = ∞, sensitivity 0, values that are not
finite.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from dpcore._dataclasses import dataclass
from dpcore._exact.pending import Kind
from dpcore.interop import _entering
from dpcore.interop.diffprivlib import _draws, _scales
from dpcore.interop.diffprivlib._draws import Array, Reals, stream_of

Randomise = Callable[[Any, Any], Any]


@dataclass(frozen=True, slots=True)
class Law:
    """How one class of mechanisms draws.

    Attributes
    ----------
    kind : str
        The noise, as in `dpcore.noise`.
    scale : callable
        From a mechanism to the scale of its noise now; 0.0 for none, and for classes that compute a scale of their own.
    whole : bool
        Whether values are integers.
    """

    kind: Kind
    scale: Callable[[Any], float]
    whole: bool


def is_own(mechanism: Any) -> bool:
    """Whether this is a class of diffprivlib. Classes derived from one may have another way to their scale, which is then used."""
    return type(mechanism).__module__.startswith("diffprivlib.")


def _geometric(mechanism: Any) -> float:
    return _scales.geometric(mechanism.epsilon, int(mechanism.sensitivity)) if is_own(mechanism) else 0.0


def _gaussian(mechanism: Any) -> float:
    return _scales.gaussian(mechanism.epsilon, mechanism.delta, mechanism.sensitivity) if is_own(mechanism) else 0.0


def _analytic(mechanism: Any) -> float:
    return _scales.analytic_gaussian(mechanism.epsilon, mechanism.delta, mechanism.sensitivity) if is_own(mechanism) else 0.0


def _discrete(mechanism: Any) -> float:
    return _scales.discrete_gaussian(mechanism.epsilon, mechanism.delta, int(mechanism.sensitivity)) if is_own(mechanism) else 0.0


LAPLACE = Law("laplace", lambda m: _scales.laplace(m.epsilon, m.delta, m.sensitivity), whole=False)
GEOMETRIC = Law("discrete_laplace", _geometric, whole=True)
GAUSSIAN = Law("gaussian", _gaussian, whole=False)
ANALYTIC = Law("gaussian", _analytic, whole=False)
DISCRETE = Law("discrete_gaussian", _discrete, whole=True)


def added(law: Law, original: Randomise, *, vectorise: bool) -> Randomise:
    """The method of a mechanism that returns the sum."""
    add: Callable[..., Any] = _draws.integer if law.whole else _draws.real

    def randomise(self: Any, value: Any) -> Any:
        if vectorise and type(value) is np.ndarray and value.ndim:
            return _array_sum(self, value, law, original)
        self._check_all(value)
        number, scale = _draws.plain(value), law.scale(self)
        return add(law.kind, number, scale, stream_of(self)) if scale and _is_finite(number) else original(self, value)

    return randomise


def shaped(
    law: Law, shape: Callable[[Any, Any], Any], arrays: Callable[[Any, Array], Array], original: Randomise, *, vectorise: bool
) -> Randomise:
    """The method of a mechanism that truncates or folds the sum, with its own function for one number."""
    add: Callable[..., Any] = _draws.integer if law.whole else _draws.real

    def randomise(self: Any, value: Any) -> Any:
        if vectorise and type(value) is np.ndarray and value.ndim:
            return arrays(self, _array_sum(self, value, law, original))
        self._check_all(value)
        number, scale = _draws.plain(value), law.scale(self)
        return shape(self, add(law.kind, number, scale, stream_of(self))) if scale and _is_finite(number) else original(self, value)

    return randomise


def _is_finite(number: float) -> bool:
    return type(number) is int or math.isfinite(number)


def _array_sum(mechanism: Any, values: Array, law: Law, original: Randomise) -> Array:
    mechanism._check_all(check_numbers(values, whole=law.whole))
    scale = law.scale(mechanism)
    if not scale:
        return one_by_one(mechanism, values, original)
    values = _entering.array("value", values)
    if law.whole:
        return _draws.integers(law.kind, values, scale, stream_of(mechanism))
    return _draws.reals(law.kind, values, scale, stream_of(mechanism))


def exact_sums(mechanism: Any, high: Reals, low: Reals) -> Reals:
    """The sums high + low with the noise of a Laplace mechanism of diffprivlib, cut to its bounds; without noise, the nearest floats."""
    mechanism._check_all(0.0)
    scale, values = LAPLACE.scale(mechanism), np.empty(high.shape, np.complex128)
    values.real, values.imag = high, low
    noisy = _draws.laplace(values, scale, None, stream_of(mechanism)) if scale else high
    return truncate_array(mechanism, noisy) if hasattr(mechanism, "lower") else noisy


def whole_sums(mechanism: Any, sums: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Integers with the noise of GeometricTruncated."""
    mechanism._check_all(0)
    scale = GEOMETRIC.scale(mechanism)
    noisy = _draws.integers(GEOMETRIC.kind, sums, scale, stream_of(mechanism)) if scale else sums
    return truncate_array(mechanism, noisy)


def one_by_one(mechanism: Any, values: Array, original: Randomise) -> Array:
    """What diffprivlib's own method makes of each entry."""
    return np.array([original(mechanism, value) for value in values.ravel().tolist()]).reshape(values.shape)


def check_numbers(values: Array, *, whole: bool) -> int | float:
    """A number that passes the checks of a mechanism as every entry of the array would, or raise TypeError as they do."""
    if values.dtype.kind not in ("iub" if whole else "iubf") or values.dtype.itemsize > 8:
        raise TypeError("Value to be randomised must be an integer" if whole else "Value to be randomised must be a number")
    return 0 if whole else 0.0


def truncate(mechanism: Any, noisy: Any) -> Any:
    """One number."""
    return mechanism._truncate(noisy)


def truncate_whole(mechanism: Any, noisy: int) -> int:
    """One integer."""
    return int(mechanism._truncate(noisy))


def fold(mechanism: Any, noisy: Any) -> Any:
    """One number."""
    return mechanism._fold(noisy)


def fold_whole(mechanism: Any, noisy: int) -> int:
    """One integer; between bounds that are halves a folded integer is an integer."""
    whole: int = round(mechanism._fold(noisy))
    return whole


def truncate_array(mechanism: Any, noisy: Array) -> Array:
    """An array of sums."""
    lower, upper = mechanism.lower, mechanism.upper
    if noisy.dtype.kind == "i":  # bounds may be infinite, and integers must not become floats
        low, high = _draws.INT64.min, _draws.INT64.max
        lower, upper = int(min(max(lower, low), high)), int(max(min(upper, high), low))
    return np.clip(noisy, lower, upper)


def fold_array(mechanism: Any, noisy: Array) -> Array:
    """The same by reflection at the bounds."""
    lower, upper = mechanism.lower, mechanism.upper
    outside = (noisy < lower) | (noisy > upper)
    if not outside.any():
        return noisy
    noisy = noisy.copy()
    far = noisy[outside]
    if _is_long(far, lower, upper):
        fold_one = fold_for_integers if noisy.dtype.kind == "i" else fold_for_reals
        noisy[outside] = [fold_one(mechanism, number) for number in far.tolist()]
    else:
        noisy[outside] = _reflected(far, lower, upper)
    return noisy


def _is_long(noisy: Array, lower: Any, upper: Any) -> bool:
    """Whether float64 might lose digits of integers, or a bound is infinite."""
    return not (math.isfinite(lower) and math.isfinite(upper)) or bool(noisy.dtype.kind == "i" and np.abs(noisy).max() > 2**52)


def _reflected(noisy: Array, lower: float, upper: float) -> Array:
    width = upper - lower
    if width == 0:
        return np.full_like(noisy, lower)
    offset = np.mod(noisy - lower, 2 * width)
    return np.clip(lower + np.minimum(offset, 2 * width - offset), lower, upper)


def folding(original: Any) -> Any:
    """`_fold` of truncated and folded mechanisms."""
    del original

    def _fold(self: Any, value: Any) -> Any:
        return fold_for_reals(self, value)

    return _fold


def folding_to_integers(original: Any) -> Any:
    """`_fold` of the folded geometric mechanism."""
    del original

    def _fold(self: Any, value: Any) -> Any:
        return fold_for_integers(self, value)

    return _fold


def fold_for_reals(mechanism: Any, value: Any) -> Any:
    """Reflect a number at the bounds until it lies between them: without a recursion, which a wide noise would break."""
    lower, upper = mechanism.lower, mechanism.upper
    if not (value < lower or value > upper):
        return value
    width = upper - lower
    if width == math.inf:
        return 2 * lower - value if value < lower else 2 * upper - value
    if width == 0:
        return lower
    offset = (value - lower) % (2 * width)
    return min(max(lower + min(offset, 2 * width - offset), lower), upper)


def fold_for_integers(mechanism: Any, value: Any) -> Any:
    """The same for a geometric mechanism, whose bounds may be floats that are halves of integers: in integers."""
    lower, upper = mechanism.lower, mechanism.upper
    number = round(value)
    if not (number < lower or number > upper):
        return number
    if not (math.isfinite(lower) and math.isfinite(upper)):
        return int(2 * lower) - number if number < lower else int(2 * upper) - number
    low, high = round(2 * lower), round(2 * upper)  # twice the bounds
    width = high - low
    if width == 0:
        return lower
    offset = (2 * number - low) % (2 * width)
    return (low + min(offset, 2 * width - offset)) // 2
