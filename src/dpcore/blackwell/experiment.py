"""Mechanisms with finitely many inputs and outputs as matrices, and their exact properties."""

from __future__ import annotations

import math
from dataclasses import field
from typing import TYPE_CHECKING, Any, Literal, Self, overload

import numpy as np

from dpcore._dataclasses import dataclass
from dpcore._html import matrix_table
from dpcore._validation import REAL_DTYPES, check_array, check_integer, check_real, check_threads
from dpcore.blackwell import _products, _profile
from dpcore.blackwell._checks import (
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
    from os import PathLike
    from pathlib import Path

    import numpy.typing as npt
    from matplotlib.axes import Axes

    from dpcore.noise import Real

    Neighbours = Literal["all"] | npt.ArrayLike

RATIO_TOLERANCE = 1e-12
MAX_REGIONS = 1000
"""Pairs of states whose regions are drawn at most."""


@dataclass(frozen=True, slots=True, eq=False)
class Experiment:
    r"""A statistical experiment: in state i it shows outcome y with probability P_i(y).

    A mechanism is an experiment whose states are the data sets, or the values of one record, and whose outcomes are its outputs.

    Parameters
    ----------
    matrix : array_like, shape (n, m)
        Probabilities P_i(y): one row for each state, one column for each outcome. Entries are non-negative, and each row sums to 1
        within 1e-12.
    states, outcomes : sequence, optional
        Labels of the n rows and m columns. They do not change any result.

    Attributes
    ----------
    matrix : ndarray of float64, shape (n, m)
        Read-only copy.
    states, outcomes : tuple or None
        The labels.

    Raises
    ------
    ParameterError, ParameterTypeError
        If the matrix is not row-stochastic, or the number of labels is wrong.

    Notes
    -----
    Cost: one copy and one check of the matrix.

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

    def _repr_html_(self) -> str:
        n, m = self.matrix.shape
        return matrix_table(f"{self!r}: probabilities of the outcomes", self.matrix, self.states or range(n), self.outcomes or range(m))

    @overload
    def delta(self, epsilon: Real, *, neighbours: Neighbours = ..., threads: int | None = ...) -> float: ...
    @overload
    def delta(self, epsilon: npt.ArrayLike, *, neighbours: Neighbours = ..., threads: int | None = ...) -> npt.NDArray[np.float64]: ...
    def delta(self, epsilon: Any, *, neighbours: Neighbours = "all", threads: int | None = None) -> Any:
        r"""Return the privacy profile: the least δ for which the mechanism is (ε, δ)-private.

        Parameters
        ----------
        epsilon : float or array_like
            Privacy loss ε, in [0, ∞]. Any shape.
        neighbours : "all" or array_like of int, shape (pairs, 2), default "all"
            Pairs of neighbouring states, by position. Each pair counts in both orders.
        threads : int, optional
            Number of threads; default min(CPU affinity, cgroup quota, DPCORE_NUM_THREADS).

        Returns
        -------
        float or ndarray of float64
            The largest Σ_y (P_i(y) − e^ε P_j(y))_+ over ordered pairs, of the shape of `epsilon`; a Python float for a scalar.

        Raises
        ------
        ParameterError, ParameterTypeError
            If a parameter is outside its range or of the wrong type.

        Notes
        -----
        The pair is the largest one within 2^−46; its sum is rounded once.

        Cost: at most n²·m terms, about 1 ns each on one thread. Envelopes of 32 states at a time exclude most pairs where near states have
        near rows. O(n·m) memory.

        Source: Mechanisms as experiments (2014), Theorem 2.

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

    def epsilon(self, delta: float = 0.0, *, neighbours: Neighbours = "all", threads: int | None = None) -> float:
        r"""Return the least ε for which the mechanism is (ε, δ)-private: the inverse of the privacy profile.

        Parameters
        ----------
        delta : float, default 0.0
            Failure mass δ, in [0, 1]. With 0, the result is the largest log-ratio of two probabilities.
        neighbours, threads
            As in `delta`.

        Returns
        -------
        float
            The least ε ≥ 0, or infinity if there is none. The error is at most 1e-12, relative for ε > 1.

        Raises
        ------
        ParameterError, ParameterTypeError
            If a parameter is outside its range or of the wrong type.

        Notes
        -----
        The δ of each pair is piecewise linear in e^ε, so its root has a closed form. The search moves from one ε to the root of the worst
        pair there until no pair exceeds δ.

        Cost: a few times that of `delta`; for δ = 0 and all pairs, one pass over the matrix.

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
        *,
        neighbours: Neighbours = "all",
        tolerance: float = RATIO_TOLERANCE,
        threads: int | None = None,
    ) -> bool:
        r"""Return whether the mechanism is (ε, δ)-differentially private.

        Parameters
        ----------
        epsilon : float
            Privacy loss ε, in [0, ∞].
        delta : float, default 0.0
            Failure mass δ, in [0, 1].
        neighbours, threads
            As in `delta`.
        tolerance : float, default 1e-12
            Added to ε, and relative to δ, because the entries of the matrix are rounded to float64.

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
        By Mechanisms as experiments (2014), Theorem 2, this holds exactly if no test of a state against a neighbour has error
        probabilities outside R(ε, δ).

        Cost: at most that of `delta`.

        Examples
        --------
        >>> Experiment([[0.75, 0.25], [0.25, 0.75]]).satisfies(1.0986, delta=1e-4)
        True
        """
        epsilon = check_real("epsilon", epsilon, low=0.0, high=math.inf)
        delta = check_real("delta", delta, low=0.0, high=1.0)
        tolerance = check_real("tolerance", tolerance, low=0.0, high=1.0)
        if delta == 0:
            # an outcome that only one of two states can have is not allowed by ε = ∞ either, as the limit of δ(ε) says
            return (loss := self.epsilon(neighbours=neighbours)) <= epsilon + tolerance and math.isfinite(loss)
        pairs = check_pairs(neighbours, len(self.matrix))
        check_threads(threads)
        limit = delta * (1 + tolerance)
        return _profile.largest_delta(self.matrix, epsilon + tolerance, pairs, floor=limit, threads=threads) <= limit

    def power_region(self, i: int, j: int) -> Region:
        r"""Return the testing region R(M, x_i, x_j): all (P_MD, P_FA) of tests of state i against state j.

        Parameters
        ----------
        i, j : int
            Positions of the two states; i is the null hypothesis.

        Returns
        -------
        Region
            A region in the plane. A test that rejects on a set S of outcomes is the point (P_j(not S), P_i(S)). The vertices are the
            Neyman-Pearson tests and their complements.

        Raises
        ------
        ParameterError, ParameterTypeError
            If a position is outside its range.

        Notes
        -----
        The region of j against i is the mirror image. As a risk region, it belongs to the actions conv{(1, 0), (0, 1)}, not to [0, 1]²,
        whose action (0, 0) errs under neither hypothesis.

        Source: Mechanisms as experiments (2014), Section 2.1.

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

    @overload
    def plot_region(self, epsilon: float, delta: float = ..., *, target: str | PathLike[str], neighbours: Neighbours = ...) -> Path: ...
    @overload
    def plot_region(self, epsilon: float, delta: float = ..., *, target: Axes, neighbours: Neighbours = ...) -> Axes: ...
    def plot_region(self, epsilon: float, delta: float = 0.0, *, target: Any, neighbours: Neighbours = "all") -> Any:
        r"""Draw the testing regions of the mechanism and R(ε, δ), which contains them exactly if the mechanism is (ε, δ)-private.

        Parameters
        ----------
        epsilon : float
            Privacy loss ε, in [0, ∞).
        delta : float, default 0.0
            Failure mass δ, in [0, 1].
        target : path or matplotlib axes
            A file to write, whose ending is a type that matplotlib knows; or axes to draw on.
        neighbours : "all" or array_like of int, shape (pairs, 2), default "all"
            Pairs of states whose regions are drawn, at most 1,000.

        Returns
        -------
        Path or axes
            The path of the file, or the given axes.

        Raises
        ------
        ParameterError, ParameterTypeError
            If a parameter is outside its range or of the wrong type.
        ModuleNotFoundError
            If `target` is a file and matplotlib, of the extra `report`, is not installed.

        Notes
        -----
        Source: Mechanisms as experiments (2014), Theorem 3.
        """
        from dpcore.blackwell import _plots

        epsilon = check_real("epsilon", epsilon, low=0.0, high=math.inf, include_high=False)
        delta = check_real("delta", delta, low=0.0, high=1.0)
        n, listed = len(self.matrix), check_pairs(neighbours, len(self.matrix))
        count = n * (n - 1) if listed is None else len(listed)
        if count > 2 * MAX_REGIONS:
            raise ParameterError(f"neighbours must list at most {MAX_REGIONS} pairs for a plot, got {count // 2}")
        pairs = [(i, j) for i in range(n) for j in range(n) if i != j] if listed is None else dict.fromkeys(map(tuple, listed.tolist()))
        return _plots.draw_regions([self.power_region(i, j).vertices for i, j in pairs], epsilon, delta, target)

    def garble(self, channel: npt.ArrayLike, *, outcomes: Iterable[Any] | None = None) -> Self:
        r"""Return the experiment P·T, whose outcomes are those of P passed through a channel T.

        Parameters
        ----------
        channel : array_like, shape (m, k)
            T: row-stochastic, with one row for each outcome of the experiment.
        outcomes : sequence, optional
            Labels of the k new outcomes.

        Returns
        -------
        Experiment
            P·T. It is at most as informative as P and at least as private, because T is post-processing.

        Raises
        ------
        ParameterError, ParameterTypeError
            If `channel` is not row-stochastic with m rows.

        Notes
        -----
        Source: Mechanisms as experiments (2014), Definition 3.

        Examples
        --------
        >>> Experiment([[0.75, 0.25], [0.25, 0.75]]).garble([[0.9, 0.1], [0.1, 0.9]]).matrix
        array([[0.7, 0.3],
               [0.3, 0.7]])
        """
        matrix = check_stochastic("channel", channel, rows=self.matrix.shape[1])
        return type(self)(scaled_rows(self.matrix @ matrix), states=self.states, outcomes=_labels(outcomes))

    def under(self, distributions: npt.ArrayLike, *, states: Iterable[Any] | None = None) -> Self:
        r"""Return the experiment P_D·P_M, whose states are distributions of data sets.

        Parameters
        ----------
        distributions : array_like, shape (t, n)
            P_D: one distribution on the states in each row.
        states : sequence, optional
            Labels of the t distributions.

        Returns
        -------
        Experiment
            The mechanism M' of distributional privacy (DDP, CW-P).

        Raises
        ------
        ParameterError, ParameterTypeError
            If `distributions` is not row-stochastic with n columns.

        Notes
        -----
        If M1 is sufficient for M2, then M1' is sufficient for M2'. The converse (Mechanisms as experiments, 2014, Lemma 1 and Theorem 5)
        needs a P_D of full column rank: with one distribution only, no outcome carries information.
        """
        matrix = check_stochastic("distributions", distributions, columns=len(self.matrix))
        return type(self)(scaled_rows(matrix @ self.matrix), states=_labels(states), outcomes=self.outcomes)

    def product(self, uses: int, *, ordered: bool = True) -> Self:
        r"""Return the experiment of several independent runs of the mechanism on the same data.

        Parameters
        ----------
        uses : int
            Number of runs, ≥ 1.
        ordered : bool, default True
            With True, the outcomes are the m^uses sequences of outcomes. With False, they are the counts of the outcomes, of which there
            are (m + uses − 1 choose uses); they carry the same information, because the runs have one distribution.

        Returns
        -------
        Experiment
            The outcomes are labelled by tuples: the outcomes of the runs (or their positions), or the m counts.

        Raises
        ------
        ParameterError, ParameterTypeError
            If `uses` is outside its range, or the matrix would have more than 2^26 entries.

        Notes
        -----
        Cost: time and memory proportional to the entries of the new matrix.

        Examples
        --------
        >>> response = Experiment([[0.75, 0.25], [0.25, 0.75]])
        >>> round(response.product(2).epsilon() / response.epsilon(), 12)
        2.0
        >>> response.product(3, ordered=False).matrix.shape
        (2, 4)
        """
        uses = check_integer("uses", uses, low=1)
        if not isinstance(ordered, bool):
            raise ParameterTypeError(f"ordered must be True or False, got {ordered!r}")
        m = self.matrix.shape[1]
        if m > 1 and uses > 2**26:
            raise ParameterError(f"uses must be in [1, {2**26}], got {uses}")
        outcomes = tuple(self.outcomes or range(m))
        matrix, labels = _products.sequences(self.matrix, uses, outcomes) if ordered else _products.counts(self.matrix, uses)
        return type(self)(scaled_rows(matrix), states=self.states, outcomes=labels)

    def bayes_risk(self, loss: npt.ArrayLike, prior: npt.ArrayLike) -> float:
        r"""Return the least expected loss of a decision that is made from the outcome.

        Parameters
        ----------
        loss : array_like, shape (n, a)
            Loss of each of a decisions in each state; any sign.
        prior : array_like, shape (n,)
            Probability of each state.

        Returns
        -------
        float
            Σ_y min over decisions of Σ_i prior_i P_i(y) loss[i, decision].

        Raises
        ------
        ParameterError, ParameterTypeError
            If the shapes do not fit, or `prior` is not a distribution.

        Notes
        -----
        Cost: n·m·a multiplications.

        Examples
        --------
        >>> Experiment([[0.75, 0.25], [0.25, 0.75]]).bayes_risk(1 - np.eye(2), [0.5, 0.5])
        0.25
        """
        losses = check_real_matrix("loss", loss, rows=len(self.matrix))
        weights = check_prior(prior, len(self.matrix))
        return math.fsum(((self.matrix * weights[:, None]).T @ losses).min(axis=1))

    def risk_region(self, actions: npt.ArrayLike) -> Region:
        r"""Return the region B(P, A) of risk vectors of all decision rules.

        Parameters
        ----------
        actions : array_like, shape (a, n)
            Corners of the polytope A of actions. Each row has the losses at the n states.

        Returns
        -------
        Region
            All vectors (Σ_y P_i(y) d_i(y)) over rules d from outcomes to A.

        Raises
        ------
        ParameterError, ParameterTypeError
            If `actions` is not a matrix with n columns.

        Notes
        -----
        `power_region` is the risk region of two states and A = conv{(1, 0), (0, 1)}.

        Source: Mechanisms as experiments (2014), Section 1.

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
