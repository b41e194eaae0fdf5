"""A search for the distribution of a model at which the risk of an estimator is largest."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dpcore._validation import check_threads
from dpcore.errors import ParameterError, ParameterTypeError
from dpcore.minimax._progress import Progress, Steps
from dpcore.minimax.losses import as_loss
from dpcore.minimax.risk.boundary import PLACES, REFINED, Boundary, worst_on_boundary
from dpcore.minimax.risk.estimators import channel_of
from dpcore.minimax.risk.exact import BinaryRisk
from dpcore.minimax.risk.simulation import simulate_risk
from dpcore.minimax.spaces.certified import Maximiser
from dpcore.minimax.spaces.models import Model
from dpcore.minimax.spaces.polygon import trace_polygon
from dpcore.rng import resolve

if TYPE_CHECKING:
    import numpy.typing as npt

    from dpcore.minimax.losses import Loss
    from dpcore.minimax.risk.estimators import CountEstimator
    from dpcore.rng import Stream

    Array = npt.NDArray[np.float64]

PLACES_EACH = 8
"""Places on the boundary for each possible estimate, because a risk may rise and fall between two estimates."""
OUTLINE = 1e-5
"""Accuracy of the boundary, relative to its width and height. Risks change little over such a distance."""
ROUGH = 32
"""Places on a boundary, and linear programs for it, if risks are simulated."""
ROUNDS = (1000, 16), (10_000, 4), (100_000, 1)
"""For each round, the number of simulated data sets for a candidate, and the number of candidates that are kept."""
LAST_REPLICATES = 400_000
"""Data sets for the returned risk. It is simulated anew, because a maximum of simulated risks tends to be too large."""


class WorstDistribution(NamedTuple):
    """The distribution with the largest risk that a search found.

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
    progress: Progress | None = None,
) -> WorstDistribution:
    """Search a model for the distribution at which the risk of an estimator is largest.

    Parameters
    ----------
    estimator : BinarySearchEstimator or LinearOnModel
        As in `simulate_risk`.
    model : Model, optional
        The model to search; by default that of the estimator. It must have the same points and the same functional.
    loss : Loss or {"absolute", "squared"}, default "squared"
        Loss of the absolute error.
    rng : Stream, optional
        For channels with more than two outcomes. None is the secure source; `dpcore.testing.KeyedRandom` for tests.
    threads : int, optional
        Number of threads; default min(CPU affinity, cgroup quota, DPCORE_NUM_THREADS).
    progress : callable, optional
        Called as progress(done, total) with numbers of distributions that were tried.

    Returns
    -------
    WorstDistribution
        The distribution and its risk, which is exact for binary channels and simulated otherwise. The largest risk over the model is at
        least as large.

    Raises
    ------
    ParameterError, ParameterTypeError
        If an argument is outside its range or of the wrong type.

    Notes
    -----
    Behind a binary channel, the law of the count depends on q = P(+) only, and the risk on θ and q. For each θ the risk is quasi-convex in
    q, because the estimate is monotone in the count. Hence the largest risk lies on the boundary of the polygon {(θ(p), q(p))}. The search
    tries about a thousand places on it, and then the neighbourhood of the best ones. With more outcomes, it simulates risks on the
    boundaries of the polygons of θ and the probability of each outcome, and simulates the best few again.
    Guarantee: none. Data sets are simulated and protect nobody.
    Cost: about a thousand exact risks, or 32 K simulated ones.

    Examples
    --------
    >>> from dpcore.minimax import LinearEstimator, Model, worst_distribution
    >>> estimator = LinearEstimator([-1.0, 0.0, 0.5], 1.0).on(Model([-1.0, 0.0, 1.0]), n=1000)
    >>> p, risk = worst_distribution(estimator)
    >>> p.round(6).tolist(), round(risk, 4)
    ([0.0, 0.0, 1.0], 0.2544)
    """
    check_threads(threads)
    channel, chosen = channel_of(estimator), as_loss(loss)
    model = estimator.model if model is None else model
    if not isinstance(model, Model):
        raise ParameterTypeError(f"model must be a Model, got {type(model).__name__}")
    if model.size != len(channel):
        raise ParameterError(f"model must have {len(channel)} points, as many as the model of the estimator, got {model.size}")
    if channel.shape[1] == 2:
        return _worst_exact(estimator, model, channel, chosen, progress)
    return _worst_simulated(estimator, model, channel, loss=chosen, rng=resolve(rng), threads=threads, progress=progress)


def _worst_exact(estimator: CountEstimator, model: Model, channel: Array, loss: Loss, progress: Progress | None) -> WorstDistribution:
    risk, frame = BinaryRisk(estimator, loss), model.frame
    places = max(PLACES, PLACES_EACH * len(getattr(estimator, "values", ())))
    boundary = Boundary(trace_polygon(Maximiser(model), model.standard.f, channel[:, 1], tolerance=OUTLINE), places)
    steps = Steps(progress, len(boundary.places) + REFINED)
    p = worst_on_boundary(lambda theta, q: risk.at(frame.point(theta), q), boundary, steps)
    steps.finish()
    return WorstDistribution(p, risk.at(float(p @ model.f), float(p @ channel[:, 1])))


def _worst_simulated(
    estimator: CountEstimator, model: Model, channel: Array, *, loss: Loss, rng: Stream, threads: int | None, progress: Progress | None
) -> WorstDistribution:
    maximise, candidates = Maximiser(model), []
    for column in channel.T:
        boundary = Boundary(trace_polygon(maximise, model.standard.f, column, tolerance=1e-3, most=ROUGH), ROUGH)
        candidates += [boundary.member(int(edge), share) for edge, share in boundary.places]
    shortlist = np.array(candidates)
    steps = Steps(progress, len(shortlist) + sum(min(kept, len(shortlist)) for _, kept in ROUNDS))

    def risks(tried: Array, replicates: int) -> Array:
        found = np.empty(len(tried))
        for index, p in enumerate(tried):
            found[index] = simulate_risk(estimator, p, replicates=replicates, loss=loss, rng=rng, threads=threads).value
            steps.advance()
        return found

    for replicates, kept in ROUNDS:
        shortlist = shortlist[np.argsort(-risks(shortlist, replicates))[:kept]]
    return WorstDistribution(shortlist[0], float(risks(shortlist[:1], LAST_REPLICATES)[0]))
