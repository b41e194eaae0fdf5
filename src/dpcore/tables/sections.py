"""The tables that all kinds of job files share: input, output, privacy, ledger and testing."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Protocol, Self

from pydantic import Field, PrivateAttr, model_validator

from dpcore._dataclasses import dataclass
from dpcore._validation import check_integer, check_real
from dpcore.errors import ParameterError, ParameterTypeError
from dpcore.pages.words import OWN_ROWS
from dpcore.rng import KEY_BYTES
from dpcore.tables.fields import CheckedBy, Name, Positive, Section, checked

if TYPE_CHECKING:
    from dpcore.privacy import Privacy
    from dpcore.testing import KeyedRandom

MOST_SHARDS = 1024


def _check_shards(value: object) -> int | Literal["auto"] | None:
    if value is None or value == "auto":
        return value
    try:
        return check_integer("shards", value, low=1, high=MOST_SHARDS)
    except (ParameterError, ParameterTypeError):
        raise ValueError(f'shards must be "auto" or an integer in [1, {MOST_SHARDS}], got {reprlib.repr(value)}') from None


DeltaLimit = Annotated[float, checked(check_real, low=0.0, high=1.0, include_high=False)]
RowCount = Annotated[int, checked(check_integer, low=1, high=2**31 - 1)]
ExpressionText = Annotated[str, Field(min_length=1)]
ShardCount = Annotated[int | Literal["auto"] | None, CheckedBy(_check_shards)]
Format = Literal["parquet", "csv", "arrow"]
MAX_LOOKUPS, MAX_DERIVED, MAX_JOINS = 2**6, 2**10, 2**4
SUFFIXES: dict[str, Format] = {".parquet": "parquet", ".csv": "csv", ".arrow": "arrow"}


class InputSection(Section):
    """`[input]`: what is read."""

    path: Name
    format: Format | None = None
    dataset: Name | None = None


class DeriveSection(Section):
    """`[[derive]]`: a column that is computed from others of the same row."""

    name: Name
    sql: ExpressionText


class LookupSection(Section):
    """`[[lookup]]`: columns of a public table, joined by a key that is there once."""

    path: Name
    key: Name
    columns: list[Name] = Field(min_length=1)


class LedgerSection(Section):
    """`[ledger]`: the budget that the job is charged to."""

    path: Name


class OutputSection(Section):
    """`[output]`: what is written."""

    path: Name
    format: Format | None = None
    compression: Literal["zstd", "snappy", "gzip", "brotli", "lz4", "none"] | None = None
    shards: ShardCount = None

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
        if self.shards is not None and self.resolved_format == "csv":
            raise ValueError(f"shards = {self.shards!r}: a CSV file is written as one; use parquet or arrow, or leave shards out")
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

    ALWAYS_BOUNDS_ROWS: ClassVar[bool] = True

    @model_validator(mode="after")
    def _a_column_as_unit_needs_a_bound(self) -> Self:
        for key in ("max_rows_per_unit", "null_unit", "over_limit"):
            if self.unit == "row" and getattr(self, key, None) is not None:
                raise ValueError(f"{key} is for jobs whose unit is a column; with unit = 'row' each row is its own unit")
        if self.ALWAYS_BOUNDS_ROWS:
            self.check_rows_are_bounded()
        return self

    def check_rows_are_bounded(self) -> None:
        """Raise ValueError if the unit is a column, and nothing says how many rows one may have."""
        if self.unit != "row" and self.max_rows_per_unit is None:
            instead = "" if self.ALWAYS_BOUNDS_ROWS else "; in its place, per_unit makes one row of all that a unit has"
            raise ValueError(f"max_rows_per_unit is required with unit = {self.unit!r}: an integer in [1, {2**31 - 1}]{instead}")

    @property
    def rows_per_unit(self) -> int:
        """Rows that one unit may own."""
        return self.max_rows_per_unit or 1

    @property
    def null_rows_are_units(self) -> bool:
        """Whether a row that names no unit is a separate unit, and does not count as absent."""
        return self.null_unit == "own"

    @property
    def protected(self) -> str:
        """The unit as outputs and ledgers call it; the name differs if rows without a unit count as separate units."""
        return f"{self.unit}{OWN_ROWS}" if self.null_rows_are_units else self.unit

    @property
    def key_of_unit(self) -> str:
        """The key that says what outputs and ledgers call the unit."""
        return "unit"

    def called_otherwise(self, name: str) -> str:  # noqa: ARG002
        """How a job says that its unit is what a ledger calls by another name; "" if it cannot."""
        return ""


class TestingSection(Section):
    """`[testing]`: a key that makes the noise reproducible, and no longer private."""

    __test__: ClassVar[bool] = False

    key_hex: Annotated[str, Field(pattern=f"^[0-9a-fA-F]{{{2 * KEY_BYTES}}}$")]


def key_of(testing: TestingSection | None) -> KeyedRandom | None:
    """The keyed source of a job with a test key."""
    if testing is None:
        return None
    from dpcore.testing import KeyedRandom  # Only a keyed job may hold the class whose output is not private.

    return KeyedRandom(bytes.fromhex(testing.key_hex))


@dataclass(frozen=True, slots=True)
class JobSource:
    """Where a job comes from.

    Attributes
    ----------
    path : str
        The job file, as the user named it.
    sha256 : str
        Digest of its bytes.
    settings : tuple of str
        What the command line set: `KEY=VALUE`, one each.
    """

    path: str
    sha256: str
    settings: tuple[str, ...] = ()


class JobTables(Section):
    """The tables that every job file may have."""

    WORD: ClassVar[str]
    """What the ids of runs call a job of this kind: fixed for good, whatever the class is called."""

    version: Literal[1]
    input: InputSection
    ledger: LedgerSection | None = None
    testing: TestingSection | None = None
    _source: JobSource | None = PrivateAttr(None)
    _document: Mapping[str, Any] | None = PrivateAttr(None)

    @property
    def source(self) -> JobSource | None:
        """The file that the job was read from; None for a job that a program made."""
        return self._source

    def named(self, source: JobSource) -> Self:
        """The same job, with where it comes from."""
        self._source = source
        return self

    @property
    def document(self) -> Mapping[str, Any] | None:
        """What it was made of, by who reads job files; None for a job of a frame."""
        return self._document

    def made_of(self, document: Mapping[str, Any]) -> Self:
        """The same job, with what it was made of."""
        self._document = document
        return self

    @model_validator(mode="after")
    def _no_ledger_pays_for_keyed_noise(self) -> Self:
        if self.ledger is not None and self.testing is not None:
            raise ValueError("testing: a ledger pays for private noise, and noise from a [testing] key is not private; remove one of them")
        return self

    @property
    def secure(self) -> bool:
        """Whether the noise comes from the operating system's randomness."""
        return self.testing is None

    @property
    def is_paid_once(self) -> bool:
        """Whether its runs are steps of one series, which is paid for as a whole."""
        return False


class JobFile(Protocol):
    """A job file of any kind."""

    WORD: ClassVar[str]

    @property
    def input(self) -> InputSection:
        """The input."""

    @property
    def privacy(self) -> PrivacySection:
        """The limits of the job, and its privacy unit."""

    @property
    def ledger(self) -> LedgerSection | None:
        """The ledger that the job charges."""

    @property
    def testing(self) -> TestingSection | None:
        """The key of noise that must be repeatable."""

    @property
    def secure(self) -> bool:
        """Whether the noise comes from the operating system's randomness."""

    @property
    def is_paid_once(self) -> bool:
        """Whether its runs are steps of one series, which is paid for as a whole."""

    @property
    def source(self) -> JobSource | None:
        """The file that the job was read from."""

    @property
    def total(self) -> Privacy:
        """Privacy of the whole job."""
