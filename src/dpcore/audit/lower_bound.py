"""Audits: lower bounds of the privacy loss of a mechanism, from its outputs alone. docs/auditing.md."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcore._dataclasses import dataclass
from dpcore._proportions import greatest_probability, least_probability
from dpcore._validation import check_integer, check_real
from dpcore.audit._events import Candidate, Feature, Partition, best_candidate, normal_quantile, steadier
from dpcore.audit._features import Event, make_features
from dpcore.audit._results import AuditEvent, AuditResult
from dpcore.audit._runs import Job, Runner, open_source, plain_outputs, substreams, takes
from dpcore.errors import ParameterTypeError
from dpcore.rng import Stream, resolve

if TYPE_CHECKING:
    import numpy.typing as npt

    from dpcore.privacy import Privacy

KEPT = 4
"""Largest number of events that the second half counts; they share the confidence."""
PILOT, PILOT_VALUES = 1 << 18, 1 << 22
"""Limits of the pilot that determines the cells: its runs on each input, and the numbers that it keeps in memory."""
LEAST_RUNS = 64


def audit(
    mechanism: Any,
    x0: Any,
    x1: Any,
    *,
    runs: int = 10**6,
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
        One of the following:

        - an object of `dpcore.mechanisms`, which runs on answers;
        - an object of `dpcore.local`, which runs on a single record, or on a vector of records if it is sequential;
        - a function `run(x, size, rng)` that returns the outputs of `size` independent runs on x: an array of numbers or records whose
          first axis has this length. `repeat` makes one from a function of x and a stream;
        - a function of x alone that makes one run that draws its own randomness, as `lambda x: noise.laplace(x, 1.0)`. Python calls it
          2·runs times, so choose fewer runs;
        - any object with a method `privatize(x, *, rng, threads)` or `release(values, *, rng, threads)`.
    x0, x1 : object
        Two neighbouring inputs.
    runs : int, default 10^6
        Number of runs on each input, ≥ 64. Half of them choose the events, half count them.
    confidence : float, default 0.95
        Probability with which the bound is correct, in (0, 1).
    delta : float, optional
        Failure mass δ in [0, 1); by default that of the claim, or 0 without a claim.
    privacy : Privacy, optional
        The claim; by default `mechanism.privacy`. With the default, the inputs must be within the sensitivity of a noise mechanism.
    events : sequence, optional
        Where to search: "values", which are thresholds and sets of outputs; "low_bits", the low bits of floats and integers; and functions
        that take outputs and return a bool (an event) or a number (a statistic) for each run. Default: ("values", "low_bits"). Outputs of
        more than 32 numbers need a function, unless they are noisy answers of the inputs' shape.
    progress : callable, optional
        Called as progress(done, total) after each block of runs, possibly on another thread.
    rng : Stream, optional
        None is the secure source. With a keyed stream, the result is the same on any number of threads.
    threads : int, optional
        Number of threads. By default functions and foreign objects run on one thread, because they may not be thread-safe, and other
        mechanisms on min(CPU affinity, cgroup quota, DPCORE_NUM_THREADS).

    Returns
    -------
    AuditResult
        The bound, the event that proves it, and whether the claim is refuted; `print` shows them in words.

    Raises
    ------
    ParameterError, ParameterTypeError
        If an argument does not fit, or the outputs are not numbers or change their shape.
    DpcoreError
        Any error of the mechanism.

    Notes
    -----
    (ε, δ)-privacy implies P(M(x0) ∈ S) ≤ e^ε P(M(x1) ∈ S) + δ for every event S, and the same with x0 and x1 exchanged. So
    ε ≥ ln((P(S) − δ)/P'(S)) for each S. The first half of the runs chooses up to m = 4 events: one quarter determines cells and orders them
    by their likelihood ratio, another quarter judges unions of cells, by what they would prove in the runs that count. The second half
    counts the chosen events. P(S) is replaced by its lower and P'(S) by its upper Clopper-Pearson bound, each at the error rate
    (1 − confidence)/2m.

    Guarantee: P(epsilon_lower > ε) ≤ 1 − confidence for a mechanism that is (ε, δ)-private on x0 and x1, if the runs are independent. So a
    true claim is refuted with at most this probability. The bound concerns these two inputs and the counted events only: an audit can
    refute a claim and cannot prove one. The result itself is not private, which matters only if x0 and x1 are not invented.

    Cost: about 0.1 µs a run in addition to the mechanism, which makes 20 s of one core for 10^8 runs of Laplace noise on each input. Memory
    does not grow with the number of runs.

    Source: Ding et al. (2018); Bichsel et al. (2021); for low bits Mironov (2012); Mechanisms as experiments (2014), Theorem 2.

    Examples
    --------
    This mechanism draws half the noise that its claim needs:

    >>> from dpcore import Privacy, mechanisms
    >>> from dpcore.audit import audit
    >>> from dpcore.testing import KeyedRandom
    >>> broken = mechanisms.Laplace(epsilon=1.0, sensitivity=0.5)
    >>> found = audit(broken, 0.0, 1.0, privacy=Privacy(1.0), runs=200_000, rng=KeyedRandom(bytes(32)))
    >>> found.refuted, found.epsilon_lower > 1.9
    (True, True)
    >>> audit(mechanisms.Laplace(1.0, 1.0), 0.0, 1.0, runs=200_000, rng=KeyedRandom(bytes(32))).refuted
    False
    """
    runs = check_integer("runs", runs, low=LEAST_RUNS)
    confidence = check_real("confidence", confidence, low=0.0, high=1.0, include_low=False, include_high=False)
    source = open_source(mechanism, x0, x1, privacy, rng)
    if delta is None:
        delta = 0.0 if source.privacy is None else source.privacy.delta
    delta = check_real("delta", delta, low=0.0, high=1.0, include_high=False)
    if threads is not None:
        threads = check_integer("threads", threads, low=1, high=4096)
    if progress is not None and not callable(progress):
        raise ParameterTypeError(f"progress must be a function progress(done, total) or None, got {type(progress).__name__}")
    runner = Runner(source, substreams(resolve(rng)), threads, progress, 2 * runs)
    features = make_features(source, runner.probe(), events)
    counted = runs - runs // 2
    chosen = _choose(runner, features, runs // 2, counted, delta, confidence)
    counts = _count(runner, chosen, counted)
    claim = source.privacy.epsilon if source.privacy is not None and source.privacy.delta <= delta else None
    searched = tuple(dict.fromkeys(feature.where for feature in features))
    return _result(chosen, counts, Setting(runs, delta, confidence, claim, searched))


@dataclass(frozen=True, slots=True)
class Setting:
    """The parameters of an audit, and the places that it searched."""

    runs: int
    delta: float
    confidence: float
    claim: float | None
    searched: tuple[str, ...]


def repeat(release: Callable[[Any, Stream], Any]) -> Callable[[Any, int, Stream], npt.NDArray[Any]]:
    """Turn a function that makes one run into a function that makes several, for `audit`.

    Parameters
    ----------
    release : callable
        Takes an input and a stream of randomness, and returns a number or an array of a fixed shape. It must not keep state between calls.

    Returns
    -------
    callable
        `run(x, size, rng)`, which returns the outputs of `size` runs along the first axis.

    Raises
    ------
    ParameterTypeError
        If `release` is not a function of two arguments.

    Notes
    -----
    Cost: one Python call for each run. A function that makes `size` runs with array operations is faster.

    Examples
    --------
    >>> from dpcore import Privacy, selection
    >>> from dpcore.audit import audit, repeat
    >>> def winner(scores, rng):
    ...     return selection.noisy_argmax(scores, epsilon=1.0, sensitivity=1.0, rng=rng)
    >>> audit(repeat(winner), [0.0, 2.0], [1.0, 1.0], privacy=Privacy(1.0), runs=2_000, confidence=1 - 1e-6).refuted
    False
    """
    given: object = release
    if not callable(given) or not takes(given, 2):
        got = getattr(given, "__name__", type(given).__name__)
        raise ParameterTypeError(
            f"release must be a function of an input and a stream, as lambda x, rng: ..., got {got}; pass a function of x alone to audit "
            "without repeat"
        )

    def run(x: Any, size: int, rng: Stream) -> npt.NDArray[Any]:
        return plain_outputs([release(x, rng) for _ in range(size)])

    return run


# The first half of the runs chooses events


def _choose(runner: Runner, features: list[Feature], runs: int, counted: int, delta: float, confidence: float) -> list[Candidate]:
    """Return the events with the best scores, and the steadiest one of plain values.

    A score is what an event should prove in `counted` runs. Of plain values there are two choices: by the discount that counting will
    make, which finds rare events that the smaller samples here cannot prove, and by a larger one, which chance does not mislead.
    """
    pilot = min(runs, PILOT, max(LEAST_RUNS, PILOT_VALUES // (2 * len(features))))
    jobs = runner.jobs(pilot)
    held = _hold(runner, features, jobs)
    partitions = [Partition.of(np.concatenate([held[job.number][i] for job in jobs]), feature.points) for i, feature in enumerate(features)]
    tables = [np.zeros((2, 2, partition.cells), np.int64) for partition in partitions]
    for job in jobs:
        for table, partition, values in zip(tables, partitions, held.pop(job.number), strict=True):
            _tabulate(table[:, job.which], partition, values)
    _tally(runner, features, partitions, tables, runner.jobs(runs - pilot))

    def best(quantile: float) -> list[Candidate]:
        each = zip(features, partitions, tables, strict=True)
        return _worthy([best_candidate(feature, cells, table[0], table[1], counted, delta, quantile) for feature, cells, table in each])

    quantile = normal_quantile(_rate(confidence, min(KEPT, len(features) + 1)))
    bold, steady = best(quantile), best(steadier(quantile))
    kept = [candidate for candidate in bold if candidate.score > 0][:KEPT]
    plain = [candidate for candidate in steady if candidate.score > 0 and not candidate.feature.margin][:1]
    if plain and not any(plain[0].same_as(candidate) for candidate in kept):
        kept[KEPT - 1 :] = plain
    return kept or bold[:1]


def _worthy(candidates: list[Candidate]) -> list[Candidate]:
    """Sort candidates, without those that are harder to understand than a plain one and not better by a margin."""
    plainest = max((candidate.score for candidate in candidates if not candidate.feature.margin), default=-math.inf)
    worthy = [each for each in candidates if not each.feature.margin or each.score > plainest + each.feature.margin]
    return sorted(worthy, key=lambda candidate: -candidate.score)


def _hold(runner: Runner, features: list[Feature], jobs: list[Job]) -> dict[int, list[npt.NDArray[Any]]]:
    """Return the features of blocks."""
    held: dict[int, list[npt.NDArray[Any]]] = {}

    def work(job: Job, outputs: npt.NDArray[Any]) -> None:
        held[job.number] = [feature.values(outputs) for feature in features]

    runner.each(jobs, work)
    return held


def _tabulate(table: npt.NDArray[np.int64], partition: Partition, values: npt.NDArray[Any]) -> None:
    """Add values to the counts of the cells: the first half of a block to one sample, the second half to the other."""
    codes, half = partition.codes(values), len(values) // 2
    for sample, part in enumerate((codes[:half], codes[half:])):
        table[sample] += np.bincount(part, minlength=partition.cells)


def _tally(
    runner: Runner, features: list[Feature], partitions: list[Partition], tables: list[npt.NDArray[np.int64]], jobs: list[Job]
) -> None:
    """Add the blocks of jobs to the tables."""
    lock = threading.Lock()

    def work(job: Job, outputs: npt.NDArray[Any]) -> None:
        for feature, partition, table in zip(features, partitions, tables, strict=True):
            counts = np.zeros((2, partition.cells), np.int64)
            _tabulate(counts, partition, feature.values(outputs))
            with lock:
                table[:, job.which] += counts

    runner.each(jobs, work)


# The second half counts them


def _count(runner: Runner, chosen: list[Candidate], runs: int) -> npt.NDArray[np.int64]:
    """Return how often each event occurs under x0 and x1, shape (events, 2)."""
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


def _result(chosen: list[Candidate], counts: npt.NDArray[np.int64], setting: Setting) -> AuditResult:
    counted, rate = setting.runs - setting.runs // 2, _rate(setting.confidence, len(chosen))
    found = []
    for event, (first, second) in zip(chosen, counts.tolist(), strict=True):
        hits, others = (first, second) if event.likelier == 0 else (second, first)
        bound = max(0.0, loss_bound(hits, others, counted, setting.delta, rate))
        found.append(AuditEvent(event.feature.where, event.description, f"x{event.likelier}", (first, second), bound))
    best = max(range(len(found)), key=lambda i: found[i].epsilon_lower)
    places = tuple(
        max((each for each in found if each.where == where), key=lambda each: each.epsilon_lower)
        for where in setting.searched
        if any(each.where == where for each in found)
    )
    return AuditResult(
        epsilon_lower=found[best].epsilon_lower, epsilon_claimed=setting.claim, delta=setting.delta, event=found[best].event,
        likelier=found[best].likelier, counts=found[best].counts, counted=counted, runs=setting.runs, confidence=setting.confidence,
        places=places, searched=setting.searched, contains=chosen[best].contains,
    )  # fmt: skip


def loss_bound(hits: int, other_hits: int, n: int, delta: float, rate: float) -> float:
    """Return a lower bound of ln((P − δ)/P') that is wrong with probability at most twice the rate.

    Parameters
    ----------
    hits, other_hits : int
        Number of runs with the event, on the one input and on the other.
    n : int
        Number of runs on each input.
    delta : float
        Failure mass δ in [0, 1).
    rate : float
        Error rate of each Clopper-Pearson bound.

    Returns
    -------
    float
        The bound; −∞ if P does not exceed δ with certainty.

    Examples
    --------
    >>> from dpcore.audit.lower_bound import loss_bound
    >>> round(loss_bound(600, 100, 1000, 0.0, 0.01), 2)
    1.51
    """
    excess = least_probability(hits, n, rate) - delta
    return math.log(excess / greatest_probability(other_hits, n, rate)) if excess > 0 else -math.inf
