"""`running_total`: the number of rows of all steps of a series so far, of which each run of a job counts one."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from dpcore._dataclasses import dataclass
from dpcore._validation import check_integer
from dpcore.errors import ParameterError
from dpcore.mechanisms import RunningTotals
from dpcore.mechanisms._totals import MOST_STEPS, Factorisation
from dpcore.mechanisms.totals import around_total
from dpcore.query.estimators import AT_LEAST, Estimator
from dpcore.query.group_fields import PRIVATE
from dpcore.query.kinds.base import StatisticKind
from dpcore.query.kinds.count import Count, CountEstimator, RowsQuery
from dpcore.query.noise import Draw, Noise
from dpcore.query.query_sections import StepOfSeries
from dpcore.tables.fields import CheckedBy, Name, Positive, checked

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from dpcore.privacy import Relation
    from dpcore.query.encoders import Encoder
    from dpcore.query.kinds.base import Columns, Entry
    from dpcore.query.sensitivity import Contribution
    from dpcore.query.statistics import Statistic
    from dpcore.rng import Stream

    Counts = npt.NDArray[np.int64]

MOST_CELLS = 2**22
"""Steps times groups: numbers that a state holds, at most."""
LAST_DAY = 28
"""Day of a month that each month has."""
COUNT = Count()
"""The kind that says what is counted."""
CLAIM = (
    "Persons who are in at most so many steps are protected. You declare this; a job sees one file in a run and cannot check it. "
    "Default: one event is protected, which is what one unit has in one step."
)


def _moment(key: str, value: object) -> dt.date | int:
    """A step, given as a number or a date."""
    text = value.strip() if isinstance(value, str) else ""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        return value
    if text.isascii() and text.isdigit() and len(text) < 10:
        return int(text)
    try:
        return dt.date.fromisoformat(text)
    except ValueError:
        wanted = "a date such as 2026-11-23" + (", or a number" if key == "step" else "")
        raise ValueError(f'{key} must be {wanted}, got {value!r}; in a job of a schedule step = "${{DATE}}"') from None


def _step(value: object) -> dt.date | int:
    return _moment("step", value)


def _first(value: object) -> dt.date:
    found = _moment("first", value)
    if isinstance(found, int):
        raise ValueError(f"first must be a date such as 2026-01-05, got {value!r}")  # noqa: TRY004  # pydantic passes on ValueErrors only
    return found


class RunningTotalQuery(RowsQuery):
    """`kind = "running_total"`: rows of all steps so far, all or some of them; each run of the job counts the rows of one step."""

    kind: Literal["running_total"]
    epsilon: Annotated[Positive, Field(description="ε of all steps together, in (0, ∞).")] = 0.0
    steps: Annotated[int, checked(check_integer, low=1, high=MOST_STEPS), Field(description="Steps of the whole series.")]
    step: Annotated[
        dt.date | int, CheckedBy(_step), Field(description='The step of this run: its number from 1, or its date, as "${DATE}".')
    ]
    first: Annotated[dt.date | None, CheckedBy(_first), Field(description="Date of the first step, if steps are dates.")] = None
    every: Annotated[Literal["day", "week", "month"] | None, Field(description="How far apart the dates are.")] = None
    state: Annotated[Name, Field(description="File for what the next run needs. It is as secret as the data.")]
    max_steps_per_unit: Annotated[int | None, checked(check_integer, low=1, high=MOST_STEPS), Field(description=CLAIM)] = None

    @model_validator(mode="after")
    def _steps_are_declared(self) -> Self:
        if isinstance(self.step, int):
            if self.first is not None or self.every is not None:
                raise ValueError("first and every are for steps that are dates, and step is a number; leave them out")
        elif self.first is None or self.every is None:
            raise ValueError('first, the date of the first step, and every, "day", "week" or "month", are required where step is a date')
        elif self.every == "month" and self.first.day > LAST_DAY:
            raise ValueError(f'first = {self.first} with every = "month": the day must be at most {LAST_DAY}, which each month has')
        try:
            self._label(self.steps)
        except (OverflowError, ValueError):
            raise ValueError(f"first = {self.first} and steps = {self.steps} end after the year 9999") from None
        if self.max_steps_per_unit is not None and self.max_steps_per_unit > self.steps:
            raise ValueError(f"max_steps_per_unit must be in [1, steps = {self.steps}], got {self.max_steps_per_unit}")
        if self.grouping is not None and self.grouping[1] == PRIVATE:
            raise ValueError('groups = "private" is not for a running_total: other groups might be found in each step; list them')
        self._check_step()
        return self

    def _check_step(self) -> None:
        number, is_step = self._place
        if number < 1:
            raise ValueError(f"step = {self.step} is before the first step, {self._label(1)}")
        if number > self.steps or (number == self.steps and not is_step):
            raise ValueError(
                f"step = {self.step} is beyond the last of steps = {self.steps}, {self._label(self.steps)}: the series has ended. Begin "
                "another one with a name and a state of its own, which spends its epsilon anew"
            )
        if not is_step:
            before, after = self._label(number), self._label(number + 1)
            raise ValueError(
                f"step = {self.step} is no step: there is one every {self.every} from first = {self.first}. Beside it are {before} and "
                f"{after}: --set DATE={before}"
            )

    @property
    def _place(self) -> tuple[int, bool]:
        """The number of this run's step, or of the one before its date, which then is that of none."""
        if isinstance(self.step, int):
            return self.step, True
        first = self.first or self.step
        if self.every == "month":
            months = 12 * (self.step.year - first.year) + self.step.month - first.month
            return months + (self.step.day >= first.day), self.step.day == first.day
        steps, rest = divmod((self.step - first).days, 7 if self.every == "week" else 1)
        return steps + 1, rest == 0

    def _label(self, number: int) -> str:
        """A step as the job writes it."""
        return str(number) if isinstance(self.step, int) else str(self._date(number))

    def _date(self, number: int) -> dt.date:
        first = self.first or dt.date.min
        if self.every == "month":
            years, month = divmod(first.month - 1 + number - 1, 12)
            return dt.date(first.year + years, month + 1, first.day)
        return first + dt.timedelta((number - 1) * (7 if self.every == "week" else 1))

    @property
    def step_of_series(self) -> StepOfSeries:
        """The step of this run."""
        number, _ = self._place
        return StepOfSeries(self.state, self.steps, number, self._label(number), self.max_steps_per_unit, self._label)


class RunningTotal(StatisticKind):
    """The rows of all steps together, with noise that later steps share with earlier ones."""

    names, fields = ("running_total",), (RunningTotalQuery,)
    asked_by = 'a running total goes on from one run of a job to the next, kind = "running_total" of dpcore release'
    counts_rows = True

    def columns(self, position: int, query: RunningTotalQuery) -> Columns:
        return COUNT.columns(position, query)

    def calibrate(self, query: RunningTotalQuery, columns: Columns, bound: Contribution, relation: Relation, groups: int) -> Estimator:
        """For all steps together; persons in several steps are a histogram over steps, as they may be replaced by others in others."""
        cells: Any = columns[0][1] if columns else None
        if cells is None and bound.n_is_public and not groups:
            raise ParameterError(
                "a running_total of all rows needs no noise, because their number is public with unit = 'row', relation = 'replace' and no "
                "condition: ask kind = 'count', which costs nothing, or protect the number of rows by relation = 'add_remove'"
            )
        sensitivity = bound.cells if groups or query.max_steps_per_unit is not None else bound.count
        mechanism = RunningTotals(
            query.steps,
            query.epsilon,
            query.delta,
            sensitivity.l2 if query.delta else int(sensitivity.l1),
            max_steps_per_unit=query.max_steps_per_unit or 1,
            relation=relation,
        )
        return RunningTotalEstimator(query, cells, mechanism)

    def check_groups(self, query: RunningTotalQuery, estimator: Estimator, groups: int) -> None:  # noqa: ARG002
        """Raise `ParameterError` if the state would be too large."""
        if query.steps * groups > MOST_CELLS:
            raise ParameterError(f"steps = {query.steps} times {groups} groups must be at most {MOST_CELLS}, got {query.steps * groups}")

    def question(self, query: Entry) -> str:
        return f"{COUNT.question(query)}, in all steps up to {query['at']} (step {query['taken']} of {query['steps']})"

    def declared(self, query: Entry) -> str:
        return COUNT.declared(query)

    def caveats(self, query: Entry) -> list[str]:
        claimed = query.get("max_steps_per_unit")
        if claimed is None:
            whom = (
                "The guarantee protects one event, which is what one unit has in one step; one that is in several steps is protected less."
            )
        else:
            whom = (
                f"The guarantee protects units that are in at most {claimed} steps. The job claims that they are; nothing enforces it from "
                "one file to the next."
            )
        return [f"All {query['steps']} steps together spend this ε. {whom}"]


@dataclass(frozen=True, slots=True)
class RunningTotalEstimator(Estimator):
    """Totals of rows, made of what this step and those before it released."""

    section: RunningTotalQuery
    cells: Any
    mechanism: RunningTotals

    @property
    def reads(self) -> tuple[tuple[str, Encoder], ...]:
        return self._count.reads

    @property
    def statistic(self) -> Statistic:
        return self._count.statistic

    @property
    def _count(self) -> CountEstimator:
        """The count of this step, before its noise."""
        mechanism: Any = None
        return CountEstimator(self.section, self.cells, mechanism, grouping=self.grouping)

    @property
    def noise(self) -> tuple[Noise, ...]:
        return (Noise(self.mechanism.way.law, self.mechanism.reach, self.mechanism.scale),)

    @property
    def rho(self) -> float | None:
        return self.mechanism.zcdp

    def expected_error(self, rows: int | None) -> float | None:  # noqa: ARG002
        return self.mechanism.stderr(step=self.section.step_of_series.number)

    def parameters(self) -> dict[str, Any]:
        step = self.section.step_of_series
        claimed = {} if step.claimed is None else {"max_steps_per_unit": step.claimed}
        wider = AT_LEAST if isinstance(self.mechanism.way, Factorisation) else {}
        return self._count.parameters() | {"steps": step.steps, "taken": step.number, "at": step.label} | claimed | wider

    def go_on(self, kept: Any, total: Counts, rng: Stream | None) -> tuple[Any, list[int], list[Any]]:
        """Make the step: what the next one needs, what is released, and the totals."""
        step, way, draw = self.section.step_of_series.number, self.mechanism.way, Draw(rng)
        states, answers, totals = [], [], []
        before = [way.begin() for _ in range(self.groups)] if kept is None else [way.begin(each) for each in kept]
        for state, entry, position in zip(before, total[:-1].tolist(), draw.of_groups(self.groups), strict=True):
            answers.append(state.add(entry, self.mechanism.noise_of(step, position)))
            totals.append(state.total())
            states.append(state.written())
        return states, answers, totals

    def can_go_on(self, kept: Any, step: int) -> bool:
        try:
            states = [self.mechanism.way.begin(each) for each in kept]
        except (ValueError, TypeError):
            return False
        return len(states) == self.groups and all(state.step == step for state in states)

    def of_step(self, totals: list[Any]) -> dict[str, list[Any]]:
        step = self.section.step_of_series.number
        around = [list(around_total(each, self.mechanism, step, self.section.confidence)) for each in totals]
        return {"value": totals, "stderr": [self.mechanism.stderr(step=step)] * len(totals), "interval": around}
