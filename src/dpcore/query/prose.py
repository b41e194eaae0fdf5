"""Words of the page of a release: the guarantee, the question of each query, and the declarations of the job."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from dpcore.pages.numbers import counted, percentage_of, plain_name, plain_number, quoted
from dpcore.pages.words import OWN_ROWS, protection_in_words, unnamed, whose
from dpcore.query.fields import SKIP

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import numpy.typing as npt

    Line = tuple[str, str]


NAMED_QUANTILES = {0.0: "smallest", 0.25: "lower quartile", 0.5: "median", 0.75: "upper quartile", 1.0: "largest"}
NAMED_INTERVALS = 6
"""Queries that a sentence about intervals names."""
STAND_INS = (("missing", "missing values"), ("unknown", "unknown values"))
LAWS = {
    "laplace": "Laplace",
    "gaussian": "Gaussian",
    "discrete_laplace": "discrete Laplace",
    "discrete_gaussian": "discrete Gaussian",
    "gumbel": "Gumbel",
    "truncated_geometric": "truncated geometric",
}


def release_guarantee(document: Mapping[str, Any], whole: Sequence[str] = ()) -> str:
    """Describe the privacy that is spent, and whom it protects; the queries `whole` leave no row out."""
    privacy = document["privacy"]
    said = f"epsilon = {privacy['epsilon']!r}, delta = {privacy['delta']!r}: {release_protection(document, whole)}"
    return f"{said}{series_in_words(document)}"


def series_in_words(document: Mapping[str, Any]) -> str:
    """What the guarantee of a series of runs covers, with a space before it; nothing of other jobs."""
    series = document.get("series")
    if series is None:
        return ""
    said = f" All {series['steps']} steps of the series together spend this once, and it protects"
    if series["max_steps_per_unit"] is None:
        return f"{said} one event: what {whose(document['unit'])} has in one step. Those who are in several steps are protected less."
    return (
        f"{said} what is in at most {counted(series['max_steps_per_unit'], 'step')}: the job declares this, and nothing checks it from "
        "one file to the next."
    )


def guarantee_of(document: Mapping[str, Any], whole: Sequence[str] = ()) -> str:
    """The guarantee of a release in a sentence or two: what is spent, whom it protects, and what neighbouring tables have in common."""
    return f"{release_guarantee(document, whole)} {neighbours_in_words(document)}"


def accounting_in_words(document: Mapping[str, Any]) -> str:
    """How the answers add up, where that is not by the sum of their ε; with a space before it."""
    rules = {"zcdp": "by ρ (zero-concentrated privacy)", "pld": "by their privacy loss distributions"}
    rule = rules.get(document.get("accounting", {}).get("method", ""))
    return "" if rule is None else f" A tighter sum of privacy loss was used, {rule}; the ε of the queries may sum to more than this."


def release_protection(document: Mapping[str, Any], whole: Sequence[str] = ()) -> str:
    """Whom the guarantee protects. The job itself bounds the contributions, so no unit has too many rows; `whole` use all of them."""
    unit = document["unit"]
    if unit == "row":
        return protection_in_words(document["privacy"]["delta"], unit)
    limits = {word: document.get(f"max_{word}s_per_unit") for word in ("row", "group")}
    bounds = [f"at most {counted(limit, word)}" for word, limit in limits.items() if limit]
    was = "was" if [limit for limit in limits.values() if limit] == [1] else "were"
    used = f"; {' and '.join(bounds)} of each {was} used, chosen at random{_except(whole)}" if bounds else ""
    tables = joins_of(document)
    where = f" in {counted(len(tables) + 1, 'table')} together" if tables else ""
    return f"the guarantee protects {whose(unit)}, with all its rows{where}{used}.{unnamed(unit)}{_other_budgets(tables)}"


def joins_of(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The tables that are joined."""
    return [*document.get("join", ()), *document.get("per_unit", {}).get("join", ())]


def _other_budgets(tables: list[Mapping[str, Any]]) -> str:
    return " What another ledger pays for answers about one of these tables adds up with this." if tables else ""


def made_in_words(document: Mapping[str, Any]) -> list[str]:
    """What is made of the rows of units, and joined, in sentences; of other jobs nothing."""
    unit, made = plain_name(document["unit"].removesuffix(OWN_ROWS)), document.get("per_unit")
    said = [_joined_in_words(table) for table in document.get("join", ())]
    if made is None:
        return said
    by = made.get("by")
    keys = "" if by is None else f" and {as_words([by] if isinstance(by, str) else by)}"
    columns = ", ".join(f"{plain_name(name)} = {column_in_words(column)}" for name, column in made.get("columns", {}).items())
    said.append(f"Answers are about one row for each {unit}{keys}, made of its rows{f': {columns}' if columns else ''}.")
    said += [_joined_in_words(table) for table in made.get("join", ())]
    if made.get("where"):
        said.append(f"Of these, the rows for which {spaced(made['where'])}; how many these are is protected.")
    return said


def _joined_in_words(table: Mapping[str, Any]) -> str:
    columns = ", ".join(f"{plain_name(name)} = {column_in_words(each)}" for name, each in table["per_unit"].get("columns", {}).items())
    only = "; only those who are in it stay" if table["how"] == "inner" else ""
    return f"Joined on the unit with {plain_name(table['path'])}{f': {columns}' if columns else ''}{only}."


def column_in_words(column: str | Mapping[str, Any]) -> str:
    """What a column is made of."""
    if isinstance(column, str):
        return spaced(column)
    name = "sum" if column.get("sum") else "mean"
    return f"{name}({spaced(column[name])}) of values in [{plain_number(column['lower'])}, {plain_number(column['upper'])}]"


def as_words(names: Iterable[str]) -> str:
    """Names in a sentence."""
    return ", ".join(map(plain_name, names))


def neighbours_in_words(document: Mapping[str, Any]) -> str:
    """Describe what neighbouring tables have in common, which is public."""
    unit = document["unit"]
    if document.get("relation", "replace") == "add_remove":
        return f"Even whether {whose(unit)} was in the table is protected."
    if unit == "row":
        return "The number of rows is public; their contents are protected."
    where = " in all tables together" if joins_of(document) else ""
    return f"The number of different {unit.removesuffix(OWN_ROWS)!r} values{where} is public; the contents of their rows are protected."


def limits_in_words(document: Mapping[str, Any], whole: Sequence[str] = ()) -> list[str]:
    """What the intervals do not say: the rows that were left out, but for the queries `whole`, and where they are wider than they say."""
    head = "Rows are made of" if document.get("per_unit") else "All answers are about"
    said = [f"{head} the rows for which {spaced(document['where'])}; how many these are is protected."] if document.get("where") else []
    said += made_in_words(document)
    unit = document["unit"].removesuffix(OWN_ROWS)
    rows, groups = document.get("max_rows_per_unit"), document.get("max_groups_per_unit")
    bounds = [f"Rows beyond {rows:,}"] if rows else []
    if groups:
        bounds.append(f"{'groups' if bounds else 'Groups'} beyond {groups:,}")
    if document["unit"] == "row" or len(whole) >= len(document["queries"]):
        bounds = []
    if rows == 1 and bounds:
        one = f"One row of each {plain_name(unit)} is used, chosen at random if there are more{_except(whole)}"
        said.append(f"{one}: counts are of units, not of rows, and sums and means are of that one row.")
    elif bounds:
        left_out = f"{' and '.join(bounds)} of each {plain_name(unit)}, if there are any, are left out{_except(whole)}"
        sums = "other sums" if whole else "sums"
        said.append(f"{left_out}: {sums} and counts are too small, and means may differ, by an amount that is not shown.")
    wider = [query["name"] for query in document["queries"] if query.get("coverage") is not None]
    if wider:
        intervals = f"interval{'' if len(wider) == 1 else 's'} of {_named(wider)}"
        said.append(f"The {intervals} may be wider than the confidence says: at least that share of them holds the true value.")
    return said


def _except(whole: Sequence[str]) -> str:
    """For which queries something does not hold, with a comma before it; nothing of none."""
    return f", except in {_named(whole)}" if whole else ""


def _named(names: Sequence[str]) -> str:
    """Some names in a sentence, and how many there are beside."""
    named = [quoted(name) for name in names]
    if len(named) > NAMED_INTERVALS:
        named = [*named[: NAMED_INTERVALS - 1], f"{len(named) - NAMED_INTERVALS + 1} others"]
    return named[0] if len(named) == 1 else f"{', '.join(named[:-1])} and {named[-1]}"


def used_in_words(document: Mapping[str, Any], query: Mapping[str, Any], *, whole: bool = False, cut: str = "") -> str:
    """Which rows of each unit an answer is about, `whole` if all take part, and what the others change; nothing without a bound."""
    groups = document.get("max_groups_per_unit") if query.get("group_by") is not None else None
    most, unit = document.get("max_rows_per_unit"), plain_name(document["unit"].removesuffix(OWN_ROWS))
    made = document.get("per_unit")
    if made is not None and not made.get("by"):
        return f"Each row is one {unit}, made of all its rows."
    if document["unit"] == "row":
        return ""
    if query.get("max_sum_per_unit") is not None:
        limit = plain_number(query["max_sum_per_unit"])
        return (
            f"All rows of each {unit} were used. One whose values sum to more than {limit} counts as that, so the answer may be too small."
        )
    in_groups = f", in at most {counted(groups, 'group')}," if groups else ""
    if not most:
        return f"Each {unit} counts in at most {counted(groups, 'group')}, chosen at random." if groups else ""
    if whole:
        return f"All rows of each {unit} were used."
    if most == 1:
        return f"One row of each {unit} was used, chosen at random if there are more."
    used = f"At most {counted(most, 'row')} of each {unit}{in_groups} were used, chosen at random"
    return f"{used}: {cut or f'the answer is neither about all rows nor about one for each {unit}'}."


def coverage_in_words(query: Mapping[str, Any]) -> str:
    """The confidence of a query's interval: "95 %", or "at least 95 %" where the interval may be wider."""
    if not query.get("confidence"):
        return ""
    return f"{query['coverage']} {percentage_of(query['confidence'])}" if query.get("coverage") else percentage_of(query["confidence"])


def is_exact(query: Mapping[str, Any]) -> bool:
    """Whether the answer has no noise, because it is public."""
    return query.get("stderr") == 0.0 and not query.get("noise")


def spaced(expression: str) -> str:
    """An expression in one line; with a comment, which a line ends, as it is."""
    return plain_name(expression.strip() if "--" in expression else " ".join(expression.split()))


def of_column(query: Mapping[str, Any]) -> str:
    """The column of a query in a question, if it has one."""
    return f" of {query['column']}" if query.get("column") else ""


def declared_parts(query: Mapping[str, Any], *, clamps: bool = True) -> list[str]:
    """What the job declares about values that many kinds of queries have; `clamps` if those beyond bounds count as the bounds."""
    parts = []
    if clamps and query.get("lower") is not None and query.get("upper") is not None:
        lower, upper = plain_number(query["lower"]), plain_number(query["upper"])
        parts.append(f"values below {lower} count as {lower}, values above {upper} as {upper}")
    if query.get("step") is not None:
        parts.append(f"values are counted in steps of {plain_number(query['step'])}")
    if query.get("bounds") is not None:
        threshold = counted(query["bounds"]["threshold"], "noisy row")
        parts.append(
            f"these bounds were found privately, with ε = {plain_number(query['bounds']['epsilon'])}, "
            f"as the ends of the powers of two that hold more than {threshold}"
            if query.get("lower") is not None
            else f"no bounds were found: no power of two holds more than {threshold}"
        )
    if query.get("max_sum_per_unit") is not None:
        parts.append(f"absolute values of one unit count at most {plain_number(query['max_sum_per_unit'])} in all")
    if query.get("max_values_per_unit") is not None:
        parts.append(f"at most {counted(query['max_values_per_unit'], 'value')} of each unit, chosen at random")
    return parts + [_replaced(query, key, word) for key, word in STAND_INS if query.get(key) is not None]


def sentence_of(parts: Sequence[str]) -> str:
    """Parts as one sentence; none of none."""
    sentence = "; ".join(parts)
    return sentence[:1].upper() + sentence[1:] + "." if sentence else ""


def _replaced(query: Mapping[str, Any], key: str, word: str) -> str:
    """What becomes of missing or unknown values."""
    if query[key] == SKIP and SKIP not in (query.get("categories") or ()):
        return f"rows with {word} are left out"
    return f"{word} count as {stand_in(query, key)}"


def stand_in(declared: Mapping[str, Any], key: str) -> str:
    """The value that stands for missing or unknown ones: a category, or a number."""
    return quoted(declared[key]) if declared.get("categories") is not None else plain_number(declared[key])


def noise_in_words(query: Mapping[str, Any]) -> str:
    """Describe the noise and its sensitivity, the most that one unit can change the answer."""
    drawn = {(noise["law"], noise["sensitivity"], noise["scale"]): None for noise in query.get("noise", ())}
    parts = [
        f"{LAWS.get(law, law.replace('_', ' '))} noise of scale {plain_number(scale, 4)}, "
        f"for a sensitivity of {plain_number(sensitivity, 6)}"
        for law, sensitivity, scale in drawn
        if scale is not None
    ]
    if query.get("releases") == 2 and query.get("centre") is not None:
        centres = query["centre"] if isinstance(query["centre"], list) else [query["centre"]]
        noun = "means" if len(centres) > 1 else "mean"
        parts.append(f"distances were taken from the noisy {noun} {' and '.join(plain_number(centre, 6) for centre in centres)}")
    return sentence_of(parts)


def bin_edges(query: Mapping[str, Any]) -> npt.NDArray[np.float64] | None:
    """The edges of a histogram's bins, one more than it has counts; None if it is over categories."""
    edges = query.get("edges")
    return None if edges is None or isinstance(edges[0], str) else np.asarray(edges, dtype=np.float64)


def cell_names(query: Mapping[str, Any]) -> Sequence[str]:
    """The names of the cells of a histogram, or of the groups."""
    edges = bin_edges(query)
    if query.get("groups") is not None:
        return GroupNames(query)
    if edges is None and query.get("edges") is not None:
        return text_bin_names(query["edges"])
    return [plain_name(category) for category in query["categories"]] if edges is None else bin_names(edges)


def key_names(query: Mapping[str, Any]) -> list[str]:
    """The names of released groups; of several columns with a comma between."""
    keys = query["value"]
    if not isinstance(keys, dict):
        return [plain_name(key) for key in keys]
    return [", ".join(map(plain_name, key)) for key in zip(*keys.values(), strict=True)]


def bin_names(edges: npt.NDArray[np.float64]) -> list[str]:
    """Half-open intervals; the last bin holds its upper end."""
    ends = [plain_number(float(edge)) for edge in edges]
    last = len(ends) - 2
    return [f"{lower} to {'' if i == last else 'below '}{upper}" for i, (lower, upper) in enumerate(itertools.pairwise(ends))]


def text_bin_names(edges: Sequence[str]) -> list[str]:
    """The same of bins of dates or times."""
    last = len(edges) - 2
    return [f"{lower} to {'' if i == last else 'below '}{upper}" for i, (lower, upper) in enumerate(itertools.pairwise(edges))]


def quantile_name(level: object) -> str:
    """Return the name of a quantile."""
    if not isinstance(level, int | float):
        return "quantile"
    return NAMED_QUANTILES.get(float(level)) or percentage_of(level)


def quantile_limits(query: Mapping[str, Any], values: Sequence[float]) -> tuple[float, float]:
    """The ends of the declared grid."""
    grid = query.get("grid")
    if isinstance(grid, list | tuple | np.ndarray) and len(grid):
        return float(min(grid)), float(max(grid))
    if query.get("lower") is not None and query.get("upper") is not None:
        return float(query["lower"]), float(query["upper"])
    return min(values), max(values)


def as_list(value: Any, count: int) -> list[Any]:
    """One entry for each of `count` values, whether the document has a list or one for all."""
    return list(value) if isinstance(value, list | tuple | np.ndarray) else [value] * count


def numbers_in_words(cells: int) -> str:
    """For how many numbers at once an error holds."""
    return "each number" if cells == 1 else f"all {cells:,} numbers"


def size(candidates: Any) -> str:
    """Return the number of candidates; the document has either this number or all of them."""
    return "the" if candidates is None else plain_number(candidates if isinstance(candidates, int) else len(candidates))


ALL = "all"
"""The part of a column in which a group of nested groups has no key, because it is coarser."""
NO_VALUE = "no value"
"""The group of rows without a value."""


def group_columns(query: Mapping[str, Any]) -> dict[str, Sequence[Any]]:
    """The columns of a grouped answer, each with its part of every group."""
    groups = query["groups"]
    return dict(groups) if isinstance(groups, dict) else {str(query["group_by"]): groups}


def count_of_groups(query: Mapping[str, Any]) -> int:
    """Number of groups."""
    return len(next(iter(group_columns(query).values())))


def groups_in_words(query: Mapping[str, Any]) -> str:
    """The number of groups, and their columns."""
    *names, last = group_columns(query)
    columns = f"{', '.join(names)} and {last}" if names else last
    if query.get("levels") is not None:
        *levels, finest = (f"{level['name']} ({level['groups']:,})" for level in query["levels"])
        return f"in each of {counted(count_of_groups(query), 'nested group')}: {', '.join(levels)} and {finest}"
    return (
        f"in each of {counted(count_of_groups(query), 'released group' if query.get('groups_released') else 'declared group')} by {columns}"
    )


def adding_up_in_words(query: Mapping[str, Any]) -> list[str]:
    """What is done to the numbers of nested groups, as a sentence."""
    wanted = query.get("consistent")
    if wanted is None:
        return []
    words = [word for key, word in (("non_negative", "not negative"), ("integral", "whole")) if wanted[key]]
    also = f", are {' and '.join(words)} (so they have no intervals)" if words else ""
    return [
        f"The numbers add up: each is the sum of those one level below{also}. What was released before that is `raw` in the JSON document."
    ]


FEW_VALUES = 10
"""Scales of the noise of a number of rows, below which hardly any row may have had a value."""


def few_values_in_words(query: Mapping[str, Any]) -> list[str]:
    """That hardly any cell had a value, as a sentence, where rows without one are left out and the noisy number of the others is small."""
    count, scales = query.get("count"), [noise["scale"] for noise in query.get("noise", ()) if noise["law"].startswith("discrete_")]
    if query.get("missing") != SKIP or not isinstance(count, int) or not scales or count > FEW_VALUES * max(1.0, min(scales)):
        return []
    column = plain_name(str(query.get("column")))
    return [
        f"The noisy number of rows with a value of {column} is {plain_number(count)}: hardly any cell may have been readable. Check how "
        "the column is written."
    ]


def rows_in_words(query: Mapping[str, Any]) -> list[str]:
    """Of how many rows an answer is, as a sentence, where that was released with it."""
    count = query.get("count")
    if not isinstance(count, int):
        return []
    noisy = ", a number with noise, too" if query.get("coverage") else ""  # of a public number of rows the interval has its confidence
    some = " with a value" if query.get("missing") == SKIP else ""
    return [f"It is of {counted(max(count, 0), 'row')}{some}{noisy}."]


def key_name(key: Any, last: Any = math.inf) -> str:
    """One column's part of a group: a value, a bin of which the last holds its right edge, or nothing."""
    if key is None:
        return NO_VALUE
    if isinstance(key, list | tuple):
        low, high = (end if isinstance(end, str) else plain_number(end) for end in key)
        return f"{low} to {'' if key[1] == last else 'below '}{high}"
    return plain_name(key)


def has_bins(keys: Sequence[Any]) -> bool:
    """Whether one column's parts of groups are bins, or nothing."""
    return isinstance(next((key for key in keys if key is not None), None), list | tuple)


def last_edge(keys: Sequence[Any]) -> Any:
    """The right edge of the last bin of a column; infinite if it has no bins."""
    return max(key[1] for key in keys if key is not None) if has_bins(keys) else math.inf


def _names(keys: Sequence[Any]) -> list[str]:
    """The names of one column's parts."""
    last = last_edge(keys)
    return [key_name(key, last) for key in keys]


class GroupNames(Sequence[str]):
    """The names of all groups. They can be many, so each is made when it is asked for."""

    def __init__(self, query: Mapping[str, Any]) -> None:
        self._columns = [(keys, last_edge(keys)) for keys in group_columns(query).values()]
        self._counts = query.get("level")

    def __len__(self) -> int:
        return len(self._columns[0][0])

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> list[str]: ...
    def __getitem__(self, place: int | slice) -> str | list[str]:
        if isinstance(place, slice):
            return [self[each] for each in range(*place.indices(len(self)))]
        return ", ".join(self.parts(place))

    def parts(self, place: int) -> tuple[str, ...]:
        """The name of a group in each column."""
        count = len(self._columns) if self._counts is None else self._counts[place]
        return tuple(key_name(keys[place], last) if column < count else ALL for column, (keys, last) in enumerate(self._columns))


def crossed(query: Mapping[str, Any]) -> tuple[list[str], list[str]] | None:
    """The names of rows and columns if groups are all combinations of two columns, those of the second changing fastest; else None."""
    columns = list(group_columns(query).values())
    if len(columns) != 2 or not columns[0] or query.get("level") is not None:
        return None
    first, second = columns
    width = next((place for place, key in enumerate(first) if key != first[0]), len(first))
    rows = first[::width]
    if len(first) % width or any(list(first[at : at + width]) != [first[at]] * width for at in range(0, len(first), width)):
        return None
    if list(second) != list(second[:width]) * len(rows):
        return None
    return _names(rows), _names(second[:width])
