"""Throughput against size, from one value to 10^8, beside NumPy's unsafe way and beside what no call can avoid."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from dpcore import _backend
from dpcore.bench._peers.noise import geometric_difference, laplace, noise_peers, plain_normal, rounded_normal
from dpcore.bench.benchmark import Benchmark, Plan, Side, Work
from dpcore.bench.noise import Case, cases, check_answer

Array = npt.NDArray[Any]
NUMPY = {"laplace": laplace, "gaussian": plain_normal, "discrete_laplace": geometric_difference, "discrete_gaussian σ=3": rounded_normal}
CHECKED = 1 << 12
"""Least number of values whose mean and variance are checked."""
FEW = (1, 16, 64, 128, 256, 1024, 1 << 14)
"""Sizes of a quick run: enough of them to see from where on dpcore is faster than NumPy."""
MKL, BESIDE_MKL = "MKL inversion (SFMT)", (1 << 10, 1 << 20)
LARGE = 1 << 22
"""From this size on a call takes long, and a row gets more time."""


def sizes(largest: int, *, quick: bool) -> list[int]:
    """Sizes of a curve: powers of two, in a quick run `FEW` of them, and the largest.

    Parameters
    ----------
    largest : int
        The last size.
    quick : bool
        Whether the run is quick.

    Examples
    --------
    >>> sizes(100, quick=False), sizes(100, quick=True)
    ([1, 2, 4, 8, 16, 32, 64, 100], [1, 16, 64, 100])
    """
    powers = FEW if quick else [2**i for i in range(largest.bit_length())]
    return [*(n for n in powers if n < largest), largest]


def _needed(case: Case, n: int) -> tuple[Side, ...]:
    """What no call can avoid: the key, the call itself, and for each value the random words and a copy."""
    empty: Array = np.zeros(0, case.dtype)

    def call(_inputs: Any) -> Work:
        return partial(case.function, empty, case.scale, threads=1)

    def needed(inputs: tuple[Array, Array]) -> Work:
        values, target = inputs[0], np.ones_like(inputs[1])
        words, cipher = int(case.words * n), _backend.secure_cipher()

        def work() -> None:
            os.urandom(32)
            _backend.make_keystream(words, cipher)
            np.copyto(target, values)

        return work

    return (
        Side(name="key: os.urandom(32)", prepare=lambda _inputs: partial(os.urandom, 32), kind="bound"),
        Side(name="call: no values", prepare=call, kind="bound"),
        Side(name="key + keystream + copy", prepare=needed, kind="bound", judges=True),
    )


def _point(case: Case, n: int) -> Benchmark:
    add = NUMPY[case.name]

    def unsafe(inputs: tuple[Array, Array]) -> Work:
        return partial(add, inputs[0], np.ones_like(inputs[1]), case.scale)

    def check(inputs: tuple[Array, Array], _result: Any) -> None:
        if n >= CHECKED:
            check_answer(case, inputs[1])

    return Benchmark(
        group="curve", name=case.name, size=n, inputs=partial(case.arrays, n), ours=case.on(1), check=check,
        character="call" if n <= 1024 else "cache" if n <= 1 << 15 else "memory",
        weight=4.0 if n > LARGE else 0.5,
        sides=(Side(name="NumPy, unsafe", prepare=unsafe), *_by_mkl(case, n), *_needed(case, n)),
    )  # fmt: skip


def _by_mkl(case: Case, n: int) -> Iterable[Side]:
    """MKL's inversion, the fastest way to a normal float, at sizes that speed is asked about."""
    return (peer for peer in noise_peers(case.name, case.scale) if peer.name == MKL) if n in BESIDE_MKL else ()


def curve_benchmarks(plan: Plan) -> Iterator[Benchmark]:
    """The curve of each noise function.

    Parameters
    ----------
    plan : Plan
        How much is measured.
    """
    for case in cases():
        if case.name in NUMPY:
            for n in sizes(plan.largest, quick=plan.quick):
                yield _point(case, n)
