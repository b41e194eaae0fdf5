"""All benchmarks, by group. `dpcore bench` and the files in `benchmarks/` run these and no others."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from dpcore.bench.benchmark import Benchmark, Plan
from dpcore.errors import ParameterError

Maker = Callable[[Plan], Iterator[Benchmark]]
TABLES = "tables"
"""Jobs on tables of 10^8 rows."""
INTEROP = "interop"
"""dpcore under other tools."""
BY_NAME = (TABLES, INTEROP)
"""Groups that a run has only if they are named."""
GROUPS: dict[str, str] = {
    "calls": "calls on few values, constructions and estimates, beside the key that a call takes",
    "noise": "noise on large arrays, beside other generators, the keystream and a copy",
    "curve": "noise against size, from one value on, beside NumPy",
    "local": "local randomisers, beside other packages and a copy",
    "selection": "selections, beside other packages and an argmax",
    "sums": "exact sums and private means, beside NumPy and a copy",
    "distributions": "releases of distributions and private tests, beside NumPy",
    "minimax": "estimates of the minimax engine, beside NumPy",
    "threads": "several threads, beside one and beside a copy by as many",
    "interactive": "the first answer of a process, questions about small tables, new parameters, beside DuckDB and the key",
    "start": "start-up of Python with dpcore and of the command, beside importing NumPy",
    TABLES: "jobs on files and questions about frames, beside pyarrow and DuckDB; only by --only tables",
    INTEROP: "dpcore under other tools, beside what they do themselves; only by --only interop",
}
"""What each group measures."""


def _makers(group: str) -> tuple[Maker, ...]:
    """What makes the benchmarks of a group; their modules are imported when they are asked for."""
    from dpcore.bench import calls, curve, distributions, interactive, interop, jobs, local, means, minimax, noise, selection, startup

    makers: dict[str, tuple[Maker, ...]] = {
        "calls": (calls.call_benchmarks,),
        "noise": (noise.noise_benchmarks,),
        "curve": (curve.curve_benchmarks,),
        "local": (local.local_benchmarks,),
        "selection": (selection.selection_benchmarks,),
        "sums": (means.sum_benchmarks,),
        "distributions": (distributions.distribution_benchmarks,),
        "minimax": (minimax.minimax_benchmarks,),
        "threads": (
            noise.thread_benchmarks, local.local_thread_benchmarks, selection.selection_thread_benchmarks, means.sum_thread_benchmarks,
        ),
        "interactive": (interactive.interactive_benchmarks,),
        "start": (startup.start_benchmarks,),
        TABLES: (jobs.table_benchmarks,),
        INTEROP: (interop.interop_benchmarks,),
    }  # fmt: skip
    return makers[group]


def benchmarks(plan: Plan, groups: tuple[str, ...] = ()) -> tuple[Benchmark, ...]:
    """Return the benchmarks of a run.

    Parameters
    ----------
    plan : Plan
        How much is measured.
    groups : tuple of str, optional
        Groups, keys of `GROUPS`. Default: all but tables and interop.

    Returns
    -------
    tuple of Benchmark
        In the order of the groups; each with a key of its own.

    Raises
    ------
    ParameterError
        If there is no such group.

    Notes
    -----
    Cost: under a second; nothing is measured.

    Examples
    --------
    >>> from dpcore.bench import Plan, benchmarks
    >>> {item.group for item in benchmarks(Plan(size=1000, largest=1000, cores=1, quick=True), ("noise",))}
    {'noise'}
    """
    for group in groups:
        if group not in GROUPS:
            raise ParameterError(f"there is no group {group!r} of benchmarks; the groups are {', '.join(GROUPS)}")
    chosen = groups or tuple(group for group in GROUPS if group not in BY_NAME)
    every = (item for group in GROUPS if group in chosen for maker in _makers(group) for item in maker(plan))
    return tuple(item for item in every if item.quick or not plan.quick)
