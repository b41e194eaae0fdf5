"""Runs of a mechanism on an input: the kinds of mechanisms, the randomness and the blocks."""

from __future__ import annotations

import inspect
import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcore import _backend, local, mechanisms, noise
from dpcore._dataclasses import dataclass
from dpcore._validation import check_unmasked
from dpcore.errors import ParameterError, ParameterTypeError
from dpcore.privacy import Privacy
from dpcore.rng import Stream, StreamPosition

if TYPE_CHECKING:
    import numpy.typing as npt

Array = Any
"""An ndarray of any dtype."""
Draw = Callable[[Any, int, Stream], Array]
"""From (input, number of runs, randomness) to outputs, one for each run along the first axis."""

PROBE = 512
"""Runs of the first two calls, which show the size of an output."""
BLOCK_BYTES, MOST_RUNS = 1 << 19, 1 << 16
"""Limits of a block of runs."""
ROUNDING = 1e-9
"""Relative excess over the sensitivity that inputs may have, because 0.3 − 0.1 and 0.2 are different floats."""


# Randomness


def plain_outputs(outputs: object) -> npt.NDArray[Any]:
    """Outputs of a mechanism as an array. Masked ones are refused: their mask tells something, and the numbers below it may not."""
    check_unmasked("outputs of mechanism", outputs)
    return np.asarray(outputs)


@dataclass(slots=True)
class Substream:
    """The keyed stream of one block: call c takes nonce c of a key of the block's own."""

    key: bytes
    calls: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def secure(self) -> bool:
        """Always False: only keyed streams are divided."""
        return False

    def position(self) -> StreamPosition:
        """Position of the next call."""
        with self.lock:
            self.calls += 1
            return StreamPosition(self.key, self.calls - 1)


def substreams(stream: Stream) -> Callable[[int], Stream]:
    """Return the randomness of a block by its number, so that results do not depend on the number of threads."""
    if stream.secure:
        return lambda _: stream
    start = stream.position()

    def block(number: int) -> Stream:
        words = _backend.uniform_words(start._replace(first_element=start.first_element + 4 * number), 4)
        return Substream(words.astype("<u8").tobytes())

    return block


# Kinds of mechanisms


@dataclass(frozen=True)
class Source:
    """A mechanism that can be run on either of two inputs.

    Attributes
    ----------
    draw : callable
        Runs it.
    inputs : tuple
        x0 and x1.
    privacy : Privacy or None
        The claim.
    mechanism : object
        The mechanism as given.
    concurrent : bool
        Whether `draw` may be called on several threads by default.
    """

    draw: Draw
    inputs: tuple[Any, Any]
    privacy: Privacy | None
    mechanism: Any
    concurrent: bool


def open_source(mechanism: Any, x0: Any, x1: Any, privacy: Privacy | None, rng: Stream | None) -> Source:
    """Return how to run a mechanism, after a check of its inputs."""
    claim = _claim(mechanism, privacy)
    ours = type(mechanism).__module__.startswith(("dpcore.local.", "dpcore.mechanisms"))
    if isinstance(mechanism, local.SequentialChannel | local.SequentialQuantile):
        return Source(_sequential(mechanism), _records(x0, x1), claim, mechanism, concurrent=False)
    if callable(getattr(mechanism, "privatize", None)):
        for name, x in (("x0", x0), ("x1", x1)):
            if np.ndim(x) != 0:
                raise ParameterError(
                    f"{name} must be a single record, because the mechanism privatises each record alone, got shape {np.shape(x)}"
                )
        return Source(_privatized(mechanism), (x0, x1), claim, mechanism, concurrent=ours)
    if callable(getattr(mechanism, "release", None)):
        inputs = _answers(x0, x1)
        if privacy is None and ours:
            _check_neighbours(mechanism, *inputs)
        return Source(_released(mechanism), inputs, claim, mechanism, concurrent=ours)
    return Source(_function(mechanism, rng), (x0, x1), claim, mechanism, concurrent=False)


def _claim(mechanism: Any, privacy: Privacy | None) -> Privacy | None:
    """Return the claim about the mechanism, if there is one; raise if the mechanism cannot be run."""
    if privacy is not None and not isinstance(privacy, Privacy):
        raise ParameterTypeError(f"privacy must be a dpcore.Privacy or None, got {type(privacy).__name__}")
    if isinstance(mechanism, type):
        raise ParameterTypeError(
            f"mechanism must be an object, got the class {mechanism.__name__}: write {mechanism.__name__}(...) with its parameters"
        )
    if not any(callable(getattr(mechanism, name, None)) for name in ("privatize", "release", "__call__")):
        raise ParameterTypeError(
            "mechanism must be an object of dpcore.mechanisms or dpcore.local, a function run(x, size, rng) that returns the outputs of "
            f"`size` runs, or a function of x alone that makes one run, got {type(mechanism).__name__}"
        )
    own = getattr(mechanism, "privacy", None)
    return privacy if privacy is not None else own if isinstance(own, Privacy) else None


def _answers(x0: Any, x1: Any) -> tuple[Array, Array]:
    """Two arrays of answers of one shape."""
    first, second = np.asarray(x0), np.asarray(x1)
    if first.shape != second.shape:
        raise ParameterError(f"x0 and x1 must have one shape, got {first.shape} and {second.shape}")
    return first, second


def _check_neighbours(mechanism: Any, x0: Array, x1: Array) -> None:
    """Raise unless the inputs are within the mechanism's sensitivity of each other."""
    moved = np.abs(x1.astype(np.float64) - x0.astype(np.float64)).reshape(-1)
    first_norm = isinstance(mechanism, mechanisms.Laplace | mechanisms.DiscreteLaplace)
    distance = math.fsum(moved) if first_norm else math.sqrt(math.fsum(moved**2))
    if not distance <= mechanism.sensitivity * (1 + ROUNDING):
        raise ParameterError(
            f"x0 and x1 must be within the mechanism's sensitivity {mechanism.sensitivity!r} of each other in "
            f"ℓ{1 if first_norm else 2}, got distance {distance!r}; to audit other inputs, state the claim with privacy=Privacy(...)"
        )


def _released(mechanism: Any) -> Draw:
    """Runs of a mechanism that adds noise to answers."""

    def draw(x: Array, size: int, rng: Stream) -> Array:
        answers = np.broadcast_to(x, (size, *x.shape))
        # Its δ holds for one integer, so it refuses arrays. Here each entry is a separate run.
        if isinstance(mechanism, mechanisms.DiscreteGaussian) and mechanism.method == "exact" and x.size <= 1:
            return noise.discrete_gaussian(answers, mechanism.scale, rng=rng, threads=1)
        return mechanism.release(answers, rng=rng, threads=1)

    return draw


def _privatized(mechanism: Any) -> Draw:
    """Runs of a local mechanism: one record, many times."""

    def draw(x: Any, size: int, rng: Stream) -> Array:
        return mechanism.privatize(np.full(size, x), rng=rng, threads=1)

    return draw


# Functions


def takes(function: Callable[..., Any], count: int) -> bool:
    """Whether a function can be called with so many positional arguments; True if its signature is unknown."""
    try:
        inspect.signature(function).bind(*[None] * count)
    except TypeError:
        return False
    except ValueError:
        return True
    return True


def _function(run: Callable[..., Any], rng: Stream | None) -> Draw:
    """Runs of a function: of `size` runs with its randomness, or of one run that draws its own randomness."""
    if takes(run, 3):
        return run
    name = getattr(run, "__name__", type(run).__name__)
    if not takes(run, 1):
        raise ParameterTypeError(
            f"mechanism must be a function run(x, size, rng) that returns the outputs of `size` runs, got {name}{inspect.signature(run)}; "
            "for a function of x and a stream that makes one run, write audit(repeat(function), x0, x1)"
        )
    if rng is not None:
        raise ParameterError(
            f"rng must be None for a function of one argument, which draws its own randomness, got {type(rng).__name__} for {name}; write "
            "audit(repeat(lambda x, rng: ...), x0, x1, rng=rng), where the function draws from rng"
        )
    return lambda x, size, _: plain_outputs([run(x) for _ in range(size)])


# Protocols that ask one record after the other


def _records(x0: Any, x1: Any) -> tuple[Array, Array]:
    """Return two vectors of records that differ in at most one record."""
    first, second = np.asarray(x0), np.asarray(x1)
    if first.ndim != 1 or first.shape != second.shape or first.size == 0:
        raise ParameterError(
            f"x0 and x1 must be vectors of the same number of records, at least one, got shapes {first.shape} and {second.shape}"
        )
    differ = int(np.count_nonzero(first != second))
    if differ > 1:
        raise ParameterError(f"x0 and x1 must differ in at most one record, got {differ} different records")
    return first, second


def _sequential(mechanism: local.SequentialChannel | local.SequentialQuantile) -> Draw:
    """Runs of a protocol, one in each row: the reports and, for a quantile, the estimate after them."""

    def draw(x: Array, size: int, rng: Stream) -> Array:
        rows = np.empty((size, len(x) + isinstance(mechanism, local.SequentialQuantile)))
        for row in rows:
            if isinstance(mechanism, local.SequentialQuantile):
                quantile = mechanism.privatize(x, rng=rng, threads=1)
                row[:-1], row[-1] = quantile.reports, quantile.value
            else:
                row[:] = [as_number(report) for report in mechanism.privatize(x, rng=rng, threads=1)]
        return rows

    return draw


def as_number(report: Any) -> float:
    """Return a number unchanged, and 52 bits of a code for anything else."""
    if np.ndim(report) == 0 and np.asarray(report).dtype.kind in "biuf":
        return float(report)
    array = np.asarray(report)
    return float(codes_of_rows(array.reshape(1, -1))[0] >> 12 & (2**52 - 1))


def codes_of_rows(rows: Array) -> npt.NDArray[np.int64]:
    """Return one integer for each row: its bytes if they are at most eight, else 64 bits mixed from all bytes.

    A function of outputs is post-processing. So different rows with one integer can hide a violation and cannot cause one.
    """
    size = len(rows)
    bytes_of = np.ascontiguousarray(rows).view(np.uint8).reshape(size, -1)
    padded = np.zeros((size, -(-bytes_of.shape[1] // 8) * 8), np.uint8)
    padded[:, : bytes_of.shape[1]] = bytes_of
    words = padded.view("<u8")
    code = words[:, 0].astype(np.uint64)
    for column in words.T[1:]:
        code = (code ^ (code >> np.uint64(29))) * np.uint64(0x9E3779B97F4A7C15)
        code = (code ^ column) * np.uint64(0xBF58476D1CE4E5B9)
        code ^= code >> np.uint64(32)
    return code.view(np.int64)


# Blocks


@dataclass(frozen=True)
class Job:
    """A block of runs on one input."""

    number: int
    which: int
    size: int


@dataclass
class Runner:
    """Runs a source block by block, on threads, and reports progress.

    Attributes
    ----------
    source : Source
        What to run.
    stream_of : callable
        Randomness of a block, by its number.
    threads : int or None
        Number of threads; None picks.
    progress : callable or None
        Called as progress(done, total) after each block of runs.
    total : int
        Total number of runs.
    """

    source: Source
    stream_of: Callable[[int], Stream]
    threads: int | None
    progress: Callable[[int, int], object] | None
    total: int
    block: int = PROBE
    shape: tuple[int, ...] | None = None
    done: int = 0
    numbers: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def outputs(self, job: Job) -> Array:
        """Return the outputs of a block after a check: one for each run, numbers or records of numbers, all of one shape."""
        drawn = self.source.draw(self.source.inputs[job.which], job.size, self.stream_of(job.number))
        outputs = plain_outputs(drawn)
        if outputs.ndim == 0 or len(outputs) != job.size:
            raise ParameterError(
                f"mechanism must return one output for each of {job.size} runs along the first axis, got shape {outputs.shape}; for a "
                "function that makes one run, write audit(repeat(function), x0, x1)"
            )
        if outputs.dtype.kind not in "biuf" and outputs.dtype.names is None:
            hint = "; give labels as numbers, for instance labels.index(answer)" if outputs.dtype.kind in "US" else ""
            raise ParameterTypeError(f"mechanism must return numbers or records of numbers, got dtype {outputs.dtype}{hint}")
        with self.lock:
            shape = self.shape = self.shape or outputs.shape[1:]
        if outputs.shape[1:] != shape:
            raise ParameterError(f"mechanism must return outputs of one shape, got {shape} and {outputs.shape[1:]}")
        return outputs

    def probe(self) -> Array:
        """Return a few outputs on both inputs. They determine the size of blocks and the features, and are not counted."""
        outputs = np.concatenate([self.outputs(Job(self._next(), which, min(PROBE, self.total // 8))) for which in (0, 1)])
        row = max(1, outputs.nbytes // len(outputs))
        self.block = max(1, min(MOST_RUNS, BLOCK_BYTES // row))
        return outputs

    def _next(self) -> int:
        self.numbers += 1
        return self.numbers - 1

    def jobs(self, runs: int) -> list[Job]:
        """Return the blocks of a number of runs on each input."""
        sizes = [min(self.block, runs - start) for start in range(0, runs, self.block)]
        return [Job(self._next(), which, size) for size in sizes for which in (0, 1)]

    def each(self, jobs: Sequence[Job], work: Callable[[Job, Array], None]) -> None:
        """Call `work` with every job and its outputs, in any order and on several threads."""

        def run(start: int, stop: int) -> None:
            for job in jobs[start:stop]:
                work(job, self.outputs(job))
                with self.lock:
                    self.done += job.size
                    if self.progress is not None:
                        self.progress(self.done, self.total)

        threads = self.threads if self.threads is not None or self.source.concurrent else 1
        _backend.for_ranges(run, len(jobs), threads, elements_per_unit=0.0)  # a chunk is one job
