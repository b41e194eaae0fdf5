"""Additive noise: Laplace and Gaussian, on the reals and on the integers."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcore import noise
from dpcore._validation import check_real
from dpcore.errors import DataError, ParameterError
from dpcore.interop.opendp._losses import gaussian_loss, proportional, quadratic
from dpcore.interop.opendp._measurements import check_features, check_measure, make, peer, then
from dpcore.interop.opendp._spaces import DTYPES, FLOATS, INTEGER_RANGES, INTEGERS, Space, read_space

if TYPE_CHECKING:
    from opendp.mod import Domain, Measurement, Metric, _PartialConstructor

Sampler = Callable[..., Any]
_MIDDLE = 2**63
"""What takes unsigned integers of 64 bits to signed ones, in their order."""
_LEAST_INTEGER_SCALE = math.nextafter(noise.DISCRETE_SCALE[0], 1.0)


def make_laplace(input_domain: Domain, input_metric: Metric, scale: float, *, as_array: bool = False, MO: Any = None) -> Measurement:
    r"""Make a measurement that adds Laplace noise: continuous to floats, discrete to integers.

    Parameters
    ----------
    input_domain : Domain
        ``atom_domain``, ``vector_domain`` or ``numpy.arrayd_domain`` of floats (without NaN) or integers.
    input_metric : Metric
        ``absolute_distance`` for single numbers, else ``l1_distance``; of any type.
    scale : float
        b, in [0, 2^960]; integers are released with at most 2^40. 0 adds nothing, and has the loss ∞ that OpenDP gives it.
    as_array : bool, default False
        Whether the answer to a list is an array of NumPy, which OpenDP passes on without looking into it.
    MO : str or Measure, optional
        OpenDP's argument, so that a program can keep it: "MaxDivergence" or ``max_divergence()``. Others are refused.

    Returns
    -------
    Measurement
        With OpenDP's `max_divergence`. Its map is d ↦ d/b, rounded up.

    Raises
    ------
    ParameterError, ParameterTypeError
        If the domain, the metric or the scale does not fit, or a feature of OpenDP is not enabled.
    ModuleNotFoundError
        If OpenDP is not installed.

    Notes
    -----
    Guarantee: that of `dpcore.noise.laplace` and `discrete_laplace` with ℓ1 sensitivity d, for the numbers released. As in OpenDP, NaN that
    is there in spite of the domain counts as 0, an infinite value as the largest finite one, and integers end at the bounds of their type.

    Cost: some 60 ns a value of a list, all but 3 of them for its way through OpenDP, and 3 to 4 ns a value of an array.

    Examples
    --------
    >>> import opendp.prelude as dp  # doctest: +SKIP
    >>> dp.enable_features("contrib", "honest-but-curious")  # doctest: +SKIP
    >>> space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.l1_distance(T=float)  # doctest: +SKIP
    >>> make_laplace(*space, scale=2.0).map(1.0)  # doctest: +SKIP
    0.5
    """
    space = _read(input_domain, input_metric, "L1Distance")
    check_measure(MO, "MaxDivergence")
    b = check_scale(scale)
    sampler = noise.laplace if space.atom in FLOATS else noise.discrete_laplace
    return _make(space, peer().max_divergence(), sampler, b, partial(proportional, scale=b), as_array=as_array)


def then_laplace(scale: float, *, as_array: bool = False, MO: Any = None) -> _PartialConstructor:
    """`make_laplace` at the end of a chain: ``space >> then_laplace(scale)``.

    Parameters
    ----------
    scale : float
        As in `make_laplace`.
    as_array : bool, default False
        As in `make_laplace`.
    MO : str or Measure, optional
        As in `make_laplace`.

    Returns
    -------
    _PartialConstructor
        What OpenDP's ``>>`` takes.

    Raises
    ------
    ModuleNotFoundError
        If OpenDP is not installed.

    Notes
    -----
    Cost: that of `make_laplace`, when the chain is made.

    Examples
    --------
    >>> measurement = space >> dp.t.then_count() >> then_laplace(1.0)  # doctest: +SKIP
    """
    return then(make_laplace, scale, as_array=as_array, MO=MO)


def make_gaussian(
    input_domain: Domain, input_metric: Metric, scale: float, *, delta: float | None = None, as_array: bool = False, MO: Any = None
) -> Measurement:
    r"""Make a measurement that adds Gaussian noise: continuous to floats, discrete to integers.

    Parameters
    ----------
    input_domain : Domain
        ``atom_domain``, ``vector_domain`` or ``numpy.arrayd_domain`` of floats (without NaN) or integers.
    input_metric : Metric
        ``absolute_distance`` for single numbers, else ``l2_distance``; of any type.
    scale : float
        σ, in [0, 2^960]; integers are released with at most 2^40. 0 adds nothing, and has the loss ∞ that OpenDP gives it.
    delta : float, optional
        For floats: the δ, in (0, 1), at which the map gives the ε of the noise itself.
    as_array : bool, default False
        Whether the answer to a list is an array of NumPy, which OpenDP passes on without looking into it.
    MO : str or Measure, optional
        OpenDP's argument, so that a program can keep it: "ZeroConcentratedDivergence" or ``zero_concentrated_divergence()``, with `delta`
        "Approximate<MaxDivergence>" or ``approximate(max_divergence())``. Others are refused.

    Returns
    -------
    Measurement
        With OpenDP's `zero_concentrated_divergence`. Its map is d ↦ d²/2σ², rounded up. With `delta`: with
        ``approximate(max_divergence())`` and the map d ↦ (ε, δ), where Φ(d/2σ − εσ/d) − e^ε·Φ(−d/2σ − εσ/d) ≤ δ. For one release this takes
        a tenth to a fifth less variance than OpenDP's conversion from ρ; for many, compose ρ.

    Raises
    ------
    ParameterError, ParameterTypeError
        If the domain, the metric, the scale or δ does not fit, or a feature of OpenDP is not enabled.
    ModuleNotFoundError
        If OpenDP is not installed.

    Notes
    -----
    Guarantee: that of `dpcore.noise.gaussian` and `discrete_gaussian` with ℓ2 sensitivity d, for the numbers released. NaN, infinite values
    and large integers are treated as by `make_laplace`.

    Cost: as `make_laplace`; with `delta`, a millisecond for each value of the map.

    Examples
    --------
    >>> make_gaussian(*space, scale=2.0).map(1.0)  # doctest: +SKIP
    0.125
    """
    space = _read(input_domain, input_metric, "L2Distance")
    check_measure(MO, "ZeroConcentratedDivergence" if delta is None else "Approximate<MaxDivergence>")
    sigma = check_scale(scale)
    sampler = noise.gaussian if space.atom in FLOATS else noise.discrete_gaussian
    dp = peer()
    if delta is None:
        privacy_map: Callable[[Any], Any] = partial(quadratic, scale=sigma, divisor=2)
        return _make(space, dp.zero_concentrated_divergence(), sampler, sigma, privacy_map, as_array=as_array)
    if space.atom not in FLOATS:
        raise ParameterError(f"delta must be None for integers, as the δ of discrete noise on several is not known exactly, got {delta!r}")
    delta = check_real("delta", delta, low=0.0, high=1.0, include_low=False, include_high=False)
    privacy_map = partial(gaussian_loss, scale=sigma, delta=delta)
    return _make(space, dp.approximate(dp.max_divergence()), sampler, sigma, privacy_map, as_array=as_array)


def then_gaussian(scale: float, *, delta: float | None = None, as_array: bool = False, MO: Any = None) -> _PartialConstructor:
    """`make_gaussian` at the end of a chain: ``space >> then_gaussian(scale)``.

    Parameters
    ----------
    scale : float
        As in `make_gaussian`.
    delta : float, optional
        As in `make_gaussian`.
    as_array : bool, default False
        As in `make_gaussian`.
    MO : str or Measure, optional
        As in `make_gaussian`.

    Returns
    -------
    _PartialConstructor
        What OpenDP's ``>>`` takes.

    Raises
    ------
    ModuleNotFoundError
        If OpenDP is not installed.

    Notes
    -----
    Cost: that of `make_gaussian`, when the chain is made.

    Examples
    --------
    >>> measurement = space >> dp.t.then_sum() >> then_gaussian(10.0)  # doctest: +SKIP
    """
    return then(make_gaussian, scale, delta=delta, as_array=as_array, MO=MO)


def _read(domain: Domain, metric: Metric, norm: str) -> Space:
    peer()
    check_features()
    metrics = {"number": ("AbsoluteDistance",), "list": (norm,), "array": (norm,)}
    return read_space(domain, metric, metrics, (*FLOATS, *INTEGERS))  # type: ignore[arg-type]


def check_scale(scale: object) -> float:
    """Return a scale of which there is a privacy map. OpenDP's searches try larger ones than can be drawn."""
    return check_real("scale", scale, low=0.0, high=noise.FLOAT_SCALE[1])


def _make(space: Space, measure: Any, sampler: Sampler, scale: float, privacy_map: Any, *, as_array: bool) -> Measurement:
    is_float = space.atom in FLOATS
    # The map of a scale below the least that dpcore draws holds for the least one, too.
    drawn = max(scale, noise.FLOAT_SCALE[0] if is_float else _LEAST_INTEGER_SCALE) if scale else 0.0
    most = noise.FLOAT_SCALE[1] if is_float else noise.DISCRETE_SCALE[1]
    add = _add_to_floats if is_float else _add_to_integers

    def draw(data: Any) -> Any:
        if drawn > most:
            raise ParameterError(f"scale must be at most 2^40 for noise on integers, got {scale!r}; floats take up to 2^960")
        return add(data if space.form == "number" else space.elements(data), sampler, drawn, space.atom)

    return make(space, measure, draw, privacy_map, space.released(space.atom, as_array=as_array))


def finite(values: Any, atom: str = "f64") -> Any:
    """NaN as 0, and infinite values as the largest finite ones of their type, as in OpenDP. This moves no two values further apart."""
    dtype = values.dtype if isinstance(values, np.ndarray) else DTYPES[atom]  # a number of OpenDP is a float of Python, whatever its type
    largest = float(np.finfo(dtype).max)
    replaced = np.nan_to_num(values, nan=0.0, posinf=largest, neginf=-largest)
    return replaced if isinstance(values, np.ndarray) else float(replaced)


def _add_to_floats(values: Any, sampler: Sampler, scale: float, atom: str) -> Any:
    if not scale:
        return finite(values, atom)
    out = np.empty(np.shape(values), np.float32) if atom == "f32" else None
    try:
        released = sampler(values, scale, out=out)
    except DataError:
        released = sampler(finite(values, atom), scale, out=out)
    return released if isinstance(values, np.ndarray) else float(released)


def _add_to_integers(values: Any, sampler: Sampler, scale: float, atom: str) -> Any:
    if not scale:
        return values.copy() if isinstance(values, np.ndarray) else values
    dtype = np.dtype(DTYPES[atom])
    if dtype == np.int64:
        return sampler(values, scale)
    if dtype == np.uint64:
        if not isinstance(values, np.ndarray):
            return sampler(values - _MIDDLE, scale) + _MIDDLE
        shifted = values.view(np.int64) ^ np.int64(-_MIDDLE)
        sampler(shifted, scale, out=shifted)
        return (shifted ^ np.int64(-_MIDDLE)).view(np.uint64)
    noisy, (low, high) = sampler(values, scale), INTEGER_RANGES[atom]
    return np.clip(noisy, low, high).astype(dtype) if isinstance(values, np.ndarray) else min(max(noisy, low), high)
