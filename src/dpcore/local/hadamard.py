"""Hadamard response: one entry of the Hadamard matrix, randomised."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dpcore import _backend
from dpcore._dataclasses import dataclass
from dpcore._exact.probability import complement, logistic_complement
from dpcore.local._oracle import FrequencyOracle
from dpcore.local._parameters import check_channel_size
from dpcore.local._reports import check_structured
from dpcore.local._support import Support

if TYPE_CHECKING:
    from dpcore.local.estimates import Aggregate


@dataclass(frozen=True, slots=True)
class HadamardResponse(FrequencyOracle[npt.NDArray[Any], npt.NDArray[Any]]):
    r"""Hadamard response: a random row of the Hadamard matrix, and its sign in the category's column, randomised.

    Parameters
    ----------
    epsilon : float
        Privacy loss ε of one report, in [2^−20, 700].
    k : int
        Number of categories, in [2, 2^24].
    unknown : int, optional
        Category to use for codes outside [0, k). By default such a code raises `DataError`.
    categories : sequence of str, optional
        Labels of the k categories; see `from_categories`.

    Attributes
    ----------
    rows : int
        K = 2^⌈log₂ k⌉ rows. Row 0 is among them; without it the estimate would be biased.
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
    H[r, v] = (−1)^popcount(r & v). The sign is flipped with probability 1/(1 + e^ε).

    Guarantee: P(y\|x) ≤ e^ε P(y\|x').

    A report is 5 bytes: the row and the sign (True is +1). `privatize` returns a structured array of the shape of the records and of dtype
    [("row", "<u4"), ("bit", "?")]. The variance of a rare category's frequency is ((e^ε + 1)/(e^ε − 1))² for one user.

    Cost: 3 ns to make a report; one pass and K·log₂K additions to count.

    Source: Bassily et al. (2017); Acharya, Sun & Zhang (2019).

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
    categories: tuple[str, ...] | None = field(default=None, kw_only=True, repr=False)

    FALLS = True

    def __post_init__(self) -> None:
        self._settle()

    @property
    def rows(self) -> int:
        """The least power of two that is at least k."""
        return 1 << (self.k - 1).bit_length()

    @property
    def support(self) -> Support:
        """p = e^ε/(e^ε + 1) and q = ½."""
        flip = logistic_complement(self.epsilon)
        return Support(float(complement(flip)), 0.5, float(flip))

    def _report_type(self, codes: npt.NDArray[Any]) -> tuple[tuple[int, ...], Any]:
        return codes.shape, _backend.HADAMARD_REPORT

    def _law(self) -> _backend.Law:
        return _backend.hadamard_law(self.k, logistic_complement(self.epsilon), self.unknown)

    def _respond(
        self, codes: npt.NDArray[Any], position: _backend.Position, *, threads: int | None, out: npt.NDArray[Any] | None
    ) -> npt.NDArray[Any]:
        flip = logistic_complement(self.epsilon)
        return _backend.hadamard_response(codes, self.k, flip, self.unknown, position, threads=threads, out=out)

    def _check_reports(self, reports: object) -> npt.NDArray[Any]:
        return check_structured(reports, _backend.HADAMARD_REPORT)

    def _count(self, reports: npt.NDArray[Any], threads: int | None) -> npt.NDArray[np.int64]:
        return _backend.sign_sums(reports, self.rows, threads=threads)

    def _support_counts(self, counted: Aggregate) -> npt.NDArray[np.float64]:
        agreement = _backend.walsh_hadamard(np.asarray(counted.counts, np.int64))[: self.k]
        return (counted.n + agreement) / 2

    def channel(self) -> npt.NDArray[np.float64]:
        """Return the matrix P(row, sign|x): k rows x, 2K columns, column 2·row + sign with sign 1 for +1.

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
