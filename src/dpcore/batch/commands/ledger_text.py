"""Text of `dpcore ledger`: help, and the tables that show a ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpcore.batch.commands.terminal import make_table
from dpcore.pages.numbers import plain_number, rounded_down, rounded_up

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.table import Table

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

You choose what adds up when you make the ledger:

\b
    epsilon and delta  (kind basic, with --epsilon) For few releases, and for any kind of release.
    rho                (kind zcdp) Each spend is converted to rho (zero-concentrated differential privacy), so that many small
                       releases cost less together. Use --rho, or --zcdp with the epsilon and delta that all releases together
                       may have; the command then finds the largest rho for them. Releases that have a delta spend it
                       from --failure-delta, which is a part of --delta.

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

A zcdp ledger counts rho, and the delta of releases that may fail. Its guarantee in terms of epsilon follows from its budget, and not from
what is spent so far.

The JSON is one object: format, path, kind, relation, unit, dataset, budget, spent, unfinished, failed, remaining (objects with delta and
epsilon or rho), and entries, a list of objects with id, what, when (UTC), state, reason, epsilon, delta, rho, job, run, version, relation,
unit, dataset and secure.

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

PARTS = ("budget", "spent", "unfinished", "failed", "remaining")
SPENT = ("spent", "unfinished", "failed")
"""The parts that are rounded up. The others are what may be spent, and are rounded down."""
NOTES = {"unfinished": " (part of spent: jobs that are running or were killed)", "failed": " (part of spent)"}
NOTHING_SPENT = "Nothing has been spent."


def describe(state: Mapping[str, Any]) -> str:
    """Describe a ledger: what it is for, its budget, and what is spent and left of it, one line each."""
    rule = "rho and the delta of failures add up" if state["kind"] == "zcdp" else "epsilon and delta add up"
    lines = [f"ledger      {state['path']} (kind {state['kind']}: {rule}; {about(state)})"]
    for part in PARTS:
        note = NOTES.get(part, "") if any(state[part].values()) else ""
        lines.append(f"{part:<10}  {amount(state[part], up=part in SPENT)}{note}")
    return "\n".join(lines)


def entries_table(state: Mapping[str, Any]) -> Table:
    """Make a table of the spends. Columns that no spend fills are left out."""
    numbers = ("id", *state["budget"])
    keys = [*numbers, "state", "reason", "what", "job", "run", "dataset", "version"]
    keys = [key for key in keys if key not in ("reason", "run", "dataset") or any(entry[key] for entry in state["entries"])]
    headings = ["when", *("dpcore" if key == "version" else key for key in keys)]
    rows = [[entry["when"], *(_cell(key, entry[key]) for key in keys)] for entry in state["entries"]]
    return make_table(headings, rows, right=numbers)


def about(state: Mapping[str, Any]) -> str:
    """Describe what the budget of a ledger refers to."""
    dataset = "for several data sets" if state["dataset"] is None else f"data set {state['dataset']}"
    return f"relation {state['relation']}; unit {state['unit']}; {dataset}"


def amount(part: Mapping[str, Any], *, up: bool = False) -> str:
    """Describe a part of a budget, rounded down; `up` is for what was spent."""
    rounded = rounded_up if up else rounded_down
    return ", ".join(f"{key} {rounded(value)}" for key, value in part.items() if value is not None)


def _cell(key: str, value: object) -> object:
    """The number of a spend, or its cost, which is rounded up; a text as it is."""
    return rounded_up(value) if isinstance(value, float) else plain_number(value) if key == "id" else value
