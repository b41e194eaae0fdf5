"""Unary encodings: one bit for each category (basic RAPPOR and optimised unary encoding)."""

from __future__ import annotations

from dataclasses import field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import numpy.typing as npt

from dpcore import _backend
from dpcore._dataclasses import dataclass
from dpcore._exact.probability import HALF, Probability, complement, logistic_complement
from dpcore._validation import check_choice
from dpcore.errors import ParameterError
from dpcore.local._categories import fraction
from dpcore.local._oracle import FrequencyOracle
from dpcore.local._parameters import MAX_ENUMERATED_OUTPUTS
from dpcore.local._reports import check_rows, packed_type
from dpcore.local._support import Support

if TYPE_CHECKING:
    from collections.abc import Iterable


Method = Literal["optimal", "symmetric"]


@lru_cache(maxsize=1024)
def _probabilities(epsilon: float, method: str) -> tuple[Probability, Probability]:
    q = logistic_complement(epsilon, halved=method == "symmetric")
    return (HALF if method == "optimal" else complement(q)), q


@dataclass(frozen=True, slots=True)
class UnaryEncoding(FrequencyOracle[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]):
    r"""Unary encoding: one bit for each category. The true one is set with probability p, each other one with probability q.

    Parameters
    ----------
    epsilon : float
        Privacy loss ε of one report, in [2^−20, 700].
    k : int
        Number of categories, in [2, 2^24].
    method : {"optimal", "symmetric"}, default "optimal"
        "optimal": p = ½, q = 1/(e^ε + 1). "symmetric" (basic RAPPOR): p = 1 − q, q = 1/(e^(ε/2) + 1).
    unknown : int, optional
        Category to use for codes outside [0, k). By default such a code raises `DataError`.
    categories : sequence of str, optional
        Labels of the k categories; see `from_categories`.

    Attributes
    ----------
    privacy : Privacy
        (ε, 0).
    support : Support
        p and q.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is outside its range or of the wrong type.

    Notes
    -----
    Guarantee: P(y\|x) ≤ e^ε P(y\|x') with e^ε = p(1 − q)/(q(1 − p)).

    A report is a row of ⌈k/8⌉ bytes: k packed bits, least significant bit first, then zeros. `privatize` takes a scalar or a vector of n
    records and returns uint8 of shape (⌈k/8⌉,) or (n, ⌈k/8⌉). The variance of a rare category's frequency is 4e^ε/(e^ε − 1)² for one user
    ("optimal") or e^(ε/2)/(e^(ε/2) − 1)² ("symmetric").

    Cost: about 0.2 ns a bit.

    Source: Wang et al. (2017); Erlingsson, Pihur & Korolova (2014).

    Examples
    --------
    >>> import numpy as np
    >>> from dpcore.local import UnaryEncoding
    >>> mechanism = UnaryEncoding(epsilon=1.0, k=100)
    >>> mechanism.privatize(np.arange(100)).shape
    (100, 13)
    >>> round(mechanism.variance(), 3)
    3.683
    """

    epsilon: float
    k: int = field(kw_only=True)
    method: Method = field(default="optimal", kw_only=True)
    unknown: int | None = field(default=None, kw_only=True)
    categories: tuple[str, ...] | None = field(default=None, kw_only=True, repr=False)

    FALLS = True

    def __post_init__(self) -> None:
        self._settle()
        check_choice("method", self.method, ("optimal", "symmetric"))

    @classmethod
    def from_categories(cls, epsilon: float, categories: Iterable[str], *, method: Method = "optimal", unknown: str | None = None) -> Self:
        """Make the mechanism for labelled categories, whose records are strings.

        Parameters
        ----------
        epsilon : float
            Privacy loss ε of one report, in [2^−20, 700].
        categories : iterable of str
            The labels, distinct, between 2 and 2^24 of them; see `KaryResponse.from_categories`.
        method : {"optimal", "symmetric"}, default "optimal"
            As in the class.
        unknown : str, optional
            Label to use for all others and for missing values. By default they raise `DataError`.

        Returns
        -------
        UnaryEncoding
            The mechanism with k = number of labels.
        """
        return cls._labelled(epsilon, categories, unknown, method=method)

    def _probabilities(self) -> tuple[Probability, Probability]:
        return _probabilities(self.epsilon, self.method)

    @property
    def support(self) -> Support:
        """The two probabilities that a bit is set."""
        p, q = self._probabilities()
        return Support(float(p), float(q), float(complement(p)))

    def _report_type(self, codes: npt.NDArray[Any]) -> tuple[tuple[int, ...], Any]:
        return packed_type(codes, self.k)

    def _law(self) -> _backend.Law:
        return _backend.unary_law(self.k, *self._probabilities(), self.unknown)

    def _respond(
        self, codes: npt.NDArray[Any], position: _backend.Position, *, threads: int | None, out: npt.NDArray[Any] | None
    ) -> npt.NDArray[Any]:
        p, q = self._probabilities()
        return _backend.unary_response(codes.reshape(-1), self.k, p, q, self.unknown, position, threads=threads, out=out)

    HAS_CONSTANT_WORK = True

    def _constant_reports(
        self, codes: npt.NDArray[np.int64], position: _backend.Position, threads: int | None, shape: tuple[int, ...], dtype: Any
    ) -> npt.NDArray[Any]:
        p, q = self._probabilities()
        bits = _backend.wiped_empty((codes.size, self.k), np.uint8)
        np.equal(codes.reshape(-1, 1), np.arange(self.k), out=bits.view(np.bool_))
        reports = _backend.constant_bits(q, p, bits, position, threads=threads)
        return np.packbits(reports, axis=1, bitorder="little").astype(dtype).reshape(shape)

    def _given(self, reports: npt.NDArray[Any], records: Any, *, single: bool, out: npt.NDArray[Any] | None) -> Any:  # noqa: ARG002
        return reports.reshape(-1) if single else reports

    def _check_reports(self, reports: object) -> npt.NDArray[Any]:
        return check_rows(reports, self.k)

    def _count(self, reports: npt.NDArray[Any], threads: int | None) -> npt.NDArray[np.int64]:
        return _backend.column_counts(reports, self.k, threads=threads)

    def channel(self) -> npt.NDArray[np.float64]:
        """Return the matrix P(y|x): k rows x, 2^k columns y, bit v of the column's number being the bit of category v.

        Returns
        -------
        ndarray of float64, shape (k, 2^k)
            Each entry is the float64 nearest to the exact probability.

        Raises
        ------
        ParameterError
            If there are more than 2^12 outputs.
        """
        if self.k >= MAX_ENUMERATED_OUTPUTS.bit_length():
            raise ParameterError(f"k = {self.k} gives 2**{self.k} outputs; at most 2**12 = {MAX_ENUMERATED_OUTPUTS} are listed")
        outputs = np.arange(2**self.k)
        ones = sum((outputs >> v & 1) for v in range(self.k))
        p, q = (fraction(each) for each in self._probabilities())
        # the entry depends on the own bit and on how many others are set
        entry = np.array(
            [[float((p if own else 1 - p) * q**others * (1 - q) ** (self.k - 1 - others)) for others in range(self.k)] for own in (0, 1)]
        )
        own = np.stack([outputs >> v & 1 for v in range(self.k)])
        matrix: npt.NDArray[np.float64] = entry[own, np.minimum(ones - own, self.k - 1)]
        return matrix
