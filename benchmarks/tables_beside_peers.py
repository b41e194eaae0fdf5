"""One release by dpcore, OpenDP, Tumult Analytics and PipelineDP: counts and means by two columns, people bounded, ε = 1.

Each tool has an interpreter of its own, because their requirements contradict each other, and a program in `beside/`.
They take turns on one file. Peers whose interpreter is not given are left out.

    pip install 'opendp[polars]==0.16.0'                            # in an environment for each
    pip install tmlt.analytics==0.21.0                              # needs Java
    pip install pipeline-dp==0.3.1 python-dp==1.1.5 duckdb
    python benchmarks/tables_beside_peers.py --rows 1000000 --turns 5 --opendp PYTHON --tumult PYTHON --pipelinedp PYTHON
"""

from __future__ import annotations

import argparse
import ast
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import duckdb

BESIDE = Path(__file__).with_name("beside")
TOOLS = ("dpcore", "opendp", "tumult", "pipelinedp")
REGIONS, BANDS = 8, 13
MAKE = f"""
copy (
  select (i * 7919 % greatest({{rows}} // 2, 1))::bigint as person, (hash(i + 1000000007) % {REGIONS})::bigint as region,
    (hash(i + 2000000011) % {BANDS})::bigint as band, (hash(i + 3000000019) % 200)::bigint as income
  from range({{rows}}) as rows(i)
) to '{{path}}' (format parquet)
"""
"""People with two rows each, so that a limit of three costs none and errors are those of the noise, in 104 cells."""


def lines_of_code(script: Path) -> int:
    """Lines of `release`, without blank ones and comments."""
    text = script.read_text(encoding="utf-8")
    function = next(node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef) and node.name == "release")
    lines = text.splitlines()[function.lineno : function.end_lineno]
    return sum(bool(line.strip()) and not line.strip().startswith("#") for line in lines)


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

    def summary(self, truth: dict[tuple[int, int], tuple[float, float]]) -> dict:
        """Medians of what the turns took but for the first, and mean absolute errors over cells and turns."""
        if failed := next((turn["error"] for turn in self.turns if "error" in turn), None):
            return {"tool": self.name, "error": failed}
        later = self.turns[1:] or self.turns
        errors = [
            [abs(found - true) for found, true in zip(cell[2:], truth[cell[0], cell[1]], strict=True)]
            for turn in self.turns
            for cell in turn["cells"]
        ]
        return {
            "tool": self.name,
            "versions": self.turns[0]["versions"],
            "lines": lines_of_code(self.script),
            "error of counts": statistics.fmean(error[0] for error in errors),
            "error of means": statistics.fmean(error[1] for error in errors),
            "first, s": self.turns[0]["wall"],
            "seconds": statistics.median(turn["wall"] for turn in later),
            "CPU seconds": statistics.median(turn["cpu"] for turn in later),
            "memory, MB": max(turn["memory"] for turn in self.turns),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--dpcore", default=sys.executable)
    for name in TOOLS[1:]:
        parser.add_argument(f"--{name}")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder, "people.parquet")
        duckdb.sql(MAKE.format(rows=given.rows, path=table))
        sql = f"select region, band, count(*), avg(income) from '{table}' group by all"
        truth = {(region, band): (count, mean) for region, band, count, mean in duckdb.sql(sql).fetchall()}
        tools = [Tool(name, python, table) for name in TOOLS if (python := getattr(given, name))]
        for _ in range(given.turns):
            for tool in tools:
                tool.turn()
        for tool in tools:
            tool.end()
        print(json.dumps({"rows": given.rows, "turns": given.turns, "tools": [tool.summary(truth) for tool in tools]}, indent=2))


if __name__ == "__main__":
    main()
