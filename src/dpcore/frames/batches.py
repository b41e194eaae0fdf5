"""Several answers from one pass over a table, with one charge."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Any, Self

from dpcore.errors import BudgetError, ParameterError
from dpcore.frames.found_groups import with_keys
from dpcore.frames.question import View
from dpcore.frames.results import Answered, TablePlan, TableResult
from dpcore.frames.session import Limit, warn_unused
from dpcore.frames.views import GroupedTable, Selectable
from dpcore.privacy import Privacy

if TYPE_CHECKING:
    from types import TracebackType

    from dpcore.frames.question import Question
    from dpcore.frames.session import Session
    from dpcore.query.planning import Asked, Assumed, Found
    from dpcore.tables.inputs import Inputs


class Collected:
    """The questions of a batch, and what their answers share.

    Parameters
    ----------
    session : Session
        Of the table.
    limit : Limit
        What all answers may spend together.
    """

    def __init__(self, session: Session, limit: Limit) -> None:
        self.session, self.limit = session, limit
        source = session.source
        native, name = ("arrow", source) if isinstance(source, str) else (source.native, source.name)
        self.answered = Answered(native, name, dataset=session.dataset)
        self.questions: list[Question] = []
        self.state = "new"
        self._found: Inputs | None = None
        self._lock = threading.Lock()

    def begin(self) -> None:
        """Take questions from now on; raises `ParameterError` the second time."""
        with self._lock:
            if self.state != "new":
                raise ParameterError("a batch has one with block; call batch again for another")
            self.state = "open"

    def ask(self, question: Question) -> TableResult:
        """Take a question; raises an error about it, or `BudgetError`, and then takes nothing."""
        self.session.budget.check_process()  # before any lock, which a forked child may never get
        with self._lock:  # another thread must not take the same place, nor answer what has been asked before this is
            if self.state != "open":
                raise ParameterError("a batch takes questions inside of its with block: with table.batch(epsilon=1.0) as batch: ...")
            self.plan([*self.questions, question])
            self.questions.append(question)
            return TableResult(self.answered, len(self.questions) - 1)

    def plan(self, questions: list[Question]) -> TablePlan:
        """The plan of some questions, within the limit."""
        every, _ = with_keys(questions)
        plan = self.session.plan(self.session.job(every, self.limit), every, self._found)
        self._found = plan.source
        return TablePlan.of(plan)

    def run(self) -> None:
        """Answer all questions."""
        self.session.budget.check_process()
        with self._lock:
            asked = tuple(self.questions)
        if not asked:
            return
        with contextlib.ExitStack() as turns:
            for _, view in sorted({id(each.view.found): each.view for each in asked}.items(), key=lambda turn: turn[0]):
                turns.enter_context(view.turn())  # in one order, so that no two batches wait for each other
            every, self.answered.places = with_keys(asked)
            job = self.session.job(every, self.limit)
            warn_unused(job, 3)
            plan, document = self.session.run(job, every)
        self.answered.plan, self.answered.document = TablePlan.of(plan), document


class TableBatch(Selectable):
    """Collects the queries of a with block and answers all of them when it ends: `PrivateTable.batch` makes it.

    If the block raises an error, nothing is read, and nothing is spent.

    Attributes
    ----------
    collected : Collected
        The questions so far.
    view : View
        The rows and columns that further questions are about.
    limit : Privacy
        What all answers may spend together.
    """

    def __init__(self, collected: Collected, view: View) -> None:
        self._collected, self._view = collected, view

    @property
    def limit(self) -> Privacy:
        """What all answers may spend together."""
        limit = self._collected.limit
        return Privacy(limit.epsilon, limit.delta, self._collected.session.privacy["relation"])

    def _filtered(self, sql: str) -> View:
        return self._view.of_query(sql)

    def _with(self, view: View) -> Self:
        return type(self)(self._collected, view)

    def _number(self) -> int:
        return next(self._collected.session.numbers)

    def _grouped(self, view: View) -> GroupedTable:
        return GroupedTable(self, view)

    def _answer(self, question: Question) -> TableResult:
        return self._collected.ask(question)

    def _plan(self, question: Question) -> TablePlan:
        return self._collected.plan([*self._collected.questions, question])

    def _planned(self, question: Question, assumed: Assumed, asked: Asked[Found]) -> Found:
        return self._collected.session.planned(with_keys([question])[0], assumed, asked)

    def __enter__(self) -> Self:
        self._collected.begin()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._collected.state = "ended"
        if error is None:
            self._collected.run()

    def __repr__(self) -> str:
        asked = len(self._collected.questions)
        limit = self._collected.limit
        way = "" if limit.accounting == "basic" else f"accounting={limit.accounting!r}, "
        said = f"epsilon={limit.epsilon!r}, delta={limit.delta!r}, {way}asked={asked}"
        return f"TableBatch({said}, {self._collected.state})"


def limit_of(epsilon: Any, delta: Any, accounting: str) -> Limit:
    """The limit of a batch."""
    limit = Privacy(epsilon, delta)
    if not limit.epsilon > 0:
        raise BudgetError("epsilon of a batch must be positive, got 0")
    if accounting in ("zcdp", "pld") and not limit.delta:
        raise ParameterError(f"delta of a batch with accounting={accounting!r} must be positive, for example 1e-6, got {delta!r}")
    return Limit(limit.epsilon, limit.delta, accounting)
