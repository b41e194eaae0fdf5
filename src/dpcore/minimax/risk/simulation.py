"""Risks of estimators of reports by simulation. Counts of reports are drawn from their exact law, so the cost does not depend on n."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from scipy import special

from dpcore import _backend
from dpcore._dataclasses import dataclass
from dpcore._html import facts_table
from dpcore._validation import REAL_DTYPES, check_array, check_integer, check_real
from dpcore.errors import ParameterError
from dpcore.local._mechanism import open_stream
from dpcore.minimax._binomial import MOST_REPORTS
from dpcore.minimax._progress import Progress, Steps
from dpcore.minimax.losses import as_loss
from dpcore.minimax.risk.draws import Multinomial
from dpcore.minimax.risk.estimators import channel_of, distribution_on

if TYPE_CHECKING:
    import numpy.typing as npt

    from dpcore.minimax.losses import Loss
    from dpcore.minimax.risk.estimators import CountEstimator
    from dpcore.rng import Stream, StreamPosition

    Array = npt.NDArray[np.float64]
    Counts = npt.NDArray[np.int64]

BLOCK = 2**16
"""Data sets that are drawn and estimated together."""


def draw_counts(q: npt.ArrayLike, *, n: int, replicates: int, rng: Stream | None = None, threads: int | None = None) -> Counts:
    """Draw how often each of K outcomes occurs among n independent reports, for many data sets.

    Parameters
    ----------
    q : array_like of float, shape (K,)
        Probabilities of the outcomes. K ≥ 1, and the sum is 1 within 10^-9.
    n : int
        Number of reports of a data set, in [1, 2^40].
    replicates : int
        Number of data sets, at least 1.
    rng : Stream, optional
        None is the secure source; `dpcore.testing.KeyedRandom` for tests.
    threads : int, optional
        Number of threads; default min(CPU affinity, cgroup quota, DPCORE_NUM_THREADS).

    Returns
    -------
    ndarray of int64, shape (replicates, K)
        Rows are independent and multinomial, and sum to n.

    Raises
    ------
    ParameterError, ParameterTypeError
        If an argument is outside its range or of the wrong type.

    Notes
    -----
    Each outcome is binomial given the outcomes before it. A binomial number comes from inverting its distribution function with one 64-bit
    word. If the number of trials differs between data sets, it is split into its least value and powers of two, each with its own word.
    Guarantee: none. The counts are for simulations, have the right law up to 2^-52 or so, and protect nobody.
    Cost: for 10^6 data sets on one thread, about 0.1 s for K = 2, and half a second for each further outcome at n = 10^6.

    Examples
    --------
    >>> from dpcore.minimax import draw_counts
    >>> counts = draw_counts([0.25, 0.75], n=1000, replicates=5)
    >>> counts.shape, counts.sum(axis=1).tolist()
    ((5, 2), [1000, 1000, 1000, 1000, 1000])
    """
    law = Multinomial(_probabilities(q), check_integer("n", n, low=1, high=MOST_REPORTS))
    replicates = check_integer("replicates", replicates, low=1)
    return _drawn(law, open_stream(rng, threads).position(), 0, replicates, threads)


def _drawn(law: Multinomial, position: StreamPosition, first: int, replicates: int, threads: int | None) -> Counts:
    """Draw data sets from number `first` on. Each has its own words, so blocks of data sets do not change them."""
    width = law.words
    counts = np.empty((replicates, len(law.steps) + 1), np.int64)

    def work(start: int, stop: int) -> None:
        here = position._replace(first_element=position.first_element + (first + start) * width)
        words = _backend.uniform_words(here, (stop - start) * width)
        law.fill(counts[start:stop], words.reshape(stop - start, width))

    _backend.for_ranges(work, replicates, threads, elements_per_unit=4 / (width + 3))
    return counts


def _probabilities(q: Any) -> Array:
    values = check_array("q", q, REAL_DTYPES).astype(np.float64)
    if values.ndim != 1 or len(values) < 1 or not (values >= 0).all() or not abs(values.sum() - 1) <= 1e-9:
        raise ParameterError(f"q must be probabilities that sum to 1, got shape {values.shape}")
    return values


@dataclass(frozen=True, eq=False, slots=True)
class SimulatedRisk:
    r"""The mean loss of an estimator over simulated data sets.

    Attributes
    ----------
    value : float
        Mean loss.
    stderr : float
        Standard error of `value`.
    replicates : int
        Number of data sets.
    errors : ndarray of float64, shape (replicates,)
        \|estimate − θ\| of each data set, ascending.
    """

    value: float
    stderr: float
    replicates: int
    errors: Array = field(repr=False)

    def interval(self, confidence: float = 0.95) -> Array:
        """Return a confidence interval of the risk, by the normal approximation.

        Parameters
        ----------
        confidence : float, default 0.95
            Coverage, in (0, 1).

        Returns
        -------
        ndarray of float64, shape (2,)
            Lower and upper end.

        Raises
        ------
        ParameterError, ParameterTypeError
            If `confidence` is outside its range or not a number.
        """
        check_real("confidence", confidence, low=0.0, high=1.0, include_low=False, include_high=False)
        reach = -float(special.ndtri((1 - confidence) / 2)) * self.stderr
        return np.array([max(self.value - reach, 0.0), self.value + reach])

    @overload
    def tail(self, beyond: float) -> float: ...
    @overload
    def tail(self, beyond: npt.ArrayLike) -> float | Array: ...
    def tail(self, beyond: Any) -> Any:
        """Return the share of data sets with an error larger than `beyond`.

        Parameters
        ----------
        beyond : array_like of float, shape (...)
            Absolute errors.

        Returns
        -------
        float or ndarray of float64, shape (...)
            A float for a single number.
        """
        share = (self.replicates - np.searchsorted(self.errors, beyond, side="right")) / self.replicates
        return float(share) if np.ndim(share) == 0 else share

    def _repr_html_(self) -> str:
        low, high = self.interval()
        quantiles = np.quantile(self.errors, [0.5, 0.95, 0.999])
        rows = (
            ("mean loss", f"{self.value:.4g} ± {self.stderr:.2g}"),
            ("95 % interval", f"{low:.4g} to {high:.4g}"),
            ("data sets", f"{self.replicates:,}"),
            *(
                (f"{share} of errors are at most", f"{bound:.4g}")
                for share, bound in zip(("50 %", "95 %", "99.9 %"), quantiles, strict=True)
            ),
        )
        return facts_table("Simulated risk", rows)


def simulate_risk(
    estimator: CountEstimator,
    p: npt.ArrayLike,
    *,
    replicates: int = 100_000,
    loss: Loss | str = "squared",
    rng: Stream | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> SimulatedRisk:
    """Measure the risk of an estimator at one distribution, on simulated data sets.

    Parameters
    ----------
    estimator : BinarySearchEstimator or LinearOnModel
        An estimator that knows its model, channel and number of reports. For a LinearEstimator, pass `estimator.on(model, n=n)`.
    p : array_like of float, shape (X,)
        Masses of the points of the model.
    replicates : int, default 100 000
        Number of data sets, at least 2.
    loss : Loss or {"absolute", "squared"}, default "squared"
        Loss of the absolute error.
    rng : Stream, optional
        None is the secure source; `dpcore.testing.KeyedRandom` for tests.
    threads : int, optional
        Number of threads; default min(CPU affinity, cgroup quota, DPCORE_NUM_THREADS).
    progress : callable, optional
        Called as progress(done, total) with numbers of data sets.

    Returns
    -------
    SimulatedRisk
        Mean loss with its standard error, and all errors.

    Raises
    ------
    ParameterError, ParameterTypeError
        If an argument is outside its range or of the wrong type.

    Notes
    -----
    The estimators use only the counts of the n reports, and the counts are drawn directly with `draw_counts`.
    Guarantee: none. Data sets are simulated and protect nobody.
    Cost: that of drawing and estimating counts, for any n: 0.1 s for 10^6 data sets of binary reports.

    Examples
    --------
    >>> from dpcore.minimax import LinearEstimator, Model, simulate_risk
    >>> estimator = LinearEstimator([-1.0, 0.0, 1.0], 1.0).on(Model([-1.0, 0.0, 1.0]), n=1000)
    >>> risk = simulate_risk(estimator, [0.25, 0.5, 0.25], replicates=10_000)
    >>> abs(risk.value - estimator.risk_bound()) < 6 * risk.stderr
    True
    """
    replicates, chosen = check_integer("replicates", replicates, low=2), as_loss(loss)
    channel = channel_of(estimator)
    masses = distribution_on(p, estimator.model.size)
    law = Multinomial(_probabilities(masses @ channel), check_integer("n", estimator.n, low=1, high=MOST_REPORTS))
    theta, steps = float(masses @ estimator.model.f), Steps(progress, replicates)
    position, errors = open_stream(rng, threads).position(), np.empty(replicates)
    for start in range(0, replicates, BLOCK):
        counts = _drawn(law, position, start, min(BLOCK, replicates - start), threads)
        errors[start : start + BLOCK] = np.abs(np.asarray(estimator.estimate(counts), np.float64) - theta)
        steps.advance(len(counts))
    errors.sort()
    losses = np.asarray(chosen(errors), np.float64)
    return SimulatedRisk(float(losses.mean()), float(losses.std(ddof=1)) / replicates**0.5, replicates, errors)
