"""Run planted faults against their tests: `make planted`, or `python -m planted` in the folder of the tests.

A fault is planted into a private copy of the installed package. Its tests must pass without it, and fail with it; pytest stops at the
first failure. The exit code is 1 if a fault is not caught.
"""

from __future__ import annotations

import argparse
import fnmatch
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from planted import copies
from planted.catalogue import FOLDER, ROOT, Fault, mistakes, read

MAIN_PATH = Path(__file__).resolve().parent / "main_path.py"
TOO_LONG = 1800
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
    """What pytest said: its exit code, tests that passed, the first that failed, and its last words."""

    code: int
    passed: frozenset[str]
    failed: str
    words: str
    seconds: float


def run_tests(python: Path, fault: Fault, folder: Path) -> Outcome:
    """Run the tests of a fault with an interpreter."""
    report, start = folder / "report.xml", time.monotonic()
    command = [python, "-m", "pytest", "-x", "-q", "--tb=short", "-n", "0", "-p", "no:cacheprovider"]
    command += [f"--junitxml={report}", f"--basetemp={folder / 'tmp'}", *(["-m", "long or not long"] if fault.long else []), *fault.tests]
    # Examples that fail with a fault would be tried again first in every later run of the suite.
    kept = copies.variables() | {"HYPOTHESIS_STORAGE_DIRECTORY": str(folder / "hypothesis")}
    done = subprocess.run(
        command, cwd=ROOT, env=kept, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=TOO_LONG
    )
    passed, failed = set(), ""
    for case in ElementTree.parse(report).iter("testcase") if report.exists() else ():
        name = f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name')}"
        if case.find("failure") is not None or case.find("error") is not None:
            failed = failed or name
        elif case.find("skipped") is None:
            passed.add(name)
    return Outcome(done.returncode, frozenset(passed), failed, done.stdout[-1500:], time.monotonic() - start)


def not_run(fault: Fault, passed: frozenset[str]) -> list[str]:
    """Tests of a fault of which no case has passed."""
    return [test for test in fault.tests if not any(case.partition("[")[0].startswith(test.partition("[")[0]) for case in passed)]


def judge(fault: Fault, folder: Path) -> Result:
    """Plant a fault and see whether its tests fail."""
    third_party = ROOT / fault.environment
    if not (third_party / "bin" / "python").exists():
        return Result(fault, problem=f"there is no environment {fault.environment}: make {fault.environment}/installed-interop")
    for each in ("healthy", "planted"):
        (folder / each).mkdir(parents=True)
    healthy = run_tests(copies.made(folder / "healthy" / "venv", None, third_party), fault, folder / "healthy")
    if healthy.code:
        return Result(fault, problem=f"without it {healthy.failed or 'pytest'} fails\n{healthy.words}")
    if missing := not_run(fault, healthy.passed):
        return Result(fault, problem=f"no case runs here of {', '.join(missing)}")
    python = copies.made(folder / "planted" / "venv", fault, third_party)
    works = subprocess.run([python, MAIN_PATH], env=copies.variables(), capture_output=True, text=True, check=False, timeout=TOO_LONG)
    if works.returncode:
        return Result(fault, problem=f"the main path does not work with it\n{works.stderr[-1500:]}")
    outcome = run_tests(python, fault, folder / "planted")
    if outcome.code == 0:
        return Result(fault, problem=f"all {len(outcome.passed)} tests pass in {outcome.seconds:.1f} s")
    if outcome.code != 1 or not outcome.failed:
        return Result(fault, problem=f"pytest ends with {outcome.code} and no failed test\n{outcome.words}")
    return Result(fault, outcome.failed, outcome.seconds)


def judged(fault: Fault, scratch: Path) -> Result:
    """The same; whatever happens is a result."""
    folder = scratch / fault.name
    try:
        return judge(fault, folder)
    except subprocess.TimeoutExpired:
        return Result(fault, problem=f"stopped after {TOO_LONG} s")
    except (OSError, ValueError) as error:
        return Result(fault, problem=str(error))


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
    start, done, lock = time.monotonic(), [], threading.Lock()
    with tempfile.TemporaryDirectory(prefix="planted-") as scratch, ThreadPoolExecutor(given.jobs) as pool:
        for waiting in as_completed([pool.submit(judged, fault, Path(scratch)) for fault in faults]):
            with lock:
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
