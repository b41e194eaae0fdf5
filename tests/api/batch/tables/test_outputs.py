"""What a job writes: exactly the keyed noise on exactly the clamped values, in every format, however the input is cut."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import ipc

import dpcore
from dpcore import mechanisms, noise
from dpcore.batch import load_job, make_plan, privatize
from dpcore.rng import STREAM_VERSION
from dpcore.testing import KeyedRandom
from support.jobs import COLUMNS, FORMATS, KEY, Workplace, decoded, people, read_table, write_table

ROWS = 1000


@pytest.fixture
def place(tmp_path, capsys):
    return Workplace(tmp_path, capsys)


def scale_of(name):
    """Scale of a column of COLUMNS, by another route than the job's: straight from the mechanisms."""
    column = COLUMNS[name]
    width = column["upper"] - column["lower"]
    match column["mechanism"]:
        case "laplace":
            return mechanisms.Laplace(column["epsilon"], width).scale
        case "gaussian":
            return mechanisms.Gaussian(column["epsilon"], column["delta"], width).scale
        case "discrete_laplace":
            return mechanisms.DiscreteLaplace(column["epsilon"], width).scale
        case _:
            return mechanisms.DiscreteGaussian(column["epsilon"], column["delta"], width, method="exact").scale


def expected(table, name, position, key=KEY):
    column = COLUMNS[name]
    clamped = np.clip(table[name].to_numpy(), column["lower"], column["upper"])
    sampler = getattr(noise, column["mechanism"])
    return sampler(clamped, scale_of(name), rng=KeyedRandom(key).at(nonce=position))


@pytest.mark.some(5)
@pytest.mark.parametrize("target", FORMATS)
@pytest.mark.parametrize("source", FORMATS)
def test_round_trip_of_every_mechanism_and_format(place, source, target):
    table = people(ROWS)
    place.source, place.target = write_table(table, place.folder / f"in.{source}"), place.folder / f"out/private.{target}"
    place.write_job(keep=["state", "note"])
    done = place.privatize()
    assert done.code == 0, done.err
    result = read_table(place.target)
    assert result.column_names == ["state", "note", *COLUMNS]
    for position, name in enumerate(COLUMNS):
        assert np.array_equal(result[name].to_numpy(), expected(table, name, position)), name
    for name in ("state", "note"):
        assert decoded(result)[name].to_pylist() == decoded(table)[name].to_pylist()
    assert place.left_behind() == sorted({place.target.name, *([f"{place.target.name}.dpcore.json"] if target == "csv" else [])})


def test_without_a_key_every_run_differs_and_stays_near(place):
    table = people(ROWS)
    write_table(table, place.source)
    place.write_job(key=None)
    runs = []
    for _ in range(2):
        assert place.privatize("--overwrite").code == 0
        runs.append(read_table(place.target))
    for name in COLUMNS:
        first, second = (run[name].to_numpy() for run in runs)
        # Equal neighbours within one run would mean a repeated stream; equal runs a repeated key.
        assert (first == second).mean() < 0.2
        assert np.abs(first.mean() - np.clip(table[name].to_numpy(), COLUMNS[name]["lower"], COLUMNS[name]["upper"]).mean()) < scale_of(
            name
        )


@pytest.mark.some(2)
@pytest.mark.parametrize("row_group_rows", [1, 7, 64, 5000])
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("piece_rows", [1, 5, 1000])
def test_keyed_output_does_not_depend_on_how_the_rows_are_cut(place, row_group_rows, threads, piece_rows):
    table = people(301)
    write_table(table, place.source, row_group_rows=row_group_rows)
    place.write_job()
    privatize(make_plan(load_job(place.job)), threads=threads, piece_rows=piece_rows)
    result = read_table(place.target)
    for position, name in enumerate(COLUMNS):
        assert np.array_equal(result[name].to_numpy(), expected(table, name, position)), name


@pytest.mark.parametrize("ending", FORMATS)
def test_keyed_output_does_not_depend_on_how_the_rows_are_spread_over_files(place, ending):
    table = people(100)
    for name, start, stop in (("a", 0, 33), ("b", 33, 33), ("c/d", 33, 90), ("e", 90, 100)):
        write_table(table.slice(start, stop - start), place.folder / f"in/{name}.{ending}")
    (place.folder / "in/_SUCCESS").touch()
    (place.folder / f"in/.hidden.{ending}").touch()
    place.source = place.folder / "in"
    place.write_job()
    assert place.privatize().code == 0
    result = read_table(place.target)
    for position, name in enumerate(COLUMNS):
        assert np.array_equal(result[name].to_numpy(), expected(table, name, position)), name


def test_a_glob_reads_what_it_matches(place):
    table = people(20)
    for part in range(2):
        write_table(table.slice(10 * part, 10), place.folder / f"in/part-{part}.parquet")
    write_table(table, place.folder / "in/other.parquet")
    place.source = place.folder / "in/part-*.parquet"
    place.write_job()
    assert place.privatize().code == 0
    assert len(read_table(place.target)) == 20


@pytest.mark.parametrize("target", FORMATS)
@pytest.mark.parametrize("source", FORMATS)
def test_an_empty_table_stays_a_table(place, source, target):
    place.source, place.target = write_table(people(0), place.folder / f"in.{source}"), place.folder / f"out/private.{target}"
    place.write_job(keep=["note"])
    done = place.privatize()
    assert done.code == 0, done.err
    assert json.loads(done.out)["output"]["rows"] == 0
    result = read_table(place.target)
    assert (len(result), result.column_names) == (0, ["note", *COLUMNS])


@pytest.mark.long
def test_five_thousand_columns(place):
    names = [f"x{i}" for i in range(5000)]
    rows = 300
    table = pa.table({name: np.arange(rows) + i for i, name in enumerate(names)})
    write_table(table, place.source)
    column = {"mechanism": "discrete_laplace", "epsilon": 0.5, "lower": 0, "upper": 6000}
    place.write_job(dict.fromkeys(names, column), privacy={"max_epsilon": 2500.0})
    assert place.privatize().code == 0
    result = read_table(place.target)
    for position in (0, 1, 4999):
        drawn = noise.discrete_laplace(table[position].to_numpy(), 12_000.0, rng=KeyedRandom(KEY).at(nonce=position))
        assert np.array_equal(result[position].to_numpy(), drawn)


@pytest.mark.parametrize(
    "kind", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float32", "float64", "float16"]
)
def test_every_numeric_type_is_widened(place, kind):
    values = np.array([0, 1, 100, 3, 17], dtype=kind)
    write_table(pa.table({"x": values}), place.source)
    place.write_job({"x": {"mechanism": "laplace", "epsilon": 1.0, "lower": 0, "upper": 50, "missing": 5}})
    assert place.privatize().code == 0
    clamped = np.minimum(values.astype(np.float64), 50)
    assert np.array_equal(read_table(place.target)["x"].to_numpy(), noise.laplace(clamped, 50.0, rng=KeyedRandom(KEY).at(nonce=0)))


def test_bounds_beyond_a_narrow_type_and_integers_beyond_floats(place):
    big = 2**60
    table = pa.table(
        {"narrow": pa.array([-128, 127], pa.int8()), "huge": pa.array([0, 2**64 - 1], pa.uint64()), "exact": [big + 1, big + 3]}
    )
    write_table(table, place.source)
    columns = {
        "narrow": {"mechanism": "discrete_laplace", "epsilon": 1.0, "lower": -1000, "upper": 100},
        "huge": {"mechanism": "discrete_laplace", "epsilon": 1.0, "lower": 0, "upper": 30},
        "exact": {"mechanism": "discrete_laplace", "epsilon": 1.0, "lower": big, "upper": big + 4},
    }
    place.write_job(columns)
    assert place.privatize().code == 0
    result = read_table(place.target)
    for position, (name, values, scale) in enumerate(
        [("narrow", [-128, 100], 1100.0), ("huge", [0, 30], 30.0), ("exact", [big + 1, big + 3], 4.0)]
    ):
        drawn = noise.discrete_laplace(np.array(values), scale, rng=KeyedRandom(KEY).at(nonce=position))
        assert np.array_equal(result[name].to_numpy(), drawn), name


@pytest.mark.parametrize("source", FORMATS)
def test_missing_cells_get_the_declared_value(place, source):
    table = pa.table({"n": pa.array([1, None, 30, None]), "x": pa.array([None, 1.5, float("nan"), float("-inf")])})
    place.source = write_table(table, place.folder / f"in.{source}")
    columns = {
        "n": {"mechanism": "discrete_laplace", "epsilon": 1.0, "lower": 0, "upper": 20, "missing": 4},
        "x": {"mechanism": "laplace", "epsilon": 1.0, "lower": -1.0, "upper": 3.0, "missing": 0.25},
    }
    place.write_job(columns)
    assert place.privatize().code == 0
    result = read_table(place.target)
    assert result["n"].null_count == result["x"].null_count == 0
    drawn = noise.discrete_laplace(np.array([1, 4, 20, 4]), 20.0, rng=KeyedRandom(KEY).at(nonce=0))
    assert np.array_equal(result["n"].to_numpy(), drawn)
    drawn = noise.laplace(np.array([0.25, 1.5, 0.25, -1.0]), 4.0, rng=KeyedRandom(KEY).at(nonce=1))
    assert np.array_equal(result["x"].to_numpy(), drawn)


def test_an_empty_line_of_a_one_column_csv_is_a_missing_cell(place):
    place.source = place.folder / "in.csv"
    place.source.write_text("n\n1\n\n3\n")
    place.write_job({"n": {"mechanism": "discrete_laplace", "epsilon": 1.0, "lower": 0, "upper": 20, "missing": 4}})
    assert place.privatize().code == 0
    drawn = noise.discrete_laplace(np.array([1, 4, 3]), 20.0, rng=KeyedRandom(KEY).at(nonce=0))
    assert np.array_equal(read_table(place.target)["n"].to_numpy(), drawn)


def test_csv_text_is_kept_as_it_is(place):
    place.source, place.target = place.folder / "in.csv", place.folder / "out/private.csv"
    place.source.write_text('﻿code,n\n007,1\n"a\nb",2\nNA,3\n', encoding="utf-8")
    place.write_job({"n": {"mechanism": "discrete_laplace", "epsilon": 1.0, "lower": 0, "upper": 3}}, keep=["code"])
    done = place.privatize()
    assert done.code == 0, done.err
    assert [line.split(",")[0] for line in place.target.read_text().splitlines()] == ['"code"', '"007"', '"a', 'b"', '"NA"']


def said_by(metadata):
    return json.loads(metadata[b"dpcore"])


@pytest.mark.parametrize("key", [KEY, None])
@pytest.mark.parametrize("target", FORMATS)
def test_metadata(place, target, key):
    write_table(people(10), place.source)
    place.target = place.folder / f"out/private.{target}"
    columns = {**COLUMNS, "visits": {**COLUMNS["visits"], "missing": 3}}
    place.write_job(columns, keep=["state"], key=key)
    assert place.privatize().code == 0
    if target == "csv":
        sidecar = json.loads((place.target.parent / "private.csv.dpcore.json").read_text())
        whole, fields = sidecar["schema"], sidecar["fields"]
    else:
        schema = read_table(place.target).schema
        whole = said_by(schema.metadata)
        fields = {field.name: said_by(field.metadata) for field in schema if field.metadata and b"dpcore" in field.metadata}
    assert whole == {
        "format": 1,
        "epsilon": 4.0,
        "delta": 2e-6,
        "unit": "row",
        "secure": key is None,
        "stream_version": STREAM_VERSION,
        "version": dpcore.__version__,
    }
    assert list(fields) == list(COLUMNS)
    for name, column in columns.items():
        integral = column["mechanism"].startswith("discrete")
        assert fields[name] == {
            "format": 1,
            "mechanism": column["mechanism"],
            "epsilon": 1.0,
            "delta": column.get("delta", 0.0),
            "lower": column["lower"],
            "upper": column["upper"],
            "k": None,
            "categories": None,
            "missing": column.get("missing"),
            "unknown": None,
            "grid": 1.0 if integral else noise.default_grid(scale_of(name)),
        }


def test_metadata_of_an_earlier_job_is_not_passed_on(place):
    write_table(people(10), place.source)
    place.write_job()
    assert place.privatize().code == 0
    place.source, place.target = place.target, place.folder / "out2/private.parquet"
    place.write_job({"visits": {**COLUMNS["visits"], "lower": -100, "upper": 100}}, keep=["income"])
    assert place.privatize().code == 0
    schema = pq.read_schema(place.target)
    assert not schema.field("income").metadata or b"dpcore" not in schema.field("income").metadata
    assert said_by(schema.metadata)["epsilon"] == 1.0


@pytest.mark.parametrize("compression", ["zstd", "snappy", "gzip", "lz4", "brotli", "none"])
def test_parquet_compression(place, compression):
    write_table(people(50), place.source)
    place.write_job(compression=compression)
    assert place.privatize().code == 0
    used = pq.ParquetFile(place.target).metadata.row_group(0).column(0).compression
    assert used.lower() == {"none": "uncompressed"}.get(compression, compression)


@pytest.mark.parametrize("compression", ["zstd", "lz4"])
def test_a_compressed_arrow_input(place, compression):
    table = people(100)
    place.source = place.folder / "in.arrow"
    with ipc.new_file(place.source, table.schema, options=ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_table(table, max_chunksize=30)
    place.write_job(keep=["note"])
    assert place.privatize().code == 0
    result = read_table(place.target)
    for position, name in enumerate(COLUMNS):
        assert np.array_equal(result[name].to_numpy(), expected(table, name, position)), name
    assert result["note"].to_pylist() == table["note"].to_pylist()


def test_the_format_key_overrides_the_endings(place):
    write_table(people(20), place.source)
    place.source = place.source.rename(place.folder / "in.data")
    place.target = place.folder / "out/private.data"
    text = f"""version = 1
[input]
path = {json.dumps(str(place.source))}
format = "parquet"
[output]
path = {json.dumps(str(place.target))}
format = "arrow"
compression = "lz4"
[privacy]
max_epsilon = 1
[[column]]
name = "income"
mechanism = "laplace"
epsilon = 1
lower = 0
upper = 10
"""
    place.job.write_text(text)
    assert place.privatize().code == 0
    assert len(read_table(place.target)) == 20


def test_row_groups_of_the_output_are_large_whatever_the_input_has(place):
    write_table(people(2000), place.source, row_group_rows=10)
    place.write_job()
    assert place.privatize().code == 0
    assert pq.ParquetFile(place.target).num_row_groups == 1
