"""`dpcore ledger`: make a budget, and see what is left of it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from dpcore.batch.errors import JobError
from dpcore.batch.ledger_state import ledger_state
from dpcore.batch.output import make_folder
from dpcore.batch.readable import json_text, plain_number
from dpcore.privacy import Privacy, Relation

if TYPE_CHECKING:
    from collections.abc import Mapping

HELP = """Keep a privacy budget in a file, so that no number of jobs can spend more than was allowed.

Every release from the same data adds up: two jobs of epsilon 1 together protect at epsilon 2. A ledger is one SQLite file that
remembers: a job that names it in [ledger] reserves what it is about to spend before any noise is drawn, and is refused (exit code 2)
if that would exceed the budget. Two jobs at the same time cannot overspend together, and a job that is killed has spent.

\b
    dpcore ledger create budget.ledger --epsilon 4 --delta 1e-6
    dpcore release job.toml                  # with [ledger] path = "budget.ledger"
    dpcore ledger show budget.ledger

Make one ledger for each table of people that is protected, keep it beside that table, and let every release from the table name it.
It knows only of the jobs that name it, and it is no access control: who can write the file can replace it.
"""

CREATE_HELP = """Make a ledger at PATH with a budget; its folders are made, and a file that exists is never touched.

\b
    dpcore ledger create budget.ledger --epsilon 4                       # delta = 0
    dpcore ledger create budget.ledger --epsilon 4 --delta 1e-6
    dpcore ledger create budget.ledger --epsilon 4 --delta 1e-6 --accounting zcdp

How spends add up is fixed for good when the ledger is made:

\b
    basic   epsilons and deltas are summed (the default). For few releases, and for any kind of them.
    zcdp    each spend is turned into rho (zero-concentrated differential privacy) and rhos are summed: many small
            releases then cost less together. It needs a delta above 0, at which epsilon follows from that sum.

So is what neighbouring tables are, and jobs that say otherwise are refused: --relation replace if tables differ by what a row (or
person) holds, so that their number is public, and add_remove if they differ by its presence. And so is the unit, --unit person for jobs
with unit = "person": an epsilon per row and an epsilon per person do not add up.

\b
Exit codes: 0 made; 2 the parameters, or something exists at PATH; 4 the folder cannot be written; 1 a bug in dpcore.
"""

SHOW_HELP = """Show budget, what is spent and reserved, what remains, and each spend.

\b
    spent       all that counts against the budget, reservations included
    reserved    the part of it whose job has not said that it is done: it runs just now, or it was killed.
                Whether a killed job had drawn noise cannot be known, so it counts as spent for good
    remaining   what the next job may spend

A zcdp ledger shows rho as well. Its remaining epsilon is that of the largest single spend that still fits and has delta = 0.

With --json one object: format, path, accounting, relation, unit, budget, spent, reserved, remaining (objects with epsilon, delta and, for
zcdp, rho), and entries, a list with id, what, when (UTC), state ("reserved" or "done"), epsilon, delta, rho, job and version.

Looking spends nothing and changes nothing.

\b
Exit codes: 0 shown; 2 PATH is no ledger; 4 it does not exist or cannot be read; 1 a bug in dpcore.
"""


@click.group("ledger", help=HELP, short_help="Keep a privacy budget that cannot be overspent.")
def command() -> None:
    """Group the two subcommands."""


@command.command("create", help=CREATE_HELP, short_help="Make a ledger with a budget.")
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--epsilon", type=float, required=True, help="What all spends together may come to.")
@click.option("--delta", type=float, default=0.0, show_default=True, help="The same for delta.")
@click.option(
    "--accounting",
    type=click.Choice(["basic", "zcdp"]),
    default="basic",
    show_default=True,
    help="How spends add up; cannot be changed later.",
)
@click.option(
    "--relation",
    type=click.Choice(["replace", "add_remove"]),
    default="replace",
    show_default=True,
    help="How neighbouring tables differ, as in the jobs that will spend.",
)
@click.option("--unit", default="row", show_default=True, help="Whose data is protected: row, or the column that says whose a row is.")
def create(path: Path, epsilon: float, delta: float, accounting: Literal["basic", "zcdp"], relation: Relation, unit: str) -> None:
    """Make it; errors are turned into exit codes by the entry point."""
    from dpcore.accounting import Ledger

    budget = Privacy(epsilon, delta, relation)
    if path.exists():
        raise JobError(f"{path} exists already: a ledger is never replaced (dpcore ledger show {path} tells what is in it)")
    make_folder(path.parent)
    try:
        Ledger.create(path, budget, accounting=accounting, unit=unit)
    except FileExistsError:
        raise JobError(f"{path} exists already, made just now by another process") from None
    spendable = _amount({"epsilon": epsilon, "delta": delta})
    click.echo(f"{path}: a ledger with a budget of {spendable}, accounting {accounting}, relation {relation}, unit {unit}")
    click.echo("Jobs that name it under [ledger] spend from it, and none can spend more than remains.")


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


def _print_state(state: Mapping[str, Any]) -> None:
    rule = "rho adds up" if state["accounting"] == "zcdp" else "epsilon and delta add up"
    click.echo(f"ledger     {state['path']} (accounting {state['accounting']}: {rule}; relation {state['relation']}; unit {state['unit']})")
    for part in ("budget", "spent", "reserved", "remaining"):
        note = " (part of spent: jobs that run or were killed)" if part == "reserved" and any(state[part].values()) else ""
        click.echo(f"{part:<9}  {_amount(state[part])}{note}")
    click.echo()
    if not state["entries"]:
        click.echo("Nothing has been spent.")
        return
    # A pipe has no width to fit into; long names must not be folded for it.
    console = Console(file=sys.stdout, width=None if sys.stdout.isatty() else 200, highlight=False)
    console.print(_entries_table(state))


def _entries_table(state: Mapping[str, Any]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    numbers = ("epsilon", "delta", "rho") if state["accounting"] == "zcdp" else ("epsilon", "delta")
    for heading in ("when", *numbers, "state", "what", "job", "dpcore"):
        table.add_column(heading, overflow="fold", justify="right" if heading in numbers else "left")
    for entry in state["entries"]:
        amounts = (plain_number(entry[key]) for key in numbers)
        cells = [entry["when"], *amounts, *(entry[key] for key in ("state", "what", "job", "version"))]
        # Text, not markup: what a caller wrote in brackets would be taken for a style.
        table.add_row(*(Text("–" if cell is None else str(cell)) for cell in cells))
    return table


def _amount(part: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {plain_number(value)}" for key, value in part.items() if value is not None)
