"""The sections of the page of estimates, one for each column: a plot, the numbers with their digits, and the declarations of the job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpcore.jobs.privatize_page import declared_values, stand_in
from dpcore.pages import plots
from dpcore.pages.numbers import counted, ends_of, percentage_of, plain_name, plain_number, quoted, readable, rounded, rounded_up
from dpcore.tables.randomise_fields import IntegerColumn, RealColumn

if TYPE_CHECKING:
    from dpcore.jobs.estimate import ColumnEstimate
    from dpcore.tables.randomise import NoisyColumn

SHOWN = 40
"""Categories that the page shows; the JSON file has all."""
TITLES = {
    "laplace": "Laplace noise on every number",
    "gaussian": "Gaussian noise on every number",
    "discrete_laplace": "integer Laplace noise on every number",
    "discrete_gaussian": "integer Gaussian noise on every number",
    "binary": "every answer kept, or flipped at random",
    "bounded_mean": "one random bit about every number",
    "binary_channel": "one random bit about every category",
    "kary": "every category kept, or replaced by another at random",
    "unary": "one random bit for each category",
    "subset": "a random set of categories for every row",
    "hashing": "a random hash of every category",
    "hadamard": "one random sign about every category",
    "projective": "a random point that favours every category's hyperplane",
}

SKIPPING = {
    "binary": "every answer kept, or replaced at random by the other one or by none",
    "bounded_mean": "one random report about every number: near the upper bound, near the lower one, or none",
}
"""Titles where rows without a value are left out, and the reports say at random whether there is one."""


def section_of(number: int, found: ColumnEstimate) -> dict[str, Any]:
    """Return the section of the page about one column.

    Parameters
    ----------
    number : int
        Its place on the page, from 1.
    found : ColumnEstimate
        What was estimated.
    """
    section = found.column.section
    shown = {
        "anchor": f"column-{number}",
        "name": found.column.name,
        "kind": found.kind,
        "mechanism": section.mechanism,
        "title": SKIPPING.get(section.mechanism, TITLES[section.mechanism]) if found.column.skips else TITLES[section.mechanism],
        "epsilon": rounded_up(section.epsilon),
        "delta": rounded_up(section.privacy.delta) if section.privacy.delta else None,
        "declared": declared_values(found.column),
        "stand_ins": stand_ins(found),
        "unanswered": unanswered(found),
    }
    return shown | (_frequencies(found) if found.kind == "frequencies" else _number(found))


def _number(found: ColumnEstimate) -> dict[str, Any]:
    estimate, percent = found.estimate, found.kind == "proportion"
    value, (lower, upper) = float(estimate.value), map(float, found.interval)
    numbers = readable([value, lower, upper, found.consistent], float(estimate.stderr), percent=percent)
    title = f"{found.column.name}: {numbers[0]}, interval {ends_of(numbers[1], numbers[2])}"
    short = 0 < upper - lower < plots.SHORT * (found.range[1] - found.range[0])
    ends = [percentage_of(end) if percent else plain_number(end) for end in found.range]
    label = f"{found.summary}, {_of_what(found)}" if percent else f"{found.summary} of {found.column.name}"
    return {
        "what": found.summary,
        "value": numbers[0],
        "interval": ends_of(numbers[1], numbers[2]),
        "stderr": readable([float(estimate.stderr)], float(estimate.stderr), percent=percent)[0],
        "part_of": ends_of(ends[0], ends[1]) if short else None,
        "consistent": numbers[3] if numbers[3] != numbers[0] else None,
        "plot": plots.interval_plot(value, (lower, upper), found.range, percent=percent, title=title, label=label),
    }


def _frequencies(found: ColumnEstimate) -> dict[str, Any]:
    """The share of each category, the largest first."""
    values, stderr = np.asarray(found.estimate.value), np.asarray(found.estimate.stderr)
    consistent, labels = found.consistent, [plain_name(label) for label in found.labels or ()]
    order = np.argsort(-values, kind="stable")[:SHOWN]
    intervals = found.interval[order]
    title = f"{found.column.name}: estimated frequencies of {len(order)} of {len(values)} categories"
    plot = plots.frequency_plot(
        [labels[i] for i in order], values[order], intervals, consistent[order], title=title, label=_of_what(found), percent=True
    )
    rows = []
    for place, i in enumerate(order):
        raw, lower, upper, possible = readable([values[i], *intervals[place], consistent[i]], float(stderr[i]), percent=True)
        rows.append({"label": labels[i], "raw": raw, "interval": ends_of(lower, upper), "consistent": possible})
    return {
        "what": f"most frequent of {counted(len(values), 'category', 'categories')}: {plots.shortened(rows[0]['label'])}",
        "value": rows[0]["raw"],
        "interval": rows[0]["interval"],
        "plot": plot,
        "rows": rows,
        "hidden": len(values) - len(order),
        "expected_misses": plain_number(rounded(len(values) * (1 - found.confidence))),
    }


def _stand_in(column: NoisyColumn, key: str) -> str:
    """The value that stands for missing or unknown ones, inside a sentence."""
    value = getattr(column.section, key)
    return quoted(value) if isinstance(value, str) else stand_in(column, key)


def stand_ins(found: ColumnEstimate) -> str:
    """Describe how the job replaced values that do not fit."""
    section, parts = found.column.section, []
    if isinstance(section, RealColumn | IntegerColumn):
        lower, upper = plain_number(section.lower), plain_number(section.upper)
        parts.append(f"values below {lower} count as {lower}, values above {upper} as {upper}")
    for key, word in (("missing", "missing values"), ("unknown", "unknown values")):
        if key == "missing" and found.column.skips:
            parts.append("rows without a value are left out")
        elif getattr(section, key, None) is not None:
            parts.append(f"{word} count as {_stand_in(found.column, key)}")
    sentence = "; ".join(parts)
    return sentence[:1].upper() + sentence[1:] + "." if sentence else ""


def _of_what(found: ColumnEstimate) -> str:
    return "% of rows with a value" if found.column.skips else "% of rows"


def unanswered(found: ColumnEstimate) -> str:
    """How many rows have no value, in a sentence; nothing of columns where each has one."""
    if found.unanswered is None:
        return ""
    share, interval = found.unanswered, found.unanswered.interval(found.confidence)
    value, lower, upper = readable([float(share.value), *map(float, interval)], float(share.stderr), percent=True)
    return f"Without a value: {value} of the rows, interval {ends_of(lower, upper)}."
