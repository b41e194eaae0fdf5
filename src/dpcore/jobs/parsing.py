"""From a parsed TOML file to a checked job, for jobs of every kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from dpcore.errors import JobError
from dpcore.jobs.mistakes_text import explain
from dpcore.jobs.settings import IsText, Part, is_text_in
from dpcore.tables.mistakes import MistakesError, checked, sections_of

if TYPE_CHECKING:
    from pydantic import BaseModel

    from dpcore.tables.mistakes import Entries
    from dpcore.tables.sections import JobTables

    Job = TypeVar("Job", bound=JobTables)


def parse(model: type[Job], document: object, entries: Entries) -> Job:
    """Check a document against the model of a job; raises `JobError` with one line for each mistake, in words for who writes job files."""
    try:
        job = checked(model, document, entries)
    except MistakesError as error:
        raise JobError(explain(error.mistakes, sections_of(model), entries)) from None
    return job.made_of(document) if isinstance(document, Mapping) else job


def text_keys(model: type[BaseModel], entries: Entries) -> IsText:
    """Return the function that tells which keys of a job hold text only, for values that have no quotes."""
    sections = sections_of(model)

    def is_text(place: Sequence[Part], document: Mapping[str, Any]) -> bool:
        table, key = place[0], str(place[-1])
        if table == entries.table and len(place) == 3:
            entry = document[entries.table][place[1]]
            tag = entry.get(entries.tag) if isinstance(entry, dict) else None
            section = entries.models.get(str(tag))
            return key == entries.tag or (section is not None and is_text_in(section, key))
        section = sections.get(str(table) if len(place) == 2 else "") if len(place) <= 2 else None
        return section is not None and is_text_in(section, key)

    return is_text
