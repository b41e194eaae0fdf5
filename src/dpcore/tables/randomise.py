"""One column of a job, made ready: its mechanism, how its cells are read, and how its reports are stored."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dpcore import local
from dpcore._backend import HADAMARD_REPORT, HASHING_REPORT
from dpcore._dataclasses import dataclass
from dpcore.errors import DataError, JobError, ParameterError, ParameterTypeError
from dpcore.local._answered import AnsweredMean, AnsweredNumbers, AnsweredShares
from dpcore.tables.fields import SKIP
from dpcore.tables.mistakes import Mistake, MistakesError
from dpcore.tables.randomise_fields import (
    BinaryChannelColumn,
    BinaryColumn,
    BoundedMeanColumn,
    DiscreteGaussianColumn,
    DiscreteLaplaceColumn,
    GaussianColumn,
    HadamardColumn,
    HashingColumn,
    IntegerColumn,
    JobColumn,
    KaryColumn,
    LaplaceColumn,
    ProjectiveColumn,
    RealColumn,
    SubsetColumn,
    UnaryColumn,
)
from dpcore.tables.types.categories import INTEGER_TYPES, Categories, declared, value_type
from dpcore.tables.types.reports import (
    BitReports,
    BitsOrNone,
    CategoriesOrNone,
    CategoryReports,
    NumberReports,
    PackedReports,
    PairReports,
    Reports,
)
from dpcore.tables.types.values import (
    REAL_TYPES,
    AnswersOrNone,
    CellError,
    Codes,
    CodesOrNone,
    Numbers,
    NumbersOrNone,
    Values,
    YesOrNo,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    import numpy.typing as npt

    from dpcore.privacy import Privacy
    from dpcore.rng import Stream
    from dpcore.tables.randomise_fields import CategoricalColumn

    Mechanism = Any


MAX_DEVIATION = 1e150
"""Beyond it a variance leaves the range of float64."""


@dataclass(frozen=True, slots=True)
class NoisyColumn:
    """A column with everything its reports depend on.

    Attributes
    ----------
    section : JobColumn
        Its section of the job, or the metadata of its output.
    mechanism : object
        Of `dpcore.local`.
    categories : Categories or None
        The declared ones; None if it holds numbers or booleans.
    values : Values
        How cells are read.
    reports : Reports
        How reports are stored.
    """

    section: JobColumn
    mechanism: Mechanism
    categories: Categories | None
    values: Values
    reports: Reports

    @property
    def name(self) -> str:
        """Name of the column, in the input and the output."""
        return self.section.name

    @property
    def privacy(self) -> Privacy:
        """Guarantee of one cell."""
        return self.section.privacy

    @property
    def deviation(self) -> float:
        """About how far one row's contribution lies from the truth: over √n, it is about the standard error of an estimate.

        For categories it is that of the share whose error is largest.
        """
        return _deviation(self.mechanism)

    @property
    def skips(self) -> bool:
        """Whether estimates are about the rows that have a value, and whether one has it is protected as well."""
        return isinstance(self.mechanism, AnsweredMean | AnsweredNumbers | AnsweredShares)

    def privatize(self, cells: pa.Array, rng: Stream | None, suppressed: npt.NDArray[np.bool_] | None = None) -> list[pa.Array]:
        """Randomise every cell.

        Parameters
        ----------
        cells : pyarrow.Array of shape (n,)
            Of a type that `values` accepts, or bytes.
        rng : Stream or None
            None is the secure source.
        suppressed : ndarray of bool of shape (n,), optional
            Cells that are noised as if they were missing.

        Returns
        -------
        list of pyarrow.Array of shape (n,)
            The columns that `reports` names, without nulls.

        Raises
        ------
        CellError
            If a cell is missing or unknown and the job declares nothing for it.
        """
        if len(cells) == 0:
            return [pa.array([], kind) for kind in self.reports.types(self.name).values()]
        try:
            # One thread: the engine already runs one batch per core.
            reports = self.mechanism.privatize(self.values.read(cells, suppressed), rng=rng, threads=1)
        except CellError:
            raise
        except DataError as error:
            raise self.values.refused(cells) or error from None
        return self.reports.write(reports)

    def aggregate(self, arrays: list[pa.Array]) -> local.Aggregate:
        """Count the reports in a table.

        Parameters
        ----------
        arrays : list of pyarrow.Array of shape (n,)
            The columns that `reports` names, n ≥ 1.

        Raises
        ------
        CellError
            At the first cell that holds no report of the mechanism.
        """
        reports = self.reports.read(arrays)
        try:
            counted: local.Aggregate = self.mechanism.aggregate(reports, threads=1)
        except DataError:
            raise CellError(self._first_impossible(reports), "not a report that the mechanism can make") from None
        return counted

    def _first_impossible(self, reports: Any) -> int:
        """Position of the first report that cannot be counted, by halving."""
        start, stop = 0, len(reports)
        while stop - start > 1:
            middle = (start + stop) // 2
            try:
                self.mechanism.aggregate(reports[start:middle], threads=1)
                start = middle
            except DataError:
                stop = middle
        return start


def ready(position: int, section: JobColumn) -> NoisyColumn:
    """Make the mechanism of `section`, the `[[column]]` entry number `position`.

    Each record's cell is a separate query (local DP); `dpcore.local` calibrates its mechanisms for that.

    Raises
    ------
    JobError
        If the mechanism refuses ε, δ, the range or the categories.
    StorageError
        If a file of categories cannot be read.
    """
    return _for_job(position, section, lambda: column_of(section))


def fitted(position: int, column: NoisyColumn, dtype: pa.DataType | None, *, textual: bool) -> NoisyColumn:
    """Return the column for the types of a job's input and output.

    Parameters
    ----------
    position : int
        Number of the `[[column]]` entry.
    column : NoisyColumn
        From `ready`.
    dtype : pyarrow.DataType or None
        Type of the input column; None if the format has no types.
    textual : bool
        Whether the output's format has only text.

    Raises
    ------
    JobError
        If categories of a file do not fit.
    """
    categories = None if column.categories is None else column.categories.for_type(dtype)
    column = _for_job(position, column.section, lambda: _made(column.section, categories))
    reports = column.reports
    if isinstance(reports, CategoryReports) and dtype is not None and not reports.categories.are_text:
        reports = replace(reports, type=value_type(dtype))
    if isinstance(reports, PackedReports) and textual:
        reports = replace(reports, type=pa.string())
    if isinstance(reports, PairReports):
        reports = replace(reports, textual=textual)
    return replace(column, reports=reports)


def _for_job(position: int, section: JobColumn, make: Callable[[], NoisyColumn]) -> NoisyColumn:
    try:
        return make()
    except JobError:
        raise
    except (ParameterError, ParameterTypeError) as error:
        raise MistakesError(Mistake(("column", position), str(error), about=f" ({section.name!r}, {section.mechanism})")) from None


def column_of(section: JobColumn) -> NoisyColumn:
    """Return the column that a section describes, before the types of a table are known."""
    return _made(section, None if isinstance(section, RealColumn | IntegerColumn) else declared(section))


def _made(section: JobColumn, categories: Categories | None) -> NoisyColumn:
    column = _unchecked(section, categories)
    if not column.deviation <= MAX_DEVIATION:
        named = "the numbers in phi" if isinstance(section, BinaryChannelColumn) else "lower and upper"
        raise ParameterError(f"{named} are too far apart for estimates in float64")
    return column


def _unchecked(section: JobColumn, categories: Categories | None) -> NoisyColumn:
    if _skips(section, categories):
        return _of_some(section, categories)
    if isinstance(section, RealColumn | IntegerColumn):
        text = pa.int64() if isinstance(section, IntegerColumn) else pa.float64()
        types = INTEGER_TYPES if isinstance(section, IntegerColumn) else REAL_TYPES
        values = Numbers(types, isinstance(section, IntegerColumn), (section.lower, section.upper), _number_for_missing(section))
        stored = BitReports(pa.bool_()) if isinstance(section, BoundedMeanColumn) else NumberReports(text)
        return NoisyColumn(section, _of_numbers(section), None, values, stored)
    if isinstance(section, BinaryColumn):
        return _of_answers(section, categories)
    if categories is None:
        raise AssertionError(f"{section.mechanism} has no categories")
    return _of_categories(section, categories)


def _number_for_missing(section: RealColumn | IntegerColumn) -> Any:
    """The number that stands for missing ones; None if none does."""
    return None if section.missing == SKIP else section.missing


def _of_numbers(section: RealColumn | IntegerColumn) -> Mechanism:
    epsilon, lower, upper, missing = section.epsilon, section.lower, section.upper, _number_for_missing(section)
    match section:
        case LaplaceColumn():
            return local.LocalLaplace(epsilon, lower, upper, missing=missing)
        case GaussianColumn():
            return local.LocalGaussian(epsilon, section.delta, lower, upper, missing=missing)
        case DiscreteLaplaceColumn():
            return local.LocalDiscreteLaplace(epsilon, section.lower, section.upper, missing=missing)
        case DiscreteGaussianColumn():
            return local.LocalDiscreteGaussian(epsilon, section.delta, section.lower, section.upper, missing=missing)
        case _:
            return local.BoundedMean(epsilon, lower, upper, missing=missing)


def _of_answers(section: BinaryColumn, categories: Categories | None) -> NoisyColumn:
    if categories is None:
        missing, unknown = (None if each is None else bool(each) for each in (section.missing, section.unknown))
        values: Values = YesOrNo(missing, unknown)
    else:
        codes = Codes(categories, _code(categories, "missing", section.missing), _code(categories, "unknown", section.unknown))
        values, unknown = codes, None if codes.unknown is None else bool(codes.unknown)
    mechanism = local.BinaryResponse(section.epsilon, unknown=unknown)
    return NoisyColumn(section, mechanism, categories, values, BitReports(pa.bool_()))


def _skips(section: JobColumn, categories: Categories | None) -> bool:
    """Whether cells without a value are no value. A category may be called "skip"."""
    return section.missing == SKIP and (categories is None or categories.code(SKIP) is None)


def _of_some(section: JobColumn, categories: Categories | None) -> NoisyColumn:
    """The column of a job with `missing = "skip"`: docs/exactness-local.md, "Records without an answer"."""
    epsilon = section.epsilon
    if isinstance(section, BoundedMeanColumn):
        mean = AnsweredMean(epsilon, section.lower, section.upper)
        numbers = NumbersOrNone(REAL_TYPES, False, (mean.lower, mean.upper), mean.lower)  # noqa: FBT003
        return NoisyColumn(section, mean, None, numbers, BitsOrNone(pa.bool_()))
    if isinstance(section, RealColumn | IntegerColumn):
        noisy = AnsweredNumbers(_of_numbers(section))
        is_integer = isinstance(section, IntegerColumn)
        numbers = NumbersOrNone(INTEGER_TYPES if is_integer else REAL_TYPES, is_integer, (section.lower, section.upper), noisy.middle)
        return NoisyColumn(section, noisy, None, numbers, PairReports(noisy.dtype, textual=False))
    if isinstance(section, BinaryColumn):
        unknown = (
            None if section.unknown is None else section.unknown if categories is None else _code(categories, "unknown", section.unknown)
        )
        values: Values = AnswersOrNone(False, None if unknown is None else bool(unknown))  # noqa: FBT003
        if categories is not None:
            values = CodesOrNone(categories, 0, None if unknown is None else int(unknown), (0.0, 1.0))
        return NoisyColumn(section, AnsweredMean(epsilon, 0.0, 1.0), categories, values, BitsOrNone(pa.bool_()))
    if categories is None:
        raise AssertionError(f"{section.mechanism} has no categories")
    unknown_code = _code(categories, "unknown", section.unknown)
    if isinstance(section, BinaryChannelColumn):
        _check_phi(section, categories)
        if min(section.phi) == max(section.phi):
            raise ParameterError(f"phi must have two different numbers with missing = {SKIP!r}, got {section.phi[0]!r} alone")
        codes = CodesOrNone(categories, 0, unknown_code, tuple(section.phi))
        return NoisyColumn(section, AnsweredMean(epsilon, min(section.phi), max(section.phi)), categories, codes, BitsOrNone(pa.bool_()))
    oracle, stored = _oracle(section, categories, categories.k + 1, None)
    if isinstance(stored, CategoryReports):
        if categories.are_text and categories.code("") is not None:
            raise ParameterError(
                f"categories must not have the empty text with missing = {SKIP!r}: an empty cell is the report of no answer"
            )
        stored = CategoriesOrNone(stored.type, categories)
    return NoisyColumn(section, AnsweredShares(oracle), categories, CodesOrNone(categories, 0, unknown_code), stored)


def _check_phi(section: BinaryChannelColumn, categories: Categories) -> None:
    if len(section.phi) != categories.k:
        raise ParameterError(f"phi must have one number for each category: {len(section.phi)} for {categories.k} categories")


def _of_categories(section: Any, categories: Categories) -> NoisyColumn:
    missing, unknown = _code(categories, "missing", section.missing), _code(categories, "unknown", section.unknown)
    mechanism: Mechanism
    stored: Reports
    if isinstance(section, BinaryChannelColumn):
        _check_phi(section, categories)
        mechanism, stored = local.BinaryChannel(section.epsilon, tuple(section.phi), unknown=unknown), BitReports(pa.bool_())
    else:
        mechanism, stored = _oracle(section, categories, categories.k, unknown)
    return NoisyColumn(section, mechanism, categories, Codes(categories, missing, unknown), stored)


def _oracle(section: CategoricalColumn, categories: Categories, k: int, unknown: int | None) -> tuple[Mechanism, Reports]:
    """The mechanism for so many categories, and how its reports are stored."""
    epsilon = section.epsilon
    match section:
        case KaryColumn():
            return local.KaryResponse(epsilon, k=k, unknown=unknown), CategoryReports(categories.type, categories)
        case UnaryColumn():
            return local.UnaryEncoding(epsilon, k=k, method=section.method, unknown=unknown), _packed(k)
        case SubsetColumn():
            return local.SubsetSelection(epsilon, k=k, unknown=unknown), _packed(k)
        case HashingColumn():
            return local.LocalHashing(epsilon, k=k, unknown=unknown), PairReports(HASHING_REPORT, textual=False)
        case HadamardColumn():
            return local.HadamardResponse(epsilon, k=k, unknown=unknown), PairReports(HADAMARD_REPORT, textual=False)
        case ProjectiveColumn():
            return local.ProjectiveGeometryResponse(epsilon, k=k, unknown=unknown), NumberReports(pa.uint32())
        case _:
            raise AssertionError(section.mechanism)


def _code(categories: Categories, key: str, category: object) -> int | None:
    """Code of the category that stands for something."""
    if category is None or categories.path is not None:  # whether a file holds texts or integers is not known yet
        return None
    code = categories.code(category)
    if code is None:
        raise ParameterError(f"{key} must be one of the categories, got {category!r}")
    return code


def _packed(k: int) -> PackedReports:
    width = (k + 7) // 8
    return PackedReports(pa.binary(width), width)


def _deviation(mechanism: Mechanism) -> float:
    match mechanism:
        case AnsweredNumbers():
            return _deviation(mechanism.noise)
        case AnsweredMean():
            return math.sqrt(mechanism.variance())
        case local.LocalLaplace() | local.LocalGaussian() | local.LocalDiscreteLaplace() | local.LocalDiscreteGaussian():
            return mechanism.scale if mechanism.scale > MAX_DEVIATION else math.sqrt(mechanism.noise_variance)
        case local.BoundedMean():
            return (mechanism.upper - mechanism.lower) / 2 * mechanism.z0
        case local.BinaryChannel():
            return mechanism.z0
        case AnsweredShares():
            return _deviation(mechanism.oracle)
        case _:
            p, q, _ = mechanism.support
            hardest = min(max((0.5 - q) / (p - q), 0.0), 1.0)  # the share of which about half of all reports speak
            return math.sqrt(mechanism.variance(hardest, target="population"))
