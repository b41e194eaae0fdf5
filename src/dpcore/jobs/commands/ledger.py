"""What `dpcore ledger` does: it makes a budget, shows what remains of it, and completes killed jobs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dpcore._disk.addresses import argument
from dpcore._terminal import echo, output_width, print_table, wants_json
from dpcore.errors import JobError, StorageError
from dpcore.jobs.commands import ledger_text
from dpcore.jobs.commands.ledger_text import about, amount
from dpcore.pages.numbers import json_text, plain_number
from dpcore.tables.ledger_state import FORMAT, entry_state, exported, ledger_state
from dpcore.tables.output.publication import make_folder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dpcore.privacy import Relation


def create(
    path: Path,
    epsilon: float | None,
    delta: float,
    rho: float | None,
    mu: float | None,
    failure_delta: float,
    relation: Relation,
    unit: str,
    dataset: str | None,
    *,
    zcdp: bool,
    as_json: bool | None,
) -> None:
    """Make a ledger; the entry point turns errors into exit codes."""
    from dpcore.accounting import Ledger

    limits = _limits(epsilon, delta, {"rho": rho, "mu": mu}, failure_delta, zcdp=zcdp)
    if path.exists():
        raise JobError(f"{path} exists already, and a ledger is never replaced; dpcore ledger show {argument(path)} shows it")
    make_folder(path.parent)
    try:
        ledger = Ledger.create(path, **limits, relation=relation, unit=unit, dataset=dataset)
    except FileExistsError:
        raise JobError(f"{path} exists already: another process has just made it") from None
    state = ledger_state(ledger, path)
    if wants_json(as_json):
        click.echo(json_text(state))
        return
    echo(f"{path}: a ledger with a budget of {amount(state['budget'])}; kind {ledger.kind}; {about(state)}")
    if epsilon is not None and ledger.kind == "zcdp":
        echo(f"Everything that it pays for is together (epsilon {plain_number(epsilon)}, delta {plain_number(delta)})-private.")
    echo("Jobs that name it under [ledger] spend from it. No job can spend more than remains.")


def _limits(epsilon: float | None, delta: float, others: Mapping[str, float | None], failure_delta: float, *, zcdp: bool) -> dict[str, Any]:
    """Return the limits that the options describe."""
    from dpcore.accounting import zcdp_rho

    for option, value in {"epsilon": epsilon, **others}.items():
        if value == 0:
            raise JobError(f"--{option} must be positive, got {value!r}: a ledger without a budget cannot be charged")
    given = {name: value for name, value in others.items() if value is not None}
    for name in given:
        if epsilon is not None or zcdp or delta or len(given) > 1:
            other = "--mu" if name == "rho" and len(given) > 1 else "--epsilon, --delta and --zcdp"
            raise JobError(f"--{name} is a budget by itself: leave out {other}")
        return given | {"failure_delta": failure_delta}
    if epsilon is None:
        raise JobError("a ledger needs a budget: give --epsilon (and --delta), or --rho, or --mu")
    if not zcdp:
        if failure_delta:
            raise JobError("--failure-delta is for --rho, --mu and --zcdp; without them give the delta of all spends as --delta")
        return {"epsilon": epsilon, "delta": delta}
    if not failure_delta < delta:
        raise JobError(
            f"--zcdp needs a --delta above --failure-delta, got {delta} and {failure_delta}: the rest is for the conversion of rho"
        )
    return {"rho": zcdp_rho(epsilon, delta, failure_delta=failure_delta), "failure_delta": failure_delta}


def show(path: Path, *, as_json: bool | None) -> None:
    """Show a ledger; the entry point turns errors into exit codes."""
    from dpcore.accounting import Ledger

    state = ledger_state(Ledger(path), path)
    if wants_json(as_json):
        click.echo(json_text(state))
    else:
        spends = ledger_text.entries_table(state, output_width()) if state["entries"] else ledger_text.NOTHING_SPENT
        print_table(ledger_text.describe(state) + "\n", spends)


def complete(path: Path, abandon: int | None, *, as_json: bool | None) -> None:
    """Complete runs or abandon one; the entry point turns errors into exit codes."""
    from dpcore.accounting import Ledger

    ledger = Ledger(path)
    found: dict[str, list[dict[str, Any]]] = {"published": [], "sealed": [], "abandoned": []}
    if abandon is not None:
        ledger.abandon(abandon)
        found["abandoned"] = [entry_state(entry) for entry in ledger.entries() if entry.id == abandon]
    else:
        found["published"] = [entry_state(entry) for entry in ledger.complete()]
        found["sealed"] = [entry_state(entry) for entry in ledger.entries() if entry.state == "sealed"]
    if wants_json(as_json):
        click.echo(json_text({"format": FORMAT, "path": str(path)} | found))
    else:
        _print_completed(path, found)
    if found["sealed"]:
        ids = ", ".join(str(entry["id"]) for entry in found["sealed"])
        raise StorageError(
            f"runs stay sealed in {path} (id {ids}): their names are taken, their files are missing, or their jobs are running; see "
            "dpcore ledger complete --help"
        )


def _print_completed(path: Path, found: Mapping[str, list[dict[str, Any]]]) -> None:
    for entry in found["abandoned"]:
        echo(f"{path}: entry {entry['id']} is abandoned; its cost stays spent")
    for entry in found["published"]:
        echo(f"{path}: entry {entry['id']} is published: {entry['what']}")
    for entry in found["sealed"]:
        echo(f"{path}: entry {entry['id']} stays sealed: {entry['what']}", err=True)


def export(path: Path, into: Path | None, failure_delta: float | None, dataset: str | None, *, as_json: bool | None) -> None:
    """Print or copy a ledger; the entry point turns errors into exit codes."""
    from dpcore.accounting.ledger import old_format

    if into is None:
        if failure_delta is not None or dataset is not None:
            raise JobError("--failure-delta and --dataset are for --into")
        if as_json is False:
            raise JobError("--table is for --into, because export prints JSON; dpcore ledger show prints a table")
        click.echo(json_text(exported(path)))
        return
    if into.exists():
        raise JobError(f"{into} exists already, and a ledger is never replaced; choose another name for --into")
    ledger = old_format.carry_over(path, into, failure_delta=failure_delta, dataset=dataset)
    state = ledger_state(ledger, into)
    if wants_json(as_json):
        click.echo(json_text(state))
        return
    echo(f"{into}: kind {ledger.kind}, a budget of {amount(state['budget'])}; {len(state['entries'])} spends of {path}")
    echo(f"remaining  {amount(state['remaining'])}")
