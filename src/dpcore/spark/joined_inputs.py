"""The tables that `[[join]]` of a job names, as Spark reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpcore.errors import JobError, ParameterError
from dpcore.spark.output_places import INPUT, input_places
from dpcore.spark.reading import table_of
from dpcore.spark.table_input import SparkInput
from dpcore.spark.table_source import checked_frame
from dpcore.tables.sections import InputSection

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from dpcore.query.request import ReleaseJob
    from dpcore.tables.places import Place


def joined_inputs(
    session: SparkSession, job: ReleaseJob, inputs: SparkInput, frames: Mapping[str, Any]
) -> tuple[dict[str, SparkInput], list[Place]]:
    """The tables that a job joins, by their paths, and the files of this machine that are read for them and for its input.

    Parameters
    ----------
    session : pyspark.sql.SparkSession
        What reads those that no frame stands for.
    job : ReleaseJob
        The job.
    inputs : SparkInput
        Its input.
    frames : mapping
        Frames of the tables, by the paths that the job gives them.

    Raises
    ------
    JobError
        If two of the tables are one.
    ParameterError
        If a frame stands for no table of the job.
    """
    named = {section.path for section in job.joined}
    for path in frames:
        if path not in named:
            raise ParameterError(f"joined has {path!r}, and the job joins {', '.join(map(repr, sorted(named))) or 'no table'}")
    found: dict[str, SparkInput] = {}
    places: list[Place] = [*input_places(inputs.snapshot.files)]
    read = {*inputs.snapshot.files}
    for section in job.joined:
        path, frame = section.path, frames.get(section.path)
        if frame is None:
            table = table_of(session, InputSection(path=path, format=section.format), connect=inputs.connect)
        else:
            table = SparkInput.of(checked_frame(frame, f"joined[{path!r}]"), path, connect=inputs.connect)
        if path in found or read & {*table.snapshot.files}:
            raise JobError(f"join.path = {path!r} reads files that another table of the job has; a table is not joined to itself")
        read |= {*table.snapshot.files}
        places += [("join.path" if key == INPUT else key, place) for key, place in input_places(table.snapshot.files)]
        found[path] = table
    return found, places
