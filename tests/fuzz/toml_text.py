"""Mutations of job files that know TOML and the keys of jobs, so that most of them are jobs."""

from __future__ import annotations

import datetime as dt
import json
import math
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import random

KEYS = (
    "version", "input", "output", "privacy", "ledger", "testing", "column", "query", "derive", "lookup", "join", "per_unit", "where",
    "keep", "path", "format", "dataset", "compression", "shards", "max_epsilon", "max_delta", "unit", "max_rows_per_unit",
    "max_groups_per_unit", "null_unit", "over_limit", "relation", "accounting", "unit_name", "key_hex", "name", "mechanism", "kind",
    "epsilon", "delta", "weight", "confidence", "lower", "upper", "missing", "unknown", "categories", "categories_file", "k", "phi",
    "method", "candidates", "candidates_file", "s", "values", "q", "grid", "bins", "edges", "ddof", "group_by", "groups", "consistent",
    "levels", "non_negative", "integral", "bounds", "bounds_epsilon", "max_sum_per_unit", "max_values_per_unit", "columns", "draws",
    "max_cells", "marginals", "integers", "sql", "key", "by", "how", "steps", "step", "first", "every", "state", "max_steps_per_unit",
    "label", "unit_of", "start", "stop",
)  # fmt: skip
NAMES = (
    "visits",
    "income",
    "label",
    "text",
    "flag",
    "code",
    "person",
    "day",
    "moment",
    "amount",
    "note",
    "often",
    "rate",
    "nowhere",
    "row",
)
EXPRESSIONS = (
    "visits > 3", "income / visits", "label = 'a'", "flag AND visits < 4", "year(day) = 2024", "upper(text)", "label IS NULL",
    "visits + 1 -- ",
    "count(*)", "max(income)", "read_csv('people.csv')", "CAST(text AS BIGINT)", "plan = 'free'", "1 = 1", "visits; SELECT 1",
)  # fmt: skip
SCALARS: tuple[Any, ...] = (
    0, 1, -1, 2, 3, 5, 10, 100, 255, 1000, 2**31, 2**53 + 1, 2**63 - 1, -(2**63), 2**63, 2**64, 10**400, 0.0, -0.0, 0.5, 1.0, 1.5, 0.1,
    1e-6, 1e-12,
    1e-300, 5e-324, 1e308, 1e22, math.inf, -math.inf, math.nan, True, False, "", " ", "a", "b", "c", "skip", "private", "row", "add_remove",
    "replace", "zcdp", "pld", "basic", "joint", "marginals", "gumbel", "optimal", "symmetric", "drop", "own", "suppress", "refuse",
    "auto", "zstd",
    "left", "inner", "day", "week", "month", "${DATE}", "${", "$${X}", "\x00", "\x1b[31m", "\u202e", "x" * 300, "é", "2024-02-30",
    "2024-01-31",
    "P1D", "PT1H", "P7D", dt.date(2024, 1, 31), dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.time(12, 30), dt.datetime(2024, 1, 31, 12),
    dt.datetime(2024, 1, 31, 12, tzinfo=dt.UTC), [], [[]], {}, [1], [0, 1, 2], ["a", "b"], [0.5, 0.25], {"start": 0, "stop": 9, "step": 1},
    {"start": "2024-01-01", "stop": "2024-03-01", "step": "P7D"}, {"values": ["a"], "null": True}, [[[[[[[[1]]]]]]]],
)  # fmt: skip
PATHS = ("people.csv", "people.parquet", "people.arrow", "towns.csv", "plans.csv", "deaths.parquet", "budget", "out.json", "out.parquet",
"out.csv",
         "out.arrow", "made.csv", "state/kept", "s3://bucket/key", "p*.csv", ".", "people.csv/x", "gone.parquet", "\x00")  # fmt: skip


def parsed(data: bytes) -> dict[str, Any] | None:
    """The document of a job file; None if it is no TOML."""
    try:
        return tomllib.loads(data.decode())
    except (ValueError, RecursionError):
        return None


def written(document: dict[str, Any]) -> bytes:
    """A document as TOML."""
    plain = {key: value for key, value in document.items() if not _is_table(value) and not _is_tables(value)}
    lines = [f"{_key(key)} = {literal(value)}" for key, value in plain.items()]
    for key, value in document.items():
        if key not in plain:
            for each in [value] if _is_table(value) else value:
                head = f"[{_key(key)}]" if _is_table(value) else f"[[{_key(key)}]]"
                lines += ["", head, *(f"{_key(inner)} = {literal(item)}" for inner, item in each.items())]
    return ("\n".join(lines) + "\n").encode(errors="replace")


def _is_table(value: Any) -> bool:
    return isinstance(value, dict)


def _is_tables(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(each, dict) for each in value)


def _key(key: str) -> str:
    return key if key.isascii() and key.replace("_", "").isalnum() else literal(key)


def literal(value: Any) -> str:
    """A value as TOML writes it."""
    match value:
        case bool():
            return "true" if value else "false"
        case float():
            return "nan" if math.isnan(value) else repr(value)
        case int():
            return str(value) if abs(value) < 10**4000 else "0"
        case str():
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        case dt.date() | dt.time():
            return value.isoformat()
        case dict():
            return "{ " + ", ".join(f"{_key(key)} = {literal(item)}" for key, item in value.items()) + " }"
        case list() | tuple():
            return "[" + ", ".join(map(literal, value)) + "]"
    return '"?"'


class TomlMutator:
    """Changes a few values or keys of a job, or takes entries of other jobs.

    Parameters
    ----------
    jobs : list of dict
        Documents of other jobs.
    """

    def __init__(self, jobs: list[dict[str, Any]]) -> None:
        self._entries = {
            table: [each for job in jobs for each in job.get(table, []) if isinstance(each, dict)]
            for table in ("query", "column", "derive", "lookup", "join")
        }
        self._tables = [(key, value) for job in jobs for key, value in job.items() if key not in self._entries]

    def mutated(self, data: bytes, rng: random.Random) -> bytes | None:
        """Another job; None if this one is no TOML."""
        document = parsed(data)
        if document is None:
            return None
        try:
            for _ in range(rng.choice((1, 1, 2, 3))):
                self._change(document, rng)
            return written(document)
        except RecursionError:  # the one that was read is nested as deep as Python goes
            return None

    def _change(self, document: dict[str, Any], rng: random.Random) -> None:
        chosen = rng.randrange(12)
        if chosen == 0:
            key, value = rng.choice(self._tables)
            document[key] = value
        elif chosen <= 3:
            table = rng.choice(
                [name for name, found in self._entries.items() if found and (name in document or rng.random() < 0.2)] or ["query"]
            )
            listed = document.setdefault(table, [])
            if isinstance(listed, list) and self._entries[table]:
                entry = dict(rng.choice(self._entries[table]))
                if listed and rng.random() < 0.4:
                    listed[rng.randrange(len(listed))] = entry
                elif len(listed) < 6:
                    listed.append(entry)
        else:
            table = rng.choice(list(_tables_of(document)))
            self._edit(table, rng)

    def _edit(self, table: dict[str, Any] | list[Any], rng: random.Random) -> None:
        places = list(table) if isinstance(table, dict) else list(range(len(table)))
        chosen = rng.randrange(7)
        if not places or chosen == 0:
            if isinstance(table, dict):
                table[rng.choice(KEYS)] = _value(None, rng)
            else:
                table.append(_value(table[0] if table else None, rng))
            return
        place = rng.choice(places)
        if chosen == 1:
            del table[place]
        elif chosen == 2 and isinstance(table, dict):
            table[rng.choice(KEYS)] = table.pop(place)
        elif chosen == 3:
            table[place] = [table[place]] if rng.random() < 0.7 else {rng.choice(KEYS): table[place]}
        else:
            table[place] = _value(table[place], rng)


def _tables_of(value: Any) -> list[Any]:
    """A table or list, and all inside of it."""
    inner = value.values() if isinstance(value, dict) else value
    found = [value]
    for each in inner:
        if isinstance(each, dict | list):
            found += _tables_of(each)
    return found


def _value(before: Any, rng: random.Random) -> Any:
    """A value in place of another: near it, of its kind, or anything."""
    chosen = rng.randrange(6)
    if chosen == 0 and isinstance(before, int) and not isinstance(before, bool):
        return before + rng.choice((-1, 1, 2, -before, before))
    if chosen == 0 and isinstance(before, float):
        return rng.choice((before * 2, -before, before * 1e-9, math.nextafter(before, math.inf)))
    if isinstance(before, str) and chosen <= 3:
        return rng.choice(
            (rng.choice(NAMES), rng.choice(EXPRESSIONS), rng.choice(PATHS), before[: len(before) // 2], before * 2, before.upper())
        )
    return rng.choice(SCALARS)


def documents(folder: Path) -> list[dict[str, Any]]:
    """The jobs of a folder."""
    return [found for path in sorted(folder.iterdir()) if path.is_file() and (found := parsed(path.read_bytes())) is not None]
