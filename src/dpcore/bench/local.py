"""Cases of local randomisers to time, and comparisons without a peer: a copy of the input, one thread, bools and packed bits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from dpcore import _backend, local
from dpcore.bench.noise import at_levels
from dpcore.bench.table import Row
from dpcore.bench.timing import Timing, Work, take_turns

Array = npt.NDArray[Any]
EPSILON = 1.0
BOUNDS = 0.0, 8.0
"""Bounds of the mean; a fifth of the values is above them."""
AGGREGATE_TARGET = 2.0
"""Counting packed reports takes at most this many times as long as copying them."""
PACKED_TARGET = 1.3
"""Least speed of a packed record in relation to a bool."""
TRANSFORM_SIZE = 2**20


@dataclass(frozen=True, slots=True)
class LocalCase:
    """One local randomiser on records of one type.

    Attributes
    ----------
    name : str
        Name in the table.
    mechanism : object
        A mechanism of `dpcore.local`.
    dtype : type
        Type of the records.
    share : float
        Number of records divided by the number that the benchmark is run with.
    """

    name: str
    mechanism: Any
    dtype: type
    share: float

    def records(self, n: int) -> Array:
        """Made-up records, the same on every run; categories are not equally frequent."""
        size, rng = max(1, round(n * self.share)), np.random.default_rng(1)
        if self.dtype is np.bool_:
            return rng.integers(0, 256, size, np.uint8) < 77
        if self.dtype is np.float64:
            return rng.random(size) * 1.25 * BOUNDS[1]
        k = self.mechanism.k
        return np.minimum(rng.integers(0, k, size, self.dtype), rng.integers(0, k, size, self.dtype))

    def truth(self, records: Array) -> Any:
        """Return the true mean or frequencies of the records."""
        if self.dtype is np.bool_:
            return records.mean()
        if self.dtype is np.float64:
            return records.clip(*BOUNDS).mean()
        return np.bincount(records, minlength=self.mechanism.k) / records.size

    def work(self, records: Array, out: Array, threads: int) -> Work:
        """Randomise the records, into `out`."""
        return partial(self.mechanism.privatize, records, out=out, threads=threads)


def local_cases() -> tuple[LocalCase, ...]:
    """Return all cases of the speed table."""
    kary = (
        LocalCase(f"KaryResponse k={k}, {np.dtype(dtype).name}", local.KaryResponse(EPSILON, k=k), dtype, 1)
        for k in (16, 1024)
        for dtype in (np.int64, np.uint16)
    )
    return (
        LocalCase("BinaryResponse", local.BinaryResponse(EPSILON), np.bool_, 10),
        LocalCase("BoundedMean", local.BoundedMean(EPSILON, *BOUNDS), np.float64, 1),
        *kary,
        LocalCase("UnaryEncoding k=128", local.UnaryEncoding(EPSILON, k=128), np.int64, 0.1),
        LocalCase("SubsetSelection k=128", local.SubsetSelection(EPSILON, k=128), np.int64, 0.1),
        LocalCase("SubsetSelection k=1024", local.SubsetSelection(EPSILON, k=1024), np.int64, 0.01),
        LocalCase("LocalHashing k=1024", local.LocalHashing(EPSILON, k=1024), np.int64, 0.1),
        LocalCase("HadamardResponse k=1024", local.HadamardResponse(EPSILON, k=1024), np.int64, 0.1),
    )


def check_estimate(case: LocalCase, records: Array, reports: Any) -> None:
    """Raise if an estimate is more than seven standard errors from the truth, so that wrong answers are not timed.

    `reports` may be an aggregate.
    """
    estimate = case.mechanism.estimate(reports, target="sample")
    worst = float(np.max(np.abs(estimate.value - case.truth(records)) / estimate.stderr))
    if estimate.n != records.size or not worst < 7:
        raise AssertionError(f"{case.name}: {estimate.n} reports of {records.size} records, estimate {worst:.1f} standard errors off")


def _row(case: str, against: str, level: str, threads: int, timing: Timing, n: int, **more: Any) -> Row:
    """Return the row of a timing of `n` records; against a bound the ratio is our time divided by the bound."""
    ns, ratio = 1e9 / n, 1 / timing.ratio if more.get("bound") else timing.ratio
    return Row(case, against, level, threads, timing.ours * ns, timing.other * ns, ratio, **more)


def copying(values: Array) -> Work:
    """Copy an array to memory whose pages are mapped already."""
    target = np.empty_like(values)
    np.copyto(target, values)
    return partial(np.copyto, target, values)


def copy_row(case: LocalCase, records: Array, level: str, rounds: int) -> Row:
    """Compare with one copy of the records, on one thread each."""
    out = case.mechanism.privatize(records)
    timing = take_turns(case.work(records, out, 1), copying(records), rounds)
    check_estimate(case, records, out)
    return _row(case.name, "copy of its input", level, 1, timing, records.size, bound=True)


def thread_row(case: LocalCase, records: Array, level: str, threads: int, rounds: int) -> Row:
    """Compare all threads with one."""
    out = case.mechanism.privatize(records)
    timing = take_turns(case.work(records, out, threads), case.work(records, out, 1), rounds)
    check_estimate(case, records, out)
    return _row(case.name, "itself on one thread", level, threads, timing, records.size, target=0.85 * min(4, threads))


def packed_row(case: LocalCase, records: Array, level: str, rounds: int) -> Row:
    """Compare binary response of packed bits with that of bools."""
    mechanism, n, bits = case.mechanism, records.size, np.packbits(records, bitorder="little")
    out, packed = np.empty_like(records), np.empty_like(bits)
    packed_work = partial(mechanism.privatize_packed, bits, n=n, out=packed, threads=1)
    timing = take_turns(packed_work, case.work(records, out, 1), rounds)
    check_estimate(case, records, mechanism.aggregate_packed(packed, n=n))
    return _row(f"{case.name}, packed", "itself on bools", level, 1, timing, n, target=PACKED_TARGET)


def aggregate_row(copies: int, n: int, level: str, rounds: int) -> Row:
    """Compare counting of packed unary reports with one copy of them: `n` reports, repeated `copies` times."""
    mechanism = local.UnaryEncoding(EPSILON, k=128)
    few = np.frombuffer(np.random.default_rng(1).bytes(16 * n), np.uint8).reshape(n, 16)
    expected = sum(np.unpackbits(part, axis=1, bitorder="little").sum(0, np.int64) for part in np.array_split(few, 1 + n // 10_000))
    reports = np.tile(few, (copies, 1))
    timing = take_turns(partial(mechanism.aggregate, reports, threads=1), copying(reports), rounds)
    if not np.array_equal(mechanism.aggregate(reports).counts, copies * expected):
        raise AssertionError("UnaryEncoding: packed reports are not counted right")
    name = f"UnaryEncoding k=128, {len(reports):,} reports counted"
    return _row(name, "copy of its input", level, 1, timing, len(reports), target=AGGREGATE_TARGET, bound=True)


def transform_row(name: str, peer: Callable[[Array], Work], level: str, rounds: int) -> Row:
    """Compare the fast Walsh-Hadamard transform of 2^20 integers with the work of `peer`."""
    values = np.random.default_rng(1).integers(-1000, 1000, TRANSFORM_SIZE)
    timing = take_turns(partial(_backend.walsh_hadamard, values), peer(values), rounds)
    if not np.array_equal(_backend.walsh_hadamard(_backend.walsh_hadamard(values)), TRANSFORM_SIZE * values):
        raise AssertionError("the transform is not its own inverse, up to its size")
    return _row("Walsh-Hadamard transform of 2^20", name, level, 1, timing, TRANSFORM_SIZE)


def local_bounds(n: int, rounds: int) -> list[Row]:
    """Return the rows that need no peer, at every CPU level of this machine."""
    rows, threads = [], _backend.default_threads()
    for level in at_levels():
        for case in local_cases():
            records = case.records(n)
            rows.append(copy_row(case, records, level, rounds))
            if threads > 1:
                rows.append(thread_row(case, records, level, threads, rounds))
            if case.dtype is np.bool_:
                rows.append(packed_row(case, records, level, rounds))
        rows.extend(aggregate_row(copies, max(1, n // 10), level, rounds) for copies in (1, 16))
        rows.append(transform_row("copy of its input", copying, level, rounds))
    return rows
