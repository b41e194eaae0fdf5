"""One release by dpcore, OpenDP, Tumult Analytics and PipelineDP: counts and means by two columns, people bounded, ε = 1.

Each tool has an interpreter of its own, because their requirements contradict each other, and a program in `beside/`.
They take turns on one file. Peers whose interpreter is not given are left out. Where people have more rows than take part, each tool makes
a choice of its own, and no errors are computed.

    pip install 'opendp[polars]==0.16.0'                            # in an environment for each
    pip install tmlt.analytics==0.21.0                              # needs Java
    pip install pipeline-dp==0.3.1 python-dp==1.1.5 duckdb
    python benchmarks/tables_beside_peers.py --rows 1000000 --turns 5 --opendp PYTHON --tumult PYTHON --pipelinedp PYTHON
    python benchmarks/tables_beside_peers.py --rows 1000000 --turns 5 --rows-of-person 6 --opendp PYTHON
    python benchmarks/tables_beside_peers.py --rows 20000 --turns 1000 --opendp PYTHON       # for the errors
"""

from __future__ import annotations

import argparse
import ast
import json
import statistics
import subprocess
import sys
import tempfile
import tokenize
from io import StringIO
from pathlib import Path

import duckdb

BESIDE = Path(__file__).with_name("beside")
TOOLS = ("dpcore", "opendp", "tumult", "pipelinedp")
REGIONS, BANDS = 8, 13
LIMIT = 3
"""Rows of a person that take part."""
MAKE = f"""
copy (
  select (i * 7919 % greatest({{rows}} // {{of_person}}, 1))::bigint as person, (hash(i + 1000000007) % {REGIONS})::bigint as region,
    (hash(i + 2000000011) % {BANDS})::bigint as band, (hash(i + 3000000019) % 200)::bigint as income
  from range({{rows}}) as rows(i)
) to '{{path}}' (format parquet)
"""
"""People with some rows each, in 104 cells. If there are no more than take part, errors are those of the noise."""


def size(script: Path) -> dict[str, int]:
    """Lines of the body of `release`, without blank ones, all formatted alike, and its words and signs, which no layout changes."""
    text = script.read_text(encoding="utf-8")
    function = next(node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef) and node.name == "release")
    body = "\n".join(text.splitlines()[function.lineno : function.end_lineno])
    layout = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    tokens = [token for token in tokenize.generate_tokens(StringIO(f"if True:\n{body}\n").readline) if token.type not in layout]
    return {"lines": sum(bool(line.strip()) for line in body.splitlines()), "words and signs": len(tokens) - len(["if", "True", ":"])}


def least_median_most(seconds: list[float]) -> list[float]:
    """What the turns took."""
    return [round(value, 3) for value in (min(seconds), statistics.median(seconds), max(seconds))]


class Tool:
    """A tool in its process, and what it gave at each turn."""

    def __init__(self, name: str, python: str, table: Path) -> None:
        self.name, self.script = name, BESIDE / f"{name}_release.py"
        command = [python, str(BESIDE / "turn.py"), str(self.script), str(table), str(REGIONS), str(BANDS)]
        # Not in the source tree, whose files would be imported instead of what is installed.
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd="/"
        )
        self.turns: list[dict] = []

    def turn(self) -> None:
        """Let it work once."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        self.turns.append(json.loads(answer) if answer else {"error": "the process ended"})

    def end(self) -> None:
        """End its process."""
        self.process.stdin.close()
        self.process.wait()

    def errors(self, truth: dict[tuple[int, int], tuple[float, float]]) -> dict:
        """Mean absolute errors over cells and turns."""
        errors = [
            [abs(found - true) for found, true in zip(cell[2:], truth[cell[0], cell[1]], strict=True)]
            for turn in self.turns
            for cell in turn["cells"]
        ]
        means = {f"error of {name}": statistics.fmean(error[i] for error in errors) for i, name in enumerate(("counts", "means"))}
        return means | {"answers": len(errors)}

    def summary(self, truth: dict[tuple[int, int], tuple[float, float]]) -> dict:
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
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--rows-of-person", type=int, default=2)
    parser.add_argument("--dpcore", default=sys.executable)
    for name in TOOLS[1:]:
        parser.add_argument(f"--{name}")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder, "people.parquet")
        duckdb.sql(MAKE.format(rows=given.rows, of_person=given.rows_of_person, path=table))
        sql = f"select region, band, count(*), avg(income) from '{table}' group by all"
        truth = {}
        if given.rows_of_person <= LIMIT:
            truth = {(region, band): (count, mean) for region, band, count, mean in duckdb.sql(sql).fetchall()}
        tools = [Tool(name, python, table) for name in TOOLS if (python := getattr(given, name))]
        for _ in range(given.turns):
            for tool in tools:
                tool.turn()
        for tool in tools:
            tool.end()
        table = {"rows": given.rows, "rows of a person": given.rows_of_person, "turns": given.turns}
        print(json.dumps({**table, "tools": [tool.summary(truth) for tool in tools]}, indent=2))


if __name__ == "__main__":
    main()
