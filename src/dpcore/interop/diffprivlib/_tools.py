"""`tools` of diffprivlib on exact statistics, and with one call for the noise of many numbers: histograms, and statistics along axes.

Arrays whose axes diffprivlib may treat in ways of its own (subclasses, objects, counts that are not finite) go to its loops.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import wraps
from sys import maxsize
from typing import Any

import numpy as np

from dpcore.interop.diffprivlib import _statistics
from dpcore.interop.diffprivlib._draws import Array
from dpcore.interop.diffprivlib._records import check_no_mask, records

_BOUNDS_ARE_MISSING = (
    "Bounds have not been specified and will be calculated on the data provided. This will "
    "result in additional privacy leakage. To ensure differential privacy and no additional "
    "privacy leakage, specify bounds for each dimension."
)
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
                warnings.warn(_RANGE_IS_MISSING, self._peer.PrivacyLeakWarning, stacklevel=3)  # above `reading`
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
                warnings.warn(_RANGES_ARE_MISSING, self._peer.PrivacyLeakWarning, stacklevel=3)
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


def reading(original: Callable[..., Any], read: Callable[[Any], Any]) -> Callable[..., Any]:
    """A function of the peer whose first argument is read cell by cell."""

    @wraps(original)
    def read_first(*args: Any, **options: Any) -> Any:
        name = "sample" if "sample" in options else "array"
        if args:
            check_no_mask(args[0])
            args = (read(args[0]), *args[1:])
        elif name in options:
            check_no_mask(options[name])
            options[name] = read(options[name])
        return original(*args, **options)

    return read_first


class Statistics:
    """`_sum`, `_mean` and `_var` of `diffprivlib.tools.utils`, which all its sums, means, variances and deviations call."""

    def __init__(self, module: Any, mechanisms: Any) -> None:
        self._peer, self._mechanisms = module, mechanisms
        self._release: dict[Any, _statistics.Release] = {}

    def functions(self) -> Iterator[tuple[str, Callable[..., Any]]]:
        """Their names, and what replaces them."""
        yield "_sum", self._served(self._peer._sum, self._sums)
        yield "_mean", self._served(self._peer._mean, _statistics.released_means)
        yield "_var", self._served(self._peer._var, _statistics.released_variances)

    def _sums(self, mechanisms: Any, cells: _statistics.Cells, epsilon: float, state: Any) -> Array:
        release = _statistics.released_integers if cells.whole else _statistics.released_sums
        return release(mechanisms, cells, epsilon, state)

    def _served(self, original: Callable[..., Any], release: _statistics.Release) -> Callable[..., Any]:
        peer = self._peer

        @wraps(original)
        def statistic(array: Any, epsilon: float = 1.0, bounds: Any = None, axis: Any = None, dtype: Any = None,
                      keepdims: bool = False, random_state: Any = None, accountant: Any = None, nan: bool = False) -> Any:  # fmt: skip
            state = peer.check_random_state(random_state)
            check_no_mask(array)
            whole = self._sums_integers(statistic, dtype)
            array = records(array, whole=whole)
            if bounds is None:
                warnings.warn(_BOUNDS_ARE_MISSING, peer.PrivacyLeakWarning, stacklevel=2)
                bounds = np.nanmin(array), np.nanmax(array)
            if nan and not whole and type(array) is not np.ndarray and (made := np.asarray(array)).dtype.kind in "biu":
                array = made.astype(np.float64)  # whether there is a NaN is private, and decides the dtype of a column
            if axis is not None or keepdims:
                return peer._wrap_axis(
                    statistic, array, epsilon=epsilon, bounds=bounds, axis=axis, dtype=dtype, keepdims=keepdims, random_state=state,
                    accountant=accountant, nan=nan,
                )  # fmt: skip
            lower, upper = self.bounds(statistic, bounds, dtype)
            account = peer.BudgetAccountant.load_default(accountant)
            account.check(epsilon, 0)
            cells = np.asarray(np.ravel(array))
            if not cells.size:
                return original(array, epsilon, bounds, dtype=dtype, random_state=state, accountant=account, nan=nan)
            released = self.released(statistic, cells[np.newaxis], (lower, upper), epsilon, dtype, state, nan=nan)[0]
            account.spend(epsilon, 0)
            return int(released) if isinstance(released, np.integer) else released

        self._release[statistic] = release
        return statistic

    def serves(self, func: Any) -> bool:
        """Whether `released` knows the statistic."""
        return func in self._release

    def bounds(self, func: Any, bounds: Any, dtype: Any) -> tuple[Any, Any]:
        """The bounds after the peer's checks: integers if records are cut to integers, else as given and not as `dtype` has them."""
        lower, upper = self._peer.check_bounds(bounds, shape=0, dtype=dtype)
        if not self._is_whole(func, dtype):
            lower, upper = self._peer.check_bounds(bounds, shape=0)
        return lower, upper

    def _is_whole(self, func: Any, dtype: Any) -> bool:
        if dtype is None:
            return False
        return issubclass(dtype, self._peer.Integral) if self._release[func] == self._sums else np.dtype(dtype).kind in "iu"

    def _sums_integers(self, func: Any, dtype: Any) -> bool:
        """Whether records are cut to integers before they are added. What is no type is refused by the peer's checks."""
        return isinstance(dtype, type) and self._release[func] == self._sums and self._is_whole(func, dtype)

    def released(self, func: Any, table: Array, bounds: Any, epsilon: float, dtype: Any, state: Any, *, nan: bool) -> Array:
        """The statistic of each row of the table, with noise."""
        missing = nan and table.dtype.kind not in "biu"
        lower, upper = bounds
        whole = self._is_whole(func, dtype)
        cells = _statistics.Cells(_statistics.numbers(table, whole=whole), lower, upper, whole, missing)
        return self._release[func](self._mechanisms, cells, epsilon, state)


class Axes:
    """`_wrap_axis` of `diffprivlib.tools.utils`: the statistics of all cells at once, then their noise."""

    def __init__(self, module: Any, statistics: Statistics) -> None:
        self._peer, self._statistics = module, statistics

    def wrap_axis(self) -> Callable[..., Any]:
        """The function with the peer's signature."""
        original = self._peer._wrap_axis

        @wraps(original)
        def _wrap_axis(func: Any, array: Any, *, axis: Any, keepdims: Any, epsilon: Any, bounds: Any, **kwargs: Any) -> Any:
            options = dict(axis=axis, keepdims=keepdims, epsilon=epsilon, bounds=bounds, **kwargs)
            if not self._statistics.serves(func) or not _is_plain(array) or not _is_narrow(kwargs["dtype"]):
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
        dtype, state = options["dtype"], options["random_state"]
        parts = []
        for low, high, places in _groups(lower, upper):
            pair = self._statistics.bounds(func, (low, high), dtype)
            parts.append((places, self._statistics.released(func, cells[places], pair, epsilon, dtype, state, nan=options["nan"])))
        released = np.empty(len(cells), parts[0][1].dtype)
        for places, values in parts:
            released[places] = values
        return released


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
