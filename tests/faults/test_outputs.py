"""A call that fails leaves in the caller's array, element by element, what was there or what is released; and no thread that writes."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dpcore import _backend, local, noise
from dpcore.errors import EntropyError
from support.kernels import EXACT, at_tier
from support.outputs import (
    REALS,
    WHOLE,
    Array,
    Case,
    Lines,
    cases,
    check_nobody_writes,
    check_past_or_released,
    functions_with_out,
    threads_that_fail,
)

CASES = cases()
every_case = pytest.mark.parametrize("name", CASES)


def test_no_function_with_an_output_is_without_a_case() -> None:
    for extra in ("pyarrow", "duckdb", "matplotlib"):
        pytest.importorskip(extra)  # every module of the package is imported
    assert {name.split(" ")[0] for name in CASES} == functions_with_out()


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranges so small that a few records make many."""
    monkeypatch.setattr(_backend.threads, "CHUNK", 8)
    monkeypatch.setattr(_backend.threads, "SMALL", 1)


class NoEntropy:
    """A source that fails like the system's."""

    secure = True

    def position(self) -> Any:
        """Fail."""
        raise EntropyError("the operating system's random source failed: test")


@every_case
def test_without_entropy_nothing_is_written(name: str) -> None:
    case, out = CASES[name], CASES[name].fresh()
    with pytest.raises(EntropyError):
        case.call(out, rng=NoEntropy(), threads=2)
    assert out.tobytes() == case.fresh().tobytes()


@every_case
@pytest.mark.parametrize("after", [0, 1])
@pytest.mark.usefixtures("small_chunks")
def test_threads_that_do_not_start_are_done_without(name: str, after: int) -> None:
    case, out = CASES[name], CASES[name].fresh()
    with threads_that_fail(after):
        case.call(out, threads=4)
    check_nobody_writes(out)
    assert out.tobytes() == case.released().tobytes()


def interrupted(case: Case, error: type[BaseException], at: int, out: Array) -> bool:
    """Run the call with an error before one of its lines; whether it came to that."""
    try:
        with Lines(error, at):
            case.call(out)
    except error:
        return True
    return False


def check_interruptions(case: Case, error: type[BaseException], points: int) -> None:
    """Errors before lines all along the call, at its ends and in between."""
    released = case.released()
    with Lines() as lines:
        case.call(case.fresh())
    assert lines.seen > 10
    raised, moments = 0, sorted({round(i) for i in np.linspace(0, lines.seen - 1, points)})
    for at in moments:
        out = case.fresh()
        raised += interrupted(case, error, at, out)
        check_past_or_released(out, case.fresh(), released)
    assert raised > len(moments) / 2


@every_case
@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
@pytest.mark.usefixtures("small_chunks")
def test_an_error_before_any_line_of_a_call(name: str, error: type[BaseException]) -> None:
    check_interruptions(CASES[name], error, 12)


@every_case
def test_an_error_before_any_line_of_a_short_call(name: str) -> None:
    check_interruptions(CASES[name], KeyboardInterrupt, 40)


@every_case
@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
@pytest.mark.usefixtures("small_chunks")
@pytest.mark.long
def test_an_error_before_every_line_of_a_call(name: str, error: type[BaseException]) -> None:
    check_interruptions(CASES[name], error, 1000)


BIG = {
    "noise.laplace": Case(noise.laplace, np.tile(REALS, 200), np.float64, options={"scale": 2.0}),
    "noise.discrete_gaussian": Case(noise.discrete_gaussian, np.tile(WHOLE, 200), np.int64, options={"scale": 2.0}),
    "LocalLaplace.privatize": Case(local.LocalLaplace(1.0, 0.0, 10.0).privatize, np.tile(REALS, 200), np.float64),
    "KaryResponse.privatize": Case(local.KaryResponse(1.0, k=10).privatize, np.tile(WHOLE % 10, 400), np.int64),
}


def call_until_fired(timer: threading.Timer, call: Callable[[], None], fired: list[int]) -> None:
    """The call, and the wait for a signal that comes after it."""
    timer.start()
    call()
    while not fired:
        time.sleep(0.001)


def check_signals(case: Case, rounds: int, threads: int) -> None:
    """Interrupts from another thread at any moment of calls on several threads."""
    released, main, fired = case.released(), threading.main_thread().ident, list[int]()

    def interrupt(*_: object) -> None:
        fired.append(1)
        raise KeyboardInterrupt

    usual = signal.signal(signal.SIGINT, interrupt)
    try:
        for delay in np.random.default_rng(rounds).uniform(0.0, 0.02, rounds).tolist():
            out, past = case.fresh(), case.fresh()
            fired.clear()
            timer = threading.Timer(delay, signal.pthread_kill, (main, signal.SIGINT))
            with pytest.raises(KeyboardInterrupt):
                call_until_fired(timer, lambda out=out: case.call(out, threads=threads), fired)
            check_nobody_writes(out)
            check_past_or_released(out, past, released)
    finally:
        signal.signal(signal.SIGINT, usual)


@pytest.mark.some(2)
@pytest.mark.parametrize("name", BIG)
def test_an_interrupt_at_any_moment(name: str) -> None:
    check_signals(BIG[name], 4, 3)


@pytest.mark.parametrize("name", BIG)
@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.long
def test_many_interrupts_at_any_moment(name: str, threads: int) -> None:
    check_signals(BIG[name], 60, threads)


def failing_after(calls: int, original: Callable[..., Any]) -> Callable[..., Any]:
    """The original for so many calls, then an error."""
    lock, done = threading.Lock(), [0]

    def limited(*args: Any, **options: Any) -> Any:
        with lock:
            done[0] += 1
            if done[0] > calls:
                raise ZeroDivisionError("the exact tier fails")
        return original(*args, **options)

    return limited


# What decides a sample that the kernels leave open, for each kind of function that leaves any.
EXACT_TIERS = {
    **dict.fromkeys(("noise.laplace", "noise.laplace of integers", "noise.gaussian", "LocalLaplace.privatize"), ("noise", "_exact_real")),
    **dict.fromkeys(("LocalGaussian.privatize", "LocalLaplace.privatize of missing", "Laplace.release"), ("noise", "_exact_real")),
    **dict.fromkeys(("noise.discrete_laplace", "noise.discrete_gaussian", "LocalDiscreteLaplace.privatize"), ("noise", "_exact_integer")),
    **dict.fromkeys(("LocalDiscreteGaussian.privatize", "DiscreteLaplace.release"), ("noise", "_exact_integer")),
    "BoundedMean.privatize": ("response", "is_below"),
    **dict.fromkeys(("VectorMean.privatize", "VectorMean.privatize of signs"), ("vectors", "is_below")),
}


def few(case: Case, n: int = 60) -> Case:
    """The same call for its first records."""
    return Case(case.function, case.records[:n], case.dtype, case.shape and (n, *case.shape[1:]), case.options)


@pytest.mark.parametrize("name", EXACT_TIERS)
@pytest.mark.parametrize("calls", [0, 7, 40])
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.usefixtures("small_chunks")
def test_an_exact_tier_that_fails(name: str, calls: int, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    case = few(CASES[name])
    released, out = case.released(), case.fresh()
    module, function = EXACT_TIERS[name]
    monkeypatch.setattr(getattr(_backend, module), function, failing_after(calls, getattr(getattr(_backend, module), function)))
    with at_tier(EXACT), pytest.raises(ZeroDivisionError):
        case.call(out, threads=threads)
    check_nobody_writes(out)
    check_past_or_released(out, case.fresh(), released)


@pytest.mark.parametrize("name", ["LocalLaplace.privatize", "LocalGaussian.privatize"])
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.usefixtures("small_chunks")
def test_an_exact_tier_that_fails_where_records_are_replaced(name: str, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    case, records = few(CASES[name]), REALS[:60].copy()
    released = case.released()
    monkeypatch.setattr(_backend.noise, "_exact_real", failing_after(20, _backend.noise._exact_real))
    in_place = Case(case.function, records, case.dtype)
    with at_tier(EXACT), pytest.raises(ZeroDivisionError):
        in_place.call(records, threads=threads)
    check_past_or_released(records, REALS[:60], released)


# The harness finds what it is for.


def clamped_first(x: Array, *, out: Array, **options: Any) -> None:
    """Noise on clamped numbers as it was once made: the records lie in the output before the noise comes."""
    np.clip(x, 0.0, 10.0, out=out)
    noise.laplace(out, 10.0, out=out, **options)


@pytest.mark.usefixtures("small_chunks")
def test_records_in_an_output_are_found() -> None:
    case = Case(clamped_first, REALS, np.float64)
    with pytest.raises(AssertionError, match="released is"):
        check_interruptions(case, KeyboardInterrupt, 12)


@pytest.mark.usefixtures("small_chunks")
def test_pending_samples_in_an_output_are_found() -> None:
    def pending_first(x: Array, *, out: Array, **options: Any) -> None:
        out[:] = x
        noise.discrete_laplace(x, 2.0, out=out, **options)

    with pytest.raises(AssertionError, match="released is"):
        check_interruptions(Case(pending_first, WHOLE, np.int64), MemoryError, 12)


def leaving_threads(work: Callable[[int, int], None], size: int, threads: int | None, **_: object) -> None:
    """Ranges as they were once handed out: whoever cannot start a thread leaves those that run."""
    starts = iter(range(0, size, 8))
    lock = threading.Lock()

    def drain() -> None:
        while True:
            with lock:
                start = next(starts, None)
            if start is None:
                return
            while pool._jobs.qsize() == 0:  # until somebody waits for the threads, which is after the call
                time.sleep(0.001)
            work(start, min(start + 8, size))

    pool = _backend.threads._pool
    pool.start(drain, 3)
    if pool._workers < 3:
        raise RuntimeError("can't start new thread")


@pytest.mark.usefixtures("small_chunks")
def test_a_thread_that_goes_on_writing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_backend.noise, "for_ranges", leaving_threads)
    monkeypatch.setattr(_backend.noise, "_check_values", lambda *_: None)
    case = CASES["noise.laplace"]
    out = case.fresh()
    with threads_that_fail(1), pytest.raises(RuntimeError, match="can't start"):
        case.call(out, threads=4)
    with pytest.raises(AssertionError, match="written after"):
        check_nobody_writes(out)
