"""Every mechanism of a job, in every format: its reports are those of `dpcore.local`, and estimates from them recover the truth."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpcore import local
from dpcore.batch import estimate, load_job, make_plan, privatize
from dpcore.testing import KeyedRandom
from support.jobs import CATEGORIES, EVERY_MECHANISM, FORMATS, KEY, Workplace, health_survey, read_table, write_table

ALMOST_SURE = 1 - 1e-6
HEX = {"unary", "unary symmetric", "subset"}
BUDGET = {"max_epsilon": 1000.0, "max_delta": 1e-5}


@pytest.fixture
def place(tmp_path, capsys):
    return Workplace(tmp_path, capsys)


def columns(epsilon):
    return {name: {**column, "epsilon": epsilon} for name, column in EVERY_MECHANISM.items()}


def survey(rows):
    """Made-up people whose answers are the same on every run."""
    numbers = np.random.default_rng(rows)
    health = pa.array(CATEGORIES).take(pa.array(numbers.choice(4, rows, p=[0.5, 0.3, 0.15, 0.05])))
    coins = pa.array(np.array([0, 25, 50, 95, 1, 100])[numbers.choice(6, rows, p=[0.4, 0.2, 0.1, 0.1, 0.15, 0.05])])
    return health_survey(health, pa.array(numbers.geometric(0.2, rows) - 1), coins, pa.array(numbers.random(rows) < 0.36))


# By another route than the job's: Python values, one by one.


def truth(column, counts):
    """Statistic of a column whose values occur as often as `counts` says, as its declaration changes them."""
    n = sum(counts.values())

    def replaced(value, allowed):
        if value is None:
            return column["missing"]
        return value if value in allowed else column["unknown"]

    mechanism = column["mechanism"]
    if "lower" in column:
        clamp = {value: min(max(column["missing"] if value is None else value, column["lower"]), column["upper"]) for value in counts}
        return sum(clamp[value] * times for value, times in counts.items()) / n
    if mechanism == "binary":
        allowed = column.get("categories", [False, True])
        return sum(times for value, times in counts.items() if replaced(value, allowed) == allowed[1]) / n
    categories = column.get("categories") or list(range(column["k"]))
    if mechanism == "binary_channel":
        phi = dict(zip(categories, column["phi"], strict=True))
        return sum(phi[replaced(value, categories)] * times for value, times in counts.items()) / n
    shares = dict.fromkeys(categories, 0)
    for value, times in counts.items():
        shares[replaced(value, categories)] += times
    return [times / n for times in shares.values()]


def check_recovery(estimates, table):
    assert [found.column.name for found in estimates.columns] == list(EVERY_MECHANISM)
    for found in estimates.columns:
        name = found.column.name
        counted = table[name].combine_chunks().value_counts()
        counts = {item["values"]: item["counts"] for item in counted.to_pylist()}
        expected = truth(EVERY_MECHANISM[name], counts)
        intervals = np.atleast_2d(found.interval)
        assert found.estimate.n == len(table)
        assert np.shape(found.estimate.value) == np.shape(expected), name
        assert (intervals[:, 0] <= expected).all(), name
        assert (np.atleast_1d(expected) <= intervals[:, 1]).all(), name


@pytest.mark.long
@pytest.mark.source_tree
@pytest.mark.parametrize("epsilon", [0.5, 3.0])
@pytest.mark.parametrize("ending", FORMATS)
def test_estimates_recover_the_truth_of_the_sample_data(place, repository, ending, epsilon):
    sample = pq.read_table(repository / "examples/randhie.parquet").combine_chunks()
    health = sample["health"].combine_chunks().dictionary_decode()
    table = health_survey(health, *(sample[name].combine_chunks() for name in ("mdvis", "coins", "hlthg")))
    place.source, place.target = write_table(table, place.folder / f"in.{ending}"), place.folder / f"out/private.{ending}"
    place.write_job(columns(epsilon), privacy=BUDGET)
    assert place.privatize().code == 0
    check_recovery(estimate(place.target, confidence=ALMOST_SURE, target="sample"), table)
    done = place.estimate("--confidence", ALMOST_SURE)
    assert done.code == 0, done.err
    assert json.loads(done.out)["rows"] == 20_190


@pytest.mark.long
@pytest.mark.parametrize("epsilon", [0.5, 3.0])
@pytest.mark.parametrize("ending", FORMATS)
def test_estimates_recover_the_truth_of_ten_million_rows(place, ending, epsilon):
    table = survey(10_000_000)
    place.source, place.target = write_table(table, place.folder / f"in.{ending}"), place.folder / f"out/private.{ending}"
    place.write_job(columns(epsilon), privacy=BUDGET)
    privatize(make_plan(load_job(place.job)))
    check_recovery(estimate(place.target, confidence=ALMOST_SURE, target="sample"), table)


# Reports


def codes_of(table, name):
    """Input of the mechanism of a column, by Python values."""
    column, values = EVERY_MECHANISM[name], table[name].to_pylist()
    if "lower" in column:
        return np.array([column["missing"] if value is None else value for value in values])
    if name == "binary":
        return np.array(values)
    if name == "binary 0 1":
        return np.array(
            [bool(column["missing"]) if value is None else {0: False, 1: True}.get(value, column["unknown"]) for value in values]
        )
    categories = column.get("categories") or list(range(column["k"]))
    filled = [column["missing"] if value is None else value for value in values]
    codes = np.array([categories.index(value if value in categories else column["unknown"]) for value in filled])
    return codes.astype(np.bool_) if column["mechanism"] == "binary" else codes


def mechanism_of(name, epsilon):
    column = EVERY_MECHANISM[name]
    k = column.get("k") or len(column.get("categories", ()))
    match column["mechanism"]:
        case "laplace":
            return local.LocalLaplace(epsilon, column["lower"], column["upper"])
        case "gaussian":
            return local.LocalGaussian(epsilon, column["delta"], column["lower"], column["upper"])
        case "discrete_laplace":
            return local.LocalDiscreteLaplace(epsilon, column["lower"], column["upper"])
        case "discrete_gaussian":
            return local.LocalDiscreteGaussian(epsilon, column["delta"], column["lower"], column["upper"])
        case "bounded_mean":
            return local.BoundedMean(epsilon, column["lower"], column["upper"])
        case "binary":
            return local.BinaryResponse(epsilon)
        case "binary_channel":
            return local.BinaryChannel(epsilon, column["phi"])
        case "kary":
            return local.KaryResponse(epsilon, k=k)
        case "unary":
            return local.UnaryEncoding(epsilon, k=k, method=column.get("method", "optimal"))
        case "subset":
            return local.SubsetSelection(epsilon, k=k)
        case "hashing":
            return local.LocalHashing(epsilon, k=k)
        case _:
            return local.HadamardResponse(epsilon, k=k)


def as_python(name, reports):
    """What a reader of the output sees."""
    if EVERY_MECHANISM[name]["mechanism"] == "kary":
        categories = EVERY_MECHANISM[name].get("categories")
        return [categories[code] if categories else int(code) for code in reports]
    if reports.ndim == 2:
        return [row.tobytes() for row in reports]
    if reports.dtype.names:
        return [dict(zip(reports.dtype.names, row, strict=True)) for row in reports.tolist()]
    return reports.tolist()


@pytest.mark.some(2)
@pytest.mark.parametrize("ending", FORMATS)
@pytest.mark.parametrize("piece_rows", [1, 77, 5000])
def test_reports_are_those_of_the_mechanism_however_the_rows_are_cut(place, ending, piece_rows):
    table = survey(200)
    place.source, place.target = write_table(table, place.folder / f"in.{ending}", row_group_rows=30), place.folder / f"out/a.{ending}"
    place.write_job(columns(1.0), privacy=BUDGET)
    privatize(make_plan(load_job(place.job)), piece_rows=piece_rows)
    result = read_table(place.target)
    for position, name in enumerate(EVERY_MECHANISM):
        reports = mechanism_of(name, 1.0).privatize(codes_of(table, name), rng=KeyedRandom(KEY).at(nonce=position))
        assert as_stored(result, name) == as_python(name, reports), name


def as_stored(result, name):
    """The reports of a column, whatever the format made of them."""
    if name in result.column_names:
        values = result[name].to_pylist()
        return [bytes.fromhex(value) for value in values] if name in HEX and isinstance(values[0], str) else values
    fields = {"hashing": ("seed", "code"), "hadamard": ("row", "bit")}[name]
    pairs = zip(*(result[f"{name}.{field}"].to_pylist() for field in fields), strict=True)
    return [dict(zip(fields, pair, strict=True)) for pair in pairs]


def test_types_of_reports(place):
    write_table(survey(20), place.source)
    place.write_job(columns(1.0), privacy=BUDGET)
    assert place.privatize().code == 0
    schema = pq.read_schema(place.target)
    pair = {
        "hashing": [("seed", pa.uint64()), ("code", pa.uint32())],
        "hadamard": [("row", pa.uint32()), ("bit", pa.bool_())],
    }
    expected = {
        **dict.fromkeys(("laplace", "gaussian"), pa.float64()),
        **dict.fromkeys(("discrete_laplace", "discrete_gaussian"), pa.int64()),
        **dict.fromkeys(("bounded_mean", "binary", "binary 0 1", "binary categories", "binary_channel"), pa.bool_()),
        "kary": pa.string(),
        "kary codes": pa.int16(),
        "unary": pa.binary(1),
        "unary symmetric": pa.binary(1),
        "subset": pa.binary(3),
        **{name: pa.struct([pa.field(field, kind, nullable=False) for field, kind in fields]) for name, fields in pair.items()},
    }
    assert {field.name: field.type for field in schema} == expected
    assert not any(field.nullable for field in schema)


@pytest.mark.parametrize("ending", FORMATS)
def test_metadata_of_categories(place, ending):
    write_table(survey(20), place.source)
    place.target = place.folder / f"out/private.{ending}"
    place.write_job(columns(1.0), privacy=BUDGET)
    assert place.privatize().code == 0
    if ending == "csv":
        sidecar = json.loads((place.folder / "out/private.csv.dpcore.json").read_text(encoding="utf-8"))
        said = sidecar["fields"]
        assert sidecar["stored"] == {
            **{name: {"columns": [name], "form": "hexadecimal"} for name in HEX},
            "hashing": {"columns": ["hashing.seed", "hashing.code"], "form": "a column for each field"},
            "hadamard": {"columns": ["hadamard.row", "hadamard.bit"], "form": "a column for each field"},
        }
    else:
        said = {field.name: json.loads(field.metadata[b"dpcore"]) for field in read_table(place.target).schema}
    common = {"format", "mechanism", "epsilon", "delta", "lower", "upper", "k", "categories", "missing", "unknown", "grid"}
    assert list(said) == list(EVERY_MECHANISM)
    more = {"binary_channel": {"phi"}, "unary": {"method"}, "unary symmetric": {"method"}, "subset": {"w"}, "hashing": {"g"}}
    for name, column in EVERY_MECHANISM.items():
        assert set(said[name]) == common | more.get(name, set()), name
        for key in ("mechanism", "categories", "missing", "unknown", "phi", "lower", "upper"):
            assert said[name].get(key) == column.get(key), (name, key)
    assert (said["binary"]["k"], said["kary"]["k"], said["kary codes"]["k"], said["laplace"]["k"]) == (2, 3, 6, None)
    assert (said["unary"]["method"], said["unary symmetric"]["method"]) == ("optimal", "symmetric")
    assert said["subset"]["w"] == local.SubsetSelection(1.0, k=20).w
    assert said["hashing"]["g"] == local.LocalHashing(1.0, k=4).g


# Categories


def one(place, table, column, **job):
    """Output of a job on the column x."""
    write_table(table, place.source)
    place.write_job({"x": {"epsilon": 200.0, **column}}, privacy=BUDGET, **job)
    done = place.privatize("--overwrite")
    assert done.code == 0, done.err
    return read_table(place.target)["x"]


TEXTS = ["b", "a", None, "c", "b"]


@pytest.mark.parametrize(
    "values",
    [
        pa.array(TEXTS),
        pa.array(TEXTS, pa.large_string()),
        pa.array(TEXTS).dictionary_encode(),
        pa.array(TEXTS, pa.large_string()).dictionary_encode(),
        pa.DictionaryArray.from_arrays(pa.array([1, 0, None, 3, 1], pa.uint8()), pa.array(["a", "b", "unused", "c"])),
        pa.chunked_array([TEXTS[:2], TEXTS[2:]]),
    ],
)
def test_texts_in_every_arrow_type(place, values):
    """At ε = 200 a report is the truth: one in e^200 is not."""
    result = one(place, pa.table({"x": values}), {"mechanism": "kary", "categories": ["c", "a", "b"], "missing": "c"})
    assert (result.type, result.to_pylist()) == (pa.string(), ["b", "a", "c", "c", "b"])


def test_a_dictionary_that_holds_a_null(place):
    place.source = place.folder / "in.arrow"
    values = pa.DictionaryArray.from_arrays(pa.array([1, 0, 2, 3, None], pa.int8()), pa.array(["a", "b", None, "c"]))
    result = one(place, pa.table({"x": values}), {"mechanism": "kary", "categories": ["c", "a", "b"], "missing": "c"})
    assert result.to_pylist() == ["b", "a", "c", "c", "c"]


@pytest.mark.some(10)
@pytest.mark.parametrize("kind", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
@pytest.mark.parametrize("encode", [False, True])
def test_integers_in_every_arrow_type(place, kind, encode):
    values = pa.array([7, 0, None, 99, 7], pa.type_for_alias(kind))
    table = pa.table({"x": values.dictionary_encode() if encode else values})
    listed = one(place, table, {"mechanism": "kary", "categories": [7, 0, 100], "missing": 100, "unknown": 0})
    assert (listed.type, listed.to_pylist()) == (pa.type_for_alias(kind), [7, 0, 100, 0, 7])
    codes = one(place, table, {"mechanism": "kary", "k": 8, "missing": 1, "unknown": 2})
    assert (codes.type, codes.to_pylist()) == (pa.type_for_alias(kind), [7, 0, 1, 2, 7])


def test_integers_that_a_type_cannot_hold_are_no_category_of_it(place):
    table = pa.table({"x": pa.array([255, 1, 2**64 - 1], pa.uint64())})
    result = one(place, table, {"mechanism": "hadamard", "categories": [-1, 1, 255], "unknown": -1})
    bits = np.array([(row["row"], row["bit"]) for row in result.to_pylist()], dtype=[("row", "<u4"), ("bit", "?")])
    expected = local.HadamardResponse(200.0, k=3).privatize(np.array([2, 1, 0]), rng=KeyedRandom(KEY).at(nonce=0))
    assert (bits == expected).all()
    narrow = pa.table({"x": pa.array([-1, 1], pa.int8())})
    assert len(one(place, narrow, {"mechanism": "hashing", "categories": [-1, 1, 300]})) == 2


@pytest.mark.parametrize("ending", FORMATS)
def test_categories_of_a_file(place, ending):
    listed = place.folder / "categories.csv"
    listed.write_text('name\n"b, quoted"\na\n007\n', encoding="utf-8")
    place.source = place.folder / f"in.{ending}"
    column = {"mechanism": "kary", "categories_file": str(listed), "unknown": "a"}
    result = one(place, pa.table({"x": ["b, quoted", "007", "a", "z"]}), column)
    assert result.to_pylist() == ["b, quoted", "007", "a", "a"]
    assert json.loads(pq.read_schema(place.target).field("x").metadata[b"dpcore"])["categories"] == ["b, quoted", "a", "007"]


@pytest.mark.parametrize("kind", ["int8", "uint64"])
def test_categories_of_a_file_are_integers_if_the_column_is(place, kind):
    listed = place.folder / "categories.csv"
    listed.write_text("code\n007\n3\n12\n", encoding="utf-8")
    table = pa.table({"x": pa.array([3, 7, None, 4], pa.type_for_alias(kind))})
    result = one(place, table, {"mechanism": "kary", "categories_file": str(listed), "missing": 12, "unknown": 3})
    assert (result.type, result.to_pylist()) == (pa.type_for_alias(kind), [3, 7, 12, 3])
    assert json.loads(pq.read_schema(place.target).field("x").metadata[b"dpcore"])["categories"] == [7, 3, 12]


def test_categories_in_the_order_of_their_codes_are_not_stored(place):
    listed = place.folder / "categories.csv"
    listed.write_text("code\n" + "".join(f"{code}\n" for code in range(1000)), encoding="utf-8")
    table = pa.table({"x": [0, 999]})
    for column in ({"categories": list(range(1000))}, {"categories_file": str(listed)}, {"k": 1000}):
        assert one(place, table, {"mechanism": "kary", **column}).to_pylist() == [0, 999]
        said = json.loads(pq.read_schema(place.target).field("x").metadata[b"dpcore"])
        assert (said["k"], said["categories"]) == (1000, None)


@pytest.mark.long
def test_a_million_categories(place):
    table = pa.table({"x": pa.array([0, 2**20 - 1, 5], pa.int32())})
    for mechanism in ("kary", "hashing", "hadamard", "unary"):
        one(place, table, {"mechanism": mechanism, "k": 2**20})
        found = estimate(place.target).columns[0]
        assert found.estimate.value.shape == (2**20,)
        if mechanism == "kary":
            assert np.flatnonzero(found.estimate.value > 0.3).tolist() == [0, 5, 2**20 - 1]
        assert place.target.stat().st_size < 1 << 20


def test_text_cells_of_a_csv_that_are_missing(place):
    place.source = place.folder / "in.csv"
    place.source.write_text('x\na\nNA\n""\nnull\nb\n', encoding="utf-8")
    column = {"epsilon": 200.0, "mechanism": "kary", "categories": ["a", "b", "NA"], "missing": "b", "unknown": "a"}
    place.write_job({"x": column}, privacy=BUDGET)
    done = place.privatize()
    assert done.code == 0, done.err
    # "NA" is a category here; nothing and "null" are none.
    assert read_table(place.target)["x"].to_pylist() == ["a", "NA", "b", "b", "b"]


@pytest.mark.parametrize(
    ("cells", "column"),
    [
        (["true", "0", "False", "1", ""], {"missing": True}),
        (["1", "0", "7", "1", ""], {"missing": True, "unknown": False}),
        (["yes", "no", "no", "yes", ""], {"categories": ["no", "yes"], "missing": "yes"}),
        (["9", "4", "4", "9", ""], {"categories": [4, 9], "missing": 9}),
    ],
)
def test_answers_in_a_csv(place, cells, column):
    place.source = place.folder / "in.csv"
    place.source.write_text("m,x\n" + "".join(f"-,{cell}\n" for cell in cells), encoding="utf-8")
    place.write_job({"x": {"epsilon": 200.0, "mechanism": "binary", **column}}, privacy=BUDGET)
    done = place.privatize()
    assert done.code == 0, done.err
    assert read_table(place.target)["x"].to_pylist() == [True, False, False, True, True]


@pytest.mark.parametrize("offset", [1, 3, 8, 13])
def test_booleans_that_start_within_a_byte(place, offset):
    values = np.arange(100) % 3 == 0
    place.source = place.folder / "in.arrow"
    write_table(pa.table({"x": values}), place.source)
    place.write_job({"x": {"epsilon": 1.0, "mechanism": "binary"}}, privacy=BUDGET)
    privatize(make_plan(load_job(place.job)), piece_rows=offset)
    expected = local.BinaryResponse(1.0).privatize(values, rng=KeyedRandom(KEY).at(nonce=0))
    assert read_table(place.target)["x"].to_pylist() == expected.tolist()


def test_bounded_means_of_integers_beyond_floats(place):
    big = 2**60
    table = pa.table({"x": pa.array([big + 1, None, big + 3, 2**64 - 1], pa.uint64())})
    column = {"mechanism": "bounded_mean", "epsilon": 1.0, "lower": big, "upper": big + 4096, "missing": big + 2048}
    result = one(place, table, column)
    exact = np.array([big + 1, big + 2048, big + 3, 2**63 - 1])
    expected = local.BoundedMean(1.0, big, big + 4096).privatize(exact, rng=KeyedRandom(KEY).at(nonce=0))
    assert result.to_pylist() == expected.tolist()


def test_without_a_key_reports_differ_between_runs_columns_and_pieces(place):
    names = ("kary", "unary", "subset", "hashing", "hadamard", "binary")
    table = pa.table({f"{name} {twin}": np.zeros(4000, np.int64) for name in names for twin in "ab"})
    write_table(table, place.source)
    job = {name: {"mechanism": name.split()[0], "epsilon": 1.0, **({} if "binary" in name else {"k": 8})} for name in table.column_names}
    place.write_job(job, privacy=BUDGET, key=None)
    runs = []
    for _ in range(2):
        privatize(make_plan(load_job(place.job), overwrite=True), piece_rows=1000)
        runs.append(read_table(place.target))
    for name in names:
        reports = [run[f"{name} {twin}"].slice(start, 1000).to_pylist() for run in runs for twin in "ab" for start in range(0, 4000, 1000)]
        assert len({str(part) for part in reports}) == 16
        assert len(Counter(map(str, reports[0]))) > 1
