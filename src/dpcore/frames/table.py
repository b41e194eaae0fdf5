"""`PrivateTable`: a table of which only private answers are given."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, Self

from dpcore import accounting
from dpcore._extras import require
from dpcore._validation import check_real, check_threads
from dpcore.errors import ParameterError, ParameterTypeError
from dpcore.frames.asking import labels
from dpcore.frames.batches import Collected, TableBatch, limit_of
from dpcore.frames.found_groups import with_keys
from dpcore.frames.joining import ONLY_UNITS, joined
from dpcore.frames.question import Question, View
from dpcore.frames.results import Answered, TablePlan, TableResult
from dpcore.frames.session import Budget, Session, warn_unused
from dpcore.frames.sources import is_frame, records_of, source_of
from dpcore.frames.views import GroupedTable, Selectable
from dpcore.privacy import Privacy, Relation
from dpcore.rng import SecureRandom

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from dpcore.accounting import Ledger
    from dpcore.frames.views import Groups
    from dpcore.query.planning import Asked, Assumed, Found
    from dpcore.query.request import Accounting
    from dpcore.testing import KeyedRandom


class PrivateTable(Selectable):
    r"""A table of which only private answers are given. Each query makes a job of its own, as `dpcore release` runs it on files.

    Parameters
    ----------
    frame : object
        A DataFrame of pandas or polars, a LazyFrame, a Table, RecordBatch or Dataset of pyarrow, a relation of DuckDB, any object with
        `__arrow_c_stream__`, or the path of a file, a folder or a glob, or their address
        in a store. Frames are read where they lie, through Arrow.
    unit : str, default "row"
        Whose data is protected: one row, or all rows that have one value in this column.
    unit_name : str, optional
        What ledgers and answers call the unit, where tables of one set have it in columns of different names. Default: `unit`.
    max_rows_per_unit : int, optional
        Rows of one unit that take part; others are left out, by a random choice. Required if the unit is a column, but not for
        `count_distinct` and for a `sum` with `max_sum_per_unit`.
    max_groups_per_unit : int, optional
        Groups of one unit that take part in grouped queries.
    null_unit : {"drop", "own"}, optional
        Whether rows that name no unit are left out, or count as a unit each. Default: "drop".
    relation : {"replace", "add_remove"}, default "replace"
        Whether neighbouring tables differ by the data of one unit, or by its presence.
    ledger : Ledger, str or Path, optional
        The ledger that pays for every answer, or its path; made by `dpcore ledger create` or `dpcore.accounting.Ledger.create`.
    dataset : str, optional
        Name of the data set, for the ledger.
    max_epsilon : float, optional
        What all answers of this table, and of the tables made from it, may spend together. It is counted in this process: a forked child
        answers nothing, and the table cannot be pickled; several processes share a ledger. Default: only the ledger limits them.
    max_delta : float, default 0
        The same for δ, where `max_epsilon` is given.
    accounting : {"basic", "zcdp", "pld"}, default "basic"
        How the answers of a batch add up, where the batch does not say: by their ε and δ, by ρ of zero-concentrated privacy, or by privacy
        loss distributions, which need the extra `accounting` and no ledger. Queries that are asked one by one, and batches beside each
        other, add up by ε and δ, and in a zCDP ledger by ρ.
    rng : KeyedRandom or SecureRandom, optional
        A test key, whose noise can be repeated and is not private. Each query takes the next call of it: the queries of a table have the
        noise of those of a job in the same order, and no two have the same. Default: the secure source.
    threads : int, optional
        Threads that compute. Default: the CPUs that this process may use.
    connect : dpcore.spark.Declared, optional
        For a frame of Spark Connect, and required there: what you declare of its session, `Declared(encrypted=True)`.

    Raises
    ------
    ParameterTypeError, ParameterError
        If an argument is wrong, or the frame gives its rows only once, as a RecordBatchReader does.
    ModuleNotFoundError
        If the extra `batch` is not installed.

    Notes
    -----
    Guarantee: each answer protects one unit at its ε and δ, and all answers together at the sum. Neither representations nor messages nor
    the time of a plan tell anything about the rows.

    Cost: a query passes over the columns that it names, twice with a unit. `batch` answers several queries in one pass.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from dpcore import PrivateTable
    >>> visits = PrivateTable(pa.table({"ward": ["a", "b", "a", "a"], "cost": [120.0, 80.0, 310.0, 95.0]}), max_epsilon=2.0)
    >>> by_ward = visits.group_by("ward", groups=["a", "b"])
    >>> by_ward.mean("cost", epsilon=1.0, lower=0, upper=500, missing=0).to_arrow().column_names
    ['ward', 'value', 'stderr', 'lower', 'upper']
    >>> with visits.batch(epsilon=1.0) as batch:
    ...     total = batch.sum("cost", epsilon=0.5, lower=0, upper=500, missing=0)
    ...     wards = batch.histogram("ward", epsilon=0.5, categories=["a", "b"], missing="a", unknown="a")
    >>> len(wards.value)
    2
    >>> visits
    PrivateTable(pyarrow Table, unit='row', relation='replace', max_epsilon=2.0)
    """

    def __init__(
        self,
        frame: object,
        *,
        unit: str = "row",
        unit_name: str | None = None,
        max_rows_per_unit: int | None = None,
        max_groups_per_unit: int | None = None,
        null_unit: Literal["drop", "own"] | None = None,
        relation: Relation = "replace",
        ledger: Ledger | str | Path | None = None,
        dataset: str | None = None,
        max_epsilon: float | None = None,
        max_delta: float = 0.0,
        accounting: Accounting = "basic",
        rng: KeyedRandom | SecureRandom | None = None,
        threads: int | None = None,
        connect: object = None,
    ) -> None:
        require("dpcore.PrivateTable", "batch")
        bounds: dict[str, object] = {"max_rows_per_unit": max_rows_per_unit, "max_groups_per_unit": max_groups_per_unit}
        bounds |= {"null_unit": null_unit, "unit_name": unit_name}
        privacy = {"unit": unit, "relation": relation, **{key: value for key, value in bounds.items() if value is not None}}
        check_threads(threads)
        limit = _limit(max_epsilon, max_delta, relation)
        path = None if ledger is None else _path(ledger)
        self._session = Session(source_of(frame, connect=connect), privacy, dataset, path, accounting, Budget(limit), _keyed(rng), threads)
        self._session.check()
        self._view = View()

    @property
    def spent(self) -> Privacy:
        """What the answers of this table, and of the tables made from it, have spent together in this process."""
        return self._session.budget.spent(self._session.privacy["relation"])

    @property
    def remaining(self) -> Privacy | None:
        """The most that one more answer may spend: what is left of `max_epsilon` and `max_delta`, and of the ledger; None without both.

        A ledger of kind "zcdp" or "gdp" does not count ε: then it is what is left of `max_epsilon`, and `Ledger(path).remaining` has the
        rest of the ledger.
        """
        left, relation = self._session.budget.remaining(), self._session.privacy["relation"]
        charged = None if self._session.ledger is None else accounting.Ledger(self._session.ledger).remaining
        if charged is None or charged.epsilon is None:
            return left
        if left is None:
            return Privacy(charged.epsilon, charged.delta, relation)
        return Privacy(min(left.epsilon, charged.epsilon), min(left.delta, charged.delta), relation)

    def batch(self, epsilon: float, delta: float = 0.0, *, accounting: Accounting | None = None) -> TableBatch:
        """Ask several queries, for one pass over the table and one charge.

        Parameters
        ----------
        epsilon : float
            What all of them may spend together, in (0, ∞). A query that does not fit is refused, and costs nothing.
        delta : float, default 0
            The same for δ, in [0, 1).
        accounting : {"basic", "zcdp", "pld"}, optional
            How they add up, as in `[privacy]` of a job; all but "basic" need a `delta`. Default: that of the table.

        Returns
        -------
        TableBatch
            A context manager with the queries of a table. They give handles, which can be read when the with block has ended. If the block
            raises an error, nothing is read, and nothing is spent.

        Raises
        ------
        ParameterError, ParameterTypeError, BudgetError
            If a limit is wrong.
        JobError
            If the accounting is none, or is "pld" and there is a ledger.
        """
        session = self._session
        limit = limit_of(epsilon, delta, session.accounting if accounting is None else accounting)
        session.check(limit)
        return TableBatch(Collected(session, limit), self._view)

    def per_unit(self, *, by: str | Sequence[str] | None = None, groups: Groups | None = None, **columns: str | Mapping[str, Any]) -> Self:
        """Make one row of each unit's rows; queries, conditions, columns and groups are then about these rows.

        Parameters
        ----------
        by : str or list of str, optional
            Second keys: a unit has a row for each of its keys, and at most `max_groups_per_unit` of the table take part.
        groups : sequence or mapping, optional
            The declared values of `by`, as those of `group_by`.
        **columns : str or mapping
            For each new column an aggregate in SQL, such as `visits="count(*)"`, `icu="bool_or(ward = 'ICU')"` or `first="min(admitted)"`;
            sums and means of floats need bounds of their terms, as `dpcore.total("cost", lower=0, upper=50_000)` has them. Aggregates are
            count, min, max, sum, avg, median, mode, quantile_disc, arg_min, arg_max, bool_and, bool_or, bit_and, bit_or and bit_xor; what
            is computed of several comes into `derive` after it.

        Returns
        -------
        PrivateTable
            The table of units. It spends from the same budget. How many units there are is private.

        Raises
        ------
        ParameterError, ParameterTypeError
            If the table has no `unit`, has `max_rows_per_unit`, or is made of units already. What else is wrong is found with the first
            query.
        """
        session, view = self._session, self._view
        if session.privacy["unit"] == "row":
            raise ParameterError("per_unit needs the unit of the table: PrivateTable(frame, unit='patient')")
        if "max_rows_per_unit" in session.privacy:
            raise ParameterError("per_unit uses all rows of a unit; make the table without max_rows_per_unit for it")
        if view.made is not None:
            raise ParameterError("per_unit: the rows of this table are made of units already; derive columns from theirs")
        if view.query:
            raise ParameterError("per_unit comes before conditions of single queries")
        section: dict[str, Any] = {"columns": {name: _aggregate(name, column) for name, column in columns.items()}}
        if by is not None:
            section["by"] = by if isinstance(by, str) else list(by)
        if groups is not None:
            names = [section["by"]] if isinstance(section.get("by"), str) else section.get("by", [])
            section["groups"] = labels(records_of(groups, names) if is_frame(groups) else groups)
        return self._with(view.of_units(section))

    def join(self, other: PrivateTable, *, how: Literal["left", "inner"] = "left", on: None = None) -> Self:
        """Add what another private table of the same units has, joined on the unit.

        Parameters
        ----------
        other : PrivateTable
            One row for each unit, as its `per_unit` makes it. All of its columns are added.
        how : {"left", "inner"}, default "left"
            Whether rows of units that the other table does not have stay, without values, or are left out.
        on : None
            There is no other key than the unit: by another one, rows of one unit would change those of others.

        Returns
        -------
        PrivateTable
            The table with these columns. It spends from the budget of this one, which then protects one unit with its rows in both tables.
            What `other` spends by itself adds up with that, unless both have the same ledger.

        Raises
        ------
        ParameterError, ParameterTypeError
            If a table has no unit, or `other` not one row for each, or they differ in their relation or engine. What else is wrong is found
            with the first query.
        """
        if not isinstance(other, PrivateTable):
            raise ParameterTypeError(
                f"other must be a PrivateTable with one row for each unit, got {type(other).__name__}; a public table is joined by lookup"
            )
        if on is not None:
            raise ParameterError(f"on must be left out, got {on!r}: {ONLY_UNITS}")
        return self._with(joined(self._session, self._view, (other._session, other._view), how))

    def _with(self, view: View) -> Self:
        table = object.__new__(type(self))
        table._session, table._view = self._session, view
        return table

    def _number(self) -> int:
        return next(self._session.numbers)

    def _grouped(self, view: View) -> GroupedTable:
        return GroupedTable(self, view)

    def _answer(self, question: Question) -> TableResult:
        source = self._session.source
        native, name = ("arrow", source) if isinstance(source, str) else (source.native, source.name)
        self._session.budget.check_process()  # before any lock, which a forked child may never get
        with question.view.turn():
            questions, places = with_keys([question])
            job = self._session.job(questions)
            warn_unused(job, 4)
            plan, document = self._session.run(job, questions)
        return TableResult(Answered(native, name, document, TablePlan.of(plan), places, dataset=self._session.dataset), 0)

    def _plan(self, question: Question) -> TablePlan:
        questions, _ = with_keys([question])
        return TablePlan.of(self._session.plan(self._session.job(questions), questions))

    def _planned(self, question: Question, assumed: Assumed, asked: Asked[Found]) -> Found:
        return self._session.planned(with_keys([question])[0], assumed, asked)

    def __repr__(self) -> str:
        session = self._session
        source = session.source if isinstance(session.source, str) else session.source.name
        said = [source, *(f"{key}={value!r}" for key, value in session.privacy.items())]
        if session.accounting != "basic":
            said.append(f"accounting={session.accounting!r}")
        if session.ledger is not None:
            said.append(f"ledger={session.ledger!r}")
        if (limit := session.budget.limit) is not None:
            said.append(f"max_epsilon={limit.epsilon!r}" + (f", max_delta={limit.delta!r}" if limit.delta else ""))
        if session.rng is not None:
            said.append("keyed, not private")
        return f"PrivateTable({', '.join(said)})"


def _aggregate(name: str, column: object) -> str | dict[str, Any]:
    """What a column is made of, as a job has it."""
    if isinstance(column, Mapping):
        return dict(column)
    if not isinstance(column, str):
        raise ParameterTypeError(
            f"{name} must be an aggregate in SQL, such as 'count(*)', or a total or average, got {type(column).__name__}"
        )
    return column


def total(column: str, *, lower: float, upper: float) -> dict[str, Any]:
    r"""A sum of clamped numbers over the rows of a unit, for `PrivateTable.per_unit`.

    Parameters
    ----------
    column : str
        A column, or an expression in SQL.
    lower, upper : float
        Ends to which each number is clamped, lower < upper.

    Returns
    -------
    dict
        What a job writes as `{ sum = "cost", lower = 0, upper = 50000 }`. Terms are rounded to multiples of
        2^(⌊log2 max(\|lower\|, \|upper\|)⌋ − 50), their sum is exact, and rounded once to a float64; it is missing for a unit without
        numbers.

    Raises
    ------
    JobError
        With the first query, if the column is of no numbers or the bounds are wrong.

    Notes
    -----
    Cost: that of a sum of integers.

    Examples
    --------
    >>> import dpcore
    >>> dpcore.total("cost", lower=0, upper=50_000)
    {'sum': 'cost', 'lower': 0, 'upper': 50000}
    """
    return {"sum": column, "lower": lower, "upper": upper}


def average(column: str, *, lower: float, upper: float) -> dict[str, Any]:
    """A mean of clamped numbers over the rows of a unit, for `PrivateTable.per_unit`.

    Parameters
    ----------
    column : str
        A column, or an expression in SQL.
    lower, upper : float
        Ends to which each number is clamped, lower < upper.

    Returns
    -------
    dict
        What a job writes as `{ mean = "cost", lower = 0, upper = 50000 }`: the sum of `total` divided by the number of its terms, rounded
        once.

    Raises
    ------
    JobError
        With the first query, if the column is of no numbers or the bounds are wrong.

    Notes
    -----
    Cost: that of a sum of integers.

    Examples
    --------
    >>> import dpcore
    >>> dpcore.average("cost", lower=0, upper=50_000)
    {'mean': 'cost', 'lower': 0, 'upper': 50000}
    """
    return {"mean": column, "lower": lower, "upper": upper}


def _limit(max_epsilon: float | None, max_delta: float, relation: Relation) -> Privacy | None:
    """What all answers may spend together; None is no limit."""
    delta = check_real("max_delta", max_delta, low=0.0, high=1.0, include_high=False)
    if max_epsilon is None and delta:
        raise ParameterError(f"max_delta = {max_delta!r} belongs to max_epsilon, which was not given")
    return None if max_epsilon is None else Privacy(check_real("max_epsilon", max_epsilon, low=0.0, high=math.inf), delta, relation)


def _path(ledger: Any) -> str:
    path = ledger.path if isinstance(ledger, accounting.Ledger) else ledger
    if not isinstance(path, str | os.PathLike):
        raise ParameterTypeError(f"ledger must be a Ledger or its path, got {type(ledger).__name__}")
    return os.fsdecode(path)


def _keyed(rng: object) -> KeyedRandom | None:
    """The test key; None for the secure source."""
    if rng is None or type(rng) is SecureRandom:
        return None
    from dpcore.testing import KeyedRandom  # only who has made one gets here with it

    if not isinstance(rng, KeyedRandom):
        raise ParameterTypeError(f"rng must be a KeyedRandom, a SecureRandom or None, got {type(rng).__name__}")
    return rng
