"""`dpcore privatize`."""

from __future__ import annotations

from typing import Any

import click

from dpcore._commands import SHORT
from dpcore._commands.options import WithoutPandas, check_engine, engine_options, job_options
from dpcore._disk.signals import Deferred

HELP = """Randomise a table, row by row, as JOB (a TOML file) says.

Every cell of a [[column]] is randomised on its own before it is written (local differential privacy). The holder of the output learns
little about any single row. `dpcore estimate` computes means and shares over many rows from it. Columns that the job does not name are
dropped.

A complete job:

\b
    version = 1
    keep = ["state"]                # public columns, copied as they are
    [input]
    path = "visits.parquet"         # a file, a folder or a glob: .parquet, .csv, .arrow
    [output]
    path = "out/visits-private.parquet"
    [privacy]
    max_epsilon = 5.0               # the job does not start if its columns spend more
    max_delta = 1e-6                # default 0
    [[column]]
    name = "visits"                 # integers
    mechanism = "discrete_laplace"
    epsilon = 1.0                   # smaller protects more and costs accuracy
    lower = 0                       # from what you know, never the data's minimum
    upper = 50
    missing = "skip"                # estimates leave nulls out; without missing a null ends the job
    [[column]]
    name = "cost"                   # real numbers
    mechanism = "gaussian"
    epsilon = 1.0
    delta = 1e-6                    # the gaussian kinds need one
    lower = 0.0
    upper = 5000.0
    [[column]]
    name = "smoker"                 # booleans, or 0 and 1
    mechanism = "binary"            # for words: categories = ["no", "yes"]
    epsilon = 1.0
    [[column]]
    name = "region"                 # strings or integers
    mechanism = "kary"
    epsilon = 2.0
    categories = ["north", "east", "south", "west"]
    unknown = "north"               # replaces other values; without it such a value ends the job

\b
Mechanisms, by what you can estimate from them:
    means    laplace, gaussian (any numbers), discrete_laplace, discrete_gaussian (integers),
             bounded_mean (any numbers; one bit a row), binary_channel (categories; needs phi, a number for each)
    shares   binary (yes or no), kary (few categories), unary, subset, hashing, hadamard, projective (many categories)

Declare categories, and never take them from the data: categories = [...], categories_file = "x.csv" (one column with a header), or
k = N for the codes 0 to N - 1.

Paths of inputs and outputs may be addresses of a store, such as s3://bucket/key or gs://bucket/key; credentials are those of the
environment. Folders named column=value below the input's path are columns, and each of them must be kept, noised or the unit.

First check that your numbers parse: in a CSV a cell such as 12,50 or 45 y is not a number and counts as missing, without a message.

missing says what becomes of nulls and of CSV cells that do not parse. With missing = "skip" the estimates are about the rows that have a
value; whether a row has one is randomised too, within the same epsilon. With a value, such cells count as that answer, which moves the
estimates: 0 for an unanswered "how many visits?" makes the mean too small. unknown replaces values that are not a category. With both
declared, no row can end a job. Without them, a job ends at such a cell, and the message names its column; with --curator it also names
the row.

Try --dry-run first: it reads the schema only, and prints the plan and the total.

Without a [ledger] running a job again spends its budget again: two outputs of one table together protect it only at the sum of both. So
an output that exists is refused unless --overwrite is given. With a ledger the same job again (same settings, same output) spends nothing
and reads nothing: the output stays as it is, also if the table has changed since.

\b
Exit codes: 0 done; 2 the job, the schema, the ledger or the installation; 3 a row;
4 the system (unreadable input, disk full); 5 published, and then something failed; 129, 130, 143 interrupted; 1 a bug in dpcore.
A job that ends early leaves nothing under the output's name.
"""


@click.command("privatize", help=HELP, short_help=SHORT["privatize"])
@job_options(plan="the plan and the total", verb="randomise", files="DIR/NAME.json and DIR/NAME.html about the output")
@engine_options
def command(*, engine: str, master: str | None, conf: tuple[str, ...], **options: Any) -> None:
    """Run or describe a job; the entry point turns errors into exit codes."""
    if check_engine(engine, master, conf):
        with Deferred():
            from dpcore.spark.commands import privatize
        privatize(master=master, conf=conf, **options)
        return
    with Deferred():
        from dpcore.jobs.commands.privatize import run

        WithoutPandas().settle()
    run(**options)
