"""Unary encodings: one bit a category (basic RAPPOR and optimised unary encoding)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dpcore import _backend
from dpcore._exact.probability import HALF, Probability, complement, logistic_complement
from dpcore._validation import INTEGER_DTYPES, check_array, check_choice, check_threads
from dpcore.errors import ParameterError
from dpcore.local._categories import check_call, fraction
from dpcore.local._mechanism import FrequencyOracle, check_report_out, check_rows, check_unknown
from dpcore.local._parameters import MAX_ENUMERATED_OUTPUTS, check_categories, check_epsilon
from dpcore.local._support import Support
from dpcore.local.estimates import Aggregate

if TYPE_CHECKING:
    import numpy.typing as npt

    from dpcore.rng import Stream

Method = Literal["optimal", "symmetric"]


@dataclass(frozen=True, slots=True)
class UnaryEncoding(FrequencyOracle):
    r"""Unary encoding: a bit for each category, the true one set with probability p, each other one with probability q.

    Parameters
    ----------
    epsilon : float
        Privacy loss ε of one report, in [2^−20, 700].
    k : int
        Number of categories, in [2, 2^24].
    method : {"optimal", "symmetric"}, default "optimal"
        "optimal": p = ½, q = 1/(e^ε + 1). "symmetric" (basic RAPPOR): p = 1 − q, q = 1/(e^(ε/2) + 1).
    unknown : int, optional
        Category that stands for codes outside [0, k); without it such a code raises.

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
    Guarantee: P(y\|x) ≤ e^ε P(y\|x') with e^ε = p(1 − q)/(q(1 − p)). Variance of a rare category's frequency: 4e^ε/(e^ε − 1)² a user
    ("optimal"), e^(ε/2)/(e^(ε/2) − 1)² ("symmetric"). Cost: about 0.2 ns a bit. A report is ⌈k/8⌉ bytes, least significant bit first.
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

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_epsilon(self.epsilon))
        object.__setattr__(self, "k", check_categories(self.k))
        check_choice("method", self.method, ("optimal", "symmetric"))
        object.__setattr__(self, "unknown", check_unknown(self.unknown, self.k))

    def _probabilities(self) -> tuple[Probability, Probability]:
        q = logistic_complement(self.epsilon, halved=self.method == "symmetric")
        return (HALF if self.method == "optimal" else complement(q)), q

    @property
    def support(self) -> Support:
        """The two probabilities that a bit is set."""
        p, q = self._probabilities()
        return Support(float(p), float(q), float(complement(p)))

    def privatize(
        self, records: Any, *, rng: Stream | None = None, out: npt.NDArray[np.uint8] | None = None, threads: int | None = None
    ) -> Any:
        """Randomise every code.

        Parameters
        ----------
        records : array_like of int, shape (n,)
            Codes in [0, k); a scalar gives one report.
        rng : Stream, optional
            None is the secure source.
        out : ndarray of uint8, shape (n, ⌈k/8⌉), optional
            Written in place; C-contiguous.
        threads : int, optional
            Number of threads; None picks.

        Returns
        -------
        ndarray of uint8, shape (n, ⌈k/8⌉) or (⌈k/8⌉,)
            Packed bits; those beyond k are 0.

        Raises
        ------
        ParameterError, ParameterTypeError
            If an argument does not fit.
        DataError
            If a code is outside [0, k) and `unknown` is not set; nothing is written then.
        """
        vector, result = vector_and_rows(records, self.k, out)
        codes, stream = check_call(vector, self.k, self.unknown, rng=rng, out=result, threads=threads)
        p, q = self._probabilities()
        reports = _backend.unary_response(codes, self.k, p, q, self.unknown, stream.position(), threads=threads, out=result)
        return reports.reshape(-1) if np.ndim(records) == 0 else reports

    def aggregate(self, reports: Any, *, threads: int | None = None) -> Aggregate:
        """Count the reports that set each bit.

        Parameters
        ----------
        reports : ndarray of uint8, shape (n, ⌈k/8⌉)
            What `privatize` made.
        threads : int, optional
            Number of threads; None picks.

        Returns
        -------
        Aggregate
            counts[v] is the number of reports with bit v, shape (k,).

        Raises
        ------
        ParameterError, ParameterTypeError, DataError
            If the reports have another shape or type, or bits beyond k.
        """
        check_threads(threads)
        rows = check_rows(reports, self.k)
        return Aggregate(self, len(rows), _backend.column_counts(rows, self.k, threads=threads))

    def channel(self) -> npt.NDArray[np.float64]:
        """Give the matrix P(y|x): k rows x, 2^k columns y, bit v of the column's number being the bit of category v.

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


def vector_and_rows(records: object, k: int, out: object) -> tuple[npt.NDArray[Any], npt.NDArray[np.uint8] | None]:
    """Return codes as a vector, and `out` if it is given and has a row of packed bits for each."""
    codes = check_array("records", records, INTEGER_DTYPES)
    if codes.ndim > 1:
        raise ParameterError(f"records must be a scalar or a vector, got shape {codes.shape}")
    vector = codes.reshape(-1)
    return vector, None if out is None else check_report_out(out, np.uint8, (vector.size, (k + 7) // 8))
