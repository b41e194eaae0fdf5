"""The best linear estimator over all private channels, with a certificate."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import minimize_scalar

from dpcore._dataclasses import dataclass
from dpcore._html import facts_table
from dpcore._validation import REAL_DTYPES, check_array, check_integer
from dpcore.errors import DpcoreError, ParameterError, ParameterTypeError
from dpcore.local import FiniteChannel
from dpcore.local._one_bit import expansion
from dpcore.local._parameters import check_epsilon
from dpcore.minimax._binomial import MOST_REPORTS
from dpcore.minimax._progress import Progress, Steps
from dpcore.minimax.designs.channel_mean import ChannelMean, ChannelMeanOnModel
from dpcore.minimax.designs.dual import limits
from dpcore.minimax.designs.program import Design, best_channel
from dpcore.minimax.designs.worst_case import Moments
from dpcore.minimax.programs.frames import times_power_of_two
from dpcore.minimax.spaces.channels import CONSTANT
from dpcore.minimax.spaces.lower_bounds import LowerBound, lower_bound
from dpcore.minimax.spaces.models import Model
from dpcore.minimax.spaces.moduli import largest_difference_tv, whole_range

if TYPE_CHECKING:
    from dpcore.minimax.spaces.matrices import Array

OUTPUTS = 41
MOST_OUTPUTS = 1001
USED = 1e-6
"""An outcome is used if its probability exceeds this share of the most frequent one's somewhere."""
LEAST = 1e-11
"""Outcomes below this probability everywhere are left out."""
WIDENINGS, NARROWINGS = 6, 8
FEW, NARROWED = 8, 6.0
"""Up to this many outputs, their reach is searched, down to 2^−6 of the first one."""
WIDE, TIGHT = 2.0, 1.1
"""Reach of the first grid of outputs in units of that of one bit, and of the second in units of the largest output used."""
WORTH = 1e-3
"""Nearer outputs are tried again if they were better by this share."""
STAGES = WIDENINGS + 5
LARGEST_UNIT = 440
"""Outputs of a channel are at most 2^500, and 2^20 times the range of θ for the smallest ε."""


@dataclass(frozen=True, slots=True, eq=False)
class LinearCertificate:
    """What is proved about a linear estimator and its channel.

    Attributes
    ----------
    risk : float
        No distribution of the model has a larger mean square error.
    objective : float
        Largest squared bias plus largest second moment of a report over n, rounded up: what the program minimizes. At least `risk`.
    on_outputs : float
        No ε-private channel with the same grid of outputs, and no center, has a smaller objective.
    everywhere : float
        No ε-private channel with any real outputs, finitely many or not, has a smaller objective.
    lower : LowerBound
        No sequentially interactive ε-private method, linear or not, has a smaller worst-case mean square error.
    mixed : float
        Share of a private law that restored the level of the channel after rounding.
    """

    risk: float
    objective: float
    on_outputs: float
    everywhere: float
    lower: LowerBound
    mixed: float

    @property
    def ratio(self) -> float:
        """risk/lower.value: no method is better by a larger factor."""
        return self.risk / self.lower.value if self.lower.value > 0 else math.inf

    @property
    def lost(self) -> float:
        """By which share of the objective the grid of outputs and the solver may be worse than the best channel; ∞ if nothing is proved."""
        return self.objective / self.everywhere - 1 if self.everywhere > 0 else math.inf


@dataclass(frozen=True, eq=False)
class BestLinear(ChannelMeanOnModel):
    """The best linear estimator of a model over all private channels, as `best_linear` found it.

    Attributes
    ----------
    mean : ChannelMean
        The estimator: channel, values of its outcomes, and center. Its records are codes of the points of the model.
    model : Model
        The distributions that the records may have.
    n : int
        Number of reports.
    certificate : LinearCertificate
        What is proved about it.
    """

    certificate: LinearCertificate

    def for_records(self) -> ChannelMean:
        r"""Make the estimator that takes records as they are, instead of codes of points.

        Returns
        -------
        ChannelMean
            Records are rounded at random to one of the two neighbouring points of the model, which keeps their mean; those beyond the grid
            count as its end. For a `Model.moment` of the grid itself, `bias` and `second_moment` are proved for *all* distributions on the
            real line with E\|x\|^κ ≤ C, not only for those on the grid. Otherwise they are those over the model.

        Raises
        ------
        ParameterError
            If the points of the model are unknown, or are not numbers.

        Notes
        -----
        Guarantee: each report is ε-private, exactly.

        Examples
        --------
        >>> import numpy as np
        >>> from dpcore.minimax import Model, best_linear
        >>> model = Model.moment(np.linspace(-16.0, 16.0, 65), kappa=2.0, C=1.0)
        >>> mean = best_linear(model, 2.0, n=1000, outputs=21).for_records()
        >>> mean.privatize([0.1, -0.3, 30.0]).shape
        (3,)
        """
        points = self.model.points
        if points is None or points.ndim != 1:
            raise ParameterError("the model must have points that are numbers; use `mean` with the codes of its points")
        order = np.argsort(points, kind="stable")
        own = self.mean.channel
        channel = FiniteChannel(own.rows[order], epsilon=own.epsilon, values=own.values)
        grid, line = points[order], self.model.line
        if line is None:
            bias, moment = self.bias, self.second_moment
        else:
            rows, values = channel.channel(), np.array(channel.values)
            errors = rows @ values + self.mean.center - grid
            squares = rows @ values**2
            # The errors of the products, relatively to their largest terms.
            rounding = (len(values) + 10) * 2.0**-53 * float((rows @ np.abs(values)).max() + np.abs(grid).max())
            bias = max(line.largest(grid, errors, -1.0), line.largest(grid, -errors, 1.0), 0.0) + rounding
            moment = line.largest(grid, squares, 0.0) * (1 + 2.0**-40)
        return ChannelMean(channel, center=self.mean.center, points=tuple(grid.tolist()), bias=bias, second_moment=moment)

    def __repr__(self) -> str:
        return f"BestLinear({self.model!r}, K={self.mean.channel.outcomes}, n={self.n}, risk={self.certificate.risk:.4g})"

    def _repr_html_(self) -> str:
        found, values = self.certificate, self.mean.values
        rows = (
            ("privacy of one report", f"ε = {self.mean.epsilon:g}"),
            ("reports", f"{self.n:,}"),
            ("outcomes", f"{len(values)}, which stand for {values.min():.4g} to {values.max():.4g}"),
            ("root of the largest mean square error", f"{math.sqrt(found.risk):.4g}"),
            ("no private method has a smaller one than", f"{math.sqrt(found.lower.value):.4g}"),
            ("no linear estimator of any private channel has a smaller bound than", f"{math.sqrt(found.everywhere):.4g}"),
        )
        return facts_table("Best linear estimator", rows)


def best_linear(
    model: Model,
    epsilon: float,
    *,
    n: int,
    outputs: int | Any = OUTPUTS,
    progress: Progress | None = None,
) -> BestLinear:
    r"""Find the private channel and the linear estimator with the smallest worst-case mean square error, and prove it.

    Parameters
    ----------
    model : Model
        The model. Its functional must not be constant.
    epsilon : float
        Privacy loss of one report, in [2^−20, 700].
    n : int
        Number of records, in [1, 2^40].
    outputs : int or array_like of float, shape (K,), default 41
        Number of outputs on a symmetric grid whose range is searched, in [2, 1001]; or the outputs themselves, in units of θ. An estimate
        is a constant plus the mean of the outputs.
    progress : callable, optional
        Called as progress(done, total) as programs are solved.

    Returns
    -------
    BestLinear
        The estimator with its channel, proved bounds, and a certificate that compares it with all others.

    Raises
    ------
    ParameterError, ParameterTypeError
        If an argument is outside its range or of the wrong type, or if the functional is constant.
    DpcoreError
        If the solver gives up, because the model is badly scaled.
    ModuleNotFoundError
        If the extra `minimax` is not installed.

    Notes
    -----
    Outcome k stands for v_k, and the estimate is c + the mean of v over the reports. Over all c and all Q with w_k ≤ Q(x, k) ≤ e^ε w_k and
    Σ_k Q(x, k) = 1, a quadratic program minimizes b² + V/n, where b is the largest bias over the model and V the largest E v²; both are
    linear in Q, by duality of the model. One bit is a special case, and so are k-ary response and the three-outcome channel of clipped
    records: from ε of about 1 on, more outcomes have a smaller risk than one bit, 2.4 times at ε = 3 for the mean under a second moment.

    The channel that is returned has rational rows of level at most ε, from which everything is computed again and rounded up. The
    certificate has three lower bounds: for the same outputs, for all outputs, and for all private methods. The multipliers of the program
    prove the first two. b² + V/n exceeds the mean square error by at most (E v)²/n.
    Cost: three or four programs with X·K variables; 3 to 15 s for X = 200 and K = 41.
    Source: the program and its dual are ours; Rohde & Steinberger (2020) show that linear estimators attain the optimal rate.

    Examples
    --------
    >>> import numpy as np
    >>> from dpcore.minimax import Model, best_linear
    >>> model = Model.moment(np.linspace(-16.0, 16.0, 65), kappa=2.0, C=1.0)
    >>> found = best_linear(model, 2.0, n=1000, outputs=21)
    >>> found.certificate.risk <= 1.6 * found.certificate.lower.value
    True
    """
    if not isinstance(model, Model):
        raise ParameterTypeError(f"model must be a Model, got {type(model).__name__}")
    n, epsilon = check_integer("n", n, low=1, high=MOST_REPORTS), check_epsilon(epsilon)
    standard, exponent = model.standard, model.frame.exponent
    width = whole_range(standard)
    if not width > CONSTANT * np.abs(standard.f).max():
        raise ParameterError("the functional of the model must not be constant: every distribution then has the same θ")
    if abs(exponent) > LARGEST_UNIT:
        raise ParameterError(
            f"the functional of the model must have a range between 2^-{LARGEST_UNIT} and 2^{LARGEST_UNIT}, so that float64 holds squared "
            f"errors; its unit is 2^{exponent}: express f in another one"
        )
    steps = Steps(progress, STAGES)
    lower = lower_bound(model, epsilon, n=n)
    steps.advance()
    scale = max(times_power_of_two(lower.value, -2 * exponent), 1e-280)
    if isinstance(outputs, (int, np.integer)) and not isinstance(outputs, bool):
        count = check_count(outputs)
        design = _searched(standard, epsilon, n, count, scale, width, steps)
    else:
        design = best_channel(standard, epsilon, n, np.ldexp(_given(outputs), -exponent), scale)
    found = _estimator(model, epsilon, n, design, lower)
    steps.finish()
    return found


def check_count(outputs: Any) -> int:
    """Return a number of outputs, checked."""
    return check_integer("outputs", outputs, low=2, high=MOST_OUTPUTS)


def _given(outputs: Any) -> Array:
    values = check_array("outputs", outputs, REAL_DTYPES).astype(np.float64)
    if values.ndim != 1 or not 2 <= len(values) <= MOST_OUTPUTS or not np.isfinite(values).all() or len(np.unique(values)) < len(values):
        raise ParameterError(
            f"outputs must be a number of outputs or 2 to {MOST_OUTPUTS} different finite numbers, got shape {values.shape}"
        )
    return np.sort(values)


def _searched(model: Model, epsilon: float, n: int, count: int, scale: float, width: float, steps: Steps) -> Design:
    """Solve for wide outputs, then for those that reach as far as is used, then for outputs near the used ones."""
    z0 = expansion(epsilon)
    radius = min(z0 / math.sqrt(n), 1.0)
    pair = largest_difference_tv(model, radius)
    # The slope is 0 where the radius is no restriction. The mean slope up to there is not; it is twice the slope if the modulus is √r.
    reach = WIDE * z0 * max(pair.slope / 2, pair.value / (4 * radius), width / 2**20)
    best = _first(model, epsilon, n, reach, count, scale)
    for _ in range(WIDENINGS):
        steps.advance()
        reach = float(best.outputs[-1])
        if not _used(best)[[0, -1]].any() or reach >= WIDE * z0 * width:
            break
        best = _better(best, model, epsilon, n, _grid(2 * reach, count), scale)
    if count <= FEW:
        best = _best_reach(best, model, epsilon, n, count, scale)
    # Where reports tell little, useful outputs are far smaller than the first ones, of which then only 0 is used.
    reach = float(best.outputs[-1])
    for _ in range(NARROWINGS):
        if _used(best).sum() > 1:
            break
        reach /= 8
        best = _better(best, model, epsilon, n, _grid(reach, count), scale)
    for _ in range(NARROWINGS):
        before, outputs = best.objective, _tightened(best, count)
        if outputs is None:
            break
        best = _better(best, model, epsilon, n, outputs, scale)
        if best.objective > before * (1 - WORTH):
            break
    steps.advance()
    if (outputs := _near_used(best, count)) is not None:
        best = _better(best, model, epsilon, n, outputs, scale)
    steps.advance()
    return best


def _first(model: Model, epsilon: float, n: int, reach: float, count: int, scale: float) -> Design:
    """Solve for outputs up to `reach`, or for nearer ones if the program is too badly scaled for the solver.

    That happens where reports tell so little that nearly constant estimates are best.
    """
    for attempt in range(NARROWINGS):
        try:
            return best_channel(model, epsilon, n, _grid(reach, count), scale)
        except DpcoreError:
            if attempt == NARROWINGS - 1:
                raise
            reach /= 16
    raise AssertionError


def _better(best: Design, model: Model, epsilon: float, n: int, outputs: Array, scale: float) -> Design:
    """Return the design for other outputs if there is one and it is better."""
    try:
        return min(best, best_channel(model, epsilon, n, outputs, scale), key=_objective)
    except DpcoreError:
        return best


def _best_reach(best: Design, model: Model, epsilon: float, n: int, count: int, scale: float) -> Design:
    """Search the reach of a grid of few outputs, for which it matters most."""
    designs, reach = [best], float(best.outputs[-1])

    def objective(power: float) -> float:
        try:
            designs.append(best_channel(model, epsilon, n, _grid(reach * 2**power, count), scale))
        except DpcoreError:
            return 1e3 * best.objective  # the search fits parabolas, which infinity would break
        return designs[-1].objective

    minimize_scalar(objective, bounds=(-NARROWED, 0.5), method="bounded", options={"xatol": 1e-3, "maxiter": 24})
    return min(designs, key=_objective)


def _objective(design: Design) -> float:
    return design.objective


def _grid(reach: float, count: int) -> Array:
    return np.linspace(-reach, reach, count)


def _used(design: Design) -> Any:
    weights = design.rows.max(axis=0)
    return weights > USED * weights.max()


def _tightened(design: Design, count: int) -> Array | None:
    used = np.abs(design.outputs[_used(design)]).max()
    spacing = design.outputs[1] - design.outputs[0]
    reach = max(TIGHT * used, used + spacing / 2)
    return _grid(float(reach), count) if reach < design.outputs[-1] * (1 - 1e-6) else None


def _near_used(design: Design, count: int) -> Array | None:
    """Spread the outputs evenly over the neighbourhoods of the used ones, symmetrically."""
    spacing = float(np.diff(design.outputs).max())
    used = np.abs(design.outputs[_used(design)])
    fine = np.linspace(0.0, float(design.outputs[-1]), 4096)
    near = (np.abs(fine[:, None] - used) <= spacing).any(axis=1)
    length = np.cumsum(near)
    half = (count + 1) // 2 if near[0] else count // 2
    if near.all() or half < 2:
        return None
    places = fine[np.searchsorted(length, np.linspace(1, length[-1], half))]
    return np.unique(np.concatenate([-places, places]))[:MOST_OUTPUTS]


def _estimator(model: Model, epsilon: float, n: int, design: Design, lower: LowerBound) -> BestLinear:
    """Make the exact channel of a design, choose the center, and prove everything about both."""
    standard, exponent = model.standard, model.frame.exponent
    kept = design.rows.max(axis=0) > LEAST
    rows = design.rows[:, kept] / design.rows[:, kept].sum(axis=1, keepdims=True)
    values = np.ldexp(design.outputs[kept], exponent)
    channel = FiniteChannel.at_level(rows, epsilon, values=tuple(values.tolist()))
    low, high = Moments(standard, n, 0.0, channel.channel(), design.outputs[kept]).biases
    mean = ChannelMean(channel, center=model.frame.point(-(low / 2 + high / 2)))
    plain = ChannelMeanOnModel(mean, model, n)
    found = limits(standard, epsilon, n, design)
    certificate = LinearCertificate(
        risk=plain.risk_bound(),
        objective=(plain.bias**2 + plain.second_moment / n) * (1 + 2.0**-50),
        on_outputs=times_power_of_two(found.on_outputs, 2 * exponent),
        everywhere=times_power_of_two(found.everywhere, 2 * exponent),
        lower=lower,
        mixed=channel.mixed,
    )
    return BestLinear(mean, model, n, certificate)
