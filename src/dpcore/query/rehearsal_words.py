"""The report of a rehearsal as lines of text, for a terminal and a page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpcore.pages.numbers import counted, percentage_of, plain_name, plain_number

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Report = Mapping[str, Any]

BANNER = "NOT PRIVATE (secure = false): exact numbers of a table that is public by your word, and noise from keys that anyone can compute."
HEADINGS = ("truth", "bias", "noise", "total error", "of truth", "coverage")
LABEL_HEADINGS = ("true choice", "chosen most often", "all the same", "right")
NOTES = [
    "Bias: the answer without noise minus the truth, from bounds that cut numbers off, rows of a unit that are left out, and grids to "
    "which quantiles round up. Noise: the standard deviation over the runs. Total error: the root of the mean squared distance from the "
    "truth. Coverage: how many of the intervals hold the truth; they allow for the noise only, so a bias makes it fall.",
    "Nothing was spent, and no file of the job was read or written.",
]
LOST = {
    "condition": "by where, or without a condition's columns",
    "bounding": "by what a unit may add, or without a unit",
    "groups": "in no declared group",
    "missing": "without a value that counts",
}
"""Ways in which rows are lost, in the order in which they are."""
LITTLE = 0.02
"""How far a coverage may lie below its confidence before it is marked, besides what so few runs leave open."""


def named(number: Report) -> str:
    """The name of a number within its answer."""
    return ", ".join(filter(None, (*number["groups"], number["part"]))) or "all rows"


def lines(query: Report) -> list[tuple[str | None, ...]]:
    """A line for each number of a query."""
    return [(named(number), *cells(number)) for number in query["numbers"]]


def cells(number: Report) -> tuple[str | None, ...]:
    """What is said of a number, under `HEADINGS`."""
    truth, error = number["truth"], number["rmse"]
    share = None if truth in {None, 0} or error is None else percentage_of(float(f"{error / abs(truth):.2g}"))
    coverage = None if number["coverage"] is None else percentage_of(number["coverage"], 3)
    if number["answered"] < 1 and coverage is not None:
        coverage += f" (answered in {percentage_of(number['answered'], 3)})"
    shown, noise, total = (None if each is None else plain_number(each, 4) for each in (truth, number["noise"], error))
    return (shown, _bias(number["bias"], error), noise, total, share, coverage)


def _bias(bias: float | None, error: float | None) -> str | None:
    """A bias beside the total error; one that is no part of its digits is what rounding leaves."""
    if bias is None:
        return None
    return "≈ 0" if error is not None and 0 < abs(bias) < 1e-5 * error else plain_number(bias, 4)


def label_lines(query: Report) -> list[tuple[str | None, ...]]:
    """A line for each group of a query that chooses labels."""
    return [
        (
            ", ".join(each["groups"]) or "all rows",
            None if each["best"] is None else ", ".join(map(str, each["best"])),
            None if each["chosen_most"] is None else str(each["chosen_most"]),
            None if each["same"] is None else percentage_of(each["same"], 3),
            None if each["right"] is None else percentage_of(each["right"], 3),
        )
        for each in query["labels"]
    ]


def lost_in_words(query: Report) -> str:
    """How many rows count, and where the others are lost."""
    rows = query["rows"]
    if "used" not in rows or not rows["table"]:
        return f"{plain_name(query['name'])}: {counted(rows['table'], 'row')}."
    parts = [f"{percentage_of(rows[key] / rows['table'], 3)} are lost {words}" for key, words in LOST.items() if rows.get(key)]
    kept = f"{rows['used']:,} of {counted(rows['table'], 'row')} count ({percentage_of(rows['used'] / rows['table'], 3)})"
    return f"{plain_name(query['name'])}: {kept}{'; ' if parts else ''}{', '.join(parts)}."


def lowest_coverage(query: Report) -> float | None:
    """The least coverage of its numbers."""
    known = [number["coverage"] for number in query["numbers"] if number["coverage"] is not None]
    return min(known, default=None)


def misses(query: Report, runs: int) -> int:
    """Numbers whose intervals hold the truth too seldom for chance: by more than four standard errors and `LITTLE`."""
    confidence = query["confidence"]
    slack = LITTLE + 4 * (confidence * (1 - confidence) / runs) ** 0.5
    return sum(number["coverage"] is not None and number["coverage"] < confidence - slack for number in query["numbers"])


def compared(report: Report) -> tuple[Sequence[str], list[tuple[str | None, ...]]]:
    """The settings of a sweep side by side: headings and rows for a table."""
    sweep = report["sweep"]
    headings = ("query", sweep["key"], "largest bias", "largest noise", "total error", "least coverage", "")
    rows = []
    for place, query in enumerate(report["settings"][0]["queries"]):
        if sweep["query"] not in {None, query["name"]}:
            continue
        for setting in report["settings"]:
            found = setting["queries"][place]
            rows.append(
                (plain_name(query["name"]), setting["value"], *summary(found), "best" if is_best(report, found, setting["value"]) else "")
            )
    return headings, rows


def is_best(report: Report, query: Report, value: str) -> bool:
    """Whether a value of a sweep gives a query the least total error."""
    return bool(report["sweep"]["best"].get(query["name"]) == value)


def summary(query: Report) -> tuple[str | None, ...]:
    """A query in four cells: the largest bias and noise, the root of the mean of all squared errors, and the least coverage."""
    bias = max((number["bias"] for number in query["numbers"] if number["bias"] is not None), key=abs, default=None)
    noise = max((number["noise"] for number in query["numbers"] if number["noise"] is not None), default=None)
    coverage = lowest_coverage(query)
    known, total = (None if each is None else plain_number(each, 4) for each in (noise, query["rmse"]))
    return (_bias(bias, query["rmse"]), known, total, None if coverage is None else percentage_of(coverage, 3))


def typed_lines(report: Report) -> list[str]:
    """What stands above the notes: what was run, and without a sweep, whose table has it, which intervals miss."""
    said = [BANNER, f"{counted(report['runs'], 'run')} on {report['on']}."]
    for query in report["settings"][0]["queries"] if report["sweep"] is None else ():
        missing = misses(query, report["runs"])
        if missing:
            least = percentage_of(lowest_coverage(query) or 0.0, 3)
            said.append(
                f"{plain_name(query['name'])}: the intervals of {counted(missing, 'number')} hold the truth less often than "
                f"{percentage_of(query['confidence'])}, down to {least}: widen its bounds, or bound units less."
            )
    return said
