"""Run planted faults against their tests: `make planted`, or `python -m planted` in the folder of the tests.

A fault is planted into a private copy of the installed package. Its tests must pass without it, and fail with it; pytest stops at the
first failure. The exit code is 1 if a fault is not caught.
"""

from __future__ import annotations

import argparse
import fnmatch
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from planted import copies
from planted.catalogue import FOLDER, ROOT, Fault, mistakes, read

if TYPE_CHECKING:
    from collections.abc import Iterable

MAIN_PATH = Path(__file__).resolve().parent / "main_path.py"
TOO_LONG = 3600
"""Seconds after which tests are stopped."""


@dataclass(frozen=True)
class Result:
    """What became of a fault: `caught_by` is the test that failed, and `problem` says why there is none."""

    fault: Fault
    caught_by: str = ""
    seconds: float = 0.0
    problem: str = ""

    @property
    def line(self) -> str:
        """The result in one line."""
        if self.problem:
            return f"{self.fault.name}: NOT caught: {self.problem}"
        return f"{self.fault.name}: caught by {self.caught_by} in {self.seconds:.1f} s"


@dataclass(frozen=True)
class Outcome:
    """What pytest said: its exit code, the cases that passed and failed, and its last words."""

    code: int
    passed: frozenset[str]
    failed: tuple[str, ...]
    words: str
    seconds: float


def run_tests(python: Path, tests: Iterable[str], folder: Path, *options: str) -> Outcome:
    """Run tests with an interpreter."""
    report, start = folder / "report.xml", time.monotonic()
    command = [python, "-m", "pytest", "-q", "--tb=short", "-n", "0", "-p", "no:cacheprovider", *options]
    command += [f"--junitxml={report}", f"--basetemp={folder / 'tmp'}", *tests]
    # Examples that fail with a fault would be tried again first in every later run of the suite.
    kept = copies.variables() | {"HYPOTHESIS_STORAGE_DIRECTORY": str(folder / "hypothesis")}
    done = subprocess.run(
        command, cwd=ROOT, env=kept, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=TOO_LONG
    )
    passed, failed = set(), []
    for case in ET.parse(report).iter("testcase") if report.exists() else ():
        name = f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name')}"
        if case.find("failure") is not None or case.find("error") is not None:
            failed.append(name)
        elif case.find("skipped") is None:
            passed.add(name)
    return Outcome(done.returncode, frozenset(passed), tuple(failed), done.stdout[-1500:], time.monotonic() - start)


def is_case_of(case: str, test: str) -> bool:
    """Whether a case of a parametrized test, or of a file, belongs to what a fault names."""
    file, _, function = test.partition("::")
    return case.startswith(f"{file}::{function.partition('[')[0]}") and (not function or case.partition("[")[0] == test.partition("[")[0])


class Healthy:
    """The tests of all faults without any: each runs once, with those that need the same environment.

    Parameters
    ----------
    faults : list of Fault
        Whose tests run.
    scratch : Path
        A folder for copies.
    jobs : int
        Processes that share the tests.
    """

    def __init__(self, faults: list[Fault], scratch: Path, jobs: int) -> None:
        self._scratch, self._outcomes = scratch, dict[tuple[str, bool], list[Outcome]]()
        wanted: dict[tuple[str, bool], list[str]] = {}
        for fault in faults:
            wanted.setdefault((fault.environment, fault.long), []).extend(fault.tests)
        print(f"running the tests of {len(faults)} faults without any, {jobs} at a time", flush=True)
        with ThreadPoolExecutor(jobs) as pool:
            parts = [(key, part) for key, tests in wanted.items() if _third_party(key[0]) for part in _shared_out(tests, jobs)]
            for (key, part), outcome in zip(parts, pool.map(self._run, range(len(parts)), parts), strict=True):
                self._outcomes.setdefault(key, []).append(outcome)
                print(f"without a fault: {len(outcome.passed)} cases of {len(part)} tests pass in {outcome.seconds:.0f} s", flush=True)

    def _run(self, number: int, part: tuple[tuple[str, bool], list[str]]) -> Outcome:
        (environment, long), tests = part
        folder = self._scratch / f"healthy-{number}"
        folder.mkdir()
        python = copies.made(folder / "venv", None, ROOT / environment)
        outcome = run_tests(python, tests, folder, *_marks(long=long))
        shutil.rmtree(folder, ignore_errors=True)
        return outcome

    def problem(self, fault: Fault) -> str:
        """What is wrong with the tests of a fault without it; "" if nothing is."""
        outcomes = self._outcomes.get((fault.environment, fault.long))
        if outcomes is None:
            return f"there is no environment {fault.environment}: make {fault.environment}/installed-interop"
        for test in fault.tests:
            if failed := [case for outcome in outcomes for case in outcome.failed if is_case_of(case, test)]:
                return f"without it {failed[0]} fails"
            if not any(is_case_of(case, test) for outcome in outcomes for case in outcome.passed):
                return f"no case of {test} passes here without it\n{outcomes[-1].words}"
        return ""


def _third_party(environment: str) -> bool:
    return (ROOT / environment / "bin" / "python").exists()


def _marks(*, long: bool) -> tuple[str, ...]:
    return ("-m", "long or not long") if long else ()


def _shared_out(tests: list[str], jobs: int) -> list[list[str]]:
    """Different tests in so many parts, those of a file in one."""
    files: dict[str, set[str]] = {}
    for test in tests:
        files.setdefault(test.partition("::")[0], set()).add(test)
    each = [[file] if file in found else sorted(found) for file, found in sorted(files.items())]
    return [part for first in range(jobs) if (part := [test for found in each[first::jobs] for test in found])]


def judge(fault: Fault, folder: Path, healthy: Healthy) -> Result:
    """Plant a fault and see whether its tests fail."""
    if problem := healthy.problem(fault):
        return Result(fault, problem=problem)
    folder.mkdir()
    python = copies.made(folder / "venv", fault, ROOT / fault.environment)
    works = subprocess.run([python, MAIN_PATH], env=copies.variables(), capture_output=True, text=True, check=False, timeout=TOO_LONG)
    if works.returncode:
        return Result(fault, problem=f"the main path does not work with it\n{works.stderr[-1500:]}")
    outcome = run_tests(python, fault.tests, folder, "-x", *_marks(long=fault.long))
    if outcome.code == 0:
        return Result(fault, problem=f"all {len(outcome.passed)} cases pass in {outcome.seconds:.1f} s")
    if outcome.code != 1 or not outcome.failed:
        return Result(fault, problem=f"pytest ends with {outcome.code} and no failed test\n{outcome.words}")
    return Result(fault, outcome.failed[0], outcome.seconds)


def judged(fault: Fault, scratch: Path, healthy: Healthy) -> Result:
    """The same; whatever happens is a result."""
    folder = scratch / fault.name
    try:
        return judge(fault, folder, healthy)
    except subprocess.TimeoutExpired:
        return Result(fault, problem=f"stopped after {TOO_LONG} s")
    except (OSError, ValueError) as error:
        return Result(fault, problem=str(error))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def table(results: list[Result]) -> str:
    """The results as a table of Markdown."""
    rows = ["| fault | file | caught by | seconds |", "|---|---|---|---|"]
    for result in results:
        caught = f"`{result.caught_by.replace('|', '&#124;')}`" if result.caught_by else f"**NOT caught**: {result.problem.splitlines()[0]}"
        rows.append(f"| {result.fault.name} | `{result.fault.file}` | {caught} | {result.seconds:.1f} |")
    caught = sum(not result.problem for result in results)
    return "\n".join([*rows, "", f"{caught} of {len(results)} faults are caught."])


def main() -> int:
    """Run the faults that are asked for."""
    parser = argparse.ArgumentParser(prog="planted", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="faults to run, patterns allowed; all if none is named")
    parser.add_argument("--jobs", type=int, default=1, help="faults that run at a time (1)")
    parser.add_argument("--list", action="store_true", help="list the faults, and run none")
    parser.add_argument("--report", type=Path, help="write the table to this file as well")
    parser.add_argument("--catalogue", type=Path, default=FOLDER, help="folder of files of faults")
    given = parser.parse_args()
    faults = read(given.catalogue)
    for name in given.names:
        if not fnmatch.filter((fault.name for fault in faults), name):
            parser.error(f"there is no fault {name!r}; --list shows all")
    faults = [fault for fault in faults if not given.names or any(fnmatch.fnmatch(fault.name, name) for name in given.names)]
    if given.list:
        print("\n".join(f"{fault.name}\n    {fault.part}: {fault.promise}" for fault in faults))
        return 0
    if wrong := [each for fault in faults for each in mistakes(fault)]:
        print("\n".join(wrong), file=sys.stderr)
        return 2
    done: list[Result] = []
    with tempfile.TemporaryDirectory(prefix="planted-") as folder, ThreadPoolExecutor(given.jobs) as pool:
        scratch = Path(folder)
        healthy = Healthy(faults, scratch, given.jobs)
        start = time.monotonic()
        for waiting in as_completed([pool.submit(judged, fault, scratch, healthy) for fault in faults]):
            done.append(waiting.result())
            left = (time.monotonic() - start) * (len(faults) - len(done)) / len(done) / 60
            print(f"[{len(done)} of {len(faults)}, {left:.0f} min left] {done[-1].line}", flush=True)
    in_order = [result for fault in faults for result in done if result.fault == fault]
    print(f"\n{table(in_order)}")
    if given.report:
        given.report.write_text(table(in_order) + "\n", encoding="utf-8")
    return int(any(result.problem for result in done))


if __name__ == "__main__":
    sys.exit(main())
