"""Joins of two private tables: checked, and as the `[[join]]` of a job."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpcore.errors import ParameterError
from dpcore.frames.source import RemoteSource

if TYPE_CHECKING:
    from dpcore.frames.question import View
    from dpcore.frames.session import Session
    from dpcore.frames.source import FrameSource

WAYS = ("left", "inner")
ONLY_UNITS = (
    "private tables are joined by their unit alone, because by another key rows of one unit would change those of others; use lookup for "
    "a public table"
)


def joined(session: Session, view: View, other: tuple[Session, View], how: str) -> View:
    """A view of a table with the columns of another one.

    Parameters
    ----------
    session, view : Session, View
        The table.
    other : tuple
        The same of the other one.
    how : str
        One of `WAYS`.

    Raises
    ------
    ParameterError
        If they cannot be joined.
    """
    _check(session, view, *other, how)
    theirs, made = other[0], dict(other[1].made or {})
    source = theirs.source
    path = source if isinstance(source, str) else f"{source.name} {next(session.numbers)}"
    names = {old: f"{table.name} {next(session.numbers)}" for old, table in other[1].tables}
    entry: dict[str, Any] = {"path": path, "unit": theirs.privacy["unit"], "how": how}
    entry |= _renamed({**made, "per_unit": {**made["per_unit"], **other[1].stage}}, names)
    frames: tuple[tuple[str, FrameSource], ...] = () if isinstance(source, str) else ((path, source),)
    tables = tuple((names[old], table) for old, table in other[1].tables)
    return replace(view, joins=(*view.joins, entry), tables=(*view.tables, *tables), joined=(*view.joined, *frames))


def _check(session: Session, view: View, theirs: Session, other: View, how: str) -> None:
    if how not in WAYS:
        raise ParameterError(f"how must be one of {', '.join(map(repr, WAYS))}, got {how!r}")
    if session.privacy["unit"] == "row" or theirs.privacy["unit"] == "row":
        raise ParameterError("join needs the unit of both tables, by which they are joined: PrivateTable(frame, unit='patient')")
    if theirs is session:
        raise ParameterError("a table is not joined to itself; make what you need of each unit's rows with per_unit")
    if other.made is None or "by" in other.made["per_unit"]:
        raise ParameterError(
            "the other table must have one row for each unit, made by per_unit without by, as in join(visits.per_unit(n='count(*)')): "
            "several would multiply the rows of a unit, and whether there are several is not for a test on the data to say"
        )
    if other.query or other.joins or "join" in other.made:
        raise ParameterError("the other table must be neither filtered for single queries nor joined; join tables one after the other")
    if view.query:
        raise ParameterError("join comes before conditions of single queries")
    ours, its = session.privacy["relation"], theirs.privacy["relation"]
    if ours != its:
        raise ParameterError(
            f"relation of the tables must be the same, because units are protected in both together; got {ours!r} and {its!r}"
        )
    if _is_one_ledger(session, theirs) and theirs.dataset not in {None, session.dataset}:
        raise ParameterError(
            f"dataset must be that of both tables, which have one ledger: it has one name for all tables of a set; got {session.dataset!r} "
            f"and {theirs.dataset!r}"
        )
    if isinstance(session.source, RemoteSource) != isinstance(theirs.source, RemoteSource):
        raise ParameterError("both tables must be of one engine: one of them is a table of Spark, and the other one is not")


def _is_one_ledger(session: Session, theirs: Session) -> bool:
    """Whether both name one file."""
    if session.ledger is None or theirs.ledger is None:
        return False
    one, other = Path(session.ledger), Path(theirs.ledger)
    return one.resolve() == other.resolve() or (one.exists() and other.exists() and one.samefile(other))


def _renamed(said: Any, names: dict[str, str]) -> Any:
    """What a job says with other paths of public tables that are frames."""
    if isinstance(said, dict):
        return {
            key: names.get(each, each) if key == "path" and isinstance(each, str) else _renamed(each, names) for key, each in said.items()
        }
    return [_renamed(each, names) for each in said] if isinstance(said, list) else said
