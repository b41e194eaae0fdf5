"""Datasets of pyarrow: each fragment is read with its own schema, and no value decides whether a question can be answered."""

from __future__ import annotations

import itertools
import time
from decimal import Decimal
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
import pyarrow.orc as po
import pyarrow.parquet as pq
from pyarrow import feather, fs

from dpcore import PrivateTable
from dpcore.accounting import Ledger
from dpcore.errors import JobError, ParameterError, StorageError
from dpcore.frames import dataset_source
from dpcore.frames.arrow_source import ArrowSource
from dpcore.frames.sources import source_of
from dpcore.tables.formats import parquet as parquet_input
from dpcore.tables.formats.table_columns import TableColumns
from dpcore.tables.pieces import Cut, FileInfo, Piece
from support.extras import evaluated
from support.frames import everything, keyed

SECRET = "Ann Example"
SUM = {"lower": 0, "upper": 20, "missing": 0, "epsilon": 1.0}
FAR = 2**40
PAIRS = [
    (pa.int32(), pa.int64(), FAR), (pa.int64(), pa.int32(), 3), (pa.int8(), pa.uint64(), 2**63), (pa.int64(), pa.float64(), 0.5),
    (pa.float32(), pa.float64(), 1e300), (pa.null(), pa.int32(), 7), (pa.int16(), pa.decimal128(38, 0), 10**30),
    (pa.decimal128(5, 2), pa.decimal128(20, 4), 10**12), (pa.decimal128(20, 4), pa.decimal128(5, 2), 3),
]  # fmt: skip
"""Types of a column in two files, and a value of the second."""


def folder_of(tmp_path, *tables, ending="parquet"):
    folder = tmp_path / "data"
    folder.mkdir(exist_ok=True)
    write = pq.write_table if ending == "parquet" else feather.write_feather
    for number, table in enumerate(tables):
        write(table, folder / f"{number}.{ending}")
    return str(folder)


def elsewhere(name):
    """A file system that pyarrow does not know for the one of this machine."""
    own = fs.LocalFileSystem()

    class Handler(fs.FileSystemHandler):
        def get_type_name(self):
            return name

        def get_file_info(self, paths):
            return own.get_file_info(paths)

        def get_file_info_selector(self, selector):
            return own.get_file_info(selector)

        def open_input_file(self, path):
            return own.open_input_file(path)

        def open_input_stream(self, path):
            return own.open_input_stream(path)

        def normalize_path(self, path):
            return own.normalize_path(path)

        def _refused(self, *_):
            raise NotImplementedError

        create_dir = delete_dir = delete_dir_contents = delete_root_dir_contents = delete_file = move = copy_file = _refused
        open_output_stream = open_append_stream = _refused

    return fs.PyFileSystem(Handler())


def ints(kind, *values):
    return pa.table({"x": pa.array(values, kind)})


def exact(kind, value):
    return Decimal(value) if pa.types.is_decimal(kind) and value is not None else value


def total(frame, **more):
    return keyed(frame).sum("x", **{**SUM, **more}).value


@pytest.mark.parametrize("value", [5, FAR, -FAR, None])
def test_a_wider_type_in_another_file_is_read_as_it_is(tmp_path, value):
    """At 2^40 a scan of the dataset ends with an error, after the charge."""
    folder = folder_of(tmp_path, ints(pa.int32(), 1, 2), ints(pa.int64(), 1, value))
    assert total(pads.dataset(folder)) == total(folder)


@pytest.mark.some(7)
@pytest.mark.parametrize("ending", ["parquet", "arrow"])
@pytest.mark.parametrize(("first", "second", "value"), PAIRS, ids=str)
def test_files_of_different_types_are_read_as_by_their_path(tmp_path, first, second, value, ending):
    tables = [
        pa.table({"x": pa.array([None] if pa.types.is_null(first) else [exact(first, each) for each in (1, 2, None)], first)}),
        ints(second, exact(second, value), None),
    ]
    folder = folder_of(tmp_path, *tables, ending=ending)
    assert total(pads.dataset(folder, format=ending)) == total(folder)


def test_types_that_no_query_takes_together_are_refused_from_the_schemas(tmp_path):
    ledger = tmp_path / "a.ledger"
    Ledger.create(ledger, epsilon=5.0)
    folder = folder_of(tmp_path, ints(pa.int32(), 1, 2), pa.table({"x": ["1", SECRET]}))
    with pytest.raises(JobError, match=r"pyarrow Dataset \(fragment 2 of 2\): column 'x' has type string") as caught:
        PrivateTable(pads.dataset(folder), ledger=str(ledger)).sum("x", **SUM)
    assert SECRET not in str(caught.value)
    assert Ledger(ledger).spent.epsilon == 0.0


def test_a_declared_schema_does_not_cast(tmp_path):
    folder = folder_of(tmp_path, ints(pa.int64(), 1, 2), ints(pa.int64(), 1, FAR))
    assert total(pads.dataset(folder, schema=pa.schema({"x": pa.int8()}))) == total(folder)


def test_a_column_that_a_fragment_lacks_is_null_and_others_are_passed_over(tmp_path):
    both = pa.table({"x": [1, 2], "y": [10, 20]})
    folder = folder_of(tmp_path, both, both.select(["x"]), both.append_column("z", pa.array([SECRET] * 2)).select(["z", "y", "x"]))
    table = keyed(pads.dataset(folder))
    assert table.sum("y", **{**SUM, "missing": 7}).value == total(pa.table({"x": [10, 20, 7, 7, 10, 20]}))
    assert PrivateTable(pads.dataset(folder)).count("y", missing="skip", epsilon=1e4).value == pytest.approx(4, abs=0.1)
    with pytest.raises(JobError, match="no column 'z'"):
        table.sum("z", **SUM)


def test_a_name_that_a_fragment_has_twice_is_refused(tmp_path):
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([2])], ["x", "x"])
    dataset = pads.dataset(folder_of(tmp_path, ints(pa.int64(), 1), twice))
    with pytest.raises(JobError, match=r"fragment 2 of 2\): 2 columns are named 'x'"):
        total(dataset)


PARTITIONS = {
    "hive": {"partitioning": "hive"},
    "labels": {"partitioning": pads.HivePartitioning.discover(infer_dictionary=True)},
    "declared": {"partitioning": pads.partitioning(pa.schema({"year": pa.int16(), "region": pa.string()}), flavor="hive")},
}


@pytest.mark.long
@pytest.mark.parametrize("way", PARTITIONS)
def test_columns_of_partitions(tmp_path, way):
    for year, region in itertools.product((2023, 2024), ("north", None)):
        place = tmp_path / f"year={year}" / f"region={region or '__HIVE_DEFAULT_PARTITION__'}"
        place.mkdir(parents=True)
        pq.write_table(ints(pa.int64(), 1, 2), place / "part.parquet")
    dataset = pads.dataset(str(tmp_path), **PARTITIONS[way])
    answers = [keyed(frame).group_by("year", groups=[2023, 2024]).sum("x", **SUM).value for frame in (dataset, str(tmp_path))]
    assert answers[0].tolist() == answers[1].tolist()
    regions = PrivateTable(dataset).histogram("region", categories=["north", "none"], missing="none", unknown="none", epsilon=1e4)
    assert regions.value.tolist() == pytest.approx([4, 4], abs=0.1)
    assert PrivateTable(dataset).where("year = 2024 AND region IS NULL").count(epsilon=1e4).value == pytest.approx(2, abs=0.1)


@evaluated
def test_folders_by_their_values_alone_are_not_shown(tmp_path):
    place = tmp_path / SECRET
    place.mkdir()
    pq.write_table(ints(pa.int64(), 1), place / "a.parquet")
    dataset = pads.dataset(str(tmp_path), partitioning=["name"])
    assert PrivateTable(dataset).where(f"name = '{SECRET}'").count(epsilon=1e4).value == pytest.approx(1, abs=0.1)
    (place / "a.parquet").write_bytes(b"PAR1")
    with pytest.raises(StorageError, match=r"pyarrow Dataset \(fragment 1 of 1\)") as caught:
        total(dataset)
    assert SECRET not in str(caught.value)


@evaluated
def test_filters_are_refused(tmp_path):
    dataset = pads.dataset(folder_of(tmp_path, ints(pa.int64(), 1, 300)))
    with pytest.raises(ParameterError, match=r"without a filter.*where"):
        PrivateTable(dataset.filter(pc.field("x").cast(pa.int8()) > 0))
    assert PrivateTable(dataset).where("x > 5").count(epsilon=1e4).value == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize("kind", ["csv", "json", "orc"])
def test_formats_whose_types_come_from_rows_are_refused(tmp_path, kind):
    """pyarrow takes the types of CSV from the first block; a cell of a later one then ended the question."""
    folder = tmp_path / "data"
    folder.mkdir()
    if kind == "orc":
        po.write_table(ints(pa.int64(), 1), folder / "a.orc")
    else:
        (folder / f"a.{kind}").write_text('{"x": 1}\n' if kind == "json" else "x\n1\n")
    with pytest.raises(
        ParameterError, match=f"{kind.upper()} files.*Parquet or Arrow IPC files.*{'pass the paths' if kind == 'csv' else ''}"
    ):
        PrivateTable(pads.dataset(str(folder), format=kind))


def test_timestamps_of_another_unit_are_refused(tmp_path):
    format_ = pads.ParquetFileFormat(read_options=pads.ParquetReadOptions(coerce_int96_timestamp_unit="ms"))
    with pytest.raises(ParameterError, match="coerce_int96_timestamp_unit = 'ms'"):
        PrivateTable(pads.dataset(folder_of(tmp_path, ints(pa.int64(), 1)), format=format_))


def test_tables_in_memory(tmp_path):
    table = ints(pa.int64(), 1, 2)
    assert isinstance(source_of(pads.dataset([table, table])), ArrowSource)
    assert total(pads.dataset([pads.dataset(table), pads.dataset(table)])) == total(pa.concat_tables([table, table]))
    both = pads.dataset([pads.dataset(table), pads.dataset(folder_of(tmp_path, table))])
    with pytest.raises(ParameterError, match="FileSystemDataset and InMemoryDataset"):
        total(both)
    assert total(both.to_table()) == total(pa.concat_tables([table, table]))


def test_a_dataset_in_memory_that_fails_is_not_quoted(monkeypatch):
    """pyarrow reads a stream when the dataset is made, outside of dpcore; what its scan of the rows says later is not shown."""

    class Failing:
        _scan_options = None

        def to_table(self):
            raise ValueError(SECRET)

    monkeypatch.setattr(dataset_source, "_kinds", lambda _: [pads.InMemoryDataset])
    with pytest.raises(StorageError, match=r"pyarrow Dataset: its rows cannot be read \(ValueError\); .* not shown") as caught:
        dataset_source.of_dataset(Failing())
    assert SECRET not in everything(caught.value)


def test_datasets_of_datasets_and_files_of_two_formats(tmp_path):
    one = pads.dataset(folder_of(tmp_path, ints(pa.int32(), 1)))
    feather.write_feather(ints(pa.int32(), 4), tmp_path / "b.feather")
    union = pads.dataset([one, pads.dataset(str(tmp_path / "b.feather"), format="feather")])
    assert total(union) == total(ints(pa.int64(), 1, 4))
    with pytest.raises(JobError, match=r"fragment 2 of 2.* and .*fragment 1 of 2.* are one file"):
        total(pads.dataset([one, one]))


def test_some_row_groups_of_a_file_are_refused(tmp_path):
    pq.write_table(ints(pa.int64(), *range(10)), tmp_path / "a.parquet", row_group_size=5)
    (fragment,) = pads.dataset(str(tmp_path / "a.parquet")).get_fragments()
    part = pads.FileSystemDataset([fragment.subset(row_group_ids=[1])], fragment.physical_schema, fragment.format, fragment.filesystem)
    with pytest.raises(JobError, match="some of the row groups"):
        total(part)


def test_no_fragment():
    empty = pads.FileSystemDataset([], pa.schema({"x": pa.int64()}), pads.ParquetFileFormat())
    assert PrivateTable(empty).sum("x", **SUM).value < 1e4
    with pytest.raises(JobError, match="no column"):
        PrivateTable(empty).sum("y", **SUM)


def test_file_systems_that_are_not_this_machine(tmp_path):
    folder = folder_of(tmp_path, ints(pa.int32(), 1, 2), ints(pa.int64(), 1, FAR))
    dataset = pads.dataset(folder, filesystem=elsewhere("a store"), format="parquet")
    assert total(dataset) == total(folder)
    table = PrivateTable(dataset)
    pq.write_table(ints(pa.int64(), 1, 2, 3), f"{folder}/1.parquet")
    assert table.sum("x", **SUM).privacy.epsilon == 1.0  # each question sees the files as they are then
    (tmp_path / "data" / "1.parquet").unlink()
    with pytest.raises(StorageError, match=r"fragment 2 of 2\): there is no such file"):
        table.sum("x", **SUM)


@pytest.mark.parametrize("seen", ["here", "within", "elsewhere"])
def test_a_fragment_that_changes_ends_the_question(tmp_path, monkeypatch, seen):
    folder = folder_of(tmp_path, ints(pa.int64(), *range(50)))
    system = {"here": fs.LocalFileSystem(), "within": within(folder, 1), "elsewhere": elsewhere("a store")}[seen]
    dataset = pads.dataset("" if seen == "within" else folder, filesystem=system, format="parquet")
    real = parquet_input.pieces

    def written(source, types, cut):
        yield from real(source, types, cut)
        with Path(folder, "0.parquet").open("ab") as file:
            file.write(b"more")

    monkeypatch.setattr(parquet_input, "pieces", written)
    with pytest.raises(StorageError, match="changed while it was read"):
        total(dataset)


def within(folder, times):
    """The file system of this machine, seen so many times through a part of it."""
    system = fs.LocalFileSystem()
    for part in [str(folder), *[""] * (times - 1)][:times]:
        system = fs.SubTreeFileSystem(part, system)
    return system


def seen_through(system, *places, folder=None):
    """A dataset of files of one file system."""
    whole = list(places) if folder is None else [f"{folder}/{place}" for place in places]
    return pads.dataset(whole, filesystem=system, format="parquet")


@pytest.mark.parametrize("times", [1, 2])
def test_a_file_that_two_file_systems_show_is_one_file(tmp_path, times):
    """One of 100 rows was counted as 200."""
    folder = folder_of(tmp_path, ints(pa.int64(), *range(100)))
    one, other = seen_through(fs.LocalFileSystem(), "0.parquet", folder=folder), seen_through(within(folder, times), "0.parquet")
    for both in ([one, other], [other, one], [other, other]):
        with pytest.raises(JobError, match=r"fragment 2 of 2.* and .*fragment 1 of 2.* are one file"):
            PrivateTable(pads.dataset(both)).count("x", missing="skip", epsilon=1.0)
    assert PrivateTable(other).count("x", missing="skip", epsilon=1e6).value == 100


def test_a_link_to_a_file_is_that_file(tmp_path):
    folder = folder_of(tmp_path, ints(pa.int64(), 1))
    Path(folder, "link.parquet").symlink_to(Path(folder, "0.parquet"))
    with pytest.raises(JobError, match="are one file"):
        total(pads.dataset([seen_through(within(folder, 1), "0.parquet"), seen_through(within(folder, 1), "link.parquet")]))


@pytest.mark.parametrize("is_within", [False, True])
def test_a_file_of_two_connections_to_a_store_is_one_file(tmp_path, is_within):
    """Two systems of one kind that show one path are taken for one store."""
    folder = folder_of(tmp_path, ints(pa.int64(), *range(100)))
    one, other = elsewhere("a store"), elsewhere("a store")
    assert one != other
    first, second = (seen_through(each, "0.parquet", folder=folder) for each in (one, other))
    if is_within:
        second = seen_through(fs.SubTreeFileSystem(folder, other), "0.parquet")
    with pytest.raises(JobError, match="are one file"):
        total(pads.dataset([first, second]))
    third = seen_through(elsewhere("another store"), "0.parquet", folder=folder)
    assert total(pads.dataset([first, third])) == total(pa.concat_tables([first.to_table(), third.to_table()]))


def buffers(count):
    """A dataset of so many files in memory."""
    whole = pa.BufferOutputStream()
    pq.write_table(ints(pa.int64(), 1), whole)
    content, format_ = whole.getvalue().to_pybytes(), pads.ParquetFileFormat()
    parts = [format_.make_fragment(pa.py_buffer(bytearray(content))) for _ in range(count)]
    return pads.FileSystemDataset(parts, pa.schema({"x": pa.int64()}), format_, fs.LocalFileSystem())


@pytest.mark.long
def test_ten_thousand_fragments_are_inspected_once_a_question(monkeypatch):
    read = []
    real = parquet_input.inspect
    monkeypatch.setattr(parquet_input, "inspect", lambda source: read.append(source.path) or real(source))
    dataset = buffers(10_000)
    assert PrivateTable(dataset).plan("sum", "x", **SUM).document["queries"]
    assert len(read) == 10_000 == len(set(read))


def test_the_columns_of_a_file_take_time_in_proportion_to_their_number():
    """Each was searched for among all: 0.4 s a file of 2,000 columns."""

    def seconds(count):
        schema, path = pa.schema([(f"c{place}", pa.int64()) for place in range(count)]), Path("a.parquet")
        columns, info = TableColumns(schema, {path: {}}), FileInfo(tuple(schema.names), schema, 1)
        taken = []
        for _ in range(5):
            start = time.process_time()
            assert columns.described(path, info).schema == schema
            taken.append(time.process_time() - start)
        return min(taken)

    assert seconds(4000) < 30 * seconds(500)  # in proportion 8; by a search 64


def test_a_unit_in_several_fragments(tmp_path):
    tables = [pa.table({"who": pa.array([1, 2], pa.int64()), "x": pa.array([1, value], pa.int32())}) for value in (2, 3)]
    dataset = pads.dataset(folder_of(tmp_path, *tables))
    found = PrivateTable(dataset, unit="who", max_rows_per_unit=1, relation="add_remove").count(epsilon=1e4)
    assert found.value == pytest.approx(2, abs=0.1)


@pytest.mark.parametrize("is_scanned", [False, True])
def test_a_scan_is_rejected(tmp_path, monkeypatch, is_scanned):
    """The broken twin casts a fragment to the schema of the dataset, and the value of one row decides whether the others are read."""

    class Scanned(dataset_source.DatasetInput):
        def pieces(self, path, types, cut):
            schema = pa.schema({name: self.columns.schema.field(name).type for name in types})
            for batch in self.fragments[path].scanner(schema=schema, columns=list(types)).to_batches():
                yield Piece(batch, 0, 1.0)

    if is_scanned:
        monkeypatch.setattr(dataset_source, "DatasetInput", Scanned)
    read = []
    for value in (5, FAR):
        source = source_of(pads.dataset(folder_of(tmp_path, ints(pa.int32(), 1, 2), ints(pa.int64(), 1, value))))
        inputs = source.input()
        try:
            pieces = [inputs.pieces(path, {"x": pa.int64()}, Cut(10)) for path in inputs.paths]
            read.append([piece.batch.column("x").to_pylist()[:1] for each in pieces for piece in each])
        except pa.ArrowException:
            read.append(None)
    assert (read[0] != read[1]) is is_scanned
