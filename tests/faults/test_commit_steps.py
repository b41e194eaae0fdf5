"""Killed at every step, a job leaves its outputs whole or not there, its charge in the ledger, and nothing that the next run keeps."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dpcore.accounting import Ledger
from support.jobs import job_text, people, read_table, write_table
from support.releases import clinic, release_text
from support.steps import Steps

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals, forks and file locks of POSIX are the subject")
ROWS = 50
STATES = [f"state {i}" for i in range(5)]
COLUMNS: dict[str, dict[str, Any]] = {
    "visits": {"mechanism": "discrete_laplace", "epsilon": 0.5, "lower": 0, "upper": 20, "missing": 0},
    "state": {"mechanism": "hashing", "epsilon": 0.5, "categories": STATES, "missing": "state 0", "unknown": "state 0"},
}
OF_A_DAY = "release of a day"
"""A run of a schedule: the job's output has words, and the run has a log."""
COUNT: dict[str, dict[str, Any]] = {"n": {"kind": "count", "column": "visits", "lower": 0, "upper": 100}}


@dataclass(frozen=True)
class Case:
    """A job, and where its files are."""

    folder: Path
    kind: str
    ledger: bool
    overwrite: bool

    @property
    def command(self) -> str:
        return "release" if self.kind.startswith("release") else "privatize"

    @property
    def target(self) -> Path:
        if self.kind == OF_A_DAY:
            return self.folder / "out" / "answers-north-2026-11-22.json"
        return self.folder / "out" / ("answers.json" if self.command == "release" else f"private.{self.kind.removeprefix('shards.')}")

    @property
    def names(self) -> list[Path]:
        """All final files."""
        if self.kind.startswith("shards"):
            shards = [self.target.with_name(f"private-{place}-of-3{self.target.suffix}") for place in (1, 2, 3)]
            return [*shards, self.target.with_name("private.shards.json")]
        tables = (
            []
            if self.kind in ("release", OF_A_DAY)
            else [self.target]
            if self.command == "privatize"
            else [self.target.parent / "made.csv"]
        )
        sidecars = [path.with_name(f"{path.name}.dpcore.json") for path in tables if path.suffix == ".csv"]
        return [*dict.fromkeys([*sidecars, *tables, self.target])]

    @property
    def budget(self) -> Path:
        return self.folder / "budget.ledger"

    @property
    def arguments(self) -> tuple[object, ...]:
        return (self.command, self.folder / "job.toml", *(["--overwrite"] if self.overwrite else []), *self.settings)

    @property
    def settings(self) -> tuple[object, ...]:
        """What a schedule sets in a run, and its log."""
        if self.kind != OF_A_DAY:
            return ()
        return ("--set", "REGION=north", "--set", "DATE=2026-11-22", "--log", self.folder / "run.jsonl")

    def write(self) -> None:
        """Write the input and the job."""
        self.folder.mkdir()
        source, job = self.folder / "in.parquet", self.folder / "job.toml"
        ledger = self.budget if self.ledger else None
        if self.command == "privatize":
            write_table(people(ROWS), source)
            shards = {"shards": 3} if self.kind.startswith("shards") else {}
            job.write_text(job_text(source, self.target, COLUMNS, key=None, ledger=ledger, **shards), encoding="utf-8")
        else:
            write_table(clinic(ROWS), source)
            made = {
                "kind": "synthetic",
                "output": str(self.target.parent / "made.csv"),
                "columns": [{"name": "visits", "edges": [0, 9, 30], "missing": 0}],
            }
            queries = COUNT | {"made": made} if self.kind == "release with a table" else COUNT
            epsilon = 1.0 / len(queries)
            target = self.target.with_name("answers-${REGION}-${DATE}.json") if self.settings else self.target
            job.write_text(release_text(source, target, queries, key=None, ledger=ledger, epsilon=epsilon), encoding="utf-8")
        self.clear()

    def clear(self) -> None:
        """Begin anew: no output, nothing spent."""
        for path in self.target.parent.glob("*") if self.target.parent.exists() else ():
            path.unlink()
        for path in self.target.parent.glob(".*") if self.target.parent.exists() else ():
            path.unlink()
        self.budget.unlink(missing_ok=True)
        if self.ledger:
            Ledger.create(self.budget, epsilon=100.0)


def digests(case):
    """The content of all files that have their names; None for those that do not exist."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else None for path in case.names}


def check_whole(case, found):
    """Whatever has a name is complete, and a table is the one that its sidecar was written for."""
    for path in case.names:
        if found[path.name] is None:
            continue
        if path.suffix == ".json":
            said = json.loads(path.read_text(encoding="utf-8"))
            if path.name.endswith(".shards.json"):
                listed = {each["name"]: each["sha256"] for each in said["shards"]}
                assert listed == {name: digest for name, digest in found.items() if name != path.name}, "a manifest beside other shards"
            elif path.name.endswith(".dpcore.json"):
                table = path.with_name(path.name.removesuffix(".dpcore.json"))
                assert not table.exists() or said["table"] == {"bytes": table.stat().st_size, "sha256": found[table.name]}
        else:
            assert len(read_table(path)) == (ROWS if not case.kind.startswith("shards") or path.name.startswith("private-1-") else 0)
            assert path.suffix != ".csv" or path.with_name(f"{path.name}.dpcore.json").exists()


def check_crash(case, before):
    """What a killed job has left, seen from its files and its ledger alone; then what opening the ledger makes of it."""
    found = digests(case)
    check_whole(case, found)
    new = {name for name, digest in found.items() if digest is not None and digest != before[name]}
    entries = list(Ledger(case.budget).entries()) if case.ledger else []
    if not case.ledger:
        return []
    assert len(entries) <= 1 + any(before.values())
    spends = entries[1:] if any(before.values()) else entries
    assert not new or spends, "an output is there that nothing was charged for"
    assert all(entry.epsilon == 1.0 for entry in spends)
    Ledger(case.budget).complete()
    found = digests(case)
    check_whole(case, found)
    new = {name for name, digest in found.items() if digest is not None and digest != before[name]}
    spends = list(Ledger(case.budget).entries())[len(entries) - len(spends) :]
    finished = any(entry.state == "done" for entry in spends)
    assert all(entry.state in {"reserved", "done", "failed"} for entry in spends), "a sealed run is not finished"
    # Shards without a row are the same in every run.
    expected = {path.name for path in case.names if not path.name.startswith(("private-2-", "private-3-"))}
    whole = expected if any(before.values()) else set(found)
    assert new == (whole if finished else set()), "a part of the outputs is there, or an output that the ledger does not know"
    return spends


def crash(steps, case, step, twin=""):
    """Kill the job before one step, look, and run it again; whether there was such a step."""
    case.clear()
    if case.overwrite:
        code, _, said = steps.run(*case.arguments)
        assert code == 0, said
    before = digests(case)
    code, _, said = steps.run(*case.arguments, step=step, twin=twin)
    assert code == -signal.SIGKILL or (code == 0 and not twin) or twin, said
    killed = code == -signal.SIGKILL
    spends = check_crash(case, before)
    run_again(steps, case, spends, before)
    return killed


def run_again(steps, case, spends, before):
    """The next run publishes, or says that the one before it has, and leaves nothing but its files."""
    expected = 0 if not case.ledger else any(before.values()) + len(spends)
    there = any(digests(case).values())
    code, _, said = steps.run(*case.arguments)
    if case.ledger and not case.overwrite and any(entry.state == "done" for entry in spends):
        assert (code, "already published" in said) == (0, True), said
    else:
        if code == 2 and there and not case.ledger and not case.overwrite:
            # Nobody knows whose the files are that are there; each of them is whole.
            code, _, said = steps.run(*case.arguments, "--overwrite")
        assert code == 0, said
        expected += case.ledger
    assert len(list(Ledger(case.budget).entries()) if case.ledger else ()) == expected
    check_whole(case, digests(case))
    assert all(digests(case).values())
    assert sorted(path.name for path in case.target.parent.iterdir()) == sorted(path.name for path in case.names)


KINDS = ("parquet", "csv", "arrow", "release", "release with a table", "shards.parquet")
CASES = [(kind, ledger, overwrite) for kind in KINDS for ledger in (True, False) for overwrite in (False, True)]
CASES += [(OF_A_DAY, True, overwrite) for overwrite in (False, True)]
NAMES = [f"{kind}, {'ledger' if ledger else 'no ledger'}{', overwrite' if overwrite else ''}" for kind, ledger, overwrite in CASES]
OFTEN = {
    i
    for i, (kind, ledger, overwrite) in enumerate(CASES)
    if (overwrite or kind == OF_A_DAY if ledger else kind == KINDS[0] and not overwrite)
}
"""Default cases: a paid run over an older one for each kind, and one run that is not paid."""


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
        yield tmp_path / "job"
        return
    with tempfile.TemporaryDirectory(dir=memory, prefix="dpcore-") as name:
        yield Path(name) / "job"


def count_steps(steps, case):
    """Steps of the whole command."""
    case.clear()
    if case.overwrite:
        steps.run(*case.arguments)
    code, count, said = steps.run(*case.arguments)
    assert code == 0, said
    assert count > 8
    return count


@pytest.mark.some(1)
@pytest.mark.parametrize(
    "number",
    [pytest.param(i, id=NAMES[i], marks=() if i in OFTEN else pytest.mark.long) for i in range(len(CASES))],
)
def test_a_job_killed_at_some_of_its_steps(steps, folder, number):
    """A step of the commit, which are the last fifteen, another one in each case; of every third case an earlier step too."""
    case = Case(folder, *CASES[number])
    case.write()
    count = count_steps(steps, case)
    earlier = {1 + number * 7 % count} if number % 3 == 0 else set()
    for step in {count - number * 4 % min(15, count)} | earlier:
        assert crash(steps, case, step)


@pytest.mark.long
@pytest.mark.parametrize("number", range(len(CASES)), ids=NAMES)
def test_a_job_killed_at_every_step(steps, folder, number):
    case = Case(folder, *CASES[number])
    case.write()
    count = count_steps(steps, case)
    for step in range(1, count + 1):
        assert crash(steps, case, step), step
    assert not crash(steps, case, count + 1)


@pytest.mark.long
@pytest.mark.parametrize(
    ("twin", "kind", "ledger", "overwrite"),
    [
        ("renamed before it is sealed", "parquet", True, False),
        pytest.param("charged at the end", "release", True, False, marks=pytest.mark.long),
        pytest.param("table before sidecar", "csv", True, False, marks=pytest.mark.long),
        pytest.param("overwritten one by one", "csv", False, True, marks=pytest.mark.long),
    ],
)
def test_an_order_that_loses_something_is_caught(steps, folder, twin, kind, ledger, overwrite):
    """The twins: each is killed at every step of its commit, and at one of them the same checks must fail."""
    case = Case(folder, kind, ledger, overwrite)
    case.write()
    count = count_steps(steps, case)

    def kill_everywhere():
        for step in range(count, 1, -1):
            crash(steps, case, step, twin)

    with pytest.raises(AssertionError):
        kill_everywhere()
