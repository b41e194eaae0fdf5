"""Designs of estimators over minimax models, and of estimators that are made anew for each n and ε."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from dpcore._dataclasses import dataclass
from dpcore._error_curves import ErrorCurve
from dpcore.errors import ParameterError, ParameterTypeError
from dpcore.minimax import BinarySearchEstimator, Model, dp_level, optimal_channel
from dpcore.minimax._binomial import MOST_REPORTS

if TYPE_CHECKING:
    from dpcore._error_curves import Aim
    from dpcore.planning.answers import Plannable

KEPT = 64
"""Estimators that are kept for the next question."""


@dataclass(frozen=True, eq=False)
class BinarySearch:
    r"""The binary search of tests over a model, `minimax.BinarySearchEstimator`, for `sample_size` and `epsilon_for`.

    Parameters
    ----------
    model : minimax.Model
        The distributions that the records may have, and θ.
    channel : local mechanism or array_like of shape (X, K), optional
        The channel that makes the reports. By default `minimax.optimal_channel`, for each n and ε anew. With a matrix ε is that of the
        matrix.

    Raises
    ------
    ParameterTypeError
        If `model` is no model.

    Notes
    -----
    The root mean square error is the root of `risk_bound("squared")`, and the width 2·`margin(confidence)`, at most the range of θ: both
    for every distribution of the model. The step is tuned for each n, and that search is no function of n alone that falls. Therefore n is
    searched among numbers of three digits, and smaller ones than the answer are tried too.
    Cost: 10 to 60 estimators, of 0.1 to 5 s each.

    Examples
    --------
    >>> import numpy as np
    >>> from dpcore.minimax import Model
    >>> from dpcore.planning import BinarySearch, sample_size
    >>> model = Model.moment(np.linspace(-2.0, 2.0, 5), kappa=2.0, C=1.0)
    >>> plan = sample_size(BinarySearch(model), epsilon=1.0, rmse=0.4)
    >>> 20 < plan.n < 200, plan.error <= 0.4 < plan.error_at_less
    (True, True)
    """

    model: Model
    channel: Any = None
    _kept: Any = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.model, Model):
            raise ParameterTypeError(f"model must be a Model, got {type(self.model).__name__}")
        object.__setattr__(self, "_kept", lru_cache(maxsize=KEPT)(self._made))

    def estimator(self, n: int, epsilon: float) -> BinarySearchEstimator:
        """Return the estimator for n reports and this ε.

        Parameters
        ----------
        n : int
            Number of reports.
        epsilon : float
            Privacy loss of one report.

        Returns
        -------
        minimax.BinarySearchEstimator
            With a tuned step.

        Raises
        ------
        ParameterError
            If the channel is a matrix of another ε.
        """
        made: BinarySearchEstimator = self._kept(n, epsilon)
        return made

    def _made(self, n: int, epsilon: float) -> BinarySearchEstimator:
        return BinarySearchEstimator(self.model, self._channel_at(n, epsilon), n=n)

    def _channel_at(self, n: int, epsilon: float) -> Any:
        if self.channel is None:
            return optimal_channel(self.model, epsilon, n=n)
        own = self._own_epsilon
        if epsilon == own:
            return self.channel
        if not hasattr(self.channel, "epsilon"):
            raise ParameterError(f"epsilon is that of the channel matrix, {own!r}; give a mechanism to plan another one, got {epsilon!r}")
        return replace(self.channel, epsilon=epsilon)

    @property
    def _own_epsilon(self) -> float | None:
        """ε of the channel that was given."""
        if self.channel is None:
            return None
        return float(self.channel.epsilon) if hasattr(self.channel, "epsilon") else float(dp_level(self.channel))

    def error_curve(self, aim: Aim) -> ErrorCurve:
        """Return the error of the estimator as a function of n and ε.

        Parameters
        ----------
        aim : planning.Aim
            Root mean square error, or width of the interval.

        Returns
        -------
        planning.ErrorCurve
            The certified error, for every distribution of the model.

        Raises
        ------
        ParameterError
            If the measure is "power".
        """
        aim.one_of("a binary search", "rmse", "width")
        low, high = self.model.theta_range

        def error(n: int, epsilon: float) -> float:
            found = self.estimator(n, epsilon)
            if aim.measure == "rmse":
                return math.nextafter(math.sqrt(found.risk_bound("squared")), math.inf)
            ends = found.theta_range
            return min(2 * found.margin(aim.confidence), ends[1] - ends[0])

        return ErrorCurve(
            error,
            what=f"θ in [{low:.4g}, {high:.4g}] by a binary search of tests",
            formula="√risk_bound" if aim.measure == "rmse" else "2·margin(confidence), or the range of θ",
            source="Steinberger (2019), Lemma 3.16, with exact binomial tails; docs/exactness-minimax.md",
            epsilon=self._own_epsilon,
            sizes=(1, MOST_REPORTS),
            slow=True,
            limit_in_n="the least step that is tried",
            limit_in_epsilon="the error of one bit about each record",
        )


@dataclass(frozen=True)
class Recipe:
    r"""An estimator that is made anew for each n and ε, such as one whose bandwidth depends on them.

    Parameters
    ----------
    make : callable
        make(n, epsilon): returns anything that can be planned.
    slow : bool, default False
        Whether a call takes seconds, as `minimax.best_linear` does: n is then searched among numbers of three digits, and fewer are tried.

    Raises
    ------
    ParameterTypeError
        If `make` is not callable.

    Notes
    -----
    The error at (n, ε) is that of make(n, ε) with n records and this ε. It is not known how it depends on them, so smaller numbers than the
    answer are tried.

    Examples
    --------
    >>> from dpcore.minimax import truncated_moment
    >>> from dpcore.planning import Recipe, sample_size
    >>> mean = Recipe(lambda n, epsilon: truncated_moment(epsilon, n=n, kappa=2.0, C=1.0))
    >>> sample_size(mean, epsilon=1.0, rmse=0.05)
    Plan(n=187,308, epsilon=1: root mean square error ≤ 0.05, 0.0500001 at n=187,307)
    """

    make: Callable[[int, float], Plannable]
    slow: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        if not callable(self.make):
            raise ParameterTypeError(f"make must be a function of n and epsilon, got {type(self.make).__name__}")

    def error_curve(self, aim: Aim, **assumed: Any) -> ErrorCurve:
        """Return the error of what is made, as a function of n and ε.

        Parameters
        ----------
        aim : planning.Aim
            A measure that what is made has.
        **assumed : object
            Passed on.

        Returns
        -------
        planning.ErrorCurve
            The error; its words are those of what is made for n = 10^4 and ε = 1.
        """
        sample = self.make(10_000, 1.0).error_curve(aim, **assumed)
        return ErrorCurve(
            lambda n, epsilon: self.make(n, epsilon).error_curve(aim, **assumed).error(n, epsilon),
            what=sample.what,
            formula=f"{sample.formula}, made anew for each n and ε",
            source=sample.source,
            exact=sample.exact,
            sizes=sample.sizes,
            epsilons=sample.epsilons,
            slow=self.slow or sample.slow,
            limit_in_n=sample.limit_in_n,
            limit_in_epsilon=sample.limit_in_epsilon,
        )
