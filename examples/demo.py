"""Runs the real command on the sample data in both worlds, and shows the truth beside what comes out.

Without a trusted party every row is privatised before anybody sees it, and shares and means are estimated from the private rows. With a
curator who may see the table, noise is added to the answers alone, and a ledger pays for them.

Everything is written into out/demo: copies of the two jobs with outputs there, and a ledger of its own, which is made anew each time.
"""

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
from dpcore.batch.release.job import load_release_job
from dpcore.cli import REFUSED

ROOT = Path(__file__).resolve().parent.parent
FOLDER = Path("out/demo")
JOB = FOLDER / "job.toml"
RELEASE = FOLDER / "release.toml"
BUDGET = 5.0


def dpcore(*arguments: object, expected: int = 0) -> str:
    """Run the command as a user would; its standard output is shown if it is for people."""
    print("$ dpcore", *arguments, flush=True)
    command = [sys.executable, "-m", "dpcore.cli", *map(str, arguments)]
    finished = subprocess.run(command, cwd=ROOT, check=False, stdout=subprocess.PIPE, text=True)
    if finished.returncode != expected:
        sys.exit(finished.returncode or 1)
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


def released_truth(query: dict[str, Any], column: Any) -> list[float]:
    """What the answers of a query are for: the statistic of the original column, clamped as declared."""
    if query["kind"] == "top_s":
        return [pc.sum(pc.equal(column, label)).as_py() for label in query["value"]]
    if "categories" in query:
        return [pc.sum(pc.equal(column.cast("string"), category)).as_py() for category in query["categories"]]
    values = column.to_numpy()
    match query["kind"]:
        case "count":
            return [int(((values >= query["lower"]) & (values <= query["upper"])).sum())]
        case "histogram":
            return np.histogram(np.clip(values, query["edges"][0], query["edges"][-1]), query["edges"])[0].tolist()
        case "quantile":
            return np.quantile(values, query["q"], method="inverted_cdf").tolist()
        case kind:
            clamped = np.clip(values, query["lower"], query["upper"])
            return [float(clamped.sum() if kind == "sum" else clamped.mean())]


def labels_of(query: dict[str, Any]) -> list[str]:
    """A name for each number of an answer."""
    match query["kind"]:
        case "histogram":
            starts = [f"from {edge:g}" for edge in query.get("edges", [])[:-1]]
            return starts or query["categories"]
        case "quantile":
            return [f"{100 * level:g} %" for level in query["q"]]
        case "top_s":
            return [f"{place}: {label}" for place, label in enumerate(query["value"], 1)]
        case kind:
            return [kind]


def released_comparison(queries: list[dict[str, Any]]) -> Table:
    """One line for each number: the truth, what was released, the interval, and whether it holds the truth."""
    table = Table("query", "ε", "", box=None, padding=(0, 2, 0, 0))
    for heading in ("truth", "released", "95 % interval", ""):
        table.add_column(heading, justify="right")
    original = pq.read_table(ROOT / load_release_job(ROOT / RELEASE).input.path)
    for query in queries:
        labels, truths = labels_of(query), released_truth(query, original[query["column"]])
        values = np.atleast_1d(query.get("counts", query["value"]))
        intervals = [None] * len(values) if query["interval"] is None else np.atleast_2d(query["interval"])
        for place, (label, true, value, pair) in enumerate(zip(labels, truths, values, intervals, strict=True)):
            names = (query["name"], f"{query['privacy']['epsilon']:g}") if place == 0 else ("", "")
            shown = "" if pair is None else f"{pair[0]:,.7g} to {pair[1]:,.7g}"
            misses = pair is not None and not pair[0] <= true <= pair[1]
            table.add_row(*names, label, f"{true:,.7g}", f"{value:,.7g}", shown, "misses" if misses else "")
    return table


def copy_jobs() -> None:
    """Copy the example jobs, with outputs and ledger in the folder of the demo: no other output or ledger is touched."""
    (ROOT / FOLDER).mkdir(parents=True, exist_ok=True)
    for copy in (JOB, RELEASE):
        text = (ROOT / "examples" / copy.name).read_text(encoding="utf-8")
        (ROOT / copy).write_text(text.replace("out/", "out/demo/").replace(f"examples/{copy.name}", copy.as_posix()), encoding="utf-8")


def local(console: Console) -> None:
    """Nobody holds the table: run the job, estimate from its output, and print the comparison."""
    job = load_job(ROOT / JOB)
    print(dpcore("privatize", JOB, "--overwrite", "--table"))
    output = Path(job.output.path)
    estimates = json.loads(dpcore("estimate", output, "--target", "sample", "--report", output.parent))
    console.print(f"\nThe private rows are in {output}, the page about them is {output.with_name(output.stem + '-estimate.html')}.\n")
    console.print(comparison(estimates["columns"]))
    legend = "Of these intervals about one in twenty misses the truth."
    console.print(f"\nn = {estimates['rows']:,}. {legend} From the private rows alone nobody can tell which.\n")


def central(console: Console) -> None:
    """A curator holds the table: make a budget, answer the queries of a job, and print the comparison."""
    job = load_release_job(ROOT / RELEASE)
    output, ledger = Path(job.output.path), Path(job.ledger.path)
    # The demo's own ledger, made anew: the answers are for you alone. A real one you keep, since without it what was spent is forgotten.
    (ROOT / ledger).unlink(missing_ok=True)
    print(dpcore("ledger", "create", ledger, "--epsilon", BUDGET, "--table"))
    released = json.loads(dpcore("release", RELEASE, "--overwrite", "--report", output.parent))
    console.print(f"\nThe answers are in {output}, the page about them is {output.with_suffix('.html')}.\n")
    console.print(released_comparison(released["queries"]))
    console.print(
        f"\nε = {job.total.epsilon:g} for all answers together, where the private rows above took {load_job(ROOT / JOB).total.epsilon:g}.\n"
    )
    print(dpcore("ledger", "show", ledger, "--table"))
    print("Once more would exceed the budget, so it is refused:")
    print(dpcore("release", RELEASE, "--overwrite", expected=REFUSED), flush=True)


def main() -> int:
    """Show both worlds."""
    copy_jobs()
    console = Console(width=None if sys.stdout.isatty() else 120, highlight=False)
    console.rule("Nobody holds the data: every row is privatised")
    local(console)
    console.rule("A curator holds the data: answers with noise")
    central(console)
    print(f"All of it is in {FOLDER.as_posix()}/: open the .html files in a browser. The same jobs are in examples/; they write to out/.")
    print("After `make demo` the command is in .venv/bin.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
