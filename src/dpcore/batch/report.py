"""What a job tells its owner: the plan, the guarantee in words, and the files of `--report`."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from dpcore.batch import metadata
from dpcore.batch.atomic import AtomicFile, remove_stale
from dpcore.batch.errors import JobError, StorageError, reason

if TYPE_CHECKING:
    from pathlib import Path

    from dpcore.batch.job import Job
    from dpcore.batch.plan import Plan

SPENT_AGAIN = "Running this job again on the same data spends this budget again."
KEPT = "Kept columns are copied as they are: nothing protects them."
NOT_SECURE = "NOT PRIVATE: the noise comes from the key in [testing]; whoever knows the key can remove it (secure = false)."


def privacy_statement(job: Job) -> str:
    """The guarantee of a job in words."""
    total, privacy = job.total, job.privacy
    spent = f"epsilon = {total.epsilon!r}, delta = {total.delta!r}"
    if privacy.unit == "row":
        return f"{spent}: the guarantee protects one row; a person with k rows is protected at k·ε."
    return f"{spent}: the guarantee protects one {privacy.unit!r} with at most {privacy.rows_per_unit} rows."


def column_table(plan: Plan) -> Table:
    """The columns of the output as a table for a terminal."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("column", "mechanism", "epsilon", "delta", "range", "missing", "noise sd"):
        table.add_column(heading, overflow="fold")
    for name in plan.job.keep:
        table.add_row(Text(name), "kept as it is", "-", "-", "-", "-", "-")
    for column in plan.columns:
        privacy = column.privacy
        missing = "-" if column.missing is None else f"{column.missing:g}"
        limits = f"[{column.lower:g}, {column.upper:g}]"
        deviation = f"{math.sqrt(column.variance):.4g}"
        cells = (column.name, column.mechanism, f"{privacy.epsilon:g}", f"{privacy.delta:g}", limits, missing, deviation)
        # Text, not markup: a range in brackets would be taken for a style.
        table.add_row(*map(Text, cells))
    return table


def describe(plan: Plan) -> str:
    """Input and output of a plan, one line each."""
    files = len(plan.inputs.paths)
    rows = "rows unknown before reading" if plan.rows is None else f"{plan.rows:,} rows"
    source = f"input   {plan.job.input.path} ({plan.inputs.format}, {files} file{'s' if files > 1 else ''}, {rows})"
    section = plan.job.output
    return f"{source}\noutput  {section.path} ({section.resolved_format}, compression {section.resolved_compression})"


def budget(job: Job) -> str:
    """What is spent beside what is allowed."""
    total, limits = job.total, job.privacy
    return f"budget  epsilon {total.epsilon!r} of {limits.max_epsilon!r}, delta {total.delta!r} of {limits.max_delta!r}"


def report_document(plan: Plan, rows: int) -> dict[str, Any]:
    """Content of the JSON report."""
    job = plan.job
    columns = [
        {"name": column.name, **metadata.field_metadata(column), "scale": column.scale, "standard_deviation": math.sqrt(column.variance)}
        for column in plan.columns
    ]
    return {
        **metadata.schema_metadata(job),
        "max_epsilon": job.privacy.max_epsilon,
        "max_delta": job.privacy.max_delta,
        "max_rows_per_unit": job.privacy.max_rows_per_unit,
        "statement": privacy_statement(job),
        "notes": [SPENT_AGAIN, *([KEPT] if job.keep else []), *([] if job.secure else [NOT_SECURE])],
        "input": {"path": job.input.path, "format": plan.inputs.format, "files": len(plan.inputs.paths)},
        "output": {"path": job.output.path, "format": job.output.resolved_format, "rows": rows},
        "keep": job.keep,
        "columns": columns,
    }


class Report:
    """The pair of files that `--report DIR` asks for; created before the job starts, so that a wrong DIR costs nothing.

    Parameters
    ----------
    folder : Path
        Made if absent.
    plan : Plan
        The output's name without its ending names the files.

    Raises
    ------
    JobError
        If jinja2 is not installed.
    StorageError
        If the folder cannot be written.
    """

    def __init__(self, folder: Path, plan: Plan) -> None:
        try:
            from jinja2 import Environment
        except ModuleNotFoundError:
            raise JobError("--report needs the extra `report`: pip install 'dpcore[report]'") from None
        self._plan = plan
        self._template = Environment(autoescape=True).from_string(PAGE)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(f"cannot make the folder {folder}{reason(error)}") from None
        self.paths = tuple(folder / f"{plan.output.stem}{ending}" for ending in (".json", ".html"))
        for path in self.paths:
            remove_stale(path)

    def write(self, rows: int) -> None:
        """Write both files, replacing those of an earlier run."""
        document = report_document(self._plan, rows)
        contents = (json.dumps(document, ensure_ascii=False, indent=2) + "\n", self._template.render(report=document))
        for path, content in zip(self.paths, contents, strict=True):
            file = AtomicFile(path)
            try:
                file.write(content.encode())
                file.commit()
            except BaseException:
                file.abort()
                raise


PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>{{ report.output.path }}: privacy report</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; }
th, td { padding: .25rem .75rem; border-bottom: 1px solid #ccc; text-align: left; }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
.statement { font-size: 1.15rem; border-left: .3rem solid #246; padding-left: 1rem; }
</style>
<h1>{{ report.output.path }}</h1>
<p class="statement">{{ report.statement }}</p>
<ul>{% for note in report.notes %}<li>{{ note }}</li>{% endfor %}</ul>
<p>{{ "{:,}".format(report.output.rows) }} rows from {{ report.input.path }} ({{ report.input.files }} {{ report.input.format }}
file{{ "" if report.input.files == 1 else "s" }}). Budget: &epsilon; {{ report.epsilon }} of {{ report.max_epsilon }},
&delta; {{ report.delta }} of {{ report.max_delta }}.</p>
<h2>Columns</h2>
<table>
<tr><th>column<th>mechanism<th>&epsilon;<th>&delta;<th>lower<th>upper<th>missing
<th>noise scale<th>noise standard deviation</tr>
{% for column in report.columns %}<tr><td>{{ column.name }}<td>{{ column.mechanism }}
{% for key in ("epsilon", "delta", "lower", "upper", "missing") %}
<td class="number">{{ "&ndash;"|safe if column[key] is none else column[key] }}
{% endfor %}<td class="number">{{ "%.6g"|format(column.scale) }}
<td class="number">{{ "%.6g"|format(column.standard_deviation) }}</tr>
{% endfor %}{% for name in report.keep %}<tr><td>{{ name }}<td colspan="8">kept as it is: public</tr>
{% endfor %}</table>
<p>dpcore {{ report.version }}</p>
</html>
"""
