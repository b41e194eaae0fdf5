"""The schema of `job.toml`, and the texts that explain what is wrong with one."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from dpcore._guarantee import sentences
from dpcore.jobs.loading import load
from dpcore.jobs.parsing import parse
from dpcore.privacy import Privacy, composed
from dpcore.tables.budget import refuse_overspending
from dpcore.tables.fields import Name, no_entries, tagged
from dpcore.tables.mistakes import Entries
from dpcore.tables.randomise_fields import COLUMN_SECTIONS, JobColumn
from dpcore.tables.sections import JobTables, OutputSection, PrivacySection

if TYPE_CHECKING:
    from dpcore.jobs.settings import Settings

ENTRIES = Entries("column", "mechanism", COLUMN_SECTIONS)


class LocalPrivacy(PrivacySection):
    """`[privacy]` of a job that writes a row for each row it reads."""

    over_limit: Literal["suppress", "refuse"] | None = None

    @property
    def refuses_units(self) -> bool:
        """Whether a unit with too many rows ends the job."""
        return self.over_limit == "refuse"

    @property
    def suppresses(self) -> bool:
        """Whether the cells of a row may be noised as if they were missing."""
        return self.unit != "row" and not (self.refuses_units and self.null_rows_are_units)


class Job(JobTables):
    """A whole job file.

    Attributes
    ----------
    version : int
        1.
    keep : list of str
        Columns that are public and are copied as they are.
    input, output, privacy : InputSection, OutputSection, LocalPrivacy
        The tables of the same names.
    ledger : LedgerSection or None
        The ledger that pays; without one only `[privacy]` limits the job.
    testing : TestingSection or None
        Present in jobs whose noise must be repeatable; their output is not private.
    column : list of JobColumn
        The `[[column]]` entries, at least one.
    """

    WORD: ClassVar[str] = "Job"

    keep: list[Name] = Field(default_factory=no_entries)
    output: OutputSection
    privacy: LocalPrivacy
    column: list[Annotated[JobColumn, tagged("mechanism", COLUMN_SECTIONS)]] = Field(min_length=1)

    @model_validator(mode="after")
    def _names_are_distinct(self) -> Self:
        for name, times in Counter(column.name for column in self.column).items():
            if times > 1:
                raise ValueError(f"column: {times} [[column]] entries are named {name!r}; a column is privatised once")
        for name, times in Counter(self.keep).items():
            if times > 1:
                raise ValueError(f"keep names {name!r} {times} times")
        for name in self.keep:
            if any(column.name == name for column in self.column):
                raise ValueError(f"keep: {name!r} is also a [[column]]; publishing it as it is would undo its noise")
        if self.privacy.unit in self.keep:
            raise ValueError(f"keep: {self.privacy.unit!r} is the privacy unit; publishing it would name whose data each row holds")
        return self

    @property
    def total(self) -> Privacy:
        """Basic composition over all columns and all rows of one unit."""
        return composed((column.privacy for column in self.column), self.privacy.rows_per_unit)

    @property
    def guarantee(self) -> str:
        """The guarantee in words, for a report or a publication."""
        return sentences(self.total.epsilon, self.total.delta, unit=self.privacy.protected, local=True)


def check_budget(job: Job) -> None:
    """Raise `BudgetError` if the columns together spend more than `[privacy]` allows."""
    times = "" if job.privacy.unit == "row" else f", times {job.privacy.rows_per_unit} rows per {job.privacy.unit!r}"
    refuse_overspending(job.total, job.privacy, [(column.name, column.privacy) for column in job.column], "columns", times)


def parse_job(document: dict[str, Any]) -> Job:
    """Check a job that is given as a dictionary.

    Parameters
    ----------
    document : dict
        The content of a job file, as `tomllib.load` returns it.

    Returns
    -------
    Job
        The checked job.

    Raises
    ------
    JobError
        If it is not a job: the message has a line for each mistake, with the key's path, its value and what is allowed.
    ParameterTypeError
        If `document` is not a dict.
    BudgetError
        If the columns spend more than `[privacy]` allows.

    Notes
    -----
    Cost: no file is read.

    Examples
    --------
    >>> from dpcore.batch import parse_job
    >>> job = parse_job(
    ...     {
    ...         "version": 1,
    ...         "input": {"path": "people.parquet"},
    ...         "output": {"path": "private.parquet"},
    ...         "privacy": {"max_epsilon": 1.0},
    ...         "column": [{"name": "smoker", "mechanism": "binary", "epsilon": 1.0}],
    ...     }
    ... )
    >>> job.total.epsilon, job.column[0].mechanism
    (1.0, 'binary')
    """
    job = parse(Job, document, ENTRIES)
    check_budget(job)
    return job


def load_job(path: str | Path, *, settings: Settings | None = None) -> Job:
    r"""Read and check a job file.

    Parameters
    ----------
    path : str or Path
        A TOML file.
    settings : Settings, optional
        Keys and variables that the command line sets. Default: `${DATE}` alone is known.

    Returns
    -------
    Job
        The checked job.

    Raises
    ------
    JobError
        If it is not TOML or not a job.
    BudgetError
        If the columns spend more than `[privacy]` allows.
    StorageError
        If it cannot be read.
    ParameterTypeError
        If `path` is not a path.

    Notes
    -----
    Cost: one file of at most 16 MiB is read.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from dpcore.batch import load_job
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "job.toml")
    ...     text = 'version = 1\n[input]\npath = "people.parquet"\n[output]\npath = "private.parquet"\n[privacy]\nmax_epsilon = 1\n'
    ...     column = '[[column]]\nname = "smoker"\nmechanism = "binary"\nepsilon = 1\n'
    ...     _ = path.write_text(text + column)
    ...     load_job(path).input.path
    'people.parquet'
    """
    return load(path, parse_job, Job, ENTRIES, settings)
