"""Plans of release jobs: checked against the input's schema before any row is read."""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dpcore._dataclasses import dataclass
from dpcore.errors import JobError, ParameterError, ParameterTypeError
from dpcore.privacy import Privacy
from dpcore.query.composition import composed_by
from dpcore.query.derivations import derivations_of, mend
from dpcore.query.draws import QueryDraws
from dpcore.query.encoders import Categorical, Clamped
from dpcore.query.groups import ListedGroups
from dpcore.query.joins import JoinedTo, inputs_of, joined_in, joins_of, recipe_of, with_joined
from dpcore.query.kinds import kind_of
from dpcore.query.kinds.base import QueryContext
from dpcore.query.reads import Read, groups_of
from dpcore.query.request import ReleaseJob
from dpcore.query.sensitivity import Contribution
from dpcore.query.units_of_answers import in_steps
from dpcore.tables.checks import undeclared
from dpcore.tables.inputs import narrowest
from dpcore.tables.mistakes import Mistake, MistakesError
from dpcore.tables.output.charge import Spend
from dpcore.tables.output.spending import Spending
from dpcore.tables.plans import JobPlan, Schemas, with_values
from dpcore.tables.run_ids import plain
from dpcore.tables.sections import key_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dpcore._disk.addresses import Location
    from dpcore.query.commitments import Commitment
    from dpcore.query.encoders import Encoder
    from dpcore.query.estimators import Estimator
    from dpcore.query.groups import Grouping
    from dpcore.query.query_sections import Grouped, QuerySection
    from dpcore.query.reads import PrivateGrouping
    from dpcore.query.series import Series
    from dpcore.rng import Numbered
    from dpcore.tables.inputs import Inputs
    from dpcore.tables.sources import InputFile
    from dpcore.tables.sql.derivation import Derivations
    from dpcore.tables.units.row_random_bits import ByValue
    from dpcore.tables.units.unit_joins import UnitJoin
    from dpcore.tables.units.unit_rows import UnitRecipe


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleasePlan(JobPlan):
    """A checked release job: only its rows, its ledger or the system can stop it.

    Attributes
    ----------
    job : ReleaseJob
        The job file.
    inputs : Inputs
        The files.
    estimators : tuple of Estimator
        In the order of the job, which is the order of their nonces and of the output.
    read_types : dict
        Type of each column that is read.
    output : Path or Address
        The file to write.
    rows : int or None
        Rows of the input; None if they are not known before the input is read.
    unit_type : pyarrow.DataType or None
        Type of the column that holds the privacy unit; None if the unit is the row.
    grouping : Grouping or None
        The groups of the grouped queries, where they are all the same.
    publication : Spending
        The files that the job writes, and what its ledger is to pay.
    curator : bool
        Whether messages may say where in the input something is, outside the guarantee.
    derivations : Derivations or None
        Conditions, derived columns and look-ups; None if the job has none.
    positions : tuple of int or None
        Position of each query in the stream of a test key. Default: its position in the job.
    by_value : ByValue or None
        How units choose rows, groups and values by what rows hold, which they do under a key that is kept. None: by random words of
        positions.
    series : Series or None
        The series of runs of which this run makes a step.
    commitment : Commitment or None
        The committed key of a release that can be replayed.
    """

    job: ReleaseJob
    estimators: tuple[Estimator, ...]
    grouping: Grouping | PrivateGrouping | None
    derivations: Derivations | None
    positions: tuple[int, ...] | None = None
    by_value: ByValue | None = None
    series: Series | None = None
    commitment: Commitment | None = None

    @property
    def key(self) -> Numbered | None:
        """What all draws are made from: a committed key, or a test key; None is the secure source."""
        return _key(self.job, self.commitment)

    @property
    def recipe(self) -> UnitRecipe | None:
        """How the rows are made that its queries are about; None if these are those of the input."""
        return recipe_of(self.inputs)

    @property
    def source(self) -> Inputs:
        """The table whose rows are read."""
        made: Any = self.inputs
        found: Inputs = made if self.recipe is None else made.source
        return found

    @property
    def joins(self) -> list[UnitJoin]:
        """The private tables that are joined, each once."""
        return joined_in(self.recipe, self.derivations)

    @property
    def tables(self) -> list[Inputs]:
        """The private tables: the input, and those that are joined."""
        return [self.source, *(join.source for join in self.joins)]

    def with_joins(self, change: Callable[[UnitJoin], UnitJoin]) -> ReleasePlan:
        """The same plan with other tables.

        Parameters
        ----------
        change : callable
            Makes another table of one that is joined; it is called once for each.

        Returns
        -------
        ReleasePlan
            The plan with the tables that it made.
        """
        recipe, derivations = with_joined(self.recipe, self.derivations, change)
        made: Any = self.inputs
        return replace(self, inputs=made if recipe is None else replace(made, recipe=recipe), derivations=derivations)

    @property
    def reads_again(self) -> bool:
        """Whether more than one pass goes over the rows: the others choose rows of units, count units of keys, and find bounds."""
        return self.unit_type is not None or any(estimator.waits_for_keys or estimator.measure_of_bins for estimator in self.estimators)


def declared_reads(job: ReleaseJob) -> list[Read]:
    """How the queries read their columns; raises `JobError` if a row could end a job with a ledger."""
    reads = [read_of(position, query, job.privacy.unit) for position, query in enumerate(job.query)]
    _check_declared(job, reads)
    return reads


def planned(
    job: ReleaseJob,
    inputs: Inputs,
    reads: list[Read],
    output: Location,
    publication: Callable[[Spend], Spending],
    *,
    curator: bool = False,
    tables: Mapping[str, Inputs] | None = None,
    commitment: Commitment | None = None,
) -> ReleasePlan:
    """The plan of a job for an input: its schema is checked, and noise is calibrated; `publication` gets what that costs.

    `tables` are those that are joined, and public tables that are no files, by the paths that the job gives them.
    """
    found = _inspected(job, inputs, reads, curator=curator, tables=tables, key=_key(job, commitment))
    job, estimators = composed_by(job, found.answer_of)
    series = _series_of(job, estimators)
    published = publication(_spend(job, estimators, series, commitment))
    if series is not None:
        series.check(published)
    return ReleasePlan(
        job=job,
        inputs=found.schemas.inputs,
        estimators=estimators,
        read_types=found.schemas.read_types,
        output=output,
        rows=found.schemas.rows,
        unit_type=found.schemas.unit_type,
        grouping=next((read.groups for read in found.reads if read.groups is not None), None),
        publication=published,
        curator=curator,
        derivations=found.derivations,
        by_value=found.by_value,
        series=series,
        commitment=commitment,
    )


def _series_of(job: ReleaseJob, estimators: tuple[Estimator, ...]) -> Series | None:
    """The series of a job, if it has one; its query is then the only one."""
    if estimators[0].section.step_of_series is None:
        return None
    from dpcore.query.series import Series

    return Series(job, estimators[0])


def answers_of(
    job: ReleaseJob, inputs: Inputs | None, tables: Mapping[str, Inputs] | None = None
) -> tuple[ReleaseJob, Callable[[int, ReleaseJob], Estimator]]:
    """The job with the ε of each query, and what calibrates its answers for any ε; only schemas are read, and no place is looked at."""
    inputs, tables = inputs_of(job, inputs, tables)
    found = _inspected(job, inputs, declared_reads(job), curator=False, tables=tables, key=key_of(job.testing))
    return composed_by(job, found.answer_of)[0], found.answer_of


def _with_one_grouping(job: ReleaseJob, reads: list[Read]) -> list[Read]:
    """Let queries with the same groups share them, so that the group of a row is looked up once."""
    known: list[tuple[Grouped, Grouping | PrivateGrouping]] = []
    shared = []
    for query, read in zip(job.query, reads, strict=True):
        if query.grouping is None or read.groups is None:
            shared.append(read)
            continue
        same = next((groups for grouped, groups in known if grouped == query.grouping and groups.listed == read.groups.listed), read.groups)
        known.append((query.grouping, same))
        shared.append(replace(read, groups=same))
    return shared


@dataclass(slots=True)
class _Found:
    """The joint schema of all files, and how the queries read them."""

    reads: list[Read]
    schemas: Schemas
    integers: dict[str, bool] = field(default_factory=dict)
    derivations: Derivations | None = None
    by_value: ByValue | None = None

    def answer_of(self, position: int, job: ReleaseJob) -> Estimator:
        """The calibrated answer to a query, of this job or of one with other numbers."""
        return calibrated(position, job, self.reads[position], self.integers)

    @property
    def derived(self) -> dict[str, pa.DataType]:
        """Types of the columns that are not in the files."""
        return {} if self.derivations is None else self.derivations.types


def _key(job: ReleaseJob, commitment: Commitment | None) -> Numbered | None:
    return key_of(job.testing) if commitment is None else commitment.noise


def _inspected(
    job: ReleaseJob,
    inputs: Inputs,
    reads: list[Read],
    *,
    curator: bool,
    tables: Mapping[str, Inputs] | None = None,
    key: Numbered | None = None,
) -> _Found:
    unit = job.privacy.unit
    joins = joins_of(job.join, (), JoinedTo(inputs, unit, of_made_rows=False), curator=curator, tables=tables)
    if job.per_unit is not None:
        from dpcore.query.per_unit import unit_table

        own = job.privacy.null_rows_are_units
        inputs = unit_table(job, job.per_unit, inputs, unit, null_is_unit=own, curator=curator, tables=tables, joins=joins)
        made = JoinedTo(inputs, unit, of_made_rows=True)
        joins = joins_of(job.per_unit.join, ("per_unit",), made, curator=curator, tables=tables)
    schemas = Schemas(inputs, job.privacy.unit)
    asked = [name for read in reads for name, _ in read.columns()]
    place = () if job.per_unit is None else ("per_unit",)
    conditions = tuple(query.where for query in job.query)
    derivations = derivations_of(job.per_unit or job, place, conditions, inputs, asked, _grouped_by(job), tables, joins)
    found = _Found(reads, schemas, derivations=derivations)
    if any(query.nested is not None for query in job.query):
        from dpcore.query.nested_lookups import nested_reads

        reads = nested_reads(job.query, reads, found.derivations)
    named = [*(name for name in asked if name not in found.derived), *_sources(found.derivations)]
    inspected = list(schemas.inspected(named, curator=curator))
    infos = [info for _, info in inspected]
    fitting = with_values(infos, named)
    if key is not None and job.privacy.unit != "row":
        from dpcore.tables.units.row_random_bits import ByValue

        recipe = recipe_of(inputs)
        found.by_value = ByValue.keyed(key, infos if recipe is None else [recipe.chosen_by])
    found.reads = _with_one_grouping(job, [read.for_type(fitting, found.derived) for read in reads])
    for path, info in inspected:
        if path is inputs.paths[0]:
            schemas.read_types = {} if info.types is not None else dict.fromkeys(named, pa.binary())
        if info.types is not None:
            schemas.read_types |= {name: info.types[name] for name in named}
        _check_types(job, found, {**(info.types or {}), **found.derived}, path)
    if not schemas.read_types:
        schemas.read_types = _narrowest(job, inputs)
    return found


def _grouped_by(job: ReleaseJob) -> list[str]:
    """The columns that decide in how many groups a unit takes part."""
    if job.privacy.max_groups_per_unit is None or job.per_unit is not None:
        return []
    return [name for query in job.query if query.grouping is not None for name in query.grouping[0]]


def _sources(derivations: Derivations | None) -> list[str]:
    """The columns of the input that others are derived from."""
    return [] if derivations is None else [*derivations.choosing.reads, *derivations.adding.reads]


def _check_declared(job: ReleaseJob, reads: list[Read]) -> None:
    """Raise `JobError` if a row could end a job with a ledger."""
    for position, (query, read) in enumerate(zip(job.query, reads, strict=True)):
        for name, cells in read.columns():
            keys = cells.missing_keys()
            if keys and job.ledger is not None:
                raise undeclared(("query", position), f" ({query.name!r}, {query.kind})", keys, part=f"column {name!r}")


def _check_types(job: ReleaseJob, found: _Found, types: dict[str, pa.DataType], path: InputFile) -> None:
    for query, read in zip(job.query, found.reads, strict=True):
        for name, cells in read.columns():
            if name not in types:
                continue  # text of a format without types
            if not cells.accepts(types[name]):
                declared = " with these categories" if isinstance(cells, Categorical | ListedGroups) else ""
                asked = f"{query.name!r} ({query.kind}{declared})"
                if query.grouping is not None and name in query.grouping[0] and name != getattr(query, "column", None):
                    asked = f"group_by of {query.name!r}"
                where = "" if name in found.derived else f"{path}: "
                said = f"{where}column {name!r} has type {types[name]}, but {asked} takes {cells.wanted}"
                raise JobError(said + mend(name, types[name], cells, None if job.per_unit is None else job.per_unit.columns.get(name)))
            found.integers[name] = found.integers.get(name, True) and pa.types.is_integer(types[name])


def _narrowest(job: ReleaseJob, inputs: Inputs) -> dict[str, pa.DataType]:
    """Some column, for a job that only counts rows: readers hand over rows of columns."""
    info = inputs.inspect(inputs.paths[0])
    if job.privacy.unit == "row":
        return narrowest(inputs.paths[0], info)
    return {job.privacy.unit: pa.binary() if info.types is None else info.types[job.privacy.unit]}


def _spend(job: ReleaseJob, estimators: tuple[Estimator, ...], series: Series | None, commitment: Commitment | None) -> Spend:
    """(ε, δ) of the whole job, and for a ledger what it keeps: the ρ of each query if it is known, and what is asked."""
    count, committed = len(job.query), None if commitment is None else commitment.digest
    what = f"release of {count} quer{'ies' if count > 1 else 'y'} on {job.tables_in_words}"
    if job.ledger is None and series is None:
        return Spend(what, job.total, commitment=committed)
    from dpcore.tables.recorded import recorded

    guarantees = (Privacy(estimator.section.epsilon, estimator.section.delta, job.privacy.relation) for estimator in estimators)
    parts = (whole if estimator.rho is None else estimator.rho for estimator, whole in zip(estimators, guarantees, strict=True))
    asked = recorded(_asked(job, query) for query in job.query)
    words, step = (what, None) if series is None else (series.what, series.id)
    return Spend(words, job.total, tuple(parts), asked, step, committed)


def _asked(job: ReleaseJob, query: QuerySection) -> dict[str, Any]:
    """The public parameters of a query that a ledger keeps."""
    made = None if job.per_unit is None else job.per_unit.where
    conditions = [each for each in (job.where, made, query.where) if each is not None]
    by, groups = (None, None) if query.grouping is None else query.grouping
    return {
        "name": query.name,
        "kind": query.kind,
        "columns": list(query.column_names) or None,
        "where": " AND ".join(f"({each})" if len(conditions) > 1 else each for each in conditions) or None,
        "group_by": None if by is None else list(by),
        "groups": plain(groups, "query.groups"),
    }


def read_of(position: int, query: QuerySection, unit: str = "row") -> Read:
    """How a query reads its columns, and that of its groups, as far as the job says; one about whole units reads the unit first."""
    units: tuple[tuple[str, Encoder], ...] = ()
    if unit != "row" and query.is_about_units:
        from dpcore.query.whole_unit_queries import UnitCells

        units = ((unit, UnitCells()),)
    return Read((*units, *kind_of(query).columns(position, query)), groups_of(query))


def calibrated(position: int, job: ReleaseJob, read: Read, integers: Mapping[str, bool]) -> Estimator:
    """The answer to a query, with its noise; `integers` says which columns hold integers. What it refuses costs nothing."""
    query = job.query[position]
    try:
        stepped = in_steps(query, *_bounds(read))
        kind, asked = kind_of(query), QueryContext(job.privacy, read, contribution(job, stepped), integers)
        if query.nested is None:
            return kind.estimator(stepped, asked)
        from dpcore.query.nested_groups import NestedEstimator

        return NestedEstimator.calibrate(kind, stepped, asked)
    except JobError:
        raise
    except (ParameterError, ParameterTypeError) as error:
        raise MistakesError(Mistake(("query", position), str(error), about=f" ({query.name!r}, {query.kind})")) from None


def _bounds(read: Read) -> tuple[list[tuple[float, float]], list[float | None]]:
    """The bounds of the columns of numbers, and what stands for their nulls."""
    reals = [cells for _, cells in read.cells if isinstance(cells, Clamped)]
    return [each.bounds for each in reals], [each.missing for each in reals]


def contribution(job: ReleaseJob, query: QuerySection) -> Contribution:
    """Return how much one unit may contribute to what a query is asked about."""
    privacy = job.asked.privacy
    return Contribution(privacy.rows_per_unit, privacy.relation == "replace", job.knows_rows_of(query), privacy.max_groups_per_unit)


def stream_of(plan: ReleasePlan, place: int) -> QueryDraws | None:
    """The stream of a query; None is the secure source."""
    key = plan.key
    return None if key is None else QueryDraws(key, place if plan.positions is None else plan.positions[place])
