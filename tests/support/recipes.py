"""Recipes for schedulers: the files that docs/interop/dbt-airflow.md shows, a table for them, and commands that are killed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from dpcore.accounting import Ledger
from dpcore.accounting.ledger.spends import Entry

TESTS = Path(__file__).resolve().parents[1]
PAGE = TESTS.parent / "docs" / "interop" / "dbt-airflow.md"
MARK = 91827364
"""A cell that no log may hold."""
LEDGER, PEOPLE = "private/survey.ledger", "private/people.parquet"
DAYS = ("2026-11-27", "2026-11-28", "2026-11-29")


def block(language: str, place: int = 0) -> str:
    """One of the blocks of code of the page, by its language and its place among those of that language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)[place]


def command(place: int) -> list[str]:
    """A command of the page as words, without the prompt and the values in quotes."""
    return re.sub(r"^\$ ", "", block("console", place)).split()


def people(n: int = 3000, age: int = 30) -> pa.Table:
    """A table in which a single cell has the mark; with the bounds of the job it counts as 100."""
    rows = range(n)
    return pa.table({"person": [*rows], "region": ["north" if i % 2 else "south" for i in rows], "age": [MARK] + [age] * (n - 1)})


def write_people(folder: Path, age: int = 30) -> None:
    """The table as the file that the job reads."""
    (folder / PEOPLE).parent.mkdir(exist_ok=True)
    pq.write_table(people(age=age), folder / PEOPLE)


def make_job(folder: Path, runs: int) -> None:
    """The job of the page, with a ledger that its command makes, for so many runs."""
    (folder / "ages.toml").write_text(block("toml"), encoding="utf-8")
    words = command(0)
    words[words.index("--epsilon") + 1] = str(0.5 * runs)
    subprocess.run([Path(sys.executable).parent / words[0], *words[1:]], cwd=folder, check=True, capture_output=True)


def entries(folder: Path) -> list[Entry]:
    """What the ledger has been charged."""
    return [*Ledger(folder / LEDGER).entries()]


FAILING = """\
#!{python}
import importlib, os, pathlib, signal, subprocess, sys, time

def killed(*args, **kwargs):
    os.kill(os.getpid(), signal.SIGKILL)

def slow(*args, **kwargs):
    pathlib.Path({waits!r}).touch()
    time.sleep(120)

turn = pathlib.Path({turn!r})
if not turn.exists():
    turn.touch()
    {fault}
from dpcore.cli import main
main()
"""
FAULTS = {
    "before it is charged": 'importlib.import_module("dpcore.tables.output.publication").Publication.reserve = killed',
    "when its noise is drawn": 'importlib.import_module("dpcore.query.run").document_of = killed',
    "when it is sealed": 'importlib.import_module("dpcore.tables.output.publication").move_into_place = killed',
    "after it is published": "subprocess.run([{dpcore!r}, *sys.argv[1:]]); killed()",
    "never, but it waits with its noise drawn": 'importlib.import_module("dpcore.query.run").document_of = slow',
}
"""When the first command is killed, and how."""


def failing_once(folder: Path, fault: str) -> dict[str, str]:
    """The environment in which the first `dpcore` of all is killed; the later ones are dpcore's own.

    Parameters
    ----------
    folder : Path
        Where the command is written; it makes the file `waits` there when it begins to wait.
    fault : str
        One of `FAULTS`.
    """
    place, own = folder / "bin", Path(sys.executable).parent
    place.mkdir()
    made = FAULTS[fault].format(dpcore=str(own / "dpcore"))
    text = FAILING.format(python=sys.executable, waits=str(folder / "waits"), turn=str(folder / "turn"), fault=made)
    (place / "dpcore").write_text(text, encoding="utf-8")
    (place / "dpcore").chmod(0o755)
    return {"PATH": os.pathsep.join([str(place), str(own), os.environ["PATH"]])}


def on_path() -> dict[str, str]:
    """The environment in which `dpcore` is the one that is tested."""
    return {"PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])}


def left_in(folder: Path) -> list[str]:
    """All that the runs have left beside their outputs."""
    return sorted(entry.name for entry in (folder / "released").iterdir())


def files_with_the_mark(folder: Path) -> list[str]:
    """Files that hold the cell that no log may hold, in digits."""
    found = (path for path in folder.rglob("*") if path.is_file() and str(MARK).encode() in path.read_bytes())
    return sorted(path.relative_to(folder).as_posix() for path in found)
