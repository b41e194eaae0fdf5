"""Every public function that writes into a caller's array, a call of each, and what a call that fails may leave there."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import numpy.typing as npt

import dpcore
from dpcore import _backend, local, mechanisms, minimax, noise
from dpcore.testing import KeyedRandom
from support.kernels import KEY

Array = npt.NDArray[Any]
PLAIN = np.random.default_rng(20)
SENTINEL = 0xA5


TOOLS = {"bench", "cli", "pages", "reproduce"}
"""Parts of the package that no caller hands an array to."""


def functions_with_out() -> set[str]:
    """Names of the public functions and methods that have a parameter `out`, found by walking what the package offers."""
    found: set[str] = set()
    for info in pkgutil.iter_modules(dpcore.__path__):
        if info.name.startswith("_") or info.name in TOOLS:
            continue
        module = importlib.import_module(f"dpcore.{info.name}")
        for name in getattr(module, "__all__", [name for name, thing in vars(module).items() if is_from(thing, module.__name__)]):
            thing = getattr(module, name)
            if inspect.isclass(thing):
                found.update(f"{name}.{method}" for method, function in inspect.getmembers(thing) if takes_out(method, function))
            elif takes_out(name, thing):
                found.add(f"{info.name}.{name}")
    return found


def is_from(thing: object, module: str) -> bool:
    """Whether a module defines something, rather than importing it."""
    return getattr(thing, "__module__", None) == module


def takes_out(name: str, thing: object) -> bool:
    """Whether something public can be called with `out`."""
    try:
        return not name.startswith("_") and callable(thing) and "out" in inspect.signature(thing).parameters
    except (ValueError, TypeError):  # no signature: not a function of ours
        return False


@dataclass(frozen=True)
class Case:
    """One call: a function of (records, out, rng, threads), its records, and the array it writes to."""

    function: Callable[..., Any]
    records: Array
    dtype: Any
    shape: tuple[int, ...] | None = None
    options: dict[str, Any] = field(default_factory=dict)

    def fresh(self) -> Array:
        """An array to write to, in which every byte is known."""
        shape = self.records.shape if self.shape is None else self.shape
        size = int(np.prod(shape)) * np.dtype(self.dtype).itemsize
        return np.frombuffer(bytearray([SENTINEL]) * size, self.dtype).reshape(shape)

    def call(self, out: Array, rng: Any = None, threads: int = 1) -> None:
        """The call under the tests' key, or under another source."""
        self.function(self.records, **self.options, out=out, rng=KeyedRandom(KEY).at(3) if rng is None else rng, threads=threads)

    def released(self) -> Array:
        """What the call gives if nothing fails."""
        out = self.fresh()
        self.call(out)
        return out


N = 3000
REALS = PLAIN.normal(50.0, 40.0, N)  # distinct, and mostly outside of the bounds
TRIPLES = np.random.default_rng(6).normal(4.0, 3.0, (N, 3))
WHOLE = PLAIN.integers(-1000, 1000, N)
CODES = PLAIN.integers(0, 10, N)
BITS = PLAIN.random(N) < 0.3


def packed(mechanism: Any) -> Callable[..., Any]:
    """`privatize_packed` of all bits."""
    return lambda x, **options: mechanism.privatize_packed(x, n=8 * len(x), **options)


def cases() -> dict[str, Case]:
    """A call of each function that `functions_with_out` finds; some have several ways through."""
    real, whole, code = (lambda f: Case(f, REALS, np.float64)), (lambda f: Case(f, WHOLE, np.int64)), (lambda f, *a: Case(f, CODES, *a))
    width = (10 + 7) // 8
    return {
        "noise.laplace": Case(noise.laplace, REALS, np.float64, options={"scale": 2.0}),
        "noise.laplace of integers": Case(noise.laplace, WHOLE, np.float64, options={"scale": 2.0}),
        "noise.laplace with scales": Case(noise.laplace, REALS, np.float64, options={"scale": np.linspace(1.0, 2.0, N)}),
        "noise.gaussian": Case(noise.gaussian, REALS, np.float64, options={"scale": 2.0}),
        "noise.discrete_laplace": Case(noise.discrete_laplace, WHOLE, np.int64, options={"scale": 2.0}),
        "noise.discrete_gaussian": Case(noise.discrete_gaussian, WHOLE, np.int64, options={"scale": 2.0}),
        "noise.discrete_gaussian with scales": Case(
            noise.discrete_gaussian, WHOLE, np.int64, options={"scale": np.tile([1.0, 20.0], N // 2)}
        ),
        "Laplace.release": real(mechanisms.Laplace(1.0, 2.0).release),
        "Gaussian.release": real(mechanisms.Gaussian(1.0, 1e-6, 2.0).release),
        "DiscreteLaplace.release": whole(mechanisms.DiscreteLaplace(1.0, 2).release),
        "DiscreteGaussian.release": whole(mechanisms.DiscreteGaussian(1.0, 1e-6, 2).release),
        "LocalLaplace.privatize": real(local.LocalLaplace(1.0, 0.0, 10.0).privatize),
        "LocalLaplace.privatize of integers": Case(local.LocalLaplace(1.0, 0.0, 10.0).privatize, WHOLE, np.float64),
        "LocalLaplace.privatize of missing": Case(
            local.LocalLaplace(1.0, 0.0, 10.0, missing=5.0).privatize, np.where(BITS, np.nan, REALS), np.float64
        ),
        "LocalGaussian.privatize": real(local.LocalGaussian(1.0, 1e-6, 0.0, 10.0).privatize),
        "LocalDiscreteLaplace.privatize": whole(local.LocalDiscreteLaplace(1.0, 0, 10).privatize),
        "LocalDiscreteGaussian.privatize": whole(local.LocalDiscreteGaussian(1.0, 1e-6, 0, 10).privatize),
        "BinaryResponse.privatize": Case(local.BinaryResponse(1.0).privatize, BITS, np.bool_),
        "BinaryResponse.privatize_packed": Case(packed(local.BinaryResponse(1.0)), np.packbits(BITS), np.uint8),
        "BoundedMean.privatize": Case(local.BoundedMean(1.0, 0.0, 10.0).privatize, REALS, np.bool_),
        "BinaryChannel.privatize": code(local.BinaryChannel(1.0, np.linspace(-1.0, 1.0, 10)).privatize, np.bool_),
        "BinaryChannel.privatize of a function": Case(local.BinaryChannel(1.0, np.tanh, bound=1.0).privatize, REALS, np.bool_),
        "KaryResponse.privatize": code(local.KaryResponse(1.0, k=10).privatize, np.int64),
        "KaryResponse.privatize of int16": Case(local.KaryResponse(1.0, k=10).privatize, CODES.astype(np.int16), np.int16),
        "FiniteChannel.privatize": code(local.FiniteChannel([[1 + (x + z) % 5 for z in range(5)] for x in range(10)]).privatize, np.uint8),
        "UnaryEncoding.privatize": code(local.UnaryEncoding(1.0, k=10).privatize, np.uint8, (N, width)),
        "SubsetSelection.privatize": code(local.SubsetSelection(1.0, k=10).privatize, np.uint8, (N, width)),
        "LocalHashing.privatize": code(local.LocalHashing(1.0, k=10).privatize, _backend.HASHING_REPORT),
        "HadamardResponse.privatize": code(local.HadamardResponse(1.0, k=10).privatize, _backend.HADAMARD_REPORT),
        "ProjectiveGeometryResponse.privatize": code(local.ProjectiveGeometryResponse(1.0, k=10).privatize, np.uint32),
        "VectorMean.privatize": Case(local.VectorMean(1.0, 0.0, 10.0, d=3).privatize, TRIPLES, _backend.VECTOR_REPORT, (N,)),
        "VectorMean.privatize of signs": Case(
            local.VectorMean(1.0, 0.0, 10.0, d=3, method="hypercube").privatize, TRIPLES, np.uint8, (N, 1)
        ),
        "LinearEstimator.privatize": Case(minimax.LinearEstimator(np.tanh, 1.0, bound=1.0).privatize, REALS, np.bool_),
    }


def items(array: Array) -> Array:
    """The elements of an array, byte for byte."""
    return np.frombuffer(array.tobytes(), f"V{array.dtype.itemsize}")


def check_past_or_released(out: Array, past: Array, released: Array) -> None:
    """Fail at the first element that is neither what it was nor what is released there."""
    now, before, after = items(out), items(past), items(released)
    strange = np.flatnonzero((now != before) & (now != after))
    for i in strange[:1]:
        raise AssertionError(
            f"element {i} is {now[i].tobytes().hex()}, before it was {before[i].tobytes().hex()}, released is {after[i].tobytes().hex()}; "
            f"{len(strange)} are like it"
        )


def check_nobody_writes(out: Array) -> None:
    """Fail if the array changes once the call is over: all threads of the pool are let finish what they have."""
    snapshot = out.copy()
    pool = _backend.threads._pool
    everybody = threading.Barrier(pool._workers + 1)
    for _ in range(pool._workers):
        pool._jobs.put(lambda: everybody.wait(60) and None)
    everybody.wait(60)
    pool.dismiss()
    assert out.tobytes() == snapshot.tobytes(), "a thread has written after the call had raised"


@contextmanager
def threads_that_fail(after: int) -> Iterator[None]:
    """The system starts so many threads and then no more; the pool begins without any."""
    start, started = _backend.threads.start_new_thread, [0]

    def limited(work: Callable[..., object], arguments: tuple[object, ...]) -> int:
        started[0] += 1
        if started[0] > after:
            raise RuntimeError("can't start new thread")
        return start(work, arguments)

    _backend.threads._pool.dismiss()
    _backend.threads.start_new_thread = limited
    try:
        yield
    finally:
        _backend.threads.start_new_thread = start


class Lines:
    """Counts the lines of the package that a call runs through on this thread; before a chosen one it raises."""

    def __init__(self, error: type[BaseException] | None = None, at: int = -1) -> None:
        self.seen = 0
        self._error, self._at = error, at

    def __enter__(self) -> Self:
        sys.settrace(self._trace)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def _trace(self, frame: Any, event: str, _: Any) -> Any:
        if "dpcore" not in frame.f_code.co_filename:
            return None
        if event == "line":
            self.seen += 1
            if self.seen - 1 == self._at and self._error is not None:
                sys.settrace(None)
                raise self._error
        return self._trace
