"""Privatises the sample data with the real command, then compares before and after with what the noise predicts."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from dpcore.batch import Plan, load_job, make_plan

ROOT = Path(__file__).resolve().parent.parent
JOB = Path("examples/job.toml")
HEADINGS = ("mean\nbefore", "mean\nafter", "noise\npredicts", "sd\nbefore", "sd\nafter", "noise\npredicts")


def comparison(plan: Plan) -> Table:
    """Mean and standard deviation of each column, before (clamped, as the job does it) and after.

    Noise of variance v on n rows moves the mean by a standard error of √(v/n) and makes the variance s² + v.
    """
    table = Table("column", "mechanism", box=None, padding=(0, 2, 0, 0))
    for heading in HEADINGS:
        table.add_column(heading, justify="right")
    before = pq.read_table(ROOT / plan.job.input.path)
    after = pq.read_table(ROOT / plan.output)
    for column in plan.columns:
        clamped = np.clip(before[column.name].to_numpy(), column.lower, column.upper)
        noisy = after[column.name].to_numpy()
        error = math.sqrt(column.variance / len(noisy))
        numbers = (
            f"{clamped.mean():.3f}",
            f"{noisy.mean():.3f}",
            f"± {1.96 * error:.3f}",
            f"{clamped.std():.3f}",
            f"{noisy.std():.3f}",
            f"{math.sqrt(clamped.var() + column.variance):.3f}",
        )
        table.add_row(column.name, column.mechanism, *numbers)
    return table


def main() -> int:
    """Run the job, then print where the result is and the comparison."""
    command = ["privatize", str(JOB), "--overwrite"]
    print("$ dpcore", *command, flush=True)
    finished = subprocess.run([sys.executable, "-m", "dpcore.cli", *command], cwd=ROOT, check=False)
    if finished.returncode:
        return finished.returncode
    plan = make_plan(load_job(ROOT / JOB), overwrite=True)
    console = Console()
    console.print(f"\nThe result is {plan.output}, made from {plan.job.input.path} as {JOB} says.\n", highlight=False)
    console.print(comparison(plan))
    legend = "The mean after lies within ± of the mean before in 19 runs of 20: one in twenty misses."
    console.print(f"\nn = {plan.rows:,}. {legend}", highlight=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
