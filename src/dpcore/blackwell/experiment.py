"""A mechanism with finitely many inputs and outputs as a matrix, and what can be said of it exactly."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from dpcore._validation import REAL_DTYPES, check_array, check_integer, check_real, check_threads
from dpcore.blackwell import _profile
from dpcore.blackwell._checks import (
    check_entries,
    check_labels,
    check_pairs,
    check_prior,
    check_real_matrix,
    check_state,
    check_stochastic,
    scaled_rows,
)
from dpcore.blackwell.regions import Region, testing_pieces
from dpcore.errors import ParameterError, ParameterTypeError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy.typing as npt

Neighbours = Literal["all"] | Any
RATIO_TOLERANCE = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class Experiment:
    r"""A statistical experiment: in state i it shows outcome y with probability P_i(y).

    A mechanism is an experiment whose states are the data sets, or the values of one record, and whose outcomes are what it releases.

    Parameters
    ----------
    matrix : array_like, shape (n, m)
        P_i(y): a row for each state, a column for each outcome; non-negative, rows that sum to 1 within 1e-12.
    states, outcomes : sequence, optional
        Labels of the n rows and m columns; they are kept for whoever reads the results.

    Attributes
    ----------
    matrix : ndarray of float64, shape (n, m)
        Read-only copy.
    states, outcomes : tuple or None
        The labels.

    Raises
    ------
    ParameterError, ParameterTypeError
        If the matrix is not row-stochastic, or there are too many or too few labels.

    Notes
    -----
    Source: Mechanisms as experiments (2014), Definition 1.

    Examples
    --------
    >>> response = Experiment([[0.75, 0.25], [0.25, 0.75]])
    >>> round(response.epsilon(), 4), response.delta(0.0)
    (1.0986, 0.5)
    >>> response.satisfies(1.0, delta=0.1)
    True
    """

    matrix: npt.NDArray[np.float64] = field(repr=False)
    states: Sequence[Any] | None = field(default=None, kw_only=True, repr=False)
    outcomes: Sequence[Any] | None = field(default=None, kw_only=True, repr=False)

    def __post_init__(self) -> None:
        matrix = check_stochastic("matrix", self.matrix)
        matrix.setflags(write=False)
        object.__setattr__(self, "matrix", matrix)
        object.__setattr__(self, "states", check_labels("states", self.states, matrix.shape[0]))
        object.__setattr__(self, "outcomes", check_labels("outcomes", self.outcomes, matrix.shape[1]))

    def __repr__(self) -> str:
        return f"Experiment({self.matrix.shape[0]} states, {self.matrix.shape[1]} outcomes)"

    def delta(self, epsilon: Any, neighbours: Neighbours = "all", *, threads: int | None = None) -> Any:
        r"""Give the privacy profile: the least δ for which the mechanism is (ε, δ)-private.

        Parameters
        ----------
        epsilon : float or array_like
            Privacy loss ε, in [0, ∞]; any shape.
        neighbours : "all" or array_like of int, shape (pairs, 2), default "all"
            Pairs of neighbouring states; each is taken in both orders.
        threads : int, optional
            Number of threads; None picks.

        Returns
        -------
        float or ndarray of float64
            Max over ordered pairs of Σ_y (P_i(y) − e^ε P_j(y))_+, of the shape of `epsilon`; a Python float for a scalar.

        Raises
        ------
        ParameterError, ParameterTypeError
            If a parameter is outside its range or of the wrong type.

        Notes
        -----
        Within 2^−46 of the value; the sum over the pair that is found largest is rounded once.
        Cost: n²·m terms at worst, about a nanosecond each on one thread; envelopes of 32 states at a time rule most pairs out where near
        states have near rows. O(n·m) memory. Source: Mechanisms as experiments (2014), Theorem 2.

        Examples
        --------
        >>> Experiment([[0.5, 0.5, 0.0], [0.25, 0.5, 0.25]]).delta([0.0, 1.0])
        array([0.25, 0.25])
        """
        losses = check_array("epsilon", epsilon, REAL_DTYPES).astype(np.float64)
        pairs = check_pairs(neighbours, len(self.matrix))
        check_threads(threads)
        values = [check_real("epsilon", value, low=0.0, high=math.inf) for value in losses.ravel().tolist()]
        found = [_profile.largest_delta(self.matrix, value, pairs, floor=0.0, threads=threads) for value in values]
        return found[0] if np.ndim(epsilon) == 0 else np.reshape(found, losses.shape)

    def epsilon(self, delta: float = 0.0, neighbours: Neighbours = "all", *, threads: int | None = None) -> float:
        r"""Give the least ε for which the mechanism is (ε, δ)-private: the inverse of the privacy profile.

        Parameters
        ----------
        delta : float, default 0.0
            Failure mass δ, in [0, 1]. 0 is pure differential privacy: the largest log-ratio of two probabilities.
        neighbours, threads
            As in `delta`.

        Returns
        -------
        float
            The least ε ≥ 0, infinite if there is none; within 1e-12, relative beyond 1.

        Raises
        ------
        ParameterError, ParameterTypeError
            If a parameter is outside its range or of the wrong type.

        Notes
        -----
        Each pair's δ(ε) is piecewise linear in e^ε, so that its root is known; the root of a pair that is worst at one ε is the next ε,
        until no pair is above δ. Cost: a few times that of `delta`; for δ = 0 and all pairs one pass over the matrix.

        Examples
        --------
        >>> response = Experiment([[0.75, 0.25], [0.25, 0.75]])
        >>> round(response.epsilon(delta=0.25), 4)
        0.6931
        """
        delta = check_real("delta", delta, low=0.0, high=1.0)
        pairs = check_pairs(neighbours, len(self.matrix))
        check_threads(threads)
        if delta == 0:
            return _profile.pure_epsilon(self.matrix, pairs)
        return _profile.approximate_epsilon(self.matrix, delta, pairs, threads=threads)

    def satisfies(
        self,
        epsilon: float,
        delta: float = 0.0,
        neighbours: Neighbours = "all",
        *,
        tolerance: float = RATIO_TOLERANCE,
        threads: int | None = None,
    ) -> bool:
        r"""Tell whether the mechanism is (ε, δ)-differentially private.

        Parameters
        ----------
        epsilon : float
            Privacy loss ε, in [0, ∞].
        delta : float, default 0.0
            Failure mass δ, in [0, 1].
        neighbours, threads
            As in `delta`.
        tolerance : float, default 1e-12
            Added to ε, and relative to δ: entries of the matrix are probabilities that were rounded to float64.

        Returns
        -------
        bool
            Whether δ(ε + tolerance) ≤ δ·(1 + tolerance).

        Raises
        ------
        ParameterError, ParameterTypeError
            If a parameter is outside its range or of the wrong type.

        Notes
        -----
        Equivalent by Mechanisms as experiments (2014), Theorem 2: no test of a state against a neighbour has error probabilities outside
        R(ε, δ).
        """
        epsilon = check_real("epsilon", epsilon, low=0.0, high=math.inf)
        delta = check_real("delta", delta, low=0.0, high=1.0)
        tolerance = check_real("tolerance", tolerance, low=0.0, high=1.0)
        if delta == 0:
            # an outcome that only one of two states can have is not allowed by ε = ∞ either, as the limit of δ(ε) says
            return (loss := self.epsilon(0.0, neighbours)) <= epsilon + tolerance and math.isfinite(loss)
        pairs = check_pairs(neighbours, len(self.matrix))
        check_threads(threads)
        limit = delta * (1 + tolerance)
        return _profile.largest_delta(self.matrix, epsilon + tolerance, pairs, floor=limit, threads=threads) <= limit

    def power_region(self, i: int, j: int) -> Region:
        r"""Give the testing region R(M, x_i, x_j): all (P_MD, P_FA) of tests of state i against state j.

        Parameters
        ----------
        i, j : int
            Positions of the states that are tested, the null hypothesis first.

        Returns
        -------
        Region
            In the plane; a test that rejects on a set S of outcomes has the point (P_j(not S), P_i(S)). Its vertices are the
            Neyman-Pearson tests and their complements.

        Raises
        ------
        ParameterError, ParameterTypeError
            If a position is outside its range.

        Notes
        -----
        Source: Mechanisms as experiments (2014), Section 2.1. The region of j against i is the mirror image. As a risk region it is that of
        the actions conv{(1, 0), (0, 1)}, not of [0, 1]², whose action (0, 0) errs under neither hypothesis.

        Examples
        --------
        >>> Experiment([[0.75, 0.25], [0.25, 0.75]]).power_region(0, 1).vertices
        array([[1.  , 0.  ],
               [0.75, 0.75],
               [0.  , 1.  ],
               [0.25, 0.25]])
        """
        states = len(self.matrix)
        i, j = check_state("i", i, states), check_state("j", j, states)
        return Region(testing_pieces(self.matrix[i], self.matrix[j]))

    def plot_region(self, epsilon: float, delta: float, target: Any, neighbours: Neighbours = "all") -> Any:
        r"""Draw the testing regions of the mechanism inside R(ε, δ), which contains them exactly if it is (ε, δ)-private.

        Parameters
        ----------
        epsilon : float
            Privacy loss ε, in [0, ∞).
        delta : float
            Failure mass δ, in [0, 1].
        target : path or matplotlib axes
            A file to be written, of a type that matplotlib knows by its ending; or axes to be drawn on.
        neighbours : "all" or array_like of int, shape (pairs, 2), default "all"
            Pairs whose regions are drawn, at most 1,000 of them.

        Returns
        -------
        Path or axes
            The file that was written, or the axes that were given.

        Raises
        ------
        ParameterError, ParameterTypeError
            If a parameter is outside its range or of the wrong type.
        ModuleNotFoundError
            If a file is to be written and matplotlib, of the extra `report`, is not installed.

        Notes
        -----
        Source: Mechanisms as experiments (2014), Theorem 3.
        """
        from dpcore.blackwell import _plots

        epsilon = check_real("epsilon", epsilon, low=0.0, high=math.inf, include_high=False)
        delta = check_real("delta", delta, low=0.0, high=1.0)
        pairs = check_pairs(neighbours, len(self.matrix))
        return _plots.draw_regions(self, epsilon, delta, target, pairs)

    def garble(self, channel: Any, *, outcomes: Iterable[Any] | None = None) -> Self:
        r"""Give the experiment whose outcome is passed through a channel: P·T.

        Parameters
        ----------
        channel : array_like, shape (m, k)
            T: row-stochastic, a row for each outcome of the experiment.
        outcomes : sequence, optional
            Labels of the k new outcomes.

        Returns
        -------
        Experiment
            P·T, less informative than P, and at least as private: post-processing.

        Raises
        ------
        ParameterError, ParameterTypeError
            If `channel` is not row-stochastic with m rows.

        Notes
        -----
        Source: Mechanisms as experiments (2014), Definition 3.
        """
        matrix = check_stochastic("channel", channel, rows=self.matrix.shape[1])
        return type(self)(scaled_rows(self.matrix @ matrix), states=self.states, outcomes=_labels(outcomes))

    def under(self, distributions: Any, *, states: Iterable[Any] | None = None) -> Self:
        r"""Give the experiment whose states are distributions of data sets: P_D·P_M.

        Parameters
        ----------
        distributions : array_like, shape (t, n)
            P_D: a distribution on the states in each row.
        states : sequence, optional
            Labels of the t distributions.

        Returns
        -------
        Experiment
            The mechanism M' that distributional privacy (DDP, CW-P) is about.

        Raises
        ------
        ParameterError, ParameterTypeError
            If `distributions` is not row-stochastic with n columns.

        Notes
        -----
        If M1 is sufficient for M2, M1' is for M2'. The converse (Mechanisms as experiments, 2014, Lemma 1 and Theorem 5) needs P_D of full
        column rank: under the uniform distribution alone, nothing is told by an outcome.
        """
        matrix = check_stochastic("distributions", distributions, columns=len(self.matrix))
        return type(self)(scaled_rows(matrix @ self.matrix), states=_labels(states), outcomes=self.outcomes)

    def product(self, k: int, *, ordered: bool = True) -> Self:
        r"""Give k independent runs of the mechanism on the same data.

        Parameters
        ----------
        k : int
            Number of runs, ≥ 1.
        ordered : bool, default True
            Whether outcomes are sequences, m^k of them. Otherwise they are how often each outcome was seen: (m + k − 1 choose k) of
            them, and as informative, since the runs are alike.

        Returns
        -------
        Experiment
            Its outcomes are labelled by tuples: the k outcomes (or their positions), or the m counts.

        Raises
        ------
        ParameterError, ParameterTypeError
            If `k` is outside its range, or the matrix would have more than 2^26 entries.

        Examples
        --------
        >>> response = Experiment([[0.75, 0.25], [0.25, 0.75]])
        >>> round(response.product(2).epsilon() / response.epsilon(), 12)
        2.0
        >>> response.product(3, ordered=False).matrix.shape
        (2, 4)
        """
        k = check_integer("k", k, low=1)
        if not isinstance(ordered, bool):
            raise ParameterTypeError(f"ordered must be True or False, got {ordered!r}")
        m = self.matrix.shape[1]
        if m > 1 and k > 2**26:
            raise ParameterError(f"k must be in [1, 2**26], got {k}")
        matrix, labels = (_sequences if ordered else _counts)(self.matrix, k, tuple(self.outcomes or range(m)))
        return type(self)(scaled_rows(matrix), states=self.states, outcomes=labels)

    def bayes_risk(self, loss: Any, prior: Any) -> float:
        r"""Give the least expected loss of decisions made from the outcome.

        Parameters
        ----------
        loss : array_like, shape (n, a)
            Loss of each of a decisions in each state, of any sign.
        prior : array_like, shape (n,)
            Probability of each state.

        Returns
        -------
        float
            Σ_y min over decisions of Σ_i prior_i P_i(y) loss[i, decision].

        Raises
        ------
        ParameterError, ParameterTypeError
            If the shapes do not fit, or `prior` is no distribution.

        Examples
        --------
        >>> Experiment([[0.75, 0.25], [0.25, 0.75]]).bayes_risk(1 - np.eye(2), [0.5, 0.5])
        0.25
        """
        losses = check_real_matrix("loss", loss, rows=len(self.matrix))
        weights = check_prior(prior, len(self.matrix))
        return math.fsum(((self.matrix * weights[:, None]).T @ losses).min(axis=1))

    def risk_region(self, actions: Any) -> Region:
        r"""Give the region B(P, A) of risk vectors of all decision rules.

        Parameters
        ----------
        actions : array_like, shape (a, n)
            Corners of the polytope A of actions, each the losses at the n states.

        Returns
        -------
        Region
            All (Σ_y P_i(y) d_i(y)) over rules d from outcomes to A, by its support function and, for few states, its vertices.

        Raises
        ------
        ParameterError, ParameterTypeError
            If `actions` is no matrix with n columns.

        Notes
        -----
        Source: Mechanisms as experiments (2014), Section 1. The testing region is that of two states and A = conv{(1, 0), (0, 1)}.

        Examples
        --------
        >>> response = Experiment([[0.75, 0.25], [0.25, 0.75]])
        >>> -response.risk_region([[1, 0], [0, 1]]).support([-0.5, -0.5])
        0.25
        """
        corners = check_real_matrix("actions", actions, columns=len(self.matrix))
        return Region(self.matrix.T[:, None, :] * corners)


def _labels(labels: Iterable[Any] | None) -> tuple[Any, ...] | None:
    return None if labels is None else tuple(labels)


def _sequences(matrix: npt.NDArray[np.float64], k: int, labels: tuple[Any, ...]) -> tuple[npt.NDArray[np.float64], tuple[Any, ...]]:
    n, m = matrix.shape
    check_entries("the product", n, m**k)
    product = matrix
    for _ in range(k - 1):
        product = (product[:, :, None] * matrix[:, None, :]).reshape(n, -1)
    return product, tuple(itertools.product(labels, repeat=k))


def _counts(matrix: npt.NDArray[np.float64], k: int, _labels: tuple[Any, ...]) -> tuple[npt.NDArray[np.float64], tuple[Any, ...]]:
    """Multinomial probabilities, as products of binomial ones: the counts of outcomes 0, 1, … among the runs that are left."""
    n, m = matrix.shape
    check_entries("the product", n, math.comb(m + k - 1, k))
    log_factorials = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, k + 1)))])
    counts = np.array(list(_compositions(m, k)))
    with np.errstate(divide="ignore"):
        logs = np.log(matrix)
    terms = np.zeros((n, len(counts)))
    for y in range(m):
        seen = counts[:, y]
        terms += np.where(seen > 0, seen * np.where(seen > 0, logs[:, y, None], 0.0), 0.0) - log_factorials[seen]
    return np.exp(terms + log_factorials[k]), tuple(map(tuple, counts.tolist()))


def _compositions(m: int, k: int) -> Iterable[list[int]]:
    """All m counts that add up to k."""
    for bars in itertools.combinations(range(m + k - 1), m - 1):
        ends = (-1, *bars, m + k - 1)
        yield [b - a - 1 for a, b in itertools.pairwise(ends)]
