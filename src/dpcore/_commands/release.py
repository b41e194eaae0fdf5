"""`dpcore release`."""

from __future__ import annotations

from typing import Any

import click

from dpcore._commands import SHORT
from dpcore._commands.options import WithoutPandas, check_engine, engine_options, job_options
from dpcore._disk.signals import Deferred

HELP = """Answer questions about a table with noise, as JOB (a TOML file) says.

You see the table. The readers of the answers learn little about any single row or person (central differential privacy). The table
is read in one pass, or in two if persons have limits, and each [[query]] gets one answer with its standard error and interval.

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
    count                nothing, for all rows; or column and categories, or column, lower and upper, for the rows that match;
                         or column and missing = "skip", for the rows that have a value
    count_distinct       nothing, for the number of units; or column, for its different values, and max_values_per_unit if the
                         unit is a column
    histogram            column, and categories, categories_file, k (the codes 0 to k - 1), edges = [...], or bins = N with lower
                         and upper
    sum, mean, var, std  column, lower, upper
    geometric_mean       column, lower, upper, both positive
    covariance           columns = ["a", "b"], and lower and upper, each a list of two
    quantile             column, q = 0.9 or a list, grid
    median               column, grid
    top_s                column, s, and candidates, candidates_file or k; values = true adds their counts
    mode                 column, and candidates, candidates_file or k: the most frequent one
    rate                 column, and categories, or lower and upper: the share of rows that match, among those of where
    running_total        steps, step, state, and what a count needs: rows of all steps so far. Each run adds one step, and all steps
                         together spend epsilon; step = "${DATE}" needs first and every = "day", "week" or "month". By default it
                         protects one event, what one unit has in one step; max_steps_per_unit is declared by you and cannot be checked.
                         state is as secret as the data. The only query of its job
    groups               group_by, delta: names the groups that queries with groups = "private" are answered for
    synthetic            output, a .parquet, .csv or .arrow, and columns, a list of tables {name = ..., } with the keys of a
                         histogram: a table of made-up rows, drawn from the noisy joint histogram of all columns.
                         method = "marginals" or marginals, a list of lists of columns, makes several smaller histograms;
                         draws is the number of rows, max_cells the largest number of cells

\b
Optional keys:
    delta, confidence     delta (not for quantile) makes the noise Gaussian; confidence is 0.95 by default
    missing, unknown      the values that replace nulls and, in histograms of categories, undeclared values; "skip" leaves such rows
                          out
    where                 a condition in SQL on the rows, such as "age >= 18 AND region <> 'north'"; at the top of the file it is for
                          all queries
    [[derive]]            name, sql: a column computed from other columns of the same row
    [[lookup]]            path, key, columns: columns of a public table
    [[join]]              path, unit, how = "left" or "inner", where, per_unit: another private table about the same units
    [per_unit]            name = "count(*)" and others: one row for each unit; by, groups, join, lookup, derive, where
    lower, upper, grid    may be dates, times and durations, for columns of such: 2013-01-31, "PT1H30M"
    bounds                "private" finds lower and upper, or the range of a grid, for bounds_epsilon of the query's epsilon
    max_sum_per_unit      for sum, with a column as unit: bounds the sum of a unit's values in place of its rows
    group_by, groups      for all kinds but synthetic: a column, or a list of columns, and the declared groups; the query is answered
                          for each of them. groups is a list of values; a table with a list of values, {edges = [...]} or
                          {by = "month", first, last} for each column; the path of a public table with all combinations wanted; or
                          "private". max_groups_per_unit under [privacy] bounds in how many of them a unit takes part
    consistent            true, for count, sum and histogram: also answers the groups of the first columns of group_by, and the total,
                          so that all numbers add up; or {levels = {total = 1, region = 2}, non_negative = true, integral = true}
    weight                in place of epsilon: the query's share of what is left of max_epsilon
    accounting            under [privacy], with a max_delta: "zcdp" adds many answers up more cheaply than "basic", the default
    [[column]]            name, label, unit_of_measure: how readers know a column

Paths of inputs and outputs may be addresses of a store, such as s3://bucket/key or gs://bucket/key; folders named column=value below
the input's path are columns.

One job file serves many runs: --input, --output and --set change it, and strings such as path = "out/${REGION}-${DATE}.json" take the
day in UTC and the words that --set gives.

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
if the table has changed since. For new answers name another output.path, or give --overwrite; both spend again.
A ledger is charged before the first row is read; a job that fails or is killed after that stays charged.

A release can be replayed if its noise follows from a key that is kept:

\b
    dpcore release visits.toml --commit keys/visits.key
    dpcore verify out/visits.json --key keys/visits.key

The answers name a commitment to the key, which hides it. KEYFILE is as secret as the data: with the answers it gives the exact
statistics. It is made once, with the rights 0600, for this run alone, and never in the folder of an output; to end verification, destroy
every copy of it. A run that is killed is run again with the same KEYFILE: it has the same noise, refuses another input, and is charged
again. --overwrite cannot be combined with it.

To show that keys were not tried until the answers pleased, let others have a say. First make the key and deposit its commitment with a
third party, before any data are read; after a public announcement that nobody could foresee, release with it:

\b
    dpcore release visits.toml --commit keys/visits.key --commit-only
    dpcore release visits.toml --commit keys/visits.key --public-randomness 2cf24dba5fb0a30e26e83b2ac5b9e29e

\b
Exit codes: 0 done; 2 the job, the schema, the budget, the ledger or the installation; 3 a row;
4 the system (unreadable input, disk full); 5 published, and then something failed; 129, 130, 143 interrupted; 1 a bug in dpcore.
A job that ends early leaves nothing under the names of its outputs.
"""


COMMIT = (
    "Draw the noise from a new key that is kept in KEYFILE, so that dpcore verify can make the release again. KEYFILE is as secret as the "
    "data: with the answers it gives the exact statistics."
)
COMMIT_ONLY = "Make KEYFILE, print its commitment, and stop, before any data are read: to deposit the commitment with a third party."
RANDOMNESS = (
    "What the public announced after the commitment of KEYFILE was deposited, 32 to 2048 hexadecimal digits: the noise follows from it "
    "and from the key."
)
CONNECT = (
    "For a server of Spark Connect, sc://host:15002: declare that the connection to it, those between it and its executors, and the "
    "disks to which they spill are encrypted, or reached by nobody who may not see the table. The document records it."
)


@click.command("release", help=HELP, short_help=SHORT["release"])
@job_options(plan="the plan, the noise and the total", verb="compute", files="DIR/NAME.html, a page with plots, and the JSON")
@click.option("--commit", metavar="KEYFILE", help=COMMIT)
@click.option("--commit-only", is_flag=True, help=COMMIT_ONLY)
@click.option("--public-randomness", metavar="HEX", help=RANDOMNESS)
@engine_options
@click.option("--connect-encrypted", is_flag=True, help=CONNECT)
def command(
    *,
    engine: str,
    master: str | None,
    conf: tuple[str, ...],
    connect_encrypted: bool,
    commit: str | None,
    commit_only: bool,
    public_randomness: str | None,
    **options: Any,
) -> None:
    """Run or describe a job; the entry point turns errors into exit codes."""
    is_spark = check_engine(engine, master, conf)
    if connect_encrypted and not is_spark:
        raise click.UsageError("--connect-encrypted is for --engine spark")
    _check_commit(commit, public_randomness, commit_only=commit_only, is_spark=is_spark, options=options)
    if is_spark:
        with Deferred():
            from dpcore.spark.commands import release
        release(master=master, conf=conf, connect_encrypted=connect_encrypted, **options)
        return
    with Deferred():
        from dpcore.jobs.commands.release import commit_only as only
        from dpcore.jobs.commands.release import run

        WithoutPandas().settle()
    if commit is not None and commit_only:
        only(commit, **{name: options[name] for name in ("job", "source", "target", "given", "as_json")})
        return
    run(**options, commit=commit, public_randomness=public_randomness)


def _check_commit(commit: str | None, randomness: str | None, *, commit_only: bool, is_spark: bool, options: dict[str, Any]) -> None:
    """Raise `click.UsageError` for options of `--commit` that contradict each other."""
    if commit is None:
        for name, given in (("--commit-only", commit_only), ("--public-randomness", randomness is not None)):
            if given:
                raise click.UsageError(f"{name} is for a release with --commit KEYFILE")
        return
    if is_spark:
        raise click.UsageError(
            "--commit is for the local engine: a cluster's input has no one state of its bytes that a replay could compare"
        )
    if not commit_only:
        return
    others = {name: options[name] for name in ("dry_run", "overwrite", "curator", "folder", "log")} | {"public_randomness": randomness}
    for name, given in others.items():
        if given:
            said = "report" if name == "folder" else name.replace("_", "-")
            raise click.UsageError(f"--commit-only makes a key file and no release, so it cannot be combined with --{said}")
