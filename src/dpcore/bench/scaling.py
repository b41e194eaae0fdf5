"""Several threads beside one, and beside a copy by as many threads."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from dpcore.bench.benchmark import Benchmark, Character, Prepare, Side, Work

Array = npt.NDArray[Any]
ALONE = "itself on one thread"
COPY = "copy on as many threads"
ONE_COPY = "copy on one thread"


def thread_counts(cores: int) -> list[int]:
    """Numbers of threads of a scaling curve: up to 4 one by one, then powers of two, and all cores.

    Parameters
    ----------
    cores : int
        Most threads.

    Examples
    --------
    >>> thread_counts(1), thread_counts(2), thread_counts(12)
    ([], [2], [2, 3, 4, 8, 12])
    """
    counts = {2, 3, 4, cores} | {2**i for i in range(3, 12)}
    return sorted(count for count in counts if 2 <= count <= cores)


def copy_on(threads: int) -> Prepare:
    """Return what prepares a copy of the first input by several threads, to memory whose pages are mapped.

    Parameters
    ----------
    threads : int
        How many; each copies a part.
    """

    def prepare(inputs: tuple[Array, ...]) -> Work:
        source = inputs[0].reshape(-1)
        target = np.ones_like(source)
        if threads == 1:
            return partial(np.copyto, target, source)
        edges = np.linspace(0, source.size, threads + 1).astype(np.int64)
        parts = [(target[a:b], source[a:b]) for a, b in pairwise(edges)]
        workers = ThreadPoolExecutor(threads - 1, thread_name_prefix="dpcore-bench-copy")

        def work() -> None:
            others = [workers.submit(np.copyto, *part) for part in parts[1:]]
            np.copyto(*parts[0])
            for other in others:
                other.result()

        return work

    return prepare


def thread_benchmark(
    name: str,
    size: int,
    threads: int,
    inputs: Callable[[], Any],
    on: Callable[[int], Prepare],
    check: Callable[[Any, Any], None],
    *,
    bound_by: Character,
    unit: str = "value",
    quick: bool = False,
) -> Benchmark:
    """Work on several threads.

    Parameters
    ----------
    name, size, threads, inputs, check, unit, quick
        As in the benchmark. The first input is the array that is copied.
    on : callable
        From a number of threads to what prepares the work.
    bound_by : {"compute", "memory"}
        What more threads can at best give: as many times the speed, or that of a copy.
    """
    sides = [
        Side(name=ALONE, prepare=on(1), kind="itself"),
        Side(name=COPY, prepare=copy_on(threads), kind="bound"),
    ]
    if bound_by == "memory":
        sides.append(Side(name=ONE_COPY, prepare=copy_on(1), kind="bound"))
    return Benchmark(
        group="threads", name=name, size=size, unit=unit, threads=threads, inputs=inputs, ours=on(threads), check=check, sides=tuple(sides),
        character=bound_by, quick=quick,
    )  # fmt: skip
