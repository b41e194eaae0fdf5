"""What a job will do, settled from the job file and the input's schema before any row is read."""

from __future__ import annotations

import io
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from dpcore.batch.jobfile.near_names import near_name
from dpcore.batch.tables import metadata
from dpcore.batch.tables.charge import Charge, Spend, declared_files, settings_of
from dpcore.batch.tables.columns import NoisyColumn, fitted, ready
from dpcore.batch.tables.inputs import Inputs, check_output_is_not_input, discover
from dpcore.batch.tables.kept import kept
from dpcore.batch.tables.places import REPORT, check_distinct, ledger_places, output_place
from dpcore.batch.tables.publication import Publication
from dpcore.batch.tables.reports import CategoryReports
from dpcore.batch.tables.writers import open_writer, written_type
from dpcore.errors import JobError
from dpcore.pages.printable import check_no_formula

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dpcore.batch.privatize.job import Format, Job
    from dpcore.batch.release.job import ReleaseJob
    from dpcore.batch.tables.pieces import FileInfo
    from dpcore.batch.tables.places import Place


LISTED_FOR_CURATORS = "With --curator, who may see the data, the columns are listed"


@dataclass(frozen=True, slots=True)
class Plan:
    """A job that nothing but its rows or the system can stop any more.

    Attributes
    ----------
    job : Job
        The job file.
    inputs : Inputs
        The files.
    columns : tuple of NoisyColumn
        In the order of the job, which is the order of their nonces and of the output.
    read_types : dict
        Type of each column that is read: first the kept ones, then those with noise.
    schema : pyarrow.Schema
        Of the output, metadata included.
    output : Path
        The file to write.
    rows : int or None
        Rows of the input; None if only reading would tell.
    unit_type : pyarrow.DataType or None
        Type of the column that holds the privacy unit; None if the unit is the row.
    publication : Publication
        The files that the job writes, and what its ledger is to pay.
    curator : bool
        Whether messages may say where in the input something is, outside the guarantee.
    """

    job: Job
    inputs: Inputs
    columns: tuple[NoisyColumn, ...]
    read_types: dict[str, pa.DataType]
    schema: pa.Schema
    output: Path
    rows: int | None
    unit_type: pa.DataType | None
    publication: Publication
    curator: bool = False


def make_plan(job: Job, *, overwrite: bool = False, curator: bool = False, others: Sequence[Place] = ()) -> Plan:
    """Check a job against its input's schema and its output's place; writes nothing.

    Parameters
    ----------
    job : Job
        A job within its budget.
    overwrite : bool, default False
        Accept an output that exists.
    curator : bool, default False
        Let messages say which rows are at fault, and which columns a CSV has. This is outside the guarantee.
    others : sequence of (str, Path), default ()
        Further files of the command, which it must not write over; with what messages call them.

    Raises
    ------
    JobError
        If a column is missing or of a type its mechanism does not take, the output is in the way, or a row could end a job that must
        not tell anything for nothing.
    BudgetError
        If the ledger does not have what the job spends.
    StorageError
        If the input or the ledger cannot be read.
    """
    check_curator(job, curator=curator)
    inputs = discover(job.input.path, job.input.format)
    check_inputs_are_tables(job, inputs.paths, others)
    columns = tuple(ready(position, column) for position, column in enumerate(job.column))
    output = output_place(job.output.path, "output.path")
    check_output_is_not_input(output, job.input, inputs)
    files = [("output.path", path) for path in metadata.output_files(output, job.output.resolved_format)]
    check_places(job, inputs.paths, files, others)
    charge = Charge(job, Spend(_what(job), job.total), overwrite=overwrite)
    if charge.earlier is None:
        check_output_is_free(output, overwrite=overwrite)
    found = _inspect_all(job, inputs, columns, curator=curator)
    schema = _output_schema(job, found.columns, found.read_types)
    publication = Publication([path for _, path in files], charge, overwrite=overwrite)
    return Plan(job, inputs, found.columns, found.read_types, schema, output, found.rows, found.unit_type, publication, curator)


def _what(job: Job) -> str:
    count = len(job.column)
    return f"privatize of {count} column{'s' if count > 1 else ''} of {job.input.path}"


def check_inputs_are_tables(job: Job | ReleaseJob, inputs: Iterable[Path], others: Sequence[Place]) -> None:
    """Raise `JobError` if a file of the input is also another one that the command reads.

    It comes before a file of categories is read: messages about that quote it, and what is made of it costs nothing.
    """
    check_distinct([("input.path", path) for path in inputs], _read_beside(job, others))


def check_places(job: Job | ReleaseJob, inputs: Iterable[Path], written: Sequence[Place], others: Sequence[Place]) -> None:
    """Raise `JobError` if a file that the job writes is also another one of the command."""
    reports = [place for place in others if place[0] == REPORT]
    check_distinct([*written, *reports], [*(("input.path", path) for path in inputs), *_read_beside(job, others)])


def _read_beside(job: Job | ReleaseJob, others: Sequence[Place]) -> list[Place]:
    """What a command reads beside its input."""
    read = [("a file of categories", Path(path)) for path in declared_files(settings_of(job))]
    if job.ledger is not None:
        read += ledger_places(job.ledger.path)
    return [*read, *(place for place in others if place[0] != REPORT)]


def check_output_is_free(output: Path, *, overwrite: bool, key: str = "output.path") -> None:
    """Raise `JobError` if something stands where the output would."""
    if not overwrite and output.exists():
        raise JobError(
            f"{key} = {str(output)!r} exists. Running the job again would spend its privacy budget a second time: two outputs "
            "of one table together protect it only at the sum of both. If that is intended, use --overwrite"
        )
    sidecar = metadata.sidecar_path(output)
    if output.suffix.lower() == ".csv" and not overwrite and sidecar.exists() and not metadata.is_sidecar(sidecar):
        raise JobError(f"{str(sidecar)!r} exists, where the metadata of {key} belong, and is something else; move it, or use --overwrite")


@dataclass(slots=True)
class _Found:
    """What the schemas of all files say together."""

    columns: tuple[NoisyColumn, ...]
    read_types: dict[str, pa.DataType]
    rows: int | None = 0
    unit_type: pa.DataType | None = None


def _inspect_all(job: Job, inputs: Inputs, columns: tuple[NoisyColumn, ...], *, curator: bool) -> _Found:
    found = _Found(columns, {})
    for path in inputs.paths:
        info = inputs.inspect(path)
        unit = [] if job.privacy.unit == "row" else [job.privacy.unit]
        check_names(info, path, [*job.keep, *(column.name for column in columns), *unit], curator=curator)
        if path is inputs.paths[0]:
            found.columns = _fitted(job, info, path, columns)
        for name in job.keep:
            kept = info.types[name] if info.types is not None else pa.string()
            if found.read_types.setdefault(name, kept) != kept:
                raise JobError(f"{path}: kept column {name!r} has type {kept}, but {inputs.paths[0]} has it as {found.read_types[name]}")
        for column in found.columns:
            found.read_types[column.name] = pa.binary() if info.types is None else _noisy_type(info, path, column)
        _check_declared(job, info, found.columns)
        if job.privacy.unit != "row":
            found.unit_type = type_of_unit(info, path, job.privacy.unit, found.unit_type)
        found.rows = None if found.rows is None or info.rows is None else found.rows + info.rows
    return found


def check_names(info: FileInfo, path: Path, wanted: Iterable[str], *, curator: bool = False) -> None:
    """Raise `JobError` if the file lacks one of these columns, or two have one name.

    The header of a CSV is a line of the file like the others: if there is none, it is somebody's record. Of it a message says nothing but
    what the job says already and a name that is nearly the one asked for, unless a curator reads it.
    """
    public = info.types is not None or curator
    asked = list(wanted)
    for name, times in Counter(info.names).items():
        if times > 1:
            called = f"{times} columns are named {name!r}" if public or name in asked else "two columns have one name"
            raise JobError(f"{path}: {called}; rename all but one")
    present = set(info.names)
    for name in asked:
        if name not in present:
            near = near_name(name, info.names)
            guess = "" if near is None else f" Did you mean {near!r}?"
            if not public:
                raise JobError(f"{path}: there is no column {name!r} in the header, which is the first line.{guess} {LISTED_FOR_CURATORS}")
            listed = ", ".join(info.names[:30]) + (", …" if len(info.names) > 30 else "")
            raise JobError(f"{path}: there is no column {name!r}.{guess} The columns are: {listed}")


def type_of_unit(info: FileInfo, path: Path, unit: str, before: pa.DataType | None) -> pa.DataType:
    """Type of the unit, decoded; units are counted by equality, which floats do not have."""
    if info.types is None:
        return pa.binary()
    kind = info.types[unit]
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    kinds = (pa.types.is_integer, pa.types.is_string, pa.types.is_large_string, pa.types.is_date, pa.types.is_timestamp)
    if not any(is_kind(kind) for is_kind in kinds):
        raise JobError(f"{path}: privacy.unit = {unit!r} has type {kind}; a unit is an integer, a string, a date or a timestamp")
    if before is not None and before != kind:
        raise JobError(f"{path}: privacy.unit = {unit!r} has type {kind}, but the files before have it as {before}")
    return kind


def check_curator(job: Job | ReleaseJob, *, curator: bool) -> None:
    """Raise `JobError` if a job that must not tell anything for nothing is asked to, or one would tell that is not asked to."""
    ledger = getattr(job, "ledger", None)
    if curator and ledger is not None:
        raise JobError(
            "--curator is for jobs without a [ledger]: what its messages say about rows is outside the guarantee that the ledger counts. "
            "Look at the input with a job that names no ledger"
        )
    if getattr(job.privacy, "refuses_units", False) and not curator:
        raise JobError(
            "privacy.over_limit = 'refuse' needs --curator: whether some unit has too many rows is an answer about the data, outside the "
            "guarantee. With 'suppress' (the default) such rows are noised from the declared missing values"
        )


def undeclared(where: str, keys: tuple[str, ...]) -> JobError:
    """What a job with a ledger is told whose rows could end it."""
    meant = {"missing": "a cell that is missing or does not parse", "unknown": "one that is no category"}
    return JobError(
        f"{where}: {' and '.join(keys)} must be declared in a job with a [ledger]: without, a row could end the job, and whether one does "
        f"is an answer about the data. State what stands for {' and '.join(meant[key] for key in keys)}"
    )


def _check_declared(job: Job, info: FileInfo, columns: tuple[NoisyColumn, ...]) -> None:
    for position, column in enumerate(columns):
        where = f"column[{position}] ({column.name!r}, {column.section.mechanism})"
        keys = column.values.lacks(None if info.types is None else info.types[column.name])
        if keys and getattr(job, "ledger", None) is not None:
            raise undeclared(where, keys)
        if "missing" in keys and job.privacy.suppresses:
            raise JobError(
                f"{where}: missing must be declared with unit = {job.privacy.unit!r}: the cells of rows that are more than "
                f"max_rows_per_unit = {job.privacy.rows_per_unit} of one unit, or name none, are noised from it"
            )


def _fitted(job: Job, info: FileInfo, path: Path, columns: tuple[NoisyColumn, ...]) -> tuple[NoisyColumn, ...]:
    """The columns for the types of the first file, which the others' must resemble."""
    textual = job.output.resolved_format == "csv"
    kinds = [None if info.types is None else _noisy_type(info, path, column) for column in columns]
    return tuple(fitted(i, column, kind, textual=textual) for i, (column, kind) in enumerate(zip(columns, kinds, strict=True)))


def _noisy_type(info: FileInfo, path: Path, column: NoisyColumn) -> pa.DataType:
    """Type of a column in one file whose format has types, checked."""
    kind, mechanism = (info.types or {})[column.name], column.section.mechanism
    if not column.values.accepts(kind):
        declared = "" if column.categories is None else " with these categories"
        raise JobError(f"{path}: column {column.name!r} has type {kind}, but {mechanism}{declared} takes {column.values.wanted}")
    if isinstance(column.reports, CategoryReports) and not column.reports.can_hold(kind):
        raise JobError(
            f"{path}: column {column.name!r} has type {kind}, which cannot hold each of the {column.reports.categories.k} categories, "
            f"and {mechanism} reports any of them; cast the column to a wider type, or declare fewer categories"
        )
    return kind


def _output_schema(job: Job, columns: tuple[NoisyColumn, ...], read_types: dict[str, pa.DataType]) -> pa.Schema:
    """Kept columns in the order of `keep`, then those with reports in the order of the job."""
    fields = [_kept_field(name, read_types[name], job.output.resolved_format) for name in job.keep]
    for field in fields:
        _check_writable(job, field)
    for column in columns:
        said = metadata.encode(metadata.field_metadata(column))
        fields += [pa.field(name, kind, nullable=False, metadata=said) for name, kind in column.reports.types(column.name).items()]
    if job.output.resolved_format == "csv":
        check_no_formula("the name of a column of the output", (field.name for field in fields))
        for column in columns:
            if isinstance(column.reports, CategoryReports) and column.reports.categories.are_text:
                check_no_formula(f"a category of column {column.name!r}", map(str, column.reports.categories.listed()))
    for name, times in Counter(field.name for field in fields).items():
        if times > 1:
            raise JobError(f"the output would have {times} columns named {name!r}: in CSV a pair of reports takes two; rename one")
    return pa.schema(fields, metadata=metadata.encode(metadata.schema_metadata(job)))


def _kept_field(name: str, kind: pa.DataType, output_format: Format) -> pa.Field:
    try:
        return pa.field(name, written_type(kept(pa.array([], kind)).type, output_format))
    except pa.ArrowException:
        raise JobError(f"keep: column {name!r} of type {kind} cannot be kept; cast it to a plain type") from None


def _check_writable(job: Job, field: pa.Field) -> None:
    try:
        writer = open_writer(job.output.resolved_format, io.BytesIO(), pa.schema([field]), job.output.resolved_compression)
        writer.write(pa.RecordBatch.from_arrays([pa.array([None], field.type)], schema=pa.schema([field])))
        writer.close()
    except (pa.ArrowException, ValueError, OSError):
        message = f"keep: column {field.name!r} of type {field.type} cannot be written as {job.output.resolved_format}"
        raise JobError(message) from None
