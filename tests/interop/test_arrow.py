"""Mechanisms on Arrow data: the same reports as the mechanism itself gives, with the type, chunks, nulls and buffers of the column."""

from __future__ import annotations

import importlib
import math
import multiprocessing
import os
import pickle
import threading

import numpy as np
import pytest

pytest.importorskip("pyarrow", reason="make test-interop PEER=pandas22")

import pyarrow as pa
import pyarrow.dataset as dataset
from hypothesis import given, settings

from dpcore import local, mechanisms
from dpcore.errors import DataError, ParameterError, ParameterTypeError, UntestedVersionWarning
from dpcore.interop import arrow
from dpcore.interop._peers import Peer
from dpcore.testing import KeyedRandom
from support.columns import LABELS, MECHANISMS, REALS, SIGNED, UNSIGNED, Case, Stream, cases, kinds_of, same
from support.jobs import KEY
from support.versions import only_tested

only_tested(arrow.PEER)

SECRET = 31337.5


def released(data, mechanism, **options):
    return arrow.release(data, mechanism, rng=KeyedRandom(KEY), **options)


@given(cases())
def test_a_column_gets_what_the_mechanism_gives_chunk_by_chunk(case: Case):
    found = released(case.cells, case.mechanism, missing=case.missing, dtype=case.dtype)
    found.validate(full=True)
    assert [len(chunk) for chunk in found.chunks] == [len(chunk) for chunk in case.cells.chunks]
    assert same([_plain(cell) for cell in found.to_pylist()], case.expected())
    if case.missing != "keep":
        assert found.null_count == 0
    if case.dtype == "column" and (case.name in REALS or case.name in {"KaryResponse", "KaryResponse of labels", "BinaryResponse"}):
        is_kept = case.name not in REALS or pa.types.is_floating(case.kind)
        assert found.type == (case.kind if is_kept else pa.float64())


def _plain(cell):
    return int(cell) if type(cell).__name__ == "Decimal" else cell


@settings(max_examples=settings.default.max_examples // 2)
@given(cases(chunks=2))
def test_tables_batches_and_readers_give_the_same(case: Case):
    table = pa.table({"x": case.cells, "public": pa.chunked_array([pa.array(range(len(case.cells)), pa.int64())])})
    options = {"missing": {"x": case.missing}, "dtype": case.dtype, "keep": ["public"]}
    alone = released(case.cells, case.mechanism, missing=case.missing, dtype=case.dtype)
    found = released(table, {"x": case.mechanism}, **options)
    assert same(found["x"].to_pylist(), alone.to_pylist())
    assert found["public"] == table["public"]
    assert found.schema.names == ["x", "public"]
    reader = released(table.to_reader(), {"x": case.mechanism}, **options)
    assert reader.schema == found.schema
    assert reader.read_all()["x"].type == alone.type
    stream = released(Stream(table), {"x": case.mechanism}, **options)
    assert same(stream["x"].to_pylist(), alone.to_pylist())
    nothing = pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in table.schema], schema=table.schema)
    batch = table.combine_chunks().to_batches()[0] if len(table) else nothing
    assert type(released(batch, {"x": case.mechanism}, **options)) is pa.RecordBatch


def test_a_reader_raises_where_it_is_read():
    table = pa.table({"x": pa.chunked_array([[1.0, 2.0], [SECRET, None]])})
    reader = arrow.release(table.to_reader(max_chunksize=2), {"x": REALS["Laplace"]}, missing="refuse")
    assert len(reader.read_next_batch()) == 2
    with pytest.raises(DataError, match=r"'x'.*row 1"):
        reader.read_next_batch()
    with pytest.raises(ParameterTypeError, match="'x'"):
        arrow.release(pa.table({"x": ["a"]}).to_reader(), {"x": REALS["Laplace"]}, missing="refuse")


@pytest.mark.parametrize("name", MECHANISMS)
def test_columns_without_rows(name):
    for kind in kinds_of(name):
        options = {"missing": "keep", "dtype": "mechanism"}
        for cells in (pa.chunked_array([], type=kind), pa.chunked_array([pa.nulls(5, kind).slice(5)])):
            found = arrow.release(cells, MECHANISMS[name], **options)
            assert len(found) == 0
            assert found.type == arrow.release(pa.nulls(2, kind), MECHANISMS[name], **options).type


def test_decimals_beyond_64_bits_end_at_the_ends_of_int64():
    cells = pa.array([10**30, -(10**30), 2**63, 5], pa.decimal128(38, 0))
    found = released(cells, mechanisms.DiscreteLaplace(50.0, 1), missing="refuse")
    assert found.type == cells.type
    assert [int(cell) for cell in found.to_pylist()] == pytest.approx([2**63 - 1, -(2**63), 2**63 - 1, 5], abs=3)
    small = released(pa.array([99, -99], pa.decimal128(2, 0)), mechanisms.DiscreteLaplace(0.01, 1), missing="refuse")
    small.validate(full=True)


def test_unsigned_integers_of_64_bits_keep_their_order():
    top = pa.array([2**64 - 1, 2**63, 7], pa.uint64())
    assert released(top, mechanisms.DiscreteLaplace(50.0, 1), missing="refuse", dtype="mechanism").to_pylist() == pytest.approx(
        [2**63 - 1, 2**63 - 1, 7], abs=3
    )
    far = released(top, local.LocalLaplace(50.0, 0.0, 2.0**64), missing="refuse").to_numpy()
    assert abs(far - np.array([2.0**64, 2.0**63, 7.0])).max() < 2.0**64


# Buffers


def address(array, place):
    return array.buffers()[place].address


class Watch:
    """A mechanism that notes where its values are."""

    def __init__(self, monkeypatch, kind, method):
        self.seen = []
        original = getattr(kind, method)

        def watched(mechanism, values, **options):
            self.seen.append(values.ctypes.data)
            return original(mechanism, values, **options)

        monkeypatch.setattr(kind, method, watched)


@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.float64(), pa.int8(), pa.int64(), pa.uint32()], ids=str)
def test_numbers_are_read_where_they_are(monkeypatch, kind):
    watch = Watch(monkeypatch, mechanisms.Laplace, "release")
    cells = pa.array(np.arange(100)).cast(kind)
    part = cells.slice(16, 50)
    arrow.release(part, mechanisms.Laplace(1.0, 1.0), missing="refuse")
    arrow.release(Stream(pa.table({"x": part})), {"x": mechanisms.Laplace(1.0, 1.0)}, missing="refuse")
    assert watch.seen == [address(cells, 1) + 16 * cells.type.bit_width // 8] * 2


def test_packed_truth_values_are_read_where_they_are(monkeypatch):
    watch = Watch(monkeypatch, local.BinaryResponse, "privatize_packed")
    cells = pa.array([True, False, True] * 100)
    arrow.release(cells, local.BinaryResponse(1.0), missing="refuse")
    arrow.release(cells.slice(16, 101), local.BinaryResponse(1.0), missing="refuse")
    assert watch.seen == [address(cells, 1), address(cells, 1) + 2]
    arrow.release(cells.slice(3, 101), local.BinaryResponse(1.0), missing="refuse")
    assert watch.seen[2] not in range(address(cells, 1), address(cells, 1) + 38)


def test_codes_are_read_where_they_are(monkeypatch):
    watch = Watch(monkeypatch, local.KaryResponse, "privatize")
    cells = pa.array([0, 1, 2], pa.int16())
    arrow.release(cells, local.KaryResponse(1.0, k=3), missing="refuse")
    assert watch.seen == [address(cells, 1)]


def test_the_validity_bits_are_those_of_the_column():
    cells = pa.array([1.0, None, 3.0, None] * 100)
    found = arrow.release(cells, mechanisms.Laplace(1.0, 1.0), missing="keep")
    assert address(found, 0) == address(cells, 0)
    part = cells.slice(8, 64)
    assert address(arrow.release(part, mechanisms.Laplace(1.0, 1.0), missing="keep"), 0) == address(cells, 0) + 1


def test_validity_bits_of_other_rows_are_not_handed_on():
    cells = pa.array([1.0, None] * 100)
    for part in (cells.slice(3, 20), cells.slice(8, 21)):
        found = arrow.release(part, mechanisms.Laplace(1.0, 1.0), missing="keep")
        bits = found.buffers()[0]
        assert not address(cells, 0) <= bits.address < address(cells, 0) + cells.buffers()[0].size
        assert np.unpackbits(np.frombuffer(bits, np.uint8), bitorder="little")[len(part) :].sum() == 0


def test_what_lies_under_a_null_is_not_handed_on():
    values = np.array([1.0, SECRET, 3.0])
    cells = pa.array(values, mask=np.array([False, True, False]))
    assert np.frombuffer(cells.buffers()[1])[1] == SECRET
    found = arrow.release(cells, mechanisms.Laplace(1e6, 1.0), missing="keep")
    assert abs(np.frombuffer(found.buffers()[1])[1]) < 1
    bits = pa.Array.from_buffers(pa.bool_(), 8, [pa.py_buffer(b"\x0f"), pa.py_buffer(b"\xff")])
    found = arrow.release(bits, local.BinaryResponse(50.0), missing="keep")
    assert found.buffers()[1].to_pybytes()[0] == 0x0F


def test_the_given_column_is_not_changed():
    values = np.arange(10.0)
    cells = pa.chunked_array([pa.array(values), pa.array(values, mask=values > 5)])
    before = cells.to_pylist()
    arrow.release(cells, mechanisms.Laplace(1.0, 1.0), missing=3)
    assert cells.to_pylist() == before


def test_many_rows_with_nulls_are_done_in_blocks():
    n = 600_001
    absent = np.arange(n) % 3 == 0
    values = np.where(absent, 1e9, 5.0)
    cells = pa.array(values, mask=absent)
    kept = arrow.release(cells, mechanisms.Laplace(1000.0, 1.0), missing="keep")
    assert kept.null_count == absent.sum()
    assert abs(kept.drop_null().to_numpy() - 5).max() < 1
    filled = arrow.release(cells, mechanisms.Laplace(1000.0, 1.0), missing=7).to_numpy()
    assert abs(filled - np.where(absent, 7, 5)).max() < 1
    labels = pa.array(np.where(absent, "a", "b"), mask=absent)
    mechanism = local.UnaryEncoding(100.0, k=len(LABELS), method="symmetric", categories=LABELS)
    assert set(arrow.release(labels, mechanism, missing="b").to_pylist()) == {b"\x02"}


# Labels


def test_a_dictionary_has_all_labels_of_the_mechanism_and_no_others():
    own = pa.DictionaryArray.from_arrays([0, 0], ["a", "left behind"])
    found = arrow.release(own, MECHANISMS["KaryResponse of labels"], missing="refuse")
    assert found.dictionary.to_pylist() == list(LABELS)
    assert found.type == own.type


def test_a_null_in_a_dictionary_is_missing():
    cells = pa.DictionaryArray.from_arrays([0, 1, None], pa.array(["a", None]))
    mechanism = local.KaryResponse.from_categories(50.0, LABELS)
    assert arrow.release(cells, mechanism, missing="keep").to_pylist() == ["a", None, None]
    assert arrow.release(cells, mechanism, missing="b").to_pylist() == ["a", "b", "b"]


def test_views_of_text_are_labels():
    view = pytest.importorskip("pyarrow").string_view()
    found = arrow.release(pa.array(["a", "b", None], view), local.KaryResponse.from_categories(50.0, LABELS), missing="keep")
    assert found.type == view
    assert found.to_pylist() == ["a", "b", None]


def test_a_narrow_index_grows_with_the_categories():
    many = [str(i) for i in range(200)]
    cells = pa.array(["1", "2"]).dictionary_encode().cast(pa.dictionary(pa.int8(), pa.string()))
    found = arrow.release(cells, local.KaryResponse.from_categories(50.0, many), missing="refuse")
    assert found.type == pa.dictionary(pa.int32(), pa.string())
    assert found.to_pylist() == ["1", "2"]


def test_unknown_labels_need_an_unknown():
    cells = pa.array(["a", "else", None])
    with pytest.raises(DataError):
        arrow.release(cells, local.KaryResponse.from_categories(50.0, LABELS), missing="a")
    mechanism = local.KaryResponse.from_categories(50.0, LABELS, unknown="b")
    assert arrow.release(cells, mechanism).to_pylist() == ["a", "b", "b"]


# What missing means


def test_missing_must_be_said_whatever_the_rows():
    for cells in (pa.array([1.0]), pa.array([1.0, None]), pa.array([], pa.int64())):
        with pytest.raises(ParameterError, match="missing is required"):
            arrow.release(cells, mechanisms.Laplace(1.0, 1.0))
    table = pa.table({"x": [1, 2]}, schema=pa.schema([pa.field("x", pa.int64(), nullable=False)]))
    assert arrow.release(table, {"x": mechanisms.DiscreteLaplace(1.0, 1)}).num_rows == 2
    floats = table.cast(pa.schema([pa.field("x", pa.float64(), nullable=False)]))
    with pytest.raises(ParameterError, match="'x' can hold nulls or NaN"):
        arrow.release(floats, {"x": mechanisms.Laplace(1.0, 1.0)})


def test_a_mechanism_that_knows_what_missing_is_need_not_be_told():
    mechanism = local.LocalLaplace(50.0, 0.0, 1.0, missing=0.5)
    found = arrow.release(pa.array([0.0, None, math.nan]), mechanism).to_numpy()
    assert abs(found - [0, 0.5, 0.5]).max() < 0.5
    whole = arrow.release(pa.array([0, None], pa.int64()), mechanism).to_numpy()
    assert abs(whole - [0, 0.5]).max() < 0.5
    assert arrow.release(pa.array([True, None]), local.BinaryResponse(50.0, unknown=False)).to_pylist() == [True, False]


def test_nan_that_becomes_null_makes_a_field_nullable():
    table = pa.table({"x": [1.0, math.nan]}, schema=pa.schema([pa.field("x", pa.float64(), nullable=False)]))
    bits = arrow.release(table, {"x": MECHANISMS["BoundedMean"]}, missing="keep")
    assert bits.schema.field("x").nullable
    assert bits["x"].null_count == 1
    assert not arrow.release(table, {"x": REALS["Laplace"]}, missing="keep").schema.field("x").nullable


@pytest.mark.parametrize("cells", [[1.0, None], [1.0, math.nan]], ids=["null", "NaN"])
def test_refusing_names_a_row_and_no_value(cells):
    data = pa.chunked_array([pa.array([SECRET] * 3), pa.array(cells)])
    with pytest.raises(DataError) as caught:
        arrow.release(pa.table({"x": data}), {"x": mechanisms.Laplace(1.0, 1.0)}, missing="refuse")
    assert "'x'" in str(caught.value)
    assert "4" in str(caught.value) or "row 3" in str(caught.value)
    assert "31337" not in str(caught.value)


def test_infinite_numbers_are_refused_without_showing_them():
    data = pa.chunked_array([pa.array([1.0, 2.0]), pa.array([math.inf])])
    with pytest.raises(DataError, match="counted from row 2"):
        arrow.release(data, mechanisms.Laplace(1.0, 1.0), missing=0)


BAD = {
    "no mechanism": (pa.array([1.0]), object(), {}, ParameterTypeError, "mechanism must be"),
    "a mechanism of steps": (pa.array([1.0]), local.SequentialChannel, {}, ParameterTypeError, "mechanism must be"),
    "text for numbers": (pa.array(["a"]), REALS["Laplace"], {}, ParameterTypeError, "takes columns of"),
    "floats for integers": (pa.array([1.0]), mechanisms.DiscreteLaplace(1.0, 1), {}, ParameterTypeError, "takes columns of integers"),
    "unsigned": (pa.array([1], pa.uint8()), mechanisms.DiscreteLaplace(1.0, 1), {}, ParameterTypeError, 'dtype="mechanism"'),
    "half a stand-in": (pa.array([1]), REALS["Laplace"], {"missing": 0.5}, ParameterError, "must be an integer"),
    "an infinite stand-in": (pa.array([1.0]), REALS["Laplace"], {"missing": math.inf}, ParameterError, "missing must be"),
    "no label": (pa.array(["a"]), MECHANISMS["KaryResponse of labels"], {"missing": "zz"}, ParameterError, "one of the categories"),
    "a code too large": (pa.array([1]), MECHANISMS["KaryResponse"], {"missing": 5}, ParameterError, "missing must be in"),
    "no answer": (pa.array([True]), local.BinaryResponse(1.0), {"missing": 1}, ParameterTypeError, "True or False"),
    "labels for codes": (pa.array(["a"]), MECHANISMS["KaryResponse"], {}, ParameterTypeError, "from_categories"),
    "a narrow column": (pa.array([1], pa.int8()), local.KaryResponse(1.0, k=300), {}, ParameterTypeError, "does not hold the codes"),
    "another dtype": (pa.array([1.0]), REALS["Laplace"], {"dtype": "float32"}, ParameterError, "dtype must be"),
    "keep of an array": (pa.array([1.0]), REALS["Laplace"], {"keep": ["x"]}, ParameterError, "keep names columns"),
    "a table for one": (pa.table({"x": [1.0]}), REALS["Laplace"], {}, ParameterTypeError, "is a table"),
    "an array for several": (pa.array([1.0]), {"x": REALS["Laplace"]}, {}, ParameterTypeError, "must be a table"),
    "a list": ([1.0], REALS["Laplace"], {}, ParameterTypeError, "__arrow_c_stream__, got list; numbers.*go to the mechanism itself"),
    "a number of Arrow": (pa.scalar(SECRET), REALS["Laplace"], {}, ParameterTypeError, r"mechanism\.release\(data\.as_py\(\)\)"),
    "counts of values": (pa.array(["a", "a"]).value_counts(), {"counts": REALS["Laplace"]}, {}, ParameterTypeError, "from_struct_array"),
    "a data set": (dataset.dataset(pa.table({"x": [1]})), {"x": REALS["Laplace"]}, {}, ParameterTypeError, r"scanner\(\)\.to_reader"),
    "another word": (pa.array([1.0]), REALS["Laplace"], {"missing": "drop"}, ParameterTypeError, '"refuse", "keep" or a value that stands'),
    "no column": (pa.table({"x": [1.0]}), {"y": REALS["Laplace"]}, {}, ParameterError, "no column 'y'"),
    "two columns": (pa.Table.from_arrays([[1.0], [2.0]], names=["x", "x"]), {"x": REALS["Laplace"]}, {}, ParameterError, "several columns"),
    "kept and noised": (pa.table({"x": [1.0]}), {"x": REALS["Laplace"]}, {"keep": ["x"]}, ParameterError, "cannot be in keep"),
    "no column at all": (pa.table({"x": [1.0]}), {}, {}, ParameterError, "at least one column"),
    "missing of another": (pa.table({"x": [1.0]}), {"x": REALS["Laplace"]}, {"missing": {"y": 0}}, ParameterError, "has no mechanism"),
    "a text as keep": (pa.table({"x": [1.0]}), {"x": REALS["Laplace"]}, {"keep": "x"}, ParameterTypeError, "list of names"),
    "a stream of numpy": (pa.array([1.0]), REALS["Laplace"], {"rng": np.random.default_rng(1)}, ParameterTypeError, "rng must be"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_arguments_are_refused_before_a_row_is_read(name):
    data, mechanism, options, kind, words = BAD[name]
    with pytest.raises(kind, match=words):
        arrow.release(data, mechanism, **{"missing": "refuse"} | options)


def test_a_stream_that_fails_is_not_quoted():
    class Broken:
        def __arrow_c_stream__(self, requested_schema=None):
            raise ValueError(f"row 3 is {SECRET}")

    with pytest.raises(ParameterError, match="cannot be read") as caught:
        arrow.release(Broken(), {"x": REALS["Laplace"]}, missing="refuse")
    assert "31337" not in str(caught.value)
    assert caught.value.__context__ is None


def test_other_versions_warn(monkeypatch):
    monkeypatch.setattr(arrow, "PEER", Peer(module="pyarrow", distribution="pyarrow", tested=("1.2",), extra="batch"))
    with pytest.warns(UntestedVersionWarning, match=r"pyarrow .* was not tested"):
        arrow.release(pa.array([1.0]), REALS["Laplace"], missing="refuse")


@pytest.mark.parametrize("name", ["arrow", "polars", "pandas", "duckdb"])
def test_without_a_peer_the_error_has_the_pip_line(monkeypatch, name):
    module = importlib.import_module(f"dpcore.interop.{name}")
    extra = module.PEER.extra
    absent = Peer(module="absent_peer", distribution="absent-peer", tested=("1",), extra=extra)
    monkeypatch.setattr(module, "PEER", absent)
    with pytest.raises(ModuleNotFoundError, match=rf"absent-peer.*\n.*pip install '\S*\[{extra}\]'"):
        module.release(None, None)


# Randomness


def test_a_stream_that_stays_in_place_gives_chunks_and_columns_different_noise():
    cells = pa.chunked_array([np.zeros(50), np.zeros(50)])
    found = arrow.release(
        pa.table({"x": cells, "y": cells}), dict.fromkeys("xy", REALS["Laplace"]), missing="refuse", rng=KeyedRandom(KEY).at(3)
    )
    values = np.concatenate([found["x"].to_numpy(), found["y"].to_numpy()])
    assert len(np.unique(values)) > 190


def noisy(_=None):
    return arrow.release(pa.array(np.zeros(20)), REALS["Laplace"], missing="refuse").to_pylist()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_forked_processes_draw_other_noise():
    noisy()
    with multiprocessing.get_context("fork").Pool(3) as pool:
        drawn = [tuple(row) for row in [noisy(), *pool.map(noisy, range(6))]]
    assert len(set(drawn)) == 7


@pytest.mark.long
def test_spawned_processes_draw_other_noise():
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        assert len({tuple(row) for row in [noisy(), *pool.map(noisy, range(4))]}) == 5


def test_threads_draw_other_noise():
    drawn = []
    threads = [threading.Thread(target=lambda: drawn.append(tuple(noisy()))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(drawn)) == 8


def test_results_are_pickled_without_the_column():
    cells = pa.array(np.full(1000, SECRET))
    found = arrow.release(cells, mechanisms.Laplace(1.0, 1e6), missing="refuse")
    assert pickle.loads(pickle.dumps(found)).equals(found)
    assert np.float64(SECRET).tobytes() not in pickle.dumps(found)
    chunks = arrow.release(pa.chunked_array([cells, cells]), mechanisms.Laplace(1.0, 1e6), missing="refuse")
    assert len(pickle.dumps(chunks.chunk(0))) < 1.2 * len(pickle.dumps(found))


# Estimates


@pytest.mark.parametrize("name", [name for name in MECHANISMS if hasattr(MECHANISMS[name], "estimate")])
def test_estimates_come_from_columns(name):
    mechanism = MECHANISMS[name]
    kind = kinds_of(name)[-1] if name.endswith("labels") else pa.int64() if pa.bool_() not in kinds_of(name) else pa.bool_()
    plain = pa.array(["a", "b", None] * 200).dictionary_encode() if name.endswith("labels") else pa.array([1, 0, None] * 200)
    cells = pa.chunked_array([plain.cast(kind)] * 2)
    reports = arrow.release(cells, mechanism, missing="keep", dtype="mechanism", rng=KeyedRandom(KEY))
    found = arrow.estimate(reports, mechanism)
    assert found.n == 800
    assert np.isfinite(found.stderr).all()
    again = arrow.estimate(pa.table({"x": reports.slice(3, 700)})["x"], mechanism, target="sample")
    assert 400 < again.n < 700


@pytest.mark.parametrize("name", ["KaryResponse of labels", "UnaryEncoding", "SubsetSelection", "LocalHashing", "HadamardResponse"])
def test_reports_come_back_from_other_libraries(name):
    pl, duckdb = pytest.importorskip("polars"), pytest.importorskip("duckdb")
    cells = pa.array(["a", "b", None] * 50 if name.endswith("labels") else [1, 0, None] * 50)
    reports = arrow.release(cells, MECHANISMS[name], missing="keep")
    expected = arrow.estimate(reports, MECHANISMS[name])
    with duckdb.connect() as connection:
        table = pa.table({"x": reports})
        back = connection.from_arrow(table).to_arrow_table()["x"]
    for column in (pl.Series(Stream(pa.chunked_array([reports]))), back):
        found = arrow.estimate(column, MECHANISMS[name])
        assert (found.value == expected.value).all()
        assert found.n == 100


def test_estimates_of_other_columns_are_refused():
    with pytest.raises(ParameterTypeError, match=r"randomiser of dpcore\.local"):
        arrow.estimate(pa.array([1.0]), REALS["Laplace"])
    with pytest.raises(ParameterTypeError, match="structs of"):
        arrow.estimate(pa.array([1]), MECHANISMS["LocalHashing"])
    with pytest.raises(ParameterTypeError, match="has codes"):
        arrow.estimate(pa.array(["a"]), MECHANISMS["KaryResponse"])
    with pytest.raises(ParameterError, match="none of the mechanism's categories"):
        arrow.estimate(pa.array(["else"]), MECHANISMS["KaryResponse of labels"])


def test_all_types_are_in_the_tables():
    assert {kind.bit_width for kind in (*SIGNED, *UNSIGNED)} == {8, 16, 32, 64}
