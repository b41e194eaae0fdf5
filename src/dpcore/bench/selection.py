"""Selections beside their peers, a plain argmax, and the kernel that evaluates every score, on easy and hard scores."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from dpcore import _backend, selection
from dpcore._dataclasses import dataclass
from dpcore.bench._peers.selection import DELTA, EPSILON, PEERS, SENSITIVITY, SelectionPeer
from dpcore.bench.benchmark import Benchmark, Plan, Side, Work
from dpcore.bench.scaling import thread_benchmark, thread_counts
from dpcore.rng import SecureRandom

Array = npt.NDArray[Any]
SHAPES = ("near-tied", "tied", "ascending", "descending", "separated")
"""Uniform over one noise scale; no spread; 1,000 scales in order, up and down; 100 scales between neighbours, in random order."""
SHAPED = ("top_s gumbel, s=100", "top_s peeling, s=100", "noisy_argmax laplace", "permute_and_flip")
"""Cases that run on all shapes."""

FEW_SCORES = 10**5
"""Scores that stay in the cache."""


@dataclass(frozen=True)
class SelectionCase:
    """One way of choosing.

    Attributes
    ----------
    name : str
        How the report calls it, without the number of scores.
    choose : callable
        From scores and `threads` to an index or an array of them.
    share : float
        Number of scores ÷ number of values of the whole report.
    s : int
        How many are chosen.
    scale : float
        Of the noise.
    """

    name: str
    choose: Callable[..., Any]
    share: float
    s: int
    scale: float

    def size(self, n: int) -> int:
        """Number of scores in a report of n values."""
        return max(self.s, round(n * self.share))

    def label(self, d: int) -> str:
        """The name with the number of scores."""
        return f"{self.name}, d={d:,}"

    def scores(self, d: int, shape: str = "near-tied") -> Array:
        """Made-up scores, the same on every run; `shape` is one of `SHAPES`."""
        rng = np.random.default_rng(1)
        if shape == "near-tied":
            return rng.random(d) * self.scale
        if shape == "tied":
            return np.zeros(d)
        if shape == "separated":
            return rng.permutation(d) * (100.0 * self.scale)
        ascending = np.linspace(0.0, 1000.0 * self.scale, d)
        return ascending if shape == "ascending" else np.ascontiguousarray(ascending[::-1])

    def work(self, scores: Array, threads: int = 1) -> Work:
        """Choose, by the secure source."""
        return partial(self.choose, scores, threads=threads)


def _top(method: str, delta: float, s: int = 100) -> Callable[..., Any]:
    def choose(scores: Array, threads: int) -> Any:
        return selection.top_s(scores, EPSILON, SENSITIVITY, s=s, delta=delta, method=method, threads=threads).indices  # type: ignore[arg-type]

    return choose


def _one(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    def choose(scores: Array, threads: int) -> Any:
        return function(scores, EPSILON, SENSITIVITY, threads=threads, **options)

    return choose


def selection_cases() -> tuple[SelectionCase, ...]:
    """Everything the speed table of the selection names."""
    gumbel = selection.top_s(np.zeros(100), EPSILON, SENSITIVITY, s=100).scale
    peeling = selection.top_s(np.zeros(100), EPSILON, SENSITIVITY, s=100, delta=DELTA, method="peeling").scale
    one = 2 * SENSITIVITY / EPSILON
    return (
        SelectionCase("top_s gumbel, s=100", _top("gumbel", 0.0), 0.1, 100, gumbel),
        SelectionCase("top_s peeling, s=100", _top("peeling", DELTA), 0.1, 100, peeling),
        SelectionCase("noisy_argmax laplace", _one(selection.noisy_argmax), 1, 1, one),
        SelectionCase("noisy_argmax gumbel", _one(selection.noisy_argmax, noise="gumbel"), 1, 1, one),
        SelectionCase("exponential_mechanism", _one(selection.exponential_mechanism), 0.1, 1, one),
        SelectionCase("permute_and_flip", _one(selection.permute_and_flip), 0.1, 1, one),
    )


def check_choice(case: SelectionCase, choose: Callable[[Array], Any], d: int) -> None:
    """Raise if a choice is wrong: a benchmark of a wrong answer is worth nothing.

    Scores far apart leave no doubt; of equal scores any may be chosen, so the mean index is near the middle. Other sizes than those timed
    will do, at least 1,000.
    """
    separated = case.scores(d, "separated")
    chosen, best = np.atleast_1d(choose(separated)), np.argsort(-separated)[: case.s]
    if not np.array_equal(np.sort(chosen), np.sort(best)):
        raise AssertionError(f"{case.name}: scores far apart, and other than the largest were chosen")
    draws = [np.atleast_1d(choose(np.zeros(d))) for _ in range(max(1, 25 // case.s))]
    if any(len(set(draw.tolist())) != case.s for draw in draws):
        raise AssertionError(f"{case.name}: {case.s} different indices were expected")
    picks = np.concatenate(draws)
    off = abs(float(picks.mean()) - (d - 1) / 2) / (d / np.sqrt(12 * picks.size))
    if not off < 7:
        raise AssertionError(f"{case.name}: equal scores, and the mean index is {off:.1f} standard errors off the middle")


def check_ours(case: SelectionCase) -> None:
    """Raise if our own choice is wrong."""
    check_choice(case, partial(case.choose, threads=1), 2000)


@contextmanager
def unpruned() -> Iterator[None]:
    """Evaluate the noise of every score."""
    before = _backend.Testing.unpruned
    _backend.Testing.unpruned = True
    try:
        yield
    finally:
        _backend.Testing.unpruned = before


def _peer(case: SelectionCase, peer: SelectionPeer, d: int) -> Side:
    """A peer as a side. Its check draws other scores, since those timed leave too much open."""
    few = max(1000, round(d * peer.share))

    def scores(made: tuple[Array]) -> Array:
        return made[0] if few == d and peer.shape == "near-tied" else case.scores(few, peer.shape)

    return Side(
        name=peer.name, package=peer.package, safe=peer.safe, size=None if few == d else few,
        prepare=lambda made: peer.prepare(case, scores(made)),
        check=lambda _made, _result: check_choice(case, lambda other: peer.prepare(case, other)(), 1000),
    )  # fmt: skip


def _choosing(case: SelectionCase, d: int) -> Benchmark:
    peers = tuple(_peer(case, peer, d) for peer in PEERS if peer.ours == case.name)
    argmax = Side(name="argmax, no noise", prepare=lambda made: made[0].argmax, kind="bound", judges=True)
    return Benchmark(
        group="selection", name=case.name, size=d, unit="score", inputs=lambda: (case.scores(d),), levels=True,
        ours=lambda made: case.work(made[0]), check=lambda _made, _result: check_ours(case), sides=(*peers, argmax),
    )  # fmt: skip


def _every_score(case: SelectionCase) -> Callable[[tuple[Array]], Work]:
    def prepare(made: tuple[Array]) -> Work:
        work = case.work(made[0])

        def every() -> None:
            with unpruned():
                work()

        return every

    return prepare


def _shaped(case: SelectionCase, shape: str, d: int) -> Benchmark:
    """Scores of a shape, beside the kernel that evaluates every one of them."""
    return Benchmark(
        group="selection", name=f"{case.name}, {shape}", size=d, unit="score", inputs=lambda: (case.scores(d, shape),), quick=False,
        ours=lambda made: case.work(made[0]), check=lambda _made, _result: check_ours(case),
        sides=(Side(name="itself, every score evaluated", prepare=_every_score(case), kind="itself"),),
    )  # fmt: skip


def _partitions(d: int) -> Benchmark:
    """Decisions about partitions, whose numbers of units are around those that matter, beside the random words that they take."""

    def check(_made: tuple[Array], released: Array) -> None:
        if not (released[0] < released[1:].mean() < 1 and len(released) == d):
            raise AssertionError("select_partitions: keys of no unit must not be released, and others must")

    def words(_made: tuple[Array]) -> Work:
        return lambda: _backend.uniform_words(SecureRandom().position(), d)

    return Benchmark(
        group="selection", name="select_partitions", size=d, unit="partition", inputs=lambda: (np.arange(d) % 40,), levels=True,
        check=check, ours=lambda made: partial(selection.select_partitions, made[0], EPSILON, DELTA, threads=1),
        sides=(Side(name="64 random bits a partition", prepare=words, kind="bound", judges=True),),
    )  # fmt: skip


def selection_benchmarks(plan: Plan) -> Iterator[Benchmark]:
    """All ways of choosing.

    Parameters
    ----------
    plan : Plan
        How much is measured.
    """
    for case in selection_cases():
        yield _choosing(case, case.size(plan.size))
        if case.name.startswith("noisy_argmax") and plan.size > FEW_SCORES:
            yield _choosing(case, FEW_SCORES)
        for shape in SHAPES if case.name in SHAPED else ():
            yield _shaped(case, shape, case.size(plan.size // 10))
    yield _partitions(plan.size)


def selection_thread_benchmarks(plan: Plan) -> Iterator[Benchmark]:
    """Choosing on several threads, beside one; a million scores are one piece of work, so that fewer gain nothing.

    Parameters
    ----------
    plan : Plan
        How much is measured.
    """
    size = plan.threaded or plan.size
    for case in selection_cases():
        for threads in thread_counts(plan.cores):
            yield thread_benchmark(
                case.name, size, threads, partial(_scores, case, size), partial(_choosing_on, case),
                partial(_check_any, case), bound_by="compute", unit="score", quick=case.name.startswith("top_s peeling"),
            )  # fmt: skip


def _scores(case: SelectionCase, d: int) -> tuple[Array]:
    return (case.scores(d),)


def _choosing_on(case: SelectionCase, threads: int) -> Callable[[tuple[Array]], Work]:
    return lambda made: case.work(made[0], threads)


def _check_any(case: SelectionCase, _made: object, _result: object) -> None:
    check_ours(case)
