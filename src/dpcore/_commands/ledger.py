"""`dpcore ledger`: make a budget, show what remains of it, and complete killed jobs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from dpcore._commands import SHORT
from dpcore._disk.signals import Deferred
from dpcore._terminal import form_option

HELP = """Keep a privacy budget in a file, so that no number of jobs can spend more than you allow.

Every release from the same data adds up: two jobs of epsilon 1 together protect only at epsilon 2. A ledger is one SQLite file that keeps
the sum. A job that names it in [ledger] reserves its cost before it draws any noise. If the cost exceeds what is left, the job is
refused with exit code 2. Jobs that run at the same time cannot overspend together, and the cost of a job that is killed stays spent.

\b
    dpcore ledger create budget.ledger --epsilon 4 --delta 1e-6 --dataset claims-2026
    dpcore release job.toml                  # with [ledger] path = "budget.ledger"
    dpcore ledger show budget.ledger

Make one ledger for each table of people, keep it beside that table, and name it in every job that releases something from the table.
It counts only the jobs that name it. It is not an access control: anyone who can write the file can replace it.
"""

CREATE_HELP = """Make a ledger at PATH with a budget. Missing folders are made. A file that exists is never changed.

\b
    dpcore ledger create budget.ledger --epsilon 4                       # delta = 0
    dpcore ledger create budget.ledger --epsilon 4 --delta 1e-6
    dpcore ledger create budget.ledger --zcdp --epsilon 4 --delta 1e-6
    dpcore ledger create budget.ledger --rho 0.2 --failure-delta 1e-7
    dpcore ledger create budget.ledger --mu 0.5 --failure-delta 1e-7

You choose what adds up when you make the ledger:

\b
    epsilon and delta  (kind basic, with --epsilon) For few releases, and for any kind of release.
    rho                (kind zcdp) Each spend is converted to rho (zero-concentrated differential privacy), so that many small
                       releases cost less together. Use --rho, or --zcdp with the epsilon and delta that all releases together
                       may have; the command then finds the largest rho for them. Releases that have a delta spend it
                       from --failure-delta, which is a part of --delta.
    squares of mu      (kind gdp, with --mu) For programs in Python that release Gaussian noise, whose conversion to epsilon is then
                       exact. All other releases, those of jobs among them, cost more than in a ledger of kind zcdp.

The following cannot be changed either, and jobs that differ are refused. --relation is replace if neighbouring tables differ by the
content of one row (or person), which makes the number of rows public, and add_remove if they differ by its presence. --unit is row, or
person for jobs with unit = "person": an epsilon per row and an epsilon per person do not add up. With --dataset claims-2026 the ledger
pays only for jobs whose [input] has dataset = "claims-2026"; without it, the ledger is for several data sets.

\b
Exit codes: 0 made; 2 a parameter is wrong, or a file exists at PATH; 4 the folder cannot be written; 1 a bug in dpcore.
"""

SHOW_HELP = """Show the budget, what is spent, what remains, and each spend.

\b
    spent        the total of all spends, in any state
    unfinished   the part of it whose job is running or was killed
    failed       the part of it whose job failed after it had begun to draw noise
    remaining    what the next job may spend

\b
    reserved     the job is drawing noise, or was killed while it did. A number may have been released, so it counts as spent
    sealed       its outputs are complete; if the job was killed, the next job that spends, or dpcore ledger complete, publishes them
    published    its outputs have their names
    done         the job is finished
    failed       there is no output; the reason is one word

A zcdp ledger counts rho, a gdp ledger squares of mu, and both the delta of releases that may fail. Their guarantee in terms of epsilon
follows from the budget, and not from what is spent so far.

The JSON is one object: format, path, kind, relation, unit, dataset, budget, spent, unfinished, failed, remaining (objects with delta and
epsilon, rho or mu), and entries, a list of objects with id, what, when (UTC), state, reason, epsilon, delta, rho, job, run, version,
relation, unit, dataset, secure, user and host (who spent, and on which machine).

This command spends nothing and changes nothing.

\b
Exit codes: 0 shown; 2 PATH is not a ledger; 4 it does not exist or cannot be read; 1 a bug in dpcore.
"""

COMPLETE_HELP = """Publish the outputs of jobs that were killed after their outputs were complete.

Each output whose content is what the job had sealed gets its name, if no other file has taken that name since. Every job that spends
does the same first; this command does it without a job. Jobs that are running are left alone.

--abandon ID gives up one entry that is reserved or sealed: it becomes failed, and its outputs are not published any more. Its cost stays
spent.

The JSON is one object: format, path, and published, sealed and abandoned, which are lists of entries as in dpcore ledger show.

\b
Exit codes: 0 all sealed outputs are published; 4 some could not be (their names are taken, or their files are missing), or the
ledger cannot be read or written; 2 PATH is not a ledger or ID is not such an entry; 1 a bug in dpcore.
"""

EXPORT_HELP = """Print a ledger as JSON, or copy one that an earlier dpcore made into a new one.

\b
    dpcore ledger export old.ledger                     # JSON, of either format
    dpcore ledger export old.ledger --into new.ledger   # a new ledger with its budget and its spends

Ledgers of format 1 cannot be opened any more. --into makes a new one and only reads the old one. Remove the old one when no earlier
dpcore uses it. With accounting basic, budget and spends stay as they are. With accounting zcdp the old budget (epsilon, delta) was a
target, and each spend could take from delta by rho or by failing. The new ledger fixes the part for failures: --failure-delta, by default
what was spent of it, which is also the least. Its budget is the largest rho that keeps (epsilon, delta) with this part. If amounts were
chosen after seeing answers, the old and new releases together are (epsilon, 2 delta)-private.

\b
Exit codes: 0 printed or made; 2 PATH is not a ledger or of another format, a file exists at NEW, or the failure delta does not fit;
4 PATH cannot be read or NEW cannot be written; 1 a bug in dpcore.
"""


@click.group("ledger", help=HELP, short_help=SHORT["ledger"])
def command() -> None:
    """Group the subcommands."""


@command.command("create", help=CREATE_HELP, short_help="Make a ledger with a budget.")
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--epsilon", type=float, help="Limit of the epsilon of all spends together.")
@click.option("--delta", type=float, default=0.0, show_default=True, help="Limit of their delta.")
@click.option("--zcdp", is_flag=True, help="Count rho, up to the largest that keeps --epsilon at --delta.")
@click.option("--rho", type=float, help="Count rho, up to this limit.")
@click.option("--mu", type=float, help="Count squares of mu, up to the square of this limit.")
@click.option(
    "--failure-delta", type=float, default=0.0, show_default=True, help="With rho or mu: limit of the delta of releases that may fail."
)
@click.option(
    "--relation",
    type=click.Choice(["replace", "add_remove"]),
    default="replace",
    show_default=True,
    help="How neighbouring tables differ, as in the jobs that will spend.",
)
@click.option(
    "--unit",
    default="row",
    show_default=True,
    help="Whose data is protected: row, or the column that identifies a person, or the unit_name of jobs that have one.",
)
@click.option("--dataset", help="Name of the data set, as jobs declare it. Default: several data sets.")
@form_option
def create(**options: Any) -> None:
    """Make a ledger; the entry point turns errors into exit codes."""
    with Deferred():
        from dpcore.jobs.commands import ledger
    ledger.create(**options)


@command.command("show", help=SHOW_HELP, short_help="Show what a ledger holds and what remains.")
@click.argument("path", type=click.Path(path_type=Path))
@form_option
def show(**options: Any) -> None:
    """Show a ledger; the entry point turns errors into exit codes."""
    with Deferred():
        from dpcore.jobs.commands import ledger
    ledger.show(**options)


@command.command("complete", help=COMPLETE_HELP, short_help="Publish what killed jobs had sealed.")
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--abandon", type=int, metavar="ID", help="Abandon this entry instead. Its cost stays spent.")
@form_option
def complete(**options: Any) -> None:
    """Complete runs or abandon one; the entry point turns errors into exit codes."""
    with Deferred():
        from dpcore.jobs.commands import ledger
    ledger.complete(**options)


@command.command("export", help=EXPORT_HELP, short_help="Print a ledger as JSON, or copy an old one into a new one.")
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--into", type=click.Path(path_type=Path), metavar="NEW", help="Make this ledger from one of format 1.")
@click.option("--failure-delta", type=float, help="With --into, for accounting zcdp: limit of the delta of failures.")
@click.option("--dataset", help="With --into: name of the data set of the new ledger. Default: several data sets.")
@form_option
def export(**options: Any) -> None:
    """Print or copy a ledger; the entry point turns errors into exit codes."""
    with Deferred():
        from dpcore.jobs.commands import ledger
    ledger.export(**options)
