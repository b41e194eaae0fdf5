"""Local randomisers beside their peers and bounds: a copy of the input, packed bits beside bools, and estimates."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from dpcore import _backend, local
from dpcore._dataclasses import dataclass
from dpcore.bench._peers.estimates import ESTIMATE_PEERS, EstimatePeer, butterflies
from dpcore.bench._peers.local import BOUNDS, EPSILON, PEERS, LocalPeer
from dpcore.bench.benchmark import Benchmark, Plan, Prepare, Side, Work
from dpcore.bench.noise import copy
from dpcore.bench.scaling import thread_benchmark, thread_counts

Array = npt.NDArray[Any]
TRANSFORM_SIZE = 2**20
HASHED, POINTS = "LocalHashing k=1024", "ProjectiveGeometryResponse k=1024"
METHODS: tuple[Literal["sample", "hypercube"], ...] = ("sample", "hypercube")


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

    def size(self, n: int) -> int:
        """Number of records of a run with n values."""
        return max(1, round(n * self.share))

    def records(self, n: int) -> Array:
        """Made-up records, the same on every run; categories are not equally frequent."""
        size, rng = self.size(n), np.random.default_rng(1)
        if self.dtype is np.bool_:
            return rng.integers(0, 256, size, np.uint8) < 77
        if self.dtype is np.float64:
            shape = (size, self.mechanism.d) if isinstance(self.mechanism, local.VectorMean) else (size,)
            return rng.random(shape) * 1.25 * BOUNDS[1]
        k = self.mechanism.k
        return np.minimum(rng.integers(0, k, size, self.dtype), rng.integers(0, k, size, self.dtype))

    def truth(self, records: Array) -> Any:
        """Return the true mean or frequencies of the records."""
        if self.dtype is np.bool_:
            return records.mean()
        if self.dtype is np.float64:
            return records.clip(*BOUNDS).mean(axis=0)
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
        LocalCase(HASHED, local.LocalHashing(EPSILON, k=1024), np.int64, 0.1),
        LocalCase("LocalHashing k=16", local.LocalHashing(EPSILON, k=16), np.int64, 1),
        LocalCase("HadamardResponse k=16", local.HadamardResponse(EPSILON, k=16), np.int64, 1),
        LocalCase("HadamardResponse k=1024", local.HadamardResponse(EPSILON, k=1024), np.int64, 0.1),
        LocalCase(POINTS, local.ProjectiveGeometryResponse(EPSILON, k=1024), np.int64, 0.1),
        *(
            LocalCase(f"VectorMean d=16, {method}", local.VectorMean(EPSILON, *BOUNDS, d=16, method=method), np.float64, 0.05)
            for method in METHODS
        ),
    )


def check_estimate(case: LocalCase, records: Array, reports: Any) -> None:
    """Raise if an estimate is more than seven standard errors from the truth, so that wrong answers are not timed.

    `reports` may be an aggregate.
    """
    estimate = case.mechanism.estimate(reports, target="sample")
    worst = float(np.max(np.abs(estimate.value - case.truth(records)) / estimate.stderr))
    if estimate.n != len(records) or not worst < 7:
        raise AssertionError(f"{case.name}: {estimate.n} reports of {len(records)} records, estimate {worst:.1f} standard errors off")


def copying(values: Array) -> Work:
    """Copy an array to memory whose pages are mapped already."""
    return copy((values,))


def _inputs(case: LocalCase, n: int) -> tuple[Array, Array]:
    """Records, and a place for the reports."""
    records = case.records(n)
    return records, case.mechanism.privatize(records)


def _on(case: LocalCase, threads: int) -> Prepare:
    return lambda inputs: case.work(inputs[0], inputs[1], threads)


def _checked(case: LocalCase) -> Callable[[tuple[Array, Array], Any], None]:
    return lambda inputs, _result: check_estimate(case, *inputs)


def _peer(case: LocalCase, peer: LocalPeer) -> Side:
    """The peer as a side: our estimator judges its reports."""

    def part(inputs: tuple[Array, Array]) -> Array:
        return inputs[0][: peer.records]

    return Side(
        name=peer.name, package=peer.package, safe=peer.safe, size=peer.records,
        prepare=lambda inputs: peer.prepare(case.mechanism, part(inputs)),
        check=lambda inputs, result: check_estimate(case, part(inputs), peer.reports(case.mechanism, result)),
    )  # fmt: skip


def _instead(case: LocalCase) -> tuple[Side, ...]:
    """What else answers the same question: a bit about each of several numbers, and subsets for points of a projective space."""
    mechanism = case.mechanism
    if isinstance(mechanism, local.VectorMean):
        other: Any = local.BoundedMean(EPSILON / mechanism.d, *BOUNDS)
        name = f"BoundedMean of each of the {mechanism.d} numbers"
    elif isinstance(mechanism, local.ProjectiveGeometryResponse):
        other = local.SubsetSelection(EPSILON, k=mechanism.k)
        name = "SubsetSelection of the same records"
    else:
        return ()

    def prepare(made: tuple[Array, Array]) -> Work:
        return partial(other.privatize, made[0], out=other.privatize(made[0]), threads=1)

    def check(made: tuple[Array, Array], reports: Array) -> None:
        truth = case.truth(made[0])
        pairs = zip(reports.T, truth, strict=True) if isinstance(mechanism, local.VectorMean) else [(reports, truth)]
        for part, true in pairs:
            found = other.estimate(part, target="sample")
            if not np.max(np.abs(found.value - true) / found.stderr) < 7:
                raise AssertionError(f"{name}: an estimate is far from the truth")

    return (Side(name=name, prepare=prepare, check=check, kind="itself"),)


def _randomising(case: LocalCase, n: int) -> Benchmark:
    peers = (*(_peer(case, peer) for peer in PEERS if peer.ours == case.name), *_instead(case))
    return Benchmark(
        group="local", name=case.name, size=case.size(n), unit="record", inputs=partial(_inputs, case, n), ours=_on(case, 1),
        check=_checked(case), levels=True,
        sides=(*peers, Side(name="copy of the records", prepare=copy, kind="bound", judges=True)),
    )  # fmt: skip


@lru_cache(maxsize=1)
def finite_channel() -> local.FiniteChannel:
    """Return a channel of 200 inputs and 41 outcomes, of the kind that linear estimators take, with values of its outcomes."""
    inputs, values = np.linspace(-1.0, 1.0, 200), np.linspace(-2.0, 2.0, 41)
    rows = np.exp(EPSILON * np.clip(inputs[:, None] * np.sign(values), -0.5, 0.5) - values * values / 8)
    return local.FiniteChannel.at_level(rows / rows.sum(axis=1, keepdims=True), EPSILON, values=values.tolist())


def _finite(n: int) -> Benchmark:
    """A finite channel beside a k-ary response with as many outcomes."""
    kary = local.KaryResponse(EPSILON, k=41)

    def inputs() -> tuple[Array, Array, Array]:
        records = np.random.default_rng(1).integers(0, 200, n)
        return records, np.empty(n, np.uint8), np.empty(n, np.int64)

    def check(made: tuple[Array, ...], _result: Any) -> None:
        channel = finite_channel()
        matrix = channel.channel()
        found, truth = channel.estimate(made[1]), (matrix @ np.array(channel.values))[made[0]].mean()
        law, shares = matrix[made[0][: 1 << 20]].mean(axis=0), np.bincount(made[1], minlength=41) / n
        far = np.abs(shares - law).max() > 7 / np.sqrt(min(n, 1 << 20))
        if found.n != n or far or not abs(float(found.value) - truth) < 7 * float(found.stderr):
            raise AssertionError("FiniteChannel: the reports are far from what their rows say")

    return Benchmark(
        group="local", name="FiniteChannel 200 × 41, int64", size=n, unit="record", inputs=inputs, check=check, levels=True,
        ours=lambda made: partial(finite_channel().privatize, made[0], out=made[1], threads=1),
        sides=(
            Side(
                name="KaryResponse k=41", kind="itself",
                prepare=lambda made: partial(kary.privatize, np.minimum(made[0], 40), out=made[2], threads=1),
            ),
            Side(name="copy of the records", prepare=copy, kind="bound", judges=True),
        ),
    )  # fmt: skip


def _packed(case: LocalCase, n: int) -> Benchmark:
    """Binary response of packed bits beside that of bools."""
    mechanism, size = case.mechanism, case.size(n)

    def inputs() -> tuple[Array, Array, Array, Array]:
        records, out = _inputs(case, n)
        bits = np.packbits(records, bitorder="little")
        return bits, np.empty_like(bits), records, out

    def check(made: tuple[Array, ...], _result: Any) -> None:
        check_estimate(case, made[2], mechanism.aggregate_packed(made[1], n=size))

    return Benchmark(
        group="local", name=f"{case.name}, packed bits", size=size, unit="record", inputs=inputs, check=check, levels=True,
        ours=lambda made: partial(mechanism.privatize_packed, made[0], n=size, out=made[1], threads=1),
        sides=(
            Side(name="itself on bools", prepare=lambda made: case.work(made[2], made[3], 1), kind="itself"),
            Side(name="copy of the records", prepare=copy, kind="bound", judges=True),
        ),
    )  # fmt: skip


def _counting(copies: int, n: int) -> Benchmark:
    """Counting packed unary reports beside one copy of them: `n` reports, repeated `copies` times."""
    mechanism = local.UnaryEncoding(EPSILON, k=128)

    def few() -> Array:
        return np.frombuffer(np.random.default_rng(1).bytes(16 * n), np.uint8).reshape(n, 16)

    def check(_made: tuple[Array], result: Any) -> None:
        expected = sum(np.unpackbits(part, axis=1, bitorder="little").sum(0, np.int64) for part in np.array_split(few(), 1 + n // 10_000))
        if not np.array_equal(result.counts, copies * expected):
            raise AssertionError("UnaryEncoding: packed reports are not counted right")

    return Benchmark(
        group="local", name="UnaryEncoding k=128, reports counted", size=copies * n, unit="report",
        inputs=lambda: (np.tile(few(), (copies, 1)),), check=check, levels=copies > 1,
        ours=lambda made: partial(mechanism.aggregate, made[0], threads=1),
        sides=(Side(name="copy of the reports", prepare=copy, kind="bound", judges=True),),
    )  # fmt: skip


def _transform() -> Benchmark:
    """The fast Walsh-Hadamard transform of 2^20 integers."""

    def check(made: tuple[Array], result: Any) -> None:
        if not np.array_equal(_backend.walsh_hadamard(result), TRANSFORM_SIZE * made[0]):
            raise AssertionError("the transform is not its own inverse, up to its size")

    return Benchmark(
        group="local", name="Walsh-Hadamard transform of 2^20", size=TRANSFORM_SIZE, check=check,
        inputs=lambda: (np.random.default_rng(1).integers(-1000, 1000, TRANSFORM_SIZE),),
        ours=lambda made: partial(_backend.walsh_hadamard, made[0]),
        sides=(
            Side(name="NumPy butterflies", prepare=lambda made: butterflies(made[0])),
            Side(name="copy", prepare=copy, kind="bound", judges=True),
        ),
    )  # fmt: skip


def _decoding(case: LocalCase) -> Benchmark:
    """From counts of points to the frequencies of the categories, beside a product with the matrix of the hyperplanes."""
    mechanism = case.mechanism

    def inputs() -> tuple[Array, local.Aggregate, Array]:
        records, reports = _inputs(case, 10**6)
        matrix = mechanism.channel()
        return records, mechanism.aggregate(reports), np.where(matrix > matrix.min(), 1.0, 0.0)

    def product(made: tuple[Array, local.Aggregate, Array]) -> Work:
        _, counted, on = made
        p, q = mechanism.support.p, mechanism.support.q
        return lambda: (on @ counted.counts / counted.n - q) / (p - q)

    def agree(made: tuple[Array, local.Aggregate, Array], values: Array) -> None:
        if not np.allclose(values, mechanism.estimate(made[1]).value, rtol=0, atol=1e-9):
            raise AssertionError("ProjectiveGeometryResponse: the estimates are not those of a product with all hyperplanes")

    return Benchmark(
        group="local", name=f"{case.name}, estimate from counts", size=mechanism.k, unit="category", inputs=inputs, quick=False,
        check=lambda made, _result: check_estimate(case, made[0], made[1]), ours=lambda made: partial(mechanism.estimate, made[1]),
        sides=(Side(name="NumPy, a product with all hyperplanes", prepare=product, check=agree),),
    )  # fmt: skip


def _server(case: LocalCase, peer: EstimatePeer) -> Side:
    def check(_inputs: Any, result: Any) -> None:
        if np.argmax(result) != 3:
            raise AssertionError("the one category that there is has not the largest estimate")

    return Side(
        name=peer.name, package=peer.package, size=peer.records, check=check,
        prepare=lambda _made: peer.prepare(case.mechanism, peer.records),
    )  # fmt: skip


def _estimating(case: LocalCase, n: int) -> Benchmark:
    """From reports of local hashing to estimates."""
    mechanism = case.mechanism
    return Benchmark(
        group="local", name=f"{case.name}, estimate", size=case.size(n), unit="report", quick=False,
        inputs=partial(_inputs, case, n), check=_checked(case),
        ours=lambda made: lambda: mechanism.estimate(mechanism.aggregate(made[1], threads=1)),
        sides=tuple(_server(case, peer) for peer in ESTIMATE_PEERS),
    )  # fmt: skip


def local_benchmarks(plan: Plan) -> Iterator[Benchmark]:
    """All local randomisers of the speed table.

    Parameters
    ----------
    plan : Plan
        How much is measured.
    """
    for case in local_cases():
        yield _randomising(case, plan.size)
        if case.dtype is np.bool_:
            yield _packed(case, plan.size)
        if case.name == HASHED:
            yield _estimating(case, plan.size)
        if case.name == POINTS:
            yield _decoding(case)
    yield _finite(plan.size)
    for copies in (1, 16):
        yield _counting(copies, max(1, plan.size // 10))
    yield _transform()


def local_thread_benchmarks(plan: Plan) -> Iterator[Benchmark]:
    """The local randomisers on several threads, beside one.

    Parameters
    ----------
    plan : Plan
        How much is measured.
    """
    size = plan.threaded or plan.size
    for threads in thread_counts(plan.cores):
        for case in local_cases():
            yield thread_benchmark(
                case.name, case.size(size), threads, partial(_inputs, case, size), partial(_on, case), _checked(case), unit="record",
                bound_by="compute", quick=case.name in {"KaryResponse k=1024, int64", "UnaryEncoding k=128"},
            )  # fmt: skip
        yield _packed_on_threads(8 * size, threads)
        yield _counting_on_threads(max(1, size // 2), threads)


def _packed_on_threads(bits: int, threads: int) -> Benchmark:
    """Binary response of packed bits on several threads."""
    mechanism = local.BinaryResponse(EPSILON)
    set_bits = np.array([byte.bit_count() for byte in range(256)])

    def check(made: tuple[Array, Array], _result: Any) -> None:
        estimate = mechanism.estimate(mechanism.aggregate_packed(made[1], n=bits), target="sample")
        truth = float(np.bincount(made[0], minlength=256) @ set_bits) / bits
        if not abs(float(estimate.value) - truth) < 7 * float(estimate.stderr):
            raise AssertionError("BinaryResponse, packed bits: the estimate is far from the truth")

    def inputs() -> tuple[Array, Array]:
        records = np.random.default_rng(1).integers(0, 256, bits // 8, np.uint8)
        return records & 85, np.ones_like(records)

    return thread_benchmark(
        "BinaryResponse, packed bits", bits, threads, inputs,
        lambda count: lambda made: partial(mechanism.privatize_packed, made[0], n=bits, out=made[1], threads=count), check,
        bound_by="compute", unit="record", quick=True,
    )  # fmt: skip


def _counting_on_threads(n: int, threads: int) -> Benchmark:
    """Counting packed unary reports on several threads."""
    mechanism = local.UnaryEncoding(EPSILON, k=128)

    def check(made: tuple[Array], result: Any) -> None:
        if not np.array_equal(result.counts, mechanism.aggregate(made[0], threads=1).counts):
            raise AssertionError("UnaryEncoding: several threads count otherwise than one")

    return thread_benchmark(
        "UnaryEncoding k=128, reports counted", n, threads, lambda: (np.random.default_rng(1).integers(0, 256, (n, 16), np.uint8),),
        lambda count: lambda made: partial(mechanism.aggregate, made[0], threads=count), check, bound_by="memory", unit="report",
        quick=True,
    )  # fmt: skip
