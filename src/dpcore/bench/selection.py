"""Timed cases of the selection, and rows that need no peer: the unpruned kernel on easy and hard scores, threads, a plain argmax."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from dpcore import _backend, selection
from dpcore.bench.noise import at_levels
from dpcore.bench.table import Row
from dpcore.bench.timing import Timing, Work, take_turns

Array = npt.NDArray[Any]
EPSILON, DELTA, SENSITIVITY = 1.0, 1e-6, 1.0
SHAPES = ("near-tied", "tied", "ascending", "descending", "separated")
"""Uniform over one noise scale; no spread; 1,000 scales in order, up and down; 100 scales between neighbours, in random order."""
SLOWEST = 3.0
"""Our time on any of them stays below this many times that of the kernel that evaluates every score."""
TIMED, MILLISECONDS = 10**6, 1.5
"""Largest time of `top_s` with s = 100 among so many scores."""


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


def _row(case: SelectionCase, against: str, level: str, threads: int, timing: Timing, d: int, **more: Any) -> Row:
    """A row of a timing over d scores; where smaller is better, the ratio is ours ÷ the bound."""
    ns, ratio = 1e9 / d, 1 / timing.ratio if more.get("bound") else timing.ratio
    label = more.pop("label", None) or case.label(d)
    return Row(label, against, level, threads, timing.ours * ns, timing.other * ns, ratio, **more)


def peer_timing_row(
    case: SelectionCase, against: str, level: str, scores: Array, work: Work, *, rounds: int, repeats: int = 1, **more: Any
) -> Row:
    """Ours against a peer's work on the same scores, one thread each; ours `repeats` times a turn where the peer takes much longer."""
    ours = case.work(scores)
    timing = take_turns(lambda: [ours() for _ in range(repeats)], work, rounds)
    check_ours(case)
    each = Timing(timing.ours / repeats, timing.other, timing.ratio * repeats)
    return _row(case, against, level, 1, each, scores.size, **more)


def unpruned_row(case: SelectionCase, shape: str, level: str, d: int, rounds: int) -> Row:
    """Ours on scores of a shape against the kernel that evaluates every one of them."""
    work = case.work(case.scores(d, shape))

    def every() -> None:
        with unpruned():
            work()

    timing = take_turns(work, every, rounds)
    label = f"{case.label(d)}, {shape}"
    return _row(case, "its unpruned kernel", level, 1, timing, d, target=SLOWEST, bound=True, label=label)


def argmax_row(case: SelectionCase, level: str, d: int, rounds: int) -> Row:
    """Ours against NumPy's argmax of the scores alone."""
    scores = case.scores(d)
    return _row(case, "NumPy argmax, no noise", level, 1, take_turns(case.work(scores), scores.argmax, rounds), d, bound=True)


def time_row(case: SelectionCase, level: str, d: int, rounds: int) -> Row:
    """Ours against the time that the table of `top_s` allows."""
    work = case.work(case.scores(d))
    ours = take_turns(work, work, rounds).ours
    allowed = MILLISECONDS * 1e-3
    timing = Timing(ours, allowed, allowed / ours)
    return _row(case, f"{MILLISECONDS:g} ms a call", level, 1, timing, d, target=None if level == "baseline" else 1.0, bound=True)


def thread_row(case: SelectionCase, level: str, threads: int, d: int, rounds: int) -> Row:
    """One thread against all; a million scores are one piece of work, so that fewer gain nothing."""
    scores = case.scores(d)
    timing = take_turns(case.work(scores, threads), case.work(scores), rounds)
    return _row(case, "itself on one thread", level, threads, timing, d, target=0.85 * min(4, threads))


def selection_bounds(n: int, rounds: int) -> list[Row]:
    """The rows that need no peer, at every level of this machine."""
    rows, threads = [], _backend.default_threads()
    for level in at_levels():
        for case in selection_cases():
            d = case.size(n)
            check_ours(case)
            rows.append(argmax_row(case, level, d, rounds))
            if threads > 1:
                rows.append(thread_row(case, level, threads, max(n, d), rounds))
        top, peeling, argmax = selection_cases()[:3]
        if top.size(n) == TIMED:
            rows.append(time_row(top, level, TIMED, rounds))
        for shape in SHAPES:
            rows.extend(unpruned_row(case, shape, level, case.size(n), rounds) for case in (top, argmax))
            rows.append(unpruned_row(peeling, shape, level, peeling.size(n // 10), min(rounds, 3)))
    return rows
