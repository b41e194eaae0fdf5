"""Shuffled reports: what a trusted shuffler adds to local privacy. Every result is rounded towards privacy."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from dpcore._dataclasses import dataclass
from dpcore._figures import drawn_on
from dpcore._validation import check_choice, check_integer, check_positive
from dpcore.accounting._checks import check_delta, check_loss, check_nonnegative, check_open_delta
from dpcore.errors import ParameterError
from dpcore.privacy import Privacy

if TYPE_CHECKING:
    from collections.abc import Sequence
    from os import PathLike

    from matplotlib.axes import Axes

MOST_REPORTS = 10**12
DELTAS = (1e-4, 1e-6, 1e-8, 1e-10, 1e-12)
"""δ of the rows of a table."""


def shuffled(epsilon: float, delta: float, *, n: int, method: Literal["numeric", "closed"] = "numeric") -> Privacy:
    r"""Return the guarantee of n ε-private reports of which an analyst sees a random order only, rounded up.

    Parameters
    ----------
    epsilon : float
        Privacy loss ε₀ of each report, in [0, ∞). Every report must be ε₀-private by itself, without a δ.
    delta : float
        Failure mass δ, in [0, 1); in (0, 1) for `method="closed"`. With 0, shuffling adds nothing.
    n : int
        Number of reports, in [1, 10^12]: public, and the same for neighbours.
    method : {"numeric", "closed"}, default "numeric"
        "numeric" evaluates the divergence of two laws of counts. "closed" is ln(1 + (E−1)/(E+1)·(8√(E·ln(4/δ)/n) + 8E/n)), E = e^ε₀, for
        ε₀ ≤ ln(n/(16 ln(2/δ))); it is several times larger, and here for comparison.

    Returns
    -------
    Privacy
        (ε, δ) for the relation "replace". "numeric" gives an ε of at most ε₀, within about one part in 10⁵ of the least that the theorem
        gives.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is outside its range or has the wrong type, or the closed form does not hold.

    Notes
    -----
    Guarantee: let every record pass through the same ε₀-private randomiser, and let an analyst see the reports in a uniformly random order
    that nobody else knows. Then the whole is (ε, δ)-private for data sets that differ by the value of one record. The randomiser of a
    position may also depend on the reports before it if the *records* are shuffled first. If each person chooses a randomiser, the
    guarantee does not hold, because a report can show whose it is.

    *Who must be trusted.* The shuffler: it must use a uniformly random order, tell nobody, and pass on no addresses, times or lengths that
    identify a report. The other people must send their reports as agreed: if an analyst knows k of these, count n − k. If the shuffler
    or all others do not do as agreed, a person is still protected by the ε₀ of one report.

    With E = e^ε₀, the pair (A + D, C − A + 1 − D) and (A + 1 − D, C − A + D) dominates every pair of neighbours, where C ~ Bin(n−1,
    2/(E+1)), A ~ Bin(C, 1/2) and D ~ Bernoulli(E/(E+1)). Values of C in blocks count as their least one, and what is outside of a window is
    charged to δ.

    Cost: some milliseconds for n = 100; a tenth of a second to two seconds from 10^4 to 10^12.

    Source: Feldman, McMillan & Talwar (2023) for "numeric"; Feldman, McMillan & Talwar (2021), Theorem 3.1 for "closed". A
    proof, and the bounds of all roundings, are in docs/exactness-shuffled.md.

    Examples
    --------
    >>> round(shuffled(1.0, 1e-6, n=10_000).epsilon, 4)
    0.0432
    >>> round(shuffled(1.0, 1e-6, n=10_000, method="closed").epsilon, 4)
    0.214
    >>> shuffled(1.0, 0.0, n=10_000)
    Privacy(epsilon=1.0, delta=0.0, relation='replace')
    """
    from dpcore.accounting import _shuffling

    check_choice("method", method, ("numeric", "closed"))
    local, n = check_loss("epsilon", epsilon), _check_reports(n)
    if method == "closed":
        delta = check_open_delta("delta", delta)
        if not _shuffling.closed_holds(local, n, delta):
            most = max(math.log(n / (16 * (math.log(2) - math.log(delta)))), 0.0)
            raise ParameterError(f"epsilon must be at most ln(n/(16 ln(2/delta))) = {most:.4g} for method='closed', got {local!r}")
        return Privacy(_shuffling.closed_epsilon(local, n, delta), delta)
    delta = check_delta("delta", delta)
    return Privacy(_shuffling.least_epsilon(local, n, delta) if delta else local, delta)


def shuffled_delta(local_epsilon: float, epsilon: float, *, n: int) -> float:
    r"""Return a δ for which n shuffled reports that are ε₀-private each are (ε, δ)-private together, rounded up.

    Parameters
    ----------
    local_epsilon : float
        Privacy loss ε₀ of each report, in [0, ∞).
    epsilon : float
        Privacy loss ε of all together, in [0, ∞).
    n : int
        Number of reports, in [1, 10^12].

    Returns
    -------
    float
        In [0, 1]; 0 for ε ≥ ε₀. A value below 10^−300 may be returned as 0.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is outside its range or has the wrong type.

    Notes
    -----
    As `shuffled`, whose notes say what must hold. The result is within one part in 10^4 of the hockey-stick divergence of its pair, and
    within one in 10^8 for n up to 10^5.

    Cost: 1 ms for n = 100; 10 to 200 ms for n up to 10^12.

    Examples
    --------
    >>> print(f"{shuffled_delta(1.0, 0.05, n=10_000):.3g}")
    1.07e-07
    >>> shuffled_delta(1.0, 1.0, n=10_000)
    0.0
    """
    from dpcore.accounting import _shuffling

    local, n = check_loss("local_epsilon", local_epsilon), _check_reports(n)
    return _shuffling.Shuffle(local, n).delta(check_nonnegative("epsilon", epsilon))


def shuffled_local_epsilon(epsilon: float, delta: float, *, n: int) -> float:
    r"""Return the largest ε₀ of one report with which n shuffled reports are (ε, δ)-private, rounded down.

    Parameters
    ----------
    epsilon : float
        Privacy loss ε of all together, positive and finite.
    delta : float
        Failure mass δ, in (0, 1).
    n : int
        Number of reports, in [1, 10^12].

    Returns
    -------
    float
        At least ε. `shuffled_delta` of it is at most δ, and a value one part in 10^9 larger is not proved to be enough.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is outside its range or has the wrong type.

    Notes
    -----
    As `shuffled`, whose notes say what must hold.

    Cost: about 45 evaluations of `shuffled_delta`.

    Examples
    --------
    >>> local = shuffled_local_epsilon(0.1, 1e-6, n=1_000)
    >>> round(local, 3)
    0.733
    >>> shuffled_delta(local, 0.1, n=1_000) <= 1e-6
    True
    """
    from dpcore.accounting import _shuffling

    epsilon, delta = check_positive("epsilon", epsilon), check_open_delta("delta", delta)
    return _shuffling.largest_local(epsilon, _check_reports(n), delta)


def _check_reports(n: object) -> int:
    return check_integer("n", n, low=1, high=MOST_REPORTS)


@dataclass(frozen=True, slots=True)
class ShuffledReports:
    r"""n shuffled reports that are ε₀-private each, for tables and plots of their guarantees.

    Parameters
    ----------
    epsilon : float
        Privacy loss ε₀ of each report, in [0, ∞).
    n : int
        Number of reports, in [1, 10^12].

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is outside its range or has the wrong type.

    Notes
    -----
    `shuffled` says what must hold, and who must be trusted. In a notebook an object shows its table.

    Examples
    --------
    >>> reports = ShuffledReports(2.0, n=100_000)
    >>> for privacy in reports.table([1e-4, 1e-8]):
    ...     print(privacy.delta, round(privacy.epsilon, 4))
    0.0001 0.0191
    1e-08 0.0437
    """

    epsilon: float
    _: KW_ONLY
    n: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_loss("epsilon", self.epsilon))
        object.__setattr__(self, "n", _check_reports(self.n))

    def privacy(self, delta: float) -> Privacy:
        """Return the guarantee at a δ, as `shuffled` does.

        Parameters
        ----------
        delta : float
            Failure mass δ, in [0, 1).

        Returns
        -------
        Privacy
            For the relation "replace".
        """
        return shuffled(self.epsilon, delta, n=self.n)

    def delta(self, epsilon: float) -> float:
        """Return the δ at an ε, as `shuffled_delta` does.

        Parameters
        ----------
        epsilon : float
            Privacy loss ε, in [0, ∞).

        Returns
        -------
        float
            In [0, 1], rounded up.
        """
        return shuffled_delta(self.epsilon, epsilon, n=self.n)

    def table(self, deltas: Sequence[float] = DELTAS) -> tuple[Privacy, ...]:
        """Return the guarantees at several δ.

        Parameters
        ----------
        deltas : sequence of float
            Failure masses, each in [0, 1).

        Returns
        -------
        tuple of Privacy
            One for each δ.
        """
        return tuple(self.privacy(delta) for delta in deltas)

    def _repr_html_(self) -> str:
        from dpcore._html import rows_table

        rows = [(f"{each.delta:g}", each.epsilon) for each in self.table()]
        return rows_table(f"{self.n:,} shuffled reports with ε₀ = {self.epsilon:.4g}", ("δ", "ε"), rows, len(rows))

    @overload
    def plot(self, *, target: str | PathLike[str], smallest_delta: float = ...) -> Path: ...
    @overload
    def plot(self, *, target: Axes, smallest_delta: float = ...) -> Axes: ...
    def plot(self, *, target: Any, smallest_delta: float = 1e-12) -> Any:
        """Draw ε against δ, beside ε₀ and the closed form.

        Parameters
        ----------
        target : path or matplotlib axes
            A file to write, whose ending is a type that matplotlib knows; or axes to draw on.
        smallest_delta : float, default 1e-12
            Where the axis of δ begins, in [1e-100, 0.1].

        Returns
        -------
        Path or axes
            The path of the file, or the given axes.

        Raises
        ------
        ParameterError, ParameterTypeError
            If a parameter is outside its range or has the wrong type.
        ModuleNotFoundError
            If `target` is a file and matplotlib, of the extra `report`, is not installed.
        """
        from dpcore._validation import check_real

        least = check_real("smallest_delta", smallest_delta, low=1e-100, high=0.1)
        return drawn_on(target, lambda axes: self._draw(axes, least), (5.0, 3.4))

    def _draw(self, axes: Any, least: float) -> None:
        from dpcore.accounting import _shuffling

        deltas = [10 ** (math.log10(least) * (1 - k / 24) - k / 24) for k in range(25)]
        axes.plot(deltas, [each.epsilon for each in self.table(deltas)], color="#1f5fb8", label=f"{self.n:,} reports, shuffled")
        closed = [each for each in deltas if _shuffling.closed_holds(self.epsilon, self.n, each)]
        if closed:
            forms = [_shuffling.closed_epsilon(self.epsilon, self.n, each) for each in closed]
            axes.plot(closed, forms, color="#5c6675", linestyle="--", label="closed form")
        axes.axhline(self.epsilon, color="#1a2029", linewidth=0.8, label="one report")
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel("δ")
        axes.set_ylabel("ε")
        axes.legend(frameon=False, fontsize=8)
