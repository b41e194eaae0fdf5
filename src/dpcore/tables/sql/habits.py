"""What to write in place of habits of other languages, at the end of a message about an expression."""

from __future__ import annotations

import re

IS_NULL = "write x IS NULL or x IS NOT NULL"
ONE_ROW = "an expression is about one row; aggregates are queries"
NO_CLOCK = "write the day out, as in DATE '2024-01-31'"
IN_WORDS = {
    **dict.fromkeys(("isna", "isnull", "is_null", "notna", "notnull", "is_not_null", "isnan", "is_nan"), IS_NULL),
    **dict.fromkeys(("isin", "is_in", "list_value"), "write x IN ('a', 'b')"),
    **dict.fromkeys(("avg", "mean", "sum", "count", "min", "max", "median", "quantile", "stddev"), ONE_ROW),
    **dict.fromkeys(("now", "today", "current_date", "current_timestamp", "get_current_timestamp"), NO_CLOCK),
    "astype": "write CAST(x AS DOUBLE)",
    "fillna": "write COALESCE(x, 0)",
    "fill_null": "write COALESCE(x, 0)",
    "startswith": "write starts_with(x, 'a')",
    "&": "conditions are joined with AND",
    "|": "conditions are joined with OR",
    "&&": "conditions are joined with AND",
    "||": "conditions are joined with OR",
    "!": "write NOT",
    "≥": "write >=",
    "≤": "write <=",
    "≠": "write <>",
    "=>": "write >=",
    "=<": "write <=",
    "!==": "write <>",
    "===": "write =",
}
"""What to write in place of functions and operators of pandas, polars and SQL."""

_OF_ORDER = "its value depends on the order of rows; use arg_min(x, time) or min(x)"
_OF_LISTS = "it makes a list or a text of values; use count(DISTINCT x), or bool_or(x = 'a')"
_OF_SQUARES = "use min, max, median or quantile_disc; or ask the variance of what is made of each unit"
IN_AGGREGATES = {
    **dict.fromkeys(("first", "last", "any_value", "arbitrary", "nth_value"), _OF_ORDER),
    **dict.fromkeys(("list", "array_agg", "string_agg", "group_concat", "listagg", "histogram"), _OF_LISTS),
    **dict.fromkeys(
        ("stddev", "stddev_pop", "stddev_samp", "variance", "var_pop", "var_samp", "product", "fsum", "kahan_sum"), _OF_SQUARES
    ),
    **dict.fromkeys(("quantile", "quantile_cont", "percentile_cont", "approx_quantile"), "use quantile_disc(x, 0.9)"),
    **dict.fromkeys(("approx_count_distinct", "nunique", "n_unique"), "use count(DISTINCT x)"),
    **dict.fromkeys(("any", "some"), "use bool_or(x)"),
    "all": "use bool_and(x)",
}
"""What to write in place of aggregates that are not made of the rows of a unit."""

KEYWORD = re.compile(
    r"\b(all|any|array|asc|at|binary|by|check|column|default|desc|end|fetch|for|foreign|from|full|group|inner|join|left|limit|offset|on|only|"
    r"order|outer|primary|right|semi|show|some|table|to|union|unique|using|window|with)\b",
    re.IGNORECASE,
)
"""Words that DuckDB does not take as names of columns, and that are such names in tables."""
OUTSIDE = re.compile(r"'[^']*'|\"[^\"]*\"")
"""Texts and quoted names."""


def habit(name: str) -> str:
    """Advice for the name of a function or an operator, with the semicolon before it; "" if there is none."""
    return f"; {IN_WORDS[name]}" if name in IN_WORDS else ""


def habit_of(text: str) -> str:
    """Advice for the text of an expression that is not one."""
    word = text.strip().partition(" ")[0].upper()
    if word in {"WHERE", "SELECT", "FILTER"}:
        return f"; leave {word} out, and write the expression alone"
    signs = [sign for sign in ("&&", "||", "≥", "≤", "≠") if sign in OUTSIDE.sub(" ", text)]
    if signs:
        return f"; {IN_WORDS[signs[0]]}"
    names = [name for name in KEYWORD.findall(OUTSIDE.sub(" ", text)) if name.lower() != "end" or "case" not in text.lower()]
    return f'; {names[0]} is a word of SQL: if it is a column, write "{names[0]}" in double quotes' if names else ""
