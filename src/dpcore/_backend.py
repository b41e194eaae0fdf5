"""The only importer of the kernels: CPU level, threads, chunks, and the hand-over to the exact tier."""

from __future__ import annotations

import math
import os
import platform
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dpcore._kernels import _dispatch, _noise
from dpcore._sample import TABLE_LIMIT, Kind, Pending
from dpcore.errors import DataError, ParameterError

Position = tuple[bytes, int, int]  # key, nonce, first element; rng.StreamPosition, which this layer must not import

CHUNK = 1 << 17
"""Elements a thread takes at once: a fraction of a millisecond, so that Ctrl-C is honoured soon."""
SMALL = 1 << 15
"""Arrays up to this size stay on the calling thread."""

_FLOAT_KINDS = {"laplace": _noise.LAPLACE, "gaussian": _noise.GAUSSIAN}
_ISA_VARIABLE, _CIPHER_VARIABLE, _THREADS_VARIABLE = "DPCORE_ISA", "DPCORE_CIPHER", "DPCORE_NUM_THREADS"


def select_level(name: str) -> None:
    """Use the kernels of one CPU level; raises `ParameterError` if this machine cannot run it."""
    if not _dispatch.select(name):
        raise ParameterError(f"{_ISA_VARIABLE} must be one of {', '.join(_dispatch.available())} on this machine, got {name!r}")


def available_levels() -> tuple[str, ...]:
    """Names of the CPU levels this machine can run, least first."""
    return tuple(_dispatch.available())


def selected_level() -> str:
    """Name of the CPU level in use."""
    return str(_dispatch.selected())


def _read_environment() -> str | None:
    level = os.environ.get(_ISA_VARIABLE)
    if level:
        select_level(level)
    cipher = os.environ.get(_CIPHER_VARIABLE) or None
    if cipher not in {None, "chacha20", "aes256"}:
        raise ParameterError(f"{_CIPHER_VARIABLE} must be 'chacha20' or 'aes256', got {cipher!r}")
    if cipher == "aes256" and not _dispatch.has_aes():
        raise ParameterError(f"{_CIPHER_VARIABLE}='aes256' needs AES instructions (VAES at level x86_v4); this level has none")
    return cipher


_forced_cipher = _read_environment()


def secure_cipher() -> str:
    """Cipher that expands the secure source's keys: AES-256 where the level has it, else ChaCha20."""
    return _forced_cipher or ("aes256" if _dispatch.has_aes() else "chacha20")


def _cipher(*, secure: bool) -> int:
    """The keyed source is always ChaCha20: its results must not depend on the machine."""
    return int(_noise.AES256 if secure and secure_cipher() == "aes256" else _noise.CHACHA20)


def make_keystream(n_words: int, cipher: str = "chacha20") -> None:
    """Make the keystream of `n_words` 64-bit words in a buffer that stays in L1: the bound that benchmarks compare with."""
    _dispatch.keystream_in_cache(bytes(32), _noise.AES256 if cipher == "aes256" else _noise.CHACHA20, n_words)


def info() -> dict[str, object]:
    """What runs on this machine: level, ciphers, threads, platform."""
    compiler, flags = _dispatch.build()
    return {
        "cpu_level": selected_level(),
        "cpu_levels_available": list(available_levels()),
        "secure_cipher": secure_cipher(),
        "keyed_cipher": "chacha20",
        "threads": default_threads(),
        "compiler": compiler,
        "build_flags": flags,
        "machine": platform.machine(),
        "python": platform.python_version(),
        "numpy": np.__version__,
    }


# Threads


def _cgroup_quota() -> float:
    """CPUs that the control group grants, or infinity."""
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        return math.inf if quota == "max" else int(quota) / int(period)
    except (OSError, ValueError):
        return math.inf


@lru_cache(maxsize=1)
def default_threads() -> int:
    """min(CPU affinity, cgroup quota, DPCORE_NUM_THREADS), at least 1; read once."""
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    count = max(1, min(affinity, math.floor(max(1.0, min(_cgroup_quota(), 1e6)))))
    text = os.environ.get(_THREADS_VARIABLE)
    if not text:
        return count
    if not text.isdecimal() or int(text) < 1:
        raise ParameterError(f"{_THREADS_VARIABLE} must be an integer ≥ 1, got {text!r}")
    return min(count, int(text))


class _Pool:
    """The process's worker threads, made on first use and made anew after fork."""

    _executor: ThreadPoolExecutor | None
    _workers: int

    def __init__(self) -> None:
        self.forget()

    def get(self, workers: int) -> ThreadPoolExecutor:
        """An executor with at least this many threads."""
        with self._lock:
            if self._executor is None or workers > self._workers:
                self._executor = ThreadPoolExecutor(workers, thread_name_prefix="dpcore")
                self._workers = workers
            return self._executor

    def forget(self) -> None:
        """Start without threads: a child of fork has the object but not its threads, and perhaps a lock that no one will open."""
        self._lock = threading.Lock()
        self._executor = None
        self._workers = 0


_pool = _Pool()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.forget)


def for_ranges(work: Callable[[int, int], None], size: int, threads: int | None) -> None:
    """Call `work(start, stop)` on ranges that cover [0, size), on `threads` threads; the first error ends it.

    Returns, or raises, only when no range is being worked on any more.
    """
    workers = min(threads or default_threads(), -(-size // CHUNK))
    if workers <= 1 or size <= SMALL:
        for start in range(0, size, 8 * CHUNK):
            work(start, min(start + 8 * CHUNK, size))
        return
    starts, lock = iter(range(0, size, CHUNK)), threading.Lock()
    stopped: list[bool] = []

    def drain() -> None:
        while not stopped:
            with lock:
                start = next(starts, None)
            if start is None:
                return
            work(start, min(start + CHUNK, size))

    futures: list[Future[None]] = [_pool.get(workers - 1).submit(drain) for _ in range(workers - 1)]
    try:
        drain()
    finally:
        # Nothing is left to start; wait for the ranges that are being worked on, so that no one writes after the return.
        stopped.append(True)
        running = [future for future in futures if not future.cancel()]
        wait(running)
    for future in running:
        future.result()


# Words for the exact tier


class _KernelWords:
    """Random words by address, from the same cipher and key as the call."""

    def __init__(self, key: bytes, nonce: int, cipher: int) -> None:
        self._address = (key, nonce, cipher)
        self._groups: dict[tuple[int, int], list[int]] = {}

    def group(self, domain: int, group: int) -> list[int]:
        found = self._groups.get((domain, group))
        if found is None:
            data = _dispatch.bulk_words(*self._address, domain, group, 1)
            found = self._groups[domain, group] = [int(w) for w in np.frombuffer(data, np.uint64)]
            if len(self._groups) > 64:
                self._groups.pop(next(iter(self._groups)), None)
        return found

    def more(self, domain: int, element: int, attempt: int, chunk: int) -> list[int]:
        words: list[int] = _dispatch.more_words(*self._address, domain, element, attempt, chunk)
        return words


def _exact_real(kind: Kind, words: _KernelWords, item: Pending, scale: float, grid: float) -> float:
    from dpcore._slow_path import real  # imports mpmath, which most processes never need

    return real(kind, words, item, scale, grid)


def _exact_integer(kind: Kind, words: _KernelWords, item: Pending, scale: float) -> int:
    from dpcore._slow_path import integer

    return integer(kind, words, item, scale)


# Laws


@lru_cache(maxsize=1024)
def _float_law(kind: int, scale: float, grid: float) -> Any:
    return _noise.Law(kind, scale, grid)


@lru_cache(maxsize=4096)
def _discrete_law(kind: Kind, scale: float) -> Any:
    from dpcore import _exact  # imports mpmath, which floats never need

    if kind == "discrete_laplace":
        return _noise.Law(_noise.DISCRETE_LAPLACE, scale, offset=_exact.laplace_offset(scale))
    if scale < TABLE_LIMIT:
        short, long = _exact.threshold_integers(scale)
        return _noise.Law(_noise.GAUSSIAN_TABLE, scale, short=short, long=long)
    terms = [term.upper() for term in _exact.acceptance_terms(scale, 128, 12)]
    quick = 2.0**16 / 24 / scale / scale / scale / scale * (1 + 2.0**-40)
    return _noise.Law(_noise.GAUSSIAN_ROUNDED, scale, terms=terms, quick=quick)


# Calls


class Testing:
    """Hooks that only tests set: the lowest tier used, and a factor on the fast path's error bound."""

    tier = 0
    bound_factor = 1.0


def _finish(call: Any, out: npt.NDArray[Any], resolve: Callable[[Pending], Any], start: int, stop: int) -> None:
    while start < stop:
        status, reached, pending = call.run(start, stop)
        for fields in pending:
            out.flat[fields[0]] = resolve(Pending(*fields))
        if status == _noise.NONFINITE:
            _refuse_nonfinite(out.shape, reached)
        start = reached


def _refuse_nonfinite(shape: tuple[int, ...], position: int) -> None:
    index = tuple(int(i) for i in np.unravel_index(position, shape)) if shape else ()
    raise DataError(f"values must be finite; the number at index {index} is not")


def _check_finite(call: Any, values: npt.NDArray[Any], threads: int | None) -> None:
    if values.dtype.kind != "f":
        return

    def check(start: int, stop: int) -> None:
        found = call.first_nonfinite(start, stop)
        if found >= 0:
            _refuse_nonfinite(values.shape, found)

    for_ranges(check, values.size, threads)


def float_noise(
    kind: Kind,
    values: npt.NDArray[Any],
    scale: float | npt.NDArray[np.float64],
    grid: float | None,
    position: Position,
    *,
    secure: bool,
    out: npt.NDArray[np.float64] | None,
    threads: int | None,
) -> npt.NDArray[np.float64]:
    """x + noise on every element; arguments are valid. `grid` None only with an array of scales: the default of each."""
    key, nonce, first = position
    cipher = _cipher(secure=secure)
    result = np.empty(values.shape, np.float64) if out is None else out
    code = _FLOAT_KINDS[kind]
    scales = None if isinstance(scale, float) else np.broadcast_to(scale, values.shape)
    laws = (_float_law(code, scale, grid),) if isinstance(scale, float) and grid is not None else (_noise.Law(code, 1.0),)
    call = _noise.Call(
        code, laws, values, result, key, nonce, first, cipher, scales=scales, fixed_grid=grid or 0.0, tier=Testing.tier,
        bound_factor=Testing.bound_factor,
    )  # fmt: skip
    if out is not None:
        _check_finite(call, values, threads)
    words = _KernelWords(key, nonce, cipher)

    def resolve(item: Pending) -> float:
        own = scale if isinstance(scale, float) else float(scales.flat[item.index])  # type: ignore[union-attr]
        return _exact_real(kind, words, item, own, grid if grid is not None else default_grid(own))

    for_ranges(lambda start, stop: _finish(call, result, resolve, start, stop), values.size, threads)
    return result


def default_grid(scale: float) -> float:
    """2^(⌊log2 scale⌋ − 25)."""
    return math.ldexp(1.0, math.frexp(scale)[1] - 26)


def scalar_float_noise(kind: Kind, value: float, scale: float, grid: float, position: Position, *, secure: bool) -> float:
    """One finite float; the path that latency counts on."""
    key, nonce, first = position
    cipher = _cipher(secure=secure)
    code = _FLOAT_KINDS[kind]
    if not Testing.tier:
        result = _noise.scalar(_float_law(code, scale, grid), value, key, nonce, first, cipher)
        if result is not None:
            return float(result)
    return _exact_real(kind, _KernelWords(key, nonce, cipher), Pending(0, first, value, 0.0, 0, 0), scale, grid)


def scalar_int_noise(kind: Kind, value: int, scale: float, position: Position, *, secure: bool) -> int:
    """One integer of int64's range."""
    key, nonce, first = position
    cipher = _cipher(secure=secure)
    if not Testing.tier:
        result = _noise.scalar_int(_discrete_law(kind, scale), value, key, nonce, first, cipher)
        if result is not None:
            return int(result)
    return _exact_integer(kind, _KernelWords(key, nonce, cipher), Pending(0, first, 0.0, 0.0, value, 0), scale)


def _distinct(scale: float | npt.NDArray[np.float64], shape: tuple[int, ...]) -> tuple[list[float], npt.NDArray[np.int64] | None]:
    """Distinct scales, and which one each element has; taken from the array as given, so that a row of per-column scales stays a row."""
    if isinstance(scale, float):
        return [scale], None
    distinct, inverse = np.unique(scale, return_inverse=True)
    if len(distinct) <= 1:
        return [float(s) for s in distinct] or [1.0], None
    return [float(s) for s in distinct], np.broadcast_to(inverse.reshape(scale.shape).astype(np.int64), shape)


def int_noise(
    kind: Kind,
    values: npt.NDArray[Any],
    scale: float | npt.NDArray[np.float64],
    position: Position,
    *,
    secure: bool,
    out: npt.NDArray[np.int64] | None,
    threads: int | None,
) -> npt.NDArray[np.int64]:
    """x + integer noise on every element, saturating; arguments are valid."""
    key, nonce, first = position
    cipher = _cipher(secure=secure)
    result = np.empty(values.shape, np.int64) if out is None else out
    scales, which = _distinct(scale, values.shape)
    if kind == "discrete_gaussian" and which is not None:
        code = _noise.GAUSSIAN_TABLE  # lane by lane: each law knows its own kind
    else:
        code = {"discrete_laplace": _noise.DISCRETE_LAPLACE}.get(
            kind, _noise.GAUSSIAN_TABLE if scales[0] < TABLE_LIMIT else _noise.GAUSSIAN_ROUNDED
        )
    laws = tuple(_discrete_law(kind, s) for s in scales)
    call = _noise.Call(
        code, laws, values, result, key, nonce, first, cipher, which=which, tier=Testing.tier, bound_factor=Testing.bound_factor
    )
    words = _KernelWords(key, nonce, cipher)

    def resolve(item: Pending) -> int:
        return _exact_integer(kind, words, item, scales[item.law])

    for_ranges(lambda start, stop: _finish(call, result, resolve, start, stop), values.size, threads)
    return result
