"""Threads hammer what they share: kernels, the level in use, the pool, caches, the exact tier. `make tsan` looks for races in it."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from dpcore import _backend, accounting, local, noise, selection, sums
from dpcore._backend.words import KernelWords
from dpcore._exact import handover, sampling
from dpcore._exact.pending import Pending
from dpcore.distributions import orthogonal_series, perturbed_histogram
from dpcore.testing import KeyedRandom
from support.kernels import KEY, LEVELS

THREADS = 6
X = np.linspace(-3.0, 3.0, 20_000)
CODES = np.arange(20_000) % 7
SHARED = KernelWords(KEY, 5, 0)
"""The words of one call, for all threads; its groups are more than it keeps."""


def keyed() -> KeyedRandom:
    """The same stream each time."""
    return KeyedRandom(KEY)


def exact_samples() -> list[float]:
    """Undecided samples of all kinds, from words that all threads share."""
    found: list[float] = []
    for element in range(0, 9000, 1500):
        pending = Pending(element, element, 0.5, 0.0, 3, 0)
        found += [handover.real(kind, SHARED, pending, 1.3, 2.0**-40) for kind in ("laplace", "gaussian")]
        found += [
            handover.integer(kind, SHARED, pending, scale) for kind in ("discrete_laplace", "discrete_gaussian") for scale in (2.0, 9.0)
        ]
    order = handover.rank_contenders("gumbel", SHARED, 0, {i: Fraction(i % 3) for i in range(20)}, 1.0)
    return [*found, *map(float, order), *sampling.laplace_offset(1.7)]


def frequencies(mechanism: local.ProjectiveGeometryResponse) -> object:
    """Reports, and the counts of all hyperplanes."""
    return mechanism.estimate(mechanism.privatize(CODES, rng=keyed())).value


TASKS: dict[str, Callable[[], object]] = {
    "laplace on the pool": lambda: noise.laplace(np.tile(X, 20), 1.3, rng=keyed(), threads=3),
    "gaussian": lambda: noise.gaussian(X, 0.7, rng=keyed()),
    "scalars": lambda: [noise.laplace(1.0, 1.3, rng=keyed()), noise.discrete_gaussian(3, 2.5, rng=keyed())],
    "discrete laplace": lambda: noise.discrete_laplace(CODES, 3.0, rng=keyed()),
    "discrete gaussian, mixed": lambda: noise.discrete_gaussian(CODES, np.where(CODES > 3, 2.0, 40.0), rng=keyed()),
    "binary response": lambda: local.BinaryResponse(1.0).privatize(CODES > 3, rng=keyed()),
    "k-ary response": lambda: local.KaryResponse(1.0, k=7).privatize(CODES, rng=keyed()),
    "finite channel": lambda: local.FiniteChannel([[1 + (x + z) % 5 for z in range(5)] for x in range(7)]).privatize(CODES, rng=keyed()),
    "one number of a vector": lambda: local.VectorMean(1.0, -3.0, 3.0, d=5).privatize(X.reshape(-1, 5), rng=keyed(), threads=2),
    "signs of a vector": lambda: local.VectorMean(1.0, -3.0, 3.0, d=5, method="hypercube").privatize(X.reshape(-1, 5), rng=keyed()),
    "points of a projective space": lambda: frequencies(local.ProjectiveGeometryResponse(1.0, k=40)),
    "bounded mean": lambda: local.BoundedMean(1.0, -3.0, 3.0).privatize(X, rng=keyed()),
    "hashing": lambda: local.LocalHashing(1.0, k=7).privatize(CODES[:2000], rng=keyed()),
    "selection": lambda: selection.exponential_mechanism(X, 1.0, sensitivity=1.0, rng=keyed()),
    "sums": lambda: sums.clamped_sum(X, -1.0, 1.0).high,
    "histogram": lambda: perturbed_histogram(np.abs(X) / 3.0, 1.0, bins=8, bounds=(0.0, 1.0), rng=keyed()).noisy_counts,
    "series": lambda: orthogonal_series(np.abs(X[:500]) / 3.0, 1.0, terms=4, bounds=(0.0, 1.0), rng=keyed()).coefficients,
    "exact tier": exact_samples,
    "accounting": lambda: accounting.optimal(0.1, 0.0, uses=20, delta_total=1e-6),
}
"""What runs at the same time."""


def same(a: object, b: object) -> bool:
    """Equality of numbers, arrays, lists and result objects, bit by bit where they are arrays."""
    return bool(np.array_equal(np.asarray(a), np.asarray(b)))


def test_threads_that_share_everything_get_what_they_get_alone() -> None:
    expected = {name: task() for name, task in TASKS.items()}
    barrier, wrong, stop = threading.Barrier(THREADS + 1), [], threading.Event()

    def work(first: int) -> None:
        barrier.wait()
        names = [*list(TASKS)[first:], *list(TASKS)[:first]]
        for name in names:
            try:
                if not same(TASKS[name](), expected[name]):
                    wrong.append(name)
            except Exception as error:  # a thread's error is the test's
                wrong.append(f"{name}: {error!r}")

    def switch_levels() -> None:
        barrier.wait()
        for level in itertools.cycle(LEVELS):
            if stop.is_set():
                return
            _backend.select_level(level)

    before, switch = _backend.selected_level(), sys.getswitchinterval()
    workers = [threading.Thread(target=work, args=(2 * i,)) for i in range(THREADS)]
    switcher = threading.Thread(target=switch_levels)
    sys.setswitchinterval(1e-5)
    try:
        for thread in [*workers, switcher]:
            thread.start()
        for thread in workers:
            thread.join()
    finally:
        stop.set()
        switcher.join()
        sys.setswitchinterval(switch)
        _backend.select_level(before)
    assert wrong == []


RACE = "int shared; void touch(int n) { for (int i = 0; i < n; i++) shared = shared * 3 + i; }"
RACING = """
import ctypes, sys, threading
touch = ctypes.CDLL(sys.argv[1]).touch
threads = [threading.Thread(target=touch, args=(2_000_000,)) for _ in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
"""


@pytest.mark.skipif("libtsan" not in os.environ.get("LD_PRELOAD", ""), reason="only `make tsan` runs under ThreadSanitizer")
def test_the_sanitizer_sees_a_race_under_this_interpreter(tmp_path: Path) -> None:
    """What the other tests would look like if there were one: two threads outside the GIL in one instrumented function."""
    compiler = shutil.which("gcc") or "cc"
    (tmp_path / "race.c").write_text(RACE)
    command = [compiler, "-O0", "-g", "-shared", "-fPIC", "-fsanitize=thread", str(tmp_path / "race.c"), "-o", str(tmp_path / "race.so")]
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    subprocess.run(command, check=True, timeout=100, env=environment)
    done = subprocess.run(
        [sys.executable, "-c", RACING, str(tmp_path / "race.so")], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 66, done.stderr
    assert "data race" in done.stderr
