"""What `dpcore release` tells people: the plan before it runs, and what was spent after it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from dpcore.batch.commands import words
from dpcore.batch.release.queries import SyntheticQuery
from dpcore.batch.release.synthetic import SyntheticAnswer
from dpcore.batch.release.words import neighbours_in_words, release_guarantee
from dpcore.pages.numbers import plain_number, rounded_up
from dpcore.pages.printable import printable

if TYPE_CHECKING:
    from dpcore.batch.release.answers import Answer, Noise
    from dpcore.batch.release.job import ReleaseJob
    from dpcore.batch.release.plan import ReleasePlan
    from dpcore.batch.release.queries import Query
    from dpcore.privacy import Privacy

HEADINGS = ("query", "kind", "column", "epsilon", "delta", "noise", "sensitivity", "scale", "standard error")
ERRORS = "Standard errors are those of the noise; – means that it depends on the data or on the number of rows."


def describe(plan: ReleasePlan) -> str:
    """Input, outputs and ledger of a plan, one line each."""
    ledger = plan.job.ledger
    lines = [words.source(plan, count_rows=plan.job.n_is_public), f"output  {plan.job.output.path} (JSON)"]
    lines += [f"table   {_table(answer)}" for answer in plan.answers if isinstance(answer, SyntheticAnswer)]
    return "\n".join(lines if ledger is None else [*lines, f"ledger  {ledger.path}"])


def _table(answer: SyntheticAnswer) -> str:
    """Rows and cells of a synthetic table."""
    section, counts = answer.section, len(answer.histograms)
    unsaid = "as many rows as are read" if answer.n_is_public else "a noisy number of rows"
    wanted = unsaid if section.rows is None else f"{section.rows:,} row{'s' if section.rows > 1 else ''}"
    which = "one histogram" if counts == 1 else f"{counts} histograms"
    return f"{section.output}: {wanted}, drawn from {answer.size:,} cells of {which}"


def statement(job: ReleaseJob) -> str:
    """The guarantee in words."""
    head = job.head()
    return f"{release_guarantee(head)}\n{neighbours_in_words(head)}"


def query_table(plan: ReleasePlan) -> Table:
    """The queries as a table for a terminal: a line for each draw."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in HEADINGS:
        table.add_column(heading, overflow="fold")
    for answer in plan.answers:
        for line in _lines(answer, plan.job.spent_on(answer.section), plan.rows):
            table.add_row(*(Text(printable(cell)) for cell in line))
    return table


def _lines(answer: Answer, spent: Privacy, rows: int | None) -> list[tuple[str, ...]]:
    section = answer.section
    noise = list(dict.fromkeys(answer.noise))
    error = answer.expected_error(rows)
    shown = "–" if error is None else f"{error:.4g}"
    head = (section.name, section.kind, columns_in_words(section), rounded_up(spent.epsilon, 6), rounded_up(spent.delta, 6))
    first, *others = [_drawn(each) for each in noise] or [("none: public", "–", "–")]
    return [(*head, *first, shown), *(("",) * len(head) + other + ("",) for other in others)]


def columns_in_words(section: Query) -> str:
    """What a query reads."""
    return ", ".join(column.name for column in section.columns) if isinstance(section, SyntheticQuery) else plain_number(section.column)


def _drawn(noise: Noise) -> tuple[str, str, str]:
    scale = f"{noise.scale:.4g}" if math.isfinite(noise.scale) else "–"
    return noise.law.replace("_", " "), f"{noise.sensitivity:.6g}", scale
