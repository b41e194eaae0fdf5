"""A failure tells nothing that was not paid for: whatever one cell holds, a declared job ends as it would with any other content.

The check knows nothing of how cells are read. It runs the command on a table and on its neighbours, which differ in one record, and
compares what whoever starts it sees: the exit code, both streams, and of the output everything but the noisy values.
"""

from __future__ import annotations

import importlib
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpcore.accounting import Ledger
from dpcore.jobs import privatize as engine
from dpcore.tables import inputs, rows
from support import hostile
from support.jobs import Workplace, job_text, read_table
from support.releases import release_text

COLUMNS: dict[str, list[dict[str, Any]]] = {
    "whole": [
        {"mechanism": "discrete_laplace", "lower": 0, "upper": 6, "missing": 1},
        {"mechanism": "discrete_gaussian", "delta": 1e-6, "lower": 0, "upper": 6, "missing": 1},
        {"mechanism": "unary", "categories": [0, 1, 5], "missing": 0, "unknown": 5},
    ],
    "real": [
        {"mechanism": "laplace", "lower": 0, "upper": 3, "missing": 1},
        {"mechanism": "gaussian", "delta": 1e-6, "lower": 0.5, "upper": 3, "missing": 1.5},
        {"mechanism": "bounded_mean", "lower": 0, "upper": 3, "missing": 0},
    ],
    "place": [
        {"mechanism": "kary", "categories": hostile.CATEGORIES, "missing": "north", "unknown": "south"},
        {"mechanism": "binary", "categories": ["north", "east"], "missing": "north", "unknown": "east"},
        {"mechanism": "binary_channel", "categories": hostile.CATEGORIES, "phi": [0, 1, 2], "missing": "north", "unknown": "south"},
        {"mechanism": "subset", "categories": hostile.CATEGORIES, "missing": "north", "unknown": "south"},
    ],
    "flag": [{"mechanism": "binary", "missing": False, "unknown": True}],
    "code": [
        {"mechanism": "kary", "k": 3, "missing": 0, "unknown": 2},
        {"mechanism": "hashing", "k": 3, "missing": 0, "unknown": 2},
        {"mechanism": "hadamard", "categories": [0, 2], "missing": 0, "unknown": 2},
    ],
}
"""Mechanisms for each column of the table, with everything declared."""
QUERIES: dict[str, dict[str, Any]] = {
    "all": {"kind": "count"},
    "some": {"kind": "count", "column": "real", "lower": 0, "upper": 2},
    "north": {"kind": "count", "column": "place", "categories": ["north"]},
    "places": {"kind": "histogram", "column": "place", "categories": hostile.CATEGORIES, "missing": "north", "unknown": "south"},
    "codes": {"kind": "histogram", "column": "code", "k": 3, "missing": 0, "unknown": 2},
    "bins": {"kind": "histogram", "column": "real", "edges": [0, 1, 2, 4], "missing": 0},
    "sum": {"kind": "sum", "column": "whole", "lower": 0, "upper": 6, "missing": 0},
    "mean": {"kind": "mean", "column": "real", "lower": 0, "upper": 4, "missing": 1, "group_by": "place", "groups": ["north", "east"]},
    "median": {"kind": "quantile", "column": "real", "q": 0.5, "grid": [0, 1, 2, 3], "missing": 0},
    "top": {"kind": "top_s", "column": "code", "k": 3, "s": 1, "values": True},
    "variance": {"kind": "var", "column": "real", "lower": 0, "upper": 4, "missing": 1},
    "deviation": {"kind": "std", "column": "whole", "lower": 0, "upper": 6, "missing": "skip", "group_by": "code", "groups": [0, 2]},
    "both": {"kind": "covariance", "columns": ["real", "whole"], "lower": [0, 0], "upper": [4, 6], "missing": "skip"},
    "present": {"kind": "mean", "column": "real", "lower": 0, "upper": 4, "missing": "skip"},
    "known": {"kind": "histogram", "column": "place", "categories": ["north", "east"], "missing": "skip", "unknown": "skip"},
    "found": {"kind": "sum", "column": "real", "bounds": "private", "bounds_epsilon": 0.5, "missing": 0},
    "middle": {"kind": "median", "column": "whole", "bounds": "private", "bounds_epsilon": 0.5, "missing": "skip"},
}
UNITS: list[dict[str, Any]] = [
    {},
    {"unit": "person", "max_rows_per_unit": 1},
    {"unit": "person", "max_rows_per_unit": 2, "null_unit": "own"},
]
NUMBERS = re.compile(r"(?m)^\S* ?(privatising|adding up|choosing|counting).*\n")
QUIET = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@st.composite
def neighbours(draw: st.DrawFn) -> tuple[str, dict[str, Any], int, str | None, Any]:
    """A format, the types of the columns, and one cell or record that holds something else."""
    source = draw(st.sampled_from(["csv", "parquet", "arrow"]))
    row, column = draw(st.integers(0, hostile.ROWS - 1)), draw(st.sampled_from(list(hostile.CLEAN)))
    if source == "csv":
        if draw(st.booleans()):
            return source, {}, row, column, draw(st.sampled_from(hostile.TEXT_CELLS) | st.binary(max_size=12))
        return source, {}, row, None, draw(st.sampled_from([raw for raw in hostile.RAW_RECORDS if raw]))
    types = {name: draw(st.sampled_from(kinds)) for name, kinds in hostile.TYPES.items()}
    plain = getattr(types[column], "value_type", types[column])
    return source, types, row, column, draw(st.sampled_from(hostile.TYPED_CELLS[column] + hostile.WIDE_CELLS.get(plain, [])))


def written(folder: Path, case: tuple[str, dict[str, Any], int, str | None, Any], *, clean: bool) -> Path:
    source, types, row, column, content = case
    path = folder / f"in.{source}"
    if source == "csv":
        return hostile.write_csv(path) if clean else hostile.write_csv(path, row, column, content)
    if not clean:
        return hostile.write_typed(path, types, row, column, content)
    return hostile.write_typed(path, types)


class Runs:
    """The same job on one table after another, in one folder, so that paths do not differ."""

    def __init__(self, folder: Path, capsys: Any) -> None:
        self.place = Workplace(folder, capsys)
        self.folder = folder

    def run(self, command: str, text: str, target: Path, *options: str) -> tuple[int, str, str]:
        """Exit code and both streams, without what tells the time."""
        target.unlink(missing_ok=True)
        self.place.job.write_text(text, encoding="utf-8")
        done = self.place.dpcore(command, self.place.job, *options)
        return done.code, done.out, NUMBERS.sub("", done.err)


@pytest.fixture
def runs(tmp_path, capsys):
    return Runs(tmp_path, capsys)


def declared_job(draw: Any) -> dict[str, dict[str, Any]]:
    chosen = draw(st.sets(st.sampled_from(list(COLUMNS)), min_size=1))
    return {name: {"epsilon": 1.0, **draw(st.sampled_from(COLUMNS[name]))} for name in COLUMNS if name in chosen}


def check_job(runs: Runs, case: Any, data: Any) -> None:
    """No cell can end a declared job, and none moves another row's reports."""
    columns, unit = declared_job(data.draw), data.draw(st.sampled_from(UNITS))
    ending = data.draw(st.sampled_from(["parquet", "csv", "arrow"]))
    source, target = runs.folder / f"in.{case[0]}", runs.folder / f"out.{ending}"
    keep = ["note"] if ending != "csv" else []
    text = job_text(source, target, columns, keep=keep, privacy={"max_epsilon": 99.0, "max_delta": 0.1, **unit})
    ends, tables = [], []
    for clean in (True, False):
        written(runs.folder, case, clean=clean)
        ends.append(runs.run("privatize", text, target))
        assert ends[-1][0] == 0, ends[-1]
        tables.append(read_table(target))
    assert ends[0] == ends[1]
    assert tables[0].schema.equals(tables[1].schema, check_metadata=True)
    others = [row for row in range(hostile.ROWS) if row != case[2]]
    if case[3] == "person" or (case[3] is None and unit):
        return  # whose row it is decides which rows of others count as too many: of that person alone, which is the unit
    assert tables[0].take(others).equals(tables[1].take(others))
    assert len(tables[0]) == len(tables[1])


@pytest.mark.long
@settings(QUIET, max_examples=20)
@given(case=neighbours(), data=st.data())
def test_no_cell_can_end_a_declared_job_or_touch_another_row(runs, case, data):
    check_job(runs, case, data)


@pytest.mark.long
@settings(QUIET, max_examples=400)
@given(case=neighbours(), data=st.data())
def test_no_cell_of_many_can_end_a_declared_job_or_touch_another_row(runs, case, data):
    check_job(runs, case, data)


def check_release(runs: Runs, case: Any, data: Any) -> None:
    """No cell can end a declared release."""
    chosen = data.draw(st.sets(st.sampled_from(list(QUERIES)), min_size=1))
    unit = data.draw(st.sampled_from(UNITS))
    source, target = runs.folder / f"in.{case[0]}", runs.folder / "answers.json"
    text = release_text(source, target, {name: QUERIES[name] for name in QUERIES if name in chosen}, privacy=unit)
    ends, shapes = [], []
    for clean in (True, False):
        written(runs.folder, case, clean=clean)
        code, out, err = runs.run("release", text, target)
        assert code == 0, err
        ends.append((code, err))
        shapes.append(shape_of(json.loads(out)))
    assert ends[0] == ends[1]
    assert shapes[0] == shapes[1]


@pytest.mark.long
@settings(QUIET, max_examples=15)
@given(case=neighbours(), data=st.data())
def test_no_cell_can_end_a_declared_release(runs, case, data):
    check_release(runs, case, data)


@pytest.mark.long
@settings(QUIET, max_examples=400)
@given(case=neighbours(), data=st.data())
def test_no_cell_of_many_can_end_a_declared_release(runs, case, data):
    check_release(runs, case, data)


def shape_of(document: dict[str, Any]) -> dict[str, Any]:
    """The document without noisy values and what is computed from them."""
    noisy = {"value", "interval", "count", "counts", "note", "stderr", "centre"}
    # Scales of a second release follow from what the first one has released.
    second = {"noise", "lower", "upper", "rank_error"}
    queries = [
        {key: value for key, value in query.items() if key not in (noisy | second if {"centre", "bounds"} & set(query) else noisy)}
        for query in document["queries"]
    ]
    return document | {"queries": queries}


def lacking(columns: dict[str, dict[str, Any]], name: str, key: str) -> dict[str, dict[str, Any]]:
    return {each: {k: v for k, v in column.items() if (each, k) != (name, key)} for each, column in columns.items()}


@settings(QUIET, max_examples=25)
@given(case=neighbours(), data=st.data())
def test_with_a_ledger_what_is_not_declared_is_refused_whatever_the_rows_hold(runs, case, data):
    """It is refused before any row is read: the readers are never called."""
    name = data.draw(st.sampled_from([name for name, query in QUERIES.items() if "missing" in query]))
    key = data.draw(st.sampled_from([key for key in ("missing", "unknown") if key in QUERIES[name]]))
    source, target, ledger = runs.folder / f"in.{case[0]}", runs.folder / "answers.json", runs.folder / "budget.ledger"
    if not ledger.exists():
        Ledger.create(ledger, epsilon=100.0)
    text = release_text(source, target, lacking({name: QUERIES[name]}, name, key), ledger=ledger, key=None)
    ends = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inputs.Inputs, "pieces", never)
        for clean in (True, False):
            written(runs.folder, case, clean=clean)
            ends.append(runs.run("release", text, target))
            assert ends[-1][0] == 2, ends[-1]
            assert f"{key} must be declared" in ends[-1][2]
    assert ends[0] == ends[1]
    assert list(Ledger(ledger).entries()) == []


@settings(QUIET, max_examples=20)
@given(case=neighbours(), data=st.data())
def test_with_a_ledger_a_job_that_declares_too_little_is_refused_whatever_the_rows_hold(runs, case, data):
    name = data.draw(st.sampled_from(list(COLUMNS)))
    column = {"epsilon": 1.0, **data.draw(st.sampled_from(COLUMNS[name]))}
    key = data.draw(st.sampled_from([key for key in ("missing", "unknown") if key in column and (name, key) != ("flag", "unknown")]))
    source, target, ledger = runs.folder / f"in.{case[0]}", runs.folder / "out.parquet", runs.folder / "budget.ledger"
    if not ledger.exists():
        Ledger.create(ledger, epsilon=100.0, delta=0.1)
    text = job_text(source, target, lacking({name: column}, name, key), key=None, privacy={"max_epsilon": 9.0, "max_delta": 0.1})
    text = text.replace("[privacy]", f"[ledger]\npath = {json.dumps(str(ledger))}\n[privacy]")
    ends = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inputs.Inputs, "pieces", never)
        for clean in (True, False):
            written(runs.folder, case, clean=clean)
            ends.append(runs.run("privatize", text, target))
            assert ends[-1][0] == 2, ends[-1]
            assert f"{key} must be declared" in ends[-1][2]
    assert ends[0] == ends[1]
    assert list(Ledger(ledger).entries()) == []


def never(*_arguments: object) -> None:
    raise AssertionError("a row was read")


def ends_of_refusals(runs: Runs, *, command: str) -> set[tuple[int, str, str]]:
    """How a job without a ledger that declares nothing ends on tables whose first bad cell lies in different rows."""
    target = runs.folder / "out.json" if command == "release" else runs.folder / "out.parquet"
    ends = set()
    for row in range(hostile.ROWS):
        source = hostile.write_csv(runs.folder / "in.csv", row, "real", b"wrong")
        if command == "release":
            text = release_text(source, target, lacking({"sum": {**QUERIES["median"]}}, "sum", "missing"))
        else:
            text = job_text(source, target, {"real": {"epsilon": 1.0, "mechanism": "laplace", "lower": 0, "upper": 1}})
        ends.add(runs.run(command, text, target))
    return ends


@pytest.mark.parametrize("command", ["privatize", "release"])
def test_a_refusal_does_not_say_which_row(runs, command):
    (end,) = ends_of_refusals(runs, command=command)
    assert end[0] == 3


@pytest.mark.parametrize("command", ["privatize", "release"])
def test_a_refusal_that_names_the_row_is_caught(runs, command, monkeypatch):
    """What every refusal said before."""
    refused_cell = rows.refused_cell

    def with_its_row(place: Any, error: Any, *, curator: bool) -> Any:
        return refused_cell(place, error, curator=True)

    for module in (rows, engine):
        monkeypatch.setattr(module, "refused_cell", with_its_row)
    monkeypatch.setattr(importlib.import_module("dpcore.query.encoders"), "refused_cell", with_its_row)
    assert len(ends_of_refusals(runs, command=command)) == hostile.ROWS
