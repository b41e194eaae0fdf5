"""Tables in memory, asked through `PrivateTable`, beside their file, which is asked the same, and beside their library without noise."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dpcore.bench.benchmark import Work
from dpcore.bench.tables import QUERIES

ROWS, AGES, VISITS, COST, QUARTILES = QUERIES
FAR = 100
"""Rows by which a count may be off; noise of scale 2 is further off with probability below 10^-20."""

MOST_PAID = 1000


def frame_of(library: str, path: Path) -> Any:
    """The rows of a Parquet file as a frame.

    Parameters
    ----------
    library : {"pyarrow", "pandas", "polars"}
        Whose.
    path : Path
        The file.
    """
    import pyarrow.parquet as pq

    table = pq.read_table(path)
    if library == "pandas":
        return table.to_pandas()
    if library == "polars":
        import polars as pl

        return pl.from_arrow(table)
    return table


def asking(frame: object) -> Work:
    """Return the work of asking the five questions of a release about a frame, or about the file of a path.

    Parameters
    ----------
    frame : object
        What `PrivateTable` takes.
    """
    from dpcore import PrivateTable

    table = PrivateTable(frame)

    def work() -> list[Any]:
        with table.batch(epsilon=float(len(QUERIES))) as batch:
            return [getattr(batch, query["kind"])(**_arguments(query)) for query in QUERIES]

    return work


def _arguments(query: Mapping[str, Any]) -> dict[str, Any]:
    paid = {} if query is ROWS else {"epsilon": 1.0}  # the number of all rows is free
    return {key: value for key, value in query.items() if key != "kind"} | paid


def answering(library: str, frame: Any) -> Callable[[], Sequence[Any]]:
    """Return the work of answering them without noise, by the library of the frame; in pyarrow's case by DuckDB.

    Parameters
    ----------
    library : {"pyarrow", "pandas", "polars"}
        Whose.
    frame : object
        The frame.
    """
    return {"pyarrow": _by_duckdb, "pandas": _by_pandas, "polars": _by_polars}[library](frame)


def _by_duckdb(table: Any) -> Callable[[], Sequence[Any]]:
    import duckdb

    cells = ", ".join(f"count(*) filter (age >= {low} and age < {high})" for low, high in itertools.pairwise(AGES["edges"]))
    sql = (
        f"select count(*), [{cells}], sum(least(greatest(visits, {VISITS['lower']}), {VISITS['upper']})), "
        f"avg(least(greatest(cost, {COST['lower']}), {COST['upper']})), quantile_cont(cost, {QUARTILES['q']}) from given"
    )

    def work() -> Sequence[Any]:
        with duckdb.connect(":memory:") as database:
            return database.register("given", table).execute(sql).fetchone() or ()

    return work


def _by_pandas(frame: Any) -> Callable[[], Sequence[Any]]:
    def work() -> Sequence[Any]:
        cells = np.histogram(frame["age"], bins=AGES["edges"])[0]
        visits = frame["visits"].clip(VISITS["lower"], VISITS["upper"]).sum()
        mean = frame["cost"].clip(COST["lower"], COST["upper"]).mean()
        return [len(frame), cells, visits, mean, frame["cost"].quantile(QUARTILES["q"]).to_numpy()]

    return work


def _by_polars(frame: Any) -> Callable[[], Sequence[Any]]:
    import polars as pl

    edges = AGES["edges"]
    age, cost = pl.col("age"), pl.col("cost")
    asked = [
        pl.len().alias("rows"),
        *(((age >= low) & (age < high)).sum().alias(f"{low}") for low, high in itertools.pairwise(edges)),
        pl.col("visits").clip(VISITS["lower"], VISITS["upper"]).sum(),
        cost.clip(COST["lower"], COST["upper"]).mean().alias("mean"),
        *(cost.quantile(q).alias(f"{q}") for q in QUARTILES["q"]),
    ]

    def work() -> Sequence[Any]:
        found = frame.lazy().select(asked).collect().row(0)
        cells = len(edges) - 1
        return [found[0], found[1 : 1 + cells], found[1 + cells], found[2 + cells], found[3 + cells :]]

    return work


def by_diffprivlib(frame: Any) -> Callable[[], Sequence[Any]]:
    """Return the work of diffprivlib, which has a function for each of the questions.

    Parameters
    ----------
    frame : pandas.DataFrame
        The frame.
    """
    from diffprivlib import tools

    def work() -> Sequence[Any]:
        edges = np.array(AGES["edges"])
        visits, cost = (frame[query["column"]].to_numpy() for query in (VISITS, COST))
        limits = [(float(query["lower"]), float(query["upper"])) for query in (VISITS, COST)]
        return [
            tools.count_nonzero(np.ones(len(frame), dtype=bool), epsilon=1.0),
            tools.histogram(frame["age"].to_numpy(), epsilon=1.0, bins=edges, range=(edges[0], edges[-1]))[0],
            tools.sum(visits, epsilon=1.0, bounds=limits[0]),
            tools.mean(cost, epsilon=1.0, bounds=limits[1]),
            tools.quantile(cost, QUARTILES["q"], epsilon=1.0, bounds=limits[1]),
        ]

    return work


def check_answers(rows: int, exact: Callable[[], Sequence[Any]], result: Sequence[Any]) -> None:
    """Raise if an answer is far from the true one.

    Parameters
    ----------
    rows : int
        Of the table.
    exact : callable
        Gives the true answers.
    result : sequence
        Of the release: numbers, or results of `PrivateTable`.
    """
    found = [getattr(answer, "value", answer) for answer in result]
    truth = exact()
    limits = [FAR, FAR, FAR * VISITS["upper"], FAR * COST["upper"] / rows, FAR]
    names = [query["name"] for query in QUERIES]
    for name, answer, true, limit in zip(names, found, truth, limits, strict=True):
        if np.abs(np.asarray(answer, np.float64) - np.asarray(true, np.float64)).max() > limit:
            raise AssertionError(f"{name}: the answer is wrong")


def averaging_groups(rows: int, groups: int) -> tuple[Any, Work]:
    """Return a frame of polars and the work of asking for the mean of each of its groups.

    Parameters
    ----------
    rows, groups : int
        How many.
    """
    import polars as pl

    from dpcore import PrivateTable

    rng = np.random.default_rng(1)
    frame = pl.DataFrame({"person": rng.integers(0, groups, rows), "pay": rng.uniform(0.0, MOST_PAID, rows)})
    table = PrivateTable(frame)
    return frame, lambda: table.group_by("person", groups=range(groups)).mean("pay", lower=0, upper=MOST_PAID, epsilon=1.0)


def averaged_by_polars(frame: Any) -> Work:
    """Return the work of polars that averages the groups without noise.

    Parameters
    ----------
    frame : polars.DataFrame
        Of `averaging_groups`.
    """
    import polars as pl

    return lambda: frame.lazy().group_by("person").agg(pl.col("pay").clip(0, MOST_PAID).mean()).collect()


def check_groups(frame: Any, result: Any) -> None:
    """Raise if the average of the groups' means is far from the mean of the rows.

    Parameters
    ----------
    frame : polars.DataFrame
        Of `averaging_groups`.
    result : object
        Of `PrivateTable.mean`.
    """
    means = np.asarray(result.value, np.float64)
    if len(means) <= frame["person"].max() or abs(np.median(means) - MOST_PAID / 2) > MOST_PAID / 10:
        raise AssertionError("groups: the means are wrong")
