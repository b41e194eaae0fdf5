"""Mechanisms on the rows of a DuckDB relation, which is evaluated once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from dpcore._relations import check_relation, chosen, quoted, table_of
from dpcore.errors import DpcoreError, ParameterError, ParameterTypeError
from dpcore.interop._needed import needed
from dpcore.interop._peers import Peer

if TYPE_CHECKING:
    import duckdb

    from dpcore.rng import Stream

__all__ = ["PEER", "release"]

PEER = Peer(module="duckdb", distribution="duckdb", tested=("1.0", "1.1", "1.2", "1.3", "1.4", "2.0"), extra="batch")
ARROW = Peer(module="pyarrow", distribution="pyarrow", tested=("18", "20", "25", "26"), extra="batch")


def release(
    relation: duckdb.DuckDBPyRelation,
    mechanisms: Mapping[str, Any],
    *,
    missing: Any = None,
    dtype: Literal["column", "mechanism"] = "column",
    keep: Sequence[str] = (),
    connection: duckdb.DuckDBPyConnection | None = None,
    rng: Stream | None = None,
    threads: int | None = None,
) -> duckdb.DuckDBPyRelation:
    """Release every value of columns of a relation, once.

    Parameters
    ----------
    relation : duckdb.DuckDBPyRelation
        For example `connection.sql("SELECT …")`. The columns that are named are evaluated once.
    mechanisms : mapping of str to object
        Mechanisms of `dpcore.mechanisms` or `dpcore.local` by name of column.
    missing : "refuse", "keep", or a value; or mapping of str to these
        What becomes of NULL and NaN, as in `dpcore.interop.arrow.release`. Any column of a relation may have NULL, so it is required
        unless the mechanism itself has `missing` or `unknown`.
    dtype : {"column", "mechanism"}, default "column"
        "column": the type of the column where it can hold the results. "mechanism": DOUBLE, BIGINT, BOOLEAN or codes.
    keep : sequence of str, optional
        Columns that the result has as they are. They are not protected. All others are left out.
    connection : duckdb.DuckDBPyConnection, optional
        Where the result can be queried beside other tables. Default: that of the module.
    rng : Stream, optional
        None is the secure source.
    threads : int, optional
        Number of threads; None chooses it by the number of values and of processors.

    Returns
    -------
    duckdb.DuckDBPyRelation
        Over results in memory: querying it again draws nothing.

    Raises
    ------
    ParameterError, ParameterTypeError, DataError, EntropyError
        As `dpcore.interop.arrow.release`.
    ModuleNotFoundError
        If DuckDB or pyarrow is not installed.

    Notes
    -----
    Guarantee: that of the mechanism, for one release.

    Cost: that of the query and of the mechanism; the results are not copied.

    Examples
    --------
    >>> import duckdb
    >>> from dpcore.interop import duckdb as dp
    >>> from dpcore.mechanisms import DiscreteLaplace
    >>> counts = duckdb.sql("SELECT i % 2 AS parity, count(*) AS n FROM range(1000) t(i) GROUP BY ALL ORDER BY ALL")
    >>> released = dp.release(counts, {"n": DiscreteLaplace(epsilon=1.0, sensitivity=1)}, missing="refuse", keep=["parity"])
    >>> released.columns, [str(kind) for kind in released.types]
    (['parity', 'n'], ['BIGINT', 'BIGINT'])
    """
    needed(PEER, ARROW)
    import duckdb

    from dpcore.interop import arrow
    from dpcore.interop._columns import TableNoise

    if not isinstance(relation, duckdb.DuckDBPyRelation):
        raise ParameterTypeError(f"relation must be one of DuckDB, for example duckdb.sql('SELECT …'), got {type(relation).__name__}")
    table = TableNoise.of(mechanisms, missing, dtype, keep, rng, threads)
    check_relation(relation, "relation")
    names = table.chosen(relation.columns)
    for name, each in table.columns.items():
        each.check_declared(f"the column {name!r}")
    asked = chosen(relation, names)
    for name, kind in zip(names, asked.types, strict=True):
        if name in table.columns and kind.id == "uhugeint":  # Arrow's decimals of 128 bits have a sign
            raise ParameterTypeError(
                f"the column {name!r} is UHUGEINT, which Arrow would read as negative from 2^127 on; cast it in the query, for example "
                f"least({quoted(name)}, 9223372036854775807)::BIGINT AS {quoted(name)}"
            )
    given = _evaluated(asked.limit(0)).schema
    results = table.schema(given)  # raises before the query runs
    kept = {name: kind for name, kind in zip(names, asked.types, strict=True) if results.field(name).type == given.field(name).type}
    for name in table.columns.keys() & kept.keys():
        _check_enum(name, kept[name], mechanisms[name])
    released = arrow.released(_evaluated(asked), table)
    # By numbers, for which no version of DuckDB takes another column.
    places = [f"c{place}" for place in range(len(names))]
    found = duckdb.from_arrow(released.rename_columns(places), connection=connection or duckdb.default_connection())
    columns = []
    for place, name, kind in zip(places, released.column_names, found.types, strict=True):
        column = duckdb.ColumnExpression(place)
        # Arrow has no integers of 128 bits and no enumerations; what went through it gets its own type back.
        columns.append((column.cast(kept[name]) if kept.get(name, kind) != kind else column).alias(name))
    return found.select(*columns)


def _check_enum(name: str, kind: Any, mechanism: Any) -> None:
    labels = getattr(mechanism, "categories", None)
    if kind.id == "enum" and labels is not None and not set(labels) <= set(dict(kind.children)["values"]):
        raise ParameterError(f"the ENUM of the column {name!r} does not have all categories of the mechanism; cast it to VARCHAR first")


def _evaluated(relation: Any) -> Any:
    """The rows of a relation. What DuckDB says about a failure may quote a row, so only its class is shown."""
    try:
        return table_of(relation)
    except DpcoreError:
        raise
    except Exception as error:
        kind = type(error).__name__
    raise ParameterError(f"the relation cannot be evaluated ({kind}); what DuckDB says is not shown")
