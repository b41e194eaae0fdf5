"""From a parsed TOML file to a checked job, for jobs of every kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from dpcore.errors import JobError, ParameterTypeError
from dpcore.jobfile.mistakes import explain
from dpcore.jobfile.settings import IsText, Part, is_text_in

if TYPE_CHECKING:
    from dpcore.jobfile.mistakes import Entries
    from dpcore.tables.sections import JobTables

    Job = TypeVar("Job", bound=JobTables)


def parse(model: type[Job], document: object, entries: Entries) -> Job:
    """Check a document against the model of a job.

    Parameters
    ----------
    model : type
        Of the whole job.
    document : object
        What `tomllib` made of the file.
    entries : Entries
        The repeated table.

    Returns
    -------
    model
        The job.

    Raises
    ------
    JobError
        If something is wrong: one line for each mistake.
    ParameterTypeError
        If the document is not a mapping.
    """
    if not isinstance(document, Mapping):
        raise ParameterTypeError(f"document must be a dict, as tomllib.load returns it, got {type(document).__name__}")
    try:
        return model.model_validate(dict(document))
    except ValidationError as error:
        raise JobError(explain(error, document, sections_of(model), entries)) from None


def sections_of(model: type[BaseModel]) -> dict[str, type[BaseModel]]:
    """The model of each table of a job, with "" for the whole file."""
    sections: dict[str, type[BaseModel]] = {"": model}
    for name, field in model.model_fields.items():
        kinds: tuple[Any, ...] = (field.annotation, *get_args(field.annotation))
        for kind in kinds:
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                sections[name] = kind
    return sections


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
