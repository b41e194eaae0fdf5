"""The files of a job: its input and the private tables that it joins, found and compared with each other."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from dpcore.tables.discovery import check_output_is_outside, discover
from dpcore.tables.file_checks import check_inputs_are_tables
from dpcore.tables.inputs import Inputs
from dpcore.tables.mistakes import dotted_path
from dpcore.tables.partitions import declared_sorts
from dpcore.tables.places import check_distinct
from dpcore.tables.sections import InputSection
from dpcore.tables.sources import place_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from dpcore.query.request import ReleaseJob
    from dpcore.query.unit_sections import JoinSection
    from dpcore.tables.mistakes import Keys
    from dpcore.tables.places import Place


def sections_of(job: ReleaseJob) -> Iterator[tuple[Keys, JoinSection]]:
    """The joins of a job, with their places in it."""
    yield from ((("join", position), section) for position, section in enumerate(job.join))
    made = () if job.per_unit is None else job.per_unit.join
    yield from ((("per_unit", "join", position), section) for position, section in enumerate(made))


def discovered(job: ReleaseJob, inputs: Inputs, given: Mapping[str, Inputs] | None = None) -> dict[str, Inputs]:
    """The tables that a job joins, by their paths; `given` are those that are no files.

    Raises
    ------
    JobError
        If one of them is the input, another one of them or a public table.
    StorageError
        If there is nothing to read.
    """
    found: dict[str, Inputs] = {}
    places: list[Place] = []
    for keys, section in sections_of(job):
        if section.path in (given or {}):
            continue
        key = f"{dotted_path(keys)}.path"
        table = discover(section.path, section.format, key)
        places += [(key, place_of(path)) for path in table.paths]
        found[section.path] = table
    check_distinct(places, [("input.path", place_of(path)) for path in inputs.paths])
    return found


def found_inputs(
    job: ReleaseJob, others: Sequence[Place] = (), given: Inputs | None = None, tables: Mapping[str, Inputs] | None = None
) -> tuple[Inputs, dict[str, Inputs]]:
    """What a job reads: its input, and by their paths the tables that it joins; those that are `given` are no files."""
    inputs = discover(job.input.path, job.input.format, declared=declared_sorts(job.query)) if given is None else given
    found = discovered(job, inputs, tables)
    if given is None or type(given) is Inputs:
        check_inputs_are_tables(job, inputs.paths, others)
    for table in found.values():
        check_inputs_are_tables(job, table.paths, others, "join.path")
    return inputs, {**found, **(tables or {})}


def check_outside(job: ReleaseJob, files: Iterable[Place]) -> None:
    """Raise `JobError` if the next run would read a file that the job writes as a part of a table that it joins."""
    for section, (key, path) in itertools.product(job.joined, files):
        check_output_is_outside(path, InputSection(path=section.path), key, "join.path")


def places_of(tables: Iterable[Inputs]) -> list[Place]:
    """The files of tables that a job joins."""
    return [("join.path", place_of(path)) for table in tables for path in table.paths]
