"""Killed at any step of a run, a series has one answer for each of its steps, is paid for once, and goes on."""

from __future__ import annotations

import json
import os
import shutil
import signal
import tempfile
from pathlib import Path

import pytest

from dpcore.accounting import Ledger
from support.running_totals import STEPS, Series, week
from support.steps import Steps

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals, forks and file locks of POSIX are the subject")
CASES = [(True, 1e-6), (False, 1e-6), (True, None)]
NAMES = ["factorisation with a ledger", "factorisation without a ledger", "tree with a ledger"]
KILLS = 50


@pytest.fixture(scope="module")
def steps():
    warm = Steps()
    yield warm
    warm.close()


@pytest.fixture
def folder(tmp_path):
    """In memory where that is possible: what is tested is the order of steps, not the disk."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        yield tmp_path / "series"
        return
    with tempfile.TemporaryDirectory(dir=memory, prefix="dpcore-") as name:
        yield Path(name) / "series"


def released(series):
    """The answer that is stored of each step, and those that are published: there must be no two of one step."""
    found = []
    if series.state.exists():
        state = series.kept()
        found.append((state["step"], json.dumps(state["totals"])))
    published = [number for number in range(1, STEPS + 1) if series.output(number).exists()]
    return [*found, *((number, json.dumps([series.answer(number)["value"]])) for number in published)]


def run(steps, series, number, *, step=0, twin=""):
    code, count, said = steps.run(*series.arguments(number), step=step, twin=twin)
    return code, count, said


def killed_and_again(steps, series, number, step, seen, twin=""):
    """Kill the run of a step of the series, look, and run it again: whether there was such a step of the run."""
    code, _, said = run(steps, series, number, step=step, twin=twin)
    assert code in {-signal.SIGKILL, 0}, said
    after = released(series)
    if series.has_ledger:
        Ledger(series.budget).complete()
        after += released(series)
    is_published = series.output(number).exists()
    again, _, said = run(steps, series, number)
    if again == 2 and is_published and not series.has_ledger:
        again, _, said = steps.run(*series.arguments(number), "--overwrite")
    assert again == 0, said
    for at, answer in [*after, *released(series)]:
        assert seen.setdefault(at, answer) == answer, f"two answers of step {at}"
    if series.has_ledger:
        spent = series.spent()
        assert [each for each in spent if each] == [1.0], "the series is paid for once"
        assert Ledger(series.budget).last_step(_series_of(series))[0] == number
    # A run that another one completed leaves its lock, which the next run takes over.
    assert {path.name for path in series.state.parent.iterdir()} <= {series.state.name, f".{series.state.name}.lock"}
    assert sorted(path.name for path in series.output(number).parent.iterdir()) == [series.output(at).name for at in range(1, number + 1)]
    return code == -signal.SIGKILL


def _series_of(series):
    """The identifier of the series in its ledger."""
    import sqlite3

    connection = sqlite3.connect(series.budget)
    ((found,),) = connection.execute("SELECT DISTINCT series FROM step").fetchall()
    connection.close()
    return found


def count_steps(steps, series, number=1):
    series.clear()
    for before in range(1, number):
        assert run(steps, series, before)[0] == 0
    code, count, said = run(steps, series, number)
    assert code == 0, said
    assert count > 15
    return count


def of_case(folder, case):
    ledger, delta = CASES[case]
    return Series(folder, ledger=ledger, query={"delta": delta})


@pytest.mark.parametrize("case", range(len(CASES)), ids=NAMES)
def test_a_series_whose_runs_are_killed_once_each(steps, folder, case):
    """Each run of the series is killed at some step, the last ones of which store, note and publish."""
    series = of_case(folder, case)
    count = count_steps(steps, series)
    series.clear()
    seen = {}
    for number in range(1, STEPS + 1):
        assert killed_and_again(steps, series, number, count - 4 * number - case, seen)
    assert sorted(seen) == [1, 2, 3, 4]


@pytest.mark.long
@pytest.mark.parametrize(("case", "number"), [(0, 1), (0, 2), (0, STEPS), (1, 2), (2, 2)])
def test_a_run_that_is_killed_at_every_step(steps, folder, case, number):
    """More than fifty kills of each case."""
    series = of_case(folder, case)
    count = count_steps(steps, series, number)
    series.clear()
    for before in range(1, number):
        assert run(steps, series, before)[0] == 0
    shutil.copytree(folder, folder.with_name("begun"))
    kills = 0
    for step in range(1, count + 1):
        shutil.rmtree(folder)
        shutil.copytree(folder.with_name("begun"), folder)
        kills += killed_and_again(steps, series, number, step, {})
    assert kills == count


@pytest.mark.long
def test_a_run_that_is_killed_again_and_again(steps, folder):
    """One step, killed fifty times at steps of all its retries, and never two values of it; then the series goes on."""
    series = Series(folder)
    seen, kills, step = {}, 0, 2
    while kills < KILLS:
        code, _, said = run(steps, series, 1, step=step)
        assert code in {-signal.SIGKILL, 0}, said
        kills += code != 0
        step = 2 + (step * 7 + 3) % 60
        for at, answer in released(series):
            assert seen.setdefault(at, answer) == answer
        if code == 0:
            series.output(1).unlink(missing_ok=True)
            code, _, said = steps.run(*series.arguments(1), "--overwrite")
            assert code == 0, said
    assert run(steps, series, 2)[0] == 0
    for at, answer in released(series):
        assert seen.setdefault(at, answer) == answer
    assert [each for each in series.spent() if each] == [1.0]


@pytest.mark.parametrize("twin", ["stored after it is published", pytest.param("noted before it is stored", marks=pytest.mark.long)])
def test_an_order_that_loses_something_is_caught(steps, folder, twin):
    series = Series(folder)
    count = count_steps(steps, series)

    def kill_everywhere():
        for step in range(count, count // 2, -1):
            series.clear()
            killed_and_again(steps, series, 1, step, {}, twin)

    with pytest.raises(AssertionError):
        kill_everywhere()


def test_a_restored_copy_is_refused_after_a_kill(steps, folder):
    """A copy that is one step behind its ledger, beside a run that was killed before it was published."""
    series = Series(folder)
    count = count_steps(steps, series)
    copy = series.state.read_bytes()
    assert run(steps, series, 2, step=count - 3)[0] == -signal.SIGKILL
    assert series.kept()["step"] == 2
    series.state.write_bytes(copy)
    code, _, said = run(steps, series, 2)
    if Ledger(series.budget).last_step(_series_of(series))[0] == 2:
        assert code == 2 or "already published" in said
        code, _, said = steps.run(*series.arguments(2), "--overwrite")
        assert code == 2
        assert "it is an older copy" in said
    else:
        assert code == 0, "nothing was published: the step may be drawn"
    assert week(2) in str(series.output(2))
