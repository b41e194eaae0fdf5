"""The page of `dpcore privatize --report`: the guarantee in words, and each column with its mechanism."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpcore.pages.numbers import plain_name, plain_number, plain_range, rounded_up
from dpcore.pages.page import Pages
from dpcore.pages.words import NOT_SECURE, guarantee_in_words, guarantee_shown
from dpcore.tables.output import metadata
from dpcore.tables.provenance import provenance, provenance_of, spent_again
from dpcore.tables.randomise_fields import IntegerColumn, RealColumn

if TYPE_CHECKING:
    from dpcore.jobs.privatize_job import Job
    from dpcore.jobs.privatize_plan import Plan
    from dpcore.tables.randomise import NoisyColumn

PUBLIC_ROWS = "The number of rows is public; their contents are protected."
KEPT = "Kept columns are copied as they are and are not protected."
HEADINGS = ("column", "mechanism", "epsilon", "delta", "values", "missing", "unknown", "sd per row")
NUMERIC = ("epsilon", "delta", "sd per row")
PRECISION = (
    "An estimate from n rows that have a value has a standard error of about sd per row / √n, the share of a category at most about that; "
    "`dpcore estimate` computes it."
)


def privacy_statement(job: Job) -> str:
    """The guarantee of a job in words."""
    return guarantee_in_words(job.total.epsilon, job.total.delta, job.privacy.protected, job.privacy.rows_per_unit)


def declared_values(column: NoisyColumn) -> str:
    """Return the declared range or categories of a column as text."""
    section, categories = column.section, column.categories
    if isinstance(section, RealColumn | IntegerColumn):
        return plain_range(section.lower, section.upper)
    if categories is None:
        return "false, true"
    if categories.labels is None:
        return f"0 … {categories.k - 1}" if categories.k > 2 else "0, 1"
    return f"{categories.k} categories" if categories.k > 2 else ", ".join(map(plain_name, categories.listed()))


def stand_in(column: NoisyColumn, key: str) -> str:
    """The value that stands for missing or unknown ones: a number of a numeric column, else a category; a dash if there is none."""
    value = getattr(column.section, key, None)
    is_number = isinstance(column.section, RealColumn | IntegerColumn)
    return plain_number(value) if value is None or is_number else plain_name(value)


def column_row(column: NoisyColumn) -> tuple[str, ...]:
    """One line of the table of columns."""
    privacy = column.privacy
    stand_ins = (stand_in(column, key) for key in ("missing", "unknown"))
    numbers = (rounded_up(privacy.epsilon, 6), rounded_up(privacy.delta, 6))
    return (column.name, column.section.mechanism, *numbers, declared_values(column), *stand_ins, plain_number(column.deviation, 4))


def report_document(plan: Plan, rows: int | None) -> dict[str, Any]:
    """Content of the JSON report; `rows` is None before the job has run."""
    job, origin = plan.job, provenance(plan, plan.job)
    columns = [
        {
            "name": column.name,
            **metadata.field_metadata(column),
            "scale": getattr(column.mechanism, "scale", None),
            "standard_deviation": column.deviation,
        }
        for column in plan.columns
    ]
    return {
        **metadata.schema_metadata(job),
        "max_epsilon": job.privacy.max_epsilon,
        "max_delta": job.privacy.max_delta,
        "max_rows_per_unit": job.privacy.max_rows_per_unit,
        "run": origin["run"],
        "time": origin["time"],
        "statement": privacy_statement(job),
        "notes": [PUBLIC_ROWS, spent_again(plan), *([KEPT] if job.keep else []), *([] if job.secure else [NOT_SECURE])],
        "input": origin["input"],
        "job": origin["job"],
        **({} if job.ledger is None else {"ledger": {"path": job.ledger.path, "entry": plan.publication.charge.entry}}),
        "output": {
            "path": job.output.path,
            "format": job.output.resolved_format,
            "rows": rows,
            **({"manifest": str(plan.output), "shards": len(plan.shards)} if plan.shards else {}),
        },
        "keep": job.keep,
        "columns": columns,
    }


class PrivatizePages(Pages):
    """The files of `privatize --report DIR`. The output's name without its ending names them.

    Parameters
    ----------
    folder : Path
        Where the files go. It is made if it does not exist.
    plan : Plan
        The planned job.
    job : Path
        The job file.
    """

    template = "privatize"
    has_plots = False

    def __init__(self, folder: Path, plan: Plan, job: Path) -> None:
        self._plan = plan
        super().__init__(
            folder, Path(plan.job.output.path).stem, provenance=provenance_of(plan, plan.job.input.path, plan.job.output.path, job)
        )

    def content(self, subject: int) -> tuple[dict[str, Any], dict[str, Any]]:
        """The report on an output with so many rows."""
        job = self._plan.job
        shown = {
            "table": [dict(zip(HEADINGS, column_row(column), strict=True)) for column in self._plan.columns],
            "headings": HEADINGS,
            "numeric": NUMERIC,
            "precision": PRECISION.replace("`", ""),
            "alarm": NOT_SECURE,
            "guarantee": guarantee_shown(
                job.total.epsilon, job.total.delta, job.privacy.protected, rows_per_unit=job.privacy.rows_per_unit, local=True
            ),
        }
        return report_document(self._plan, subject), shown
