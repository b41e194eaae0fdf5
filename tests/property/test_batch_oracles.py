"""Jobs that are designed to leak: each asks one question about one record by whatever but its answers, and gets the same reply either way.

Every job names a ledger, declares what it must (or just not), and runs on two tables that differ in one record. The records are chosen so
that the job takes them for one another; then everything that anybody can see must be equal: exit code, both streams, the bytes of every
file (the key of the noise is the same), and what the ledger holds. Where they are not, answers may differ, and nothing beside them.
"""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpcore.accounting import Ledger
from dpcore.jobs import privatize as engine
from dpcore.testing import KeyedRandom
from support.jobs import KEY, Workplace, job_text, read_table, write_table
from support.releases import release_text

KEYED = [engine, importlib.import_module("dpcore.query.plan")]
"""The modules that ask a job for its test key."""

ROWS, PLACE = 40, 17
"""Rows of a table, and the place of the record that differs."""
ILLS = ["flu", "gout"]
TABULAR = {"missing": "flu", "unknown": "flu"}
SUM = {"kind": "sum", "column": "x", "lower": 0, "upper": 8, "missing": 3}
PEOPLE = {"unit": "person", "max_rows_per_unit": 2}
LAPLACE = {"x": {"mechanism": "laplace", "epsilon": 1.0, "lower": 0, "upper": 8, "missing": 3}}
KARY = {"ill": {"mechanism": "kary", "epsilon": 1.0, "categories": ILLS, **TABULAR}}
SYNTHETIC = {
    "kind": "synthetic",
    "output": "made.csv",
    "columns": [{"name": "ill", "categories": ILLS, **TABULAR}, {"name": "x", "edges": [0, 2, 8], "missing": 3}],
}
BASE: dict[str, list[Any]] = {
    "person": [f"person {i}" for i in range(ROWS)],
    "x": [float(i % 9) for i in range(ROWS)],
    "ill": [ILLS[i % 2] for i in range(ROWS)],
    "code": [i % 3 for i in range(ROWS)],
    "note": ["-"] * ROWS,
}
Cell = Callable[[Path], Path]
QUANTILE = {"kind": "quantile", "column": "x", "q": 0.5, "grid": [0, 4, 8], "missing": 3}
OWN_CATEGORIES = {"categories_file": "in.csv", **TABULAR}


@dataclass(frozen=True)
class Oracle:
    """One question.

    Attributes
    ----------
    leak : str
        What is asked, and by which channel.
    tables : tuple of callable
        Writers of the two tables.
    queries, columns : dict
        Of the job: one of them is given.
    privacy : dict
        The unit.
    code : int
        How both runs must end.
    same : bool
        Whether the job takes the records for one another; otherwise answers may differ.
    target : str
        Ending of the table of `privatize`.
    """

    leak: str
    tables: tuple[Cell, Cell]
    queries: dict[str, dict[str, Any]] = field(default_factory=dict)
    columns: dict[str, dict[str, Any]] = field(default_factory=dict)
    privacy: dict[str, Any] = field(default_factory=dict)
    code: int = 0
    same: bool = True
    target: str = "parquet"


def texts(column: str, *cells: bytes, ends: bytes = b"\n") -> tuple[Cell, ...]:
    """CSV tables with these bytes in the cell that differs."""

    def of(cell: bytes) -> Cell:
        def write(folder: Path) -> Path:
            lines = [",".join(BASE).encode()]
            for i in range(ROWS):
                values = {name: str(value[i]).encode() for name, value in BASE.items()}
                lines.append(b",".join((values | {column: cell} if i == PLACE else values).values()))
            (folder / "in.csv").write_bytes(ends.join(lines) + ends)
            return folder / "in.csv"

        return write

    return tuple(map(of, cells))


def lines(*records: bytes, header: bytes = b"x", other: bytes = b"1") -> tuple[Cell, ...]:
    """CSV tables with these records in the place that differs."""

    def of(record: bytes) -> Cell:
        def write(folder: Path) -> Path:
            listed = [header, *([other] * PLACE), record, *([other] * 9)]
            (folder / "in.csv").write_bytes(b"\n".join(listed) + b"\n")
            return folder / "in.csv"

        return write

    return tuple(map(of, records))


def typed(column: str, *cells: Any, kind: pa.DataType | None = None, ending: str = "parquet", plain: Any = None) -> tuple[Cell, ...]:
    """Parquet or Arrow tables with these values in the cell that differs; `plain` makes the others."""

    def of(cell: Any) -> Cell:
        def write(folder: Path) -> Path:
            values = [plain(i) for i in range(ROWS)] if plain else list(BASE[column])
            values[PLACE] = cell
            array = arrayed(values, kind)
            return write_table(pa.table(BASE | {column: array}), folder / f"in.{ending}")

        return write

    return tuple(map(of, cells))


def arrayed(values: list[Any], kind: pa.DataType | None) -> pa.Array:
    """Text of any bytes, times of any number of ticks, and what else pyarrow makes of a list."""
    if kind is not None and pa.types.is_temporal(kind):
        return pa.array(values, pa.int32() if kind.bit_width == 32 else pa.int64()).view(kind)
    if any(isinstance(value, bytes) for value in values):
        raw = pa.array([value.encode() if isinstance(value, str) else value for value in values], pa.binary())
        text = pa.Array.from_buffers(pa.string(), len(raw), raw.buffers())
        return text if kind is None else encoded(text, kind)
    if kind is not None and pa.types.is_dictionary(kind):
        return encoded(pa.array(values), kind)
    return pa.array(values, kind)


def encoded(values: pa.Array, kind: pa.DataType) -> pa.DictionaryArray:
    labels = values.dictionary_encode()
    return pa.DictionaryArray.from_arrays(labels.indices.cast(kind.index_type), labels.dictionary)


def labelled(*extra: list[str | None], ending: str = "arrow") -> tuple[Cell, ...]:
    """Dictionaries with further values that no row, or one row, has."""

    def of(further: list[str | None]) -> Cell:
        def write(folder: Path) -> Path:
            codes = [i % 2 for i in range(ROWS)]
            codes[PLACE] = len(ILLS) + len(further) - 1 if further and further[-1] is None else 0
            array = pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), pa.array([*ILLS, *further]))
            return write_table(pa.table(BASE | {"ill": array}), folder / f"in.{ending}")

        return write

    return tuple(map(of, extra))


def nan(payload: int) -> float:
    return float(np.array([0x7FF8_0000_0000_0000 | payload], np.uint64).view(np.float64)[0])


def itself(*names: str) -> tuple[Cell, ...]:
    """A table of one column that a job declares as its own file of categories."""

    def of(name: str) -> Cell:
        def write(folder: Path) -> Path:
            (folder / "in.csv").write_text(f"ill\nflu\n{name}\n", encoding="utf-8")
            return folder / "in.csv"

        return write

    return tuple(map(of, names))


HISTOGRAM = {"kind": "histogram", "column": "ill", "categories": ILLS}
FAR = pa.timestamp("ms", "Europe/Zurich")
ORACLES = [
    Oracle("a category left out: does somebody have it?", texts("ill", b"HIV", b"flu"), {"h": HISTOGRAM | TABULAR}),
    Oracle("the same without `unknown`, by a refusal", texts("ill", b"HIV", b"flu"), {"h": HISTOGRAM | {"missing": "flu"}}, code=2),
    Oracle("a null without `missing`, by a refusal", typed("x", None, 3.0), {"s": {**SUM, "missing": None}}, code=2),
    Oracle("the same in privatize", typed("x", None, 3.0), columns={"x": {**LAPLACE["x"], "missing": None}}, code=2),
    Oracle("a cell that does not parse, by the exit code", texts("x", b"12x", b"3"), {"s": SUM}),
    Oracle("a cell in which an expression stands", texts("x", b'"=1+1; drop table units"', b"3"), columns=LAPLACE),
    Oracle("which NaN it is, by its payload", typed("x", nan(1), nan(12345), 3.0), {"s": SUM}),
    Oracle("whether a number is infinite, or beyond float64", texts("x", b"1e400", b"inf", b"8"), {"s": SUM}),
    Oracle("an extreme row, by the mean it would move", typed("x", 1.7e308, 8.0), {"m": SUM | {"kind": "mean"}}),
    Oracle("what lies beyond the grid of a quantile", typed("x", -5e300, -1.0), {"q": QUANTILE}),
    Oracle("a null in a condition", typed("x", None, nan(0), 99.0), {"c": {"kind": "count", "column": "x", "lower": 0, "upper": 8}}),
    Oracle(
        "an integer beyond 64 bits",
        texts("code", b"9" * 30, b"-1", b"77"),
        {"h": {"kind": "histogram", "column": "code", "k": 3, "missing": 0, "unknown": 1}},
    ),
    Oracle(
        "an unsigned one beyond int64",
        typed("code", 2**64 - 1, 3, kind=pa.uint64()),
        {"t": {"kind": "top_s", "column": "code", "k": 3, "s": 2, "values": True}},
    ),
    Oracle("a candidate left out", texts("ill", b"HIV", b"measles"), {"t": {"kind": "top_s", "column": "ill", "candidates": ILLS, "s": 1}}),
    Oracle("a group left out", texts("ill", b"HIV", b""), {"g": SUM | {"group_by": "ill", "groups": ILLS}}),
    Oracle(
        "a group of another unit's choice",
        typed("ill", None, "HIV"),
        {"g": SUM | {"group_by": "ill", "groups": ILLS}},
        privacy=PEOPLE | {"max_groups_per_unit": 1},
    ),
    Oracle("values of a dictionary that no row has", labelled([], ["HIV"], ["HIV", "x" * 1000]), columns=KARY),
    Oracle("a null inside of a dictionary", labelled([None], ["HIV", None]), {"h": HISTOGRAM | TABULAR}),
    Oracle("bytes that are zero", texts("ill", b"\0", b"flu\0", b"gone"), columns=KARY, target="csv"),
    Oracle("bytes that are no UTF-8", texts("ill", b"fl\xffu", b"\xc3", b"gone"), {"h": HISTOGRAM | TABULAR}),
    Oracle("the same where text has a type", typed("ill", b"fl\xffu", b"gone", ending="arrow"), columns=KARY),
    *(
        Oracle(
            f"the same among labels of {ending} numbered by {kind}",
            typed("ill", b"fl\xffu", b"gone", kind=pa.dictionary(kind, pa.string()), ending=ending),
            columns=KARY,
        )
        for ending in ("parquet", "arrow")
        for kind in (pa.int8(), pa.int32(), pa.uint16())
    ),
    Oracle("a very long cell", texts("ill", b"y" * 300_000, b"gone"), columns=KARY, target="arrow"),
    Oracle("a long cell that nobody reads, by the cut of the output", texts("note", b"y" * 300_000, b"-"), columns=LAPLACE, target="arrow"),
    Oracle("the same, by compression and statistics", typed("note", "y" * 300_000, "-"), columns=KARY | LAPLACE),
    Oracle(
        "lists that nobody reads, by their lengths",
        typed("note", [1] * 5000, [], kind=pa.list_(pa.int64()), plain=lambda _: [1]),
        columns=LAPLACE,
        target="csv",
    ),
    Oracle("decimals: how a number was written", texts("x", b"3", b"3.0", b"30e-1", b" +3.000 "), columns=LAPLACE),
    Oracle(
        "an answer that is neither",
        texts("code", b"2", b"55"),
        columns={"code": {"mechanism": "binary", "epsilon": 1.0, "missing": 0, "unknown": 1}},
    ),
    Oracle(
        "a quoted line end, by the number of rows",
        texts("ill", b'"a\nb"', b'"a\r\n\r\nb"', b"gone"),
        {"n": {"kind": "count"}, "h": HISTOGRAM | TABULAR},
    ),
    Oracle("an empty line, by the number of rows", lines(b"", b'""', b"NA", b"?"), {"n": {"kind": "count"}, "s": SUM}),
    Oracle(
        "too many cells and too few",
        lines(b"1", b"1,", b"1,,,,,", b'1,""', header=b"x,ill", other=b"2,gout"),
        {"s": SUM, "h": HISTOGRAM | TABULAR},
    ),
    Oracle(
        "a time beyond the calendar, as a unit",
        typed("person", 2**63 - 1, -(2**63), 5, kind=FAR, ending="arrow", plain=lambda i: 1000 + i),
        {"s": SUM},
        privacy=PEOPLE,
    ),
    Oracle(
        "a day out of range, as a unit",
        typed("person", 2**31 - 1, -(2**31), 5, kind=pa.date32(), plain=lambda i: 1000 + i),
        columns=LAPLACE,
        privacy=PEOPLE,
    ),
    Oracle("a unit with a name that fills the memory", typed("person", "p" * 3_000_000, "p"), columns=LAPLACE, privacy=PEOPLE),
    Oracle("units that are no text", typed("person", b"\xff\0", b"\xfe", "p", ending="arrow"), {"s": SUM}, privacy=PEOPLE),
    Oracle("whether a row names its unit", typed("person", None, "p"), {"s": SUM}, privacy=PEOPLE, same=False),
    Oracle("the same where such a row is a unit", typed("person", None, "p"), columns=LAPLACE, privacy=PEOPLE | {"null_unit": "own"}),
    Oracle(
        "one row more than a unit may have",
        typed("person", "many", "p", plain=lambda i: "many" if i < 8 else f"p{i}"),
        columns=LAPLACE,
        privacy=PEOPLE,
        same=False,
    ),
    Oracle("a cell of a synthetic table left out", texts("ill", b"HIV", b"flu"), {"y": SYNTHETIC}),
    Oracle(
        "the rows as their own categories: who is listed twice?",
        itself("flu", "gout"),
        {"h": {"kind": "histogram", "column": "ill", **OWN_CATEGORIES}},
        code=2,
    ),
    Oracle(
        "the same in privatize", itself("flu", "gout"), columns={"ill": {"mechanism": "kary", "epsilon": 1.0, **OWN_CATEGORIES}}, code=2
    ),
]


MOMENT = re.compile(r"\d{4}-\d\d-\d\d(?: \d\d:\d\d UTC|T\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|\+00:00))")
"""When a run was published: two runs of a test may lie on both sides of the end of a second."""


def timeless(path: Path) -> bytes:
    """The bytes of a file; without moments, if it is JSON."""
    held = path.read_bytes()
    return MOMENT.sub("MOMENT", held.decode()).encode() if path.suffix == ".json" else held


class Observer:
    """Runs a job where everything that it leaves can be seen."""

    def __init__(self, folder: Path, capsys: Any, monkeypatch: Any) -> None:
        self.folder, self._place = folder, Workplace(folder, capsys)
        monkeypatch.chdir(folder)
        for module in KEYED:
            monkeypatch.setattr(module, "key_of", lambda _testing: KeyedRandom(KEY))

    def job(self, oracle: Oracle, source: Path) -> str:
        """The command's name; its job is written."""
        kept = {name: {key: value for key, value in query.items() if value is not None} for name, query in oracle.queries.items()}
        columns = {name: {key: value for key, value in column.items() if value is not None} for name, column in oracle.columns.items()}
        if oracle.queries:
            text = release_text(source.name, "out.json", kept, privacy=oracle.privacy, ledger="l.ledger")
        else:
            limits = {"max_epsilon": 9.0, **oracle.privacy}
            text = job_text(source.name, f"out.{oracle.target}", columns, key=None, privacy=limits, ledger="l.ledger")
        self._place.job.write_text(text, encoding="utf-8")
        return "release" if oracle.queries else "privatize"

    def run(self, command: str, *options: str) -> tuple[int, str, str]:
        """Exit code and both streams."""
        done = self._place.dpcore(command, "job.toml", *options)
        return done.code, MOMENT.sub("MOMENT", done.out), MOMENT.sub("MOMENT", done.err)

    def clean(self) -> None:
        """An empty folder."""
        for path in self.folder.iterdir():
            path.unlink()

    def start(self, oracle: Oracle, write: Cell, budget: float = 9.0) -> str:
        """A table, a job and a ledger; returns the command."""
        self.clean()
        unit = "person, or one row without" if "null_unit" in oracle.privacy else oracle.privacy.get("unit", "row")
        Ledger.create("l.ledger", epsilon=budget, unit=unit)
        return self.job(oracle, write(self.folder))

    def seen(self, ends: object) -> dict[str, object]:
        """What there is, but for the input and the moment of a spend."""
        ledger = Ledger("l.ledger")
        spends = [(entry.what, entry.epsilon, entry.delta, entry.state, entry.reason, entry.run) for entry in ledger.entries()]
        files = {path.name: timeless(path) for path in self.folder.iterdir() if path.stem not in {"in", "l", "job"}}
        return {"ends": ends, "spends": spends, "left": str(ledger.remaining), "files": files}

    def all_of(self, oracle: Oracle, write: Cell) -> dict[str, object]:
        """Everything about a dry run, a run and the same run again."""
        command = self.start(oracle, write)
        dry = self.run(command, "--dry-run")
        return self.seen([dry, self.run(command), self.run(command)])


@pytest.fixture
def observer(tmp_path, capsys, monkeypatch):
    return Observer(tmp_path, capsys, monkeypatch)


def without_answers(oracle: Oracle, seen: dict[str, Any]) -> dict[str, object]:
    """What is left of it when noisy values are taken away."""
    if oracle.queries:
        noisy = {"value", "interval", "count", "counts", "note", "stderr"}
        document = json.loads(seen["files"]["out.json"])
        shape = document | {"queries": [{key: value for key, value in query.items() if key not in noisy} for query in document["queries"]]}
        ends = [(code, err) for code, _, err in seen["ends"]]
        return seen | {"ends": ends, "files": {name: shape if name == "out.json" else None for name in seen["files"]}}
    names = sorted(seen["files"])
    (table,) = (name for name in names if name.endswith(oracle.target))
    Path("seen").write_bytes(seen["files"][table])
    kept = pq.read_table("seen") if oracle.target == "parquet" else read_table(Path("seen"))
    others = kept.take([row for row in range(len(kept)) if row != PLACE])
    return seen | {"files": (names, str(kept.schema), len(kept), others.num_rows)}


def check(observer: Observer, oracle: Oracle) -> None:
    seen = [observer.all_of(oracle, write) for write in oracle.tables]
    ends: Any = seen[0]["ends"]
    assert (ends[0][0], ends[1][0]) == (oracle.code, oracle.code), ends
    assert len(seen[0]["spends"]) == (oracle.code == 0)  # type: ignore[arg-type]
    if not oracle.same:
        seen = [without_answers(oracle, each) for each in seen]
    assert all(each == seen[0] for each in seen[1:])


@pytest.mark.some(2)
@pytest.mark.parametrize("oracle", ORACLES, ids=lambda oracle: oracle.leak.partition(":")[0].replace(" ", "-"))
def test_a_job_that_is_made_to_leak(observer, oracle):
    check(observer, oracle)


@pytest.mark.long
@pytest.mark.parametrize("target", ["parquet", "csv", "arrow"])
@pytest.mark.parametrize("oracle", [oracle for oracle in ORACLES if oracle.columns and oracle.same], ids=lambda oracle: oracle.leak[:40])
def test_a_table_that_is_made_to_leak_in_every_format(observer, oracle, target):
    check(observer, replace(oracle, target=target))


def test_a_rerun_on_a_neighbour_says_what_it_says_on_the_same_table(observer):
    """Also of its output's digest, which is compared with the file that is there."""
    (oracle,) = (oracle for oracle in ORACLES if oracle.leak.startswith("a category left out"))
    seen = []
    for second in oracle.tables:
        command = observer.start(oracle, oracle.tables[0])
        first = observer.run(command)
        second(observer.folder)
        seen.append(observer.seen([first, observer.run(command)]))
    assert seen[0] == seen[1]
    assert len(seen[0]["spends"]) == 1


@pytest.mark.parametrize("budget", [0.5, 1.0, 1.5])
def test_the_room_that_a_ledger_has_is_no_answer(observer, budget):
    """A job that fits once is refused the second time, whatever was read in the meantime."""
    (oracle,) = (oracle for oracle in ORACLES if oracle.leak.startswith("an extreme row"))
    seen = []
    for write in oracle.tables:
        command = observer.start(oracle, write, budget)
        seen.append(observer.seen([observer.run(command), observer.run(command, "--overwrite")]))
    assert seen[0] == seen[1]
    assert [end[0] for end in seen[0]["ends"]] == [0 if budget >= 1 else 2, 2]


def test_a_job_that_ends_with_some_rows_is_caught(observer, monkeypatch):
    """What refusals said before declarations were demanded."""
    monkeypatch.setattr(importlib.import_module("dpcore.query.plan"), "_check_declared", lambda *_: None)
    (oracle,) = (oracle for oracle in ORACLES if oracle.leak == "the same without `unknown`, by a refusal")
    one, two = (observer.all_of(oracle, write)["ends"] for write in oracle.tables)
    assert [end[0] for end in one] == [0, 3, 3]
    assert [end[0] for end in two] == [0, 0, 0]
