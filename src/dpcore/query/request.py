"""The schema of a release job: central privacy, one noisy answer for each `[[query]]`."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self, TypeAlias

from pydantic import Field, PrivateAttr, model_validator

from dpcore._guarantee import sentences
from dpcore._version import __version__
from dpcore.privacy import Privacy, composed
from dpcore.query.group_fields import PRIVATE
from dpcore.query.kinds import QUERY_SECTIONS
from dpcore.query.noise import shares_of
from dpcore.query.query_sections import MAX_QUERIES, Accounting, QuerySection, ReleasePrivacy
from dpcore.query.units_of_answers import ColumnLabel, check_labels, named_columns
from dpcore.tables.budget import refuse_overspending
from dpcore.tables.fields import Name, Section, apart, elsewhere, no_entries, no_names, tagged
from dpcore.tables.mistakes import Entries, PlacedError, checked
from dpcore.tables.run_ids import plain
from dpcore.tables.sections import MAX_DERIVED, MAX_JOINS, MAX_LOOKUPS, DeriveSection, ExpressionText, JobTables, LookupSection

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dpcore.query.query_sections import Grouped
    from dpcore.query.unit_sections import JoinSection as JoinSection  # noqa: PLC0414
    from dpcore.query.unit_sections import MadeSection as MadeSection  # noqa: PLC0414
    from dpcore.query.unit_sections import PerUnitSection as PerUnitSection  # noqa: PLC0414

    Join: TypeAlias = JoinSection
    PerUnit: TypeAlias = PerUnitSection
else:
    Join, PerUnit = (Annotated[Any, elsewhere("dpcore.query.unit_sections", f"{name}Section")] for name in ("Join", "PerUnit"))

__all__ = ["ENTRIES", "MAX_QUERIES", "Accounting", "QuerySection", "ReleaseJob", "checked_job", "unused_in_words", "within_budget"]

ENTRIES = Entries("query", "kind", QUERY_SECTIONS)
FORMAT = 1
"""Format of the document that a release writes."""


class ReleaseOutput(Section):
    """`[output]`: where the answers go, as JSON."""

    path: Name


class ReleaseJob(JobTables):
    """A whole release job.

    Attributes
    ----------
    version : int
        1.
    input, output, privacy : InputSection, ReleaseOutput, ReleasePrivacy
        The tables of the same names.
    ledger : LedgerSection or None
        The ledger that pays; without one only `[privacy]` limits the job.
    testing : TestingSection or None
        Present in jobs whose noise must be repeatable; their output is not private.
    where : str or None
        A condition on rows: all others are not there.
    join : list of JoinSection
        The `[[join]]` entries: private tables of the same units, whose columns are joined before anything is looked up.
    lookup : list of LookupSection
        The `[[lookup]]` entries.
    derive : list of DeriveSection
        The `[[derive]]` entries, each of which may use those before.
    query : list of QuerySection
        The `[[query]]` entries, at least one.
    column : list of ColumnLabel
        The `[[column]]` entries: labels and units of measure for readers.
    per_unit : PerUnitSection or None
        What is made of the rows of each unit: queries are then asked about these rows.
    """

    WORD: ClassVar[str] = "ReleaseJob"

    output: ReleaseOutput
    privacy: ReleasePrivacy
    column: list[Annotated[ColumnLabel, apart(ColumnLabel)]] = Field(default_factory=no_entries)
    where: ExpressionText | None = None
    join: list[Join] = Field(default_factory=no_entries, max_length=MAX_JOINS)
    lookup: list[Annotated[LookupSection, apart(LookupSection)]] = Field(default_factory=no_entries, max_length=MAX_LOOKUPS)
    derive: list[Annotated[DeriveSection, apart(DeriveSection)]] = Field(default_factory=no_entries, max_length=MAX_DERIVED)
    per_unit: PerUnit | None = None
    query: list[Annotated[QuerySection, tagged("kind", QUERY_SECTIONS)]] = Field(min_length=1, max_length=MAX_QUERIES)
    _total: Privacy | None = PrivateAttr(None)
    _details: dict[str, Any] = PrivateAttr(default_factory=no_names)

    @model_validator(mode="after")
    def _names_are_distinct(self) -> Self:
        for name, times in Counter(query.name for query in self.query).items():
            if times > 1:
                raise ValueError(f"query: {times} [[query]] entries are named {name!r}; give each a different name")
        return self

    @model_validator(mode="after")
    def _a_series_is_alone(self) -> Self:
        for query in self.query:
            if query.step_of_series is not None and len(self.query) > 1:
                raise ValueError(
                    f"query: {query.name!r} ({query.kind}) must be the only [[query]] of its job, because a run that is repeated publishes "
                    "what is stored, and would draw the others again; give the others a job of their own"
                )
            if query.step_of_series is not None and query.step_of_series.claimed is None and self.joined:
                raise ValueError(
                    f"query: {query.name!r} ({query.kind}) needs max_steps_per_unit in a job that joins another table: what that has of a "
                    "unit counts in every step in which the unit has rows, and without the key one step of a unit is protected"
                )
        return self

    @model_validator(mode="after")
    def _rows_are_made_of_units(self) -> Self:
        made, privacy = self.per_unit, self.privacy
        if made is None:
            return self
        if privacy.unit == "row":
            raise PlacedError("per_unit", text="needs privacy.unit, the column that says whose row it is")
        if privacy.max_rows_per_unit is not None:
            text = "max_rows_per_unit is for jobs without [per_unit], whose rows are made of all rows of a unit; leave it out"
            raise PlacedError("privacy", "max_rows_per_unit", text=text)
        if (made.by is None) != (privacy.max_groups_per_unit is None):
            text = (
                "is required with per_unit.by: of how many keys a unit has a row at most"
                if made.by
                else "is for [per_unit] with by = [...]"
            )
            raise PlacedError("privacy", "max_groups_per_unit", text=text)
        return self

    @property
    def joined(self) -> list[JoinSection]:
        """All tables that are joined."""
        return [*self.join, *([] if self.per_unit is None else self.per_unit.join)]

    @property
    def tables_in_words(self) -> str:
        """The private tables that it reads, for a ledger."""
        joined = ", ".join(section.path for section in self.joined)
        return f"{self.input.path}, joined with {joined}" if joined else self.input.path

    @model_validator(mode="after")
    def _joined_tables_are_of_the_same_units(self) -> Self:
        for section in self.joined:
            if self.privacy.unit == "row":
                raise PlacedError("join", text="needs privacy.unit, the column that says whose row it is: private tables are joined by it")
            if self.ledger is not None and section.dataset not in {None, self.input.dataset}:
                text = (
                    f"{section.path!r} has dataset = {section.dataset!r}, and the input {self.input.dataset!r}: a ledger has one name for "
                    "all tables of a set, which are protected together; give it in [input], and leave this one out"
                )
                raise PlacedError("join", text=text)
        return self

    @property
    def asked(self) -> Self:
        """The job as its queries see it, on the rows that are made of units: with their bounds, and what is derived of them."""
        made = self.per_unit
        if made is None:
            return self
        privacy = self.privacy.model_copy(update={"max_rows_per_unit": self.privacy.max_groups_per_unit or 1, "max_groups_per_unit": None})
        stage = {"join": made.join, "lookup": made.lookup, "derive": made.derive, "where": made.where}
        return self.model_copy(update={"privacy": privacy, **stage})

    @model_validator(mode="after")
    def _each_query_bounds_units(self) -> Self:
        for query in self.query:
            try:
                query.check_unit(self.privacy.unit)
            except ValueError as error:
                raise PlacedError(text=str(error), about=f"query {query.name!r}") from None
        if self.chooses_rows and self.per_unit is None:
            try:
                self.privacy.check_rows_are_bounded()
            except ValueError as error:
                raise PlacedError("privacy", text=str(error)) from None
        return self

    @model_validator(mode="after")
    def _what_is_not_free_has_a_cost(self) -> Self:
        for position, query in enumerate(self.query):
            if not query.has_cost and not self.is_free(query):
                said = "the number of all rows is public, and its count free, only with unit = 'row', relation = 'replace' and no condition"
                text = f"epsilon, or in its place weight, is required for {query.name!r}: {said}"
                raise PlacedError("query", position, "epsilon", text=text)
        return self

    @property
    def unused(self) -> dict[str, str]:
        """What was given for answers that cost nothing, by the name of the query, in words."""
        return {
            query.name: f"epsilon = {query.epsilon!r}" if query.weight is None else f"weight = {query.weight!r}"
            for query in self.query
            if query.has_cost and self.is_free(query)
        }

    @property
    def chooses_rows(self) -> bool:
        """Whether some query is about at most so many rows of each unit."""
        is_one = self.per_unit is not None and self.per_unit.by is None
        return self.privacy.unit != "row" and not is_one and not all(query.bounds_units for query in self.query)

    @model_validator(mode="after")
    def _labels_are_of_columns(self) -> Self:
        check_labels(self.column, named_columns(self.query))
        return self

    @model_validator(mode="after")
    def _groups_of_a_unit_are_one_column(self) -> Self:
        if self.privacy.max_groups_per_unit is not None and self.per_unit is None and len(self._groupings) != 1:
            found = "no [[query]] has one" if not self._groupings else "there are several"
            raise ValueError(f"privacy.max_groups_per_unit needs one group_by with the same groups in all grouped queries, but {found}")
        return self

    @model_validator(mode="after")
    def _losses_are_composed_without_a_ledger(self) -> Self:
        if self.privacy.accounting == "pld" and self.ledger is not None:
            raise ValueError(
                "privacy.accounting = 'pld' is for jobs without a [ledger], which adds up epsilon or rho; use 'zcdp', or remove the ledger"
            )
        return self

    @model_validator(mode="after")
    def _private_groups_are_selected_once(self) -> Self:
        selected = Counter(query.grouping[0] for query in self.query if query.selects_groups and query.grouping is not None)
        for columns, times in selected.items():
            if times > 1:
                raise ValueError(
                    f'query: {times} of kind = "groups" have group_by = {_listed(columns)}; one is enough for all other queries'
                )
        for position, query in enumerate(self.query):
            if query.grouping is not None and query.grouping[1] == PRIVATE and query.grouping[0] not in selected:
                needed = f'a [[query]] of kind = "groups" with group_by = {_listed(query.grouping[0])}'
                text = f'groups = "private" needs {needed}, whose epsilon and delta pay for the names of the groups'
                raise PlacedError("query", position, "groups", text=text)
        return self

    @property
    def _groupings(self) -> list[Grouped]:
        """The different groups of the grouped queries."""
        found: list[Grouped] = []
        for query in self.query:
            if query.grouping is not None and query.grouping not in found:
                found.append(query.grouping)
        return found

    @property
    def n_is_public(self) -> bool:
        """Whether neighbouring tables have equally many rows, so that their number needs no noise: after a filter they may not."""
        return self.privacy.unit == "row" and self.privacy.relation == "replace" and self.where is None

    def knows_rows_of(self, query: QuerySection) -> bool:
        """Return whether neighbouring tables have equally many rows that a query is asked about.

        Parameters
        ----------
        query : QuerySection
            One of the job's queries.

        Returns
        -------
        bool
            False after any condition.
        """
        return self.n_is_public and query.where is None

    def spent_on(self, query: QuerySection) -> Privacy:
        """Return the privacy that a query spends.

        Parameters
        ----------
        query : QuerySection
            One of the job's queries.

        Returns
        -------
        Privacy
            Nothing for a count of all rows whose number is public; otherwise the query's ε and δ.
        """
        return Privacy(0.0) if self.is_free(query) else query.privacy

    def is_free(self, query: QuerySection) -> bool:
        """Return whether a query costs nothing: the number of all rows, where it is public.

        Parameters
        ----------
        query : QuerySection
            One of the job's queries.

        Returns
        -------
        bool
            Whether it does.
        """
        return self.knows_rows_of(query) and query.may_be_free

    @property
    def total(self) -> Privacy:
        """Privacy of the whole job: each query's ε already covers a whole unit.

        Under basic accounting the sum over the queries. Under any other it is known with the noise of the answers, and until then it is
        what the job may spend at most.
        """
        if self._total is not None:
            return self._total
        if self.privacy.accounting != "basic":
            return Privacy(self.privacy.max_epsilon, self.privacy.max_delta, self.privacy.relation)
        return composed((self.spent_on(query) for query in self.query), relation=self.privacy.relation)

    @property
    def guarantee(self) -> str:
        """The guarantee in words, for a report or a publication."""
        total, rho = self.total, self.head().get("accounting", {}).get("rho")
        return sentences(total.epsilon, total.delta, relation=total.relation, unit=self.privacy.protected, rho=rho)

    @property
    def weights(self) -> dict[int, float]:
        """Weights of the queries that have one and cost something, by their place."""
        return {place: query.weight for place, query in enumerate(self.query) if query.weight is not None and not self.is_free(query)}

    def with_shares(self) -> Self:
        """Return a job under basic accounting with the ε of each query; what the queries with a weight get is rounded down.

        Returns
        -------
        ReleaseJob
            The same job, if no query has a weight or the accounting is another one.

        Raises
        ------
        BudgetError
            If the queries with an ε leave nothing.
        """
        weights = self.weights
        if not weights or self.privacy.accounting != "basic":
            return self
        spent = [self.spent_on(query).epsilon for place, query in enumerate(self.query) if place not in weights]
        return self.with_epsilons(shares_of(self.privacy.max_epsilon, spent, weights))

    def with_epsilons(self, epsilons: Mapping[int, float]) -> Self:
        """Return the same job with another ε of some queries.

        Parameters
        ----------
        epsilons : mapping of int to float
            The ε by the place of the query.

        Returns
        -------
        ReleaseJob
            A job whose other queries are the same.
        """
        queries = [
            query.model_copy(update={"epsilon": epsilons[place]}) if place in epsilons else query for place, query in enumerate(self.query)
        ]
        return self.model_copy(update={"query": queries})

    def composed_as(self, total: Privacy, details: Mapping[str, Any]) -> Self:
        """Return the same job with the privacy of all its answers together.

        Parameters
        ----------
        total : Privacy
            At most the limits of the job.
        details : mapping
            How it came about, for the document.

        Returns
        -------
        ReleaseJob
            A job with this `total`.
        """
        return self.model_copy()._settle(total, dict(details))  # noqa: SLF001  # of this class

    def _settle(self, total: Privacy, details: dict[str, Any]) -> Self:
        self._total, self._details = total, details
        return self

    @property
    def names_of_whole(self) -> list[str]:
        """Names of the queries for which no row of a unit is left out: each bounds the part of a unit by itself."""
        return [query.name for query in self.query if query.bounds_units]

    def head(self) -> dict[str, Any]:
        """Return the part of the document about the whole job.

        Returns
        -------
        dict
            Version, unit, relation and total privacy.
        """
        privacy = self.privacy
        bounds = {"max_rows_per_unit": privacy.max_rows_per_unit, "max_groups_per_unit": privacy.max_groups_per_unit}
        return {
            "format": FORMAT,
            "version": __version__,
            "secure": self.secure,
            "unit": privacy.protected,
            "relation": privacy.relation,
            "privacy": {"epsilon": self.total.epsilon, "delta": self.total.delta},
            **{key: bound for key, bound in bounds.items() if bound is not None},
            **({"columns": [column.document() for column in self.column]} if self.column else {}),
            **self._series(),
            **({} if privacy.accounting == "basic" else {"accounting": {"method": privacy.accounting, **self._details}}),
            **self._derived(),
        }

    @property
    def is_paid_once(self) -> bool:
        """Whether its runs are steps of one series, which is paid for as a whole."""
        return self.query[0].step_of_series is not None

    def _series(self) -> dict[str, Any]:
        """The series that the budget pays for as a whole, if there is one."""
        step = self.query[0].step_of_series
        return {} if step is None else {"series": {"steps": step.steps, "max_steps_per_unit": step.claimed}}

    def _derived(self) -> dict[str, Any]:
        """The sections about derived columns and rows, as far as they are there."""
        said = {
            "where": self.where,
            "join": [plain(each, "join") for each in self.join],
            "lookup": [each.model_dump() for each in self.lookup],
            "derive": [each.model_dump() for each in self.derive],
            "per_unit": None if self.per_unit is None else plain(self.per_unit, "per_unit"),
        }
        return {key: value for key, value in said.items() if value}


def unused_in_words(job: ReleaseJob) -> list[str]:
    """A warning for each ε or weight that was given for an answer without noise."""
    return [
        f"{given} of {name!r} is not used: the number of all rows is public with unit = 'row' and relation = 'replace', so the answer is "
        f"exact and costs nothing. Leave it out, or protect the number of rows by relation = 'add_remove'"
        for name, given in job.unused.items()
    ]


def _listed(names: tuple[str, ...]) -> str:
    """`group_by` as a job has it."""
    return repr(names[0]) if len(names) == 1 else repr(list(names))


def check_budget(job: ReleaseJob) -> None:
    """Raise `BudgetError` if the queries together spend more than `[privacy]` allows, as far as their ε and δ tell."""
    if job.privacy.accounting != "basic":
        return  # what they spend is known with their noise
    spends = [(query.name, job.spent_on(query)) for query in job.query]
    refuse_overspending(job.total, job.privacy, spends, "queries")


def checked_job(document: object) -> ReleaseJob:
    """The job that a document describes, as `tomllib` gives it; raises `MistakesError` or `BudgetError`."""
    return within_budget(checked(ReleaseJob, document, ENTRIES))


def within_budget(job: ReleaseJob) -> ReleaseJob:
    """The job with the ε of each query; raises `BudgetError` if they spend more than `[privacy]` allows."""
    job = job.with_shares()
    check_budget(job)
    return job
