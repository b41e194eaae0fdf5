"""The noise functions beside their peers, and beside two bounds of any implementation: making the random words, and copying the array."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from dpcore import _backend, noise
from dpcore._dataclasses import dataclass
from dpcore.bench._peers.noise import noise_peers
from dpcore.bench.benchmark import Benchmark, Plan, Prepare, Side, Work
from dpcore.bench.scaling import thread_benchmark, thread_counts
from dpcore.rng import SecureRandom

Array = npt.NDArray[Any]
IN_CACHE = 1 << 13
"""Number of values for which input, output and the copy of a bound stay in a second-level cache, wherever the system has put their pages:
with twice as many, one process in ten has pages that drive each other out."""
SCALES = 64
"""Distinct scales of a call that takes several."""
ONE_SCALE, ON_AES_NI = "itself with one scale", "keystream of AES-NI + copy"


@dataclass(frozen=True, slots=True)
class Case:
    """One noise function at one scale.

    Attributes
    ----------
    name : str
        Name in the report.
    function : callable
        A function of `dpcore.noise`.
    scale : float
        Scale of the noise.
    variance : float
        Variance of the noise, for the check of the answer.
    words : float
        64-bit random words for each value.
    """

    name: str
    function: Callable[..., Any]
    scale: float
    variance: float
    words: float = 1.0

    @property
    def dtype(self) -> type:
        """Type of values and results."""
        return np.int64 if self.name.startswith("discrete") else np.float64

    def arrays(self, n: int) -> tuple[Array, Array]:
        """Zeros, and a place for the result whose pages are mapped already.

        Parameters
        ----------
        n : int
            Number of values.

        Returns
        -------
        tuple of ndarray
            Two arrays of shape (n,).
        """
        return np.zeros(n, self.dtype), np.ones(n, self.dtype)

    def work(self, values: Array, out: Array, threads: int) -> Work:
        """Return the work to time: noise is added to `values`, into `out`.

        Parameters
        ----------
        values, out : ndarray
            Input and output, of one shape.
        threads : int
            Number of threads.

        Returns
        -------
        callable
            A function without arguments.
        """
        return partial(self.function, values, self.scale, out=out, threads=threads)

    def on(self, threads: int) -> Prepare:
        """Return what prepares the work on so many threads.

        Parameters
        ----------
        threads : int
            Number of threads.

        Returns
        -------
        callable
            From the two arrays to the work.
        """
        return lambda inputs: self.work(inputs[0], inputs[1], threads)


def _geometric_variance(t: float) -> float:
    r = np.exp(-1 / t)
    return float(2 * r / (1 - r) ** 2)


def cases() -> tuple[Case, ...]:
    """Return the cases of the speed table of the noise functions.

    Returns
    -------
    tuple of Case
        One for each function and scale.

    Notes
    -----
    Cost: some microseconds; nothing is timed.

    Examples
    --------
    >>> from dpcore.bench import cases
    >>> cases()[0].name
    'laplace'
    """
    gaussians = (Case(f"discrete_gaussian σ={s:g}", noise.discrete_gaussian, s, s * s, 1.0 if s < 8 else 1.25) for s in (3.0, 10.0, 1000.0))
    return (
        Case("laplace", noise.laplace, 1.7, 2 * 1.7**2),
        Case("gaussian", noise.gaussian, 1.7, 1.7**2),
        Case("discrete_laplace", noise.discrete_laplace, 9.5, _geometric_variance(9.5)),
        *gaussians,
    )


def check_answer(case: Case, noise_of_zeros: Array) -> None:
    """Raise if the mean or the variance of noise is more than seven standard errors off.

    Parameters
    ----------
    case : Case
        The function that made the noise.
    noise_of_zeros : ndarray
        Noise that was added to zeros.

    Returns
    -------
    None
        If both agree.

    Raises
    ------
    AssertionError
        If one of them is off.

    Notes
    -----
    Cost: two passes over the array.

    Examples
    --------
    >>> import numpy as np
    >>> from dpcore.bench import cases, check_answer
    >>> check_answer(cases()[0], np.zeros(1000))
    Traceback (most recent call last):
    ...
    AssertionError: laplace: mean 0.0, mean square 0.0, expected 0 and 5.779999999999999
    """
    n = noise_of_zeros.size
    mean, variance = float(noise_of_zeros.mean(dtype=np.float64)), float(np.square(noise_of_zeros, dtype=np.float64).mean())
    # the variance of the square is at most five variances squared for these laws (Laplace has the most)
    off = abs(mean) > 7 * (case.variance / n) ** 0.5, abs(variance - case.variance) > 7 * (5 / n) ** 0.5 * case.variance
    if any(off):
        raise AssertionError(f"{case.name}: mean {mean!r}, mean square {variance!r}, expected 0 and {case.variance!r}")


def keystream_and_copy(words: float, cipher: str | None = None) -> Prepare:
    """Return what prepares a bound: the random words, made in the cache, and one copy of the values.

    Parameters
    ----------
    words : float
        64-bit words for each value.
    cipher : str, optional
        "chacha20" or "aes256". Default: that of the secure source, at the CPU level of the call.
    """

    def prepare(inputs: tuple[Array, ...]) -> Work:
        values, target = inputs[0], np.ones_like(inputs[0])
        count = int(words * values.size)

        def work() -> None:
            _backend.make_keystream(count, cipher or _backend.secure_cipher())
            np.copyto(target, values)

        return work

    return prepare


def _on_aes_ni(words: float) -> Prepare:
    """The same at x86_v3 with one block an instruction, as on CPUs without VAES."""

    def prepare(inputs: tuple[Array, ...]) -> Work:
        bound = keystream_and_copy(words)(inputs)

        def work() -> None:
            _backend.select_level("x86_v3", vaes=False)
            bound()
            _backend.select_level("x86_v3")

        return work

    return prepare


def copy(inputs: tuple[Array, ...]) -> Work:
    """Prepare a copy of the values to memory whose pages are mapped.

    Parameters
    ----------
    inputs : tuple of ndarray
        The first is copied.
    """
    return partial(np.copyto, np.ones_like(inputs[0]), inputs[0])


def bounds_of(case: Case) -> tuple[Side, ...]:
    """The bounds of a noise function.

    Parameters
    ----------
    case : Case
        The function.
    """
    sides = [Side(name="keystream + copy", prepare=keystream_and_copy(case.words), kind="bound", judges=True)]
    has_aes = _backend.secure_cipher() == "aes256"
    if has_aes:
        sides.append(Side(name="ChaCha20 keystream + copy", prepare=keystream_and_copy(case.words, "chacha20"), kind="bound"))
    if has_aes and _backend.selected_level() == "x86_v3":
        sides.append(Side(name=ON_AES_NI, prepare=_on_aes_ni(case.words), kind="bound"))
    sides.append(Side(name="copy", prepare=copy, kind="bound"))
    return tuple(sides)


def _checked(case: Case) -> Callable[[tuple[Array, Array], Any], None]:
    return lambda inputs, _result: check_answer(case, inputs[1])


def _rows(case: Case, plan: Plan) -> Iterator[Benchmark]:
    more: dict[str, Any] = {"group": "noise", "ours": case.on(1), "check": _checked(case)}
    yield Benchmark(
        name=f"{case.name}, in cache", size=IN_CACHE, inputs=partial(case.arrays, IN_CACHE), character="cache", levels=True,
        sides=bounds_of(case), **more,
    )  # fmt: skip
    yield Benchmark(
        name=case.name, size=plan.size, inputs=partial(case.arrays, plan.size), levels=True,
        sides=(*noise_peers(case.name, case.scale), *bounds_of(case)), **more,
    )  # fmt: skip
    if not case.name.endswith("σ=3") and not case.name.endswith("σ=1000"):
        yield from _several_scales(case, plan)
    if case.dtype is np.float64:
        yield _single_precision(case, plan)
    if not case.name.endswith("σ=3"):
        yield _constant_work(case)
    if case.name in {"laplace", "discrete_laplace"}:
        yield _fresh_output(case, plan)


def _several_scales(case: Case, plan: Plan) -> Iterator[Benchmark]:
    """Calls whose values have different scales, beside a call with one: a row of scales for all rows, and a scale for each value."""
    rows = max(1, plan.size // (10 * SCALES))
    row = np.linspace(case.scale, 2 * case.scale, SCALES)
    each = np.random.default_rng(1).permuted(np.tile(row, rows)).reshape(rows, SCALES)

    def inputs() -> tuple[Array, Array]:
        values, out = case.arrays(rows * SCALES)
        return values.reshape(rows, SCALES), out.reshape(rows, SCALES)

    for name, scales in ((f"{SCALES} scales in one call", row), ("a scale for each value", each)):
        yield Benchmark(
            group="noise", name=f"{case.name}, {name}", size=rows * SCALES, inputs=inputs, ours=_with_scales(case, scales),
            sides=(Side(name=ONE_SCALE, prepare=case.on(1), kind="itself"), bounds_of(case)[0]),
        )  # fmt: skip


def _with_scales(case: Case, scales: Array) -> Prepare:
    return lambda inputs: partial(case.function, inputs[0], scales, out=inputs[1], threads=1)


def _single_precision(case: Case, plan: Plan) -> Benchmark:
    """Values and results in float32, beside those in float64."""

    def inputs() -> tuple[Array, ...]:
        values, out = case.arrays(plan.size)
        return values.astype(np.float32), out.astype(np.float32), values, out

    return Benchmark(
        group="noise", name=f"{case.name}, float32 out=", size=plan.size, inputs=inputs, ours=case.on(1), check=_checked(case),
        sides=(
            Side(name="itself in float64", prepare=lambda made: case.work(made[2], made[3], 1), kind="itself"),
            bounds_of(case)[0],
        ),
    )  # fmt: skip


def _constant_work(case: Case) -> Benchmark:
    """Calls whose work depends on sizes and parameters alone, beside ordinary ones."""

    def constant(inputs: tuple[Array, Array]) -> Work:
        source = SecureRandom(constant_work=True)
        return partial(case.function, inputs[0], case.scale, out=inputs[1], threads=1, rng=source)

    return Benchmark(
        group="noise", name=f"{case.name}, constant work", size=IN_CACHE, inputs=partial(case.arrays, IN_CACHE), ours=constant,
        check=_checked(case), sides=(Side(name="itself without", prepare=case.on(1), kind="itself"), bounds_of(case)[0]),
    )  # fmt: skip


def _fresh_output(case: Case, plan: Plan) -> Benchmark:
    """A call that makes its own output, beside a copy into new memory."""

    def fresh(inputs: tuple[Array, Array]) -> Work:
        return partial(case.function, inputs[0], case.scale, threads=1)

    def new_copy(inputs: tuple[Array, Array]) -> Work:
        return inputs[1].copy

    sides = (
        Side(name="copy to new memory", prepare=new_copy, kind="bound", judges=True),
        Side(name="itself with out=", prepare=case.on(1), kind="itself"),
    )
    return Benchmark(
        group="noise", name=f"{case.name}, new output", size=plan.size, inputs=partial(case.arrays, plan.size), ours=fresh, sides=sides,
        check=lambda _inputs, result: check_answer(case, result),
    )  # fmt: skip


def noise_benchmarks(plan: Plan) -> Iterator[Benchmark]:
    """The noise functions on large arrays, at every CPU level.

    Parameters
    ----------
    plan : Plan
        How much is measured.
    """
    for case in cases():
        yield from _rows(case, plan)
    narrow = Case("discrete_gaussian σ=1", noise.discrete_gaussian, 1.0, 1.0, 1.0)
    yield Benchmark(
        group="noise", name=narrow.name, size=plan.size, inputs=partial(narrow.arrays, plan.size), levels=True,
        ours=narrow.on(1), sides=bounds_of(narrow), check=_checked(narrow),
    )  # fmt: skip


def thread_benchmarks(plan: Plan) -> Iterator[Benchmark]:
    """The noise functions on 2, 3, 4 and all threads, beside one.

    Parameters
    ----------
    plan : Plan
        How much is measured.
    """
    size = plan.threaded or plan.size
    for case in cases():
        for threads in thread_counts(plan.cores):
            yield thread_benchmark(
                case.name, size, threads, partial(case.arrays, size), case.on, _checked(case), bound_by="compute",
                quick=case.name in {"laplace", "discrete_gaussian σ=10"},
            )  # fmt: skip
