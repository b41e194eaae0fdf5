"""Hadamard response: one randomised entry of the Hadamard matrix."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcore import _backend
from dpcore._exact.probability import complement, logistic_complement
from dpcore._validation import INTEGER_DTYPES, check_array, check_threads
from dpcore.local._categories import check_call
from dpcore.local._mechanism import FrequencyOracle, check_report_out, check_structured, check_unknown
from dpcore.local._parameters import check_categories, check_channel_size, check_epsilon
from dpcore.local._support import Support
from dpcore.local.estimates import Aggregate

if TYPE_CHECKING:
    import numpy.typing as npt

    from dpcore.rng import Stream


@dataclass(frozen=True, slots=True)
class HadamardResponse(FrequencyOracle):
    r"""Hadamard response: a uniform row of the Hadamard matrix, and the sign in the category's column, randomised.

    Parameters
    ----------
    epsilon : float
        Privacy loss ε of one report, in [2^−20, 700].
    k : int
        Number of categories, in [2, 2^24].
    unknown : int, optional
        Category that stands for codes outside [0, k); without it such a code raises.

    Attributes
    ----------
    rows : int
        K = 2^⌈log₂ k⌉ rows, row 0 included: leaving it out would bias the estimate.
    privacy : Privacy
        (ε, 0).
    support : Support
        p = e^ε/(e^ε + 1), q = ½.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is outside its range or of the wrong type.

    Notes
    -----
    H[r, v] = (−1)^popcount(r & v); the sign is flipped with probability 1/(1 + e^ε). Guarantee: P(y\|x) ≤ e^ε P(y\|x').
    Variance of a rare category's frequency: ((e^ε + 1)/(e^ε − 1))² a user. Cost: 3 ns a report to make, K·log₂K additions to count.
    A report is 5 bytes: the row and the sign (True is +1). Source: Bassily et al. (2017); Acharya, Sun & Zhang (2019).

    Examples
    --------
    >>> from dpcore.local import HadamardResponse
    >>> mechanism = HadamardResponse(epsilon=1.0, k=1000)
    >>> mechanism.rows, round(mechanism.variance(), 3)
    (1024, 4.683)
    """

    epsilon: float
    k: int = field(kw_only=True)
    unknown: int | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_epsilon(self.epsilon))
        object.__setattr__(self, "k", check_categories(self.k))
        object.__setattr__(self, "unknown", check_unknown(self.unknown, self.k))

    @property
    def rows(self) -> int:
        """The least power of two that is at least k."""
        return 1 << (self.k - 1).bit_length()

    @property
    def support(self) -> Support:
        """p = e^ε/(e^ε + 1) and q = ½."""
        flip = logistic_complement(self.epsilon)
        return Support(float(complement(flip)), 0.5, float(flip))

    def privatize(self, records: Any, *, rng: Stream | None = None, out: npt.NDArray[Any] | None = None, threads: int | None = None) -> Any:
        """Randomise every code.

        Parameters
        ----------
        records : array_like of int
            Codes in [0, k), any shape; a scalar gives an array of shape ().
        rng : Stream, optional
            None is the secure source.
        out : ndarray, optional
            Of the shape of `records` and dtype [("row", "<u4"), ("bit", "?")], C-contiguous.
        threads : int, optional
            Number of threads; None picks.

        Returns
        -------
        ndarray
            Rows and signs, of the shape of `records`.

        Raises
        ------
        ParameterError, ParameterTypeError
            If an argument does not fit.
        DataError
            If a code is outside [0, k) and `unknown` is not set; nothing is written then.
        """
        codes = check_array("records", records, INTEGER_DTYPES)
        result = None if out is None else check_report_out(out, _backend.HADAMARD_REPORT, codes.shape)
        codes, stream = check_call(codes, self.k, self.unknown, rng=rng, out=result, threads=threads)
        flip = logistic_complement(self.epsilon)
        return _backend.hadamard_response(codes, self.k, flip, self.unknown, stream.position(), threads=threads, out=result)

    def aggregate(self, reports: Any, *, threads: int | None = None) -> Aggregate:
        """Sum the signs of each row.

        Parameters
        ----------
        reports : ndarray
            What `privatize` made, any shape.
        threads : int, optional
            Number of threads; None picks.

        Returns
        -------
        Aggregate
            counts[r] is the sum of the signs reported for row r, shape (K,).

        Raises
        ------
        ParameterError
            If the reports have another dtype.
        DataError
            If a row is not below K.
        """
        check_threads(threads)
        signs = check_structured(reports, _backend.HADAMARD_REPORT)
        return Aggregate(self, signs.size, _backend.sign_sums(signs, self.rows, threads=threads))

    def _support_counts(self, counted: Aggregate) -> npt.NDArray[np.float64]:
        agreement = _backend.walsh_hadamard(np.asarray(counted.counts, np.int64))[: self.k]
        return (counted.n + agreement) / 2

    def channel(self) -> npt.NDArray[np.float64]:
        """Give the matrix P(row, sign|x): k rows x, 2K columns, column 2·row + sign with sign 1 for +1.

        Returns
        -------
        ndarray of float64, shape (k, 2K)
            Each entry is the float64 nearest to the exact probability.

        Raises
        ------
        ParameterError
            If it would have more than 2^26 entries.
        """
        rows = self.rows
        check_channel_size(self.k, 2 * rows)
        common = np.bitwise_and.outer(np.arange(self.k, dtype=np.uint32), np.arange(rows, dtype=np.uint32))
        for shift in (16, 8, 4, 2, 1):
            common ^= common >> shift
        positive = (common & 1) == 0
        flip = logistic_complement(self.epsilon)
        # division by a power of two is exact
        truth, lie = float(complement(flip)) / rows, float(flip) / rows
        return np.stack([np.where(positive, lie, truth), np.where(positive, truth, lie)], axis=2).reshape(self.k, 2 * rows)
