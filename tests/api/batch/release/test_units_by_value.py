"""Under a test key a release of units is the same to the last bit, in any format, of any types, in any order and in any number of files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpcore.batch import make_release_plan, parse_release_job
from dpcore.tables.units import row_random_bits as row_words
from support.frames import FRAMES, asked, keyed
from support.jobs import write_table
from support.units_by_value import OTHER_TYPES, PRIVACY, QUERIES, ROWS, TABLE, answers, job_of, shuffled


def in_files(folder: Path) -> Path:
    """Three files of other row groups, in another order."""
    rows = shuffled(TABLE)
    for start, size in ((0, 100), (100, 1), (101, ROWS)):
        write_table(rows.slice(start, size), folder / "files" / f"{start}.parquet", row_group_rows=37)
    return folder / "files"


def in_folders(folder: Path) -> Path:
    pq.write_to_dataset(shuffled(TABLE), folder / "folders", partition_cols=["level"])
    return folder / "folders"


def of_other_types(folder: Path) -> Path:
    rows = shuffled(TABLE)
    rows = rows.set_column(2, "cost", rows.column("cost").cast(pa.float32()).cast(pa.float64()))
    exact = pa.array([None if cost is None else round(cost, 1) for cost in rows.column("cost").to_pylist()]).cast(pa.string())
    columns = {name: rows.column(name).cast(OTHER_TYPES.get(name, rows.schema.field(name).type)) for name in rows.column_names}
    columns["cost"] = exact.cast(OTHER_TYPES["cost"])
    nested = pa.array([[int(i)] for i in range(ROWS)])
    return write_table(pa.table({"more": nested, **dict(reversed(columns.items()))}), folder / "other.parquet")


SOURCES: dict[str, Callable[[Path], Path]] = {
    "arrow": lambda folder: write_table(TABLE, folder / "in.arrow"),
    "csv": lambda folder: write_table(TABLE, folder / "in.csv"),
    "shuffled csv": lambda folder: write_table(shuffled(TABLE), folder / "in.csv"),
    "shuffled": lambda folder: write_table(shuffled(TABLE), folder / "in.parquet", row_group_rows=11),
    "labels": lambda folder: write_table(TABLE.set_column(1, "region", TABLE.column("region").dictionary_encode()), folder / "in.arrow"),
    "files": in_files,
    "folders": in_folders,
    "other types": of_other_types,
}


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    return answers(write_table(TABLE, tmp_path_factory.mktemp("units") / "in.parquet"))


@pytest.mark.some(2)
@pytest.mark.parametrize("source", SOURCES)
def test_every_file_gives_the_same_bits(source, expected, tmp_path):
    if source == "other types":
        # Noise on decimals is drawn in steps of theirs: all but what reads the cost.
        found = answers(SOURCES[source](tmp_path))
        assert [found[place] for place in (0, 3, 4, 5)] == [expected[place] for place in (0, 3, 4, 5)]
    else:
        assert answers(SOURCES[source](tmp_path)) == expected


@pytest.mark.some(2)
@pytest.mark.parametrize("library", FRAMES)
def test_every_frame_gives_the_same_bits(library, expected):
    with keyed(FRAMES[library](shuffled(TABLE)), **PRIVACY).batch(epsilon=99.0, delta=0.1) as batch:
        found = [asked(batch, {"epsilon": 1.0, **query}) for query in QUERIES]
    assert [result.document["value"] for result in found] == expected


def test_words_of_positions_are_found(expected, tmp_path, monkeypatch):
    """The broken twin: equal rows are not the only ones that are numbered."""
    monkeypatch.setattr(row_words, "repeats", lambda units, hashes, marks, places: places)
    assert answers(SOURCES["shuffled"](tmp_path)) != expected


def test_without_a_key_no_further_column_is_read(tmp_path):
    job = job_of(write_table(TABLE, tmp_path / "in.parquet"))
    plan = make_release_plan(parse_release_job(job))
    assert plan.by_value is not None
    assert list(plan.by_value.types) == TABLE.column_names
    assert repr(plan.by_value.key) not in repr(plan.by_value)
    del job["testing"]
    assert make_release_plan(parse_release_job(job)).by_value is None
