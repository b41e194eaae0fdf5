"""k-ary (generalised) randomised response."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcore import _backend
from dpcore._exact.probability import complement, one_of
from dpcore._validation import INTEGER_DTYPES, check_array, check_out, check_threads
from dpcore.errors import ParameterError
from dpcore.local._categories import check_call
from dpcore.local._mechanism import FrequencyOracle, check_unknown
from dpcore.local._parameters import check_categories, check_channel_size, check_epsilon
from dpcore.local._support import Support
from dpcore.local.estimates import Aggregate

if TYPE_CHECKING:
    import numpy.typing as npt

    from dpcore.rng import Stream


@dataclass(frozen=True, slots=True)
class KaryResponse(FrequencyOracle):
    r"""k-ary randomised response: tells the truth with probability e^ε/(e^ε + k − 1), else one of the other categories at random.

    Parameters
    ----------
    epsilon : float
        Privacy loss ε of one report, in [2^−20, 700].
    k : int
        Number of categories, in [2, 2^24]; categories are the codes 0 … k − 1.
    unknown : int, optional
        Category that stands for codes outside [0, k); without it such a code raises.

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
    Guarantee: P(y\|x) ≤ e^ε P(y\|x') for all categories x, x', y, with equality where y is the one and not the other; the probabilities are
    exact. Variance of a rare category's frequency: (k − 2 + e^ε)/(e^ε − 1)² a user. Cost: about 1.3 ns a record.
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

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_epsilon(self.epsilon))
        object.__setattr__(self, "k", check_categories(self.k))
        object.__setattr__(self, "unknown", check_unknown(self.unknown, self.k))

    @property
    def support(self) -> Support:
        """p = e^ε/(e^ε + k − 1) and q = 1/(e^ε + k − 1)."""
        q = one_of(self.epsilon, self.k)
        miss = q.times(self.k - 1)
        return Support(float(complement(miss)), float(q), float(miss))

    def privatize(self, records: Any, *, rng: Stream | None = None, out: npt.NDArray[Any] | None = None, threads: int | None = None) -> Any:
        """Randomise every code.

        Parameters
        ----------
        records : array_like of int
            Codes in [0, k), any shape, of a dtype that holds k − 1.
        rng : Stream, optional
            None is the secure source.
        out : ndarray, optional
            Of the shape and dtype of `records`; may be `records` itself.
        threads : int, optional
            Number of threads; None picks.

        Returns
        -------
        int or ndarray
            Codes, of the shape and dtype of `records`; a Python int for a scalar.

        Raises
        ------
        ParameterError, ParameterTypeError
            If an argument does not fit.
        DataError
            If a code is outside [0, k) and `unknown` is not set; nothing is written then.
        """
        codes = check_array("records", records, INTEGER_DTYPES)
        if np.iinfo(codes.dtype).max < self.k - 1:
            raise ParameterError(f"records must have a dtype that holds k - 1 = {self.k - 1}, got {codes.dtype.name}")
        result = None if out is None else check_out(out, codes.dtype.type, codes.shape)
        codes, stream = check_call(codes, self.k, self.unknown, rng=rng, out=result, threads=threads)
        reports = _backend.kary_response(codes, self.epsilon, self.k, self.unknown, stream.position(), threads=threads, out=result)
        return int(reports) if np.ndim(records) == 0 and out is None else reports

    def aggregate(self, reports: Any, *, threads: int | None = None) -> Aggregate:
        """Count the reports of each category.

        Parameters
        ----------
        reports : array_like of int
            Codes that `privatize` made, any shape.
        threads : int, optional
            Number of threads; None picks.

        Returns
        -------
        Aggregate
            counts[v] is the number of reports v, shape (k,).

        Raises
        ------
        ParameterError, ParameterTypeError
            If an argument does not fit.
        DataError
            If a report is outside [0, k).
        """
        codes = check_array("reports", reports, INTEGER_DTYPES).reshape(-1)
        check_threads(threads)
        return Aggregate(self, codes.size, _backend.code_counts(codes, self.k, threads=threads))

    def channel(self) -> npt.NDArray[np.float64]:
        """Give the matrix P(y|x): k rows x, k columns y.

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
