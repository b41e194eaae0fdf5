"""The schema of `job.toml`, and the texts that explain what is wrong with one."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, TypeVar

from pydantic import Field, ValidationError, model_validator

from dpcore._validation import check_integer, check_real
from dpcore.batch.jobfile.columns import COLUMN_SECTIONS, JobColumn, Name, Positive, Section, checked
from dpcore.batch.jobfile.mistakes import Entries, explain
from dpcore.errors import BudgetError, JobError, StorageError, reason
from dpcore.privacy import Privacy, composed
from dpcore.rng import KEY_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Parsed = TypeVar("Parsed")
DeltaLimit = Annotated[float, checked(check_real, low=0.0, high=1.0, include_high=False)]
RowCount = Annotated[int, checked(check_integer, low=1, high=2**31 - 1)]
Format = Literal["parquet", "csv", "arrow"]
MAX_JOB_BYTES = 16 << 20
MAX_KEY_PARTS = 32
LONG_KEY = re.compile(rf"""(?<![\w-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){{{MAX_KEY_PARTS}}}""")
OWN_ROWS = ", or one row without"
"""What the unit of a job is called in addition if rows that name none are units of their own."""
SUFFIXES: dict[str, Format] = {".parquet": "parquet", ".csv": "csv", ".arrow": "arrow"}


class InputSection(Section):
    """`[input]`: what is read."""

    path: Name
    format: Format | None = None
    dataset: Name | None = None


class LedgerSection(Section):
    """`[ledger]`: the budget that the job is charged to."""

    path: Name


class OutputSection(Section):
    """`[output]`: what is written."""

    path: Name
    format: Format | None = None
    compression: Literal["zstd", "snappy", "gzip", "brotli", "lz4", "none"] | None = None

    COMPRESSIONS: ClassVar[dict[Format, tuple[str, ...]]] = {
        "parquet": ("zstd", "snappy", "gzip", "brotli", "lz4", "none"),
        "arrow": ("none", "zstd", "lz4"),
        "csv": ("none",),
    }

    @model_validator(mode="after")
    def _format_is_known_and_takes_the_compression(self) -> Self:
        if self.format is None and Path(self.path).suffix.lower() not in SUFFIXES:
            raise ValueError(f"path = {self.path!r}: cannot tell the format from its ending; end it in {', '.join(SUFFIXES)} or set format")
        allowed = self.COMPRESSIONS[self.resolved_format]
        if self.compression is not None and self.compression not in allowed:
            raise ValueError(f"compression = {self.compression!r}: {self.resolved_format} takes {', '.join(map(repr, allowed))}")
        return self

    @property
    def resolved_format(self) -> Format:
        """The format named, or the one the path's ending stands for."""
        return self.format or SUFFIXES[Path(self.path).suffix.lower()]

    @property
    def resolved_compression(self) -> str:
        """The compression named, or the format's default: zstd for Parquet, none for Arrow and CSV."""
        return self.compression or self.COMPRESSIONS[self.resolved_format][0]


class PrivacySection(Section):
    """`[privacy]`: what the job may spend, and whose data it protects."""

    max_epsilon: Positive
    max_delta: DeltaLimit = 0.0
    unit: Name = "row"
    max_rows_per_unit: RowCount | None = None
    null_unit: Literal["drop", "own"] | None = None

    @model_validator(mode="after")
    def _a_column_as_unit_needs_a_bound(self) -> Self:
        for key in ("max_rows_per_unit", "null_unit", "over_limit"):
            if self.unit == "row" and getattr(self, key, None) is not None:
                raise ValueError(f"{key} is for jobs whose unit is a column; with unit = 'row' each row is its own unit")
        if self.unit != "row" and self.max_rows_per_unit is None:
            raise ValueError(f"max_rows_per_unit is required with unit = {self.unit!r}: an integer in [1, {2**31 - 1}]")
        return self

    @property
    def rows_per_unit(self) -> int:
        """Rows that one unit may own."""
        return self.max_rows_per_unit or 1

    @property
    def null_rows_are_units(self) -> bool:
        """Whether a row that names no unit is one of its own, and does not count as absent."""
        return self.null_unit == "own"

    @property
    def protected(self) -> str:
        """The unit as outputs and ledgers call it: whose rows without a name are units of their own is another one."""
        return f"{self.unit}{OWN_ROWS}" if self.null_rows_are_units else self.unit


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


class TestingSection(Section):
    """`[testing]`: a key that makes the noise reproducible, and worthless."""

    __test__: ClassVar[bool] = False

    key_hex: Annotated[str, Field(pattern=f"^[0-9a-fA-F]{{{2 * KEY_BYTES}}}$")]


def refuse_keyed_spend(ledger: LedgerSection | None, testing: TestingSection | None) -> None:
    """Raise `ValueError` if a job names both."""
    if ledger is not None and testing is not None:
        raise ValueError("testing: a ledger pays for private noise, and that of a [testing] key is not; leave out [ledger] or [testing]")


class Job(Section):
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

    version: Literal[1]
    keep: list[Name] = Field(default_factory=list)
    input: InputSection
    output: OutputSection
    privacy: LocalPrivacy
    ledger: LedgerSection | None = None
    testing: TestingSection | None = None
    column: list[Annotated[JobColumn, Field(discriminator="mechanism")]] = Field(min_length=1)

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

    @model_validator(mode="after")
    def _no_ledger_pays_for_keyed_noise(self) -> Self:
        refuse_keyed_spend(self.ledger, self.testing)
        return self

    @property
    def secure(self) -> bool:
        """Whether the noise comes from the operating system's randomness."""
        return self.testing is None

    @property
    def total(self) -> Privacy:
        """Basic composition over all columns and all rows of one unit."""
        return composed((column.privacy for column in self.column), self.privacy.rows_per_unit)


def check_budget(job: Job) -> None:
    """Raise `BudgetError` if the columns together spend more than `[privacy]` allows."""
    times = "" if job.privacy.unit == "row" else f", times {job.privacy.rows_per_unit} rows per {job.privacy.unit!r}"
    refuse_overspending(job.total, job.privacy, [(column.name, column.privacy) for column in job.column], "columns", times)


def refuse_overspending(
    total: Privacy, limits: PrivacySection, spends: Sequence[tuple[str, Privacy]], entries: str, note: str = ""
) -> None:
    """Raise `BudgetError` if `total` is beyond the limits, naming the first ten entries that it is made of."""
    for key, spent, limit in (("epsilon", total.epsilon, limits.max_epsilon), ("delta", total.delta, limits.max_delta)):
        if spent > limit:
            parts = " + ".join(f"{getattr(privacy, key)!r} ({name})" for name, privacy in spends[:10])
            more = f" + … ({len(spends) - 10} more {entries})" if len(spends) > 10 else ""
            raise BudgetError(f"the job spends {key} = {spent!r}, but privacy.max_{key} = {limit!r}: {parts}{more}{note}")


def parse_job(document: dict[str, Any]) -> Job:
    """Check a parsed job file.

    Parameters
    ----------
    document : dict
        What `tomllib` made of the file.

    Raises
    ------
    JobError
        One line per mistake: the key's path, its value, what is allowed.
    BudgetError
        If the columns spend more than `[privacy]` allows.
    """
    sections: dict[str, type[Section]] = {
        "": Job,
        "input": InputSection,
        "output": OutputSection,
        "privacy": LocalPrivacy,
        "ledger": LedgerSection,
        "testing": TestingSection,
    }
    try:
        job = Job.model_validate(document)
    except ValidationError as error:
        raise JobError(explain(error, document, sections, Entries("column", "mechanism", COLUMN_SECTIONS))) from None
    check_budget(job)
    return job


def load_job(path: str | Path) -> Job:
    """Read and check a job file.

    Parameters
    ----------
    path : str or Path
        A TOML file.

    Raises
    ------
    JobError
        If it is not TOML or not a job.
    BudgetError
        If the columns spend more than `[privacy]` allows.
    StorageError
        If it cannot be read.
    """
    return load(path, parse_job)


def _toml(path: str | Path, content: bytes) -> dict[str, Any]:
    """Parse what is small enough for `tomllib`, whose time grows with the square of a key's parts, and whose calls nest as values do."""
    if len(content) > MAX_JOB_BYTES:
        raise JobError(f"{path} has more than {MAX_JOB_BYTES >> 20} MiB; put long lists of categories into a categories_file")
    try:
        text = content.decode()
    except UnicodeDecodeError:
        raise JobError(f"{path} is not UTF-8 text, as TOML must be") from None
    if LONG_KEY.search(text):
        raise JobError(f"{path} is not a valid job: a dotted key has more than {MAX_KEY_PARTS} parts")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise JobError(f"{path} is not a valid job: its lists or tables are nested too deeply") from None
    except tomllib.TOMLDecodeError as error:
        raise JobError(f"{path} is not valid TOML: {error}") from None
    except ValueError:  # an integer of thousands of digits
        raise JobError(f"{path} is not a valid job: a number is too long") from None


def load(path: str | Path, parse: Callable[[dict[str, Any]], Parsed]) -> Parsed:
    """Read a TOML file and hand it to `parse`, whose `JobError` then says which file it is about."""
    try:
        with Path(path).open("rb") as file:
            content = file.read(MAX_JOB_BYTES + 1)
    except OSError as error:
        raise StorageError(f"cannot read the job file {path}{reason(error)}") from None
    document = _toml(path, content)
    try:
        return parse(document)
    except JobError as error:
        raise JobError(f"{path} is not a valid job:\n{error}") from None
