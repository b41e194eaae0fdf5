"""k-ary (generalised) randomised response."""

from __future__ import annotations

from dataclasses import field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import numpy.typing as npt

from dpcore import _backend
from dpcore._dataclasses import dataclass
from dpcore._exact.probability import complement, one_of
from dpcore._series import SeriesT, like
from dpcore._validation import INTEGER_DTYPES, check_array, check_out
from dpcore.errors import ParameterError
from dpcore.local._oracle import FrequencyOracle
from dpcore.local._parameters import check_channel_size
from dpcore.local._support import Support

if TYPE_CHECKING:
    from dpcore.rng import Stream


@lru_cache(maxsize=1024)
def _support(epsilon: float, k: int) -> Support:
    q = one_of(epsilon, k)
    miss = q.times(k - 1)
    return Support(float(complement(miss)), float(q), float(miss))


@dataclass(frozen=True, slots=True)
class KaryResponse(FrequencyOracle[int, npt.NDArray[Any]]):
    r"""k-ary randomised response: reports the true category with probability e^ε/(e^ε + k − 1), otherwise one of the others at random.

    Parameters
    ----------
    epsilon : float
        Privacy loss ε of one report, in [2^−20, 700].
    k : int
        Number of categories, in [2, 2^24]; categories are the codes 0 … k − 1.
    unknown : int, optional
        Category to use for codes outside [0, k). By default such a code raises `DataError`.
    categories : sequence of str, optional
        Labels of the k categories; see `from_categories`.

    Attributes
    ----------
    privacy : Privacy
        (ε, 0).
    support : Support
        p = e^ε/(e^ε + k − 1), q = 1/(e^ε + k − 1).

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is outside its range or of the wrong type.

    Notes
    -----
    Guarantee: P(y\|x) ≤ e^ε P(y\|x') for all categories x, x', y, with equality for y = x ≠ x'. The probabilities are exact.

    A report is a code, in an array of the shape and dtype of the codes (int64 for labels); a Python int for a single record; a Series for a
    Series. `out` may be `records` itself. The variance of a rare category's frequency is (k − 2 + e^ε)/(e^ε − 1)² for one user.

    Cost: about 1.3 ns a record.

    Source: Kairouz, Oh & Viswanath (2016); Steinberger (2019), Definition 1.4.

    Examples
    --------
    >>> import numpy as np
    >>> from dpcore.local import KaryResponse
    >>> mechanism = KaryResponse(epsilon=2.0, k=4)
    >>> reports = mechanism.privatize(np.repeat(np.arange(4), 25_000))
    >>> estimate = mechanism.estimate(reports)
    >>> estimate.value.shape, bool(abs(estimate.value - 0.25).max() < 0.03)
    ((4,), True)
    """

    epsilon: float
    k: int = field(kw_only=True)
    unknown: int | None = field(default=None, kw_only=True)
    categories: tuple[str, ...] | None = field(default=None, kw_only=True, repr=False)

    FALLS = True

    def __post_init__(self) -> None:
        self._settle()

    if TYPE_CHECKING:  # as that of all oracles; and a Series for a Series

        @overload
        def privatize(  # type: ignore[overload-overlap]  # a string is an array, too
            self, records: int | np.integer[Any] | str, *, rng: Stream | None = ..., out: None = ..., threads: int | None = ...
        ) -> int: ...
        @overload
        def privatize(self, records: SeriesT, *, rng: Stream | None = ..., out: None = ..., threads: int | None = ...) -> SeriesT: ...
        @overload
        def privatize(
            self, records: npt.ArrayLike, *, rng: Stream | None = ..., out: npt.NDArray[Any] | None = ..., threads: int | None = ...
        ) -> npt.NDArray[Any]: ...
        def privatize(self, records: Any, *, rng: Stream | None = None, out: Any = None, threads: int | None = None) -> Any:
            """Randomise every record."""

    @property
    def support(self) -> Support:
        """p = e^ε/(e^ε + k − 1) and q = 1/(e^ε + k − 1)."""
        return _support(self.epsilon, self.k)

    def _report_type(self, codes: npt.NDArray[Any]) -> tuple[tuple[int, ...], Any]:
        bits = 8 * codes.dtype.itemsize - (codes.dtype.kind == "i")
        if self.k > 1 << bits:
            raise ParameterError(f"records must have a dtype that holds k - 1 = {self.k - 1}, got {codes.dtype.name}")
        return codes.shape, codes.dtype.type

    def _check_out(self, out: object, shape: tuple[int, ...], dtype: Any) -> npt.NDArray[Any]:
        return check_out(out, dtype, shape)

    def _law(self) -> _backend.Law:
        return _backend.kary_law(self.epsilon, self.k, self.unknown)

    def _respond(
        self, codes: npt.NDArray[Any], position: _backend.Position, *, threads: int | None, out: npt.NDArray[Any] | None
    ) -> npt.NDArray[Any]:
        return _backend.kary_response(codes, self.epsilon, self.k, self.unknown, position, threads=threads, out=out)

    HAS_CONSTANT_WORK = True

    def _constant_reports(
        self, codes: npt.NDArray[np.int64], position: _backend.Position, threads: int | None, shape: tuple[int, ...], dtype: Any
    ) -> npt.NDArray[Any]:
        moved = _backend.constant_shifts(
            self.k, complement(one_of(self.epsilon, self.k).times(self.k - 1)), codes, position, threads=threads
        )
        return moved.astype(dtype).reshape(shape)

    def _given(self, reports: npt.NDArray[Any], records: Any, *, single: bool, out: npt.NDArray[Any] | None) -> Any:
        if out is not None:
            return reports
        return int(reports) if single else like(records, reports)

    def _check_reports(self, reports: object) -> npt.NDArray[Any]:
        return check_array("reports", reports, INTEGER_DTYPES).reshape(-1)

    def _count(self, reports: npt.NDArray[Any], threads: int | None) -> npt.NDArray[np.int64]:
        return _backend.code_counts(reports, self.k, threads=threads)

    def channel(self) -> npt.NDArray[np.float64]:
        """Return the matrix P(y|x): k rows x, k columns y.

        Returns
        -------
        ndarray of float64, shape (k, k)
            Each entry is the float64 nearest to the exact probability.

        Raises
        ------
        ParameterError
            If it would have more than 2^26 entries.
        """
        check_channel_size(self.k, self.k)
        q = one_of(self.epsilon, self.k)
        matrix = np.full((self.k, self.k), float(q))
        np.fill_diagonal(matrix, float(complement(q.times(self.k - 1))))
        return matrix
