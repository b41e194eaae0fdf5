"""Units in `privatize` and `release`: rows beyond the limit, rows that name no unit, and one unit that owns a third of the rows."""

from __future__ import annotations

import hashlib
import json
import threading

import numpy as np
import pyarrow as pa
import pytest

from dpcore._backend import uniform_words
from dpcore.batch import make_release_plan, parse_release_job
from dpcore.errors import StorageError
from dpcore.tables.units import by_unit, contributions, units
from dpcore.testing import KeyedRandom
from support.jobs import FORMATS, Workplace, read_table, write_table
from support.releases import Counter

NOISELESS = {"n": {"mechanism": "discrete_laplace", "epsilon": 60.0, "lower": 0, "upper": 1, "missing": 0}}
"""With ε = 60 noise is 0 but for a probability of e^−60."""
PEOPLE = ["ann"] * 5 + ["bob", None, None, "cyd", "cyd"]


@pytest.fixture
def place(tmp_path, capsys):
    return Workplace(tmp_path, capsys)


def table(people: list[str | None]) -> pa.Table:
    return pa.table({"person": pa.array(people), "n": np.ones(len(people), np.int64)})


def privatised(
    place: Workplace, people: list[str | None], rows: int, *, source: str = "parquet", key: bytes | None = None, **privacy: str
) -> list[int]:
    place.source = write_table(table(people), place.folder / f"in.{source}")
    limits = {"max_epsilon": 60.0 * rows, "unit": "person", "max_rows_per_unit": rows, **privacy}
    place.write_job(NOISELESS, privacy=limits, key=key)
    done = place.privatize("--overwrite")
    assert done.code == 0, done.said
    return read_table(place.target).column("n").to_pylist()


@pytest.mark.parametrize("source", FORMATS)
def test_rows_beyond_the_limit_are_noised_as_missing(place, source):
    found = privatised(place, PEOPLE, 2, source=source)
    assert len(found) == len(PEOPLE)
    assert sum(found[:5]) == 2
    assert found[5:] == [1, 0, 0, 1, 1]


def test_which_rows_those_are_is_a_uniform_choice(place):
    times = 400
    people = [f"person {i}" for i in range(times) for _ in range(5)]
    chosen = np.array(privatised(place, people, 1)).reshape(times, 5)
    assert (chosen.sum(axis=1) == 1).all()
    # A binomial count of 400 with p = 1/5 lies within 45 of 80 but for a probability of 10^-7 (Hoeffding would give 63).
    assert (abs(chosen.sum(axis=0) - 80) <= 45).all()


def test_one_unit_does_not_decide_on_the_rows_of_another(place):
    """With a test key the choice is a function of positions: other people's rows are what they were, whatever one person's say."""
    key = bytes(range(32))
    people = [f"person {i % 7}" for i in range(70)]
    renamed = ["nobody else" if person == "person 3" else person for person in people]
    assert privatised(place, people, 4, key=key) == privatised(place, renamed, 4, key=key)


@pytest.mark.parametrize("source", FORMATS)
def test_rows_that_name_no_unit_may_be_units_of_their_own(place, source):
    found = privatised(place, PEOPLE, 2, source=source, null_unit="own")
    assert (sum(found[:5]), found[5:]) == (2, [1, 1, 1, 1, 1])
    done = place.privatize("--overwrite")
    assert "For rows that name no 'person' it protects one row, and not the person behind it" in json.loads(done.out)["statement"]
    said = json.loads(read_table(place.target).schema.metadata[b"dpcore"]) if source == "parquet" else {}
    assert said.get("unit", "person, or one row without") == "person, or one row without"


def test_the_limit_needs_values_for_what_is_missing(place):
    write_table(table(PEOPLE), place.source)
    bare = {"n": {key: value for key, value in NOISELESS["n"].items() if key != "missing"}}
    place.write_job(bare, privacy={"max_epsilon": 120.0, "unit": "person", "max_rows_per_unit": 2})
    done = place.privatize()
    assert done.code == 2
    assert "column[0] ('n', discrete_laplace): missing must be declared with unit = 'person'" in done.err


@pytest.mark.parametrize("key", ["null_unit", "over_limit"])
def test_policies_are_for_units_that_are_columns(place, key):
    write_table(table(PEOPLE), place.source)
    place.write_job(NOISELESS, privacy={"max_epsilon": 120.0, key: {"null_unit": "own", "over_limit": "suppress"}[key]})
    done = place.privatize()
    assert done.code == 2
    assert f"{key} is for jobs whose unit is a column" in done.err


@pytest.mark.some(4)
@pytest.mark.parametrize("source", FORMATS)
@pytest.mark.parametrize(("policy", "count"), [({}, 5), ({"null_unit": "drop"}, 5), ({"null_unit": "own"}, 7)])
def test_a_release_drops_rows_that_name_no_unit_or_takes_each_for_one(tmp_path, capsys, source, policy, count):
    place = Counter(tmp_path, capsys)
    place.source = write_table(table(PEOPLE), place.folder / f"in.{source}")
    sum_of_ones = {"kind": "sum", "column": "n", "lower": 0, "upper": 1, "missing": 0}
    place.write_release({"x": sum_of_ones}, privacy={"unit": "person", "max_rows_per_unit": 2, **policy}, epsilon=120.0)
    assert place.answered()["x"]["value"] == pytest.approx(count, abs=0.5)
    assert place.answers()["unit"] == ("person" if count == 5 else "person, or one row without")


FAR = pa.array([0, 2**63 - 1, -(2**63), 0], pa.int64())
ODD_UNITS = {
    **{f"time {unit} {zone}": FAR.view(pa.timestamp(unit, zone)) for unit in ("s", "ms", "us", "ns") for zone in (None, "UTC", "No/Where")},
    "day": pa.array([0, 2**31 - 1, -(2**31), 0], pa.int32()).view(pa.date32()),
    "day of milliseconds": FAR.view(pa.date64()),
    "whole": pa.array([0, 2**64 - 1, 2**63, 0], pa.uint64()),
    "labels": pa.array(["a", "b", "", "a"]).dictionary_encode(),
    "not UTF-8": pa.Array.from_buffers(pa.string(), 4, pa.array([b"a", b"\xff", b"\xc3", b"a"]).buffers()),
    "long": pa.array(["n" * 300, "n" * 299 + "m", "n" * 257, "n" * 300], pa.large_string()),
    "a digest": pa.array([hashlib.sha256(b"n" * 300).digest().ljust(257, b"\0").decode("latin-1"), "n" * 300, "x", "n"]),
}


@pytest.mark.some(10)
@pytest.mark.parametrize("name", ODD_UNITS)
def test_no_name_of_a_unit_ends_a_job(place, name):
    """A time beyond what a database can tell ended the job, as did a name that takes all of its memory."""
    units = ODD_UNITS[name]
    place.source = write_table(pa.table({"person": units, "n": np.ones(4, np.int64)}), place.folder / "in.arrow")
    place.write_job(NOISELESS, privacy={"max_epsilon": 60.0, "unit": "person", "max_rows_per_unit": 1}, key=None)
    done = place.privatize("--overwrite")
    assert done.code == 0, done.said
    found = read_table(place.target).column("n").to_pylist()
    assert (found[0] + found[3], found[1:3]) == ((1 if units[0].equals(units[3]) else 2), [1, 1])


@pytest.mark.long
def test_a_name_of_a_unit_does_not_fill_the_memory(place, monkeypatch):
    sizes, add = [], by_unit.ByUnit.add
    monkeypatch.setattr(by_unit.ByUnit, "add", lambda parts, rows: sizes.append(rows.nbytes) or add(parts, rows))
    names = [letter * (40 << 20) for letter in "abc"]
    place.source = write_table(pa.table({"person": names, "n": np.ones(3, np.int64)}), place.source)
    place.write_job(NOISELESS, privacy={"max_epsilon": 60.0, "unit": "person", "max_rows_per_unit": 1}, key=None)
    done = place.privatize("--overwrite")
    assert done.code == 0, done.said
    assert read_table(place.target).column("n").to_pylist() == [1, 1, 1]
    assert 0 < sum(sizes) < 1000


def skewed(rows: int) -> pa.Table:
    """A table in which one person has three rows of ten."""
    index = np.arange(rows)
    names = np.char.add("a person with a rather long name ", np.where(index % 10 < 3, 0, index).astype("U9"))
    return pa.table({"person": pa.array(names), "n": np.ones(rows, np.int64), "g": pa.array(np.array(["a", "b"])[index // 10 % 2])})


def with_memory(monkeypatch, *, held: int, run: int, piece: int) -> None:
    """Let so many bytes of rows be held, and be sorted at once, and so many rows of a part be read at once."""
    monkeypatch.setattr(by_unit, "HELD_BYTES", held)
    monkeypatch.setattr(by_unit, "RUN_BYTES", run)
    monkeypatch.setattr(by_unit, "PIECE_ROWS", piece)


@pytest.mark.parametrize("rows", [60_000, pytest.param(1_000_000, marks=pytest.mark.long)])
def test_a_person_with_a_third_of_the_rows_needs_no_more_memory(tmp_path, capsys, monkeypatch, rows):
    with_memory(monkeypatch, held=rows * 8, run=rows * 4, piece=rows // 10)
    pieces = []
    one = by_unit._one
    monkeypatch.setattr(by_unit, "_one", lambda batches: pieces.append(sum(map(len, batches))) or one(batches))
    place = Counter(tmp_path, capsys)
    write_table(skewed(rows), place.source)
    query = {"kind": "sum", "column": "n", "lower": 0, "upper": 1, "missing": 0}
    kept = rows * 7 // 10 + 5
    for grouped in ({}, {"group_by": "g", "groups": ["a", "b"]}):
        limits = {"unit": "person", "max_rows_per_unit": 5} | ({"max_groups_per_unit": 1} if grouped else {})
        place.write_release({"x": query | grouped}, privacy=limits, epsilon=500.0)
        assert np.sum(place.answered()["x"]["value"]) == pytest.approx(kept, abs=0.5)
    place.target = tmp_path / "out/private.parquet"
    place.write_job(NOISELESS, privacy={"max_epsilon": 300.0, "unit": "person", "max_rows_per_unit": 5}, key=None)
    assert place.privatize().code == 0
    assert sum(read_table(place.target).column("n").to_pylist()) == kept
    # A batch of a person's rows is never cut.
    assert max(pieces) <= max(rows // 4, 1 << 17)


def chosen_rows(place, people, limit, *, groups=None, update=lambda *_: None):
    """Which rows take part."""
    table = pa.table({"person": people, "n": np.ones(len(people)), "kind": kinds(len(people))})
    path = write_table(table, place.folder / "units.parquet")
    query = {"name": "s", "kind": "sum", "column": "n", "lower": 0, "upper": 1, "missing": 0, "epsilon": 1.0}
    privacy = {"max_epsilon": 1000.0, "unit": "person", "max_rows_per_unit": limit}
    if groups is not None:
        query |= {"group_by": "kind", "groups": [0, 1, 2, 3]}
        privacy["max_groups_per_unit"] = groups
    job = {
        "version": 1,
        "input": {"path": str(path)},
        "output": {"path": str(place.folder / "answers.json")},
        "privacy": privacy,
        "query": [query],
    }
    plan = make_release_plan(parse_release_job(job), overwrite=True)
    grouping = None if groups is None else plan.grouping
    kept = units.choose_rows(plan, KeyedRandom(bytes(32)), place.folder / "spill", 2, update, grouping=grouping)
    return kept.mask(0, len(people)).tolist()


def kinds(rows):
    """Groups of rows, of which 4 is not declared."""
    return np.arange(rows) * 7 % 5


def rows_by_definition(people, limit, groups=None):
    """The same rows, one unit after the other."""
    words, further = (uniform_words(KeyedRandom(bytes(32)).at(nonce).position(), len(people)) for nonce in (2**32 - 1, 2**32 - 2))
    kind, kept = kinds(len(people)), [False] * len(people)
    owned = {}
    for row, person in enumerate(people):
        owned.setdefault(person, []).append(row)
    owned.pop(None, None)
    for rows in owned.values():
        firsts = {}
        for row in rows:
            firsts.setdefault(kind[row], row)
        firsts.pop(4, None)
        chosen = {4, *sorted(firsts, key=lambda group, firsts=firsts: further[firsts[group]])[:groups]}
        for row in sorted((row for row in rows if kind[row] in chosen), key=lambda row: words[row])[:limit]:
            kept[row] = True
    return kept


NAMES = {
    "names": lambda number: f"person {number}",
    "names of many lengths": lambda number: "x" * (number % 40) + str(number) * (number % 3),
    "numbers": lambda number: number - 3,
    "far numbers": lambda number: number << 32,
}


@pytest.mark.parametrize("groups", [None, 5])
def test_units_within_their_limits_keep_all_rows(place, groups):
    people = [f"person {i % 40}" for i in range(400)]
    assert chosen_rows(place, people, 10, groups=groups) == [True] * 400


@pytest.mark.some(4)
@pytest.mark.parametrize("memory", [None, {"held": 0, "run": 1, "piece": 1 << 20}, {"held": 0, "run": 1, "piece": 5}], ids=str)
@pytest.mark.parametrize("groups", [None, 2, 4])
@pytest.mark.parametrize("nulls", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_the_rows_of_units_with_too_many_are_those_with_the_smallest_words(place, monkeypatch, memory, groups, nulls, name):
    """Half of the rows belong to units that have few. What is held in memory, and in how many pieces it is read, changes nothing."""
    monkeypatch.setattr(contributions, "PIECE_ROWS", 70)
    if memory:
        with_memory(monkeypatch, **memory)
    people = [None if nulls and i % 37 == 0 else NAMES[name](i // 4 + 100 if i % 2 else i % 7) for i in range(600)]
    found = chosen_rows(place, people, 9, groups=groups)
    assert found == rows_by_definition(people, 9, groups)
    assert 0 < sum(found) < 600


def test_words_that_are_equal_in_all_but_their_last_bits_are_told_apart():
    unit, place = np.array([0, 1, 1, 1, 1, 0]), np.array([5, 4, 3, 2, 1, 0])
    word = np.array([0, 2, 1, 2**63, 1, 1], np.uint64)
    assert units.beyond(unit, place, word, 1).tolist() == [False, True, True, True, False, True]
    assert units.beyond(unit, place, word, 2).tolist() == [False, True, False, True, False, False]


def test_names_are_spread_over_all_parts():
    numbers = np.arange(100_000)
    for names in (pa.array(numbers), pa.array(numbers << 40), pa.array([f"person {i:07}" for i in numbers], pa.binary())):
        parts = by_unit._parts(names, 0x9E3779B97F4A7C15)
        counts = np.bincount(parts, minlength=by_unit.PARTS)
        assert len(counts) == by_unit.PARTS
        assert counts.max() < 2 * 100_000 / by_unit.PARTS


def test_a_disk_without_room_is_said(place, monkeypatch):
    with_memory(monkeypatch, held=0, run=1, piece=5)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(by_unit.ByUnit, "_write", full)
    with pytest.raises(StorageError, match="choosing rows per 'person' failed; it may need more room in"):
        chosen_rows(place, PEOPLE, 2)


def test_a_signal_ends_the_choice_of_rows(place, monkeypatch):
    """Also when there is much left to read."""
    monkeypatch.setattr(contributions, "PIECE_ROWS", 1)
    monkeypatch.setattr(contributions, "POLL_SECONDS", 0.0)
    read, waited = [], threading.Event()

    def batches(*given):
        for batch in unit_batches(*given):
            waited.wait(10)
            read.append(batch)
            yield batch

    def update(*_):
        waited.set()
        raise KeyboardInterrupt

    unit_batches = units.unit_batches
    monkeypatch.setattr(units, "unit_batches", batches)
    with pytest.raises(KeyboardInterrupt):
        chosen_rows(place, ["ann"] * 20_000, 2, update=update)
    assert len(read) < 20_000
