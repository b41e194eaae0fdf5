"""Making a ledger: the check of its limits, and the file with its header."""

from __future__ import annotations

import errno
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from dpcore._validation import check_choice, check_real
from dpcore.accounting.ledger import database, rows
from dpcore.accounting.ledger.amounts import Amount, read_number
from dpcore.errors import ParameterError, ParameterTypeError
from dpcore.privacy import as_written, written_down

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable
    from pathlib import Path

    from dpcore.accounting.ledger.spends import Kind
    from dpcore.accounting.ledger.states import State
    from dpcore.privacy import Relation

KINDS: Mapping[str, Kind] = {"epsilon": "basic", "rho": "zcdp", "mu": "gdp"}
"""Kind of a ledger whose budget has this name."""
MOST_OF_QUERIES = 2**18
"""Bytes of the queries of one spend."""


def make(
    path: str | os.PathLike[str],
    limits: Mapping[str, float | None],
    *,
    relation: Relation,
    unit: str,
    dataset: str | None,
    timeout: float,
    carried: Iterable[tuple[Amount, Sequence[object], State]] = (),
) -> Path:
    """Write a new ledger and return its absolute path; `carried` are spends of another ledger, as `rows.write_spend` takes them."""
    kind, budget = check_budget(**limits)
    check_choice("relation", relation, ("replace", "add_remove"))
    check_text("unit", unit)
    check_optional("dataset", dataset)
    where, seconds = database.resolve(path), check_timeout(timeout)
    size = database.size(where)
    if size:  # a process that dies before its ledger is complete leaves an empty file, which is used
        raise FileExistsError(
            errno.EEXIST, "there is a file of this name already; open a ledger with Ledger(path), or choose another name", str(where)
        )
    if size is None:
        database.check_beside(where)
    if not where.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "the folder of the ledger does not exist; make it first", str(where.parent))
    if not rows.create(where, seconds, rows.Header(kind, budget, relation, unit, dataset), carried):
        raise FileExistsError(errno.EEXIST, "another process has just made a ledger of this name; open it with Ledger(path)", str(where))
    return where


def check_timeout(timeout: object) -> float:
    """Return a timeout as a float, else raise."""
    return check_real("timeout", timeout, low=0.0, high=3600.0)


def check_budget(
    epsilon: object = None, delta: object = 0.0, rho: object = None, failure_delta: object = 0.0, mu: object = None
) -> tuple[Kind, Amount]:
    """Return the kind of ledger that these limits describe, and the limits as an exact amount, else raise."""
    given = {"epsilon": epsilon, "rho": rho, "mu": mu}
    budgets = [name for name, value in given.items() if value is not None]
    if not budgets:
        raise ParameterTypeError("a ledger needs a budget: give epsilon (and delta), or rho or mu (and failure_delta)")
    if len(budgets) > 1:
        both = " and ".join(budgets)
        values = " and ".join(repr(given[name]) for name in budgets)
        raise ParameterTypeError(
            f"{both} must not {'both' if len(budgets) == 2 else 'all'} be given, got {values}: a ledger adds up one of them"
        )
    (first,) = budgets
    kind = KINDS[first]
    second = "delta" if kind == "basic" else "failure_delta"
    given |= {"delta": delta, "failure_delta": failure_delta}
    other = "failure_delta" if kind == "basic" else "delta"
    if given[other] != 0:
        raise ParameterError(f"{other} must be left out together with {first}, got {given[other]!r}; give {second} instead")
    most = as_written(read_number(first, given[first], written_down))
    failures = as_written(read_number(second, given[second], written_down))
    if failures >= 1:
        raise ParameterError(f"{second} must be in [0.0, 1.0), got {given[second]!r}")
    if kind == "basic":
        return kind, Amount(most, failures, None)
    return kind, Amount(None, failures, most**2 / 2 if kind == "gdp" else most)


def check_text(name: str, text: object) -> None:
    """Raise unless `text` is a string that is not empty and that SQLite can store."""
    if not isinstance(text, str):
        raise ParameterTypeError(f"{name} must be a str, got {text!r}")
    if not text or "\0" in text:
        raise ParameterError(f"{name} must not be empty nor contain NUL characters, got {text!r}")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ParameterError(f"{name} must be text that UTF-8 can encode, got {text!r}") from None


def check_queries(queries: object) -> str | None:
    """Return the queries of a spend as JSON, else raise; None if there are none."""
    if isinstance(queries, str | bytes) or not isinstance(queries, Sequence) or not all(isinstance(each, Mapping) for each in queries):
        raise ParameterTypeError("queries must be a sequence of mappings")
    if not queries:
        return None
    try:
        text = json.dumps([dict(each) for each in queries], sort_keys=True, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        raise ParameterError("queries must hold what JSON can: texts, finite numbers, lists, mappings, true, false and null") from None
    if len(text) > MOST_OF_QUERIES:
        raise ParameterError(f"queries must have at most {MOST_OF_QUERIES} bytes as JSON, got {len(text)}; leave out long lists")
    return text


def check_optional(name: str, text: object) -> None:
    """Raise unless `text` is None or such a string."""
    if text is not None:
        check_text(name, text)
