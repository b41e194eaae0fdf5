"""Draws whose distribution is near that of the data: the exponential mechanism with the Kolmogorov-Smirnov distance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpcore._validation import check_integer, check_positive
from dpcore.distributions import Box, Cells, ks_exponential
from dpcore.errors import ParameterError
from dpcore.interop._entering import within_int64
from dpcore.interop.opendp._losses import distance, repeated
from dpcore.interop.opendp._measurements import check_features, make, peer, then
from dpcore.interop.opendp._noise import finite
from dpcore.interop.opendp._spaces import FLOATS, INTEGERS, read_space

if TYPE_CHECKING:
    from opendp.mod import Domain, Measurement, Metric, _PartialConstructor

_BY_CHANGES = ("ChangeOneDistance", "HammingDistance")
_BY_RECORDS = ("SymmetricDistance", "InsertDeleteDistance")
_RELEASED = "Vec<f64>"


def make_ks_exponential(
    input_domain: Domain, input_metric: Metric, epsilon: float, *, bounds: tuple[float, float], draws: int, bins: int
) -> Measurement:
    r"""Make a measurement that releases draws whose distribution function is likely near that of the records.

    Parameters
    ----------
    input_domain : Domain
        ``vector_domain`` or ``numpy.arrayd_domain`` of one axis, of floats (without NaN) or integers.
    input_metric : Metric
        ``change_one_distance`` or ``hamming_distance``. If the domain has a size, also ``symmetric_distance`` or
        ``insert_delete_distance``, of which a changed record is 2.
    epsilon : float
        ε for one changed record, positive and finite. It stands first, so that a query of a context can find it.
    bounds : (low, high)
        Where records lie; those outside are clamped.
    draws : int
        Number of draws, as in `dpcore.distributions.ks_exponential`.
    bins : int
        Number of bins of equal width, as there.

    Returns
    -------
    Measurement
        With OpenDP's `max_divergence`; it releases a list. Its map is ε times the number of changed records.

    Raises
    ------
    ParameterError, ParameterTypeError
        If the domain, the metric or a parameter does not fit, or a feature of OpenDP is not enabled.
    ModuleNotFoundError
        If OpenDP is not installed.

    Notes
    -----
    Guarantee: that of `dpcore.distributions.ks_exponential`.

    Cost: that of `dpcore.distributions.ks_exponential`. The running time depends on the data.

    Examples
    --------
    >>> space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.change_one_distance()  # doctest: +SKIP
    >>> make_ks_exponential(*space, 0.5, bounds=(0, 100), draws=50, bins=40).map(2)  # doctest: +SKIP
    1.0
    """
    peer()
    check_features()
    metrics = (*_BY_CHANGES, *_BY_RECORDS)
    space = read_space(input_domain, input_metric, {"list": metrics, "array": metrics}, (*FLOATS, *INTEGERS))
    if space.shape is not None and len(space.shape) != 1:
        raise ParameterError(f"input_domain must have one axis of records, got shape {space.shape}")
    if space.size is None and space.distance in _BY_RECORDS:
        raise ParameterError(f"input_metric must be {' or '.join(_BY_CHANGES)} where the domain has no size, got {space.metric}")
    budget = check_positive("epsilon", epsilon)
    check_integer("draws", draws, low=1)
    Cells.of(bins, Box.of(bounds, 1))  # checks them before there are data
    per_change = 2 if space.distance in _BY_RECORDS else 1

    def draw(data: Any) -> Any:
        records = space.elements(data)
        records = finite(records) if space.atom in FLOATS else within_int64(records)
        return ks_exponential(records, budget, bounds, draws=draws, bins=bins).draws.copy()  # OpenDP takes no read-only array

    return make(space, peer().max_divergence(), draw, lambda d_in: repeated(distance(d_in) // per_change, budget), _RELEASED)


def then_ks_exponential(epsilon: float, *, bounds: tuple[float, float], draws: int, bins: int) -> _PartialConstructor:
    """`make_ks_exponential` at the end of a chain.

    Parameters
    ----------
    epsilon : float
        As in `make_ks_exponential`.
    bounds : (low, high)
        As in `make_ks_exponential`.
    draws : int
        As in `make_ks_exponential`.
    bins : int
        As in `make_ks_exponential`.

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
    Cost: that of `make_ks_exponential`, when the chain is made.

    Examples
    --------
    >>> measurement = space >> then_ks_exponential(1.0, bounds=(0, 100), draws=50, bins=40)  # doctest: +SKIP
    """
    return then(make_ks_exponential, epsilon, bounds=bounds, draws=draws, bins=bins)
