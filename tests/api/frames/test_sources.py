"""How frames are read: without a copy, each cell by itself, as a snapshot, and without a word about their rows."""

from __future__ import annotations

import re
import sys
import warnings

import numpy as np
import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pandas")

import pandas as pd
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcore import PrivateTable
from dpcore.accounting import Ledger
from dpcore.errors import DataError, DpcoreError, JobError, ParameterError, StorageError
from dpcore.frames.arrow_source import ArrowSource
from dpcore.frames.inputs import _digest
from dpcore.frames.objects import text_of, texts
from dpcore.frames.pandas_source import PandasSource
from dpcore.frames.sources import source_of
from support.frames import FRAMES, everything, keyed
from support.releases import REGIONS, clinic

SECRET = "Ann Example"
TEXT = pa.large_string()
SUM = {"lower": 0, "upper": 20, "missing": 0}


def addresses(source, name):
    """Where the values of each batch of a column begin."""
    return [batch.column(0).buffers()[1].address + batch.column(0).offset * 8 for batch in source.batches([name], 100)]


def test_numbers_are_read_where_they_lie():
    values = np.arange(250.0)
    frame = pd.DataFrame({"a": values}, copy=False)
    start = frame["a"].to_numpy().ctypes.data
    assert addresses(source_of(frame), "a") == [start, start + 800, start + 1600]
    table = pa.table({"a": values})
    start = table.column(0).chunk(0).buffers()[1].address
    assert addresses(source_of(table), "a") == [start, start + 800, start + 1600]
    assert addresses(source_of(FRAMES["stream"](table)), "a") == [start, start + 800, start + 1600]


def test_numbers_of_polars_are_read_where_they_lie():
    pl = pytest.importorskip("polars")
    series = pl.Series("a", np.arange(250.0))
    start = series.to_numpy(allow_copy=False).ctypes.data
    assert addresses(source_of(pl.DataFrame({"a": series})), "a") == [start, start + 800, start + 1600]


# Columns of pandas

OBJECTS = st.one_of(
    st.none(), st.text(max_size=3), st.integers(), st.floats(), st.booleans(), st.binary(max_size=2), st.just(pd.NA), st.just(pd.NaT),
    st.just(object()), st.tuples(), st.floats(width=32).map(np.float32), st.integers(0, 9).map(np.int16), st.booleans().map(np.bool_),
    st.characters(categories=["Cs"]), st.binary(max_size=2).map(bytearray), st.binary(max_size=2).map(memoryview),
)  # fmt: skip


def alone(cell):
    """One cell as text."""
    return texts([cell]).to_pylist()[0]


@settings(max_examples=300, deadline=None)
@given(st.lists(OBJECTS, max_size=5))
def test_a_cell_is_read_by_itself(cells):
    found = texts(cells)
    assert found.type == TEXT
    assert found.to_pylist() == [alone(cell) for cell in cells]
    assert found.to_pylist() == [None if cell is None else _encodable(text_of(cell)) for cell in cells]
    found.validate(full=True)


def _encodable(text):
    """Text that has UTF-8."""
    try:
        return None if text is None else text.encode().decode()
    except UnicodeEncodeError:
        return None


class Loud(str):
    """Text that tells everybody."""

    __slots__ = ()

    def __str__(self):
        raise ValueError(SECRET)

    __repr__ = __len__ = __iter__ = encode = __str__


class Number(int):
    """A number that runs code."""

    def __repr__(self):
        raise ValueError(SECRET)

    __str__ = __int__ = __index__ = __repr__


def test_no_method_of_a_cell_is_called():
    assert texts([Loud("a"), Number(3), "b"]).to_pylist() == ["a", None, "b"]


def test_types_follow_from_dtypes_alone():
    frame = pd.DataFrame(
        {
            "text": pd.Series(["a", None], dtype=object),
            "mixed": pd.Series(["a", 1], dtype=object),
            "numbers": pd.Series([1, None], dtype=object),
            "float": [1.0, None],
            "Int64": pd.Series([1, None], dtype="Int64"),
            "boolean": pd.Series([True, None], dtype="boolean"),
            "category": pd.Categorical(["a", None]),
            "codes": pd.Categorical([7, 5]),
            "time": pd.to_datetime(["2026-01-01", None]),
            "complex": [1j, 2j],
            "period": pd.period_range("2026-01", periods=2, freq="M"),
        }
    )
    types = PandasSource.of(frame).info().types
    assert types["text"] == types["mixed"] == types["numbers"] == TEXT
    assert types == PandasSource.of(frame.iloc[:0]).info().types
    assert types["float"] == pa.float64()
    assert types["Int64"] == pa.int64()
    assert types["boolean"] == pa.bool_()
    assert pa.types.is_dictionary(types["category"])
    assert types["codes"].value_type == pa.int64()
    assert pa.types.is_struct(types["complex"])
    (batch,) = PandasSource.of(frame).batches([name for name, kind in types.items() if not pa.types.is_struct(kind)], 10)
    assert batch.column("numbers").to_pylist() == ["1", None]
    assert batch.column("float").null_count == 1
    assert batch.column("category").to_pylist() == ["a", None]
    with pytest.raises(JobError, match="no type of Arrow"):
        PrivateTable(frame).sum("complex", epsilon=1.0, **SUM)


def test_levels_of_an_index_are_columns():
    frame = clinic(200).to_pandas().set_index(["region", "person"])
    table = keyed(frame, unit="person", max_rows_per_unit=1)
    plain = keyed(clinic(200), unit="person", max_rows_per_unit=1)
    asked = [each.group_by("region", groups=REGIONS).sum("visits", epsilon=1.0, **SUM).document for each in (table, plain)]
    assert asked[0] == asked[1]
    assert PandasSource.of(pd.DataFrame({"a": [1]}, index=[7])).info().names == ("a",)


@pytest.mark.parametrize("library", ["pandas", "arrow", "polars"])
def test_a_category_can_be_the_unit(library):
    names = ["a", "b", "a", None, "c"]
    if library == "pandas":
        frame = pd.DataFrame({"person": pd.Categorical(names)})
    elif library == "arrow":
        frame = pa.table({"person": pa.array(names).dictionary_encode()})
    else:
        pl = pytest.importorskip("polars")
        frame = pl.DataFrame({"person": pl.Series(names, dtype=pl.Categorical)})
    table = PrivateTable(frame, unit="person", max_rows_per_unit=1)
    assert table.count(epsilon=1000.0).value == 3
    assert table.count_distinct(epsilon=1000.0).value == 3


def test_names_that_are_repeated_are_refused():
    frame = pd.DataFrame([[1, 2]], columns=["a", "a"])
    with pytest.raises(JobError, match="2 columns are named 'a'"):
        PrivateTable(frame).sum("a", epsilon=1.0, **SUM)
    with pytest.raises(JobError, match="2 columns are named 'a'"):
        PrivateTable(pd.DataFrame({"a": [1]}, index=pd.Index([1], name="a"))).sum("a", epsilon=1.0, **SUM)
    with pytest.raises(JobError, match="2 columns are named 'a'"):
        PrivateTable(pa.table([pa.array([1]), pa.array([2])], names=["a", "a"])).sum("a", epsilon=1.0, **SUM)


# Changes


@pytest.mark.skipif(int(pd.__version__.partition(".")[0]) < 3, reason="before version 3 a shallow copy shares what is written")
def test_a_frame_of_pandas_is_a_snapshot():
    frame = clinic(100).to_pandas()
    table = PrivateTable(frame, rng=None)
    frame.pop("cost")
    frame.loc[:, "visits"] = 0
    frame["person"] = -1
    assert sum(batch.column(0).to_numpy().sum() for batch in source_of(frame).batches(["visits"], 100)) == 0
    assert sum(batch.column(0).to_numpy().sum() for batch in table._session.source.batches(["visits"], 100)) > 0


class Changing(ArrowSource):
    """A table whose unit column changes after the first pass."""

    passes = 0

    def batches(self, names, rows):
        if "unit" in names and list(names) == ["unit"]:
            type(self).passes += 1
        shift = int(type(self).passes > 2)  # a checksum, and the pass
        table = self.table.set_column(0, "unit", pa.array(np.arange(len(self.table)) // 3 + shift))
        return ArrowSource(table, self.name).batches(names, rows)


def test_a_change_of_the_units_between_passes_is_found(tmp_path):
    ledger = Ledger.create(tmp_path / "a.ledger", epsilon=10, unit="unit")
    source = Changing(pa.table({"unit": np.arange(90) // 3, "a": np.arange(90)}), "some table")
    table = PrivateTable(source.table, unit="unit", max_rows_per_unit=1, ledger=ledger.path)
    table.sum("a", epsilon=1.0, **SUM)
    object.__setattr__(table._session, "source", source)
    with pytest.raises(StorageError, match="the frame changed while it was read"):
        table.sum("a", epsilon=1.0, **SUM)
    assert [entry.state for entry in ledger.entries()] == ["done", "failed"]


def over(text):
    """An array of texts of one letter in memory that can be written to."""
    ends = pa.array(range(len(text) + 1), pa.int32()).buffers()[1]
    return pa.Array.from_buffers(pa.string(), len(text), [None, ends, pa.py_buffer(text)])


def labelled(labels):
    """Rows that each have a label, or something that has one."""
    return pa.DictionaryArray.from_arrays(pa.array([0, 1, 2] * 3, pa.int8()), labels)


ONES = pa.array([1] * 9, pa.int32())
HOLDERS = {
    "labels": labelled,
    "labels of labels": lambda labels: labelled(pa.DictionaryArray.from_arrays(pa.array([2, 1, 0], pa.int8()), labels)),
    "struct": lambda labels: pa.StructArray.from_arrays([labelled(labels)], ["x"]),
    "list": lambda labels: pa.ListArray.from_arrays(pa.array(range(10), pa.int32()), labelled(labels)),
    "large list": lambda labels: pa.LargeListArray.from_arrays(pa.array(range(10), pa.int64()), labelled(labels)),
    "list of one": lambda labels: pa.FixedSizeListArray.from_arrays(labelled(labels), 1),
    "list view": lambda labels: pa.ListViewArray.from_arrays(pa.array(range(9), pa.int32()), ONES, labelled(labels)),
    "map": lambda labels: pa.MapArray.from_arrays(pa.array(range(10), pa.int32()), labelled(labels), pa.array(range(9))),
    "runs": lambda labels: pa.RunEndEncodedArray.from_arrays(pa.array(range(1, 10), pa.int32()), labelled(labels)),
    "extension": lambda labels: pa.ExtensionArray.from_storage(pa.opaque(labelled(labels).type, "a", "b"), labelled(labels)),
}  # fmt: skip


@pytest.mark.parametrize("holder", HOLDERS)
def test_the_checksum_sees_labels(holder):
    text = bytearray(b"abc")
    cells = HOLDERS[holder](over(text))
    for chunks in (1, 3):
        source = ArrowSource(pa.table({"a": pa.chunked_array([cells] * chunks)}), "some table")
        before = _digest(source, ["a"])
        assert _digest(source, ["a"]) == before
        text[1:2] = b"a"
        assert _digest(source, ["a"]) != before
        text[1:2] = b"b"
        assert _digest(source, ["a"]) == before


def test_labels_of_units_that_change_between_passes_are_found(tmp_path):
    """Two units became one: the rows that stay were chosen among others than those that were added up."""
    text = bytearray(b"abc")

    class Relabelled(ArrowSource):
        passes = 0

        def batches(self, names, rows):
            if list(names) == ["unit"]:
                type(self).passes += 1
            text[1:2] = b"a" if type(self).passes > 2 else b"b"  # a checksum, and the pass
            return super().batches(names, rows)

    source = Relabelled(pa.table({"unit": labelled(over(text)), "a": np.arange(9)}), "some table")
    ledger = Ledger.create(tmp_path / "a.ledger", epsilon=10, unit="unit")
    table = PrivateTable(source.table, unit="unit", max_rows_per_unit=1, ledger=ledger.path)
    object.__setattr__(table._session, "source", source)
    with pytest.raises(StorageError, match="the frame changed while it was read"):
        table.sum("a", epsilon=1.0, **SUM)
    assert [entry.state for entry in ledger.entries()] == ["failed"]


class Growing(ArrowSource):
    """A table with more rows in each pass."""

    passes = 0

    def batches(self, names, rows):
        type(self).passes += 1
        return ArrowSource(pa.concat_tables([self.table] * type(self).passes), self.name).batches(names, rows)


def test_keys_and_their_answers_are_of_the_same_rows():
    """A lazy frame is collected once for both passes, and a relation of DuckDB evaluated once, whether or not the unit is a column."""
    pl, duckdb = pytest.importorskip("polars"), pytest.importorskip("duckdb")
    passes = []

    def with_key(frame):
        passes.append(len(frame))
        return frame.with_columns(key=pl.lit(f"pass {len(passes)}"))

    lazy = pl.LazyFrame({"x": [1.0] * 1000}).map_batches(with_key, schema={"x": pl.Float64, "key": pl.String})
    database = duckdb.connect()
    database.execute("create sequence calls")
    relation = database.sql("select 'key ' || nextval('calls') // 100000 as key, 1.0 as x from range(60000)")
    for frame, rows in ((lazy, 1000), (relation, 60000)):
        found = PrivateTable(frame).group_by("key", groups="private", delta=1e-6).count(epsilon=50.0)
        assert abs(int(found.value[0]) - rows) < 50
    assert passes == [1000]


def test_columns_of_a_relation_are_read_by_their_own_names():
    """Not by what a name would mean in SQL; and names that DuckDB does not tell apart are refused before anything is asked."""
    duckdb = pytest.importorskip("duckdb")
    names = ["a", "b", "a.b", 'a"."b', '"a"', 'q"q', 'q""q', "*", "x.*"]
    relation = duckdb.from_arrow(pa.table({name: [1000 * place] * 10 for place, name in enumerate(names)}))
    table = PrivateTable(relation)
    for place, name in enumerate(names):
        found = table.mean(name, epsilon=50.0, lower=0, upper=10_000, missing=0).value
        assert abs(found - 1000 * place) < 300, name
    with pytest.raises(ParameterError, match="frame has columns whose names differ in capitals only, such as 'a'"):
        PrivateTable(duckdb.sql('SELECT 1 AS a, 2 AS "A"'))


def test_rows_that_come_between_passes_are_found():
    source = Growing(pa.table({"unit": np.arange(90) // 3, "a": np.arange(90)}), "some table", is_snapshot=True)
    table = PrivateTable(source.table, unit="unit", max_rows_per_unit=1)
    object.__setattr__(table._session, "source", source)
    with pytest.raises(StorageError, match="changed while it was read"):
        table.sum("a", epsilon=1.0, **SUM)


# Frames that run code, and libraries that quote rows


class Subclass(pd.DataFrame):
    """A frame that tells what it holds."""

    def _loud(self, *args, **kwargs):
        raise ValueError(SECRET)

    __getitem__ = __len__ = __iter__ = __arrow_c_stream__ = to_numpy = items = _loud


def test_no_method_of_a_subclass_is_called():
    frame = Subclass(clinic(100).to_pandas())
    assert keyed(frame).sum("visits", epsilon=1.0, **SUM).value == keyed(clinic(100)).sum("visits", epsilon=1.0, **SUM).value
    assert type(keyed(frame).sum("visits", epsilon=1.0, **SUM).to_native()) is pd.DataFrame


class Failing(ArrowSource):
    """A table whose rows cannot be read; the error quotes one."""

    def batches(self, names, rows):
        yield from super().batches(names, 5)
        raise pa.ArrowInvalid(f"could not convert {SECRET}")


class Unreadable:
    """A table whose stream fails."""

    def __arrow_c_stream__(self, requested_schema=None):
        raise ValueError(f"could not convert {SECRET}")


def test_errors_of_a_library_are_not_quoted(tmp_path):
    ledger = Ledger.create(tmp_path / "a.ledger", epsilon=10)
    table = PrivateTable(pa.table({"a": np.arange(90)}), ledger=ledger.path)
    object.__setattr__(table._session, "source", Failing(pa.table({"a": np.arange(90)}), "some table"))
    with pytest.raises(StorageError, match=r"some table: its rows cannot be read \(ArrowInvalid\)") as caught:
        table.sum("a", epsilon=1.0, **SUM)
    assert SECRET not in everything(caught.value)
    assert [(entry.state, entry.reason) for entry in ledger.entries()] == [("failed", "storage")]
    with pytest.raises(ParameterError, match="its rows cannot be read") as caught:
        PrivateTable(Unreadable())
    assert SECRET not in everything(caught.value)


def test_a_lazy_frame_that_fails_is_not_quoted():
    pl = pytest.importorskip("polars")
    lazy = pl.LazyFrame({"a": ["1", SECRET]}).with_columns(pl.col("a").cast(pl.Int64))
    with pytest.raises(StorageError, match="polars LazyFrame: its rows cannot be read") as caught:
        PrivateTable(lazy).sum("a", epsilon=1.0, **SUM)
    assert SECRET not in everything(caught.value)


def test_a_panic_of_polars_is_an_error_of_ours(capfd):
    """It is no `Exception`, and what it says may be of a row. polars alone prints that, before Python sees it."""
    pl = pytest.importorskip("polars")
    when = pl.LazyFrame({"a": [0, 2**62]}).select(a=pl.col("a").cast(pl.Datetime("ms")).dt.strftime("%Y").cast(pl.Int64))
    with pytest.raises(pl.exceptions.PanicException):
        when.collect()
    of_polars = capfd.readouterr()
    with pytest.raises(StorageError, match="polars LazyFrame: its rows cannot be read") as caught:
        PrivateTable(when).sum("a", epsilon=1.0, **SUM)
    assert "datetime" not in everything(caught.value)
    ours = capfd.readouterr()
    assert "panicked at" in of_polars.err
    assert (ours.out, said_by_threads(ours.err)) == ("", said_by_threads(of_polars.err))


def said_by_threads(text):
    """The lines of a panic, without the name and the number of the thread, and without the calls that some versions list."""
    lines = text.partition("stack backtrace:")[0].splitlines()
    return sorted(re.sub(r"^thread .* panicked", "thread panicked", line) for line in lines)


@pytest.mark.parametrize("name", ["^a.*$", "*", "^.*$"])
def test_the_name_of_a_column_of_polars_is_no_pattern(name):
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame({name: [1, 2], "ab": [5, 5]})
    for each in (frame, frame.lazy()):
        source = source_of(each)
        assert next(iter(source.batches([name], 10))).to_pydict() == {name: [1, 2]}
        assert next(iter(source.evaluated([name]).batches([name], 10))).num_columns == 1
        assert round(keyed(each).sum(name, epsilon=1e4, **SUM).value) == 3


def test_a_relation_that_fails_is_not_quoted():
    duckdb = pytest.importorskip("duckdb")
    relation = duckdb.sql(f"SELECT CAST(x AS INTEGER) AS a FROM (VALUES ('1'), ('{SECRET}')) AS t(x)")
    with pytest.raises(StorageError, match="DuckDB relation: its rows cannot be read") as caught:
        PrivateTable(relation).sum("a", epsilon=1.0, **SUM)
    assert SECRET not in everything(caught.value)


@pytest.mark.some(6)
@pytest.mark.parametrize("library", FRAMES)
def test_nothing_shows_a_row(library):
    rows = pa.table({"person": [1, 2], "name": [SECRET, SECRET], "a": [31337.25, None]})
    table = PrivateTable(FRAMES[library](rows), unit="person", max_rows_per_unit=1)
    with table.batch(epsilon=2.0) as batch:
        shown = [repr(table), repr(batch), repr(table.group_by("name", groups=["x"])), repr(vars(table)), repr(batch._collected.session)]
        planned = batch.plan("sum", "a", epsilon=1.0, **SUM)
        shown += [repr(planned), planned._repr_html_(), str(planned.document)]
        plan = table._session.plan(table._session.job([_question()]), [_question()])
        shown.append(repr(plan))
    for bad in (
        lambda: table.sum("name", epsilon=1.0, **SUM),
        lambda: table.histogram("name", epsilon=1.0, categories=["x", "y"]),
        lambda: table.sum("a", epsilon=1.0, lower=0, upper=1),
        lambda: table.sum("b", epsilon=1.0, lower=0, upper=1),
    ):
        with pytest.raises((JobError, DataError)) as caught:
            bad()
        shown.append(everything(caught.value))
    assert not [text for text in shown if SECRET in text or "31337" in text or ", 2 rows" in text]


def _question():
    from dpcore.frames.question import Question, View

    return Question(View(), {"kind": "sum", "column": "a", "epsilon": 1.0, **SUM})


# Sizes


def test_a_frame_is_not_read_for_columns_that_are_not_asked():
    frame = pd.DataFrame({"a": np.arange(10), "objects": [object()] * 10})
    assert PrivateTable(frame, rng=None).sum("a", epsilon=1e9, **SUM).value == pytest.approx(45)


def test_a_relation_is_read_as_a_stream():
    duckdb = pytest.importorskip("duckdb")
    relation = duckdb.sql("SELECT range AS a, range % 4 AS region FROM range(300_000)")
    found = PrivateTable(relation).group_by("region", groups=range(4)).count(epsilon=1e6)
    assert found.value.tolist() == [75_000] * 4


@pytest.mark.long
def test_libraries_are_not_loaded_for_frames_of_others():
    import subprocess

    program = """
import sys
import pyarrow as pa
from dpcore import PrivateTable
assert PrivateTable(pa.table({"a": [1, 2]})).count().value == 2
assert "polars" not in sys.modules
"""
    subprocess.run([sys.executable, "-W", "error", "-c", program], check=True)


def test_names_of_columns_that_are_not_text():
    frame = pd.DataFrame({0: [1, 2], ("a", 1): [3, 4]})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert PandasSource.of(frame).info().names == ("0", "('a', 1)")
        PrivateTable(frame).sum("0", epsilon=1.0, **SUM)


def test_every_error_is_one_of_ours():
    for bad in (b"x\x00", "", "no such file.parquet", "x.unknown"):
        with pytest.raises((DpcoreError, TypeError)):
            PrivateTable(bad).count()
