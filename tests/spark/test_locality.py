"""A cell of a Spark frame is read alike alone and in any company, whatever its type is, and wherever the frame comes from.

A row of one frame has a cell of every type. Each company of rows is a partition or a file of its own where the source allows it, and all
companies that are read in batches of one size are one job of Spark: thousands of frames would take hours.
"""

from __future__ import annotations

import datetime as dt
import inspect
import io
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import ipc

from dpcore import PrivateTable
from dpcore.spark.part_input import PLACE, PartInput
from dpcore.spark.reading import table_of
from dpcore.spark.table_input import schema_of
from dpcore.tables.discovery import discover
from dpcore.tables.pieces import Cut
from dpcore.tables.sections import InputSection
from support.cells.files import WORDS_OF_CSV
from support.locality import NAME, QUESTIONS, SURE, Column, accepted, companies, differences, halves, readings
from support.spark import settings

FAR = "far "
"""Begins cells that Python cannot hold."""
TEXTS = [
    "''", "'a'", "'A'", "'5'", "'1001'", "'nan'", "'é'", "repeat('x', 3000)", "'2024-01-31'", "decode(X'00', 'UTF-8')", "'a '",
    FAR + "CAST(X'FF61' AS STRING)", FAR + "CAST(X'EDA080' AS STRING)",
]  # fmt: skip
FLOATS = ["'NaN'", "'Infinity'", "'-Infinity'", "'-0.0'", "0", "1.5", "7", "5", "'1e-320'"]
INSTANTS = [
    "'1970-01-01'", "'2024-01-31 12:00:00.000001'", "'1582-10-10'", "'0001-01-02'", "'9999-12-30 23:59:59.999999'", "'1883-11-18 12:00:00'",
]  # fmt: skip


def integers(bits: int) -> list[str]:
    return [f"'{cell}'" for cell in (0, 1, 5, -1, 2 ** (bits - 1) - 1, -(2 ** (bits - 1)), min(2**53 + 1, 2 ** (bits - 1) - 2))]


ZOO: dict[str, tuple[str, list[str]]] = {
    "BooleanType": ("BOOLEAN", ["true", "false"]),
    "ByteType": ("TINYINT", integers(8)),
    "ShortType": ("SMALLINT", integers(16)),
    "IntegerType": ("INT", integers(32)),
    "LongType": ("BIGINT", integers(64)),
    "FloatType": ("FLOAT", FLOATS),
    "DoubleType": ("DOUBLE", FLOATS),
    "DecimalType": ("DECIMAL(10,0)", ["'0'", "'1'", "'5'", "'-1'", "'9999999999'"]),
    "DecimalType wide": ("DECIMAL(38,18)", ["'0'", "'-1.5'", "'1e-18'", f"'{'9' * 20}.{'9' * 18}'", f"'-{'9' * 20}'", "'7'"]),
    "StringType": ("STRING", TEXTS),
    "BinaryType": ("BINARY", ["X''", "X'61'", "X'FF00'", "X'35'", "X'C3A9'"]),
    "DateType": (
        "DATE",
        ["'1970-01-01'", "'2024-01-31'", "'1582-10-10'", "'0001-01-02'", "'9999-12-31'", FAR + "date_from_unix_date(2147483647)"],
    ),
    "TimestampType": ("TIMESTAMP", [*INSTANTS, FAR + "timestamp_micros(9223372036854775807L)"]),
    "TimestampNTZType": ("TIMESTAMP_NTZ", INSTANTS),
    "DayTimeIntervalType": (
        "INTERVAL DAY TO SECOND",
        ["INTERVAL '0' SECOND", "INTERVAL '-1' DAY", "INTERVAL '1' HOUR", FAR + "make_dt_interval(106751991, 4, 0, 54.775807)"],
    ),
    "NullType": ("VOID", []),
}
"""Types that questions take: the type in SQL, and cells beside null. A name may have more than that of the class."""
REFUSED = {
    "YearMonthIntervalType": "INTERVAL '1-2' YEAR TO MONTH",
    "CalendarIntervalType": "make_interval(1, 2, 3)",
    "ArrayType": "array(1, 2)",
    "MapType": "map('a', 1)",
    "StructType": "named_struct('a', 1)",
    "VariantType": "parse_json('[1]')",
    "TimeType": "TIME '12:00:00'",
    "GeometryType": "st_geomfromwkb(X'0101000000000000000000F03F0000000000000040')",
    "GeographyType": "st_geogfromwkb(X'0101000000000000000000F03F0000000000000040')",
}
"""Types that no question takes, and a cell."""
ELSEWHERE = {
    "CharType": "test_fixed_and_bounded_text_is_read_alike",
    "VarcharType": "test_fixed_and_bounded_text_is_read_alike",
    "UserDefinedType": "test_types_that_no_question_takes_are_refused_and_stop_no_other",
    "StructField": "part of a struct",
}
ABSTRACT = {
    "AnsiIntervalType", "AnyTimeType", "AtomicType", "DataType", "DatetimeType", "FractionalType", "IntegralType", "NumericType",
    "SpatialType",
}  # fmt: skip
ROWS = 1 + max(len(cells) for _, cells in ZOO.values())
"""A null, and each cell of the largest zoo; smaller ones begin again."""
NOT_WRITTEN = {"NullType"}
"""Types of which Spark writes no Parquet."""
Companies = Sequence[Sequence[int]]


def sql_of(name: str, *, near: bool) -> list[str]:
    """A cell for each row."""
    kind, cells = ZOO[name]
    given = ["NULL", *cells]
    chosen = [given[row % len(given)] for row in range(ROWS)]
    return [
        f"CAST({'NULL' if near and each.startswith(FAR) else each.removeprefix(FAR)} AS {kind})" if kind != "VOID" else "NULL"
        for each in chosen
    ]


def zoo(spark, names: Sequence[str] = tuple(ZOO), *, near: bool = False):
    """A frame of a row for each cell; columns are called by their place among all types."""
    cells = [sql_of(name, near=near) for name in names]
    named = [", ".join(f"'{column(name)}', {each[row]}" for name, each in zip(names, cells, strict=True)) for row in range(ROWS)]
    rows = [f"named_struct('row', {row}, {fields})" for row, fields in enumerate(named)]
    return spark.sql(f"SELECT inline(array({', '.join(rows)}))")


def column(name: str) -> str:
    return f"c{list(ZOO).index(name)}"


# Sources: from companies of rows to a frame with the columns `company`, `position`, and those of the zoo


def as_sql(spark, asked: Companies, folder):
    from pyspark.sql import functions as F  # noqa: N812

    orders = ", ".join(f"array({', '.join(map(str, each))})" for each in asked)
    places = spark.range(0, len(asked), 1, len(asked)).selectExpr(
        "CAST(id AS INT) AS company", f"posexplode(element_at(array({orders}), CAST(id + 1 AS INT))) AS (position, row)"
    )
    return places.join(F.broadcast(zoo(spark)), "row")


def _python_rows(spark, asked: Companies) -> tuple[list[list[tuple]], Any]:
    from pyspark.sql import types as T  # noqa: N812

    near = zoo(spark, near=True)
    cells = [tuple(row)[1:] for row in near.orderBy("row").collect()]
    rows = [[(company, place, *cells[row]) for place, row in enumerate(order)] for company, order in enumerate(asked)]
    ints = [T.StructField("company", T.IntegerType()), T.StructField("position", T.IntegerType())]
    return rows, T.StructType([*ints, *(T.StructField(each.name, each.dataType) for each in near.schema.fields[1:])])


def as_rows(spark, asked: Companies, folder):
    rows, schema = _python_rows(spark, asked)
    return spark.createDataFrame(spark.sparkContext.parallelize(rows, len(rows)).flatMap(list), schema)


def as_pandas(spark, asked: Companies, folder, *, arrow: str = "true"):
    """One frame of pandas has all companies."""
    import pandas as pd

    rows, schema = _python_rows(spark, asked)
    frame = pd.DataFrame(
        {each.name: pd.Series([row[place] for row in itertools.chain(*rows)], dtype=object) for place, each in enumerate(schema)}
    )
    with settings(spark, spark_sql_execution_arrow_pyspark_enabled=arrow, spark_sql_execution_arrow_pyspark_fallback_enabled="false"):
        return spark.createDataFrame(frame, schema)


def as_pandas_without_arrow(spark, asked: Companies, folder):
    return as_pandas(spark, asked, folder, arrow="false")


def as_parquet(spark, asked: Companies, folder):
    """A file of each company, written by Spark; the columns of companies are those of folders."""
    frame = as_sql(spark, asked, folder).drop(*map(column, NOT_WRITTEN))
    with settings(spark, spark_sql_parquet_outputTimestampType="TIMESTAMP_MICROS", spark_sql_parquet_datetimeRebaseModeInWrite="CORRECTED"):
        frame.write.partitionBy("company").parquet(str(folder))
    return spark.read.parquet(str(folder))


SOURCES: dict[str, Callable[..., Any]] = {
    "sql": as_sql,
    "rows": as_rows,
    "pandas": as_pandas,
    "pandas without arrow": as_pandas_without_arrow,
    "parquet": as_parquet,
}
SETTINGS = {
    "sql": {},
    "sql, large types": {"spark_sql_execution_arrow_useLargeVarTypes": "true"},
    "rows": {},
    "pandas": {},
    "pandas without arrow": {},
    "parquet": {"spark_sql_files_openCostInBytes": str(128 << 20)},
    "parquet, row by row": {"spark_sql_parquet_enableVectorizedReader": "false", "spark_sql_session_timeZone": "America/New_York"},
}
"""Sources, and settings of the session under which their rows are read."""


# What tasks hand to the engine


@dataclass
class Recorder:
    """What each company was read as, found for all columns in a job for each size of batches."""

    spark: Any
    source: str
    folder: Any
    found: dict[tuple[tuple[int, ...], int], dict[str, list]] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)

    def record(self) -> Recorder:
        asked: dict[int, list[tuple[int, ...]]] = {1: [(row,) for row in range(ROWS)]}
        for order, rows in companies(ROWS, []):
            asked.setdefault(rows, []).append(tuple(order))
        for rows, orders in asked.items():
            chosen = SETTINGS[self.source] | {"spark_sql_execution_arrow_maxRecordsPerBatch": str(rows)}
            with settings(self.spark, **chosen):
                frame = SOURCES[self.source.partition(",")[0]](self.spark, orders, self.folder / str(rows))
                read = cells_of(frame, rows)
            self.names = [name for name in ZOO if column(name) in read]
            for company, order in enumerate(orders):
                self.found[order, rows] = {name: read[column(name)].get(company, []) for name in self.names}
        return self

    def reader(self, asked: Column, order: Sequence[int], rows: int) -> list:
        return self.found[tuple(order), rows][asked.type]


def cells_of(frame, rows: int, columns: Sequence[str] | None = None) -> dict[str, dict[int, list]]:
    """For each column the cells of each company, in order, from the pieces that a task hands to the engine."""
    schema = schema_of(frame)
    names = list(schema.names if columns is None else columns)
    types = dict(zip(schema.names, schema.types, strict=True))
    places = [schema.names.index(name) for name in names]
    info = info_of([(name, types[name]) for name in names])

    def pieces(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for piece in PartInput.of(info, batches).pieces(PLACE, {name: types[name] for name in names}, Cut(rows)):
            sink = io.BytesIO()
            with ipc.new_stream(sink, piece.batch.schema) as stream:
                stream.write_batch(piece.batch)
            yield pa.record_batch([pa.array([sink.getvalue()], pa.binary())], ["piece"])

    chosen = frame.toDF(*map(str, range(len(frame.columns)))).select(*(f"`{place}`" for place in places))
    found: dict[str, dict[int, dict[int, Any]]] = {name: {} for name in names}
    for row in chosen.mapInArrow(pieces, "piece binary").collect():
        for batch in ipc.open_stream(bytes(row[0])):
            whose = list(zip(batch.column("company").to_pylist(), batch.column("position").to_pylist(), strict=True))
            for name in names:
                one = pa.RecordBatch.from_arrays([batch.column(name)], [NAME])
                for (company, position), cell in zip(whose, readings(one), strict=True):
                    assert position not in found[name].setdefault(company, {})
                    found[name][company][position] = cell
    return {name: {company: [cells[place] for place in sorted(cells)] for company, cells in each.items()} for name, each in found.items()}


def info_of(fields):
    from dpcore.tables.pieces import FileInfo

    return FileInfo(tuple(name for name, _ in fields), pa.schema(fields), None)


def registered(source: str, name: str) -> Column:
    return Column(source, name, lambda _: None, {f"{row}: {cell}": row for row, cell in enumerate(sql_of(name, near=False))})


@pytest.mark.parametrize("source", SETTINGS)
def test_a_cell_is_read_alike_in_any_company(spark, tmp_path, source, record_property):
    recorder = Recorder(spark, source, tmp_path).record()
    assert [name for name in ZOO if name not in recorder.names] == [
        name for name in ZOO if source.startswith("parquet") and name in NOT_WRITTEN
    ]
    assert not [f"{name}: {told}" for name in recorder.names for told in differences(registered(source, name), recorder.reader)[:3]]
    record_property("triples", sum(1 + len(ZOO[name][1]) for name in recorder.names))
    if source != "sql":
        return
    broken = Recorder(spark, source, tmp_path, {key: {"LongType": _filled(found["LongType"])} for key, found in recorder.found.items()})
    assert differences(registered(source, "LongType"), broken.reader), "a null that takes the cell before it was not seen"


def _filled(cells: list) -> list:
    return [cells[place - 1] if cell is None and place else cell for place, cell in enumerate(cells)]


# What questions answer


class _Asking:
    """A table whose questions are about one column."""

    def __init__(self, table: Any, name: str) -> None:
        self._table, self._name = table, name

    def __getattr__(self, method: str) -> Callable[..., Any]:
        return lambda _, **given: getattr(self._table, method)(self._name, **given)


def answers(frame, asked: dict[str, list[str]]) -> dict[tuple[str, str], list[int]]:
    """The answers to all questions about all columns, asked at once."""
    with PrivateTable(frame).batch(epsilon=SURE * (1 + sum(map(len, asked.values())))) as batch:
        handles = {(name, each): QUESTIONS[each](_Asking(batch, column(name))) for name, some in asked.items() for each in some}
    return {key: [*map(int, getattr(each.value, "flat", [each.value]))] for key, each in handles.items()}


def test_the_answer_about_all_is_the_sum_of_those_about_parts(spark):
    frame = zoo(spark).cache()
    asked = {name: accepted(Column("sql", name, lambda _, name=name: frame.select(frame[column(name)].alias(NAME)), {})) for name in ZOO}
    assert [name for name, some in asked.items() if not some] == []
    together = answers(frame, asked)
    for name in ZOO:
        there = sum(not any(each in cell for each in ("NULL", "'NaN'", "X''")) for cell in sql_of(name, near=False))
        assert together[name, "present"] == [there], name
    for company in halves(ROWS):
        parts = [answers(frame.where(frame["row"].isin(part)), asked) for part in company]
        assert {key: [sum(each) for each in zip(*(part[key] for part in parts), strict=True)] for key in together} == together
    frame.unpersist()


def test_types_that_no_question_takes_are_refused_and_stop_no_other(spark):
    from pyspark.ml.linalg import Vectors
    from pyspark.sql import types as T  # noqa: N812

    frame = spark.createDataFrame([(Vectors.dense([1.0, 2.0]), 1), (None, 2)], ["udt", "x"])
    cells = {name: cell for name, cell in REFUSED.items() if hasattr(T, name)}
    with settings(spark, spark_sql_timeType_enabled="true", spark_sql_geospatial_enabled="true"):
        check_refused(frame, cells)


def check_refused(frame, cells: dict[str, str]) -> None:
    frame = frame.selectExpr("udt", *(f"IF(x = 1, {cell}, NULL) AS {name}" for name, cell in cells.items()), "x")
    for name in frame.columns[:-1]:
        assert accepted(Column("sql", name, lambda _, name=name: frame.select(frame[name].alias(NAME)), {})) == [], name
        count = PrivateTable(frame.select(name), relation="add_remove").count(epsilon=SURE)
        assert int(count.value) == 2, name
    with PrivateTable(frame, relation="add_remove").batch(epsilon=3 * SURE) as batch:
        count, numbers = batch.count(epsilon=SURE), batch.count("x", epsilon=SURE, missing="skip")
    assert (int(count.value), int(numbers.value)) == (2, 2)


def test_fixed_and_bounded_text_is_read_alike(spark, tmp_path):
    texts = ["", "a", "a ", "5", "é", "abcde"]
    spark.sql(f"CREATE TABLE bounded (company INT, position INT, fixed CHAR(5), most VARCHAR(5)) USING parquet LOCATION '{tmp_path / 't'}'")
    try:
        alone = ", ".join(f"({row}, 0, '{text}', '{text}')" for row, text in enumerate(texts))
        together = ", ".join(f"({len(texts)}, {row}, '{text}', '{text}')" for row, text in enumerate(texts))
        spark.sql(f"INSERT INTO bounded VALUES {alone}, {together}, ({len(texts)}, {len(texts)}, NULL, NULL)")
        for rows in (1, 3, 1 << 18):
            with settings(spark, spark_sql_execution_arrow_maxRecordsPerBatch=str(rows)):
                read = cells_of(spark.table("bounded"), rows)
            for name, wanted in (("fixed", [text.ljust(5) for text in texts]), ("most", texts)):
                assert read[name][len(texts)] == [*(text.encode() for text in wanted), None]
                assert [read[name][row] for row in range(len(texts))] == [[text.encode()] for text in wanted]
    finally:
        spark.sql("DROP TABLE bounded")


# Files that jobs name


def test_cells_of_csv_are_read_alike(spark, tmp_path):
    asked = [(row,) for row in range(len(WORDS_OF_CSV))] + [(*range(len(WORDS_OF_CSV)),), (*reversed(range(len(WORDS_OF_CSV))),)]
    for company, order in enumerate(asked):
        lines = [
            b"company,position," + NAME.encode(),
            *(b"%d,%d,%s" % (company, place, WORDS_OF_CSV[row]) for place, row in enumerate(order)),
        ]
        (tmp_path / f"{company:03}.csv").write_bytes(b"\n".join(lines) + b"\n")
    frame = table_of(spark, InputSection(path=str(tmp_path), format="csv")).frame
    read = cells_of(frame.selectExpr("CAST(company AS INT) AS company", "CAST(position AS INT) AS position", NAME), 1 << 18)[NAME]
    alone = [read[row] for row in range(len(WORDS_OF_CSV))]
    assert [len(each) for each in alone] == [1] * len(WORDS_OF_CSV)
    for company in range(len(WORDS_OF_CSV), len(asked)):
        assert read[company] == [alone[row][0] for row in asked[company]]


OLD = [dt.datetime(1, 1, 2), dt.datetime(1582, 10, 10), dt.datetime(1883, 11, 18, 12), dt.datetime(1970, 1, 1), dt.datetime(9999, 12, 31)]


@pytest.mark.parametrize("int96", [False, True])
def test_files_of_others_with_old_dates_are_read_alike(spark, tmp_path, int96):
    """Spark before 4 ends a job at the first date or instant before Gregory's calendar in a file that it did not write."""
    table = pa.table({
        "company": pa.array([0] * len(OLD), pa.int32()),
        "position": pa.array(range(len(OLD)), pa.int32()),
        "day": pa.array([each.date() for each in OLD]),
        "local": pa.array(OLD, pa.timestamp("us")),
        "instant": pa.array(OLD, pa.timestamp("us", "UTC")),
    })  # fmt: skip
    pq.write_table(table, tmp_path / "a.parquet", use_deprecated_int96_timestamps=int96)
    frame = table_of(spark, InputSection(path=str(tmp_path / "a.parquet"))).frame
    read = cells_of(frame, 1 << 18)
    for name in ("day", "local", "instant"):
        wanted = readings(pa.RecordBatch.from_arrays([table[name].combine_chunks()], [NAME]))
        assert read[name][0] == wanted, name


FOLDERS = ["7", "07", "-3", "a", "5.0", " 5", "9" * 18, "9223372036854775807", "9223372036854775808", "-0", "__HIVE_DEFAULT_PARTITION__"]


@pytest.mark.parametrize("declared", ["integer", "text"])
def test_what_a_job_declares_decides_the_type_of_folders(spark, tmp_path, declared):
    """As on one machine: with one folder that is no integer all others were text, and no category was found."""
    for row, text in enumerate(FOLDERS):
        (tmp_path / f"k={text}").mkdir()
        pq.write_table(pa.table({"x": [row]}), tmp_path / f"k={text}" / "a.parquet")
    frame, local = (
        table_of(spark, InputSection(path=str(tmp_path)), {"k": declared}).frame,
        discover(str(tmp_path), declared={"k": declared}),
    )
    types = {"x": pa.int64(), "k": pa.int64() if declared == "integer" else pa.string()}
    assert dict(zip(schema_of(frame).names, schema_of(frame).types, strict=True)) == types
    wanted = [row for path in local.paths for piece in local.pieces(path, types, Cut(1)) for row in piece.batch.to_pylist()]
    assert sorted(row["x"] for row in wanted) == [*range(len(FOLDERS))]
    assert sorted(map(str, wanted)) == sorted(str(row.asDict()) for row in frame.collect())


def test_one_folder_does_not_decide_how_others_are_counted(spark, tmp_path):
    from dpcore.spark import release

    query = {"name": "n", "kind": "histogram", "column": "k", "categories": [7, 8], "missing": "skip", "unknown": "skip", "epsilon": 1000.0}
    job = {"version": 1, "input": {"path": str(tmp_path)}, "privacy": {"max_epsilon": 1000.0}, "query": [query]}
    for text, wanted in (("7", [1, 0]), ("a", [1, 0]), ("007", [2, 0]), ("008", [2, 1])):
        (tmp_path / f"k={text}").mkdir()
        pq.write_table(pa.table({"x": [1]}), tmp_path / f"k={text}" / "a.parquet")
        assert [*map(int, release(None, job).value)] == wanted, text


# Everything is in a list


def test_every_type_is_in_the_list():
    from pyspark.sql import types as T  # noqa: N812

    there = {name for name, kind in vars(T).items() if inspect.isclass(kind) and issubclass(kind, T.DataType)}
    assert there - {name.partition(" ")[0] for name in ZOO} - set(REFUSED) - set(ELSEWHERE) == there & ABSTRACT
