"""`dpcore ledger`: make a budget, see what is left of it, and finish what killed jobs left."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from dpcore.batch.tables.ledger_state import exported, ledger_state
from dpcore.batch.tables.publication import make_folder
from dpcore.errors import JobError, StorageError
from dpcore.pages.numbers import json_text, plain_number
from dpcore.pages.printable import printable, printable_lines

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dpcore.privacy import Relation

HELP = """Keep a privacy budget in a file, so that no number of jobs can spend more than was allowed.

Every release from the same data adds up: two jobs of epsilon 1 together protect at epsilon 2. A ledger is one SQLite file that
remembers: a job that names it in [ledger] reserves what it is about to spend before any noise is drawn, and is refused (exit code 2)
if that would exceed the budget. Two jobs at the same time cannot overspend together, and a job that is killed has spent.

\b
    dpcore ledger create budget.ledger --epsilon 4 --delta 1e-6 --dataset claims-2026
    dpcore release job.toml                  # with [ledger] path = "budget.ledger"
    dpcore ledger show budget.ledger

Make one ledger for each table of people that is protected, keep it beside that table, and let every release from the table name it.
It knows only of the jobs that name it, and it is no access control: who can write the file can replace it.
"""

CREATE_HELP = """Make a ledger at PATH with a budget; its folders are made, and a file that exists is never touched.

\b
    dpcore ledger create budget.ledger --epsilon 4                       # delta = 0
    dpcore ledger create budget.ledger --epsilon 4 --delta 1e-6
    dpcore ledger create budget.ledger --zcdp --epsilon 4 --delta 1e-6
    dpcore ledger create budget.ledger --rho 0.2 --failure-delta 1e-7

What adds up is fixed for good when the ledger is made:

\b
    epsilon and delta  (kind basic, with --epsilon) For few releases, and for any kind of them.
    rho                (kind zcdp) Each spend is turned into rho (zero-concentrated differential privacy): many small releases
                       then cost less together. Give --rho, or --zcdp with the epsilon and delta that all of them together
                       are to have; the largest rho for them is found. Releases with a delta of their own spend it from
                       --failure-delta, which is fixed too and is a part of --delta.

So is what neighbouring tables are, and jobs that say otherwise are refused: --relation replace if tables differ by what a row (or
person) holds, so that their number is public, and add_remove if they differ by its presence. So is the unit, --unit person for jobs
with unit = "person": an epsilon per row and an epsilon per person do not add up. And so is the data set: with --dataset claims-2026
only jobs whose [input] has dataset = "claims-2026" are paid for; without, the ledger is for several data sets.

\b
Exit codes: 0 made; 2 the parameters, or something exists at PATH; 4 the folder cannot be written; 1 a bug in dpcore.
"""

SHOW_HELP = """Show budget, what is spent, what remains, and each spend.

\b
    spent        all that counts against the budget: every spend, whatever became of it
    unfinished   the part of it whose job has not said that it is done: it runs just now, or it was killed
    failed       the part of it whose job failed after it had begun to draw noise
    remaining    what the next job may spend

\b
    reserved     the job draws noise, or was killed while it did. Whether a number got out cannot be known: it is spent
    sealed       its outputs are complete; if the job was killed, the next job that spends, or dpcore ledger complete, publishes them
    published    its outputs have their names
    done         nothing is left to do
    failed       there is no output, and the reason says why in one word

A zcdp ledger counts rho, and the delta of releases that may fail. What it promises in terms of epsilon follows from its budget, whatever
was spent of it.

With --json one object: format, path, kind, relation, unit, dataset, budget, spent, unfinished, failed, remaining (objects with delta and
epsilon or rho), and entries, a list with id, what, when (UTC), state, reason, epsilon, delta, rho, job, run, version, relation, unit,
dataset and secure.

Looking spends nothing and changes nothing.

\b
Exit codes: 0 shown; 2 PATH is no ledger; 4 it does not exist or cannot be read; 1 a bug in dpcore.
"""

COMPLETE_HELP = """Publish the outputs of jobs that were killed when their outputs were complete.

Each output whose content is what the job had sealed gets its name, if no other file has taken that name since. Every job that spends
does the same first; this command does it without a job. Jobs that run are left alone.

--abandon ID gives up one entry that is reserved or sealed: it becomes failed, and its outputs are not published any more. Its charge
stays.

\b
Exit codes: 0 all sealed outputs are published; 4 some could not be (their names are taken, or their files are not to be found here),
or the ledger cannot be read or written; 2 PATH is no ledger or ID no such entry; 1 a bug in dpcore.
"""

EXPORT_HELP = """Print a ledger as JSON, or carry one that an earlier dpcore made over into a new one.

\b
    dpcore ledger export old.ledger                     # JSON, of either format
    dpcore ledger export old.ledger --into new.ledger   # a new ledger with its budget and its spends

Ledgers of format 1 are not opened any more. --into makes a new one and only reads the old one; remove that when no earlier dpcore uses
it. With accounting basic, budget and spends stay as they are. With accounting zcdp the old budget (epsilon, delta) was a target, and
each spend could take from delta by rho or by failing. That choice has to be fixed: --failure-delta, at least what was spent of it, which
is the default; the new budget is the largest rho that keeps (epsilon, delta) with it. If amounts were chosen after seeing answers, what
holds for the old and new releases together is (epsilon, 2 delta).

\b
Exit codes: 0 printed or made; 2 PATH is no ledger or of another format, something exists at NEW, or the failure delta does not fit;
4 PATH cannot be read or NEW not be written; 1 a bug in dpcore.
"""


@click.group("ledger", help=HELP, short_help="Keep a privacy budget that cannot be overspent.")
def command() -> None:
    """Group the subcommands."""


@command.command("create", help=CREATE_HELP, short_help="Make a ledger with a budget.")
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--epsilon", type=float, help="What all spends together may come to.")
@click.option("--delta", type=float, default=0.0, show_default=True, help="The same for delta.")
@click.option("--zcdp", is_flag=True, help="Count rho, as much as keeps epsilon at delta.")
@click.option("--rho", type=float, help="Count rho, up to this.")
@click.option("--failure-delta", type=float, default=0.0, show_default=True, help="With rho: what deltas of spends may come to.")
@click.option(
    "--relation",
    type=click.Choice(["replace", "add_remove"]),
    default="replace",
    show_default=True,
    help="How neighbouring tables differ, as in the jobs that will spend.",
)
@click.option("--unit", default="row", show_default=True, help="Whose data is protected: row, or the column that says whose a row is.")
@click.option("--dataset", help="The data set it is for, as jobs declare it; without, for several.")
def create(
    path: Path,
    epsilon: float | None,
    delta: float,
    rho: float | None,
    failure_delta: float,
    relation: Relation,
    unit: str,
    dataset: str | None,
    *,
    zcdp: bool,
) -> None:
    """Make it; errors are turned into exit codes by the entry point."""
    from dpcore.accounting import Ledger

    limits = _limits(epsilon, delta, rho, failure_delta, zcdp=zcdp)
    if path.exists():
        raise JobError(f"{path} exists already: a ledger is never replaced (dpcore ledger show {path} tells what is in it)")
    make_folder(path.parent)
    try:
        ledger = Ledger.create(path, **limits, relation=relation, unit=unit, dataset=dataset)
    except FileExistsError:
        raise JobError(f"{path} exists already, made just now by another process") from None
    state = ledger_state(ledger, path)
    about = f"kind {ledger.kind}, relation {relation}, unit {unit}, {_dataset(state)}"
    _echo(f"{path}: a ledger with a budget of {_amount(state['budget'])}; {about}")
    if epsilon is not None and ledger.kind == "zcdp":
        _echo(f"All that it pays for is (epsilon {plain_number(epsilon)}, delta {plain_number(delta)})-private together.")
    click.echo("Jobs that name it under [ledger] spend from it, and none can spend more than remains.")


def _limits(epsilon: float | None, delta: float, rho: float | None, failure_delta: float, *, zcdp: bool) -> dict[str, Any]:
    """The budget that the options name."""
    from dpcore.accounting import zcdp_rho

    if rho is not None:
        if epsilon is not None or zcdp or delta:
            raise JobError("--rho is a budget by itself: leave out --epsilon, --delta and --zcdp")
        return {"rho": rho, "failure_delta": failure_delta}
    if epsilon is None:
        raise JobError("a budget is needed: --epsilon, or --rho")
    if not zcdp:
        if failure_delta:
            raise JobError("--failure-delta is for --rho and --zcdp; without them delta adds up in --delta")
        return {"epsilon": epsilon, "delta": delta}
    if not failure_delta < delta:
        raise JobError(
            f"--zcdp needs a --delta above --failure-delta, got {delta} and {failure_delta}: the rest is for the conversion of rho"
        )
    return {"rho": zcdp_rho(epsilon, delta, failure_delta=failure_delta), "failure_delta": failure_delta}


@command.command("show", help=SHOW_HELP, short_help="Show what a ledger holds and what remains.")
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of a table.")
def show(path: Path, *, as_json: bool) -> None:
    """Print it; errors are turned into exit codes by the entry point."""
    from dpcore.accounting import Ledger

    state = ledger_state(Ledger(path), path)
    if as_json:
        click.echo(json_text(state))
        return
    _print_state(state)


@command.command("complete", help=COMPLETE_HELP, short_help="Publish what killed jobs had sealed.")
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--abandon", type=int, metavar="ID", help="Give up this entry instead.")
def complete(path: Path, abandon: int | None) -> None:
    """Do it; errors are turned into exit codes by the entry point."""
    from dpcore.accounting import Ledger

    ledger = Ledger(path)
    if abandon is not None:
        ledger.abandon(abandon)
        _echo(f"{path}: entry {abandon} is given up; its charge stays")
        return
    for entry in ledger.complete():
        _echo(f"{path}: entry {entry.id} is published: {entry.what}")
    left = [entry for entry in ledger.entries() if entry.state == "sealed"]
    for entry in left:
        _echo(f"{path}: entry {entry.id} stays sealed: {entry.what}", err=True)
    if left:
        raise StorageError("their names are taken, their files are not here, or their jobs run: see dpcore ledger complete --help")


@command.command("export", help=EXPORT_HELP, short_help="Print a ledger as JSON; carry an old one over into a new one.")
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--into", type=click.Path(path_type=Path), metavar="NEW", help="Make this ledger from one of format 1.")
@click.option("--failure-delta", type=float, help="Limit of the delta of failures, for accounting zcdp.")
@click.option("--dataset", help="The data set that the new ledger is for; without, for several.")
def export(path: Path, into: Path | None, failure_delta: float | None, dataset: str | None) -> None:
    """Do it; errors are turned into exit codes by the entry point."""
    from dpcore.accounting.ledger import old_format

    if into is None:
        if failure_delta is not None or dataset is not None:
            raise JobError("--failure-delta and --dataset are for --into")
        click.echo(json_text(exported(path)))
        return
    if into.exists():
        raise JobError(f"{into} exists already: a ledger is never replaced")
    ledger = old_format.carry_over(path, into, failure_delta=failure_delta, dataset=dataset)
    state = ledger_state(ledger, into)
    _echo(f"{into}: kind {ledger.kind}, a budget of {_amount(state['budget'])}; {len(state['entries'])} spends of {path}")
    _echo(f"remaining  {_amount(state['remaining'])}")


def _echo(text: str, *, err: bool = False) -> None:
    """Print a text that others wrote parts of: what a spend is for, names of files and data sets."""
    click.echo(printable_lines(text), err=err)


def _print_state(state: Mapping[str, Any]) -> None:
    rule = "rho and the delta of failures add up" if state["kind"] == "zcdp" else "epsilon and delta add up"
    about = f"kind {state['kind']}: {rule}; relation {state['relation']}; unit {state['unit']}; {_dataset(state)}"
    _echo(f"ledger      {state['path']} ({about})")
    notes = {"unfinished": " (part of spent: jobs that run or were killed)", "failed": " (part of spent)"}
    for part in ("budget", "spent", "unfinished", "failed", "remaining"):
        note = notes.get(part, "") if any(state[part].values()) else ""
        _echo(f"{part:<10}  {_amount(state[part])}{note}")
    click.echo()
    if not state["entries"]:
        click.echo("Nothing has been spent.")
        return
    # A pipe has no width to fit into; long names must not be folded for it.
    console = Console(file=sys.stdout, width=None if sys.stdout.isatty() else 240, highlight=False)
    console.print(_entries_table(state))


def _entries_table(state: Mapping[str, Any]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    numbers = ("id", *state["budget"])
    keys = [*numbers, "state", "reason", "what", "job", "run", "dataset", "version"]
    # Columns that the ledger's own line tells, or that nobody filled, take no room.
    keys = [key for key in keys if key not in ("reason", "run", "dataset") or any(entry[key] for entry in state["entries"])]
    for heading in ("when", *keys):
        title = "dpcore" if heading == "version" else heading
        table.add_column(title, overflow="fold", justify="right" if heading in numbers else "left")
    for entry in state["entries"]:
        cells = [entry["when"], *(plain_number(entry[key]) if key in numbers else entry[key] for key in keys)]
        # Text, not markup: what a caller wrote in brackets would be taken for a style.
        table.add_row(*(Text("–" if cell is None else printable(str(cell))) for cell in cells))
    return table


def _dataset(state: Mapping[str, Any]) -> str:
    return "for several data sets" if state["dataset"] is None else f"data set {state['dataset']}"


def _amount(part: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {plain_number(value)}" for key, value in part.items() if value is not None)
