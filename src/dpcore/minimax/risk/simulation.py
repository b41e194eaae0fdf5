"""Risks of estimators of reports, by exact simulation of their counts; and the distributions of a model where they are largest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from dpcore import _backend
from dpcore._validation import REAL_DTYPES, check_array, check_integer
from dpcore.errors import ParameterError, ParameterTypeError
from dpcore.local._mechanism import open_stream
from dpcore.minimax._binomial import MOST_REPORTS
from dpcore.minimax.losses import as_loss
from dpcore.minimax.risk.draws import Multinomial, binomial
from dpcore.minimax.risk.worst import PLACES, Boundary, worst_on_boundary
from dpcore.minimax.spaces.certified import Maximiser
from dpcore.minimax.spaces.matrices import channel_matrix, check_distributions
from dpcore.minimax.spaces.polygon import trace_polygon
from dpcore.rng import resolve

if TYPE_CHECKING:
    import numpy.typing as npt

    from dpcore.minimax.losses import Loss
    from dpcore.minimax.spaces.models import Model
    from dpcore.rng import Stream

    Array = npt.NDArray[np.float64]
    Counts = npt.NDArray[np.int64]

PLACES_EACH = 8
"""Places of a boundary for each value that can be estimated: between two of them a risk goes up and down."""
MOST_TABULATED = 2**22
"""Reports up to which the estimates of all counts are held."""
OUTLINE = 1e-5
"""How closely the boundary is traced, relative to its width and height: on it, risks change little over such a distance."""
ROUGH = 32
"""Places of a boundary, and linear programmes for it, where risks are simulated."""
ROUNDS = (1000, 16), (10_000, 4), (100_000, 1)
"""Replicates for every candidate, and how many candidates go on."""
LAST_REPLICATES = 400_000
"""For the risk that is told: a maximum of simulated risks would be too large by chance."""


def draw_counts(q: Any, *, n: int, replicates: int, rng: Stream | None = None, threads: int | None = None) -> Counts:
    """Draw how often each of K outcomes comes up among n independent reports, for many data sets.

    Parameters
    ----------
    q : array_like of float, shape (K,)
        Probabilities of the outcomes; K ≥ 2, sum 1 within 10^-9.
    n : int
        Reports of a data set, in [1, 2^40].
    replicates : int
        Number of data sets, ≥ 1.
    rng : Stream, optional
        None is the secure source.
    threads : int, optional
        Number of threads; None picks.

    Returns
    -------
    ndarray of int64, shape (replicates, K)
        Rows are independent, multinomial, and sum to n.

    Raises
    ------
    ParameterError, ParameterTypeError
        If an argument does not fit.

    Notes
    -----
    One outcome after the other is binomial given those before it. Binomial numbers come by inversion of their distribution function with
    one 64-bit word; where the number of trials differs between data sets, it is the least that it can be, and as many powers of two as
    make up the rest, each with a word of its own. Cost for 10^6 data sets, one thread: about 0.1 s at K = 2, and half a second for each
    further outcome at n = 10^6.

    Examples
    --------
    >>> from dpcore.minimax import draw_counts
    >>> counts = draw_counts([0.25, 0.75], n=1000, replicates=5)
    >>> counts.shape, counts.sum(axis=1).tolist()
    ((5, 2), [1000, 1000, 1000, 1000, 1000])
    """
    law = Multinomial(_probabilities(q), check_integer("n", n, low=1, high=MOST_REPORTS))
    replicates = check_integer("replicates", replicates, low=1)
    stream = open_stream(rng, threads)
    position, width = stream.position(), law.words
    counts = np.empty((replicates, len(law.steps) + 1), np.int64)

    def work(start: int, stop: int) -> None:
        here = position._replace(first_element=position.first_element + start * width)
        words = _backend.uniform_words(here, (stop - start) * width)
        law.fill(counts[start:stop], words.reshape(-1, width))

    _backend.for_ranges(work, replicates, threads, elements_per_unit=4 / (width + 3))
    return counts


def _probabilities(q: Any) -> Array:
    values = check_array("q", q, REAL_DTYPES).astype(np.float64)
    if values.ndim != 1 or len(values) < 2 or not (values >= 0).all() or not abs(values.sum() - 1) <= 1e-9:
        raise ParameterError(f"q must be at least two probabilities that sum to 1, got shape {values.shape}")
    return values


@dataclass(frozen=True, eq=False, slots=True)
class SimulatedRisk:
    r"""The mean loss of an estimator over simulated data sets.

    Attributes
    ----------
    value : float
        Mean loss.
    stderr : float
        Its standard error.
    replicates : int
        Number of data sets.
    errors : ndarray of float64, shape (replicates,)
        \|estimate − θ\|, ascending.
    """

    value: float
    stderr: float
    replicates: int
    errors: Array

    def tail(self, beyond: Any) -> Any:
        """Give the share of data sets whose error is larger than `beyond`.

        Parameters
        ----------
        beyond : array_like of float, shape (...)

        Returns
        -------
        float or ndarray of float64, shape (...)
        """
        share = (self.replicates - np.searchsorted(self.errors, beyond, side="right")) / self.replicates
        return float(share) if np.ndim(share) == 0 else share


def simulate_risk(
    estimator: CountEstimator,
    p: Any,
    *,
    replicates: int = 100_000,
    loss: Loss | str = "squared",
    rng: Stream | None = None,
    threads: int | None = None,
) -> SimulatedRisk:
    """Measure the risk of an estimator at one distribution.

    Parameters
    ----------
    estimator : BinarySearchEstimator or LinearOnModel
        With its model, channel and number n of reports; `LinearEstimator.on(model, n=n)` gives the latter.
    p : array_like of float, shape (X,)
        Masses of the model's points.
    replicates : int, default 100 000
        Number of data sets, ≥ 2.
    loss : Loss or str, default "squared"
        As in `dpcore.minimax.losses`.
    rng : Stream, optional
        None is the secure source.
    threads : int, optional
        Number of threads; None picks.

    Returns
    -------
    SimulatedRisk
        Mean loss with its standard error, and all errors.

    Raises
    ------
    ParameterError, ParameterTypeError
        If an argument does not fit.

    Notes
    -----
    The estimators use the counts of the n reports only, and these are drawn directly: the cost does not depend on n. See `draw_counts`.

    Examples
    --------
    >>> from dpcore.minimax import LinearEstimator, Model, simulate_risk
    >>> estimator = LinearEstimator([-1.0, 0.0, 1.0], 1.0).on(Model([-1.0, 0.0, 1.0]), n=1000)
    >>> risk = simulate_risk(estimator, [0.25, 0.5, 0.25], replicates=10_000)
    >>> abs(risk.value - estimator.risk_bound()) < 6 * risk.stderr
    True
    """
    replicates, chosen = check_integer("replicates", replicates, low=2), as_loss(loss)
    channel = _channel(estimator)
    masses = _distribution(p, estimator.model.size)
    counts = draw_counts(masses @ channel, n=estimator.n, replicates=replicates, rng=rng, threads=threads)
    estimates = np.asarray(estimator.estimate(counts), np.float64)
    errors = np.sort(np.abs(estimates - float(masses @ estimator.model.f)))
    losses = np.asarray(chosen(errors), np.float64)
    return SimulatedRisk(float(losses.mean()), float(losses.std(ddof=1)) / replicates**0.5, replicates, errors)


def exact_risk(estimator: CountEstimator, p: Any, *, loss: Loss | str = "squared") -> float:
    """Compute the risk of an estimator of binary reports at one distribution: the sum over all counts.

    Parameters
    ----------
    estimator : BinarySearchEstimator or LinearOnModel
        As in `simulate_risk`; its channel must be binary.
    p : array_like of float, shape (X,)
        Masses of the model's points.
    loss : Loss or str, default "squared"
        As in `dpcore.minimax.losses`.

    Returns
    -------
    float
        Up to rounding, and counts of a probability below 2^-60 in all.

    Raises
    ------
    ParameterError
        If the channel is not binary.

    Examples
    --------
    >>> from dpcore.minimax import LinearEstimator, Model, exact_risk
    >>> estimator = LinearEstimator([-1.0, 0.0, 1.0], 1.0).on(Model([-1.0, 0.0, 1.0]), n=1000)
    >>> round(exact_risk(estimator, [0.1, 0.2, 0.7]), 9), round(estimator.risk_bound(), 9)
    (0.004322694, 0.004682694)
    """
    channel = _channel(estimator)
    masses = _distribution(p, estimator.model.size)
    if channel.shape[1] != 2:
        raise ParameterError(f"estimator must have a binary channel, got one with {channel.shape[1]} outcomes; see simulate_risk")
    return _BinaryRisk(estimator, as_loss(loss)).at(float(masses @ estimator.model.f), float(masses @ channel[:, 1]))


class _BinaryRisk:
    """Exact risks of an estimator of binary reports, as a function of θ and q = P(+)."""

    def __init__(self, estimator: CountEstimator, loss: Loss) -> None:
        self._estimator, self._loss = estimator, loss
        every = estimator.n <= MOST_TABULATED
        self._table: Array | None = np.asarray(estimator.estimate(np.arange(estimator.n + 1)), np.float64) if every else None

    def at(self, theta: float, q: float) -> float:
        law = binomial(self._estimator.n, min(max(q, 0.0), 1.0))
        estimates = self._estimator.estimate(law.numbers) if self._table is None else self._table[law.first : law.last + 1]
        return float(law.masses @ np.asarray(self._loss(np.abs(estimates - theta)), np.float64))


class WorstDistribution(NamedTuple):
    """Where a risk is largest, as far as a search found.

    Attributes
    ----------
    p : ndarray of float64, shape (X,)
        A distribution of the model.
    risk : float
        The risk there.
    """

    p: Array
    risk: float


def worst_distribution(
    estimator: CountEstimator,
    model: Model | None = None,
    *,
    loss: Loss | str = "squared",
    rng: Stream | None = None,
    threads: int | None = None,
) -> WorstDistribution:
    """Search a model for the distribution at which the risk of an estimator is largest.

    Parameters
    ----------
    estimator : BinarySearchEstimator or LinearOnModel
        As in `simulate_risk`.
    model : Model, optional
        Where to search; by default the estimator's own. It must have the same points and the same functional.
    loss : Loss or str, default "squared"
        As in `dpcore.minimax.losses`.
    rng : Stream, optional
        For channels with more than two outcomes; None is the secure source.
    threads : int, optional
        Number of threads; None picks.

    Returns
    -------
    WorstDistribution
        p and the risk there: exact for binary channels, else simulated.

    Raises
    ------
    ParameterError, ParameterTypeError
        If an argument does not fit.

    Notes
    -----
    With a binary channel the law of the count depends on q = P(+) only, and the risk on θ and q. At every θ it is quasi-convex in q, as the
    estimate is monotone in the count: the largest risk lies on the boundary of the polygon {(θ(p), q(p))}, which is searched at some
    thousand places and then around the best ones. With more outcomes the places are on the boundaries of the polygons of θ and the
    probability of each outcome, risks are simulated, and the best few are simulated again.

    Examples
    --------
    >>> from dpcore.minimax import LinearEstimator, Model, worst_distribution
    >>> estimator = LinearEstimator([-1.0, 0.0, 0.5], 1.0).on(Model([-1.0, 0.0, 1.0]), n=1000)
    >>> p, risk = worst_distribution(estimator)
    >>> p.round(6).tolist(), round(risk, 4)
    ([0.0, 0.0, 1.0], 0.2544)
    """
    channel, chosen = _channel(estimator), as_loss(loss)
    model = estimator.model if model is None else model
    if model.size != len(channel):
        raise ParameterError(f"model must have {len(channel)} points, as many as that of the estimator, got {model.size}")
    if channel.shape[1] == 2:
        exact = _BinaryRisk(estimator, chosen)
        count = PLACES_EACH * len(getattr(estimator, "values", ()))
        polygon = trace_polygon(Maximiser(model), model.standard.f, channel[:, 1], tolerance=OUTLINE)
        frame = model.frame
        p = worst_on_boundary(lambda theta, q: exact.at(frame.point(theta), q), Boundary(polygon, max(PLACES, count)))
        return WorstDistribution(p, exact.at(float(p @ model.f), float(p @ channel[:, 1])))
    return _worst_simulated(estimator, model, channel, loss=chosen, rng=resolve(rng), threads=threads)


def _worst_simulated(
    estimator: CountEstimator, model: Model, channel: Array, *, loss: Loss, rng: Stream, threads: int | None
) -> WorstDistribution:
    def risks(candidates: Array, replicates: int) -> Array:
        found = [simulate_risk(estimator, p, replicates=replicates, loss=loss, rng=rng, threads=threads) for p in candidates]
        return np.array([risk.value for risk in found])

    maximise, candidates = Maximiser(model), []
    for column in channel.T:
        boundary = Boundary(trace_polygon(maximise, model.standard.f, column, tolerance=1e-3, most=ROUGH), ROUGH)
        candidates += [boundary.member(int(edge), share) for edge, share in boundary.places]
    shortlist = np.array(candidates)
    for replicates, kept in ROUNDS:
        shortlist = shortlist[np.argsort(-risks(shortlist, replicates))[:kept]]
    return WorstDistribution(shortlist[0], float(risks(shortlist[:1], LAST_REPLICATES)[0]))


# What an estimator must have


class CountEstimator(Protocol):
    """An estimator of n reports that needs only how often each outcome came up."""

    @property
    def model(self) -> Model:
        """The distributions of a record."""

    @property
    def n(self) -> int:
        """Number of reports."""

    @property
    def channel(self) -> Any:
        """A matrix (X, K), or what has one as `channel(…)`."""

    def estimate(self, counts: Any) -> Any:
        """Estimate θ from counts, shape (B, K)."""


def _channel(estimator: CountEstimator) -> Array:
    if not all(hasattr(estimator, name) for name in ("model", "n", "channel", "estimate")):
        raise ParameterTypeError(
            f"estimator must know its model and its number of reports, got {type(estimator).__name__}; "
            "a LinearEstimator is told them by on(model, n=n)"
        )
    return channel_matrix(estimator.channel, estimator.model.points)


def _distribution(p: Any, size: int) -> Array:
    """Return p as one distribution on `size` points; what a programme's tolerance left below 0 is 0."""
    masses = check_array("p", p, REAL_DTYPES).astype(np.float64)
    if masses.shape != (size,):
        raise ParameterError(f"p must have {size} masses, got shape {masses.shape}")
    masses = check_distributions("p", np.where((masses < 0) & (masses > -1e-9), 0.0, masses))
    return masses / float(masses.sum())
