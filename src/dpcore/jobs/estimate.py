"""From tables of reports to estimates: reports are read in pieces, and only their aggregates are kept."""

from __future__ import annotations

import re
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dpcore import local
from dpcore._backend import default_threads
from dpcore._dataclasses import dataclass
from dpcore._guarantee import sentences
from dpcore._validation import check_choice, check_integer, check_real
from dpcore._version import __version__
from dpcore.errors import DataError, JobError
from dpcore.jobs.described import Described, Whole, column_described, describe, tables_checked
from dpcore.pages.numbers import plain_number
from dpcore.tables.discovery import discover
from dpcore.tables.near_names import suggestion
from dpcore.tables.pieces import Cut
from dpcore.tables.pipeline import UNFINISHED, Pipeline
from dpcore.tables.progress import shown_by
from dpcore.tables.randomise import fitted
from dpcore.tables.randomise_fields import BinaryChannelColumn, BinaryColumn, IntegerColumn, RealColumn
from dpcore.tables.rows import Rows, piece_rows_for, read_rows
from dpcore.tables.types.values import CellError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import numpy.typing as npt

    from dpcore.tables.inputs import Inputs
    from dpcore.tables.progress import Progress, Shown
    from dpcore.tables.randomise import NoisyColumn
    from dpcore.tables.sources import InputFile

    Counted = tuple[list[local.Aggregate], int]

FORMAT = 1
TARGETS = ("population", "sample")


@dataclass(frozen=True, slots=True)
class ColumnEstimate:
    """The estimate of one column.

    Attributes
    ----------
    column : NoisyColumn
        What made its reports.
    estimate : dpcore.local.Estimate
        A mean, a proportion, or the frequencies of all categories.
    confidence : float
        Coverage of each interval, in (0, 1).
    unanswered : dpcore.local.Estimate or None
        The share of rows without a value, of a column with `missing = "skip"`, whose `estimate` is about the other rows.
    interval : ndarray of float64, shape (2,) or (k, 2)
        Lower and upper ends.
    """

    column: NoisyColumn
    estimate: local.Estimate
    confidence: float
    unanswered: local.Estimate | None = None
    interval: npt.NDArray[np.float64] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "interval", self.estimate.interval(self.confidence))

    @property
    def kind(self) -> str:
        """One of the words mean, proportion, frequencies."""
        if isinstance(self.column.section, BinaryColumn):
            return "proportion"
        return "mean" if np.ndim(self.estimate.value) == 0 else "frequencies"

    @property
    def labels(self) -> list[Any] | None:
        """The categories; of a proportion [false, true]; None for numbers and the mean of phi."""
        if self.column.categories is not None:
            return self.column.categories.listed()
        return [False, True] if self.kind == "proportion" else None

    @property
    def summary(self) -> str:
        """Name of a single number."""
        if self.kind == "proportion":
            return f"share of {plain_number(self.labels[1] if self.labels else True)}"
        return "mean of phi" if isinstance(self.column.section, BinaryChannelColumn) else self.kind

    @property
    def consistent(self) -> Any:
        """The nearest possible estimate: frequencies at least 0 with sum 1, a proportion in [0, 1], a mean within the bounds."""
        if self.kind == "frequencies":
            return local.project_to_simplex(np.asarray(self.estimate.value))
        lower, upper = self.range
        return min(max(float(self.estimate.value), lower), upper)

    @property
    def range(self) -> tuple[float, float]:
        """The range of possible true values."""
        match self.column.section:
            case BinaryChannelColumn() as channel:
                return float(min(channel.phi)), float(max(channel.phi))
            case RealColumn() | IntegerColumn() as numbers:
                return float(numbers.lower), float(numbers.upper)
            case _:
                return 0.0, 1.0

    def document(self) -> dict[str, Any]:
        """The entry of the column in what `dpcore estimate` prints as JSON.

        Returns
        -------
        dict
            As JSON holds it, except for arrays.
        """
        section, estimate = self.column.section, self.estimate
        declared = {key: getattr(section, key) for key in ("lower", "upper", "missing", "unknown") if hasattr(section, key)}
        phi = {"phi": section.phi} if hasattr(section, "phi") else {}
        return {
            "name": self.column.name,
            "mechanism": section.mechanism,
            "epsilon": section.epsilon,
            "delta": section.privacy.delta,
            **declared,
            **phi,
            "kind": self.kind,
            "n": estimate.n,
            **({"of": self.labels[1]} if self.kind == "proportion" and self.labels is not None else {}),
            "categories": self.labels,
            "value": estimate.value,
            "stderr": estimate.stderr,
            "interval": self.interval,
            "confidence": self.confidence,
            "consistent": self.consistent,
            **({} if self.unanswered is None else {"unanswered": self._unanswered(self.unanswered)}),
        }

    def _unanswered(self, share: local.Estimate) -> dict[str, Any]:
        return {"value": share.value, "stderr": share.stderr, "interval": share.interval(self.confidence)}


@dataclass(frozen=True, slots=True)
class Estimates:
    """The estimates from the reports of one or more files.

    Attributes
    ----------
    path : str
        As the caller gave it.
    files : tuple of Path, Address or Partitioned
        The files that were read.
    whole : Whole
        The privacy metadata of the files.
    secure : bool
        Whether the noise of all files came from the operating system's randomness.
    rows : int
        Of all files together.
    confidence, target
        Of the intervals.
    columns : tuple of ColumnEstimate
        In the order of the files.
    """

    path: str
    files: tuple[InputFile, ...]
    whole: Whole
    secure: bool
    rows: int
    confidence: float
    target: str
    columns: tuple[ColumnEstimate, ...]

    @property
    def guarantee(self) -> str:
        """The guarantee in words, for a report or a publication."""
        return sentences(self.whole.epsilon, self.whole.delta, unit=self.whole.unit, local=True)

    def document(self) -> dict[str, Any]:
        """Return the document that `dpcore estimate` prints as JSON.

        Returns
        -------
        dict
            As JSON holds it, except for arrays.
        """
        return {
            "format": FORMAT,
            "version": __version__,
            "path": self.path,
            "files": len(self.files),
            "privacy": {"epsilon": self.whole.epsilon, "delta": self.whole.delta, "unit": self.whole.unit},
            "secure": self.secure,
            "rows": self.rows,
            "target": self.target,
            "columns": [column.document() for column in self.columns],
        }


def report_name(path: str) -> str:
    """Return the name of the report files about a path: its last part without wildcards, and "-estimate"."""
    last = Path(path).resolve().name if Path(path).is_dir() else Path(path).stem
    return (re.sub(r"[^\w.-]+", "", last).strip(".-_") or "reports") + "-estimate"


def estimate(
    path: str | Path,
    *,
    confidence: float = 0.95,
    target: str = "population",
    columns: Iterable[str] | None = None,
    threads: int | None = None,
    progress: Shown = None,
) -> Estimates:
    """Estimate means and shares from tables that `privatize` wrote.

    Parameters
    ----------
    path : str or Path
        A file, a folder or a glob; the rows of all files are taken together.
    confidence : float, default 0.95
        Coverage of each interval, in (0, 1).
    target : {"population", "sample"}, default "population"
        Whether intervals are for the population that the rows were drawn from, or for these rows.
    columns : iterable of str, optional
        Only these.
    threads : int, optional
        Threads that count; default: the CPUs this process may use.
    progress : callable or Progress, optional
        Called as `progress(done, total)` on the calling thread, a few times a second, in thousandths of each stage. An object with
        `begin(stage)` and `update(rows, fraction)` learns the stages as well.

    Returns
    -------
    Estimates
        For each column an unbiased estimate with its interval.

    Raises
    ------
    DataError
        If files have no metadata or damaged ones, hold no row, or hold a cell that is no report.
    JobError
        If files do not belong together, or a column holds no reports.
    StorageError
        If something cannot be read.

    Notes
    -----
    Guarantee: this spends nothing; results computed from private reports alone are as private as the reports.

    Cost: one pass over the columns of reports; memory does not depend on the number of rows.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import pyarrow as pa
    >>> import pyarrow.parquet as pq
    >>> from dpcore.batch import estimate, make_plan, parse_job, privatize
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
    ...     found = estimate(privatize(make_plan(parse_job(job))).plan.output)
    >>> found.columns[0].summary, found.rows
    ('share of true', 1000)
    """
    threads = default_threads() if threads is None else check_integer("threads", threads, low=1, high=4096)

    def count_here(inputs: Inputs, chosen: list[NoisyColumn]) -> Counted:
        shown = shown_by(progress)
        shown.begin("counting")
        return count(inputs, chosen, threads, shown)

    return estimate_with(count_here, path, confidence=confidence, target=target, columns=columns)


def estimate_with(
    counting: Callable[[Inputs, list[NoisyColumn]], Counted],
    path: str | Path,
    *,
    confidence: float,
    target: str,
    columns: Iterable[str] | None,
) -> Estimates:
    """Estimate from files whose reports an engine counts.

    Parameters
    ----------
    counting : callable
        Returns the aggregate of each column and the number of rows. Aggregates are exact, so it does not matter how they are added up.
    path, confidence, target, columns
        As of `estimate`.
    """
    confidence = check_real("confidence", confidence, low=0.0, high=1.0, include_low=False, include_high=False)
    check_choice("target", target, TARGETS)
    inputs = discover(str(path), key="PATH")
    described = describe(inputs)
    chosen = _chosen(described, columns)
    with tables_checked(described):
        counted, rows = counting(inputs, chosen)
    if rows == 0:
        raise DataError(f"{path}: no rows, so there is nothing to estimate from")
    found = (
        ColumnEstimate(
            column,
            column.mechanism.estimate(total, target=target),
            confidence,
            column.mechanism.unanswered(total, target=target) if column.skips else None,
        )
        for column, total in zip(chosen, counted, strict=True)
    )
    secure = all(file.whole.secure for file in described)
    return Estimates(str(path), inputs.paths, described[0].whole, secure, rows, confidence, target, tuple(found))


def _chosen(described: list[Described], names: Iterable[str] | None) -> list[NoisyColumn]:
    """The columns to estimate, checked against every file."""
    first = described[0]
    wanted = list(first.fields) if names is None else list(dict.fromkeys(names))
    for name in wanted:
        if name not in first.fields:
            raise JobError(_no_reports(first, name))
    textual = first.info.schema is None
    columns = [fitted(0, column_described(first, name), None, textual=textual) for name in wanted]
    for file in described:
        for column in columns:
            _check_types(file, column)
    return columns


def _no_reports(described: Described, name: str) -> str:
    if name in described.info.names:
        return f"{described.path}: column {name!r} was kept as it is: it holds no reports to estimate from"
    guess = suggestion(name, described.fields)
    return f"{described.path}: there are no reports named {name!r}.{guess} The columns of reports are: {', '.join(described.fields)}"


def _check_types(file: Described, column: NoisyColumn) -> None:
    """Raise unless the file has the columns that hold the reports, with types that they can have."""
    if file.info.types is None:
        found = {name: kind for name, kind in column.reports.types(column.name).items() if name in file.info.names}
    else:
        found = file.info.types
    wrong = column.reports.accepts(column.name, found)
    if wrong is None:
        return
    if wrong not in found:
        raise DataError(f"{file.path}: there is no column {wrong!r}, which the dpcore metadata of {column.name!r} call for")
    raise DataError(
        f"{file.path}: column {wrong!r} has type {found[wrong]}, but reports of {column.section.mechanism} with its metadata "
        f"have type {column.reports.types(column.name)[wrong]}"
    )


def count(inputs: Inputs, columns: list[NoisyColumn], threads: int, progress: Progress) -> Counted:
    """Count the reports of all files: the aggregate of each column, and the number of rows."""
    stored = [list(column.reports.types(column.name)) for column in columns]
    types = {name: kind for column in columns for name, kind in column.reports.types(column.name).items()}
    totals: list[local.Aggregate] = []
    rows, done = 0, 0.0

    def transform(part: Rows) -> tuple[list[local.Aggregate], float]:
        counted = []
        for column, names in zip(columns, stored, strict=True):
            try:
                counted.append(column.aggregate([part.batch.column(name) for name in names]))
            except CellError as error:
                path, row = part.place(error.row)
                raise DataError(
                    f"{path}: row {row} (counted from 0), column {column.name!r}: {error.problem}; "
                    "the file was changed after dpcore wrote it"
                ) from None
        return counted, part.done

    def add(result: tuple[list[local.Aggregate], float]) -> None:
        nonlocal rows, done
        counted, done = result
        totals[:] = [old + new for old, new in zip(totals, counted, strict=True)] if totals else counted
        rows = totals[0].n

    def tick() -> None:
        progress.update(rows, min(done, UNFINISHED))

    source = read_rows(inputs, types, Cut(piece_rows_for(types, is_counted=True), use_threads=threads > 1))
    Pipeline(source, transform, add, threads=threads).run(tick)
    for pool in (pa.default_memory_pool(), pa.system_memory_pool()):
        pool.release_unused()  # what pieces and counts of many categories have left with the allocators: estimates need room for themselves
    progress.update(rows, 1.0)
    return totals, rows
