"""What is wrong with the arguments of a call, or with the name of a method, in words of what there is instead."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from dpcore.errors import ParameterTypeError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MEANT = {"low": "lower", "high": "upper", "fillna": "missing", "fill_null": "missing", "skipna": "missing", "percentile": "q", "n": "s"}
"""Words of other libraries for arguments, besides those that jobs explain."""
NO_ROWS = "no row of the table is ever shown"
UNBOUNDED = "an extreme value is one person's; use quantile"
BY_COLUMN = 'rows are chosen by an expression of SQL: where("{} > 40")'
WORDS = {
    **dict.fromkeys(("filter", "query", "loc", "iloc"), "use where, with a condition in SQL"),
    **dict.fromkeys(("assign", "with_columns", "with_column", "eval"), "use derive, with expressions in SQL"),
    **dict.fromkeys(("merge",), "use lookup to add columns of a public table, and join for those of a private one"),
    **dict.fromkeys(("groupby", "group"), "use group_by, with the groups that you declare"),
    **dict.fromkeys(("agg", "aggregate", "select"), "use batch to ask several queries at once"),
    **dict.fromkeys(("avg", "average"), "use mean"),
    **dict.fromkeys(("nunique", "n_unique"), "use count_distinct"),
    **dict.fromkeys(("value_counts", "hist", "bin_counts"), "use histogram, with the categories or edges that you declare"),
    **dict.fromkeys(("topk", "top_k"), "use top"),
    **dict.fromkeys(("gmean",), "use geometric_mean"),
    **dict.fromkeys(("proportion", "ratio", "share"), "use rate"),
    **dict.fromkeys(("variance",), "use var"),
    **dict.fromkeys(("stddev", "stdev"), "use std"),
    **dict.fromkeys(("cov",), "use covariance"),
    **dict.fromkeys(("quantiles", "percentile"), "use quantile; q may be a list"),
    **dict.fromkeys(("min", "max"), UNBOUNDED),
    **dict.fromkeys(("head", "tail", "sample", "show", "collect", "to_pandas", "to_polars", "describe"), NO_ROWS),
    **dict.fromkeys(("size", "len", "shape"), "use count"),
}
"""Words of pandas, polars and SQL for what tables do here."""
OF_GROUPED = WORDS | dict.fromkeys(("where", "derive", "lookup", "join", "group_by", "batch"), "call it before group_by")
"""The same for grouped tables, which cannot be narrowed further."""


def no_attribute(owner: object, name: str, words: Mapping[str, str]) -> AttributeError:
    """The error about a method or an attribute that an object does not have."""
    said = f"{type(owner).__name__!r} object has no attribute {name!r}"
    advice = words.get(name) or _for_word_of_jobs(name)
    if advice is None and words is WORDS and not name.startswith("_"):
        advice = f"{BY_COLUMN.format(name if name.isidentifier() else 'age')}, and a query takes a column by its name"
    return AttributeError(said if advice is None else f"{said}; {advice}", name=name, obj=owner)


def not_indexed(owner: object) -> ParameterTypeError:
    """The error about brackets behind a table."""
    return ParameterTypeError(
        f"{type(owner).__name__!r} object takes no index: no row of it is shown; {BY_COLUMN.format('age')}, and columns are named "
        'in queries, such as mean("age", lower=0, upper=100, epsilon=0.5)'
    )


def _for_word_of_jobs(name: str) -> str | None:
    """What to do instead, where the name is that of a kind of query in jobs."""
    from dpcore.query.kinds import KINDS

    kind = KINDS.get(name)
    if kind is None or not kind.methods:
        return None if kind is None else kind.asked_by
    return f"use {kind.methods[kind.names.index(name)].name}"


def refused_call(method: str, signature: inspect.Signature, args: Sequence[Any], given: Mapping[str, Any]) -> ParameterTypeError:
    """The error about arguments that do not fit a method; `args` begin with the object itself."""
    known = list(signature.parameters)[1:]
    unknown = next((name for name in given if name not in known), None)
    if unknown is not None:
        from dpcore.tables.mistakes import RENAMED

        near = (RENAMED | MEANT).get(unknown.lower())
        import difflib

        close = [near] if near in known else difflib.get_close_matches(unknown, known, n=1)
        advice = f" Did you mean {close[0]!r}?" if close else ""
        return ParameterTypeError(f"{method} has no argument {unknown!r}.{advice} It takes {', '.join(known)}")
    if len(args) > 2:
        return ParameterTypeError(f"{method} takes {known[0]} alone without a name; give the others by name, as in epsilon=1.0")
    required = [name for name in known if signature.parameters[name].default is inspect.Parameter.empty and name not in given]
    absent = [name for name in required if name != known[0] or len(args) < 2]
    return ParameterTypeError(f"{method} needs {' and '.join(absent)}" if absent else f"{method} got {known[0]} twice")
