"""The tables of a rehearsal: public or made-up ones that stand for the input of a job and for the tables that it joins.

That they are public is what `--public` says, and no program can check it. What is refused is what can only be a slip: the files of the job
itself, through links, folders and globs, and a name that is that of its data set.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import PurePath
from typing import TYPE_CHECKING

from dpcore._dataclasses import dataclass
from dpcore._disk.addresses import is_address
from dpcore.errors import DpcoreError, JobError
from dpcore.tables.discovery import discover
from dpcore.tables.partitions import declared_sorts
from dpcore.tables.places import check_distinct
from dpcore.tables.sections import InputSection
from dpcore.tables.sources import place_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dpcore.query.request import ReleaseJob
    from dpcore.tables.inputs import Inputs
    from dpcore.tables.places import Place

NOT_PUBLIC = (
    "--public is required: a rehearsal prints exact numbers of the table of --on, without any privacy. With --public you say that anyone "
    "may see it, because it was published or made up (dpcore init JOB --table made-up.parquet makes one); dpcore cannot check that"
)
WAY_OUT = "name a table that is public, or make one: dpcore init JOB --table made-up.parquet"


@dataclass(frozen=True, slots=True)
class PublicTables:
    """What is read in place of the tables of a job.

    Attributes
    ----------
    path : str
        As the command names it.
    inputs : Inputs
        Its files.
    joined : mapping
        The tables that are joined, by the paths that the job gives them.
    joined_paths : dict
        Their paths, as the command names them.
    """

    path: str
    inputs: Inputs
    joined: Mapping[str, Inputs]
    joined_paths: dict[str, str]

    @property
    def section(self) -> InputSection:
        """The input of a job that reads it."""
        return InputSection(path=self.path)


def public_tables(job: ReleaseJob, given: Sequence[str], *, are_public: bool) -> PublicTables:
    """Find the tables of a rehearsal.

    Parameters
    ----------
    job : ReleaseJob
        The job; its own files are looked for, and not opened.
    given : sequence of str
        Each a path, or `JOINPATH=PATH` for a table that the job joins.
    are_public : bool
        Whether the user says so.

    Raises
    ------
    JobError
        If nobody says that they are public, one is missing or given twice, or one is a file of the job itself.
    StorageError
        If one cannot be read.
    """
    if not are_public:
        raise JobError(NOT_PUBLIC)
    path, joined = _sorted_out(job, given)
    own = _own_files(job, stores=any(map(is_address, [path, *joined.values()])))
    for key, each in [("--on", path), *((f"--on {name}", each) for name, each in joined.items())]:
        _check_name(job, key, each)
    inputs = discover(path, None, "--on", declared_sorts(job.query))
    found = {name: discover(each, None, f"--on {name}") for name, each in joined.items()}
    for key, table in [("--on", inputs), *((f"--on {name}", table) for name, table in found.items())]:
        try:
            check_distinct([(key, place_of(each)) for each in table.paths], own)
        except JobError as error:
            raise JobError(f"{error}. The job protects it; {WAY_OUT}") from None
    return PublicTables(path, inputs, found, joined)


def _sorted_out(job: ReleaseJob, given: Sequence[str]) -> tuple[str, dict[str, str]]:
    """The path of the table, and those of the tables that are joined. A path may hold signs of equality, as folders of partitions do."""
    wanted = [section.path for section in job.joined]
    path: str | None = None
    joined: dict[str, str] = {}
    for text in given:
        name = next((each for each in wanted if text.startswith(f"{each}=")), None)
        if name is None and path is not None:
            named = f"JOINPATH=PATH with one of {', '.join(map(repr, wanted))}" if wanted else "one table, for this job joins none"
            raise JobError(f"--on {text!r}: {path!r} was given already as the table of the input; give {named}")
        if name in joined:
            raise JobError(f"--on {text!r}: a table for {name!r} was given already; leave one out")
        if name is None:
            path = text
        else:
            joined[name] = text[len(name) + 1 :]
    if path is None:
        raise JobError(f"--on is required: a table that stands for input.path = {job.input.path!r}; {WAY_OUT}")
    for name in wanted:
        if name not in joined:
            raise JobError(f"--on {name}=PUBLIC.parquet is required: the job joins {name!r}, and a rehearsal reads no table of the job")
    return path, joined


def _own_files(job: ReleaseJob, *, stores: bool) -> list[Place]:
    """The files of the job's own tables, as far as there are any; those of a store only if something else lies in a store."""
    found: list[Place] = []
    tables = [("input.path", job.input.path, job.input.format), *(("join.path", each.path, each.format) for each in job.joined)]
    for key, path, form in tables:
        if is_address(path) and not stores:
            continue
        with suppress(DpcoreError):  # There is none here, or none that the job could read.
            found += [(key, place_of(each)) for each in discover(path, form, key).paths]
    return found


def _check_name(job: ReleaseJob, key: str, path: str) -> None:
    """Raise `JobError` if a table is named as what the job protects."""
    if job.input.dataset is not None and job.input.dataset in {path, PurePath(path).stem, PurePath(path).name}:
        raise JobError(
            f"{key} = {path!r} has the name of the data set that the job protects, input.dataset = {job.input.dataset!r}; {WAY_OUT}"
        )
    for own in [job.input.path, *(each.path for each in job.joined)]:
        if path == own:
            raise JobError(f"{key} = {path!r} is what the job itself reads; {WAY_OUT}")
