"""Cells and columns that would decide about others, or end a question: each is itself, missing, or refused before anything is charged."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pandas")

import pandas as pd
import pyarrow as pa

from dpcore import PrivateTable
from dpcore.accounting import Ledger
from dpcore.errors import JobError, StorageError
from dpcore.frames.objects import texts
from dpcore.frames.pandas_source import PandasSource
from support.cells.objects import CALLED, OBJECTS
from support.cells.pandas import objects
from support.extras import evaluated

SURE = 1e6
SECRET = "Ann Example"
SUM = {"lower": 0, "upper": 10, "missing": 0}


def column(cells, dtype=object):
    return pd.DataFrame({"a": pd.Series(objects(cells), dtype=dtype)})


# One cell


def test_one_cell_does_not_change_how_others_are_read():
    """Text of Arrow's scalars was read or not, all of it, as one other cell said."""
    scalars = [pa.scalar("1001", pa.large_string())] * 1000
    asked = [PrivateTable(column([*scalars, cell])).count("a", epsilon=SURE, missing="skip").value for cell in ("x", 5, b"x", object())]
    assert max(asked) - min(asked) <= 1


def test_no_cell_ends_the_process_or_is_asked_anything():
    CALLED.clear()
    cells = list(OBJECTS.values())
    assert (
        PrivateTable(column([*cells, "a"])).histogram("a", epsilon=SURE, categories=["a", "zz"], missing="skip", unknown="skip").value[1]
        == 0
    )
    assert CALLED == []


def test_arrow_is_not_given_a_cell_that_crashes_it():
    """It asks a subclass of Decimal whether it is NaN, and ends the process where that raises."""
    assert (
        PrivateTable(column([OBJECTS["raises Decimal"], OBJECTS["outrages Decimal"]])).count("a", epsilon=SURE, missing="skip").value == 0
    )


@pytest.mark.parametrize("kind", ["float16", "float32", "float64"])
@pytest.mark.parametrize(
    "form", [lambda values: pa.table({"a": values}), lambda values: pd.DataFrame({"a": values})], ids=["arrow", "pandas"]
)
def test_nan_of_every_width_is_missing(kind, form):
    table = PrivateTable(form(np.array([1.0, np.nan, -np.inf, 0.0, np.nan], kind)))
    assert table.count("a", epsilon=SURE, missing="skip").value == 3


def test_a_view_that_was_released_is_missing():
    view = memoryview(b"a")
    view.release()
    assert texts([view, "a", memoryview(b"b")]).to_pylist() == [None, "a", "b"]


def test_times_of_other_packages_are_not_asked_for_their_zone():
    class Zone(dt.tzinfo):
        def utcoffset(self, moment):
            raise ValueError(SECRET)

    assert texts([dt.datetime(2024, 1, 1, tzinfo=Zone()), pd.Timestamp("2024-01-01")]).to_pylist() == [None, "2024-01-01T00:00:00"]


# Levels of an index


@pytest.mark.parametrize("null", [None, np.nan, pd.NA])
def test_a_null_in_a_level_of_integers_is_missing(null, tmp_path):
    """It made floats of the integers of its piece, and the question failed when it was paid for."""
    index = pd.MultiIndex.from_arrays([[1, 2, 3, null], ["x", "y", None, "z"]], names=["number", "text"])
    ledger = Ledger.create(tmp_path / "a.ledger", epsilon=1e8)
    table = PrivateTable(pd.DataFrame({"a": range(4)}, index=index), ledger=ledger.path)
    assert table.sum("number", epsilon=SURE, **SUM).value == pytest.approx(6, abs=0.01)
    assert table.count("number", epsilon=SURE, missing="skip").value == 3
    assert table.histogram("text", epsilon=SURE, categories=["x", "y"], missing="skip", unknown="skip").value.tolist() == [1, 1]
    assert [entry.state for entry in ledger.entries()] == ["done"] * 3


def test_a_level_has_the_type_of_its_labels_whichever_rows_a_piece_has():
    index = pd.MultiIndex.from_product([range(100), ["x", "y"]], names=["number", None])
    source = PandasSource.of(pd.DataFrame({"a": range(200)}, index=index))
    assert source.info().names == ("a", "number")
    batches = list(source.batches(["number"], 7))
    assert {batch.schema.field(0).type for batch in batches} == {source.info().types["number"]}
    assert [cell for batch in batches for cell in batch.column(0).to_pylist()] == [number for number in range(100) for _ in "xy"]


def test_a_level_can_be_the_unit():
    index = pd.MultiIndex.from_arrays([[1, 1, 2, None], range(4)], names=["person", "row"])
    table = PrivateTable(pd.DataFrame({"a": range(4)}, index=index), unit="person", max_rows_per_unit=1)
    assert table.count(epsilon=SURE).value == 2
    assert table.count_distinct(epsilon=SURE).value == 2


# Dictionaries that Arrow does not join

ODD_CHUNKS = {
    "a null among the labels": [pa.array(["a", "b"]).dictionary_encode(), pa.array(["b", None]).dictionary_encode("encode")],
    "more labels than indices": [
        pa.array([f"{place} {part}" for place in range(100)] + ["a", "b", "b"])
        .dictionary_encode()
        .cast(pa.dictionary(pa.int8(), pa.string()))
        for part in (1, 2)
    ],
    "nulls alone": [pa.nulls(2).dictionary_encode(), pa.DictionaryArray.from_arrays(pa.array([None], pa.int32()), pa.nulls(0))],
}


@pytest.mark.some(4)
@pytest.mark.parametrize("form", ["pandas", "arrow"])
@pytest.mark.parametrize("kind", ODD_CHUNKS)
def test_the_labels_of_another_chunk_end_no_question(kind, form, tmp_path):
    """pandas' chunks were joined, and a label of one row ended the question after its charge."""
    table = pa.table({"a": pa.chunked_array(ODD_CHUNKS[kind])})
    frame = table if form == "arrow" else table.to_pandas(types_mapper=pd.ArrowDtype)
    ledger = Ledger.create(tmp_path / "a.ledger", epsilon=1e8)
    cells = [cell for chunk in ODD_CHUNKS[kind] for cell in chunk.to_pylist()]
    asked = PrivateTable(frame, ledger=ledger.path)
    found = asked.histogram("a", epsilon=SURE, categories=["a", "b"], missing="skip", unknown="skip").value.tolist()
    assert found == [cells.count("a"), cells.count("b")]
    assert asked.count("a", epsilon=SURE, missing="skip").value == len(cells) - cells.count(None)
    assert [entry.state for entry in ledger.entries()] == ["done"] * 2


@evaluated
@pytest.mark.parametrize("kind", ["a null among the labels", "more labels than indices"])
def test_a_public_table_may_have_them_too(kind):
    labels = pa.chunked_array(ODD_CHUNKS[kind])
    keys = pa.chunked_array([np.arange(len(labels))])
    wanted = labels.to_pylist().count("b")
    table = PrivateTable(pa.table({"key": keys})).lookup(pa.table({"key": keys, "label": labels}), "key", ["label"])
    assert table.histogram("label", epsilon=SURE, categories=["a", "b"], missing="skip", unknown="skip").value[1] == wanted


# Columns whose dtype lies, and names


class Lying(pd.api.extensions.ExtensionArray):
    """Says that it holds numbers, and gives Arrow what it likes, by the rows that are there."""

    def __init__(self, cells):
        self._cells = np.asarray(cells, object)

    @classmethod
    def _from_sequence(cls, scalars, *, dtype=None, copy=False):
        return cls(scalars)

    @property
    def dtype(self):
        return Dtype()

    def __len__(self):
        return len(self._cells)

    def __getitem__(self, item):
        found = self._cells[item]
        return type(self)(found) if isinstance(item, slice | np.ndarray | list) else found

    def isna(self):
        return np.zeros(len(self), np.bool_)

    def copy(self):
        return self

    def __arrow_array__(self, type=None):  # noqa: A002
        if SECRET in self._cells:
            raise ValueError(SECRET)
        return pa.array(np.arange(len(self), dtype=np.int64 if len(self) % 2 else np.float64))

    def __array__(self, dtype=None, copy=None):
        raise ValueError(SECRET)


class Dtype(pd.api.extensions.ExtensionDtype):
    """The dtype of `Lying`, which has the name of another one."""

    name = "int64"
    type = int
    kind = "i"
    na_value = None

    @classmethod
    def construct_array_type(cls):
        return Lying


@pytest.mark.parametrize("cell", ["Bob", SECRET])
def test_an_array_of_another_package_is_refused_by_its_dtype(cell, tmp_path):
    ledger = Ledger.create(tmp_path / "a.ledger", epsilon=10)
    table = PrivateTable(pd.DataFrame({"a": Lying(["Bob", cell]), "b": [1, 2]}), ledger=ledger.path)
    with pytest.raises(JobError, match="no type of Arrow") as caught:
        table.count("a", epsilon=1.0, missing="skip")
    assert SECRET not in str(caught.value)
    assert list(ledger.entries()) == []
    table.sum("b", epsilon=1.0, **SUM)


def test_labels_of_another_package_are_refused_by_their_dtype():
    labels = pd.Index(Lying(["Bob", SECRET]))
    index = pd.MultiIndex([labels, pd.Index([1])], [[0, 1], [0, 0]], names=["a", "b"], verify_integrity=False)
    table = PrivateTable(pd.DataFrame({"c": [1, 2]}, index=index))
    with pytest.raises(JobError, match="no type of Arrow"):
        table.count("a", epsilon=1.0, missing="skip")
    assert table.sum("b", epsilon=SURE, **SUM).value == pytest.approx(2, abs=0.01)


def test_columns_of_several_levels_and_names_that_are_no_text():
    frame = pd.DataFrame([[1, 2, 3]], columns=pd.MultiIndex.from_tuples([("a", 1), ("a", 2), (None, 2)]))
    assert PandasSource.of(frame).info().names == ("('a', 1)", "('a', 2)", "(nan, 2)")
    assert PrivateTable(frame).sum("('a', 2)", epsilon=SURE, **SUM).value == pytest.approx(2, abs=0.01)
    for twice in (pd.DataFrame([[1, 2]], columns=[1, "1"]), pd.DataFrame({"1": [1]}, index=pd.Index([1], name=1))):
        with pytest.raises(JobError, match="2 columns are named '1'"):
            PrivateTable(twice).sum("1", epsilon=1.0, **SUM)


@pytest.mark.parametrize("kind", ["integers", "floats", "truth"])
def test_sparse_columns_have_one_type(kind):
    """Rows without a gap had another type than those with one."""
    cells, fill = {"integers": ([1, 2, 3, 0], np.nan), "floats": ([1.0, np.nan, 3.0, 0.0], np.nan), "truth": ([True, False] * 2, False)}[
        kind
    ]
    array = pd.arrays.SparseArray(np.array(cells), fill_value=fill)
    source = PandasSource.of(pd.DataFrame({"a": array}))
    for rows in (1, 2, 4):
        assert {batch.schema.field(0).type for batch in source.batches(["a"], rows)} == {source.info().types["a"]}
    PrivateTable(pd.DataFrame({"a": array})).count("a", epsilon=SURE, missing="skip")


@pytest.mark.parametrize("kind", [pa.string_view(), pa.binary_view()])
@pytest.mark.parametrize(
    "form", [lambda cells: pa.table({"a": cells}), lambda cells: pd.DataFrame({"a": pd.arrays.ArrowExtensionArray(cells)})]
)
def test_a_view_that_points_nowhere_is_not_followed(kind, form):
    view = np.array([100, 0, 7, 2**30], np.int32).tobytes()  # 100 bytes of buffer 7, far behind its beginning
    damaged = pa.Array.from_buffers(kind, 1, [None, pa.py_buffer(view)])
    with pytest.raises(StorageError, match="its rows cannot be read"):
        PrivateTable(form(damaged)).count("a", epsilon=1.0, missing="skip")


# What can fail by a row, because it runs the code of a user while it is read


def failing(library):
    if library == "polars, map_elements":
        pl = pytest.importorskip("polars")

        def looked_at(cell):
            raise ValueError(f"{SECRET} {cell}")

        return pl.LazyFrame({"a": [1, 2]}).with_columns(pl.col("a").map_elements(looked_at, return_dtype=pl.Int64))
    if library == "polars, a strict cast":
        pl = pytest.importorskip("polars")
        return pl.LazyFrame({"a": ["1", SECRET]}).with_columns(pl.col("a").cast(pl.Int64))
    duckdb = pytest.importorskip("duckdb")
    return duckdb.sql(f"SELECT CAST(x AS INTEGER) AS a FROM (VALUES ('1'), ('{SECRET}')) AS t(x)")


@pytest.mark.parametrize("library", ["polars, map_elements", "polars, a strict cast", "duckdb, a cast"])
def test_code_of_a_user_can_fail_by_a_row_and_the_charge_stays(library, tmp_path, capfd):
    ledger = Ledger.create(tmp_path / "a.ledger", epsilon=10)
    table = PrivateTable(failing(library), ledger=ledger.path, max_epsilon=5)
    with pytest.raises(StorageError, match="its rows cannot be read") as caught:
        table.sum("a", epsilon=1.0, **SUM)
    carried, error = [], caught.value
    while error is not None:
        carried, error = [*carried, f"{error} {error!r} {getattr(error, '__notes__', '')}"], error.__cause__ or error.__context__
    assert SECRET not in " ".join(carried)
    assert [(entry.state, entry.reason) for entry in ledger.entries()] == [("failed", "storage")]
    assert SECRET not in str(list(ledger.entries()))
    assert table.spent.epsilon == 1.0
    assert SECRET not in "".join(capfd.readouterr())
