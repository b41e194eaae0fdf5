"""Streams in forked children, threads, copies and pickles never repeat; the caller's floating-point environment changes nothing."""

from __future__ import annotations

import copy
import ctypes
import os
import pickle
import platform
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import dpcore
from dpcore import _backend, local, noise
from dpcore.errors import ParameterError, ParameterTypeError
from dpcore.testing import KeyedRandom
from support.environments import MXCSR_AT, X86_ROUNDING, environment, flush_subnormals, libm, on_x86_linux, rounding
from support.kernels import KEY, LAWS, LEVELS, Array, Law, at_level, same_bits

CHILDREN = THREADS = 8
SIZE = 3 * _backend.threads.CHUNK  # enough for the pool of threads
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform has no fork")


def secure_draws(rng: dpcore.SecureRandom | None = None) -> list[float]:
    """Numbers of 25 random bits at least, from a scalar, an array and an array for the pool."""
    large = noise.gaussian(np.zeros(SIZE), 1.0, rng=rng, threads=4)
    return [noise.laplace(0.0, 1.0, rng=rng), *noise.laplace(np.zeros(50), 1.0, rng=rng).tolist(), *large[:: SIZE // 50].tolist()]


def all_distinct(streams: list[list[float]]) -> bool:
    """Whether no stream is another one, also not shifted: two equal numbers at 2^-25 resolution happen, ten in common do not."""
    return all(len(set(a) & set(b)) < 10 for i, a in enumerate(streams) for b in streams[:i])


def test_the_comparison_of_streams_finds_a_repeated_one() -> None:
    one, two = secure_draws(), secure_draws()
    assert all_distinct([one, two])
    assert not all_distinct([one, two, one])
    assert not all_distinct([one, two, [*two[20:], *one[:3]]])


# Processes


def start_child(task: Callable[[], object]) -> tuple[int, int]:
    """Fork a child that pickles the task's result into a pipe; multiprocessing cannot be used from several threads."""
    reader, writer = os.pipe()
    child = os.fork()
    if child:
        os.close(writer)
        return child, reader
    try:
        with os.fdopen(writer, "wb") as pipe:
            pickle.dump(task(), pipe)
        os._exit(0)
    finally:
        os._exit(1)


def in_children(task: Callable[[], object], n: int = CHILDREN) -> list[object]:
    """What the task returns in each of n children that run at the same time."""
    children = [start_child(task) for _ in range(n)]
    results = []
    for child, reader in children:
        with os.fdopen(reader, "rb") as pipe:
            data = pipe.read()
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        results.append(pickle.loads(data))
    return results


@needs_fork
def test_forked_children_draw_distinct_streams() -> None:
    rng = dpcore.SecureRandom()
    before = secure_draws(rng)  # the pool of threads exists now, and every lazily made object
    streams = in_children(lambda: secure_draws(rng))
    assert all_distinct([before, *streams, secure_draws(rng)])


@needs_fork
def test_children_forked_from_several_threads_have_a_working_pool() -> None:
    secure_draws()
    with ThreadPoolExecutor(4) as executor:
        streams = list(executor.map(lambda _: in_children(secure_draws, 2), range(4)))
    assert all_distinct([stream for some in streams for stream in some])


@needs_fork
def test_a_child_gives_the_answer_of_its_parent() -> None:
    expected = [law.draw(SIZE, threads=4).tobytes() for law in LAWS]
    for child in in_children(lambda: [law.draw(SIZE, threads=4).tobytes() for law in LAWS], 2):
        assert child == expected


@needs_fork
def test_a_fork_while_the_pool_is_locked() -> None:
    with _backend.threads._pool._lock:  # as if another thread were starting workers at that moment
        streams = in_children(secure_draws, 2)
    assert all_distinct(streams)


# Threads


def test_threads_draw_distinct_streams() -> None:
    rng, barrier = dpcore.SecureRandom(), threading.Barrier(THREADS)

    def work(_: int) -> list[float]:
        barrier.wait(60)
        return secure_draws(rng)

    with ThreadPoolExecutor(THREADS) as executor:
        assert all_distinct(list(executor.map(work, range(THREADS))))


def test_threads_share_a_keyed_source_without_repeating_a_call() -> None:
    rng, barrier, calls = KeyedRandom(KEY), threading.Barrier(THREADS), 200

    def work(_: int) -> list[bytes]:
        barrier.wait(60)
        return [noise.laplace(np.zeros(8), 1.0, rng=rng).tobytes() for _ in range(calls)]

    switch = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(THREADS) as executor:
            seen = [result for some in executor.map(work, range(THREADS)) for result in some]
    finally:
        sys.setswitchinterval(switch)
    assert set(seen) == {Law("laplace", 1.0).draw(8, nonce=nonce).tobytes() for nonce in range(THREADS * calls)}
    assert len(seen) == len(set(seen))


def test_threads_in_the_pool_and_outside_do_not_disturb_one_another() -> None:
    expected = [law.draw(SIZE) for law in LAWS]
    with ThreadPoolExecutor(THREADS) as executor:
        for _ in range(3):
            results = list(executor.map(lambda law: law.draw(SIZE, threads=3), LAWS))
            assert all(same_bits(a, b) for a, b in zip(results, expected, strict=True))


# Copies


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda rng: pickle.loads(pickle.dumps(rng))])
def test_copies_of_the_secure_source_draw_distinct_streams(duplicate: Callable[[object], dpcore.SecureRandom]) -> None:
    rng = dpcore.SecureRandom()
    before = secure_draws(rng)
    copies = [duplicate(rng) for _ in range(8)]
    assert all_distinct([before, secure_draws(rng), *map(secure_draws, copies)])


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_keyed_source_refuses_to_be_copied(duplicate: Callable[[object], object]) -> None:
    """Two copies would use the same nonces for different calls."""
    with pytest.raises(TypeError, match="KeyedRandom is not copied or pickled"):
        duplicate(KeyedRandom(KEY))


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda rng: pickle.loads(pickle.dumps(rng))])
def test_a_fixed_position_is_the_same_after_copying(duplicate: Callable[[object], object]) -> None:
    rng = KeyedRandom(KEY).at(3, 1000)
    assert same_bits(noise.gaussian(np.zeros(10), 1.0, rng=duplicate(rng)), Law("gaussian", 1.0).draw(10, 1000, nonce=3))


class Still(dpcore.SecureRandom):
    """A source that claims to be the secure one, and stands still."""

    __slots__ = ()

    def position(self) -> dpcore.rng.StreamPosition:
        return dpcore.rng.StreamPosition(KEY)


def test_a_source_that_stands_still_gives_no_draw_of_a_call_the_words_of_another() -> None:
    channel = local.SequentialChannel(1.0, lambda _: local.LocalLaplace(1.0, 0.0, 1.0))
    assert len(set(channel.privatize([0.5] * 8, rng=Still()))) == 8


class Given:
    """A source that gives what it was given."""

    secure = False

    def __init__(self, position: object) -> None:
        self._position = position

    def position(self) -> Any:
        return self._position


@pytest.mark.parametrize(
    ("position", "error", "message"),
    [
        (None, ParameterTypeError, "positions of a key, a nonce and a first element, got NoneType"),
        ((KEY, 0), ParameterTypeError, "positions of a key"),
        (("x" * 32, 0, 0), ParameterTypeError, "a key of bytes, got str"),
        ((KEY[1:], 0, 0), ParameterError, "a key of 32 bytes, got 31"),
        ((KEY, -1, 0), ParameterError, "nonce of rng must be in"),
        ((KEY, 2**32, 0), ParameterError, "nonce of rng must be in"),
        ((KEY, 0.0, 0), ParameterTypeError, "nonce of rng must be an integer"),
        ((_backend.Key(KEY), 0, -1), ParameterError, "first element of rng must be in"),
        ((KEY, 0, 2**64), ParameterError, "first element of rng must be in"),
    ],
)
def test_positions_that_are_none_are_refused(position: object, error: type[Exception], message: str) -> None:
    draws: tuple[Callable[[Any], object], ...] = (
        lambda rng: noise.laplace(0.0, 1.0, rng=rng),
        lambda rng: noise.laplace(np.zeros(3), 1.0, rng=rng),
        lambda rng: local.UnaryEncoding(1.0, k=4).privatize([1, 2], rng=rng),
    )
    for draw in draws:
        with pytest.raises(error, match=message):
            draw(Given(position))


class Forged:
    """A source whose position says of `secure` what the source does not."""

    def __init__(self, *, secure: bool, position: bool) -> None:
        self.secure, self._position = secure, dpcore.rng.StreamPosition(KEY, 7, 300, position)

    def position(self) -> dpcore.rng.StreamPosition:
        return self._position


@pytest.mark.skipif(_backend.secure_cipher() != "aes256", reason="one cipher for all")
def test_the_stream_says_whether_it_is_secure_and_not_its_position() -> None:
    def drawn(*, secure: bool, position: bool) -> float:
        return noise.laplace(0.0, 1.0, rng=Forged(secure=secure, position=position))

    keyed = noise.laplace(0.0, 1.0, rng=KeyedRandom(KEY).at(7, 300))
    assert drawn(secure=False, position=True) == drawn(secure=False, position=False) == keyed
    assert drawn(secure=True, position=False) == drawn(secure=True, position=True) != keyed


def test_a_position_is_secure_only_if_it_says_so() -> None:
    assert dpcore.SecureRandom().position().secure is True
    assert dpcore.rng.StreamPosition(KEY).secure is False
    assert [rng.position().secure for rng in (KeyedRandom(KEY), KeyedRandom(KEY).at(3))] == [False, False]


def test_a_still_source_that_changes_what_it_says_of_itself_repeats_no_word(monkeypatch: pytest.MonkeyPatch) -> None:
    class Changing(Forged):
        def position(self) -> dpcore.rng.StreamPosition:
            self.secure = not self.secure
            return super().position()

    monkeypatch.setattr(_backend.levels, "_forced_cipher", "chacha20")  # one cipher for what is secure and what is not
    channel = local.SequentialChannel(1.0, lambda _: local.LocalLaplace(1.0, 0.0, 1.0))
    assert len(set(channel.privatize([0.5] * 8, rng=Changing(secure=False, position=False)))) == 8


def test_positions_of_any_integers_are_taken() -> None:
    position = (KEY, np.uint32(7), np.int64(300))
    assert noise.laplace(0.0, 1.0, rng=Given(position)) == noise.laplace(0.0, 1.0, rng=KeyedRandom(KEY).at(7, 300))


def test_no_source_shows_its_key() -> None:
    for rng in (KeyedRandom(KEY), KeyedRandom(KEY).at(1)):
        assert KEY.hex() not in repr(rng)
        assert repr(KEY)[2:-1] not in repr(rng)


# The floating-point environment

ENVIRONMENTS = {"subnormals flushed": flush_subnormals, **{f"rounding {name}": rounding(mode) for name, mode in X86_ROUNDING.items()}}
SENSITIVE = (
    *LAWS,
    Law("laplace", 2.0**-960),
    Law("gaussian", 1.0, 2.0**1023),
    Law("gaussian", 1.7, 2.0**-39),
    Law("discrete_laplace", 2.0**40),
)


def values_for(law: Law) -> Array:
    """Values of every size; made here, as NumPy computes in the caller's environment."""
    values = law.values(2000)
    if not law.discrete:
        values[:6] = [5e-324, -1e-310, 2.0**-1022, 1e308, -0.0, 1e-300]
    return values


def results_of(law: Law, values: Array) -> list[Array]:
    """An array, in place with the check that goes before, on threads, with an array of scales, and scalars."""
    own = values.copy()
    scales = np.full(2000, law.scale)
    return [
        law.add(values),
        law.add(own, out=own),
        law.add(values, threads=2),
        law.add(values, scale=scales),
        np.array([law.add(value, i) for i, value in enumerate(values[:50].tolist())]),
    ]


def test_the_environment_is_really_changed() -> None:
    if libm is None or platform.machine() != "x86_64":
        pytest.skip("no access to the environment here")
    tiny = np.array([5e-324])
    with environment(flush_subnormals):
        flushed = (tiny * np.array([4.0]))[0].hex()
    third, tenth = np.array([1.0]), np.array([3.0])
    with environment(rounding(X86_ROUNDING["up"])):
        up = (third / tenth)[0].hex()
    assert flushed == "0x0.0p+0"
    assert up != (third / tenth)[0].hex()


@pytest.mark.some(73)
@on_x86_linux
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("change", ENVIRONMENTS.values(), ids=ENVIRONMENTS)
@pytest.mark.parametrize("law", SENSITIVE, ids=str)
def test_the_callers_environment_does_not_matter(law: Law, change: Callable[..., None], level: str) -> None:
    with at_level(level):
        values = values_for(law)
        expected = results_of(law, values)
        _backend.noise._float_law.cache_clear()
        _backend.noise._discrete_law.cache_clear()
        with environment(change):
            results = results_of(law, values)
        _backend.noise._float_law.cache_clear()
        _backend.noise._discrete_law.cache_clear()
        assert all(same_bits(a, b) for a, b in zip(results, expected, strict=True))


@on_x86_linux
def test_the_callers_environment_is_given_back() -> None:
    for change in ENVIRONMENTS.values():
        before, after = ctypes.create_string_buffer(64), ctypes.create_string_buffer(64)
        with environment(change):
            libm.fegetenv(before)  # type: ignore[union-attr]
            LAWS[0].draw(1000)
            libm.fegetenv(after)  # type: ignore[union-attr]
        controls = [int.from_bytes(env.raw[MXCSR_AT : MXCSR_AT + 4], "little") & ~0x3F for env in (before, after)]
        assert controls[0] == controls[1]


# Signals


HANDLER = """
import faulthandler, random, signal, time
import numpy as np
from dpcore import noise
from dpcore._backend import threads

faulthandler.dump_traceback_later(60, exit=True)
x, handled, noisy = np.zeros(1 << 18), 0, random.Random(1)


def handle(number, frame):
    global handled
    handled += 1
    noise.laplace(x, 1.0, threads=2)


signal.signal(signal.SIGALRM, handle)
while handled < 400:
    signal.setitimer(signal.ITIMER_REAL, 1e-6 + 2e-3 * noisy.random())
    noise.laplace(x, 1.0, threads=2)
    if handled % 7 == 0:
        threads._pool.dismiss()
"""


@pytest.mark.long
@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="signals of POSIX")
def test_a_signal_handler_may_draw_while_the_pool_is_at_work() -> None:
    subprocess.run([sys.executable, "-c", HANDLER], check=True, timeout=120)


def test_threads_that_die_at_their_start_are_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """`threading.Thread.start` waits for a sign of life, which a thread that lacks the memory to begin never gives."""
    threads, values = _backend.threads, np.zeros(1 << 18)
    monkeypatch.setattr(threads, "_pool", threads._Pool())
    monkeypatch.setattr(threads, "start_new_thread", lambda _work, _arguments: 0)
    expected = noise.laplace(values, 1.0, rng=KeyedRandom(bytes(32)), threads=1)
    for _ in range(3):
        assert noise.laplace(values, 1.0, rng=KeyedRandom(bytes(32)), threads=4).tobytes() == expected.tobytes()
    assert threads._pool._workers == 1


def test_jobs_that_nobody_takes_up_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = _backend.threads._Pool()
    monkeypatch.setattr(_backend.threads, "start_new_thread", lambda _work, _arguments: 0)
    monkeypatch.setattr(_backend.threads, "MOST_WAITING", 8)
    for _ in range(100):
        pool.start(lambda: None, 3)
    assert pool._jobs.qsize() <= 8 + 3


def test_a_start_within_a_start_leaves_the_work_to_its_caller() -> None:
    pool, nested = _backend.threads._Pool(), list[bool]()

    class Jobs:
        def qsize(self) -> int:
            return 0

        def put(self, job: Callable[[], None]) -> None:
            pool.start(lambda: nested.append(True), 1)  # as a handler of a signal that arrives here
            job()

    pool._jobs, pool._workers = Jobs(), 1  # type: ignore[assignment]
    done = list[bool]()
    for _ in range(2):
        pool.start(lambda: done.append(True), 1)
    assert (len(done), nested) == (2, [])
