"""Audits: what a mechanism's privacy loss is at least, from its outputs alone. docs/auditing.md."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcore._validation import check_integer, check_real
from dpcore.audit._events import Candidate, Feature, Partition, best_candidate, normal_quantile
from dpcore.audit._features import Event, make_features
from dpcore.audit._proportions import greatest_probability, least_probability
from dpcore.audit._runs import Job, Runner, open_source, substreams
from dpcore.errors import ParameterTypeError
from dpcore.rng import Stream, resolve

if TYPE_CHECKING:
    import numpy.typing as npt

    from dpcore.privacy import Privacy

__all__ = ["AuditResult", "audit", "repeat"]

KEPT = 4
"""Events that are counted in the second half at most; the confidence is shared among them."""
PILOT, PILOT_VALUES = 1 << 18, 1 << 22
"""Runs on each input that settle the cells, and how many numbers of theirs are held in memory, at most."""
LEAST_RUNS = 64


@dataclass(frozen=True, slots=True, eq=False)
class AuditResult:
    """What an audit has shown.

    Attributes
    ----------
    epsilon_lower : float
        With probability at least `confidence`, the mechanism is (ε, δ)-private for no ε below this on the two inputs. 0 if nothing was
        shown.
    epsilon_claimed : float or None
        The ε that is claimed together with δ; None if there is no claim, or one for a larger δ.
    delta : float
        δ.
    event : str
        The event that shows it, in words.
    likelier : {"x0", "x1"}
        Under which input the event is more probable.
    counts : tuple of int
        How often it happened in `counted` runs on x0, and in as many on x1.
    counted : int
        Runs on each input that were counted: the second half.
    n : int
        Runs on each input.
    confidence : float
        As asked for.
    contains : callable
        Takes outputs and tells for each whether it is in the event.
    """

    epsilon_lower: float
    epsilon_claimed: float | None
    delta: float
    event: str
    likelier: str
    counts: tuple[int, int]
    counted: int
    n: int
    confidence: float
    contains: Callable[[Any], npt.NDArray[np.bool_]] = field(repr=False)

    @property
    def passed(self) -> bool | None:
        """Whether the claim stands: False is a proof at the stated confidence that it is wrong, None that there is no claim."""
        return None if self.epsilon_claimed is None else self.epsilon_lower <= self.epsilon_claimed

    def __str__(self) -> str:
        claimed = f"ε = {self.epsilon_claimed}"
        claim = {None: "nothing is claimed", True: f"consistent with {claimed}", False: f"VIOLATES {claimed}"}
        return (
            f"ε ≥ {self.epsilon_lower:.4f} at δ = {self.delta:g} with confidence {self.confidence}: {claim[self.passed]}\n"
            f"event: {self.event}\n"
            f"seen {self.counts[0]} times on x0 and {self.counts[1]} times on x1, in {self.counted} runs on each"
        )


def audit(
    mechanism: Any,
    x0: Any,
    x1: Any,
    *,
    n: int = 10**6,
    confidence: float = 0.95,
    delta: float | None = None,
    privacy: Privacy | None = None,
    events: Sequence[str | Event] | None = None,
    progress: Callable[[int, int], object] | None = None,
    rng: Stream | None = None,
    threads: int | None = None,
) -> AuditResult:
    r"""Bound the privacy loss of a mechanism from below by running it on two neighbouring inputs.

    Parameters
    ----------
    mechanism : object or callable
        One of `dpcore.mechanisms`, which is run on answers; one of `dpcore.local`, run on a single record, or on a vector of records if it
        is sequential; or any function `run(x, size, rng)` that returns the outputs of `size` independent runs on x: an array of numbers
        or records whose first axis has that length. `repeat` makes one of a function for a single run. Other objects with a method
        `privatize(x, *, rng, threads)` or `release(values, *, rng, threads)` are run in the same way.
    x0, x1 : object
        Neighbours: inputs between which the guarantee holds.
    n : int, default 10^6
        Runs on each input, ≥ 64: half to choose events, half to count them.
    confidence : float, default 0.95
        Probability with which the result is right, in (0, 1).
    delta : float, optional
        δ in [0, 1); by default that of the claim, or 0 without one.
    privacy : Privacy, optional
        What is claimed; by default `mechanism.privacy`. Without it the inputs must be within the sensitivity of a noise mechanism.
    events : sequence, optional
        Where to look: "values", that is thresholds and sets of outputs; "low_bits", what the low bits of floats betray; and functions
        that take outputs and give a bool (an event) or a number (a statistic) for each run. By default the two words. Outputs of more
        than 32 numbers need a function, unless they are noisy answers of the inputs' shape.
    progress : callable, optional
        Called as progress(done, total) after every block of runs, not always by the same thread.
    rng : Stream, optional
        None is the secure source. With a keyed stream the result is the same on any number of threads.
    threads : int, optional
        Number of threads; None picks, and runs functions and foreign objects on one, as they may not bear several.

    Returns
    -------
    AuditResult
        The bound, the event behind it, and whether the claim stands.

    Raises
    ------
    ParameterError, ParameterTypeError
        If an argument does not fit, or the outputs are not numbers or change their shape.
    DpcoreError
        Whatever the mechanism raises.

    Notes
    -----
    (ε, δ)-privacy gives P(M(x0) ∈ S) ≤ e^ε P(M(x1) ∈ S) + δ for every event S, and the same with x0 and x1 exchanged. So
    ε ≥ ln((P(S) − δ)/P'(S)) for any S. The first half of the runs chooses up to m = 4 events: a quarter settles cells and puts them in
    order of their likelihood ratio, another quarter says which unions of them, which thresholds and which direction promise most. The
    second half counts them; P(S) is replaced by its lower and P'(S) by its upper Clopper-Pearson bound, each at error rate
    (1 − confidence)/2m, so the bound of the best is right with the stated probability. It is one for these two inputs and events: an audit
    can refute a guarantee and never proves one. If the mechanism is (ε, δ)-private, `passed` is False with probability at most
    1 − confidence.
    Cost: about 0.1 µs a run besides the mechanism's own, 20 s of one core for 10^8 runs of Laplace noise on each input; memory does not
    grow with n.
    Source: Ding et al. (2018); Bichsel et al. (2021); for low bits Mironov (2012); Mechanisms as experiments (2014), Theorem 2.

    Examples
    --------
    A mechanism that draws half the noise it should, and the right one:

    >>> from dpcore import Privacy, mechanisms
    >>> from dpcore.audit import audit
    >>> from dpcore.testing import KeyedRandom
    >>> broken = mechanisms.Laplace(epsilon=1.0, sensitivity=0.5)
    >>> found = audit(broken, 0.0, 1.0, privacy=Privacy(1.0), n=200_000, rng=KeyedRandom(bytes(32)))
    >>> found.passed, found.epsilon_lower > 1.9
    (False, True)
    >>> audit(mechanisms.Laplace(1.0, 1.0), 0.0, 1.0, n=200_000, rng=KeyedRandom(bytes(32))).passed
    True
    """
    n = check_integer("n", n, low=LEAST_RUNS)
    confidence = check_real("confidence", confidence, low=0.0, high=1.0, include_low=False, include_high=False)
    source = open_source(mechanism, x0, x1, privacy)
    if delta is None:
        delta = 0.0 if source.privacy is None else source.privacy.delta
    delta = check_real("delta", delta, low=0.0, high=1.0, include_high=False)
    if threads is not None:
        threads = check_integer("threads", threads, low=1, high=4096)
    if progress is not None and not callable(progress):
        raise ParameterTypeError(f"progress must be a function of the runs done and their total, got {type(progress).__name__}")
    runner = Runner(source, substreams(resolve(rng)), threads, progress, 2 * n)
    chosen = _choose(runner, make_features(source, runner.probe(), events), n // 2, delta, confidence)
    counts = _count(runner, chosen, n - n // 2)
    claim = source.privacy.epsilon if source.privacy is not None and source.privacy.delta <= delta else None
    return _result(chosen, counts, n, delta, claim, confidence)


def repeat(release: Callable[[Any, Stream], Any]) -> Callable[[Any, int, Stream], npt.NDArray[Any]]:
    """Turn a function for a single run into one for many, which `audit` takes.

    Parameters
    ----------
    release : callable
        Takes an input and a stream of randomness, gives a number or an array of one shape.

    Returns
    -------
    callable
        `run(x, size, rng)`, with the outputs of `size` runs along the first axis.

    Examples
    --------
    >>> from dpcore import Privacy, selection
    >>> from dpcore.audit import audit, repeat
    >>> def winner(scores, rng):
    ...     return selection.noisy_argmax(scores, epsilon=1.0, sensitivity=1.0, rng=rng)
    >>> audit(repeat(winner), [0.0, 2.0], [1.0, 1.0], privacy=Privacy(1.0), n=2_000, confidence=1 - 1e-6).passed
    True
    """
    if not callable(release):
        raise ParameterTypeError(f"release must be a function of an input and a stream, got {type(release).__name__}")

    def run(x: Any, size: int, rng: Stream) -> npt.NDArray[Any]:
        return np.asarray([release(x, rng) for _ in range(size)])

    return run


# The first half: events are chosen


def _choose(runner: Runner, features: list[Feature], runs: int, delta: float, confidence: float) -> list[Candidate]:
    """The events that promise most, at most one of each feature."""
    pilot = min(runs, PILOT, max(LEAST_RUNS, PILOT_VALUES // (2 * len(features))))
    jobs = runner.jobs(pilot)
    held = _hold(runner, features, jobs)
    partitions = [Partition.of(np.concatenate([held[job.number][i] for job in jobs]), feature.points) for i, feature in enumerate(features)]
    tables = [np.zeros((2, 2, partition.cells), np.int64) for partition in partitions]
    for job in jobs:
        for table, partition, values in zip(tables, partitions, held.pop(job.number), strict=True):
            _tabulate(table[:, job.which], partition, values)
    _tally(runner, features, partitions, tables, runner.jobs(runs - pilot))
    quantile = normal_quantile(_rate(confidence, 1))
    candidates = [
        best_candidate(feature, partition, table[0], table[1], delta, quantile)
        for feature, partition, table in zip(features, partitions, tables, strict=True)
    ]
    plainest = max((candidate.score for candidate in candidates if not candidate.feature.margin), default=-math.inf)
    worthy = [c for c in candidates if c.feature.margin == 0 or c.score > plainest + c.feature.margin]
    worthy.sort(key=lambda candidate: -candidate.score)
    promising = [candidate for candidate in worthy[:KEPT] if candidate.score > 0]
    return promising or worthy[:1]


def _hold(runner: Runner, features: list[Feature], jobs: list[Job]) -> dict[int, list[npt.NDArray[Any]]]:
    """The features of blocks, in memory."""
    held: dict[int, list[npt.NDArray[Any]]] = {}

    def work(job: Job, outputs: npt.NDArray[Any]) -> None:
        held[job.number] = [feature.values(outputs) for feature in features]

    runner.each(jobs, work)
    return held


def _tabulate(table: npt.NDArray[np.int64], partition: Partition, values: npt.NDArray[Any]) -> None:
    """Add values to the runs in each cell: the first half of a block to one sample, the second to another."""
    codes, half = partition.codes(values), len(values) // 2
    for sample, part in enumerate((codes[:half], codes[half:])):
        table[sample] += np.bincount(part, minlength=partition.cells)


def _tally(
    runner: Runner, features: list[Feature], partitions: list[Partition], tables: list[npt.NDArray[np.int64]], jobs: list[Job]
) -> None:
    """Add blocks to the tables."""
    lock = threading.Lock()

    def work(job: Job, outputs: npt.NDArray[Any]) -> None:
        for feature, partition, table in zip(features, partitions, tables, strict=True):
            counts = np.zeros((2, partition.cells), np.int64)
            _tabulate(counts, partition, feature.values(outputs))
            with lock:
                table[:, job.which] += counts

    runner.each(jobs, work)


# The second half: they are counted


def _count(runner: Runner, chosen: list[Candidate], runs: int) -> npt.NDArray[np.int64]:
    """How often each event happens under x0 and x1, shape (events, 2)."""
    counts, lock = np.zeros((len(chosen), 2), np.int64), threading.Lock()

    def work(job: Job, outputs: npt.NDArray[Any]) -> None:
        hits = [int(np.count_nonzero(candidate.contains(outputs))) for candidate in chosen]
        with lock:
            counts[:, job.which] += hits

    runner.each(runner.jobs(runs), work)
    return counts


def _rate(confidence: float, events: int) -> float:
    """Error rate of each of the two Clopper-Pearson bounds of each event."""
    return (1 - confidence) / (2 * events)


def _result(
    chosen: list[Candidate], counts: npt.NDArray[np.int64], n: int, delta: float, claim: float | None, confidence: float
) -> AuditResult:
    counted, rate = n - n // 2, _rate(confidence, len(chosen))
    bounds = [
        loss_bound(int(count[event.likelier]), int(count[1 - event.likelier]), counted, delta, rate)
        for event, count in zip(chosen, counts, strict=True)
    ]
    best = int(np.argmax(bounds))
    event = chosen[best]
    return AuditResult(
        epsilon_lower=max(0.0, bounds[best]), epsilon_claimed=claim, delta=delta, event=event.description,
        likelier=f"x{event.likelier}", counts=(int(counts[best, 0]), int(counts[best, 1])), counted=counted, n=n,
        confidence=confidence, contains=event.contains,
    )  # fmt: skip


def loss_bound(hits: int, other_hits: int, n: int, delta: float, rate: float) -> float:
    """Give a lower bound of ln((P − δ)/P') that is wrong with probability at most twice the rate.

    Parameters
    ----------
    hits, other_hits : int
        How often the event happened in n runs on each input.
    n : int
        Runs.
    delta : float
        δ in [0, 1).
    rate : float
        Error rate of each Clopper-Pearson bound.

    Returns
    -------
    float
        −∞ if P is not certain to exceed δ.

    Examples
    --------
    >>> from dpcore.audit.lower_bound import loss_bound
    >>> round(loss_bound(600, 100, 1000, 0.0, 0.01), 2)
    1.51
    """
    excess = least_probability(hits, n, rate) - delta
    return math.log(excess / greatest_probability(other_hits, n, rate)) if excess > 0 else -math.inf
