"""Bands, documents and comparisons on made-up times. Nothing here is timed."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from dpcore.bench import compare, document, ratio_of
from dpcore.bench.bands import undisturbed
from dpcore.bench.results import Absent, Broken, Jitter
from dpcore.bench.table import duration, lines, notes, rows_of, significant
from dpcore.errors import JobError, StorageError
from support.benchmarks import MACHINE, results, row, timed

# Bands


def test_the_fastest_tenth_ignores_turns_that_other_work_made_longer():
    assert undisturbed([1.0] * 15 + [9.0] * 15) == 1.0
    assert undisturbed([2.0]) == 2.0


@pytest.mark.parametrize(("blocks", "ends"), [(1, 0), (5, 0), (6, 0), (8, 0), (9, 1), (12, 2), (20, 5)])
def test_a_band_is_the_narrowest_between_blocks_that_covers_the_median(blocks, ends):
    found = ratio_of([float(i) for i in range(1, blocks + 1)])
    assert (found.low, found.high) == (1 + ends, blocks - ends)
    if blocks >= 6:
        assert found.coverage >= 0.95


def test_the_coverage_of_a_band_is_what_it_says():
    rng = random.Random(1)
    blocks = [ratio_of([rng.lognormvariate(0.0, 0.1) for _ in range(9)]) for _ in range(4000)]
    share = sum(band.low <= 1.0 <= band.high for band in blocks) / len(blocks)
    assert abs(share - blocks[0].coverage) < 0.02  # six standard errors


def test_a_band_that_is_too_wide_names_no_winner():
    assert ratio_of([5.0, 5.1, 8.0]).verdict == "too noisy"
    assert ratio_of([5.0]).verdict == "too noisy"
    assert ratio_of([0.95, 1.0, 1.05]).verdict == "no winner"
    assert ratio_of([1.01, 1.3]).verdict == ratio_of([0.7, 0.99]).verdict == "no winner"  # the band comes within 2 % of 1
    assert ratio_of([0.8, 0.9]).verdict == "slower"
    assert ratio_of([1.1, 1.2]).verdict == "faster"


def test_the_inverse_of_a_ratio_is_the_ratio_of_the_inverses():
    blocks = [1.5, 2.5, 2.0, 3.0]
    one, other = ratio_of(blocks).inverse, ratio_of([1 / block for block in blocks])
    assert (one.value, one.low, one.high) == pytest.approx((other.value, other.low, other.high))


def test_a_ratio_without_blocks_is_refused():
    with pytest.raises(ValueError, match="at least one block"):
        ratio_of([])


# Rows


def test_a_slow_peer_is_compared_by_its_own_number_of_units():
    made = row()
    few = timed("slow", "peer", 1e-6, size=10)
    assert row().ratio(few).value == pytest.approx((1e-6 / 10) / (2e-6 / 1000))
    assert made.to_bound(made.judge).value == pytest.approx(2.0)


def test_only_blocks_in_which_both_took_part_count():
    made = row(blocks=3)
    late = replace(made.others[0], blocks=(None, 8e-6, None))
    assert made.ratio(late).blocks == 1
    assert made.ratio(replace(late, blocks=(None, None, None))) is None


def test_lines_say_who_is_faster_and_mark_what_is_not_safe():
    peer, bound = lines(row(jitter=0.01))
    assert peer[3] == "NumPy †"
    assert peer[-1] == "dpcore is faster"
    assert bound[-1] == "of the bound"
    noisy, _ = lines(row(jitter=2.0))
    assert noisy[-1] == "band too wide: no winner"
    assert rows_of([row()])[1][1][:3] == ("", "", "")


def test_numbers_are_short():
    assert [significant(value) for value in (2.0, 0.5, 123.4, 99.96, 1234567.0)] == ["2.00", "0.500", "123", "100", "1,230,000"]
    assert [duration(value) for value in (0.5, 999.0, 1000.0, 2e9)] == ["0.500 ns", "999 ns", "1.00 µs", "2.00 s"]


def test_notes_name_what_a_reader_must_know():
    said = "\n".join(
        notes(
            results(
                row(),
                absent=(Absent("opendp", ("OpenDP laplace",)),),
                broken=(Broken("laplace", "PyDP", "ValueError: no"),),
                unreached=("gaussian",),
                interrupted=True,
                machine=MACHINE | {"dpcore": {"threads": 1, "secure_cipher": "chacha20"}},
                noise=Jitter((1.0,) * 5 + (4.0,) * 5),
            )
        )
    )
    for words in (
        "very busy",
        "no AES",
        "One core",
        "pip install opendp",
        "broken: PyDP, in laplace: ValueError: no",
        "no time was left for 1",
        "interrupted",
    ):
        assert words in said


# JSON


def test_a_document_is_read_back_as_it_was(tmp_path: Path):
    made = results(
        row(jitter=0.1),
        row("gaussian", blocks=1),
        absent=(Absent("opendp", ("OpenDP",)),),
        broken=(Broken("a", "b", "c"),),
        interrupted=True,
    )
    document.write(tmp_path / "run.json", made)
    assert document.read(tmp_path / "run.json") == made
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]


def test_the_document_has_the_schema_of_pytest_benchmark(tmp_path: Path):
    storage = pytest.importorskip("pytest_benchmark.storage.file")
    document.write(tmp_path / "run.json", results(row(jitter=0.1), row("gaussian")))
    ((_, content),) = storage.FileStorage(str(tmp_path), None).load(str(tmp_path / "run.json"))
    fields = pytest.importorskip("pytest_benchmark.stats").Stats.fields
    assert len(content["benchmarks"]) == 6
    for entry in content["benchmarks"]:
        assert set(fields) | {"iterations"} <= entry["stats"].keys()
        assert {"group", "name", "fullname", "params", "param", "extra_info", "options"} <= entry.keys()
    assert len({entry["fullname"] for entry in content["benchmarks"]}) == 6


def test_pytest_benchmark_compares_it(tmp_path: Path):
    pytest.importorskip("pytest_benchmark")
    document.write(tmp_path / "run.json", results(row(jitter=0.1)))
    # a process of its own: the command configures a pytest, whose plugins are loaded already here
    command = [sys.executable, "-c", "from pytest_benchmark.cli import main; main()", "compare", "run.json", "--group-by", "group"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "keystream + copy" in done.stdout


def test_statistics_are_those_of_pytest_benchmark():
    stats = pytest.importorskip("pytest_benchmark.stats").Stats()
    data = [float(i * i) for i in range(1, 10)]
    for value in data:
        stats.update(value)
    ours, theirs = document.statistics_of(data, 3), stats.as_dict()
    for name in ("min", "max", "mean", "stddev", "rounds", "median", "total", "ops"):
        assert ours[name] == pytest.approx(theirs[name]), name


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"dpcore": {"format": 99}}', "[" * 100_000, '{"dpcore": 3}'])
def test_other_files_are_refused(content, tmp_path: Path):
    path = tmp_path / "other.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(JobError, match="is not a JSON file of dpcore bench"):
        document.read(path)


def test_times_that_are_none_are_refused(tmp_path: Path):
    content = document.document(results(row()))
    content["benchmarks"][0]["extra_info"]["blocks"][0] = -1.0
    path = tmp_path / "run.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(JobError, match="a time is not a positive number"):
        document.read(path)


def test_a_file_that_is_missing_is_an_error_of_the_system(tmp_path: Path):
    with pytest.raises(StorageError, match="cannot read"):
        document.read(tmp_path / "none.json")


def test_a_write_that_fails_leaves_the_former_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "run.json"
    document.write(path, results(row()))
    before = path.read_bytes()

    def fail(*_: object) -> None:
        raise StorageError("no space")

    monkeypatch.setattr("dpcore._disk.files.AtomicFile.write", fail)
    with pytest.raises(StorageError):
        document.write(path, results(row("gaussian")))
    assert path.read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 1


# Comparison

ROWS = 60


def a_run(seed: int, *, slowed: float = 1.0, of: tuple[int, ...] = (), noise: float = 0.04, process: float = 0.03):
    """A run of many rows on a machine with other work: blocks are up to 4 % off, and each process has its own 3 %."""
    rng = random.Random(seed)
    rows = []
    for i in range(ROWS):
        own = rng.uniform(1, 1 + process)
        ours = 2e-6 * own * (slowed if i in of else 1.0)
        rows.append(row(f"row {i}", ours=ours, jitter=noise, seed=1000 * seed + i))
    return results(*rows)


@pytest.mark.parametrize("seed", range(10))
def test_two_runs_of_one_version_do_not_differ(seed):
    found = compare.compare(a_run(2 * seed + 1), a_run(2 * seed + 2))
    assert {change.outcome for change in found.changes} == {"no change"}
    assert not found.is_slower


@pytest.mark.parametrize("seed", range(10))
def test_a_kernel_that_is_slower_by_15_percent_is_named(seed):
    found = compare.compare(a_run(2 * seed + 1), a_run(2 * seed + 2, slowed=1.15, of=(7,)))
    assert [change.row.name for change in found.with_outcome("slower")] == ["row 7"]


def test_a_kernel_that_is_faster_is_named_too():
    found = compare.compare(a_run(1), a_run(2, slowed=0.8, of=(3,)))
    assert [change.row.name for change in found.with_outcome("faster")] == ["row 3"]
    assert not found.is_slower


def test_a_machine_that_is_twice_as_slow_is_no_change():
    found = compare.compare(results(row()), results(row(ours=4e-6, bound=2e-6, peer=16e-6)))
    assert [change.outcome for change in found.changes] == ["no change"]


def test_a_change_within_wide_bands_is_not_claimed():
    found = compare.compare(results(row(jitter=1.5, seed=1)), results(row(ours=3e-6, jitter=1.5, seed=2)))
    assert [change.outcome for change in found.changes] == ["too noisy"]


def test_large_arrays_may_change_more_than_work_in_the_cache():
    for character, outcome in (("cache", "slower"), ("call", "slower"), ("memory", "no change"), ("whole", "no change")):
        one, other = results(row(character=character)), results(row(ours=2.4e-6, character=character))
        assert [change.outcome for change in compare.compare(one, other).changes] == [outcome]


def test_another_machine_is_said_and_rows_of_one_run_are_counted():
    other = results(row(), row("new"), machine=MACHINE | {"cpu": {"brand_raw": "Another CPU", "count": 64}}, interrupted=True)
    found = compare.compare(results(row(), row("old")), other)
    assert found.machines == {"cpu": ("A CPU", "Another CPU"), "cores": (2, 64)}
    assert (found.only_before, found.only_after) == (("old, 1,000 values",), ("new, 1,000 values",))
    assert compare.document(found)["same_machine"] is False
    assert found.interrupted


def test_runs_without_a_common_row_are_refused():
    with pytest.raises(JobError, match="no row in common"):
        compare.compare(results(row("a")), results(row("b")))


def test_cpu_time_is_kept_and_files_without_it_are_read(tmp_path: Path):
    measured = row("threads")
    measured = replace(measured, ours=replace(measured.ours, cpu_seconds=3e-6))
    content = document.document(results(measured))
    assert document.results_of(content).rows == (measured,)
    for entry in content["benchmarks"]:
        del entry["extra_info"]["cpu_seconds"]
    assert document.results_of(content).rows[0].ours.cpu_seconds is None
