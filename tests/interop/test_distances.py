"""No conversion before the noise moves two cells apart, in the columns of any library: every type is served exactly, or refused."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow", reason="make test runs it")

from dpcore import mechanisms  # noqa: E402
from dpcore.errors import DataError, ParameterError, ParameterTypeError  # noqa: E402
from dpcore.interop import arrow  # noqa: E402
from support.distances import (  # noqa: E402
    DRAWS,
    distance,
    excess_of_sums,
    integer_pairs,
    keeps_distance,
    loss_bound,
    neighbours,
    rows_whose_sums_round_apart,
)
from support.versions import only_tested  # noqa: E402

only_tested(arrow.PEER)

FLOATS = (np.float16, np.float32, np.float64)
INTEGERS = (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64)
INT64 = (-(2**63), 2**63 - 1)


def laplace(scale):
    """Laplace noise of this scale, for real numbers."""
    return mechanisms.Laplace(epsilon=1.0, sensitivity=scale)


# Arrow

SERVED = {pa.from_numpy_dtype(kind): neighbours(kind) for kind in (*FLOATS, *INTEGERS)} | {
    pa.decimal128(38, 0): [(Decimal(v), Decimal(w)) for v, w in integer_pairs(-(2**71), 2**71)]
}
REFUSED = {
    "NA", "BOOL", "DECIMAL32", "DECIMAL64", "DECIMAL256", "STRING", "LARGE_STRING", "STRING_VIEW", "BINARY", "LARGE_BINARY", "BINARY_VIEW",
    "FIXED_SIZE_BINARY", "DATE32", "DATE64", "TIME32", "TIME64", "TIMESTAMP", "DURATION", "INTERVAL_MONTH_DAY_NANO", "DICTIONARY",
    "EXTENSION",
    "LIST", "LARGE_LIST", "FIXED_SIZE_LIST", "LIST_VIEW", "LARGE_LIST_VIEW", "MAP", "STRUCT", "DENSE_UNION", "SPARSE_UNION",
    "RUN_END_ENCODED",
}  # fmt: skip
"""Types, by the names of Arrow's ids, that no noise takes."""
EXAMPLES = {
    "NA": pa.null(), "BOOL": pa.bool_(), "STRING": pa.string(), "LARGE_STRING": pa.large_string(), "BINARY": pa.binary(),
    "LARGE_BINARY": pa.large_binary(), "FIXED_SIZE_BINARY": pa.binary(16), "DATE32": pa.date32(), "DATE64": pa.date64(),
    "TIME32": pa.time32("s"), "TIME64": pa.time64("us"), "TIMESTAMP": pa.timestamp("us"), "DURATION": pa.duration("us"),
    "INTERVAL_MONTH_DAY_NANO": pa.month_day_nano_interval(), "DICTIONARY": pa.dictionary(pa.int8(), pa.int64()),
    "LIST": pa.list_(pa.int64()), "LARGE_LIST": pa.large_list(pa.int64()), "FIXED_SIZE_LIST": pa.list_(pa.int64(), 2),
    "MAP": pa.map_(pa.int64(), pa.int64()), "STRUCT": pa.struct([("a", pa.int64())]), "DECIMAL256": pa.decimal256(60, 0),
    "DENSE_UNION": pa.dense_union([pa.field("a", pa.int64())]), "SPARSE_UNION": pa.sparse_union([pa.field("a", pa.int64())]),
    "RUN_END_ENCODED": pa.run_end_encoded(pa.int32(), pa.int64()),
}  # fmt: skip
for name, make in (("DECIMAL32", "decimal32"), ("DECIMAL64", "decimal64")):
    if hasattr(pa, make):
        EXAMPLES[name] = getattr(pa, make)(5, 0)
for name, make in (("LIST_VIEW", "list_view"), ("LARGE_LIST_VIEW", "large_list_view")):
    if hasattr(pa, make):
        EXAMPLES[name] = getattr(pa, make)(pa.int64())
for name, make in (("STRING_VIEW", "string_view"), ("BINARY_VIEW", "binary_view"), ("EXTENSION", "bool8")):
    if hasattr(pa, make):
        EXAMPLES[name] = getattr(pa, make)()


def ids():
    """The name of every type of Arrow, by its id."""
    own = {value: name.removeprefix("Type_") for name, value in vars(pa.lib).items() if name.startswith("Type_")}
    return own | {kind.id: "EXTENSION" for kind in EXAMPLES.values() if isinstance(kind, pa.BaseExtensionType)}


def released(cells, scale):
    """What Laplace noise makes of an array, as floats."""
    return arrow.release(cells, laplace(scale), missing="refuse", dtype="mechanism").to_numpy(zero_copy_only=False)


def test_every_type_of_arrow_is_in_a_list():
    names = ids()
    served = {names[kind.id] for kind in SERVED}
    # Intervals of months or of days are types that Python cannot make.
    assert set(names.values()) - {"INTERVAL_MONTHS", "INTERVAL_DAY_TIME"} <= served | REFUSED
    assert not served & REFUSED
    assert {names[kind.id] for kind in EXAMPLES.values()} == set(EXAMPLES) == REFUSED & set(names.values())


@pytest.mark.some(4)
@pytest.mark.parametrize("kind", SERVED, ids=str)
def test_neighbours_in_a_column_of_arrow_keep_their_distance(kind):
    for v, w in SERVED[kind]:
        assert keeps_distance(lambda value, scale: released(pa.array([value] * DRAWS, kind), scale), v, w)


@pytest.mark.long
@pytest.mark.parametrize("kind", [pa.int64(), pa.uint64(), pa.decimal128(38, 0)], ids=str)
def test_integers_with_nulls_and_whole_noise_keep_their_distance(kind):
    whole = mechanisms.DiscreteLaplace(epsilon=1.0, sensitivity=1)
    for v, w in SERVED[kind]:
        found = []
        for value in (v, w):
            cells = pa.chunked_array([pa.array([value] * DRAWS, kind), pa.array([None], kind)])
            for mechanism in (whole, laplace(1.0)):
                out = arrow.release(cells, mechanism, missing=7, dtype="mechanism").to_numpy()[:-1]
                found.append(out if mechanism is not whole else out.astype(object))
        base = int(min(found[0]))
        assert loss_bound(*([int(x) - base for x in each] for each in found[::2])) <= 1.0
        assert loss_bound(*found[1::2]) <= 1.0


@pytest.mark.parametrize("name", EXAMPLES)
def test_no_noise_takes_a_type_that_is_refused(name):
    cells = pa.nulls(1, EXAMPLES[name]) if name != "EXTENSION" else pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1], pa.int8()))
    for mechanism in (laplace(1.0), mechanisms.DiscreteLaplace(1.0, 1), mechanisms.Gaussian(1.0, 1e-6, 1.0)):
        with pytest.raises(ParameterTypeError):
            arrow.release(cells, mechanism, missing=0)


def test_decimals_with_digits_are_refused_and_large_ones_clamped():
    with pytest.raises(ParameterTypeError):
        arrow.release(pa.array([Decimal("0.5")]), laplace(1.0), missing="refuse")
    ends = pa.array([Decimal(10**37), Decimal(-(10**37))], pa.decimal128(38, 0))
    noisy = arrow.release(ends, mechanisms.DiscreteLaplace(1.0, 1), missing="refuse", dtype="mechanism").to_pylist()
    assert all(abs(found - end) < 200 for found, end in zip(noisy, INT64[::-1], strict=True))


# polars


@pytest.mark.long
def test_every_type_of_polars_is_served_exactly_or_refused():
    pl = pytest.importorskip("polars", reason="make test runs it")
    from dpcore.interop import polars as dp

    only_tested(dp.PEER)
    served = {
        getattr(pl, name): kind for kind in (*FLOATS, *INTEGERS) if hasattr(pl, name := np.dtype(kind).name.title().replace("Ui", "UI"))
    }
    refused = {
        pl.Boolean: pl.Boolean, pl.String: pl.String, pl.Binary: pl.Binary, pl.Date: pl.Date, pl.Time: pl.Time,
        pl.Datetime: pl.Datetime("us"),
        pl.Duration: pl.Duration("us"), pl.Categorical: pl.Categorical(), pl.Enum: pl.Enum(["a"]), pl.List: pl.List(pl.Int64),
        pl.Array: pl.Array(pl.Int64, 1), pl.Struct: pl.Struct({"a": pl.Int64}), pl.Null: pl.Null,
    }  # fmt: skip
    wide = {getattr(pl, name) for name in ("Int128", "UInt128") if hasattr(pl, name)}
    abstract = {
        pl.DataType,
        pl.Object,
        pl.Unknown,
        *(getattr(pl, name) for name in ("Extension", "BaseExtension", "Map") if hasattr(pl, name)),
    }
    known = {kind for kind in vars(pl).values() if isinstance(kind, type) and issubclass(kind, pl.DataType)}
    assert known <= {*served, *refused, *wide, *abstract, pl.Decimal}
    for kind, numpy in served.items():
        for v, w in neighbours(numpy):
            assert keeps_distance(
                lambda value, scale, kind=kind: dp.release(
                    pl.Series([value.item()] * DRAWS, dtype=kind), laplace(scale), missing="refuse", dtype="mechanism"
                ).to_numpy(),
                v,
                w,
            ), kind
    for kind in [*refused.values(), *wide, pl.Decimal(10, 2)]:
        for mechanism in (laplace(1.0), mechanisms.DiscreteLaplace(1.0, 1)):
            with pytest.raises((ParameterError, ParameterTypeError), match=r"Series|takes|cast"):
                dp.release(pl.Series([None], dtype=kind), mechanism, missing=0)
    for v, w in SERVED[pa.decimal128(38, 0)]:
        assert keeps_distance(
            lambda value, scale: dp.release(
                pl.Series([value] * DRAWS, dtype=pl.Decimal(38, 0)), laplace(scale), missing="refuse", dtype="mechanism"
            ).to_numpy(),
            v,
            w,
        )


# pandas


def pandas_types() -> tuple[dict[Any, Any], list[Any]]:
    """Types of pandas' columns that noise takes, with their neighbours, and columns of all others."""
    pd = pytest.importorskip("pandas", reason="make test runs it")
    names = [np.dtype(kind).name for kind in (*FLOATS, *INTEGERS)]
    nullable = {name.title().replace("Ui", "UI"): name for name in names if name != "float16"}
    served = {name: neighbours(np.dtype(name).type) for name in names} | {
        name: neighbours(np.dtype(of).type) for name, of in nullable.items()
    }
    served |= {pd.ArrowDtype(kind): SERVED[kind] for kind in (pa.float32(), pa.int64(), pa.uint64(), pa.decimal128(38, 0))}
    refused = [
        pd.Series([1], dtype=np.longdouble), pd.Series([1j]), pd.Series([1j], dtype=np.complex64), pd.Series([2**70]),
        pd.Series([Decimal(1)]), pd.Series([1, 0.5], dtype=object), pd.Series([True]), pd.Series([True], dtype="boolean"),
        pd.Series(["1"], dtype="str"), pd.Series(["1"], dtype="string"), pd.Series([1], dtype="category"),
        pd.Series([1.5], dtype="category"),
        pd.Series(pd.arrays.SparseArray([2**53 + 1, 0])), pd.Series(pd.arrays.SparseArray([0.5, np.nan])),
        pd.Series(pd.to_datetime(["2026-01-01"])), pd.Series(pd.to_timedelta([1], unit="s")),
        pd.Series(pd.period_range("2026", periods=1, freq="D")),
        pd.Series(pd.interval_range(0, 1)), pd.Series(pd.to_datetime(["2026-01-01"]).tz_localize("UTC")),
        pd.Series([Decimal("0.5")], dtype=pd.ArrowDtype(pa.decimal128(10, 2))), pd.Series([1], dtype=pd.ArrowDtype(pa.duration("s"))),
    ]  # fmt: skip
    return served, refused


def test_every_dtype_that_pandas_registers_is_in_a_list():
    pd = pytest.importorskip("pandas", reason="make test runs it")
    from dpcore.interop import pandas as dp

    only_tested(dp.PEER)
    from pandas.core.dtypes.base import _registry

    served, refused = pandas_types()
    known = {type(pd.Series([], dtype=kind).dtype) for kind in served} | {type(each.dtype) for each in refused}
    assert set(_registry.dtypes) <= known | {pd.core.dtypes.dtypes.NumpyEADtype} - {object}


@pytest.mark.long
def test_every_dtype_of_pandas_is_served_exactly_or_refused():
    pd = pytest.importorskip("pandas", reason="make test runs it")
    from dpcore.interop import pandas as dp

    only_tested(dp.PEER)
    served, refused = pandas_types()
    for kind, pairs in served.items():
        for v, w in pairs:
            assert keeps_distance(
                lambda value, scale, kind=kind: dp.release(
                    pd.Series([value] * DRAWS, dtype=kind), laplace(scale), missing="refuse", dtype="mechanism"
                ).to_numpy(np.float64),
                v,
                w,
            ), kind
    for column in refused:
        for mechanism in (laplace(1.0), mechanisms.DiscreteLaplace(1.0, 1)):
            with pytest.raises(ParameterTypeError):
                dp.release(column, mechanism, missing=0)


@pytest.mark.parametrize("kind", ["int64", "float64"])
def test_numbers_in_the_other_order_of_bytes_are_served_exactly_or_refused(kind):
    """Which of both depends on the version of pandas and of Arrow."""
    pd = pytest.importorskip("pandas", reason="make test runs it")
    from dpcore.interop import pandas as dp

    only_tested(dp.PEER)

    def released(value: Any, scale: float) -> Any:
        column = pd.Series(np.array([value] * DRAWS, np.dtype(kind).newbyteorder("S")))
        return dp.release(column, laplace(scale), missing="refuse", dtype="mechanism").to_numpy(np.float64)

    try:
        released(1, 1.0)
    except ParameterTypeError:
        return
    for v, w in neighbours(np.dtype(kind).type):
        assert keeps_distance(released, v, w)


# Sums


def test_sums_of_floats_of_a_tool_move_further_than_a_row():
    """What the pages say of sums that you compute in the tool: one row of at most 1 moves them by more than 1. dpcore's own do not."""
    pd, pl = (pytest.importorskip(name, reason="make test runs it") for name in ("pandas", "polars"))
    from dpcore.sums import clipped_sum

    smaller, larger = rows_whose_sums_round_apart(1000)
    totals = [0.0, 0.0]
    for i, rows in enumerate((smaller, larger)):
        for row in rows:
            totals[i] += row
    assert Fraction(totals[1]) - Fraction(totals[0]) == 1 + excess_of_sums(1000)
    rng = np.random.default_rng(28)
    tables = [rng.random(1000) for _ in range(50)]
    for total in (
        lambda rows: pd.Series(rows).sum(),
        lambda rows: pl.Series(rows).sum(),
        lambda rows: pd.Series(rows, dtype=np.float32).sum(),
    ):
        moved = [abs(Fraction(float(total(np.append(rows, 1.0)))) - Fraction(float(total(rows)))) for rows in tables]
        assert max(moved) > 1
        assert max(moved) <= 1 + Fraction(1001**2, 2**23)
    sums = [clipped_sum(np.array(rows), 1.0) for rows in (smaller, larger)]
    exact = [Fraction(each.high) + Fraction(each.low) for each in sums]
    assert abs(exact[1] - exact[0]) <= 1


# DuckDB

DUCKDB = {
    "TINYINT": np.int8, "SMALLINT": np.int16, "INTEGER": np.int32, "BIGINT": np.int64, "UTINYINT": np.uint8, "USMALLINT": np.uint16,
    "UINTEGER": np.uint32, "UBIGINT": np.uint64, "FLOAT": np.float32, "DOUBLE": np.float64,
}  # fmt: skip
OF_DUCKDB = {name: [(v.item(), w.item()) for v, w in neighbours(kind)] for name, kind in DUCKDB.items()} | {
    "HUGEINT": [*integer_pairs(-(2**71), 2**71), *integer_pairs(2**127 - 4, 2**127 - 1), *integer_pairs(-(2**127), -(2**127) + 3)],
    "DECIMAL(38,0)": [*integer_pairs(-(2**71), 2**71)],
    "DECIMAL(18,0)": [(10**17, 10**17 + 1)],
}
NOT_OF_DUCKDB = {
    "BOOLEAN": "true", "VARCHAR": "'1'", "BLOB": "'1'::BLOB", "BIT": "'1'::BIT", "UUID": "uuid()", "DATE": "DATE '2026-01-01'",
    "TIME": "TIME '01:00:00'",
    "TIMESTAMP": "TIMESTAMP '2026-01-01'", "INTERVAL": "INTERVAL 1 DAY", "UHUGEINT": "1::UHUGEINT", "BIGNUM": "1::BIGNUM",
    "DECIMAL(18,2)": "0.5::DECIMAL(18,2)",
    "LIST": "[1]", "STRUCT": "{'a': 1}", "MAP": "map([1], [1])", "UNION": "union_value(a := 1)", "ENUM": "'a'::ENUM('a')",
    "ARRAY": "array_value(1)",
    "NULL": "NULL",
}  # fmt: skip


def test_every_type_of_duckdb_is_in_a_list():
    duckdb = pytest.importorskip("duckdb", reason="make test runs it")
    known = {row[0] for row in duckdb.sql("SELECT DISTINCT logical_type FROM duckdb_types() WHERE internal").fetchall()}
    listed = {name.partition("(")[0] for name in (*OF_DUCKDB, *NOT_OF_DUCKDB)}
    times = {name for name in known if name.startswith("TIME")}
    assert known - times - {"GEOMETRY", "VARIANT", "TUPLE", "TYPE"} <= listed


@pytest.mark.some(2)
@pytest.mark.parametrize("kind", OF_DUCKDB)
def test_neighbours_in_a_relation_keep_their_distance(kind):
    duckdb = pytest.importorskip("duckdb", reason="make test runs it")
    from dpcore.interop import duckdb as dp

    with duckdb.connect() as connection:

        def noisy(value, scale):
            # Text is read exactly by every type; a literal may be a decimal or a float first.
            relation = connection.sql(f"SELECT CAST('{value!r}' AS {kind}) AS x FROM range({DRAWS})")
            return dp.release(relation, {"x": laplace(scale)}, missing="refuse", dtype="mechanism", connection=connection).fetchnumpy()["x"]

        for v, w in OF_DUCKDB[kind]:
            assert keeps_distance(noisy, v, w), distance(v, w)


def test_integers_that_arrow_does_not_have_come_no_further_apart():
    """Arrow has decimals of 128 bits, with a sign: as one of those, the larger of these two would be negative."""
    duckdb = pytest.importorskip("duckdb", reason="make test runs it")
    from dpcore.interop import duckdb as dp

    with duckdb.connect() as connection:
        for value in (2**127 - 1, 2**127):
            relation = connection.sql(f"SELECT {value}::UHUGEINT AS x, {value}::UHUGEINT AS public")
            with pytest.raises(ParameterTypeError, match=r"'x' is UHUGEINT.*cast"):
                dp.release(relation, {"x": laplace(1.0)}, missing="refuse", connection=connection)
            smaller = connection.sql(f"SELECT least({value}::UHUGEINT, 9223372036854775807)::BIGINT AS x")
            assert dp.release(smaller, {"x": laplace(1.0)}, missing="refuse", connection=connection).fetchall() == [(2.0**63,)]


@pytest.mark.parametrize("name", ["x", "my col", 'a "b"', "select", "x, 1"])
def test_the_cast_that_a_refusal_proposes_runs_as_it_is_written(name):
    duckdb = pytest.importorskip("duckdb", reason="make test runs it")
    from dpcore.interop import duckdb as dp

    quoted = '"' + name.replace('"', '""') + '"'
    with duckdb.connect() as connection:
        table = connection.sql(f"SELECT {2**127}::UHUGEINT AS {quoted}")
        with pytest.raises(ParameterTypeError, match="is UHUGEINT") as refusal:
            dp.release(table, {name: laplace(1.0)}, missing="refuse", connection=connection)
        proposed = str(refusal.value).partition("for example ")[2]
        smaller = table.project(proposed)
        assert dp.release(smaller, {name: laplace(1.0)}, missing="refuse", connection=connection).fetchall() == [(2.0**63,)]


@pytest.mark.some(8)
@pytest.mark.parametrize("kind", NOT_OF_DUCKDB)
def test_no_noise_takes_a_type_of_duckdb_that_is_refused(kind):
    duckdb = pytest.importorskip("duckdb", reason="make test runs it")
    from dpcore.interop import duckdb as dp

    with duckdb.connect() as connection:
        relation = connection.sql(f"SELECT {NOT_OF_DUCKDB[kind]} AS x")
        for mechanism in (laplace(1.0), mechanisms.DiscreteLaplace(1.0, 1)):
            for dtype in ("column", "mechanism"):
                with pytest.raises((ParameterTypeError, DataError)):
                    dp.release(relation, {"x": mechanism}, missing="refuse", dtype=dtype, connection=connection)
