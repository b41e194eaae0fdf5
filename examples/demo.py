"""Privatises the sample data and estimates from the result, both with the real command, then shows the truth beside the estimates."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from dpcore.batch import load_job

ROOT = Path(__file__).resolve().parent.parent
JOB = Path("examples/job.toml")


def dpcore(*arguments: object) -> str:
    """Run the command as a user would; its standard output is shown if it is for people."""
    print("$ dpcore", *arguments, flush=True)
    command = [sys.executable, "-m", "dpcore.cli", *map(str, arguments)]
    finished = subprocess.run(command, cwd=ROOT, check=False, stdout=subprocess.PIPE, text=True)
    if finished.returncode:
        sys.exit(finished.returncode)
    return finished.stdout


def truth(column: dict[str, Any], original: Any) -> list[float]:
    """What the estimates of a column are for: the statistic of the original, clamped, unknown categories replaced."""
    if column["kind"] == "mean":
        return [float(np.clip(original.to_numpy(), column["lower"], column["upper"]).mean())]
    if column["kind"] == "proportion":
        return [float(original.to_numpy().mean())]
    values = original.cast("string") if isinstance(column["categories"][0], str) else original
    counts = [pc.sum(pc.equal(values, category)).as_py() for category in column["categories"]]
    if column["unknown"] is not None:
        counts[column["categories"].index(column["unknown"])] += len(values) - sum(counts)
    return [count / len(values) for count in counts]


def comparison(columns: list[dict[str, Any]]) -> Table:
    """One line for each number: the truth, the estimate, the interval, and whether it holds the truth."""
    table = Table("column", "mechanism", "", box=None, padding=(0, 2, 0, 0))
    for heading in ("truth", "estimate", "95 % interval", ""):
        table.add_column(heading, justify="right")
    original = pq.read_table(ROOT / load_job(ROOT / JOB).input.path)
    for column in columns:
        labels = [str(category) for category in column["categories"]] if column["kind"] == "frequencies" else [column["kind"]]
        numbers = zip(
            labels,
            truth(column, original[column["name"]]),
            np.atleast_1d(column["value"]),
            np.atleast_2d(column["interval"]),
            strict=True,
        )
        for place, (label, true, value, (lower, upper)) in enumerate(numbers):
            names = (column["name"], column["mechanism"]) if place == 0 else ("", "")
            holds = "" if lower <= true <= upper else "misses"
            table.add_row(*names, label, f"{true:.3f}", f"{value:.3f}", f"{lower:.3f} to {upper:.3f}", holds)
    return table


def main() -> int:
    """Run the job, estimate from its output, and print the comparison."""
    job = load_job(ROOT / JOB)
    print(dpcore("privatize", JOB, "--overwrite"))
    output = Path(job.output.path)
    estimates = json.loads(dpcore("estimate", output, "--target", "sample", "--report", output.parent))
    console = Console(width=None if sys.stdout.isatty() else 120, highlight=False)
    console.print(f"\nThe private rows are in {output}, the page about them is {output.with_name(output.stem + '-estimate.html')}.\n")
    console.print(comparison(estimates["columns"]))
    legend = "Of these intervals about one in twenty misses the truth."
    console.print(f"\nn = {estimates['rows']:,}. {legend} Who has only the private rows cannot tell which.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
