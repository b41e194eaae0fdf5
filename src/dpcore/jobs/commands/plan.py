"""What `dpcore plan` does."""

from __future__ import annotations

import math
import re
import sys
from typing import TYPE_CHECKING, Any

import click

from dpcore._terminal import make_table, print_table, wants_json
from dpcore._validation import check_real
from dpcore.errors import BudgetError, JobError, ParameterError, ParameterTypeError
from dpcore.jobs.commands.words import write_reports
from dpcore.jobs.release_job import load_unlimited
from dpcore.jobs.settings import Settings
from dpcore.pages.numbers import json_text, percentage_of, plain_name, plain_number, written
from dpcore.planning.answers import sample_size
from dpcore.query.planning import ALL, MEANINGS, Assumed, Planning, Target, pages_of, plan_report, planned, plannings_of
from dpcore.query.prose import numbers_in_words
from dpcore.query.request import within_budget
from dpcore.tables.local_paths import check_local
from dpcore.tables.near_names import suggestion

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from rich.table import Table

    from dpcore.query.planning import Planned
    from dpcore.query.request import ReleaseJob

NUMBER = r"[+-]?[0-9][0-9_]*(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"
TARGET = re.compile(
    rf"(?:±\s*)?(?P<amount>{NUMBER})\s*(?P<percent>%)?(?:\s+of\s+(?P<value>{NUMBER}))?"
    rf"(?:\s+in\s+(?P<all>all)(?:\s+cells)?|\s+in\s+(?P<cells>[0-9_]+)\s+cells)?(?:\s*@\s*(?P<confidence>{NUMBER})\s*%)?"
)
EXAMPLE = '"NAME: 20", "NAME: 5% of 400", "NAME: 5% of 400 in all cells @ 99%"'
ROWS_HEADINGS = ("query", "may be off by", "in", "confidence", "epsilon of the job", "needs rows", "off with one row less")
HEADINGS = ("query", "may be off by", "in", "confidence", "needs epsilon", "weight", "epsilon of the job", "off by then", "needs at least")

COLUMNS = (
    "weight: that which gives the needed epsilon; – if the query has an epsilon of its own. off by then: with the epsilon of the job. "
    "needs at least: the fewest rows, or the smallest answer, for which the epsilon of the job meets the target; – if neither matters."
)
"""What stands below the table of targets."""


def run(
    job: Path,
    targets: Sequence[str],
    sizes: Sequence[str],
    assumed: Sequence[str],
    source: str | None,
    given: Sequence[str],
    folder: Path | None,
    *,
    as_json: bool | None,
) -> None:
    """Plan a job; the entry point turns errors into exit codes."""
    if folder is not None:
        check_local("--report", str(folder))
    loaded = load_unlimited(job, Settings.read(given, source=source))
    known = assumed_of(assumed)
    plannings, excess = _plannings(loaded, known)
    wanted = [target_of(text, plannings) for text in targets]
    pages = None if folder is None else pages_of(folder, job)
    found = [planned(planning, target, known) for planning, target in wanted]
    rows = [sized(text, plannings) for text in sizes]
    report = plan_report(loaded, plannings, found, known) | {"exceeds": excess}
    if rows:
        report["rows"] = rows
    if pages is not None:
        write_reports(pages, report)
    if wants_json(as_json):
        click.echo(json_text(report))
        return
    parts: list[Table | str] = [target_table(found), COLUMNS + "\n"] if found else []
    parts += [rows_table(rows), ""] if rows else []
    print_table(*parts, error_table(report), "\n".join(notes(report)))


def _plannings(job: ReleaseJob, known: Assumed) -> tuple[list[Planning], str | None]:
    """The queries of a job, for any ε; and what is said of a job whose queries together spend more than it allows."""
    try:
        return plannings_of(within_budget(job), None, known), None
    except BudgetError as error:
        excess = str(error)
    limits: dict[str, float] = {"max_epsilon": sys.float_info.max}
    if job.privacy.accounting == "basic":
        limits["max_delta"] = math.nextafter(1.0, 0.0)
    if any(query.weight is not None for query in job.query):  # whose ε is a share of what the others leave
        raise BudgetError(excess)
    roomy = job.model_copy(update={"privacy": job.privacy.model_copy(update=limits)})
    return plannings_of(within_budget(roomy), None, known), excess


def sized(text: str, plannings: Sequence[Planning]) -> dict[str, Any]:
    """The least number of rows that meets a target with the ε that the job gives, as JSON has it."""
    planning, target = target_of(text, plannings, "--rows")
    try:
        plan = sample_size(planning, width=2 * target.half_width, confidence=target.confidence, cells=target.cells)
    except ParameterError as error:
        raise JobError(f"--rows {text!r}, which is half of a width: {error}") from None
    return {
        "name": planning.query.name,
        "kind": planning.query.kind,
        "target": {"half_width": target.half_width, "share": target.share, "confidence": target.confidence, "cells": target.cells},
        "epsilon": plan.epsilon,
        "rows": plan.n,
        "half_width": plan.error / 2,
        "half_width_at_less": None if math.isnan(plan.error_at_less) else plan.error_at_less / 2,
    }


def rows_table(found: Sequence[Mapping[str, Any]]) -> Table:
    """How many rows each target needs with the ε of the job."""
    return make_table(ROWS_HEADINGS, map(_rows_line, found))


def _rows_line(each: Mapping[str, Any]) -> tuple[str | None, ...]:
    target, less = each["target"], each["half_width_at_less"]
    cells = "each number" if target["cells"] == 1 else "all numbers" if target["cells"] == ALL else f"{target['cells']:,} numbers"
    return (
        plain_name(each["name"]),
        plain_number(target["half_width"], 4),
        cells,
        percentage_of(target["confidence"]),
        plain_number(each["epsilon"], 4),
        written(each["rows"], ",.0f"),
        None if less is None else plain_number(less, 6),
    )


def assumed_of(given: Sequence[str]) -> Assumed:
    """What `--assume` says."""
    numbers: dict[str, float] = {}
    for text in given:
        key, equals, number = text.partition("=")
        try:
            numbers[key.strip()] = float(number.replace("_", ""))
        except ValueError:
            raise JobError(f"--assume must be KEY=NUMBER such as n=10000, got {text!r}") from None
        if not equals:
            raise JobError(f"--assume must be KEY=NUMBER such as n=10000, got {text!r}")
    try:
        return Assumed.of(numbers)
    except (ParameterError, ParameterTypeError) as error:
        raise JobError(f"--assume: {error}") from None


def target_of(text: str, plannings: Sequence[Planning], option: str = "--target") -> tuple[Planning, Target]:
    """The query of a target, and the target."""
    names = [planning.query.name for planning in plannings]
    name, colon, rest = text.rpartition(":")
    if not colon and len(names) > 1:
        raise JobError(f"{option} {text!r} names no query, and the job has {len(names)}: write {EXAMPLE}")
    if colon and name.strip() not in names:
        raise JobError(
            f"{option} names {name.strip()!r}, but the queries are {', '.join(map(repr, names[:20]))}.{suggestion(name.strip(), names)}"
        )
    found = TARGET.fullmatch(rest.strip())
    if found is None or (found["percent"] is None) != (found["value"] is None):
        raise JobError(f"{option} must be like {EXAMPLE}, got {text!r}")
    amount = float(found["amount"].replace("_", ""))
    if found["percent"] is not None and amount > 100:
        raise JobError(f"{option} must be at most 100 % of an answer, got {text!r}")
    cells: Any = ALL if found["all"] else int((found["cells"] or "1").replace("_", ""))
    try:
        confidence = check_real(
            "confidence", float(found["confidence"] or 95) / 100, low=0.0, high=1.0, include_low=False, include_high=False
        )
        value = None if found["value"] is None else float(found["value"].replace("_", ""))
        target = Target.of(amount if value is None else None, None if value is None else (amount / 100, value), confidence, cells)
    except (ParameterError, ParameterTypeError) as error:
        raise JobError(f"{option} {text!r}: {error}") from None
    return plannings[names.index(name.strip()) if colon else 0], target


def target_table(found: Sequence[Planned]) -> Table:
    """What each target needs."""
    return make_table(HEADINGS, map(_line, found))


def _line(each: Planned) -> tuple[str | None, ...]:
    target, rows = each.target, " rows" if each.in_rows else ""
    share = "" if target.share is None else f" ({percentage_of(target.share)} of {plain_number(target.half_width / target.share, 6)})"
    smallest = None
    if each.smallest is not None:
        what, size = each.smallest
        smallest = f"{written(size, ',.0f')} rows" if what == "n" else plain_number(size, 4)
    return (
        plain_name(each.name),
        f"{plain_number(target.half_width, 4)}{rows}{share}",
        numbers_in_words(each.cells),
        percentage_of(target.confidence),
        f"{'≤ ' if each.is_bound else ''}{each.epsilon:g}",
        None if each.weight is None else plain_number(each.weight, 4),
        None if each.given is None else plain_number(each.given, 4),
        None if each.given_half_width is None else f"{'≤ ' if each.is_bound else ''}{plain_number(each.given_half_width, 4)}{rows}",
        smallest,
    )


def error_table(report: Mapping[str, Any]) -> Table:
    """How far the answers may be off, for several ε."""
    epsilons = [f"{epsilon:g}" for epsilon in report["epsilons"]]
    rows = [
        (
            plain_name(query["name"]),
            numbers_in_words(query["cells"]),
            "rows" if query["unit"] == "rows" else None,
            *(None if width is None else plain_number(width, 3) for width in query["half_widths"]),
        )
        for query in report["queries"]
    ]
    return make_table(("off by, at 95 %, with epsilon", "in", "unit", *epsilons), rows, right=epsilons)


def notes(report: Mapping[str, Any]) -> list[str]:
    """What stands below the tables."""
    said = [""]
    together = report.get("together")
    if together is not None:
        limit = plain_number(report["max_epsilon"], 4)
        said.append(f"All targets together need epsilon {plain_number(together, 6)}, added up; privacy.max_epsilon is {limit}.")
    if report["exceeds"] is not None:
        said.append(f"Together the queries exceed the limits of [privacy], and a run would be refused: {report['exceeds']}.")
    said += [query["why"] for query in report["queries"] if query["why"] is not None]
    if any(query["unit"] == "rows" for query in report["queries"]):
        said.append(
            "Unit rows: by so many rows the rank of a quantile may be off, or what was left out may be ahead of what was chosen. A target "
            "of such a query is a number of rows too."
        )
    if any(target["is_bound"] for target in report["targets"]):
        mean = (
            ""
            if "mean" in report["assumed"]
            else ", for any mean. With --assume mean=… less epsilon may do, often a quarter for a mean in the middle of the range"
        )
        said.append(f"≤: how far means and rates over a private number of rows may be off is a bound{mean}.")
    if report["assumed"]:
        whose = {"n": f" ({MEANINGS['n']})"}
        facts = ", ".join(f"{key} = {plain_number(number, 8)}{whose.get(key, '')}" for key, number in report["assumed"].items())
        said.append(f"Assumed: {facts}. If it was taken from the data, it reveals something about them.")
    said.append("Only the schema was read, nothing was written, and nothing is spent.")
    return said
