"""Plans of local jobs: checked against the input's schema before any row is read."""

from __future__ import annotations

import io
from collections import Counter
from typing import TYPE_CHECKING

import pyarrow as pa

from dpcore._dataclasses import dataclass
from dpcore.errors import JobError
from dpcore.jobs.privatize_job import Job
from dpcore.pages.printable import check_no_formula
from dpcore.tables.checks import check_curator, check_is, check_names, undeclared
from dpcore.tables.discovery import discover
from dpcore.tables.file_checks import check_files, check_files_are_free, check_inputs_are_tables
from dpcore.tables.mistakes import Mistake, MistakesError
from dpcore.tables.output import metadata
from dpcore.tables.output.charge import Charge, Spend
from dpcore.tables.output.publication import Publication
from dpcore.tables.output.shards import automatic
from dpcore.tables.output.writers import open_writer, written_type
from dpcore.tables.partitions import declared_sorts
from dpcore.tables.places import output_place
from dpcore.tables.plans import JobPlan, Schemas
from dpcore.tables.randomise import NoisyColumn, fitted, ready
from dpcore.tables.recorded import recorded
from dpcore.tables.types.kept import has_lists_of_one_length, kept
from dpcore.tables.types.reports import CategoryReports

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpcore._disk.addresses import Location
    from dpcore.tables.inputs import Inputs
    from dpcore.tables.pieces import FileInfo
    from dpcore.tables.places import Place
    from dpcore.tables.sections import Format
    from dpcore.tables.sources import InputFile

LISTS_FROM = 26
"""The version of pyarrow since which it reads and writes a list of a fixed size that is missing in Parquet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan(JobPlan):
    """A checked job: only its rows or the system can stop it.

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
    output : Path or Address
        The file to write; of a table in shards their manifest.
    shards : tuple of Path or Address
        The files of a table in shards, in their order; none if the table is one file.
    rows : int or None
        Rows of the input; None if they are not known before the input is read.
    unit_type : pyarrow.DataType or None
        Type of the column that holds the privacy unit; None if the unit is the row.
    publication : Publication
        The files that the job writes, and what its ledger is to pay.
    curator : bool
        Whether messages may say where in the input something is, outside the guarantee.
    """

    job: Job
    publication: Publication
    columns: tuple[NoisyColumn, ...]
    schema: pa.Schema
    shards: tuple[Location, ...] = ()


def make_plan(job: Job, *, overwrite: bool = False, curator: bool = False, others: Sequence[Place] = ()) -> Plan:
    """Check a job against its input's schema and its output's place. Nothing is written.

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

    Returns
    -------
    Plan
        What the job will do.

    Raises
    ------
    ParameterTypeError
        If `job` is not a job of this kind.
    JobError
        If a column is missing or of a type its mechanism does not take, the output exists already, or a row could end a job that has a
        ledger.
    BudgetError
        If the ledger does not have what the job spends.
    StorageError
        If the input or the ledger cannot be read.

    Notes
    -----
    Cost: only the schemas of the input files are read, and files of categories.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import pyarrow as pa
    >>> import pyarrow.parquet as pq
    >>> from dpcore.batch import make_plan, parse_job
    >>> with TemporaryDirectory() as folder:
    ...     source = Path(folder, "people.parquet")
    ...     pq.write_table(pa.table({"smoker": [True, False] * 500}), source)
    ...     job = {
    ...         "version": 1,
    ...         "input": {"path": str(source)},
    ...         "output": {"path": f"{folder}/private.parquet"},
    ...         "privacy": {"max_epsilon": 1.0},
    ...         "column": [{"name": "smoker", "mechanism": "binary", "epsilon": 1.0}],
    ...     }
    ...     plan = make_plan(parse_job(job))
    >>> plan.columns[0].section.mechanism, plan.rows
    ('binary', 1000)
    """
    check_is("job", job, Job, "load_job or parse_job")
    check_curator(job, curator=curator)
    inputs = discover(job.input.path, job.input.format, declared=declared_sorts(job.column))
    _check_folders(job, inputs)
    check_inputs_are_tables(job, inputs.paths, others)
    columns = tuple(ready(position, column) for position, column in enumerate(job.column))
    output = output_place(job.output.path, "output.path")
    shards = _shard_count(job, inputs)
    files = [("output.path", path) for path in metadata.output_files(output, job.output.resolved_format, shards)]
    check_files(job, inputs, files, others)
    charge = Charge(job, spend_of(job), overwrite=overwrite)
    check_files_are_free(files, charge, overwrite=overwrite)
    schemas = Schemas(inputs, job.privacy.unit)
    columns = _inspected(job, schemas, columns, curator=curator)
    return Plan(
        job=job,
        inputs=inputs,
        columns=columns,
        read_types=schemas.read_types,
        schema=_output_schema(job, columns, schemas.read_types, inputs.format),
        output=output if shards is None else files[-1][1],
        shards=tuple(path for _, path in files[:-1]) if shards is not None else (),
        rows=schemas.rows,
        unit_type=schemas.unit_type,
        publication=Publication([path for _, path in files], charge, overwrite=overwrite),
        curator=curator,
    )


def _check_folders(job: Job, inputs: Inputs) -> None:
    """Raise `JobError` if a folder's column is neither in the output nor noised: the order of the rows would tell it unnoticed."""
    said = {*job.keep, job.privacy.unit, *(column.name for column in job.column)}
    for name in inputs.folder_columns:
        if name not in said:
            raise JobError(
                f"input.path = {job.input.path!r}: its folders are a column, {name!r}, that the job does not name. The output has the rows "
                "in the order of the folders, so how many rows each folder has would be public unnoticed. Add it to keep if its values may "
                "be public as they are, add a [[column]] that gives it noise, or name the files of one folder"
            )


def _shard_count(job: Job, inputs: Inputs) -> int | None:
    """How many shards a job writes; None if its output is one file. It follows from the settings and the number of rows."""
    if job.output.shards != "auto":
        return job.output.shards
    rows = [inputs.inspect(path).rows for path in inputs.paths]
    return automatic(None if None in rows else sum(each or 0 for each in rows))


def spend_of(job: Job) -> Spend:
    """The cost of a job, and its description for the ledger."""
    count = len(job.column)
    asked = ({"name": column.name, "kind": column.mechanism, "columns": [column.name]} for column in job.column)
    return Spend(f"privatize of {count} column{'s' if count > 1 else ''} of {job.input.path}", job.total, queries=recorded(asked))


def planned_for(job: Job, info: FileInfo, place: InputFile) -> tuple[tuple[NoisyColumn, ...], dict[str, pa.DataType], pa.Schema]:
    """Check a job against the columns of one table.

    Parameters
    ----------
    job : Job
        The job.
    info : FileInfo
        Names and types of the table.
    place : Path, Address or Partitioned
        What messages call the table.

    Returns
    -------
    tuple
        The columns that get noise, the types of all that are read, and the schema of the output.

    Raises
    ------
    JobError
        If a column is missing, of a type its mechanism does not take, or lacks a declaration that the job needs.
    """
    columns = tuple(ready(position, column) for position, column in enumerate(job.column))
    check_names(info, place, [*job.keep, *(column.name for column in columns)])
    columns = _fitted(job, info, place, columns)
    types = {name: (info.types or {})[name] for name in job.keep}
    types |= {column.name: _noisy_type(info, place, column) for column in columns}
    _check_declared(job, info, columns)
    return columns, types, _output_schema(job, columns, types, job.input.format)


def _inspected(job: Job, schemas: Schemas, columns: tuple[NoisyColumn, ...], *, curator: bool) -> tuple[NoisyColumn, ...]:
    """The columns for the types of the input, every file of which is checked."""
    first, types = schemas.inputs.paths[0], schemas.read_types
    for path, info in schemas.inspected([*job.keep, *(column.name for column in columns)], curator=curator):
        if path is first:
            columns = _fitted(job, info, path, columns)
        for name in job.keep:
            kind = info.types[name] if info.types is not None else pa.string()
            if types.setdefault(name, kind) != kind:
                raise JobError(f"{path}: kept column {name!r} has type {kind}, but {first} has it as {types[name]}")
        for column in columns:
            types[column.name] = pa.binary() if info.types is None else _noisy_type(info, path, column)
        _check_declared(job, info, columns)
    return columns


def _check_declared(job: Job, info: FileInfo, columns: tuple[NoisyColumn, ...]) -> None:
    for position, column in enumerate(columns):
        about = f" ({column.name!r}, {column.section.mechanism})"
        keys = column.values.missing_keys(None if info.types is None else info.types[column.name])
        if keys and job.ledger is not None:
            raise undeclared(("column", position), about, keys, skipped=("missing",))
        if "missing" in keys and job.privacy.suppresses:
            text = (
                f"missing must be declared with unit = {job.privacy.unit!r}: the cells of rows that are more than max_rows_per_unit = "
                f"{job.privacy.rows_per_unit} of one unit, or name none, are noised from it"
            )
            raise MistakesError(Mistake(("column", position), text, about=about))


def _fitted(job: Job, info: FileInfo, path: InputFile, columns: tuple[NoisyColumn, ...]) -> tuple[NoisyColumn, ...]:
    """The columns for the types of the first file, which the others' must resemble."""
    textual = job.output.resolved_format == "csv"
    kinds = [None if info.types is None else _noisy_type(info, path, column) for column in columns]
    return tuple(fitted(i, column, kind, textual=textual) for i, (column, kind) in enumerate(zip(columns, kinds, strict=True)))


def _noisy_type(info: FileInfo, path: InputFile, column: NoisyColumn) -> pa.DataType:
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


def _output_schema(job: Job, columns: tuple[NoisyColumn, ...], read_types: dict[str, pa.DataType], source: str | None) -> pa.Schema:
    """Kept columns in the order of `keep`, then those with reports in the order of the job; `source` is the format of the input."""
    if "parquet" in {source, job.output.resolved_format}:
        for name in job.keep:
            _check_lists(name, read_types[name])
    fields = [_kept_field(name, read_types[name], job.output.resolved_format) for name in job.keep]
    for field in fields:
        _check_writable(job, field)
    for column in columns:
        said = metadata.encode(metadata.field_metadata(column))
        kinds, nullable = column.reports.types(column.name), column.reports.HOLDS_NULLS
        fields += [pa.field(name, kind, nullable=nullable, metadata=said) for name, kind in kinds.items()]
    if job.output.resolved_format == "csv":
        check_no_formula("the name of a column of the output", (field.name for field in fields))
        for column in columns:
            if isinstance(column.reports, CategoryReports) and column.reports.categories.are_text:
                check_no_formula(f"a category of column {column.name!r}", map(str, column.reports.categories.listed()))
    for name, times in Counter(field.name for field in fields).items():
        if times > 1:
            raise JobError(f"the output would have {times} columns named {name!r}: in CSV a pair of reports takes two; rename one")
    return pa.schema(fields, metadata=metadata.encode(metadata.schema_metadata(job)))


def _check_lists(name: str, dtype: pa.DataType) -> None:
    """Raise `JobError` if pyarrow is too old for lists of one length in Parquet: a list that is missing would end the job."""
    if int(pa.__version__.partition(".")[0]) < LISTS_FROM and has_lists_of_one_length(dtype):
        raise JobError(
            f"keep: column {name!r} of type {dtype} cannot be kept in Parquet by pyarrow {pa.__version__}, which must be {LISTS_FROM} or "
            f"later: pip install 'pyarrow>={LISTS_FROM}'; or cast it to lists of any length"
        )


def _kept_field(name: str, dtype: pa.DataType, output_format: Format) -> pa.Field:
    try:
        return pa.field(name, written_type(kept(pa.array([], dtype)).type, output_format))
    except pa.ArrowException:
        raise JobError(f"keep: column {name!r} of type {dtype} cannot be kept; cast it to a plain type") from None


def _check_writable(job: Job, field: pa.Field) -> None:
    try:
        writer = open_writer(job.output.resolved_format, io.BytesIO(), pa.schema([field]), job.output.resolved_compression)
        writer.write(pa.RecordBatch.from_arrays([pa.array([None], field.type)], schema=pa.schema([field])))
        writer.close()
    except (pa.ArrowException, ValueError, OSError):
        message = f"keep: column {field.name!r} of type {field.type} cannot be written as {job.output.resolved_format}"
        raise JobError(message) from None
