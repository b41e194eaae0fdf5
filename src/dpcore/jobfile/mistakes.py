"""Explains what is wrong with a job file: one line for each finding of pydantic, with the key's path and what to write."""

from __future__ import annotations

import difflib
import reprlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args, get_origin

from pydantic import BaseModel

from dpcore.tables.near_names import near_name

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

Sections = Mapping[str, "type[BaseModel]"]
Location = tuple[int | str, ...]


@dataclass(frozen=True, slots=True)
class Entries:
    """The repeated table of a job file: `[[column]]` or `[[query]]`.

    Attributes
    ----------
    table : str
        Its name.
    tag : str
        The key that says which model an entry has.
    models : mapping
        Model of an entry for each value of the tag.
    """

    table: str
    tag: str
    models: Sections


WANTED = {
    "string_type": "a string",
    "string_too_short": "a string that is not empty",
    "string_pattern_mismatch": "64 hexadecimal digits",
    "list_type": "a list",
    "model_type": "a table",
    "model_attributes_type": "a table",
    "dict_type": "a table",
}
"""Expected values, for findings of pydantic about types."""
MOST_LINES = 20
"""Mistakes that are listed."""
RENAMED = {
    "variant": "method",
    "calibration": "method",
    "rows": "draws",
    "quantile": "q",
    "levels": "q",
    "cuts": "edges",
    "eps": "epsilon",
    "min": "lower",
    "max": "upper",
}
"""Keys of earlier versions, and words for the same thing elsewhere, with the keys that jobs have."""
MEANT = {
    "average": 'kind = "mean"',
    "avg": 'kind = "mean"',
    "frequencies": 'kind = "histogram"',
    "frequency": 'kind = "histogram"',
    "gmean": 'kind = "geometric_mean"',
    **dict.fromkeys(("fraction", "percentage", "proportion", "ratio", "share"), 'kind = "rate"'),
    "percentile": 'kind = "quantile" with q = 0.9 for the 90th percentile',
    "quartile": 'kind = "quantile" with q = 0.25 for the lower one',
    "quartiles": 'kind = "quantile" with q = [0.25, 0.5, 0.75]',
    "topk": 'kind = "top_s"',
    "top_k": 'kind = "top_s"',
    "total": 'kind = "sum"',
    "variance": 'kind = "var"',
    "standard_deviation": 'kind = "std"',
    "stdev": 'kind = "std"',
    "stddev": 'kind = "std"',
    "cov": 'kind = "covariance"',
    "bool": 'mechanism = "binary"',
    "boolean": 'mechanism = "binary"',
    "geometric": 'mechanism = "discrete_laplace"',
    "grr": 'mechanism = "kary"',
    "normal": 'mechanism = "gaussian"',
    "olh": 'mechanism = "hashing"',
    "oue": 'mechanism = "unary"',
    "randomised_response": 'mechanism = "binary" for two answers, or "kary" for more',
    "randomized_response": 'mechanism = "binary" for two answers, or "kary" for more',
    "rappor": 'mechanism = "unary"',
}
"""Words of other programs for kinds of queries and mechanisms."""
DERIVING = ("where", "derive", "lookup")
DERIVING_WHY = (
    "where, [[derive]] and [[lookup]] are for dpcore release. A local job writes a row for each row it reads, and their number is public: "
    "a filter would publish how many rows pass. Make the table that you want to privatise first"
)
"""Said where a local job has these keys."""
COMMANDS = {"column": "dpcore privatize", "query": "dpcore release"}
"""The command for jobs with each repeated table."""


def explain(error: ValidationError, document: Mapping[str, Any], sections: Sections, entries: Entries) -> str:
    """One line per mistake: the dotted path of the key, its value and what is allowed.

    Parameters
    ----------
    error : pydantic.ValidationError
        Raised by the model of the whole job.
    document : mapping
        The job, for the names of its entries.
    sections : mapping
        Model of each table, "" being the whole file.
    entries : Entries
        The repeated table.
    """
    found = error.errors(include_url=False)
    lines = [
        _line(details, document, sections, entries) + _named(details["loc"], document, entries.table) for details in found[:MOST_LINES]
    ]
    if len(found) > MOST_LINES:
        lines.append(f"… and {len(found) - MOST_LINES} more")
    return "\n".join(f"  {line}" for line in lines)


def _named(location: Location, document: Mapping[str, Any], table: str) -> str:
    """The name of the entry that a path like `column[3]` stands for."""
    if len(location) < 2 or location[0] != table:
        return ""
    entry = document[table][location[1]]
    name = entry.get("name") if isinstance(entry, dict) else None
    return f" ({table} {name!r})" if isinstance(name, str) else ""


def _line(details: ErrorDetails, document: Mapping[str, Any], sections: Sections, entries: Entries) -> str:
    location, kind, value = details["loc"], details["type"], details["input"]
    path = dotted_path(location)
    match kind:
        case "extra_forbidden":
            return _unknown_key(location, _model_at(location[:-1], document, sections, entries), sections)
        case "missing":
            return _missing(path, sections, entries, value)
        case "union_tag_invalid":
            return _unknown_tag(path, value, entries)
        case "literal_error":
            return f"{path} = {_shown(value)}: must be {details['ctx']['expected']}"
        case "too_short" if path != entries.table:
            return f"{path}: must not be empty"
        case "too_short":
            return f"{path}: at least one [[{entries.table}]] is required"
        case "value_error":
            return f"{path}: {details['ctx']['error']}" if path else str(details["ctx"]["error"])
        case "string_pattern_mismatch":
            return f"{path}: must be {WANTED[kind]}"
        case _:
            return _brackets(path, value, sections, entries) or f"{path} = {_shown(value)}: must be {WANTED.get(kind, details['msg'])}"


def _brackets(path: str, value: object, sections: Sections, entries: Entries) -> str:
    """Return the advice about a table that has the brackets of the other kind, and "" for others."""
    field = sections[""].model_fields.get(path)
    repeated = path == entries.table or (field is not None and get_origin(field.annotation) is list and path in sections)
    if repeated and isinstance(value, dict):
        return f"[{path}] has single brackets; write [[{path}]] above each {path}: a job may have several"
    if path in sections and not repeated and isinstance(value, list):
        return f"[[{path}]] has double brackets; write [{path}]: a job has one"
    return ""


def _unknown_tag(path: str, entry: object, entries: Entries) -> str:
    """An entry whose mechanism or kind is missing or unknown."""
    given = entry.get(entries.tag) if isinstance(entry, dict) else None
    if given is None:
        return f"{path}.{entries.tag} is required: one of {_words(entries.models)}"
    # The strict rule: of two statistics with similar names, one is never proposed for the other.
    hint = _meant(given, entries.tag) or _near(given, entries.models)
    return f"{path}.{entries.tag} = {_shown(given)} is unknown: must be one of {_words(entries.models)}{hint}"


def _missing(path: str, sections: Sections, entries: Entries, table: object) -> str:
    if path == "version":
        return "version is required: write version = 1 at the top of the file"
    if path == entries.table:
        other = next((name for name in COMMANDS if name != path and isinstance(table, dict) and name in table), None)
        hint = "" if other is None else f"; a job with [[{other}]] alone is for {COMMANDS[other]}"
        return f"[[{path}]] is required: a job has one for each {path}{hint}"
    if path in sections:
        needed = [name for name, field in sections[path].model_fields.items() if field.is_required()]
        return f"[{path}] is required: a table with {' and '.join(needed)}"
    return f"{path} is required"


def _meant(given: object, tag: str) -> str:
    """The key and value to write in place of a word from another program."""
    meant = MEANT.get(given.lower().replace("-", "_").replace(" ", "_")) if isinstance(given, str) else None
    return f"; write {meant}" if meant is not None and meant.startswith(f"{tag} = ") else ""


def dotted_path(location: Location) -> str:
    """Write ("column", 0, "epsilon") as `column[0].epsilon`."""
    path = ""
    for part in location:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else part
    return path


def _unknown_key(location: Location, model: type[BaseModel], sections: Sections) -> str:
    *table, key = location
    line = f"{dotted_path(location)}: unknown key; allowed here: {', '.join(model.model_fields)}"
    if not table and key in COMMANDS:
        return f"{line}; a job with [[{key}]] is for {COMMANDS[key]}"
    if key in DERIVING and key not in sections[""].model_fields:
        return f"{dotted_path(location)}: {DERIVING_WHY}"
    if RENAMED.get(str(key)) in model.model_fields:
        return f"{line}; write {RENAMED[str(key)]} in its place"
    guess = guessed(key, list(model.model_fields))
    elsewhere = [name for name, section in sections.items() if key in section.model_fields]
    if guess or not elsewhere:
        return line + guess
    place = f"in [{elsewhere[0]}]" if elsewhere[0] else "at the top of the file, before the first [table]"
    return f"{line}; {key} belongs {place}"


def _model_at(table: Location, document: Mapping[str, Any], sections: Sections, entries: Entries) -> type[BaseModel]:
    """The model of the table that holds a key."""
    keys = [part for part in table if isinstance(part, str)]
    if not keys or keys[0] != entries.table:
        return sections[keys[0] if keys else ""]
    model = entries.models[document[entries.table][table[1]][entries.tag]]
    return model if len(keys) == 1 else table_in(model, keys[1]) or model


def table_in(model: type[BaseModel], key: str) -> type[BaseModel] | None:
    """The model of a table, or of those in a list, inside of a table; None if the key has no table."""
    return next(
        (each for each in _parts_of(model.model_fields[key].annotation) if isinstance(each, type) and issubclass(each, BaseModel)), None
    )


def _parts_of(annotation: Any) -> Iterator[Any]:
    yield annotation
    for part in get_args(annotation):
        yield from _parts_of(part)


def _near(word: object, known: Mapping[str, object]) -> str:
    """Suggest the word that was meant but for a slip."""
    near = near_name(word, known) if isinstance(word, str) else None
    return "" if near is None else f"; did you mean {near!r}?"


def guessed(word: object, known: Sequence[str] | Mapping[str, object]) -> str:
    """Suggest one of the words that may be meant, all of which are public; "" if none is near."""
    close = difflib.get_close_matches(str(word), list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def _words(known: Mapping[str, object]) -> str:
    return ", ".join(map(repr, known))


def _shown(value: object) -> str:
    return reprlib.repr(value)
