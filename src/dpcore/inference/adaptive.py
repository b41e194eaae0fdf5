"""Answers to statistical queries that an analyst chooses one by one, each after seeing the answers before it (Stemmer, lecture 6)."""

from __future__ import annotations

import contextlib
import math
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from dpcore import accounting, selection
from dpcore._validation import REAL_DTYPES, check_array, check_integer, check_positive, check_real
from dpcore.errors import BudgetError, ParameterError, ParameterTypeError
from dpcore.inference._parameters import MOST_RECORDS
from dpcore.privacy import Privacy
from dpcore.rng import Stream, resolve
from dpcore.sums import ExactSum, clamped_sum

Query = Callable[[Any], npt.ArrayLike]

_UP = 1 + 2.0**-45
"""Outweighs the roundings of a scale: about ten of 2^-53 each."""
MOST_QUERIES = 10**9


class AdaptiveQueries:
    r"""Up to k statistical queries on one data set, each with Laplace noise of scale 1/(γn), γ = ε/√(8k ln(1/δ)).

    A query is a function of the data that gives one number in [0, 1] for each record; the answer is the noisy mean of these numbers. The
    analyst may choose each query after seeing the answers before it.

    Parameters
    ----------
    records : array or sequence
        The data, with which queries are called. The length n is public.
    epsilon : float
        Privacy loss ε of all k answers together, in (0, 1).
    delta : float
        Failure mass δ of all k answers together, in (0, 1) with ε ≤ 2 ln(1/δ).
    uses : int
        Number k of queries, in [1, 10^9].
    ledger : accounting.Ledger, optional
        The whole (ε, δ) is reserved in it at once, before anything is answered; `best_of` reserves its own ε before it draws. A draw that
        raises leaves its spend as failed, with the class of the failure; nothing is given back.
    rng : Stream, optional
        None is the secure source. A keyed stream together with a ledger is refused.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is out of range or of the wrong type, or a ledger is to pay for keyed noise.
    BudgetError
        If the ledger has not enough left.

    Notes
    -----
    Guarantee: all answers together are (ε, δ)-differentially private: each is γ-private, and by Theorem 2 they compose to
    2kγ² + √(2k ln(1/δ))γ = ε²/(4 ln(1/δ)) + ε/2, which is at most ε just if ε ≤ 2 ln(1/δ). The document's corollary leaves this condition
    out; it is checked here. The mean is an exact sum over n, so that its sensitivity really is 1/n.

    The count of answers is this process's: in a child of fork, as in a copy, nothing is answered.

    Two things are the caller's: a query must look at each record by itself (``lambda x: x > x.mean()`` does not, and its answer is not
    private), and what else it does is not noticed, an exception that tells of the data for instance. A query that raises counts as asked.

    References
    ----------
    Stemmer (lecture 6), Corollary 5, Claim 6, Theorems 7 and 9.

    Examples
    --------
    >>> import numpy as np
    >>> heights = np.random.default_rng(1).normal(170, 10, 100_000)
    >>> queries = AdaptiveQueries(heights, epsilon=0.5, delta=1e-6, uses=10)
    >>> tall = queries.answer(lambda x: x > 180)
    >>> abs(tall - 0.159) < 0.02, queries.remaining
    (True, 9)
    """

    def __init__(
        self, records: Any, epsilon: float, delta: float, *, uses: int, ledger: accounting.Ledger | None = None, rng: Stream | None = None
    ) -> None:
        self.epsilon = check_real("epsilon", epsilon, low=0.0, high=1.0, include_low=False, include_high=False)
        self.delta = check_real("delta", delta, low=0.0, high=1.0, include_low=False, include_high=False)
        self.uses = check_integer("uses", uses, low=1, high=MOST_QUERIES)
        if self.epsilon > 2 * -math.log(self.delta) * (1 - 2.0**-50):
            raise ParameterError(f"epsilon must be at most 2·ln(1/delta) = {-2 * math.log(self.delta)!r}, got {epsilon!r}")
        check_positive("epsilon", self.epsilon)
        self._rng = resolve(rng)
        self._records, self.n = records, _length(records)
        self._scale = math.sqrt(8 * self.uses * -math.log(self.delta)) / self.epsilon * _UP
        self._asked, self._failed, self._lock = 0, False, threading.Lock()
        self._process = os.getpid()
        self._selections: list[float] = []
        self._ledger = ledger
        self._reservation = self._reserve(Privacy(self.epsilon, self.delta), f"{self.uses} adaptive queries")

    # What is spent

    @property
    def gamma(self) -> float:
        """γ: privacy loss of one answer, at most ε/√(8k ln(1/δ))."""
        return 1 / self._scale

    @property
    def scale(self) -> float:
        """Laplace scale 1/(γn) of the noise of one answer."""
        return self._scale / self.n

    @property
    def stderr(self) -> float:
        """Standard error √2/(γn) of one answer about the mean over the data."""
        return math.sqrt(2.0) * self.scale

    @property
    def privacy(self) -> Privacy:
        """Guarantee of all k answers and of all selections made so far."""
        with self._lock:
            return accounting.basic([Privacy(self.epsilon, self.delta), *(Privacy(epsilon) for epsilon in self._selections)])

    @property
    def remaining(self) -> int:
        """Number of queries that may still be asked."""
        with self._lock:
            return self.uses - self._asked

    # Answers

    def answer(self, query: Query) -> float:
        r"""Answer one query.

        Parameters
        ----------
        query : callable
            Called once with the data; gives an array of n real numbers or bools, one for each record and a function of that record alone.
            Numbers outside [0, 1] are clamped, NaN counts as 0.

        Returns
        -------
        float
            The mean of the numbers plus Laplace noise; it may lie outside [0, 1].

        Raises
        ------
        BudgetError
            If k queries were asked, a ledger pays and the first draw failed, or another process made this object; the query is not called
            then.
        ParameterError, ParameterTypeError
            If the query does not give n numbers.
        EntropyError
            If the operating system gives no randomness.
        """
        if not callable(query):
            raise ParameterTypeError(f"query must be a function of the data, got {type(query).__name__}")
        self._refuse_elsewhere()
        with self._lock:
            if self._asked >= self.uses:
                raise BudgetError(f"uses = {self.uses} queries were asked; there is no budget for another one")
            if self._failed:
                raise BudgetError(
                    "the first answer failed and so did its spend in the ledger: make another object, with a budget of its own"
                )
            self._asked += 1
        total = self._total(query)
        with self._first():
            return float(total.noisy("laplace", self._scale, rng=self._rng)) / self.n

    def best_of(self, queries: Sequence[Query], epsilon: float) -> int:
        r"""Choose a query with a large answer, without answering any (NoisyArgmax).

        Parameters
        ----------
        queries : sequence of callables
            T ≥ 1 queries as in `answer`; they do not count towards k.
        epsilon : float
            Privacy loss ε' of this choice, positive and finite, on top of (ε, δ): it is added to `privacy`.

        Returns
        -------
        int
            t with the largest mean plus Laplace noise of scale 2/(ε'·n). With probability at least 1 − β its mean is at least the
            largest one less (4/(ε'·n))·ln(T/β).

        Raises
        ------
        BudgetError
            If the ledger has not enough left, or another process made this object; nothing is drawn then.
        ParameterError, ParameterTypeError, EntropyError
            As in `answer`.

        Notes
        -----
        Guarantee: (ε', 0)-differential privacy. Source: Stemmer (lecture 6), NoisyArgmax, Theorem 7 and Claim 8.
        """
        epsilon = check_positive("epsilon", epsilon)
        given: object = queries
        if not isinstance(given, Sequence) or not all(callable(query) for query in queries):
            raise ParameterTypeError(f"queries must be a sequence of functions of the data, got {type(given).__name__}")
        if not queries:
            raise ParameterError("queries must hold at least one query, got none")
        self._refuse_elsewhere()
        reservation = self._reserve(Privacy(epsilon), f"choice among {len(queries)} queries")
        with self._lock:
            self._selections.append(epsilon)
        with contextlib.nullcontext() if reservation is None else reservation:
            rounded = [self._total(query).rounded() for query in queries]
            return selection.noisy_argmax(np.array([value for value, _ in rounded]), epsilon, rounded[0][1], rng=self._rng)

    # Accuracy

    def empirical_accuracy(self, beta: float) -> float:
        r"""Give α with which all k answers are within α of the means over the data, with probability at least 1 − β.

        Parameters
        ----------
        beta : float
            In (0, 1).

        Returns
        -------
        float
            ln(k/β)/(γn).

        Notes
        -----
        Source: Stemmer (lecture 6), Claim 6.
        """
        beta = check_real("beta", beta, low=0.0, high=1.0, include_low=False, include_high=False)
        return self.scale * math.log(self.uses / beta)

    def statistical_accuracy(self, beta: float, *, constant: float = 1.0) -> tuple[float, float]:
        r"""Give the accuracy of all k answers for the population that the records were drawn from, and the probability of missing it.

        Parameters
        ----------
        beta : float
            In (0, 1): share of the probability that the noise takes.
        constant : float, default 1.0
            C in the condition n ≥ C·ln(1/δ)/ε² of the theorem, which the document writes as n = Ω(ln(1/δ)/ε²): it gives no number, and
            the default stands for none better. Proofs in the literature need other constants, in front of ε as well.

        Returns
        -------
        accuracy : float
            α + 10ε with α = `empirical_accuracy(beta)`.
        failure : float
            β + kδ/ε, at most 1.

        Raises
        ------
        ParameterError
            If a parameter is out of range, or n is below C·ln(1/δ)/ε².

        Notes
        -----
        For records drawn independently from one distribution. Source: Stemmer (lecture 6), Theorem 9; compare Bassily et al. (2016).
        """
        beta = check_real("beta", beta, low=0.0, high=1.0, include_low=False, include_high=False)
        needed = check_positive("constant", constant) * -math.log(self.delta) / self.epsilon**2
        if self.n < needed:
            raise ParameterError(f"the data must have at least constant·ln(1/delta)/epsilon² = {needed!r} records, got {self.n}")
        return self.empirical_accuracy(beta) + 10 * self.epsilon, min(1.0, beta + self.uses * self.delta / self.epsilon)

    # Parts

    def _total(self, query: Query) -> ExactSum:
        values = query(self._records)
        if isinstance(values, np.ndarray) and values.dtype == np.bool_ and not isinstance(values, np.ma.MaskedArray):
            values = values.view(np.uint8)
        array = check_array("the result of a query", values, REAL_DTYPES)
        if array.shape != (self.n,):
            raise ParameterError(f"the result of a query must have one number for each of {self.n} records, got shape {array.shape}")
        if array.dtype.kind == "f" and np.isnan(array).any():
            array = np.where(np.isnan(array), 0.0, array)
        return clamped_sum(array, 0.0, 1.0)

    def _reserve(self, privacy: Privacy, what: str) -> accounting.Reservation | None:
        return None if self._ledger is None else self._ledger.spend(privacy, what=what, secure=self._rng.secure)

    @contextlib.contextmanager
    def _first(self) -> Iterator[None]:
        """The reservation is used by the first draw: done if that gives an answer, failed if it raises."""
        with self._lock:
            reservation, self._reservation = self._reservation, None
        if reservation is None:
            yield
            return
        try:
            with reservation:
                yield
        finally:
            self._failed = reservation.state == "failed"

    def _refuse_elsewhere(self) -> None:
        if os.getpid() != self._process:
            raise BudgetError("queries are answered by the process that made this object: a child of fork would answer k more of them")

    def __reduce__(self) -> NoReturn:
        raise ParameterTypeError("AdaptiveQueries must not be copied or pickled: two copies would answer 2k queries with the budget of k")

    def __repr__(self) -> str:
        return f"AdaptiveQueries(<{self.n} records>, epsilon={self.epsilon!r}, delta={self.delta!r}, uses={self.uses})"


def _length(records: Any) -> int:
    try:
        n = len(records)
    except TypeError:
        raise ParameterTypeError(f"records must have a length, their number, got {type(records).__name__}") from None
    if not 1 <= n <= MOST_RECORDS:
        raise ParameterError(f"records must hold at least one record, got {n}")
    return n
