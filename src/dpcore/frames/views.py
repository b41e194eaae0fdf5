"""Tables that can be filtered, derived from and grouped; others answer their queries."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, Self

from dpcore.errors import ParameterError, ParameterTypeError
from dpcore.frames._methods import Methods
from dpcore.frames.asking import entry_of, labels
from dpcore.frames.calls import OF_GROUPED, WORDS, no_attribute, not_indexed
from dpcore.frames.found_groups import share_of
from dpcore.frames.question import FoundGroups, Question, View
from dpcore.frames.signatures import Described
from dpcore.frames.sources import is_frame, records_of, source_of
from dpcore.query.kinds import METHODS

if TYPE_CHECKING:
    from dpcore.frames.results import TablePlan, TableResult
    from dpcore.planning import Plan
    from dpcore.query.methods import Listed, Points
    from dpcore.query.planning import Asked, Assumed, Found, Planned

    Groups = Listed | Points | Mapping[str, Listed | Points] | str


class Answering(Methods, ABC):
    """A view whose queries are answered, or collected."""

    _view: View

    @abstractmethod
    def _answer(self, question: Question) -> TableResult:
        """The answer to a question, or the handle of one."""

    @abstractmethod
    def _plan(self, question: Question) -> TablePlan:
        """The plan of a question."""

    @abstractmethod
    def _planned(self, question: Question, assumed: Assumed, asked: Asked[Found]) -> Found:
        """What is asked about the planning of a question."""

    def _asked(self, entry: dict[str, Any]) -> TableResult:
        return self._answer(Question(self._view, entry))

    def plan(self, kind: str, column: str | Sequence[str] | None = None, **keys: Any) -> TablePlan:
        """Plan a query without asking it: nothing is read but the schema, nothing is written, and nothing is spent.

        Parameters
        ----------
        kind : str
            Name of the method that would ask it, such as "mean".
        column : str or sequence of str, optional
            Its column, or columns.
        **keys : object
            The other arguments of the method.

        Returns
        -------
        TablePlan
            Noise, standard error and guarantee.

        Raises
        ------
        ParameterError, JobError, BudgetError
            As the query would.
        """
        return self._plan(self._question(kind, column, keys))

    def epsilon_for(
        self,
        kind: str,
        column: str | Sequence[str] | None = None,
        *,
        half_width: float | None = None,
        relative: tuple[float, float] | None = None,
        confidence: float = 0.95,
        cells: int | Literal["all"] = 1,
        assume: Mapping[str, float] | None = None,
        **keys: Any,
    ) -> Planned:
        """Find the least ε with which an answer is exact enough: nothing is read but the schema, and nothing is spent.

        Parameters
        ----------
        kind : str
            Name of the method that would ask it, such as "count".
        column : str or sequence of str, optional
            Its column, or columns.
        half_width : float, optional
            How far each number may be off; for quantiles, `top` and `mode` a number of rows.
        relative : tuple of two floats, optional
            In its place, a share and an answer that is assumed: (0.05, 400) is 5 % of 400.
        confidence : float, default 0.95
            With which probability, in (0, 1).
        cells : int or "all", default 1
            For how many numbers at once; "all" are those of all groups and cells.
        assume : mapping, optional
            What the error depends on besides: `n`, the rows of the table or of each group, `mean` and `variance` of the column. Take them
            from what you know about the subject: taken from the data they are a leak.
        **keys : object
            The other arguments of the method, but for its ε and confidence.

        Returns
        -------
        Planned
            `epsilon`, the least number of three digits that meets it, and `half_width` with it. Where half of it names the groups, as for
            the first question about private groups without an ε of their own, it is for both.

        Raises
        ------
        ParameterError, ParameterTypeError
            If an argument is wrong, or not exactly one of `half_width` and `relative` is given.
        JobError
            If the query is refused, something must be assumed, no ε meets the target, or the error depends on the data.
        """
        from dpcore.query.planning import Assumed, Target, planned

        target, known = Target.of(half_width, relative, confidence, cells), Assumed.of(assume)
        question = self._question(kind, column, {"epsilon": 1.0, **keys})
        found = self._planned(question, known, lambda planning: planned(planning, target, known))
        share = share_of(question)
        given = None if found.given is None else found.given / share
        return replace(found, epsilon=found.epsilon / share, given=given)

    def sample_size(
        self,
        kind: str,
        column: str | Sequence[str] | None = None,
        *,
        half_width: float | None = None,
        relative: tuple[float, float] | None = None,
        confidence: float = 0.95,
        cells: int | Literal["all"] = 1,
        assume: Mapping[str, float] | None = None,
        **keys: Any,
    ) -> Plan:
        """Find the least number of rows with which an answer is exact enough: nothing is read but the schema, and nothing is spent.

        Parameters
        ----------
        kind : str
            Name of the method that would ask it, such as "mean".
        column : str or sequence of str, optional
            Its column, or columns.
        half_width, relative, confidence, cells, assume
            As in `epsilon_for`; `n` is what is found, and need not be assumed.
        **keys : object
            The other arguments of the method, with its `epsilon`, by default 1.

        Returns
        -------
        planning.Plan
            `n`, the rows of the table or of each group, and the width of the interval there, twice the half-width.

        Raises
        ------
        ParameterError, ParameterTypeError
            If an argument is wrong, not exactly one of `half_width` and `relative` is given, or no number of rows meets the target, as for
            counts, whose noise does not depend on it.
        JobError
            If the query is refused, something must be assumed, or the error depends on the data.
        """
        from dpcore import planning
        from dpcore.query.planning import Assumed, Target

        target, known = Target.of(half_width, relative, confidence, cells), Assumed.of(assume)
        question = self._question(kind, column, {"epsilon": 1.0, **keys})
        return self._planned(
            question, known, lambda asked: planning.sample_size(asked, width=2 * target.half_width, confidence=confidence, cells=cells)
        )

    def _question(self, kind: str, column: object, keys: Mapping[str, Any]) -> Question:
        if kind not in METHODS:
            raise ParameterError(f"kind must be one of {', '.join(map(repr, METHODS))}, got {kind!r}")
        described = Described.of(kind)
        return Question(self._view, entry_of(described, {described.arguments[0].name: column, **keys}))


class Selectable(Answering):
    """A table of which rows are left out, to which columns are added, and which is grouped."""

    @abstractmethod
    def _with(self, view: View) -> Self:
        """The same table, seen otherwise."""

    @abstractmethod
    def _number(self) -> int:
        """A number that no other public table of the session has."""

    def _filtered(self, sql: str) -> View:
        """The view of the rows for which an expression is true."""
        return self._view.of_rows(sql)

    @abstractmethod
    def _grouped(self, view: View) -> GroupedTable:
        """The table in groups."""

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            raise no_attribute(self, name, WORDS)

        def __getitem__(self, key: object) -> object:
            raise not_indexed(self)

    def where(self, sql: str) -> Self:
        """Leave out the rows for which an expression is not true. What is asked then has a private number of rows.

        They are left out before the rows of each unit are chosen; inside of a batch, whose queries share that choice, after it.

        Parameters
        ----------
        sql : str
            An expression of SQL over the columns of one row, such as "age >= 18 AND region <> 'north'". A call that fails is NULL, and
            NULL is not true.

        Returns
        -------
        PrivateTable
            The filtered table. It spends from the same budget.

        Raises
        ------
        ParameterTypeError
            If `sql` is not a str. What else is wrong with it is found with the first query.
        JobError
            If it is a further condition, and this one or the one before is no expression by itself.
        """
        return self._with(self._filtered(_text("sql", sql, '; write the condition as SQL: where("age >= 30")')))

    def derive(self, **columns: str) -> Self:
        """Add columns that are computed from the others of the same row.

        Parameters
        ----------
        **columns : str
            For each new column an expression of SQL, such as `band="CASE WHEN income < 20000 THEN 'low' ELSE 'high' END"`.

        Returns
        -------
        PrivateTable
            The table with these columns.

        Raises
        ------
        ParameterTypeError
            If an expression is not a str. What else is wrong with it is found with the first query.
        """
        advice = '; write the column as SQL: derive({}="age / 10")'
        new = tuple({"name": name, "sql": _text(name, sql, advice.format(name))} for name, sql in columns.items())
        return self._with(replace(self._view, derived=(*self._view.derived, *new)))

    def lookup(self, table: object, key: str, columns: Sequence[str]) -> Self:
        """Add columns of a public table, by a key that is unique there.

        Parameters
        ----------
        table : object
            The public table: a frame, or the path of a Parquet, CSV or Arrow file. Nothing protects its rows.
        key : str
            Column of both tables.
        columns : sequence of str
            Columns of the public table to add; NULL where the key is not in it.

        Returns
        -------
        PrivateTable
            The table with these columns.

        Raises
        ------
        ParameterError, ParameterTypeError
            If an argument is wrong. What else is wrong is found with the first query.
        """
        if isinstance(columns, str):
            raise ParameterTypeError("columns must be a list of names, got a str")
        source = source_of(table, "table")
        path = source if isinstance(source, str) else f"{source.name} {self._number()}"
        entry = {"path": path, "key": _text("key", key), "columns": [_text("columns", name) for name in columns]}
        frames = () if isinstance(source, str) else ((path, source),)
        return self._with(replace(self._view, lookups=(*self._view.lookups, entry), tables=(*self._view.tables, *frames)))

    def group_by(
        self,
        *columns: str | Sequence[str],
        groups: Groups | None = None,
        epsilon: float | None = None,
        delta: float | None = None,
        consistent: bool | Mapping[str, object] = False,
    ) -> GroupedTable:
        """Answer queries for each of several declared groups of rows.

        Parameters
        ----------
        *columns : str
            Columns that hold the group of a row; or one list of them.
        groups : sequence, mapping, frame or str
            Required: the values of the groups, as a list; as a declaration for each of several columns, all of whose combinations are
            groups; or as a public frame with a row for each group. Take them from what you know about the subject, never from the data. A
            row of no declared group counts nowhere. "private" names the groups that enough units have, sorted, for `epsilon` and `delta`:
            once for this grouped table, with its first query, or for those of a batch.
        epsilon, delta : float, optional
            What naming private groups costs, besides the ε of each query about them. Default: half of the ε of the first query, which has
            the other half; δ must be given.
        consistent : bool or mapping, default False
            Answer counts and sums for all levels of nested groups, so that they add up: for the whole, for each group of the first of
            `columns`, of the first two, and so on. The ε of a query is divided equally. A mapping says more: `levels`, a list of those
            that are answered, named after their column or "total", or a share of ε for each; `non_negative` and `integral`, which leave
            out intervals.

        Returns
        -------
        GroupedTable
            The same queries, with an answer for each group.

        Raises
        ------
        ParameterError, ParameterTypeError
            If no column is named, or `groups` has other columns than `columns`.
        """
        listed = columns[0] if len(columns) == 1 and isinstance(columns[0], list | tuple) else columns
        names = [_text("columns", name) for name in listed]
        if not names:
            raise ParameterError("columns must name at least one column")
        if groups is None:
            raise ParameterTypeError(
                f'groups is required, the values of {" and ".join(names)} that you know without the data, as in groups=["a", "b"]; '
                'or groups="private" with delta=1e-8 names those that enough units have'
            )
        if isinstance(groups, Mapping) and len(names) > 1 and set(groups) != set(names) and not (consistent and set(groups) < set(names)):
            given = ", ".join(map(repr, groups)) or "none"
            raise ParameterError(f"groups must have the columns {', '.join(map(repr, names))}, got {given}")
        declared = labels(records_of(groups, names) if is_frame(groups) else groups)
        keys: dict[str, Any] = {"group_by": names, "groups": declared}
        nested = {} if consistent is False else {"consistent": dict(consistent) if isinstance(consistent, Mapping) else consistent}
        if len(names) == 1:
            of_column = isinstance(declared, dict) and names[0] not in declared
            keys = {"group_by": names[0], "groups": {names[0]: declared} if of_column else declared}
        is_private = isinstance(groups, str) and groups == "private"
        if is_private and delta is None:
            raise ParameterError('groups="private" needs delta, such as 1e-8: the chance that a group of one unit alone is named')
        if not is_private and not (epsilon is None and delta is None):
            raise ParameterError(f'epsilon and delta of group_by are for groups="private", got {_shown(groups)}; give them to the queries')
        if is_private and consistent is not False:
            raise ParameterError('consistent is for declared groups: those that groups="private" does not name would miss in every total')
        found = FoundGroups(tuple(names), epsilon, delta) if is_private else None
        return self._grouped(replace(self._view, query={**self._view.query, **keys, **nested}, found=found))


class GroupedTable(Answering):
    """A table in groups: `group_by` makes it, and its queries have an answer for each group.

    Attributes
    ----------
    table : object
        The table, or the batch, that answers.
    view : View
        Its rows, columns and groups.
    columns : tuple of str
        The columns that hold the groups.
    """

    def __init__(self, table: Answering, view: View) -> None:
        self._table, self._view = table, view

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that hold the groups."""
        names = self._view.query["group_by"]
        return (names,) if isinstance(names, str) else tuple(names)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            raise no_attribute(self, name, OF_GROUPED)

    def _answer(self, question: Question) -> TableResult:
        return self._table._answer(question)  # noqa: SLF001

    def _plan(self, question: Question) -> TablePlan:
        return self._table._plan(question)  # noqa: SLF001

    def _planned(self, question: Question, assumed: Assumed, asked: Asked[Found]) -> Found:
        return self._table._planned(question, assumed, asked)  # noqa: SLF001

    def __repr__(self) -> str:
        return f"GroupedTable({self._table!r}, by {', '.join(self.columns)})"


def _shown(groups: object) -> str:
    return repr(groups) if isinstance(groups, str) else f"a {type(groups).__name__}"


def _text(name: str, value: object, advice: str = "") -> str:
    if not isinstance(value, str):
        raise ParameterTypeError(f"{name} must be a str, got {type(value).__name__}{advice}")
    return value
