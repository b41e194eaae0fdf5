"""Answers to statistical queries that an analyst chooses one after the other, each after the previous answers (Stemmer, lecture 6)."""

from __future__ import annotations

import contextlib
import math
import threading
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from dpcore import accounting, selection
from dpcore._exact.intervals import log_up
from dpcore._processes import OneProcess
from dpcore._validation import REAL_DTYPES, check_array, check_beta, check_choice, check_integer, check_positive, check_real
from dpcore.errors import BudgetError, ParameterError, ParameterTypeError
from dpcore.inference._parameters import MOST_RECORDS
from dpcore.inference._population import deviation
from dpcore.inference.generalization import LEAST_BETA, generalization_error
from dpcore.privacy import Guaranteed, Privacy
from dpcore.rng import Stream, resolve
from dpcore.sums import ExactSum, clamped_sum

Query = Callable[[Any], npt.ArrayLike]

_UP = 1 + 2.0**-45
"""Outweighs the roundings of a scale: about ten of 2^-53 each."""
MOST_QUERIES = 10**9


class AdaptiveQueries(Guaranteed, OneProcess):
    r"""Up to k statistical queries on one data set, each with Laplace noise of scale 1/(γn), γ = ε/√(8k ln(1/δ)).

    A query is a function of the data that gives one number in [0, 1] for each record; the answer is the noisy mean of these numbers. You
    may choose each query after you have seen the previous answers.

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
        Reserves the whole (ε, δ) at once, before any answer; `best_of` reserves its own ε before it draws. If a draw raises an error, its
        spend stays in the ledger as failed, with the class of the error.
    unit : str, default "row"
        Whose data one record is, for the ledger: the ε is for a record. Name the ledger's unit if each record is all that one person gave.
    rng : Stream, optional
        None is the secure source. A keyed stream together with a ledger is refused.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is out of range or of the wrong type, or a ledger and a keyed stream are combined.
    BudgetError
        If the budget left in the ledger is too small.

    Notes
    -----
    Guarantee: all answers together are (ε, δ)-differentially private: each is γ-private, and by Theorem 2 they compose to
    2kγ² + √(2k ln(1/δ))γ = ε²/(4 ln(1/δ)) + ε/2, which is at most ε if and only if ε ≤ 2 ln(1/δ). The corollary in the lecture omits this
    condition; the constructor checks it. The mean is an exact sum over n, so its sensitivity is exactly 1/n.

    The object counts the answers of its own process, so it refuses to answer in a forked child, and it cannot be copied.

    You must make sure of two things. A query must use each record by itself: ``lambda x: x > x.mean()`` does not, and its answer is
    not private. And a query must not reveal data in another way, for instance by an exception. A query that raises counts as asked.
    Cost: that of the query, and one pass over its numbers.

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

    WORDS = "AdaptiveQueries count their answers in memory, and two of them would answer twice as many as the budget allows"

    def __init__(
        self,
        records: Any,
        epsilon: float,
        delta: float,
        *,
        uses: int,
        ledger: accounting.Ledger | None = None,
        unit: str = "row",
        rng: Stream | None = None,
    ) -> None:
        self.epsilon = check_real("epsilon", epsilon, low=0.0, high=1.0, include_low=False, include_high=False)
        self.delta = check_real("delta", delta, low=0.0, high=1.0, include_low=False, include_high=False)
        self.uses = check_integer("uses", uses, low=1, high=MOST_QUERIES)
        if self.epsilon > 2 * -math.log(self.delta) * (1 - 2.0**-50):
            raise ParameterError(f"epsilon must be at most 2·ln(1/delta) = {-2 * math.log(self.delta)!r}, got {epsilon!r}")
        check_positive("epsilon", self.epsilon)
        self._rng = resolve(rng)
        self._records, self.n = records, _length(records)
        self._scale = math.sqrt(8 * self.uses * log_up(1 / Fraction(self.delta))) / self.epsilon * _UP
        self._asked, self._failed, self._lock = 0, False, threading.Lock()
        super().__init__()
        self._selections: list[float] = []
        self._ledger, self._unit = ledger, unit
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
            Called once with the data. It must return n real numbers or bools, one for each record and a function of that record alone.
            Numbers outside [0, 1] are clamped; NaN counts as 0.

        Returns
        -------
        float
            The mean of the numbers plus Laplace noise; it may lie outside [0, 1].

        Raises
        ------
        BudgetError
            If k queries were asked, the first draw failed with a ledger, or another process made this object. The query is then not
            called.
        ParameterError, ParameterTypeError
            If the query does not return n numbers.
        EntropyError
            If the operating system gives no randomness.
        """
        if not callable(query):
            raise ParameterTypeError(f"query must be a function of the data, got {type(query).__name__}")
        self.refuse_elsewhere()
        with self._lock:
            if self._asked >= self.uses:
                raise BudgetError(f"uses = {self.uses} queries were asked, and there is no budget for another one")
            if self._failed:
                raise BudgetError(
                    "the first answer failed, and so did its spend in the ledger: make another object, with a separate budget"
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
            Privacy loss ε' of this choice, positive and finite. It is added to `privacy`.

        Returns
        -------
        int
            t with the largest mean plus Laplace noise of scale 2/(ε'·n). With probability at least 1 − β its mean is at least the
            largest one less (4/(ε'·n))·ln(T/β).

        Raises
        ------
        BudgetError
            If the budget left in the ledger is too small, or another process made this object. Nothing is drawn then.
        ParameterError, ParameterTypeError, EntropyError
            As in `answer`.

        Notes
        -----
        Guarantee: (ε', 0)-differential privacy.
        Source: Stemmer (lecture 6), NoisyArgmax, Theorem 7 and Claim 8.
        """
        epsilon = check_positive("epsilon", epsilon)
        given: object = queries
        if not isinstance(given, Sequence) or not all(callable(query) for query in queries):
            raise ParameterTypeError(f"queries must be a sequence of functions of the data, got {type(given).__name__}")
        if not queries:
            raise ParameterError("queries must hold at least one query, got none")
        self.refuse_elsewhere()
        reservation = self._reserve(Privacy(epsilon), f"choice among {len(queries)} queries")
        with self._lock:
            self._selections.append(epsilon)
        with contextlib.nullcontext() if reservation is None else reservation:
            rounded = [self._total(query).rounded() for query in queries]
            return selection.noisy_argmax(np.array([value for value, _ in rounded]), epsilon, rounded[0][1], rng=self._rng)

    # Accuracy

    def empirical_accuracy(self, beta: float | None = None, *, confidence: float | None = None) -> float:
        r"""Return an α such that all k answers are within α of the means over the data, with probability at least 1 − β.

        Parameters
        ----------
        beta : float, optional
            In (0, 1). Exactly one of `beta` and `confidence` is required.
        confidence : float, optional
            1 − β, in (0, 1).

        Returns
        -------
        float
            ln(k/β)/(γn).

        Notes
        -----
        Source: Stemmer (lecture 6), Claim 6.
        """
        return self._within(check_beta(beta, confidence))

    def statistical_accuracy(
        self, beta: float, *, constant: float = 1.0, method: Literal["lecture", "proved"] = "lecture"
    ) -> tuple[float, float]:
        r"""Return the accuracy of all k answers for the population that the records were drawn from, and the probability of missing it.

        Parameters
        ----------
        beta : float
            In (0, 1): probability that the noise is larger than α allows; with "proved", half the probability of missing the accuracy.
        constant : float, default 1.0
            C in the condition n ≥ C·ln(1/δ)/ε² of "lecture". The lecture writes n = Ω(ln(1/δ)/ε²) without a number. Every C ≥ 1/7 is
            proved in docs/exactness-adaptive.md; smaller ones are not.
        method : {"lecture", "proved"}, default "lecture"
            The numbers of the theorem, or those of `generalization_error` for this n, which need no condition and are smaller.

        Returns
        -------
        accuracy : float
            α + 10ε with α = `empirical_accuracy(beta)`. With "proved" the smaller of α + `generalization_error(ε, δ, n=n, beta=β/k)`, at
            most 1 + α, and s(1 + ln(k/(sβ))) + tanh(ε/4) + δ/β, where s is `scale`.
        failure : float
            β + kδ/ε, at most 1; with "proved" 2β, at most 1.

        Raises
        ------
        ParameterError
            If a parameter is out of range, or n is below C·ln(1/δ)/ε².

        Notes
        -----
        For records drawn independently from one distribution, if `best_of` does not choose queries. `planning.AdaptiveAnswers` finds the n,
        ε and δ for an accuracy. Source: Stemmer (lecture 6), Theorem 9; compare Bassily et al. (2016).
        """
        beta = check_beta(beta)
        constant = check_positive("constant", constant)
        if check_choice("method", method, ("lecture", "proved")) == "proved":
            each = beta / self.uses
            error = generalization_error(self.epsilon, self.delta, n=self.n, beta=each) if each >= LEAST_BETA else 1.0
            together = float(deviation(self.scale, self.uses, self.epsilon, self.delta, 2 * beta))
            return min(self._within(beta) + error, together), min(1.0, 2 * beta)
        needed = constant * -math.log(self.delta) / self.epsilon**2
        if self.n < needed:
            raise ParameterError(f"records must be at least constant·ln(1/delta)/epsilon² = {needed!r}, got {self.n}")
        return self._within(beta) + 10 * self.epsilon, min(1.0, beta + self.uses * self.delta / self.epsilon)

    # Parts

    def _within(self, beta: float) -> float:
        return self.scale * math.log(self.uses / beta)

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
        return None if self._ledger is None else self._ledger.spend(privacy, what=what, unit=self._unit, secure=self._rng.secure)

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
