"""Explains what is wrong with a job file: one line for each mistake, with the key's path and what to write."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, get_origin

from dpcore.tables.mistakes import dotted_path, listed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpcore.tables.mistakes import Entries, Mistake, Sections

MEANT = {
    "average": 'kind = "mean"',
    "avg": 'kind = "mean"',
    "frequencies": 'kind = "histogram"',
    "frequency": 'kind = "histogram"',
    **dict.fromkeys(("continual_count", "cumulative", "cumulative_count", "running_count"), 'kind = "running_total"'),
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


def explain(mistakes: Sequence[Mistake], sections: Sections, entries: Entries) -> str:
    """One line per mistake: the dotted path of the key, its value and what is allowed.

    Parameters
    ----------
    mistakes : sequence of Mistake
        What was found.
    sections : mapping
        Model of each table, "" being the whole file.
    entries : Entries
        The repeated table.
    """
    return "\n".join(f"  {line}" for line in listed(_line(mistake, sections, entries) + mistake.named for mistake in mistakes).splitlines())


def _line(mistake: Mistake, sections: Sections, entries: Entries) -> str:
    path = dotted_path(mistake.path) + mistake.about
    match mistake.rule:
        case "unknown key":
            return _unknown_key(mistake, path, sections)
        case "missing":
            return _missing(path, sections, entries, mistake.value) or mistake.sentence(path)
        case "unknown word":
            meant = _meant(mistake.value, entries.tag)
            return mistake.sentence(path) if meant is None else f"{replace(mistake, near=None).sentence(path)}; write {meant}"
        case "empty" if path == entries.table:
            return f"{path}: at least one [[{path}]] is required"
    return _brackets(path, mistake.value, sections, entries) or mistake.sentence(path)


def _brackets(path: str, value: object, sections: Sections, entries: Entries) -> str:
    """Return the advice about a table that has the brackets of the other kind, and "" for others."""
    field = sections[""].model_fields.get(path)
    repeated = path == entries.table or (field is not None and get_origin(field.annotation) is list and path in sections)
    if repeated and isinstance(value, dict):
        return f"[{path}] has single brackets; write [[{path}]] above each {path}: a job may have several"
    if path in sections and not repeated and isinstance(value, list):
        return f"[[{path}]] has double brackets; write [{path}]: a job has one"
    return ""


def _missing(path: str, sections: Sections, entries: Entries, table: object) -> str:
    """What to write for a table or the version; "" for other keys."""
    if path == "version":
        return "version is required: write version = 1 at the top of the file"
    if path == entries.table:
        other = next((name for name in COMMANDS if name != path and isinstance(table, dict) and name in table), None)
        hint = "" if other is None else f"; a job with [[{other}]] alone is for {COMMANDS[other]}"
        return f"[[{path}]] is required: a job has one for each {path}{hint}"
    if path in sections:
        needed = [name for name, field in sections[path].model_fields.items() if field.is_required()]
        return f"[{path}] is required: a table with {' and '.join(needed)}"
    return ""


def _meant(given: object, tag: str) -> str | None:
    """The key and value to write in place of a word from another program."""
    meant = MEANT.get(given.lower().replace("-", "_").replace(" ", "_")) if isinstance(given, str) else None
    return meant if meant is not None and meant.startswith(f"{tag} = ") else None


def _unknown_key(mistake: Mistake, path: str, sections: Sections) -> str:
    *table, key = mistake.path
    line = replace(mistake, near=None).sentence(path)
    if not table and key in COMMANDS:
        return f"{line}; a job with [[{key}]] is for {COMMANDS[str(key)]}"
    if key in DERIVING and key not in sections[""].model_fields:
        return f"{path}: {DERIVING_WHY}"
    elsewhere = [name for name, section in sections.items() if key in section.model_fields]
    if mistake.near is not None or not elsewhere:
        return mistake.sentence(path)
    place = f"in [{elsewhere[0]}]" if elsewhere[0] else "at the top of the file, before the first [table]"
    return f"{line}; {key} belongs {place}"
