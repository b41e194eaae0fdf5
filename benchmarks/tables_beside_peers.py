"""Releases by dpcore, OpenDP, Tumult Analytics and PipelineDP of one table, ε = 1.

`cells` asks counts and means by two columns, people bounded; `persons` asks how many have how many visits, and a mean of costs.
Each tool has an interpreter of its own, because their requirements contradict each other, and a program in `beside/`.
They take turns on one file. Peers whose interpreter is not given are left out. Where people have more rows than take part, each tool makes
a choice of its own, and no errors of cells are computed.

    pip install 'opendp[polars]==0.16.0'                            # in an environment for each
    pip install tmlt.analytics==0.21.0                              # needs Java
    pip install pipeline-dp==0.3.1 python-dp==1.1.5 duckdb
    python benchmarks/tables_beside_peers.py --rows 1000000 --turns 5 --opendp PYTHON --tumult PYTHON --pipelinedp PYTHON
    python benchmarks/tables_beside_peers.py --rows 1000000 --turns 5 --rows-of-person 6 --opendp PYTHON
    python benchmarks/tables_beside_peers.py --rows 20000 --turns 1000 --opendp PYTHON       # for the errors
    python benchmarks/tables_beside_peers.py --question persons --rows 1000000 --rows-of-person 4 --turns 3 --opendp PYTHON --tumult PYTHON
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import statistics
import subprocess
import sys
import tempfile
import tokenize
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

import duckdb

BESIDE = Path(__file__).with_name("beside")
TOOLS = ("dpcore", "opendp", "tumult", "pipelinedp")
REGIONS, BANDS = 8, 13
LIMIT = 3
"""Rows of a person that take part."""
EDGES, UPPER = [1, 2, 3, 5, 9, 17, 2**40], 4000
"""Bins of visits, and the bound on what a person costs."""
CELLS = f"""
copy (
  select (i * 7919 % greatest({{rows}} // {{of_person}}, 1))::bigint as person, (hash(i + 1000000007) % {REGIONS})::bigint as region,
    (hash(i + 2000000011) % {BANDS})::bigint as band, (hash(i + 3000000019) % 200)::bigint as income
  from range({{rows}}) as rows(i)
) to '{{path}}' (format parquet)
"""
"""People with some rows each, in 104 cells. If there are no more than take part, errors are those of the noise."""
VISITS = """
copy (
  select floor(greatest({rows} // {of_person}, 1) * pow((hash(i + 1000000007) % 1048576) / 1048576, 2))::bigint as person,
    (hash(i + 2000000011) % 8)::bigint as ward, (hash(i + 3000000019) % 1000)::bigint as cost
  from range({rows}) as rows(i)
) to '{path}' (format parquet)
"""
"""Visits of persons, of whom some have one and some hundreds."""
Truth = dict[tuple, tuple[float, ...]]


def cells(table: Path, of_person: int) -> Truth:
    """Counts and means without noise, if all rows take part."""
    if of_person > LIMIT:
        return {}
    sql = f"select region, band, count(*), avg(income) from '{table}' group by all"
    return {(region, band): numbers for region, band, *numbers in duckdb.sql(sql).fetchall()}


def persons(table: Path, _of_person: int) -> Truth:
    """The same of persons."""
    made = f"select person, count(*) as visits, sum(cost) as cost from '{table}' group by all"
    found = dict.fromkeys(((low,) for low in EDGES[:-1]), (0,))
    for visits, number in duckdb.sql(f"select visits, count(*) from ({made}) group by all").fetchall():
        low = EDGES[bisect_right(EDGES, visits) - 1]
        found[low,] = (found[low,][0] + number,)
    return found | {("cost",): duckdb.sql(f"select avg(least(cost, {UPPER})) from ({made})").fetchall()[0]}


@dataclass(frozen=True)
class Question:
    """What the programs are called, the table that is asked about, what else they are given, the truth, and names of its numbers."""

    programs: str
    table: str
    arguments: list
    truth: Callable[[Path, int], Truth]
    names: Callable[[tuple], tuple[str, ...]]


QUESTIONS = {
    "cells": Question("release", CELLS, [list(range(REGIONS)), list(range(BANDS))], cells, lambda _: ("counts", "means")),
    "persons": Question("persons", VISITS, [EDGES, UPPER], persons, lambda key: ("the mean",) if key == ("cost",) else ("counts",)),
}


def size(script: Path) -> dict[str, int]:
    """Lines in the functions that release, without blank ones, all formatted alike, and words and signs, which no layout changes."""
    text = script.read_text(encoding="utf-8")
    functions = [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef) and node.name != "scales"]
    body = "\n".join(line for function in functions for line in text.splitlines()[function.lineno : function.end_lineno])
    layout = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    tokens = [token for token in tokenize.generate_tokens(StringIO(f"if True:\n{body}\n").readline) if token.type not in layout]
    count = _without_parts_of_text([token.type for token in tokens]) - len(["if", "True", ":"])
    return {"lines": sum(bool(line.strip()) for line in body.splitlines()), "words and signs": count}


def _without_parts_of_text(kinds: list[int]) -> int:
    """How many tokens there are if an f-string is one, as it was before Python 3.12."""
    begin, end = getattr(tokenize, "FSTRING_START", None), getattr(tokenize, "FSTRING_END", None)
    count = depth = 0
    for kind in kinds:
        count += depth == 0
        depth += (kind == begin) - (kind == end)
    return count


def least_median_most(seconds: list[float]) -> list[float]:
    """What the turns took."""
    return [round(value, 3) for value in (min(seconds), statistics.median(seconds), max(seconds))]


class Tool:
    """A tool in its process, and what it gave at each turn."""

    def __init__(self, name: str, python: str, question: Question, table: Path) -> None:
        self.name, self.question, self.script = name, question, BESIDE / f"{name}_{question.programs}.py"
        command = [python, str(BESIDE / "turn.py"), str(self.script), str(table), json.dumps(question.arguments)]
        # Not in the source tree, whose files would be imported instead of what is installed. Spark listens on this machine alone.
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd="/",
            env=os.environ | {"SPARK_LOCAL_IP": "127.0.0.1"},
        )
        self.turns: list[dict] = []

    def call(self, function: str) -> dict:
        """What one of its functions gives and costs."""
        self.process.stdin.write(f"{function}\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        return json.loads(answer) if answer else {"error": "the process ended"}

    def turn(self) -> None:
        """Let it work once."""
        self.turns.append(self.call("release"))
        print(f"{self.name}: { ({**self.turns[-1], 'found': ...}) }", file=sys.stderr)

    def scales(self) -> dict:
        """The scales of noise that it declares, if its program asks for them."""
        answer = self.call("scales") if "def scales" in self.script.read_text(encoding="utf-8") else {}
        return {"scales": answer.get("found", answer.get("error"))} if answer else {}

    def end(self) -> None:
        """End its process."""
        self.process.stdin.close()
        self.process.wait()

    def errors(self, truth: Truth) -> dict:
        """Mean absolute errors over keys and turns."""
        errors: dict[str, list[float]] = {}
        for key, numbers in (answer for turn in self.turns for answer in turn["found"]):
            for name, found, true in zip(self.question.names(tuple(key)), numbers, truth[tuple(key)], strict=True):
                errors.setdefault(name, []).append(abs(found - true))
        means = {f"error of {name}": statistics.fmean(each) for name, each in errors.items()}
        return means | {"answers": {name: len(each) for name, each in errors.items()}}

    def summary(self, truth: Truth) -> dict:
        """Medians of what the turns took but for the first, and errors if there is a truth."""
        if failed := next((turn["error"] for turn in self.turns if "error" in turn), None):
            return {"tool": self.name, "error": failed}
        later = self.turns[1:] or self.turns
        return {
            "tool": self.name,
            "versions": self.turns[0]["versions"],
            **size(self.script),
            **(self.errors(truth) if truth else {}),
            "first, s": self.turns[0]["wall"],
            "seconds": least_median_most([turn["wall"] for turn in later]),
            "CPU seconds": least_median_most([turn["cpu"] for turn in later]),
            "memory, MB": max(turn["memory"] for turn in self.turns),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--question", choices=QUESTIONS, default="cells")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--rows-of-person", type=int, default=2)
    parser.add_argument("--dpcore", default=sys.executable)
    for name in TOOLS[1:]:
        parser.add_argument(f"--{name}")
    given = parser.parse_args()
    question = QUESTIONS[given.question]
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder, "people.parquet")
        duckdb.sql(question.table.format(rows=given.rows, of_person=given.rows_of_person, path=table))
        truth = question.truth(table, given.rows_of_person)
        tools = [
            Tool(name, python, question, table)
            for name in TOOLS
            if (python := getattr(given, name)) and (BESIDE / f"{name}_{question.programs}.py").exists()
        ]
        for _ in range(given.turns):
            for tool in tools:
                tool.turn()
        scales = {tool.name: tool.scales() for tool in tools}
        for tool in tools:
            tool.end()
        asked = {"question": given.question, "rows": given.rows, "rows of a person": given.rows_of_person, "turns": given.turns}
        print(json.dumps({**asked, "tools": [tool.summary(truth) | scales[tool.name] for tool in tools]}, indent=2))


if __name__ == "__main__":
    main()
