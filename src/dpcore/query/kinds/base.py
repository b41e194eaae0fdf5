"""What the engine asks of a kind of query; shared code knows this interface, and no kind."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from dpcore._dataclasses import dataclass
from dpcore.errors import ParameterError
from dpcore.query.fields import check_cells_of_groups
from dpcore.query.grids import EDGES
from dpcore.query.private_bounds import NUMBERS, PrivateBounds
from dpcore.query.prose import declared_parts, of_column, sentence_of
from dpcore.query.query_sections import skips
from dpcore.query.reads import PrivateGrouping

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dpcore.privacy import Relation
    from dpcore.query.encoders import Encoder
    from dpcore.query.estimators import Estimator
    from dpcore.query.methods import Method
    from dpcore.query.query_sections import QuerySection, ReleasePrivacy
    from dpcore.query.reads import Read
    from dpcore.query.rehearsal_columns import Seen
    from dpcore.query.sensitivity import Contribution

    Columns = tuple[tuple[str, Encoder], ...]
    Entry = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class QueryContext:
    """What a job, and the types of its columns, say about a query.

    Attributes
    ----------
    privacy : ReleasePrivacy
        What the job protects.
    read : Read
        How the query reads its columns, and the groups.
    bound : Contribution
        Of one unit.
    integers : mapping
        Which columns hold integers.
    """

    privacy: ReleasePrivacy
    read: Read
    bound: Contribution
    integers: Mapping[str, bool]

    @property
    def relation(self) -> Relation:
        """Which tables are neighbours."""
        return self.privacy.relation

    @property
    def groups(self) -> int:
        """Groups that are answered at most; 0 without groups."""
        return 0 if self.read.groups is None else self.read.groups.size

    @property
    def known_groups(self) -> int:
        """Groups whose number is known now: those that a pass finds are as many as have room."""
        return 1 if isinstance(self.read.groups, PrivateGrouping) else self.groups


class Kind(ABC):
    """A kind of query, or several that are answered alike; two of one class are equal."""

    names: ClassVar[tuple[str, ...]]
    """The words that job files have for it."""
    fields: ClassVar[tuple[type[QuerySection], ...]]
    """The keys of a query, for each of its names."""
    column_key: ClassVar[str] = "column"
    """Where a job says what it is about."""
    methods: ClassVar[tuple[Method, ...]] = ()
    """The methods of tables in Python that ask it: one for each of its names, or none."""
    asked_by: ClassVar[str | None] = None
    """What else asks it, for who looks for such a method."""
    picture: ClassVar[str] = "numbers"
    """Which picture a page draws of its answers: a key of `PICTURES`."""
    measured: ClassVar[str | None] = None
    """What is in the unit of measure of the column: `unit_of_measure` is that of the answer, `unit_of_bins` that of its bins."""
    has_labels: ClassVar[bool] = False
    """Whether answers are categories or names; numbers, if there are any, are the counts of these."""
    counts_rows: ClassVar[bool] = False
    """Whether the numbers are of rows."""
    is_between_bounds: ClassVar[bool] = False
    """Whether the answer lies between the bounds that a job declares."""
    may_be_free: ClassVar[bool] = False
    """Whether it may be asked without an ε."""
    names_groups: ClassVar[bool] = False
    """Whether its answer is the keys of groups."""

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))

    @abstractmethod
    def columns(self, position: int, query: Any) -> Columns:
        """The columns that the query at a place of a job reads, and how, before their types are known."""

    @abstractmethod
    def estimator(self, query: Any, asked: QueryContext) -> Estimator:
        """The estimator, with its noise."""

    def unclamped(self, query: Any, seen: Seen) -> Any:  # noqa: ARG002
        """The same query without what only privacy asks for: bounds that cut numbers off, and limits on what a unit adds.

        Rehearsals take its answer as the truth. Raises `NoTruthError` where there is none.
        """
        return query

    # What is said about an answer, given its entry in the document

    def subject(self, query: Entry) -> str:
        """What the numbers are of."""
        return f"{query['kind'].replace('_', ' ')} of {query['column']}"

    def question(self, query: Entry) -> str:
        """The question in words, but for groups and conditions."""
        return f"The {query['kind'].replace('_', ' ')}{of_column(query)}"

    def declared(self, query: Entry) -> str:
        """What the job declares about values, as sentences."""
        return sentence_of(declared_parts(query))

    def caveats(self, query: Entry) -> list[str]:  # noqa: ARG002
        """What a reader of the answer must know, as sentences."""
        return []

    def cut(self, query: Entry) -> str:  # noqa: ARG002
        """What the limits on rows and groups do to the answer, where that is not what they do to most."""
        return ""

    def uses_all_rows(self, query: Entry) -> bool:  # noqa: ARG002
        """Whether it bounds a unit's part by itself, so that no row is left out for it."""
        return False

    def behind(self, query: Entry) -> int | None:  # noqa: ARG002
        """Rows that a choice may be behind the best, at the confidence of the entry; None of answers that choose nothing."""
        return None

    def sureness(self, query: Entry) -> str | None:  # noqa: ARG002
        """How good a choice is, as a sentence; None of answers that choose nothing."""
        return None

    def limits(self, query: Entry) -> tuple[float, float] | None:
        """Between what the answer lies, where that is known and is two numbers."""
        lower, upper = query.get("lower"), query.get("upper")
        is_known = self.is_between_bounds and isinstance(lower, int | float) and isinstance(upper, int | float)
        return (float(query["lower"]), float(query["upper"])) if is_known else None

    def numbered(self, query: Entry) -> Entry:
        """The entry with numbers or labels as its value."""
        return query

    def heads(self, query: Entry) -> list[str]:  # noqa: ARG002
        """What each part of the answer to the whole table, or to a group, is."""
        return [""]

    def head(self, query: Entry) -> str:  # noqa: ARG002
        """What the parts are of."""
        return ""

    def keys(self, query: Entry) -> dict[str, list[Any]]:
        """What tells the numbers of one answer apart, as columns of a table."""
        return {"q": list(query["q"])} if isinstance(query.get("q"), list) else {}


class StatisticKind(Kind):
    """A kind whose statistic is that of the whole table, or of each group; its bounds may be found privately."""

    cells_are: ClassVar[str | None] = None
    """What a job calls the cells of one answer, if it has several."""
    numbers_of_answer: ClassVar[tuple[str, ...]] = NUMBERS
    """What the answer to a whole table consists of, which is unknown where no bounds are found."""

    def estimator(self, query: Any, asked: QueryContext) -> Estimator:
        """The estimator, of each group if there are any."""
        columns, bound, relation, groups = asked.read.cells, asked.bound, asked.relation, asked.groups
        found = getattr(query, "bounds", None) is not None
        make = functools.partial(PrivateBounds.calibrate, self) if found else self.calibrate
        estimator = make(query, columns, bound, relation, groups)
        if asked.read.groups is None:
            return estimator
        self.check_groups(query, estimator, asked.known_groups)
        return replace(estimator, grouping=asked.read.groups)

    @abstractmethod
    def calibrate(self, query: Any, columns: Columns, bound: Contribution, relation: Relation, groups: int) -> Estimator:
        """The estimator of the whole table, or of one of so many groups, with noise for all of them together."""

    def check_groups(self, query: Any, estimator: Estimator, groups: int) -> None:  # noqa: ARG002
        """Raise `ParameterError` if the answers to so many groups have too many cells."""
        if self.cells_are is not None:
            as_parameter(check_cells_of_groups, self.cells_are, estimator.fewest_cells, groups)

    def numbers(self, query: Any, columns: Columns) -> Columns:  # noqa: ARG002
        """How the numbers are read among which bounds are found."""
        return columns

    def between(self, query: Any, columns: Columns, low: int, high: int, groups: int) -> tuple[Any, Columns]:  # noqa: ARG002
        """The query between two ends of bins, for so many groups at most, and how it reads its columns."""
        bounds = EDGES[low], EDGES[high]
        (name, cells), *others = columns
        numbers: Any = cells
        return query.model_copy(update={"lower": bounds[0], "upper": bounds[1]}), ((name, replace(numbers, bounds=bounds)), *others)


class NumberKind(StatisticKind):
    """A kind whose statistic is one of clamped numbers."""

    def unclamped(self, query: Any, seen: Seen) -> Any:
        lower, upper = seen.bounds(query.column, query.lower, query.missing)
        without = {key: None for key in ("bounds", "bounds_epsilon") if hasattr(query, key)}
        return query.model_copy(update={"lower": lower, "upper": upper, **without})

    def estimator(self, query: Any, asked: QueryContext) -> Estimator:
        """The answer; where rows without a number are skipped, how many there are is private."""
        return super().estimator(query, replace(asked, bound=asked.bound.of_some_rows()) if skips(query) else asked)


def as_parameter(check: Any, *values: Any, **options: Any) -> None:
    """Run a check of fields on what a file has said; raises `ParameterError` for its `ValueError`."""
    try:
        check(*values, **options)
    except ValueError as error:
        raise ParameterError(str(error)) from None
