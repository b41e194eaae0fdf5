"""`tools` of diffprivlib with one call for the noise of many numbers: histograms, and statistics along axes.

Arrays that diffprivlib may treat in ways of its own (subclasses, objects, complex numbers, counts that are not finite) go to its functions.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import wraps
from sys import maxsize
from typing import Any

import numpy as np

from dpcore.interop.diffprivlib._draws import Array

_RANGE_IS_MISSING = (
    "Range parameter has not been specified. Falling back to taking range from the data.\n"
    "To ensure differential privacy, and no additional privacy leakage, the range must be "
    "specified independently of the data (i.e., using domain knowledge)."
)
_RANGES_ARE_MISSING = (
    "Range parameter has not been specified (or has missing elements). Falling back to taking "
    "range from the data.\n "
    "To ensure differential privacy, and no additional privacy leakage, the range must be "
    "specified for each dimension independently of the data (i.e., using domain knowledge)."
)


class Histograms:
    """The functions of `diffprivlib.tools.histograms` that draw, for a module with its names."""

    def __init__(self, module: Any) -> None:
        self._peer = module

    def histogram(self) -> Callable[..., Any]:
        """`histogram`, whose counts get their noise together."""
        original = self._peer.histogram

        @wraps(original)
        def histogram(sample: Any, epsilon: float = 1.0, bins: Any = 10, range: Any = None, weights: Any = None, density: Any = None,  # noqa: A002
                      random_state: Any = None, accountant: Any = None, **unused_args: Any) -> Any:  # fmt: skip
            self._peer.warn_unused_args(unused_args)
            account, state = self._opened(epsilon, accountant, random_state)
            if range is None:
                warnings.warn(_RANGE_IS_MISSING, self._peer.PrivacyLeakWarning, stacklevel=2)
            counts, edges = np.histogram(sample, bins=bins, range=range, weights=weights, density=None)
            noisy = self._noisy(counts, epsilon, state)
            account.spend(epsilon, 0)
            if density:
                return noisy / np.diff(edges).astype(float) / (noisy.sum() or 1), edges
            return noisy, edges

        return histogram

    def histogramdd(self) -> Callable[..., Any]:
        """`histogramdd`, and so `histogram2d`, which calls it."""
        original = self._peer.histogramdd

        @wraps(original)
        def histogramdd(sample: Any, epsilon: float = 1.0, bins: Any = 10, range: Any = None, weights: Any = None, density: Any = None,  # noqa: A002
                        random_state: Any = None, accountant: Any = None, **unused_args: Any) -> Any:  # fmt: skip
            self._peer.warn_unused_args(unused_args)
            account, state = self._opened(epsilon, accountant, random_state)
            if _needs_ranges(bins) and (range is None or (isinstance(range, list) and None in range)):
                warnings.warn(_RANGES_ARE_MISSING, self._peer.PrivacyLeakWarning, stacklevel=2)
            counts, edges = np.histogramdd(sample, bins=bins, range=range, weights=weights, density=None)
            noisy = self._noisy(counts, epsilon, state).astype(float, casting="safe")
            if density:
                noisy = _density(noisy, edges)
            account.spend(epsilon, 0)
            return noisy, edges

        return histogramdd

    def _opened(self, epsilon: float, accountant: Any, random_state: Any) -> tuple[Any, Any]:
        state = self._peer.check_random_state(random_state)
        account = self._peer.BudgetAccountant.load_default(accountant)
        account.check(epsilon, 0)
        return account, state

    def _noisy(self, counts: Array, epsilon: float, state: Any) -> Array:
        mechanism = self._peer.GeometricTruncated(epsilon=epsilon, sensitivity=1, lower=0, upper=maxsize, random_state=state)
        noisy = np.zeros_like(counts)
        if counts.dtype.kind in "iu" or (counts.dtype.kind == "f" and bool((np.abs(counts) < 2.0**63).all())):
            noisy[...] = mechanism.randomise(counts.astype(np.int64))
        else:
            for place, count in np.ndenumerate(counts):
                noisy[place] = mechanism.randomise(int(count))
        return noisy


def _needs_ranges(bins: Any) -> bool:
    return np.array(bins, dtype=object).ndim == 0 or not np.all([np.ndim(one) for one in bins])


def _density(counts: Array, edges: Any) -> Array:
    total, dims = counts.sum(), counts.ndim
    for axis in range(dims):
        shape = np.ones(dims, int)
        shape[axis] = counts.shape[axis]
        counts = counts / np.diff(edges[axis]).reshape(shape)
    return counts / total if total > 0 else counts


class Axes:
    """`_wrap_axis` of `diffprivlib.tools.utils`: the statistics of all cells at once, then their noise."""

    def __init__(self, module: Any) -> None:
        self._peer = module
        self._mechanisms = {module._mean: self._for_mean, module._var: self._for_variance, module._sum: self._for_sum}
        self._statistics: dict[Any, Any] = {
            module._mean: (np.mean, np.nanmean),
            module._var: (np.var, np.nanvar),
            module._sum: (np.sum, np.nansum),
        }

    def wrap_axis(self) -> Callable[..., Any]:
        """The function with the peer's signature."""
        original = self._peer._wrap_axis

        @wraps(original)
        def _wrap_axis(func: Any, array: Any, *, axis: Any, keepdims: Any, epsilon: Any, bounds: Any, **kwargs: Any) -> Any:
            options = dict(axis=axis, keepdims=keepdims, epsilon=epsilon, bounds=bounds, **kwargs)
            if func not in self._mechanisms or not _is_plain(array) or not _is_narrow(kwargs["dtype"]):
                return original(func, array, **options)
            array = np.asarray(array)
            result = np.zeros_like(array).sum(axis=axis, keepdims=keepdims)
            if not isinstance(result, np.ndarray) or not array.size or array.dtype.kind not in "biuf":
                return original(func, array, **options)
            account = self._peer.BudgetAccountant.load_default(kwargs["accountant"])
            share = epsilon / result.size
            if not _may_spend(account, share, result.size, self._peer.BudgetAccountant):
                return original(func, array, **options)
            cells = _cells(array, axis)
            bounds = self._peer.check_bounds(bounds, result.size if result.ndim == 1 else 0)
            result[...] = self._released(func, cells, share, bounds, kwargs).reshape(result.shape)
            _spend(account, share, result.size, self._peer.BudgetAccountant)
            return result

        return _wrap_axis

    def _released(self, func: Any, cells: Array, epsilon: float, bounds: Any, options: dict[str, Any]) -> Array:
        lower, upper = (np.broadcast_to(np.asarray(bound, float), len(cells)) for bound in bounds)
        dtype, statistic = options["dtype"], self._statistics[func][bool(options["nan"])]
        actual = statistic(np.clip(cells, lower[:, None], upper[:, None]), axis=1, dtype=dtype)
        parts = []
        for low, high, places in _groups(lower, upper):
            a, b = self._peer.check_bounds((low, high), shape=0, dtype=dtype)
            mechanism = self._mechanisms[func](epsilon, a, b, cells.shape[1], dtype, options["random_state"])
            parts.append((places, mechanism.randomise(actual[places])))
        released = np.empty(len(cells), parts[0][1].dtype)
        for places, values in parts:
            released[places] = values
        return released

    def _for_mean(self, epsilon: float, lower: Any, upper: Any, n: int, dtype: Any, state: Any) -> Any:
        del dtype
        return self._peer.LaplaceTruncated(
            epsilon=epsilon, delta=0, sensitivity=(upper - lower) / n, lower=lower, upper=upper, random_state=state
        )

    def _for_variance(self, epsilon: float, lower: Any, upper: Any, n: int, dtype: Any, state: Any) -> Any:
        del dtype
        sensitivity = ((upper - lower) / n) ** 2 * (n - 1)
        return self._peer.LaplaceBoundedDomain(
            epsilon=epsilon, delta=0, sensitivity=sensitivity, lower=0, upper=((upper - lower) ** 2) / 4, random_state=state
        )

    def _for_sum(self, epsilon: float, lower: Any, upper: Any, n: int, dtype: Any, state: Any) -> Any:
        whole = dtype is not None and issubclass(dtype, self._peer.Integral)
        kind = self._peer.GeometricTruncated if whole else self._peer.LaplaceTruncated
        return kind(epsilon=epsilon, sensitivity=upper - lower, lower=lower * n, upper=upper * n, random_state=state)


def _is_plain(array: Any) -> bool:
    return type(array) is np.ndarray or isinstance(array, list | tuple)


def _is_narrow(dtype: Any) -> bool:
    return dtype is None or (isinstance(dtype, type) and np.dtype(dtype).kind in "iuf" and np.dtype(dtype).itemsize <= 8)


def _cells(array: Array, axis: Any) -> Array:
    """One row for each entry of the result, with what is reduced for it."""
    axes = tuple(range(array.ndim)) if axis is None else (axis,) if isinstance(axis, int) else tuple(axis)
    reduced = [one % array.ndim for one in axes]
    rest = [one for one in range(array.ndim) if one not in reduced]
    rows = int(np.prod([array.shape[one] for one in rest], dtype=int))
    return array.transpose(rest + sorted(reduced)).reshape(rows, array.size // rows)


def _groups(lower: Array, upper: Array) -> Iterator[tuple[Any, Any, Any]]:
    """Pairs of bounds, and the cells that have them."""
    if (lower == lower[0]).all() and (upper == upper[0]).all():
        yield lower[0], upper[0], slice(None)
        return
    pairs, places = np.unique(np.stack([lower, upper], axis=1), axis=0, return_inverse=True)
    order = np.argsort(places.ravel(), kind="stable")
    ends = np.cumsum(np.bincount(places.ravel(), minlength=len(pairs)))
    for (low, high), found in zip(pairs, np.split(order, ends[:-1]), strict=True):
        yield low, high, found


def _may_spend(account: Any, epsilon: float, times: int, own: Any) -> bool:
    """Whether an accountant allows so many spends; one that does not, or is not diffprivlib's own, is asked spend by spend."""
    if type(account) is not own:
        return False
    if account.epsilon == np.inf and account.delta == 1:
        return True
    try:
        account.check(epsilon, 0)
    except ValueError:
        return False
    total = account.total(spent_budget=account.spent_budget + [(epsilon, 0)] * times)
    return bool(total[0] <= account.epsilon and total[1] <= account.delta)


def _spend(account: Any, epsilon: float, times: int, own: Any) -> None:
    """Note so many spends, which were checked together: one by one the checks take a time that grows with the square of them."""
    account.check(epsilon, 0)
    getattr(account, f"_{own.__name__}__spent_budget").extend([(epsilon, 0)] * times)
