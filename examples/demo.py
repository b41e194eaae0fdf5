"""Runs the real command on the sample data in both worlds, and shows the truth beside what comes out.

Without a trusted party every row is privatised before anybody sees it, and shares and means are estimated from the private rows. With a
curator who may see the table, noise is added to the answers alone, and a ledger pays for them.

Everything is written into out/demo: copies of the two jobs with outputs there, and a ledger of its own, which is made anew each time.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from dpcore.batch import load_job, load_release_job
from dpcore.cli import REFUSED

ROOT = Path(__file__).resolve().parent.parent
FOLDER = Path("out/demo")
JOB = FOLDER / "job.toml"
RELEASE = FOLDER / "release.toml"
BUDGET = 5.0


def dpcore(what: str, *arguments: object, expected: int = 0) -> str:
    """Print what is done, and run the command as a user would; its standard output is shown if it is for people."""
    print(f"== {what}\n$ dpcore", *arguments, flush=True)
    began = time.monotonic()
    command = [sys.executable, "-m", "dpcore.cli", *map(str, arguments)]
    finished = subprocess.run(command, cwd=ROOT, check=False, stdout=subprocess.PIPE, text=True)
    if finished.returncode != expected:
        sys.exit(finished.returncode or 1)
    ended = "done" if expected == 0 else f"refused, as it should be (exit code {expected}),"
    print(f"== {ended} in {time.monotonic() - began:.1f} seconds", flush=True)
    return finished.stdout


def truth(column: dict[str, Any], original: Any) -> list[float]:
    """What the estimates of a column are for: the statistic of the original, clamped, unknown categories replaced."""
    match column["kind"]:
        case "mean":
            return [float(np.clip(original.to_numpy(), column["lower"], column["upper"]).mean())]
        case "proportion":
            return [float(original.to_numpy().mean())]
        case "frequencies":
            counts = in_categories(column, original)
            return [count / len(original) for count in counts]
    raise ValueError(f"the demo does not know the truth of an estimate of kind {column['kind']!r}")


def in_categories(declared: dict[str, Any], column: Any) -> list[int]:
    """How many rows have each category; missing and unknown ones count as what is declared for them, or not at all."""
    listed = declared["categories"]
    values = column.cast("string") if isinstance(listed[0], str) else column
    counts = [pc.sum(pc.equal(values, category)).as_py() or 0 for category in listed]
    others = {"missing": values.null_count, "unknown": len(values) - values.null_count - sum(counts)}
    for key, count in others.items():
        if declared.get(key) in listed:
            counts[listed.index(declared[key])] += count
    return counts


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


def released_truth(query: dict[str, Any], table: Any) -> list[float]:
    """What the answers of a query are for: the statistic of the original columns, clamped as declared."""
    if query["kind"] not in TRUTHS or query.get("where") is not None or query.get("group_by") is not None:
        raise ValueError(f"the demo does not know the truth of {query['name']!r}: kind {query['kind']!r}, or a filter or groups")
    return TRUTHS[query["kind"]](query, table)


def numbers(query: dict[str, Any], table: Any, *, bounds: bool = True) -> Any:
    """The numbers of the query's column: missing ones replaced or left out, the others clamped."""
    column, missing = table[query["column"]], query.get("missing")
    column = column.drop_null() if missing in {None, "skip"} else pc.fill_null(column, missing)
    values = column.to_numpy().astype(np.float64)
    return np.clip(values, query["lower"], query["upper"]) if bounds else values


def counted(query: dict[str, Any], table: Any) -> list[float]:
    """The rows; of a count with a column those that it is about."""
    if query.get("column") is None:
        return [table.num_rows]
    if query.get("categories") is not None:
        return [sum(in_categories(query, table[query["column"]]))]
    values = numbers({**query, "missing": "skip"}, table, bounds=False)
    return [len(values) if query.get("lower") is None else int(((values >= query["lower"]) & (values <= query["upper"])).sum())]


def in_cells(query: dict[str, Any], table: Any) -> list[float]:
    """The rows with each category, or in each bin."""
    if query.get("categories") is not None:
        return [*in_categories(query, table[query["column"]])]
    edges = query["edges"]
    values = numbers(query, table, bounds=False)
    return [float(count) for count in np.histogram(np.clip(values, edges[0], edges[-1]), edges)[0]]


def quantiles(query: dict[str, Any], table: Any) -> list[float]:
    """The quantiles of the numbers."""
    return [float(point) for point in np.atleast_1d(np.quantile(numbers(query, table, bounds=False), query["q"], method="inverted_cdf"))]


TRUTHS: dict[str, Callable[[dict[str, Any], Any], list[float]]] = {
    "count": counted,
    "histogram": in_cells,
    "sum": lambda query, table: [float(numbers(query, table).sum())],
    "mean": lambda query, table: [float(numbers(query, table).mean())],
    "var": lambda query, table: [float(numbers(query, table).var(ddof=query["ddof"]))],
    "std": lambda query, table: [float(numbers(query, table).std(ddof=query["ddof"]))],
    "quantile": quantiles,
    "median": quantiles,
    "top_s": lambda query, table: [pc.sum(pc.equal(table[query["column"]], label)).as_py() for label in query["value"]],
}
"""The truth of each kind of query that the demo knows. A kind that is not here is an error: another one's truth would be a wrong one."""


def labels_of(query: dict[str, Any]) -> list[str]:
    """A name for each number of an answer."""
    match query["kind"]:
        case "histogram":
            starts = [f"from {edge:g}" for edge in query.get("edges", [])[:-1]]
            return starts or query["categories"]
        case "quantile" | "median":
            return [f"{100 * level:g} %" for level in np.atleast_1d(query["q"])]
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
        labels, truths = labels_of(query), released_truth(query, original)
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
    print(dpcore("randomise every row of the sample table", "privatize", JOB, "--overwrite", "--table"))
    output = Path(job.output.path)
    estimates = json.loads(
        dpcore("estimate from the randomised rows, and write a page", "estimate", output, "--target", "sample", "--report", output.parent)
    )
    print("== compare with the truth, which the demo may read", flush=True)
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
    print(dpcore("make a ledger with a budget", "ledger", "create", ledger, "--epsilon", BUDGET, "--table"))
    released = json.loads(
        dpcore(
            "answer the queries with noise, charge the ledger, and write a page",
            "release",
            RELEASE,
            "--overwrite",
            "--report",
            output.parent,
        )
    )
    print("== compare with the truth", flush=True)
    console.print(f"\nThe answers are in {output}, the page about them is {output.with_suffix('.html')}.\n")
    console.print(released_comparison(released["queries"]))
    console.print(
        f"\nε = {job.total.epsilon:g} for all answers together, where the private rows above took {load_job(ROOT / JOB).total.epsilon:g}.\n"
    )
    print(dpcore("show what is left", "ledger", "show", ledger, "--table"))
    print(dpcore("Once more would exceed the budget, so it is refused:", "release", RELEASE, "--overwrite", expected=REFUSED), flush=True)


def main() -> int:
    """Show both worlds."""
    print("== copy the example jobs to out/demo; each command below first loads its libraries, which takes a second or two", flush=True)
    copy_jobs()
    console = Console(width=None if sys.stdout.isatty() else 120, highlight=False)
    console.rule("Nobody holds the data: every row is privatised")
    local(console)
    console.rule("A curator holds the data: answers with noise")
    central(console)
    print("== the demo is complete; the refusal above belongs to it")
    print(f"All of it is in {FOLDER.as_posix()}/: open the .html files in a browser. The same jobs are in examples/; they write to out/.")
    print("After `make demo` the command is in .venv/bin.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
