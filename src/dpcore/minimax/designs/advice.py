"""What can be reached in a problem: all estimators with their proved risks, beside the bound that no method goes below."""

from __future__ import annotations

import math
from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING, Any, overload

from dpcore._dataclasses import dataclass
from dpcore._figures import drawn_on
from dpcore._html import rows_table
from dpcore._validation import check_integer
from dpcore.errors import DpcoreError
from dpcore.local import KaryResponse
from dpcore.minimax._binomial import MOST_REPORTS
from dpcore.minimax._progress import Progress, Steps
from dpcore.minimax.designs.best import OUTPUTS, best_linear, check_count
from dpcore.minimax.designs.clipped import clipped_response
from dpcore.minimax.designs.fixed import best_values
from dpcore.minimax.losses import as_loss
from dpcore.minimax.search.estimator import BinarySearchEstimator
from dpcore.minimax.spaces.bounds import check_problem
from dpcore.minimax.spaces.channels import optimal_channel
from dpcore.minimax.spaces.lower_bounds import LowerBound, lower_bound

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from dpcore.minimax.losses import Loss
    from dpcore.minimax.spaces.line import MomentLine
    from dpcore.minimax.spaces.models import Model

MOST_CATEGORIES = 64
"""k-ary response is tried up to this many points; its variance grows with them."""
BAR, BOUND, INK = "#2a78d6", "#c44e1b", "#333333"
HEAD = ("estimator", "outcomes", "largest risk", "× bound")


@dataclass(frozen=True, slots=True, eq=False)
class Option:
    """One estimator of an advice.

    Attributes
    ----------
    name : str
        What it is.
    risk : float
        A bound of its expected loss that holds for every distribution of the model.
    estimator : object
        The estimator; None for the constant.
    outcomes : int
        Number of outcomes of a report; 1 if nothing is reported.
    """

    name: str
    risk: float
    estimator: Any = field(repr=False)
    outcomes: int


@dataclass(frozen=True, slots=True, eq=False)
class Advice:
    """Estimators of a problem, best first, and the bound that no private method goes below.

    Attributes
    ----------
    options : tuple of Option
        Sorted by risk.
    lower : LowerBound
        The bound, with its proof.
    left_out : dict
        Names of estimators that could not be made for this problem, with the reason.
    epsilon, n, loss : float, int and Loss
        The problem.
    """

    options: tuple[Option, ...]
    lower: LowerBound
    left_out: dict[str, str]
    epsilon: float
    n: int
    loss: Loss

    @property
    def best(self) -> Option:
        """The estimator with the smallest proved risk."""
        return self.options[0]

    @property
    def ratio(self) -> float:
        """Its risk over the lower bound: no private method is better by a larger factor. 1 if both are 0."""
        return self.best.risk / self.lower.value if self.lower.value > 0 else (1.0 if self.best.risk == 0 else math.inf)

    def _rows(self) -> Iterator[tuple[str, str, str, str]]:
        for option in self.options:
            factor = f"{option.risk / self.lower.value:.2f}" if self.lower.value > 0 else "–"
            yield option.name, f"{option.outcomes}", f"{option.risk:.4g}", factor
        yield "no private method is better than", "", f"{self.lower.value:.4g}", "1"

    def __str__(self) -> str:
        rows = [HEAD, *self._rows()]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        cells = ([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])] for row in rows)
        return "\n".join("  ".join(row).rstrip() for row in cells)

    def _repr_html_(self) -> str:
        rows = list(self._rows())
        return rows_table(f"Estimators for ε = {self.epsilon:g} and n = {self.n:,}", HEAD, rows, len(rows))

    @overload
    def plot(self, target: str | Path) -> Path: ...
    @overload
    def plot(self, target: Any) -> Any: ...
    def plot(self, target: Any) -> Any:
        """Draw the proved risks beside the lower bound, on a logarithmic scale.

        Parameters
        ----------
        target : path, or matplotlib axes
            File to write, in the format of its ending; or axes to draw on.

        Returns
        -------
        Path or axes
            The file or the axes.

        Raises
        ------
        ModuleNotFoundError
            If matplotlib is not installed, which the extra `report` installs.
        """
        return drawn_on(target, lambda axes: _draw(self, axes), (7.2, 1.4 + 0.42 * len(self.options)))


def advise(
    model: Model, epsilon: float, n: int, *, loss: Loss | str = "squared", outputs: int = OUTPUTS, progress: Progress | None = None
) -> Advice:
    r"""List the estimators for a problem with their proved risks, best first, beside the risk that no private method goes below.

    Parameters
    ----------
    model : Model
        What you assume about the records, and the number θ that you want.
    epsilon : float
        Privacy loss of one record, in [2^−20, 700].
    n : int
        Number of records, in [1, 2^40].
    loss : Loss or {"absolute", "squared"}, default "squared"
        Loss of the absolute error.
    outputs : int, default 41
        Number of outputs of the best linear estimator, in [2, 1001]; see `best_linear`.
    progress : callable, optional
        Called as progress(done, total) as estimators are made.

    Returns
    -------
    Advice
        Prints as a table. Each option holds its estimator, ready for use.

    Raises
    ------
    ParameterError, ParameterTypeError
        If an argument is outside its range or of the wrong type.
    ModuleNotFoundError
        If the extra `minimax` is not installed.

    Notes
    -----
    The options are the middle of the range of θ, which needs no reports; the best linear estimator over all private channels
    (`best_linear`); one bit (`optimal_channel`) with the best linear estimator of its reports, and with the binary search of tests; k-ary
    response up to 64 points; and for moments the three-outcome channel of clipped records (`clipped_response`). Every risk is an upper
    bound and the last line a lower bound, both proved, so the best method of all lies between them.
    Cost: that of its parts, 5 to 30 s for 200 points.

    Examples
    --------
    >>> import numpy as np
    >>> from dpcore.minimax import Model, advise
    >>> found = advise(Model.moment(np.linspace(-16.0, 16.0, 33), kappa=2.0, C=1.0), 2.0, 1000, outputs=21)
    >>> found.best.name, bool(found.ratio < 1.6)
    ('linear, three outcomes', True)
    """
    n, epsilon, loss = check_problem(model, epsilon, n, as_loss(loss))
    n, outputs = check_integer("n", n, low=1, high=MOST_REPORTS), check_count(outputs)
    lower = lower_bound(model, epsilon, n=n, loss=loss)
    low, high = model.theta_range
    options = [Option("middle of the range of θ", float(loss(math.nextafter((high - low) / 2, math.inf))), None, 1)]
    left_out: dict[str, str] = {}
    ways = _ways(model, epsilon, n, loss, outputs)
    steps = Steps(progress, len(ways))
    for name, make in ways.items():
        try:
            estimator, outcomes = make()
        except DpcoreError as error:
            left_out[name] = str(error)
        else:
            options.append(Option(name, float(estimator.risk_bound(loss)), estimator, outcomes))
        steps.advance()
    steps.finish()
    return Advice(tuple(sorted(options, key=lambda option: option.risk)), lower, left_out, epsilon, n, loss)


def _ways(model: Model, epsilon: float, n: int, loss: Loss, outputs: int) -> dict[str, Callable[[], tuple[Any, int]]]:
    def best() -> tuple[Any, int]:
        found = best_linear(model, epsilon, n=n, outputs=outputs)
        return found, found.mean.channel.outcomes

    def one_bit() -> tuple[Any, int]:
        return best_values(model, optimal_channel(model, epsilon, n=n), n=n), 2

    def search() -> tuple[Any, int]:
        return BinarySearchEstimator(model, optimal_channel(model, epsilon, n=n), n=n, loss=loss), 2

    def categories() -> tuple[Any, int]:
        return best_values(model, KaryResponse(epsilon, k=model.size), n=n), model.size

    def clipped(line: MomentLine) -> tuple[Any, int]:
        return clipped_response(epsilon, n=n, kappa=line.kappa, C=line.C).on(model, n=n), 3

    ways: dict[str, Callable[[], tuple[Any, int]]] = {"linear, any channel": best, "linear, one bit": one_bit}
    ways["binary search of tests, one bit"] = search
    if model.size <= MOST_CATEGORIES:
        ways[f"linear, {model.size}-ary response"] = categories
    if model.line is not None:
        ways["linear, three outcomes"] = partial(clipped, model.line)
    return ways


def _draw(advice: Advice, axes: Any) -> None:
    options, lower = advice.options, advice.lower.value
    places = range(len(options))
    axes.set_xscale("log")
    if lower > 0:
        axes.axvspan(lower / 1e6, lower, color=BOUND, alpha=0.12, linewidth=0)
        axes.axvline(lower, color=BOUND, linewidth=1.6)
        for place, option in zip(places, options, strict=True):
            axes.plot([lower, option.risk], [place, place], color=BAR, linewidth=1.0, alpha=0.5)
            axes.annotate(f"{option.risk / lower:.2f} ×", (option.risk, place), (6, 0), textcoords="offset points", va="center", fontsize=8)
    axes.plot([option.risk for option in options], list(places), linestyle="none", marker="o", markersize=7, color=BAR)
    known = [option.risk for option in options if option.risk > 0] + ([lower] if lower > 0 else [])
    if known:
        axes.set_xlim(min(known) / 2, max(known) * 4)
    axes.set_yticks(list(places), [option.name for option in options])
    axes.set_ylim(len(options) - 0.5, -0.5)
    axes.set_xlabel("largest expected loss; no private method reaches the shaded part")
    axes.set_title(f"ε = {advice.epsilon:g}, n = {advice.n:,}", fontsize=10, loc="left", color=INK)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
