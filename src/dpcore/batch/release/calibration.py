"""From a query of a job to its answer: how it reads its columns, and noise that is calibrated to its sensitivity."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpcore.batch.release.cells import Reals
from dpcore.batch.release.kinds import kind_of
from dpcore.batch.release.kinds.base import Asked
from dpcore.batch.release.people_cells import UnitCells
from dpcore.batch.release.reads import Read, groups_of
from dpcore.batch.release.sensitivity import Contribution
from dpcore.batch.release.stepped import in_steps
from dpcore.errors import JobError, ParameterError, ParameterTypeError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dpcore.batch.release.answers import Answer
    from dpcore.batch.release.cells import Cells
    from dpcore.batch.release.job import ReleaseJob
    from dpcore.batch.release.query_sections import QuerySection


def read_of(position: int, query: QuerySection, unit: str = "row") -> Read:
    """How a query reads its columns, and that of its groups, as far as the job says; one about whole units reads the unit first."""
    units: tuple[tuple[str, Cells], ...] = ((unit, UnitCells()),) if unit != "row" and query.is_about_units else ()
    return Read((*units, *kind_of(query).columns(position, query)), groups_of(query))


def calibrated(position: int, job: ReleaseJob, read: Read, integers: Mapping[str, bool]) -> Answer:
    """The answer to a query, with its noise; `integers` says which columns hold integers. What it refuses costs nothing."""
    query = job.query[position]
    try:
        stepped = in_steps(query, *_bounds(read))
        return kind_of(query).answer(stepped, Asked(job.privacy, read, contribution(job, stepped), integers))
    except JobError:
        raise
    except (ParameterError, ParameterTypeError) as error:
        raise JobError(f"query[{position}] ({query.name!r}, {query.kind}): {error}") from None


def _bounds(read: Read) -> tuple[list[tuple[float, float]], list[float | None]]:
    """The bounds of the columns of numbers, and what stands for their nulls."""
    reals = [cells for _, cells in read.cells if isinstance(cells, Reals)]
    return [each.bounds for each in reals], [each.missing for each in reals]


def contribution(job: ReleaseJob, query: QuerySection) -> Contribution:
    """Return how much one unit may contribute to what a query is asked about."""
    privacy = job.privacy
    return Contribution(privacy.rows_per_unit, privacy.relation == "replace", job.knows_rows_of(query), privacy.max_groups_per_unit)
