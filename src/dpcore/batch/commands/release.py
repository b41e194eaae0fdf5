"""`dpcore release`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pyarrow as pa

from dpcore.batch.commands import words
from dpcore.batch.commands.options import job_options
from dpcore.batch.commands.progress import shown_on
from dpcore.batch.commands.terminal import echo, print_table, wants_json
from dpcore.batch.privatize import page
from dpcore.batch.release.job import load_release_job
from dpcore.errors import StorageError, reason
from dpcore.pages.numbers import json_text
from dpcore.pages.page import report_paths

if TYPE_CHECKING:
    from dpcore.batch.release.page import ReleasePages
    from dpcore.batch.release.plan import ReleasePlan

HELP = """Answer questions about a table with noise, as JOB (a TOML file) says.

You see the table. The readers of the answers learn little about any single row or person (central differential privacy). The rows are
read once, and each [[query]] gets one answer with its standard error and interval.

A complete job:

\b
    version = 1
    [input]
    path = "visits.parquet"         # a file, a folder or a glob: .parquet, .csv, .arrow
    [output]
    path = "out/visits.json"
    [privacy]
    max_epsilon = 4.0               # the job does not start if its queries spend more
    unit = "person"                 # whose data is protected; default "row"
    max_rows_per_unit = 3           # at most 3 rows of each person take part, chosen at random
    relation = "add_remove"         # or "replace", the default: how neighbouring tables differ
    [ledger]
    path = "visits.ledger"          # optional; made once: dpcore ledger create visits.ledger --epsilon 4
                                    # --relation add_remove --unit person
    [[query]]
    name = "visits by region"
    kind = "histogram"
    column = "region"
    categories = ["north", "east", "south", "west"]
    missing = "north"               # replaces nulls, and
    unknown = "north"               # replaces other values; with a ledger you declare both
    epsilon = 1.0
    [[query]]
    name = "mean cost"
    kind = "mean"
    column = "cost"
    lower = 0.0                     # from what you know, never the data's minimum; values outside count as the bound
    upper = 5000.0
    missing = 0.0
    epsilon = 1.0
    [[query]]
    name = "quartiles of cost"
    kind = "quantile"
    column = "cost"
    q = [0.25, 0.5, 0.75]
    grid = {start = 0, stop = 5000, step = 10}
    missing = 0.0
    epsilon = 1.0

\b
Kinds, and what each needs beside name, kind and epsilon:
    count      nothing, for all rows; or column and categories, or column, lower and upper, for the rows that match
    histogram  column, and categories, categories_file, k (the codes 0 to k - 1), edges = [...], or bins = N with lower and upper
    sum, mean  column, lower, upper
    quantile   column, q (the median is q = 0.5), grid
    top_s      column, s, and candidates, candidates_file or k; values = true adds their counts
    synthetic  output, a .parquet, .csv or .arrow, and columns, a list of tables {name = ..., } with the keys of a histogram: a table of
               made-up rows, drawn from the noisy joint histogram of all columns. method = "marginals" or marginals, a list of lists of
               columns, makes several smaller histograms; draws is the number of rows, max_cells the largest number of cells

\b
Optional keys:
    delta, confidence     delta (not for quantile) makes the noise Gaussian; confidence is 0.95 by default
    missing, unknown      the values that replace nulls and, in histograms of categories, undeclared values
    group_by, groups      for count, sum, mean and quantile: a column and its declared values; the query is answered for each of them.
                          max_groups_per_unit under [privacy] bounds in how many of them a unit takes part

First check that your numbers parse: in a CSV a cell such as 12,50 or 45 y is not a number and counts as missing, without a message.

A synthetic table looks like this; numbers are uniform inside their bins:

\b
    [[query]]
    name = "visits, made up"
    kind = "synthetic"
    output = "out/synthetic.parquet"
    epsilon = 1.0
    columns = [
      {name = "region", categories = ["north", "east", "south", "west"], missing = "north", unknown = "north"},
      {name = "cost", edges = [0, 100, 500, 5000], missing = 0},
    ]

Without a ledger a job that runs again on the same data spends its budget again, so an output that exists is refused unless --overwrite is
given. With a ledger the same job again (same settings, same output) spends nothing and reads nothing: it prints the stored answers, also
if the table has changed since. For new answers name another output.path, or give --overwrite; either spends again.
A ledger is charged before the first row is read; a job that fails or is killed after that stays charged.

\b
Exit codes: 0 done; 2 the job, the schema, the budget, the ledger or the installation; 3 a row;
4 the system (unreadable input, disk full); 5 published, and then something failed; 129, 130, 143 interrupted; 1 a bug in dpcore.
A job that ends early leaves nothing under the names of its outputs.
"""


@click.command("release", help=HELP, short_help="Answer questions about a table with noise, as a job file says.")
@job_options(plan="the plan, the noise and the total", verb="compute", files="DIR/NAME.html, a page with plots, and the JSON")
def command(
    job: Path,
    folder: Path | None,
    threads: int | None,
    *,
    as_json: bool | None,
    dry_run: bool,
    overwrite: bool,
    curator: bool,
) -> None:
    """Run or describe a job; the entry point turns errors into exit codes."""
    from dpcore.batch.release import run
    from dpcore.batch.release.plan import make_release_plan

    words.begin(dry_run=dry_run, folder=folder, curator=curator)
    loaded = load_release_job(job)
    reports = [] if folder is None else report_paths(folder, Path(loaded.output.path).stem, Path(loaded.output.path))
    options = {"overwrite": overwrite, "curator": curator, "others": words.other_files(job, reports)}
    plan, refusal = words.planned(make_release_plan, loaded, dry_run=dry_run, **options)
    words.warn(loaded)
    if dry_run:
        _print_plan(plan, as_json=wants_json(as_json))
        words.end_dry_run(plan, refusal, "answers")
        return
    if words.is_published(plan.publication, "answers"):
        _print_stored(plan, None if folder is None else _pages(folder, plan, job), as_json=wants_json(as_json))
        return
    if threads is not None:
        pa.set_cpu_count(threads)
    pages = None if folder is None else _pages(folder, plan, job)
    with words.truthful(plan.publication):
        with shown_on(sys.stderr, count_rows=plan.job.n_is_public) as progress:
            document = run(plan, threads=threads, progress=progress)
        if pages is not None:
            pages.write(document)  # before standard output, which may be a closed pipe
        _print_answers(document, as_json=wants_json(as_json))
        _print_end(plan)
        if pages is not None:
            words.name_reports(pages.paths)


def _pages(folder: Path, plan: ReleasePlan, job: Path) -> ReleasePages:
    """The pages, made before any row is read: a wrong folder or a missing extra is found first."""
    from dpcore.batch.release.page import ReleasePages

    origin = page.provenance_of(plan, plan.job.input.path, plan.job.output.path, job)
    return ReleasePages(folder, plan.output.stem, plan.output, provenance=origin)


def _print_stored(plan: ReleasePlan, pages: ReleasePages | None, *, as_json: bool) -> None:
    """Show what an earlier run has published, from its output alone."""
    try:
        document = json.loads(plan.output.read_bytes())
    except (OSError, ValueError) as error:
        raise StorageError(f"cannot read {plan.output}{reason(error)}") from None
    if pages is not None:
        pages.write(document)
    _print_answers(document, as_json=as_json)
    if pages is not None:
        words.name_reports(pages.paths)


def _print_answers(document: dict[str, Any], *, as_json: bool) -> None:
    from dpcore.batch.commands import answers_text

    if as_json:
        click.echo(json_text(document))
        return
    print_table(answers_text.answer_table(document), *answers_text.notes(document))


def _print_plan(plan: ReleasePlan, *, as_json: bool) -> None:
    from dpcore.batch.commands import release_text

    if as_json:
        click.echo(json_text(release_text.plan_document(plan)))
        return
    ends = [release_text.ERRORS, "", words.budget(plan.job), release_text.statement(plan.job), page.spent_again(plan.job), words.DRY_RUN]
    print_table(release_text.describe(plan) + "\n", release_text.query_table(plan), "\n".join(ends))


def _print_end(plan: ReleasePlan) -> None:
    from dpcore.batch.commands import release_text
    from dpcore.batch.release.synthetic import SyntheticAnswer

    for answer in plan.answers:
        if isinstance(answer, SyntheticAnswer):
            echo(f"{answer.section.output}: synthetic rows of {answer.section.name!r}", err=True)
    echo(f"{plan.output}: {len(plan.answers)} quer{'ies' if len(plan.answers) > 1 else 'y'} answered", err=True)
    echo(f"spent {release_text.statement(plan.job)}", err=True)
    echo(page.spent_again(plan.job), err=True)
