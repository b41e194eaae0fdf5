"""`missing = "skip"`: cells without a value stay out of the estimates, and nothing but noise says which they are."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpcore.batch import estimate, make_plan, parse_job, privatize
from support.jobs import FORMATS, KEY, Workplace, read_table, refused, write_table

ROWS = 6000
NUMBERS = {"lower": 0, "upper": 20, "missing": "skip"}
WORDS = {"categories": ["north", "east", "south"], "missing": "skip", "unknown": "south"}
COLUMNS = {
    "laplace": {"mechanism": "laplace", **NUMBERS},
    "gaussian": {"mechanism": "gaussian", "delta": 1e-6, **NUMBERS},
    "discrete_laplace": {"mechanism": "discrete_laplace", **NUMBERS},
    "discrete_gaussian": {"mechanism": "discrete_gaussian", "delta": 1e-6, **NUMBERS},
    "bounded_mean": {"mechanism": "bounded_mean", **NUMBERS},
    "binary": {"mechanism": "binary", "missing": "skip"},
    "binary categories": {"mechanism": "binary", "categories": ["no", "yes"], "missing": "skip", "unknown": "no"},
    "binary_channel": {"mechanism": "binary_channel", "phi": [3.0, 1.5, -1.0], **WORDS},
    "kary": {"mechanism": "kary", **WORDS},
    "kary codes": {"mechanism": "kary", "k": 3, "missing": "skip", "unknown": 2},
    "unary": {"mechanism": "unary", **WORDS},
    "subset": {"mechanism": "subset", **WORDS},
    "hashing": {"mechanism": "hashing", **WORDS},
    "hadamard": {"mechanism": "hadamard", **WORDS},
    "projective": {"mechanism": "projective", **WORDS},
}
COLUMNS = {name: {"epsilon": 2.0} | column for name, column in COLUMNS.items()}
BUDGET = {"max_epsilon": 100.0, "max_delta": 1e-4}
INDEX = np.arange(ROWS)
THERE = INDEX % 4 > 0
"""A quarter has no value."""
VALUES = INDEX % 23
CODES = np.array([0, 0, 1, 1, 0, 2, 2, 1])[INDEX % 8]


def survey():
    def some(values):
        return pa.array([value if there else None for value, there in zip(values, THERE, strict=True)])

    words, coded = [["north", "east", "elsewhere"][code] for code in CODES.tolist()], [[0, 1, 7][code] for code in CODES.tolist()]
    yes = [bool(code == 1) for code in CODES]
    numbers = dict.fromkeys(("discrete_laplace", "discrete_gaussian"), some(VALUES.tolist()))
    numbers |= dict.fromkeys(("laplace", "gaussian", "bounded_mean"), some((VALUES / 1.0).tolist()))
    answers = {"binary": some(yes), "binary categories": some([["no", "yes"][int(each)] for each in yes]), "kary codes": some(coded)}
    return pa.table({name: numbers.get(name, answers.get(name, some(words))) for name in COLUMNS})


MEAN = float(np.clip(VALUES[THERE], 0, 20).mean())
SHARES = np.bincount(CODES[THERE], minlength=3) / THERE.sum()
TRUTH = {
    **dict.fromkeys(("laplace", "gaussian", "discrete_laplace", "discrete_gaussian", "bounded_mean"), MEAN),
    **dict.fromkeys(("binary", "binary categories"), float(SHARES[1])),
    "binary_channel": float(SHARES @ [3.0, 1.5, -1.0]),
}


@pytest.fixture
def place(tmp_path, capsys):
    place = Workplace(tmp_path, capsys)
    write_table(survey(), place.source)
    return place


@pytest.mark.parametrize("ending", FORMATS)
def test_estimates_are_about_the_rows_with_a_value(place, ending):
    place.target = place.folder / f"out/private.{ending}"
    place.source = write_table(survey(), place.folder / f"in.{ending}")
    place.write_job(COLUMNS, privacy=BUDGET)
    done = place.privatize()
    assert done.code == 0, done.err
    done = place.estimate("--confidence", "0.999999", "--target", "sample", "--report", place.folder / "report")
    assert done.code == 0, done.err
    columns = {column["name"]: column for column in json.loads(done.out)["columns"]}
    for name, column in columns.items():
        ends, truth = np.atleast_2d(column["interval"]), np.atleast_1d(TRUTH.get(name, SHARES))
        assert (ends[:, 0] <= truth).all(), name
        assert (truth <= ends[:, 1]).all(), name
        low, high = column["unanswered"]["interval"]
        assert low <= 0.25 <= high, name
        assert column["missing"] == "skip"
        assert np.ptp(ends, axis=1).max() < (20 if name in TRUTH else 1), name
    page = (place.folder / "report" / "private-estimate.html").read_text(encoding="utf-8")
    assert page.count("Without a value: ") == len(COLUMNS)
    assert "ows without a value are left out" in page
    assert "% of rows with a value" in page
    assert "At most about one in " in page
    assert "every answer kept, or flipped at random" not in page
    assert "every answer kept, or replaced at random by the other one or by none" in page


def test_the_output_says_what_it_holds(place):
    place.write_job(COLUMNS, privacy=BUDGET)
    assert place.privatize().code == 0
    schema = pq.read_schema(place.target)
    pair = pa.struct([pa.field("value", pa.float64(), nullable=False), pa.field("answered", pa.bool_(), nullable=False)])
    assert schema.field("laplace").type == pair
    assert schema.field("discrete_laplace").type.field("value").type == pa.int64()
    assert {name: schema.field(name).nullable for name in ("laplace", "binary", "kary", "unary")} == {
        "laplace": False, "binary": True, "kary": True, "unary": False,
    }  # fmt: skip
    assert json.loads(schema.field("kary").metadata[b"dpcore"])["missing"] == "skip"
    table = read_table(place.target)
    assert set(table["kary"].to_pylist()) == {"north", "east", "south", None}
    assert set(table["kary codes"].to_pylist()) == {0, 1, 2, None}
    assert set(table["bounded_mean"].to_pylist()) == {True, False, None}
    # A null is a report: rows with a value have some, rows without have some other report.
    nulls = table["kary"].is_null().to_numpy()
    assert 0.05 < nulls[THERE].mean() < 0.3 < nulls[~THERE].mean() < 0.9


def test_the_output_depends_neither_on_pieces_nor_on_what_stands_beside(place):
    job = {
        "version": 1, "input": {"path": str(place.source)}, "output": {"path": str(place.target)}, "privacy": BUDGET,
        "testing": {"key_hex": KEY.hex()}, "column": [{"name": name, **column} for name, column in COLUMNS.items()],
    }  # fmt: skip
    found = []
    for rows in (ROWS, 17, 1000):
        plan = make_plan(parse_job(job), overwrite=True)
        privatize(plan, piece_rows=rows, threads=2)
        found.append(pq.read_table(place.target))
    assert found[0].equals(found[1])
    assert found[0].equals(found[2])


def test_the_terminal_shows_the_share_without_a_value(place):
    place.write_job({name: COLUMNS[name] for name in ("laplace", "kary")}, privacy=BUDGET)
    assert place.privatize().code == 0
    done = place.estimate("--table")
    assert done.out.count("no value, share of all rows") == 2
    assert "of these intervals at most about one in twenty misses." in done.out
    assert "skip" in place.privatize("--dry-run", "--overwrite", "--table").out


def test_rows_beyond_the_limit_of_a_unit_count_as_without_a_value(place):
    table = survey().append_column("person", pa.array(INDEX // 6))
    write_table(table, place.source)
    place.write_job({"laplace": COLUMNS["laplace"]}, privacy=BUDGET | {"unit": "person", "max_rows_per_unit": 3})
    assert place.privatize().code == 0
    column = json.loads(place.estimate("--confidence", "0.999999", "--target", "sample").out)["columns"][0]
    low, high = column["unanswered"]["interval"]
    assert low <= 1 - 0.75 / 2 <= high  # half of the rows are suppressed, whichever they are
    assert low > 0.3


def test_a_category_of_this_name_is_a_category(place):
    write_table(pa.table({"plan": pa.array(["skip", "keep", None, "keep"] * 500)}), place.source)
    column = {"mechanism": "kary", "epsilon": 20.0, "categories": ["skip", "keep"], "missing": "skip"}
    place.write_job({"plan": column}, privacy=BUDGET)
    assert place.privatize().code == 0
    found = estimate(place.target).columns[0]
    assert found.unanswered is None
    assert found.estimate.value == pytest.approx([0.5, 0.5], abs=0.01)


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ({"mechanism": "discrete_laplace", "lower": 0, "upper": 1, "missing": "skip"}, ["epsilon must leave", "take mechanism 'binary'"]),
        ({"mechanism": "laplace", "lower": 0, "upper": 1, "missing": "none"}, ['missing must be a number, or "skip"', "'none'"]),
        ({"mechanism": "kary", "categories": ["", "a"], "missing": "skip"}, ["categories must not have the empty text"]),
        ({"mechanism": "binary_channel", "k": 2, "phi": [1.0, 1.0], "missing": "skip"}, ["phi must have two different numbers"]),
        ({"mechanism": "kary", "k": 3, "missing": "none"}, ["missing must be"]),
    ],
)
def test_what_cannot_be_skipped_is_refused(place, column, words):
    write_table(pa.table({"x": pa.array([0, 1, None])}), place.source)
    place.write_job({"x": {"epsilon": 1.0} | column}, privacy=BUDGET)
    refused(place, *words)


def test_a_null_without_a_declaration_says_what_to_do(place):
    place.write_job({"laplace": {"mechanism": "laplace", "epsilon": 1.0, "lower": 0, "upper": 20}}, privacy=BUDGET)
    done = place.privatize("--curator")
    assert done.code == 3
    assert 'missing = "skip" leaves such rows out of the result' in done.err


def test_a_changed_report_is_refused(place):
    place.write_job({"kary codes": COLUMNS["kary codes"]}, privacy=BUDGET)
    assert place.privatize().code == 0
    table = pq.read_table(place.target)
    changed = table.set_column(0, table.schema.field(0), pa.array([3] * ROWS, table.schema.field(0).type))
    pq.write_table(changed, place.target)
    done = place.estimate()
    assert done.code == 3
    assert "not a report that the mechanism can make" in done.err
