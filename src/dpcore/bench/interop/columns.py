"""Columns of Arrow, polars, pandas and DuckDB beside the mechanism itself on an array, and beside an addition by their libraries."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from dpcore import mechanisms
from dpcore._dataclasses import dataclass
from dpcore.bench.benchmark import Benchmark, Plan, Side, Work
from dpcore.interop import arrow, duckdb, pandas, polars

Array = npt.NDArray[Any]
Make = Callable[[Array], Any]
ONE_IN = 10
"""One value in so many is null, where some are."""
FAR = 60.0
"""Noise of scale 1 is further off with probability below 10^-26."""


def _laplace() -> mechanisms.Laplace:
    return mechanisms.Laplace(epsilon=1.0, sensitivity=1.0)


@dataclass(frozen=True, slots=True)
class Path:
    """One way to release a column.

    Attributes
    ----------
    name : str
        In tables.
    package : str
        What it needs.
    make : callable
        From an array to the data of the library.
    release : callable
        From the data and a mechanism to the result.
    values : callable
        From the result to an array, null as NaN.
    add : callable or None
        From the data to the work of adding a number by the library itself.
    has_nulls : bool
        Whether some values are null.
    """

    name: str
    package: str
    make: Make
    release: Callable[[Any, Any], Any]
    values: Callable[[Any], Array]
    add: Callable[[Any], Work] | None = None
    has_nulls: bool = False


def _series(values: Array) -> Any:
    import polars as pl

    return pl.Series("x", values)


def _with_nulls(values: Array) -> Any:
    import polars as pl
    import pyarrow as pa

    return pl.Series("x", pa.array(values, mask=np.arange(len(values)) % ONE_IN == 0))


def _collected(engine: str) -> Callable[[Any, Any], Any]:
    """The release of a Series by an expression of a plan."""

    def release(series: Any, mechanism: Any) -> Any:
        import polars as pl

        column: Any = pl.col("x")
        with polars.install():
            plan = series.to_frame().lazy().select(column.dp.release(mechanism, missing="refuse"))
        return plan.collect(engine=engine)

    return release


def _relation(values: Array) -> Any:
    import duckdb as database
    import pyarrow as pa

    return database.connect().from_arrow(pa.table({"x": values}))


def _arrow_array(values: Array) -> Any:
    import pyarrow as pa

    return pa.array(values)


def _pandas_series(values: Array) -> Any:
    import pandas as pd

    return pd.Series(values, copy=False)


def _polars_adds(engine: str) -> Callable[[Any], Work]:
    def prepare(series: Any) -> Work:
        import polars as pl

        plan = series.to_frame().lazy().select(pl.col("x") + 1.5)
        return partial(plan.collect, engine=engine)

    return prepare


PATHS = (
    Path(
        "polars, a Series", "polars", _series, partial(polars.release, missing="refuse"), lambda found: found.to_numpy(),
        lambda series: lambda: series + 1.5,
    ),
    Path(
        "polars, a Series with nulls", "polars", _with_nulls, partial(polars.release, missing="keep"), lambda found: found.to_numpy(),
        lambda series: lambda: series + 1.5, has_nulls=True,
    ),
    Path(
        "polars, an expression in memory", "polars", _series, _collected("in-memory"),
        lambda found: found["x"].to_numpy(), _polars_adds("in-memory"),
    ),
    Path(
        "polars, an expression streaming", "polars", _series, _collected("streaming"),
        lambda found: found["x"].to_numpy(), _polars_adds("streaming"),
    ),
    Path("pyarrow, an array", "pyarrow", _arrow_array, partial(arrow.release, missing="refuse"), lambda found: found.to_numpy()),
    Path(
        "pandas, a Series", "pandas", _pandas_series, partial(pandas.release, missing="refuse"), lambda found: found.to_numpy(),
        lambda series: lambda: series + 1.5,
    ),
    Path(
        "DuckDB, a relation", "duckdb", _relation, lambda data, mechanism: duckdb.release(data, {"x": mechanism}, missing="refuse"),
        lambda found: found.to_arrow_table()["x"].to_numpy(), lambda relation: relation.select("x + 1.5").to_arrow_table,
    ),
)  # fmt: skip


def _benchmark(path: Path, n: int) -> Benchmark:
    def inputs() -> tuple[Array, Any]:
        values = np.arange(n, dtype=np.float64)
        return values, path.make(values)

    def check(made: tuple[Array, Any], found: Any) -> None:
        noise = (path.values(found) if not isinstance(found, np.ndarray) else found) - made[0]
        absent = np.isnan(noise)
        expected = len(range(0, n, ONE_IN)) if path.has_nulls and not isinstance(found, np.ndarray) else 0
        if absent.sum() != expected or not 0 < np.abs(noise[~absent]).max() < FAR:
            raise AssertionError(f"{path.name}: noise of scale 1 on each value was expected")

    mechanism = _laplace()
    direct = Side(
        name="the mechanism on an array", kind="itself", judges=True, check=check, prepare=lambda made: partial(mechanism.release, made[0])
    )
    adds: tuple[Side, ...] = ()
    if path.add is not None:
        add = path.add
        adds = (Side(name=f"{path.package} adds a number", kind="bound", package=path.package, prepare=lambda made: add(made[1])),)
    return Benchmark(
        group="interop", name=path.name, size=n, package=path.package, inputs=inputs, check=check, sides=(direct, *adds),
        ours=lambda made: partial(path.release, made[1], mechanism),
    )  # fmt: skip


def benchmarks(plan: Plan) -> Iterator[Benchmark]:
    """Every way to release a column.

    Parameters
    ----------
    plan : Plan
        How much is measured.
    """
    for path in PATHS:
        yield _benchmark(path, plan.size)
