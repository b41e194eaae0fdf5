"""Decimals are integers of their own step: the answers are those of a table of integers, and no float is on the way."""

from __future__ import annotations

import math
import random
from decimal import Decimal, localcontext
from fractions import Fraction

import pyarrow as pa
import pytest

from dpcore.errors import JobError
from dpcore.jobs.release_job import load_release_job, parse_release_job
from dpcore.query.grids import ExactPoints, needs_steps
from dpcore.query.run import run
from dpcore.query.written_plans import make_release_plan
from dpcore.tables.types.decimals import common_type, counted, ratio_of, steps
from support.jobs import write_table
from support.parts import exact_sums
from support.releases import Counter
from support.totals import total_of

KINDS = [
    pa.decimal128(38, 0), pa.decimal128(38, 20), pa.decimal128(18, 2), pa.decimal256(76, 40), pa.int64(), pa.uint64(), pa.int8(),
    *(getattr(pa, name)(9, 2) for name in ("decimal32", "decimal64") if hasattr(pa, name)),
]  # fmt: skip
ENDS = -(2**63), 2**63 - 1
ROUNDED = {"down": math.floor, "up": math.ceil, "nearest": lambda number: math.floor(number + Fraction(1, 2))}
DATA = random.Random(16)
CENTS = [None if place % 11 == 5 else DATA.choice([1, -1]) * DATA.randrange(10 ** DATA.randrange(1, 8)) for place in range(700)]
OTHER = [DATA.randrange(-500, 500) for _ in CENTS]
PERSON = DATA.sample([row // 3 for row in range(len(CENTS))], len(CENTS))
"""Nobody has more rows than jobs let take part: which of more those would be follows from what the rows hold."""
REGION = [DATA.choice("ab") for _ in CENTS]


@pytest.fixture
def place(tmp_path, capsys):
    return Counter(tmp_path, capsys)


def of_steps(numbers, kind):
    """An array of a type whose cells have these whole numbers of its steps."""
    if not pa.types.is_decimal(kind):
        return pa.array(numbers, kind)
    with localcontext(prec=100):
        return pa.array([None if each is None else Decimal(each).scaleb(-kind.scale) for each in numbers], kind)


def some_numbers(kind, chosen):
    """Whole numbers of steps, up to the largest of a type."""
    if pa.types.is_decimal(kind):
        most = 10**kind.precision - 1
        found = [chosen.choice([1, -1]) * chosen.randrange(10 ** chosen.randint(0, kind.precision)) for _ in range(4)]
        return [*found, 0, most, -most]
    low, high = (0, 2**64 - 1) if kind == pa.uint64() else (-(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1) - 1)
    return [*(chosen.randint(low, high) for _ in range(4)), 0, low, high]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_cells_are_whole_steps_exactly(kind):
    chosen, digits = random.Random(3), getattr(kind, "scale", 0)
    for shift in (0, 1, 2, 18, 19, -1, -2, -9, -10, -18, -19, -25, -60):
        numbers = some_numbers(kind, chosen)
        cells = of_steps([*numbers, None], kind)
        for rounding, rule in ROUNDED.items():
            wanted = [min(max(rule(Fraction(each) * Fraction(10) ** shift), ENDS[0]), ENDS[1]) for each in numbers] + [None]
            assert steps(cells, digits + shift, rounding).to_pylist() == wanted, (shift, rounding)
            assert steps(cells.slice(2), digits + shift, rounding).to_pylist() == wanted[2:]


@pytest.mark.some(4)
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != pa.int8()], ids=str)
@pytest.mark.parametrize("counts_equal", [True, False])
def test_places_among_points_are_exact(kind, counts_equal):
    """Points are what the job writes: 0.1 is a tenth."""
    chosen, digits = random.Random(7), getattr(kind, "scale", 0)
    sets = [
        (-0.3, 0.1, 0.2, 0.25, 0.3), (0.001, 0.002, 10.0), (-1e300, 0.0, 5.0, 1e300), (0.0, 2.0**53, 2.0**53 + 2, 2.0**62),
        (-1.5, 2.0**63, 2.0**64), tuple(float(Fraction(each, 20)) for each in range(-40, 41)), (),
    ]  # fmt: skip
    for points in sets:
        if points[:1] == (-1.5,) and digits in {0, 40}:
            with pytest.raises(JobError, match="write fewer digits"):
                ExactPoints.of(points, kind, counts_equal=counts_equal)
            continue
        exact = ExactPoints.of(points, kind, counts_equal=counts_equal)
        near = [int(Fraction(*ratio_of(point)) * 10**digits) + off for point in points if abs(point) < 1e17 for off in (-1, 0, 1)]
        inside = [each for each in near if fits(each, kind)]
        numbers = [*some_numbers(kind, chosen), *inside]
        values = [Fraction(each) / Fraction(10) ** digits for each in numbers]
        wanted = [sum(Fraction(*ratio_of(p)) <= x if counts_equal else Fraction(*ratio_of(p)) < x for p in points) for x in values]
        places, absent = exact.places(of_steps(numbers, kind))
        assert places.tolist() == wanted, points
        assert absent is None
    assert needs_steps(kind, (0.5,)) == pa.types.is_decimal(kind)
    assert needs_steps(kind, (0.5, 2.0**60))


def fits(number, kind):
    if pa.types.is_decimal(kind):
        return abs(number) < 10**kind.precision
    return (0 <= number < 2**64) if kind == pa.uint64() else -(2**63) <= number < 2**63


def test_numbers_of_a_job_are_the_decimals_that_are_written():
    assert [ratio_of(each) for each in (0.1, 2.5, -3.0, 2.0**60)] == [(1, 10), (5, 2), (-3, 1), (2**60, 1)]
    assert ratio_of(2.0**63) == (9223372036854776000, 1)
    given = [(0.1, 2), (0.105, 2), (-0.105, 2), (1234.0, -2)]
    assert [counted(*each) for each in given] == [(10, True), (10, False), (-11, False), (12, False)]


def test_files_with_different_decimals_have_the_finest_step():
    few, more = pa.decimal128(9, 2), pa.decimal128(12, 5)
    assert common_type([few, few]) == few
    assert common_type([few, more, pa.int8(), pa.bool_()]).scale == 5
    assert common_type([pa.int8(), few]).scale == 2
    assert common_type([few, pa.float32()]) == common_type([pa.float64(), few]) == pa.float64()
    assert common_type([pa.int8(), pa.int64()]) == pa.int8()
    assert common_type([]) == pa.null()


# Whole jobs

BOUNDS = {"lower": -50, "upper": 40000, "missing": 7}
ASKED = {
    "sum": {"kind": "sum", "column": "x", **BOUNDS},
    "gaussian": {"kind": "sum", "column": "x", **BOUNDS, "delta": 1e-6},
    "mean": {"kind": "mean", "column": "x", **BOUNDS},
    "present": {"kind": "mean", "column": "x", **BOUNDS, "missing": "skip"},
    "var": {"kind": "var", "column": "x", **BOUNDS},
    "std": {"kind": "std", "column": "x", **BOUNDS, "missing": "skip"},
    "covariance": {"kind": "covariance", "columns": ["x", "y"], "lower": [-50, -300], "upper": [40000, 300], "missing": [7, 0]},
    "few": {"kind": "count", "column": "x", "lower": -10, "upper": 25},
    "bins": {"kind": "histogram", "column": "x", "edges": [-50, 0, 10, 5000, 40000], "missing": 10},
    "quartiles": {"kind": "quantile", "column": "x", "q": [0.25, 0.75], "grid": [-50, -10, 0, 10, 30, 500, 40000], "missing": 0},
    "skipping": {"kind": "median", "column": "x", "grid": [-50, -10, 0, 10, 30, 500, 40000], "missing": "skip"},
    "by region": {"kind": "sum", "column": "x", **BOUNDS, "group_by": "region", "groups": ["a", "b"]},
    "means by region": {"kind": "mean", "column": "x", **BOUNDS, "group_by": "region", "groups": ["a", "b"]},
    "spread by region": {"kind": "var", "column": "x", **BOUNDS, "group_by": "region", "groups": ["a", "b"]},
    "by bin": {"kind": "count", "group_by": "x", "groups": {"x": {"edges": [-50, 0, 10, 5000, 40000], "null": True}}},
}
SETTINGS = {
    "row": ({}, {}),
    "person": (
        {"unit": "person", "max_rows_per_unit": 3, "relation": "add_remove"},
        {"bounded": {"kind": "sum", "column": "x", "missing": 0, "lower": -500, "upper": 500, "max_sum_per_unit": 2000}},
    ),
}
NUMBERS = ("lower", "upper", "missing", "edges", "grid", "max_sum_per_unit")


def in_units(value, digits):
    """Declared numbers divided by a power of ten: what a job about the decimals says."""
    if isinstance(value, list):
        return [in_units(each, digits) for each in value]
    return value if isinstance(value, str) else float(Fraction(value) / 10**digits)


def about_decimals(query):
    found = {key: in_units(value, 2) if key in NUMBERS else value for key, value in query.items()}
    if query["kind"] == "covariance":
        for key in ("lower", "upper", "missing"):
            found[key] = [in_units(query[key][0], 2), query[key][1]]
    if isinstance(query.get("groups"), dict):
        found["groups"] = {"x": {**query["groups"]["x"], "edges": in_units(query["groups"]["x"]["edges"], 2)}}
    return found


def table_of(kind):
    return pa.table({"x": of_steps(CENTS, kind), "y": pa.array(OTHER), "person": PERSON, "region": REGION})


def documents(place, table, queries, settings, source="in.parquet", **more):
    place.source = place.folder / source
    if table is not None:
        write_table(table, place.source)
    place.write_release(queries, privacy={"max_epsilon": 1e9, "max_delta": 0.1, **settings}, epsilon=0.5)
    found = run(make_release_plan(load_release_job(place.job), overwrite=True), **more)
    return {query["name"]: query for query in found["queries"]}


def shown(document, digits):
    """What an answer about integers would say of decimals with so many digits: shifts of values, of noise, and of declared numbers."""
    of_values = {"var": 2 * digits}.get(document["kind"], digits)
    found = dict(document)
    if document["kind"] in {"count", "histogram", "quantile", "median"}:
        return {key: in_units(value, 2) if key in {*NUMBERS, "value"} and counts(document, key) else value for key, value in found.items()}
    return found | {key: divided(document[key], of_values) for key in ("value", "stderr", "interval")}


def counts(document, key):
    return key != "value" or document["kind"] in {"quantile", "median"}


def divided(value, digits):
    return [divided(each, digits) for each in value] if isinstance(value, list) else value / 10.0**digits


@pytest.mark.parametrize("settings", SETTINGS)
def test_answers_are_those_of_a_table_of_integers(place, settings):
    """Same noise, same sums, for every kind, with groups and without, and only the unit differs."""
    privacy, more = SETTINGS[settings]
    queries = {**ASKED, **more}
    whole = documents(place, table_of(pa.int64()), queries, privacy)
    found = documents(place, table_of(pa.decimal128(18, 2)), {name: about_decimals(query) for name, query in queries.items()}, privacy)
    for name, document in whole.items():
        wanted = shown(document, 2)
        for key in ("value", "stderr", "interval"):
            assert found[name][key] == wanted[key], (name, key)
        if document["kind"] in {"sum", "mean", "var", "std", "covariance"}:
            assert found[name]["step"] == ([0.01, 1.0] if name == "covariance" else 0.01)
            assert [each["law"] for each in found[name]["noise"]] == [each["law"] for each in document["noise"]]
    assert found["sum"]["lower"] == -0.5
    assert found["sum"]["missing"] == 0.07
    reach = 400.5 if settings == "row" else 1200.0
    assert found["sum"]["noise"] == [{"law": "laplace", "sensitivity": reach, "scale": pytest.approx(reach / 0.5)}]


SOURCES = ["in.parquet", "in.arrow", "in.csv", "labels.arrow", "wide.arrow", "other.parquet"]


@pytest.mark.some(2)
@pytest.mark.parametrize("source", SOURCES)
def test_answers_do_not_depend_on_pieces_formats_and_widths(place, source):
    queries = {name: about_decimals(ASKED[name]) for name in ("sum", "mean", "var", "bins", "quartiles", "by region", "few")}
    wanted = documents(place, table_of(pa.decimal128(18, 2)), queries, {})
    table, more = table_of(pa.decimal256(60, 2) if source.startswith("wide") else pa.decimal128(9, 2)), {}
    if source.startswith("labels"):
        table = table.set_column(0, "x", table["x"].combine_chunks().dictionary_encode())
    if source == "other.parquet":  # two files, one of them with fewer digits, whose finest step is that of the other
        half = pa.table({**{name: table[name] for name in ("y", "person", "region")}, "x": table["x"]}).select(table.column_names)
        for name, part in (("0.parquet", half.slice(0, 300)), ("1.parquet", table.slice(300))):
            write_table(part, place.folder / "folder" / name)
        place.source = place.folder / "folder"
        source = "folder"
        table = None
    if source == "in.csv":
        queries = {name: {**query, "column": "money"} for name, query in queries.items()}
        place.source = place.folder / source
        write_table(table, place.source)
        place.write_release(queries, privacy={"max_epsilon": 1e9, "max_delta": 0.1}, epsilon=0.5)
        text = place.job.read_text().replace("[[query]]", '[[derive]]\nname = "money"\nsql = "CAST(x AS DECIMAL(18, 2))"\n[[query]]', 1)
        place.job.write_text(text)
        found = {each["name"]: each for each in run(make_release_plan(load_release_job(place.job), overwrite=True))["queries"]}
    else:
        found = documents(place, table, queries, {}, source, piece_rows=37, **more)
    for name, document in wanted.items():
        assert {**found[name], "column": "x"} == document, name


def test_files_of_several_scales_are_one_column(place):
    table = table_of(pa.decimal128(18, 2))
    thousandths = table.set_column(0, "x", table["x"].cast(pa.decimal128(20, 3)))
    write_table(table.slice(0, 300), place.folder / "folder" / "0.parquet")
    write_table(thousandths.slice(300), place.folder / "folder" / "1.parquet")
    queries = {name: about_decimals(ASKED[name]) for name in ("sum", "bins", "by bin", "few")}
    found = documents(place, None, queries, {}, "folder")
    wanted = documents(place, thousandths, queries, {})
    assert found == wanted
    assert found["sum"]["step"] == 0.001


def plan_of(place, table, query, **privacy):
    write_table(table, place.source)
    job = {
        "version": 1, "input": {"path": str(place.source)}, "output": {"path": str(place.folder / "out.json")},
        "privacy": {"max_epsilon": 1.0, **privacy}, "query": [{"name": "it", "epsilon": 1.0, **query}],
    }  # fmt: skip
    return make_release_plan(parse_release_job(job), overwrite=True)


def test_where_floats_are_wrong(place):
    """18 digits: the nearest floats lie in other bins, and their sum is another one."""
    texts = ["9999999999999999.99", "0.10", "0.30", "9999999999999999.98", "-9999999999999999.99"]
    table = pa.table({"x": pa.array(list(map(Decimal, texts)), pa.decimal128(18, 2))})
    queries = {
        "bins": {"kind": "histogram", "column": "x", "edges": [0, 0.1, 1e16, 2e16], "missing": 0, "epsilon": 1e5},
        "below": {"kind": "count", "column": "x", "lower": 0.3, "upper": 9999999999999998, "epsilon": 1e5},
    }
    found = documents(place, table, queries, {})
    assert found["bins"]["value"] == [1, 4, 0]
    assert found["below"]["value"] == 1
    tenths = pa.table({"x": pa.array([Decimal("0.1"), Decimal("0.2")] * 1000, pa.decimal128(38, 18))})
    answer = plan_of(place, tenths, {"kind": "sum", "column": "x", "lower": 0, "upper": 0.3, "missing": 0}).estimators[0]
    (total,) = exact_sums(total_of(answer.measure, [answer.cells.read(tenths["x"].combine_chunks())]))
    assert total / 10**18 == 300


def test_neighbours_differ_by_whole_steps(place):
    """In integers: no sum moves by more than its noise is calibrated to, and some move by that much."""
    chosen = random.Random(5)
    kind = pa.decimal128(9, 2)
    query = {"kind": "sum", "column": "x", "lower": -3.335, "upper": 2.5, "missing": 0}
    for privacy, low, high in (({}, -583, 583), ({"relation": "add_remove"}, -333, 333)):
        answer = plan_of(place, pa.table({"x": of_steps([1, 2], kind)}), query, **privacy).estimators[0]
        assert answer.noise[0].sensitivity == high
        moved = []
        for _ in range(200):
            rows = [chosen.choice([None, 0, 250, 251, -333, -334, 99, -(10**8)]) for _ in range(4)]
            other = rows[1:] if privacy else [chosen.choice([10**8, -(10**8), 3]), *rows[1:]]
            totals = [total_of(answer.measure, [answer.cells.read(of_steps(each, kind))]) for each in (rows, other)]
            assert all(total.sums.grid == totals[0].sums.grid and total.sums.grid <= 1 for total in totals)
            (one,), (another,) = map(exact_sums, totals)
            moved.append(another - one)
        assert min(moved) >= low
        assert max(moved) <= high
        assert max(map(abs, moved)) == high
        assert all(each.denominator == 1 for each in moved)


@pytest.mark.parametrize(
    ("kind", "query", "said"),
    [
        (pa.decimal128(9, 2), {"kind": "sum", "lower": 0.001, "upper": 0.012}, "two multiples of 0.01 between them"),
        (pa.decimal128(38, 18), {"kind": "histogram", "edges": [-1, 1e-17, 1e6, 1e7]}, "write fewer digits"),
        (pa.uint64(), {"kind": "mean", "lower": 0, "upper": 2.0**64}, "must lie within 63 bits for a column of type uint64"),
        (pa.uint64(), {"kind": "var", "lower": 0, "upper": 2.0**63}, "CAST(x AS DOUBLE)"),
    ],
)  # fmt: skip
def test_what_64_bits_do_not_hold_is_refused_before_the_first_row(place, kind, query, said):
    with pytest.raises(JobError) as caught:
        plan_of(place, pa.table({"x": of_steps([1, 2], kind)}), {"column": "x", "missing": 0.01 if query["kind"] == "sum" else 0, **query})
    assert said in str(caught.value)


def test_wide_decimals_are_clamped_exactly(place):
    """Beyond 64 bits of steps: values saturate, and steps are as fine as bounds let them be."""
    texts = ["1e20", "-1e20", "999.99999999999999999", "0.00000000000000001", "12.5"]
    table = pa.table({"x": pa.array(list(map(Decimal, texts)), pa.decimal128(38, 17))})
    answer = plan_of(place, table, {"kind": "sum", "column": "x", "lower": 0, "upper": 1000, "missing": 0}).estimators[0]
    numbers = answer.cells.read(table["x"].combine_chunks())
    step = Fraction(1, 10**answer.cells.digits)
    assert answer.cells.digits == 15
    inside = [min(max(int(each), 0), int(answer.section.upper)) * step for each in numbers.tolist()]
    assert inside[:2] == [1000, 0]
    assert inside[4] == Fraction(25, 2)
    assert abs(inside[2] - 1000) <= step
    bins = {"kind": "histogram", "column": "x", "edges": [0, 0.5, 999.5, 1e30], "missing": 0, "epsilon": 1e5}
    found = documents(place, table, {"bins": bins}, {})
    assert found["bins"]["value"] == [2, 1, 2]


def test_integers_beyond_floats_are_compared_exactly(place):
    edge = 2**53
    for kind in (pa.int64(), pa.uint64()):
        table = pa.table({"x": pa.array([edge - 1, edge + 1, edge + 2, edge + 3, 2**63 - 1, None], kind)})
        queries = {
            "bins": {"kind": "histogram", "column": "x", "edges": [0, edge, edge + 2, 2**62], "missing": "skip", "epsilon": 1e5},
            "few": {"kind": "count", "column": "x", "lower": edge, "upper": edge + 2, "epsilon": 1e5},
            "by": {"kind": "count", "group_by": "x", "groups": {"x": {"edges": [0, edge, edge + 2]}}, "epsilon": 1e5},
            "mid": {"kind": "median", "column": "x", "grid": [0, edge, edge + 2, 2**62], "missing": "skip", "epsilon": 1e5},
        }
        found = documents(place, table, queries, {})
        assert found["bins"]["value"] == [1, 1, 3]
        assert found["few"]["value"] == 2
        assert found["by"]["value"] == [1, 2]
        assert found["mid"]["value"] == edge + 2
    table = pa.table({"x": pa.array([2**64 - 1, 2**63 + 5000, 2**63 - 1, 0, None], pa.uint64())})
    bins = {"kind": "histogram", "column": "x", "edges": [0, 2.0**63, 1e19, 2e19], "missing": "skip", "epsilon": 1e5}
    found = documents(place, table, {"bins": bins}, {})
    assert found["bins"]["value"] == [2, 1, 1]


def test_whole_decimals_are_categories(place):
    cells = ["1", "2", "2", "2.5", None, "100000000000000000000"]
    table = pa.table({"x": pa.array([None if each is None else Decimal(each) for each in cells], pa.decimal128(38, 1))})
    queries = {
        "them": {"kind": "histogram", "column": "x", "categories": [1, 2, 3], "missing": "skip", "unknown": "skip", "epsilon": 1e5},
        "rest": {"kind": "histogram", "column": "x", "categories": [1, 2, 3], "missing": 3, "unknown": 1, "epsilon": 1e5},
        "grouped": {"kind": "count", "group_by": "x", "groups": [2, 1], "epsilon": 1e5},
    }
    found = documents(place, table, queries, {})
    assert [found[name]["value"] for name in queries] == [[1, 2, 0], [2, 2, 2], [2, 1]]


def test_a_plan_speaks_of_numbers(place):
    plan_of(place, table_of(pa.decimal128(18, 2)), ASKED["sum"])
    place.write_release({name: about_decimals(ASKED[name]) for name in ("sum", "covariance", "var")}, epsilon=0.5)
    said = place.dpcore("release", place.job, "--dry-run")
    assert said.code == 0, said.err
    assert "400.5" in said.out
    assert "40050" not in said.out
    done = place.dpcore("release", place.job, "--report", place.folder / "report")
    assert done.code == 0, done.err
    assert "steps of 0.01" in next((place.folder / "report").glob("*.html")).read_text(encoding="utf-8")


@pytest.mark.parametrize("library", ["pandas", "polars", "duckdb", "arrow"])
def test_frames_are_read_as_files(place, library):
    from dpcore import PrivateTable
    from dpcore.testing import KeyedRandom
    from support.jobs import KEY

    table = table_of(pa.decimal128(18, 2))
    wanted = documents(place, table, {"mean": about_decimals(ASKED["mean"])}, {})["mean"]
    if library == "pandas":
        pandas = pytest.importorskip("pandas")
        frame = table.to_pandas(types_mapper=pandas.ArrowDtype)
        objects = table.to_pandas()
        assert objects["x"].dtype == object
    elif library == "polars":
        frame = pytest.importorskip("polars").from_arrow(table)
    elif library == "duckdb":
        frame = pytest.importorskip("duckdb").from_arrow(table)
    else:
        frame = table
    query = {"epsilon": 0.5, "lower": -0.5, "upper": 400, "missing": 0.07}
    found = PrivateTable(frame, rng=KeyedRandom(KEY)).mean("x", **query)
    assert found.value == wanted["value"]
    if library == "pandas":
        money = PrivateTable(objects, rng=KeyedRandom(KEY)).derive(money="CAST(x AS DECIMAL(18, 2))")
        assert money.mean("money", **query).value == wanted["value"]
