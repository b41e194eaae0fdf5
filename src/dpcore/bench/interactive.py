"""What a person waits for: the first answer of a process, questions about small tables, and mechanisms at parameters that are new."""

from __future__ import annotations

import itertools
import tempfile
import weakref
from collections.abc import Callable, Iterator
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from dpcore import mechanisms, noise, sums
from dpcore.bench.benchmark import Benchmark, Character, Plan, Prepare, Side, Work
from dpcore.bench.calls import KEY
from dpcore.bench.startup import fresh

ROWS, OF_DASHBOARD, QUESTIONS = 1000, 100_000, 100
"""Rows of a small table and of the one behind a dashboard, and the questions of the dashboard."""
FEW, ROWS_PER_UNIT = 5, 5
PEOPLE, PAY, EPSILON, DELTA = 300, 1000.0, 1.0, 1e-6
FAR = 60.0
"""Scales of noise: an answer is further from the truth with probability below 10^-25."""
FINE = 2.0**-30
"""Step from one new parameter to the next; none comes twice in a run."""
STEPS = itertools.count(1)
ALONE_PROGRAM = """\
import numpy, pyarrow.compute, pyarrow.parquet, pydantic{more}
class Asked(pydantic.BaseModel):
    epsilon: float
Asked(epsilon=1.0)
pyarrow.parquet.read_table({path!r})
"""
"""The packages that a first question or a release needs, and the file."""
FIRST_QUESTION = """\
import pyarrow.parquet
from dpcore import PrivateTable
print(PrivateTable(pyarrow.parquet.read_table({path!r})).mean("pay", lower=0, upper=1000, epsilon=1.0))
"""
JOB = """\
version = 1
input.path = "{table}"
output.path = "{answers}"
privacy.max_epsilon = 1.0
[[query]]
name = "pay"
kind = "mean"
column = "pay"
lower = 0
upper = 1000
epsilon = 1.0
"""
ALONE, WITHOUT_NOISE = "the packages alone", "DuckDB answers without noise"


def small_table(rows: int) -> Any:
    """People with their age, pay and town.

    Parameters
    ----------
    rows : int
        How many.
    """
    import pyarrow as pa

    rng = np.random.default_rng(1)
    towns = np.array(["a", "b", "c"])[rng.integers(0, 3, rows)]
    return pa.table({
        "age": rng.integers(18, 90, rows), "pay": rng.uniform(0.0, PAY, rows), "town": towns, "person": rng.integers(0, PEOPLE, rows),
    })  # fmt: skip


def condition(number: int) -> str:
    """A condition that no question before had.

    Parameters
    ----------
    number : int
        Of the question.
    """
    return f"age > {20 + number % 60} and pay > {number % 100 + FINE * (number + 1)} and town <> '{'abc'[number % 3]}'"


class _Folder:
    """The file of a process's first question, and its job."""

    @cached_property
    def path(self) -> Path:
        """Where they are; the folder is removed with the object."""
        import pyarrow.parquet as pq

        folder = tempfile.TemporaryDirectory(prefix="dpcore-bench-")
        weakref.finalize(self, folder.cleanup)
        path = Path(folder.name)
        pq.write_table(small_table(ROWS), path / "rows.parquet")
        places = {"table": (path / "rows.parquet").as_posix(), "answers": (path / "answers.json").as_posix()}
        (path / "job.toml").write_text(JOB.format(**places), encoding="utf-8")
        return path


def _first_answers() -> Iterator[Benchmark]:
    """The first question of a process, and a release from the shell."""

    def question(made: _Folder) -> Work:
        return fresh("-c", FIRST_QUESTION.format(path=(made.path / "rows.parquet").as_posix()))

    def release(made: _Folder) -> Work:
        return fresh("-m", "dpcore.cli", "release", (made.path / "job.toml").as_posix(), "--overwrite")

    for name, ours, more in (("first question", question, ""), ("dpcore release", release, ", click, rich.console, rich.table")):
        alone = Side(name=ALONE, kind="bound", package="pyarrow", prepare=partial(_packages, more), judges=True)
        yield Benchmark(
            group="interactive", name=f"{name}, a new process, {ROWS:,} rows", size=1, unit="process", inputs=_Folder, ours=ours,
            sides=(alone,), children=True, character="whole", weight=4.0, package="duckdb",
        )  # fmt: skip


def _packages(more: str, made: _Folder) -> Work:
    return fresh("-c", ALONE_PROGRAM.format(more=more, path=(made.path / "rows.parquet").as_posix()))


def check_mean(made: Any, answer: Any) -> None:
    """Raise if an answer is far from the mean pay of the rows that it is about.

    Parameters
    ----------
    made : tuple
        The table of pyarrow, and whether the question has the first condition.
    answer : object
        Of `PrivateTable`.
    """
    table, filtered = made
    pay, age, town = (table[name].to_numpy(zero_copy_only=False) for name in ("pay", "age", "town"))
    chosen = (age > 20) & (pay > FINE) & (town != "a") if filtered else np.ones(len(pay), bool)
    if abs(answer.value - pay[chosen].mean()) > FAR * ROWS_PER_UNIT * PAY / EPSILON / chosen.sum():
        raise AssertionError("interactive: an answer is wrong")


def ask(table: Any, number: int | None = None) -> Any:
    """The mean pay, of the rows of a condition if a number is given.

    Parameters
    ----------
    table : PrivateTable
        The table.
    number : int, optional
        Of the condition.
    """
    chosen = table if number is None else table.where(condition(number))
    return chosen.mean("pay", lower=0, upper=PAY, epsilon=EPSILON)


def _of_polars(table: Any, privacy: dict[str, Any]) -> Any:
    import polars as pl

    from dpcore import PrivateTable

    return PrivateTable(pl.from_arrow(table), **privacy)


def _asking(privacy: dict[str, Any], made: tuple[Any, bool]) -> Work:
    table, numbers = _of_polars(made[0], privacy), itertools.count()
    return lambda: ask(table, next(numbers) if made[1] else None)


def _dashboard(made: tuple[Any, bool]) -> Work:
    table, numbers = _of_polars(made[0], {}), itertools.count()
    return lambda: [ask(table, number) for number in itertools.islice(numbers, QUESTIONS)]


def _by_duckdb(questions: int, *, filtered: bool) -> Side:
    """The same questions without noise, each to a database of its own."""

    def answers(table: Any, numbers: Iterator[int]) -> list[Any]:
        import duckdb

        found = []
        for number in itertools.islice(numbers, questions):
            where = f" where {condition(number)}" if filtered else ""
            with duckdb.connect(":memory:", config={"threads": 1}) as database:
                database.register("given", table)
                found.append(database.execute(f"select avg(least(greatest(pay, 0), {PAY})) from given{where}").fetchone())
        return found

    def prepare(made: tuple[Any, bool]) -> Work:
        return partial(answers, made[0], itertools.count())

    return Side(name=WITHOUT_NOISE, kind="bound", package="duckdb", prepare=prepare, judges=True)


def _questions() -> Iterator[Benchmark]:
    """One question about 1,000 rows in memory, and a dashboard."""
    cases: tuple[tuple[str, dict[str, Any], bool], ...] = (
        ("a mean", {}, False),
        ("a mean where", {}, True),
        ("a mean, units", {"unit": "person", "max_rows_per_unit": ROWS_PER_UNIT}, False),
    )
    for name, privacy, filtered in cases:
        yield Benchmark(
            group="interactive", name=f"{name}, {ROWS:,} rows of polars", size=1, unit="question", character="whole", package="polars",
            inputs=partial(_inputs, ROWS, filtered=filtered), ours=partial(_asking, privacy), sides=(_by_duckdb(1, filtered=filtered),),
            check=check_mean,
        )  # fmt: skip
    yield Benchmark(
        group="interactive", name=f"{QUESTIONS} different means where, {OF_DASHBOARD:,} rows of polars", size=1, unit="dashboard",
        inputs=partial(_inputs, OF_DASHBOARD, filtered=True), ours=_dashboard, sides=(_by_duckdb(QUESTIONS, filtered=True),),
        check=lambda made, answers: check_mean(made, answers[0]), character="whole", package="polars", weight=4.0,
    )  # fmt: skip


def _inputs(rows: int, *, filtered: bool) -> tuple[Any, bool]:
    return small_table(rows), filtered


def _new(make: Callable[[float], object], start: float) -> Prepare:
    """The work of a call with a parameter that no call before had."""

    def prepare(_inputs: object) -> Work:
        return lambda: make(start * (1 + FINE * next(STEPS)))

    return prepare


def _parameters() -> Iterator[Benchmark]:
    """Mechanisms, their accuracy, and noise at parameters that are new."""
    values = np.zeros(FEW, np.int64)

    def released(make: Callable[..., Any], zero: float, epsilon: float) -> object:
        return make(epsilon, DELTA, 1).release(zero)

    def accuracy(make: Callable[..., Any], epsilon: float) -> object:
        return make(epsilon, DELTA, 1).accuracy(0.05)

    for make, zero in ((mechanisms.Gaussian, 0.0), (mechanisms.DiscreteGaussian, 0)):
        name = f"{make.__name__}, new parameters"
        yield _call(f"{name}, a release", lambda: None, _new(partial(released, make, zero), EPSILON), "whole", check=_near(0.0, 10 * FAR))
        yield _call(f"{name}, its accuracy", lambda: None, _new(partial(accuracy, make), EPSILON), "whole", check=_near(8.6, 0.5))
    new = _new(partial(noise.discrete_gaussian, values), 10.0)
    yield _call("discrete_gaussian, a new σ near 10", lambda: None, new, "whole", check=_near(0.0, 10 * FAR))


def _few_values() -> Iterator[Benchmark]:
    """Sums of five values, and an integer scale for each of five."""
    numbers, total = np.linspace(0.0, 1.0, FEW), _near(FEW / 2, 1e-6)
    yield _call(f"clipped_sum, {FEW} values", lambda: numbers, lambda values: partial(sums.clipped_sum, values, 1.0), "call", check=total)

    def of_series(values: Any) -> Work:
        import polars as pl

        return partial(sums.clipped_sum, pl.Series(values), 1.0)

    yield _call(f"clipped_sum, {FEW} values of polars", lambda: numbers, of_series, "call", check=total, package="polars")
    scales = np.array([1, 3, 2, 7, 5])
    for name, function in (("discrete_laplace", noise.discrete_laplace), ("discrete_gaussian", noise.discrete_gaussian)):
        work = partial(function, np.zeros(FEW, np.int64), scales)
        yield _call(f"{name}, {FEW} values, a scale for each", partial(_same, work), _same, "call", check=_near(0.0, 10 * FAR))


def _near(expected: float, most: float) -> Callable[[Any, Any], None]:
    """A check that every number of an answer is so close to what is expected."""

    def check(_inputs: Any, result: Any) -> None:
        if not np.all(np.abs(np.asarray(getattr(result, "high", result), np.float64) - expected) <= most):
            raise AssertionError("interactive: an answer is wrong")

    return check


def _same(work: Work) -> Work:
    return work


def _call(
    name: str, inputs: Callable[[], Any], ours: Prepare, character: Character, *, check: Callable[[Any, Any], None], package: str = "numpy"
) -> Benchmark:
    return Benchmark(
        group="interactive", name=name, size=1, unit="call", character=character, inputs=inputs, ours=ours, sides=(KEY,), package=package,
        check=check,
    )  # fmt: skip


def interactive_benchmarks(_plan: Plan) -> Iterator[Benchmark]:
    """What a person waits for.

    Parameters
    ----------
    _plan : Plan
        Not used: these sizes are always the same.
    """
    yield from _first_answers()
    yield from _questions()
    yield from _parameters()
    yield from _few_values()
