"""The page of `dpcore estimate --report`: for each column a plot, the numbers, and how to read them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpcore.batch.jobfile.columns import IntegerColumn, RealColumn
from dpcore.batch.privatize.page import declared_values
from dpcore.errors import JobError
from dpcore.pages.numbers import misses, plain_number, readable, rounded, rounded_up
from dpcore.pages.page import EXTRA_MISSING, Pages
from dpcore.pages.words import NOT_SECURE, factor_in_words, guarantee_in_words

if TYPE_CHECKING:
    from pathlib import Path

    from dpcore.batch.estimate.run import ColumnEstimate, Estimates

SHOWN = 40
"""Categories that the page shows; the JSON file has all."""
TITLES = {
    "laplace": "Laplace noise on every number",
    "gaussian": "Gaussian noise on every number",
    "discrete_laplace": "integer Laplace noise on every number",
    "discrete_gaussian": "integer Gaussian noise on every number",
    "binary": "every answer flipped at random",
    "bounded_mean": "one random bit about every number",
    "binary_channel": "one random bit about every category",
    "kary": "every category replaced at random",
    "unary": "one random bit for each category",
    "subset": "a random set of categories for every row",
    "hashing": "a random hash of every category",
    "hadamard": "one random sign about every category",
}


class EstimatePages:
    """The files that `estimate --report DIR` asks for.

    Raises
    ------
    JobError
        If matplotlib or jinja2 is not installed.
    StorageError
        If the folder cannot be written.
    """

    def __init__(self, folder: Path, name: str) -> None:
        try:
            from dpcore.pages import plots
        except ModuleNotFoundError:
            raise JobError(EXTRA_MISSING) from None
        self._plots = plots
        self._pages = Pages(folder, name, "estimate")
        self.paths = self._pages.paths

    def write(self, estimates: Estimates) -> None:
        """Write both files, replacing those of an earlier run."""
        columns = [self._section(number, column) for number, column in enumerate(estimates.columns, 1)]
        whole = estimates.whole
        self._pages.write(
            estimates.document(),
            columns=columns,
            statement=guarantee_in_words(whole.epsilon, whole.delta, whole.unit),
            factor=factor_in_words(whole.epsilon, whole.delta, whole.unit),
            alarm=NOT_SECURE,
            confidence=f"{100 * estimates.confidence:.10g} %",
            misses=misses(estimates.confidence),
            target=estimates.target,
        )

    def _section(self, number: int, found: ColumnEstimate) -> dict[str, Any]:
        """What the page shows of one column."""
        section = found.column.section
        shown = {
            "anchor": f"column-{number}",
            "name": found.column.name,
            "kind": found.kind,
            "mechanism": section.mechanism,
            "title": TITLES[section.mechanism],
            "epsilon": rounded_up(section.epsilon),
            "delta": rounded_up(section.privacy.delta) if section.privacy.delta else None,
            "declared": declared_values(found.column),
            "stand_ins": stand_ins(found),
        }
        return shown | (self._frequencies(found) if found.kind == "frequencies" else self._number(found))

    def _number(self, found: ColumnEstimate) -> dict[str, Any]:
        estimate, percent = found.estimate, found.kind == "proportion"
        value, (lower, upper) = float(estimate.value), map(float, found.interval)
        numbers = readable([value, lower, upper, found.consistent], float(estimate.stderr), percent=percent)
        title = f"{found.column.name}: {numbers[0]}, interval {numbers[1]} to {numbers[2]}"
        short = 0 < upper - lower < self._plots.SHORT * (found.range[1] - found.range[0])
        ends = [f"{100 * end:g} %" if percent else plain_number(end) for end in found.range]
        plot = self._plots.interval_plot(value, (lower, upper), found.range, percent=percent, title=title)
        return {
            "what": found.summary,
            "value": numbers[0],
            "interval": f"{numbers[1]} to {numbers[2]}",
            "stderr": readable([float(estimate.stderr)], float(estimate.stderr), percent=percent)[0],
            "part_of": f"{ends[0]} to {ends[1]}" if short else None,
            "consistent": numbers[3] if numbers[3] != numbers[0] else None,
            "plot": plot,
        }

    def _frequencies(self, found: ColumnEstimate) -> dict[str, Any]:
        values, stderr = np.asarray(found.estimate.value), np.asarray(found.estimate.stderr)
        consistent, labels = found.consistent, [str(label) for label in found.labels or ()]
        order = np.argsort(-values, kind="stable")[:SHOWN]
        intervals = found.interval[order]
        title = f"{found.column.name}: estimated frequencies of {len(order)} of {len(values)} categories"
        plot = self._plots.frequency_plot([labels[i] for i in order], values[order], intervals, consistent[order], title=title)
        rows = []
        for place, i in enumerate(order):
            raw, lower, upper, possible = readable([values[i], *intervals[place], consistent[i]], float(stderr[i]), percent=True)
            rows.append({"label": labels[i], "raw": raw, "interval": f"{lower} to {upper}", "consistent": possible})
        return {
            "what": f"most frequent of {len(values):,} categories: {self._plots.shortened(rows[0]['label'])}",
            "value": rows[0]["raw"],
            "interval": rows[0]["interval"],
            "plot": plot,
            "rows": rows,
            "hidden": len(values) - len(order),
            "expected_misses": plain_number(rounded(len(values) * (1 - found.confidence))),
        }


def stand_ins(found: ColumnEstimate) -> str:
    """What the job made of values that do not fit, in words."""
    section, parts = found.column.section, []
    if isinstance(section, RealColumn | IntegerColumn):
        parts.append(f"values beyond [{section.lower:g}, {section.upper:g}] count as the nearer end")
    for key, word in (("missing", "missing values"), ("unknown", "unknown values")):
        value = getattr(section, key, None)
        if value is not None:
            parts.append(f"{word} count as {plain_number(value)}")
    sentence = "; ".join(parts)
    return sentence[:1].upper() + sentence[1:] + "." if sentence else ""
