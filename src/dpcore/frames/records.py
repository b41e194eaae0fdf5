"""An answer of a release as the columns of a table: keys of its groups or cells, value, standard error, and interval."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpcore.query import kinds

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

VALUE, STDERR, LOWER, UPPER = "value", "stderr", "lower", "upper"


def columns_of(answer: Mapping[str, Any]) -> dict[str, list[Any]]:
    """The columns of an answer of the document, one entry for each number that was released."""
    if answer.get("groups") is not None:
        return _of_groups(answer)
    return _of_one(answer)


def _of_groups(answer: Mapping[str, Any]) -> dict[str, list[Any]]:
    """The columns of a grouped answer: the keys of a group are repeated for each number of the group's own answer."""
    keys = _keys_of_groups(answer)
    count = len(next(iter(keys.values())))
    if not count:  # of those that could be released
        columns = _of_one({**answer, "groups": None})
        return {name: [] for name in [*(_free(name, columns) for name in keys), *columns]}
    kind = kinds.KINDS[answer["kind"]]
    per_group = [key for key in kind.parts_of_answer if isinstance(answer.get(key), list) and len(answer[key]) == count]
    if not kind.is_choice and not any(isinstance(value, list) for value in answer["value"]):
        columns = _of_one({**answer, "groups": None, "group_by": None})
        return {_free(name, columns): listed for name, listed in keys.items()} | columns
    found: dict[str, list[Any]] = {}
    for place in range(count):
        columns = _of_one({**answer, "groups": None, **{key: answer[key][place] for key in per_group}})
        rows = len(next(iter(columns.values())))
        for name, listed in keys.items():
            found.setdefault(_free(name, columns), []).extend([listed[place]] * rows)
        for name, column in columns.items():
            found.setdefault(name, []).extend(column)
    return found


def _keys_of_groups(answer: Mapping[str, Any]) -> dict[str, list[Any]]:
    """A column for each column of the groups, and two for one of bins."""
    groups, by = answer["groups"], answer["group_by"]
    listed: Mapping[str, list[Any]] = groups if isinstance(groups, dict) else {by if isinstance(by, str) else by[0]: list(groups)}
    found: dict[str, list[Any]] = {}
    for name, keys in listed.items():
        if any(isinstance(key, list) for key in keys):
            found[f"{name}_left"] = [None if key is None else key[0] for key in keys]
            found[f"{name}_right"] = [None if key is None else key[1] for key in keys]
        else:
            found[name] = list(keys)
    return found


def _of_one(answer: Mapping[str, Any]) -> dict[str, list[Any]]:
    """The columns of the answer to the whole table, or to one group."""
    if kinds.KINDS[answer["kind"]].is_choice:
        return _of_choice(answer)
    values = answer["value"] if isinstance(answer["value"], list) else [answer["value"]]
    keys = kinds.KINDS[answer["kind"]].keys(answer)
    columns: dict[str, list[Any]] = {VALUE: values, STDERR: _each(answer.get("stderr"), len(values))}
    columns[LOWER], columns[UPPER] = _ends(answer.get("interval"), len(values))
    return {_free(name, columns): column for name, column in keys.items()} | columns


def _of_choice(answer: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Chosen candidates, with their counts if those were released."""
    value, counts = answer["value"], answer.get("counts")
    labels = value if isinstance(value, list) else [value]
    columns: dict[str, list[Any]] = {}
    if counts is not None:
        columns = {VALUE: list(counts), STDERR: _each(answer.get("stderr"), len(labels))}
        columns[LOWER], columns[UPPER] = _ends(answer.get("interval"), len(labels))
    return {_free(str(answer["column"]), columns): list(labels)} | columns


def _each(value: Any, count: int) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value] * count


def _ends(interval: Any, count: int) -> tuple[list[Any], list[Any]]:
    """Lower and upper ends, None where there is no interval."""
    if not interval:
        return [None] * count, [None] * count
    pairs: Sequence[Any] = interval if isinstance(interval[0], list | tuple | None) else [interval]
    return [None if pair is None else pair[0] for pair in pairs], [None if pair is None else pair[1] for pair in pairs]


def _free(name: str, columns: Mapping[str, Any]) -> str:
    """A name for a column of keys that no column of numbers has."""
    while name in columns:
        name = f"{name}_"
    return name


def table_of(columns: Mapping[str, list[Any]]) -> pa.Table:
    """The columns as Arrow; a column without any number is one of float64."""
    import pyarrow as pa

    arrays = {name: pa.array(column) for name, column in columns.items()}
    return pa.table({name: array.cast(pa.float64()) if pa.types.is_null(array.type) else array for name, array in arrays.items()})
