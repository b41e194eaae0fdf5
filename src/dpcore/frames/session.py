"""From a question about a table to its answer: the job that it stands for, its plan, its charge, and its run."""

from __future__ import annotations

import itertools
import math
import re
import sys
import threading
import warnings
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

from dpcore._dataclasses import dataclass
from dpcore._lazy import uncollected
from dpcore._processes import OneProcess
from dpcore._validation import plain_number
from dpcore.errors import BudgetError, DataError, JobError, ParameterError, UnusedEpsilonWarning
from dpcore.frames.found_groups import remember
from dpcore.frames.question import Question, View
from dpcore.frames.source import RemoteSource
from dpcore.privacy import Privacy, Relation, composed, left_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dpcore.frames.source import FrameSource
    from dpcore.query.plan import ReleasePlan
    from dpcore.query.planning import Asked, Assumed, Found
    from dpcore.query.request import ReleaseJob
    from dpcore.tables.inputs import Inputs
    from dpcore.tables.mistakes import Mistake
    from dpcore.testing import KeyedRandom

CURATOR = "; --curator says where it is"
"""Advice for the command line."""
_ADVICE = {
    "missing": 'missing="skip" leaves such rows out, and another value stands for such cells',
    "unknown": 'unknown="skip" leaves such rows out, and one of the categories stands for such cells',
}
"""What to do where a cell is not declared."""
UNSTATED = 1.0
"""Limit of a job whose ε is not a number: the check of the query says so."""


ANY_DELTA = 0.5
"""Limit of a batch that is only tried."""


@dataclass(frozen=True, slots=True)
class Limit:
    """What the answers of one batch may spend together.

    Attributes
    ----------
    epsilon, delta : float
        The limits.
    accounting : str
        How what they spend is added up.
    """

    epsilon: float
    delta: float
    accounting: str


class Budget(OneProcess):
    """What the answers of one table may spend together, and have spent.

    Parameters
    ----------
    limit : Privacy or None
        None: no limit but the ledger's.
    """

    WORDS = "the budget of a PrivateTable is counted in memory, and two counts would spend it twice; for several processes use a ledger"

    def __init__(self, limit: Privacy | None) -> None:
        super().__init__()
        self.limit = limit
        self._spent: list[Privacy] = []
        self._lock = threading.Lock()

    def spend(self, amount: Privacy) -> None:
        """Add an amount; raises `BudgetError` if it does not fit, and adds nothing."""
        self.check_process()
        with self._lock:
            self._check(amount)
            self._spent.append(amount)

    def check_process(self) -> None:
        """Raise `BudgetError` in a forked child if there is a limit: each child would spend it again."""
        if self.limit is not None:
            self.refuse_elsewhere()

    def give_back(self, amount: Privacy) -> None:
        """Remove an amount for which nothing was read."""
        with self._lock:
            self._spent.remove(amount)

    def spent(self, relation: Relation) -> Privacy:
        """The sum of what was spent."""
        self.check_process()
        with self._lock:
            return composed(self._spent, relation=relation)

    def remaining(self) -> Privacy | None:
        """The most that one more answer may spend; None without a limit."""
        self.check_process()
        with self._lock:
            return None if self.limit is None else left_of(self.limit, self._spent)

    def _check(self, amount: Privacy) -> None:
        limit, relation = self.limit, amount.relation
        if limit is None:
            return
        total = composed([*self._spent, amount], relation=relation)
        if total.epsilon > limit.epsilon or total.delta > limit.delta:
            spent, left = composed(self._spent, relation=relation), left_of(limit, self._spent)
            raise BudgetError(
                f"this needs epsilon {amount.epsilon!r}, delta {amount.delta!r}, and the table has spent epsilon {spent.epsilon!r}, delta "
                f"{spent.delta!r} of max_epsilon = {limit.epsilon!r}, max_delta = {limit.delta!r}; epsilon {left.epsilon!r}, delta "
                f"{left.delta!r} are left, and nothing is spent" + _allowed_delta(amount.delta, limit.delta)
            )


def _allowed_delta(needed: float, limit: float) -> str:
    """What to write where the table allows no δ at all."""
    return f". Allow the delta as well: PrivateTable(…, max_delta={needed!r}), or more" if limit == 0 < needed else ""


@dataclass(frozen=True, slots=True)
class Session:
    """What all views of one table share.

    Attributes
    ----------
    source : Source or str
        The frame, or the path of files.
    privacy : dict
        Keys of `[privacy]` but the limits.
    dataset, ledger : str or None
        As a job names them.
    accounting : str
        How the answers of a batch add up, if it does not say; a single query has nothing to add.
    budget : Budget
        What the answers may spend together.
    rng : KeyedRandom or None
        Whose calls count the queries of a keyed table.
    threads : int or None
        Threads that compute.
    numbers : iterator of int
        Numbers of public tables that are frames.
    """

    source: FrameSource | str
    privacy: dict[str, Any]
    dataset: str | None
    ledger: str | None
    accounting: str
    budget: Budget
    rng: KeyedRandom | None
    threads: int | None
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def check(self, limit: Limit | None = None) -> None:
        """Raise `JobError` if settings, or the accounting of a batch, contradict each other, or keyed noise would be charged."""
        if limit is None and self._names_nothing:
            return
        limit = Limit(UNSTATED, ANY_DELTA, self.accounting) if limit is None else limit
        bounds = {"max_rows_per_unit", "max_groups_per_unit"} & set(self.privacy)
        kind = "count_distinct" if self.privacy["unit"] != "row" and not bounds else "count"  # which needs no bound on rows
        view = View(query={"group_by": "any", "groups": ["any"]} if bounds else {})
        if bounds == {"max_groups_per_unit"} and self.privacy["unit"] != "row":  # for `per_unit` with second keys alone
            view = View(made={"per_unit": {"by": "any", "groups": ["any"]}})
        self.job([Question(view, {"kind": kind, "epsilon": limit.epsilon})], limit)

    @property
    def _names_nothing(self) -> bool:
        """Whether all settings are those of a table that names none, which contradict nothing."""
        named = (self.dataset, self.ledger, self.rng)
        plain = self.privacy == {"unit": "row", "relation": "replace"} and self.accounting == "basic"
        return plain and not isinstance(self.source, str) and all(each is None for each in named)

    def job(self, questions: Sequence[Question], limit: Limit | None = None) -> ReleaseJob:
        """The job that stands for some questions, within a limit if one is given."""
        load_engine()
        from dpcore.query.request import checked_job

        if limit is None and any("weight" in question.entry for question in questions):
            raise ParameterError("weight is for queries of a batch, whose epsilon it shares; give this one an epsilon")
        if limit is None and any(question.entry.get("epsilon") is None for question in questions):
            return self._free(questions)
        try:
            return checked_job(self._document(questions, limit))
        except JobError as error:
            raise _of_call(error, questions) from None

    def _free(self, questions: Sequence[Question]) -> ReleaseJob:
        """The job of a query that names no ε, which only a count of all rows need not do, where their number is public."""
        from dpcore.query.kinds import KINDS
        from dpcore.query.request import checked_job

        refusal = ParameterError("epsilon is required: what this answer may spend, such as epsilon=0.5")
        if len(questions) != 1 or not KINDS[questions[0].entry["kind"]].may_be_free:
            raise refusal
        try:
            return checked_job(self._document(questions, None))
        except JobError as error:
            if "epsilon, or in its place weight" in str(error):
                raise refusal from None
            raise _of_call(error, questions) from None

    def plan(self, job: ReleaseJob, questions: Sequence[Question], before: Inputs | None = None) -> ReleasePlan:
        """The plan of a job on this table; no row is read. Files that an earlier plan found need not be found again."""
        from dpcore.frames.call_words import OF_A_CALL
        from dpcore.frames.inputs import FrameInput
        from dpcore.query.in_memory import make_unwritten_plan

        tables = self._tables(questions)
        inputs = before if isinstance(self.source, str) and before is not None and before.is_as_found() else self._input()
        try:
            plan = make_unwritten_plan(job, inputs, tables, words=OF_A_CALL)
        except JobError as error:
            raise _of_call(error, questions) from None
        if isinstance(inputs, FrameInput) and plan.inputs is inputs and plan.reads_again:
            inputs.hold([*plan.read_types, *([] if plan.unit_type is None else [job.privacy.unit])])
        return plan

    def planned(self, questions: Sequence[Question], assumed: Assumed, asked: Asked[Found]) -> Found:
        """What is asked about the planning of the last question; no row is read."""
        from dpcore.query.planning import plannings_of

        tables = self._tables(questions)
        try:
            *_, planning = plannings_of(self.job(questions, Limit(sys.float_info.max, ANY_DELTA, "basic")), self._input(), assumed, tables)
            return asked(planning)
        except JobError as error:
            raise _of_call(error, questions) from None

    def _tables(self, questions: Sequence[Question]) -> dict[str, Inputs]:
        """The tables that are joined and public ones, by the paths that the job gives them, as far as they are frames."""
        from dpcore.frames.inputs import input_of, public_input_of

        public = {name: public_input_of(source) for question in questions for name, source in question.view.tables}
        return public | {name: input_of(source) for question in questions for name, source in question.view.joined}

    def _input(self) -> Inputs | None:
        """What is read; None for the files that the job names."""
        from dpcore.frames.inputs import input_of

        return None if isinstance(self.source, str) else input_of(self.source)

    def run(self, job: ReleaseJob, questions: Sequence[Question]) -> tuple[ReleasePlan, dict[str, Any]]:
        """Plan, charge and run a job, and keep the keys that it names; gives the plan and the document of its answers."""
        from dpcore.query.in_memory import answers

        plan = self.plan(job, questions)
        self.budget.spend(plan.job.total)
        try:
            plan = replace(plan, positions=self._positions(len(job.query)))
            remote = self.source if isinstance(self.source, RemoteSource) else None
            document = answers(plan, threads=self.threads) if remote is None else remote.answers(plan)
        except DataError as error:
            raise DataError(_about_cell(str(error))) from None
        except BaseException:
            if plan.publication.state == "planned":
                self.budget.give_back(plan.job.total)
            raise
        remember(questions, document["queries"])
        return plan, document

    def _document(self, questions: Sequence[Question], limit: Limit | None) -> dict[str, Any]:
        """The job as its file would have it."""
        from dpcore.query.in_memory import NOWHERE

        entries = _named([{**question.entry, **question.view.query} for question in questions])
        shared: dict[str, Any] = {}
        for key, tables in (("join", "joins"), ("derive", "derived"), ("lookup", "lookups")):
            found = [table for question in questions for table in getattr(question.view, tables)]
            shared[key] = [table for place, table in enumerate(found) if table not in found[:place]]
        shared["where"] = questions[0].view.condition
        shared = {key: each for key, each in shared.items() if each}
        made = questions[0].view.made
        if made is not None:
            shared = {**made, "per_unit": {**made["per_unit"], **shared}}
        if limit is None:
            limits: dict[str, Any] = {f"max_{key}": _sum_of(questions, key) for key in ("epsilon", "delta")}
        else:
            limits = {"max_epsilon": limit.epsilon, "max_delta": limit.delta, "accounting": limit.accounting}
        source = self.source if isinstance(self.source, str) else self.source.name
        grouped = any("group_by" in entry for entry in entries) if made is None else "by" in made["per_unit"]
        privacy = {key: value for key, value in self.privacy.items() if grouped or key != "max_groups_per_unit"}
        document: dict[str, Any] = {
            "version": 1,
            "input": {"path": source, **({} if self.dataset is None else {"dataset": self.dataset})},
            "output": {"path": NOWHERE},
            "privacy": {**privacy, **limits},
            **shared,
            "query": entries,
        }
        if self.ledger is not None:
            document["ledger"] = {"path": self.ledger}
        if self.rng is not None:
            document["testing"] = {"key_hex": bytes(self.rng.at(0).position().key).hex()}
        return document

    def _positions(self, count: int) -> tuple[int, ...] | None:
        """Positions of so many queries in the stream of the test key: each takes the next call of it."""
        from dpcore.query.request import MAX_QUERIES

        if self.rng is None:
            return None
        positions = tuple(self.rng.position().nonce for _ in range(count))
        if positions[-1] >= MAX_QUERIES:
            raise ParameterError(f"a KeyedRandom serves {MAX_QUERIES} queries of tables, and this one has served them all; use another key")
        return positions


def load_engine() -> None:
    """Load what plans and answers questions; a table that is never asked does without."""
    if "dpcore.query.in_memory" not in sys.modules:
        with uncollected():
            import dpcore.frames.inputs
            import dpcore.query.in_memory  # noqa: F401


def warn_unused(job: ReleaseJob, level: int) -> None:
    """Warn of an ε that was given for an answer without noise, as of the line of the caller that is so many calls away."""
    from dpcore.query.request import unused_in_words

    for text in unused_in_words(job):
        warnings.warn(text, UnusedEpsilonWarning, stacklevel=level + 1)


def _sum_of(questions: Sequence[Question], key: str) -> float:
    """The ε or δ of a query, and of one that names its groups, as the limit of the job."""
    numbers = [_number(question.entry.get(key, 0.0), key) for question in questions]
    return numbers[0] if len(numbers) == 1 else math.nextafter(sum(numbers), math.inf) if any(numbers) else 0.0


def _number(given: object, key: str) -> float:
    """An ε or δ; of what is no number, which is refused with its query, something that is one."""
    number = plain_number(given)
    fits = isinstance(number, int | float) and 0 <= number <= sys.float_info.max and (key != "delta" or number < 1)
    return float(number) if fits and (number or key == "delta") else {"epsilon": UNSTATED, "delta": 0.0}[key]


def _named(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The queries, with a name each where none is given."""
    taken = {entry["name"] for entry in entries if "name" in entry}
    found = []
    for entry in entries:
        name = entry.get("name")
        if name is None:
            columns = entry.get("columns") or [entry["column"]] if entry.get("column") or entry.get("columns") else []
            words = f"{entry['kind']} of {', '.join(map(str, columns))}" if columns else str(entry["kind"])
            name = next(each for each in (words, *(f"{words} ({i})" for i in range(2, len(entries) + 2))) if each not in taken)
            taken.add(name)
        found.append({"name": name, **entry})
    return found


def _of_call(error: JobError, questions: Sequence[Question]) -> JobError:
    """The error about a job as one about the arguments of a call: those of the last query, and no name that nobody gave."""
    from dpcore.query.kinds import KINDS
    from dpcore.tables.mistakes import Mistake, MistakesError, listed

    is_alone = sum(not KINDS[question.entry["kind"]].names_groups for question in questions) == 1
    position, is_named = len(questions) - 1, "name" in questions[-1].entry
    mistakes = error.mistakes if isinstance(error, MistakesError) else (Mistake((), str(error)),)
    own = (is_alone or each.path[:2] == ("query", position) for each in mistakes)
    return JobError(listed(_as_of_argument(each, is_named) if is_own else str(each) for each, is_own in zip(mistakes, own, strict=True)))


def _as_of_argument(mistake: Mistake, is_named: bool) -> str:
    """The parameter, and what is wrong with it; a message that begins with its parameter names it once."""
    from dpcore.tables.mistakes import dotted_path

    of_query = mistake.path[:1] == ("query",)
    place = dotted_path(mistake.path[2:] if of_query else mistake.path)
    if not mistake.path and is_named:
        place = mistake.about
    place = ", ".join(filter(None, (place, mistake.part)))
    says_so = re.match(rf"{re.escape(place)}\b", mistake.text) is not None
    return mistake.sentence("" if says_so else place) + (mistake.named if is_named else "")


def _about_cell(text: str) -> str:
    """The message about a cell for which nothing is declared as one about the arguments of a call."""
    from dpcore.tables.types.values import ADVICE, UNKNOWN_OR_SKIP

    for said in (f": {ADVICE}", f": {UNKNOWN_OR_SKIP}"):
        text = text.replace(said, "")
    for key, advice in _ADVICE.items():
        text = text.replace(f"the job declares no `{key}` for this column", f"{key} is not given; {advice}")
    return text.replace(CURATOR, "")
