"""Series of runs: each run of a job makes one step, and goes on with what the run before it has kept.

The order of a step is: the ledger is charged, which costs only at the first one; the rows are read; the step is drawn and is in the state
file, on the disk; the ledger has its number and the digest of its answer; the answer is published. A run that dies in between has either
not drawn, and the next one draws, or has stored its answer, and the next one publishes that. So no step has two answers.

A state may be one step ahead of its ledger, never behind: what is behind is an older copy, which would draw a step again.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import math
from typing import TYPE_CHECKING, Any, Self

from dpcore.errors import JobError, ParameterError, StorageError, reason
from dpcore.mechanisms._totals import MOST_BITS
from dpcore.tables.output.state_file import NEWEST, StateFile
from dpcore.tables.run_ids import canonical

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from dpcore.query.estimators import Estimator
    from dpcore.query.request import ReleaseJob
    from dpcore.rng import Stream
    from dpcore.tables.output.charge import Charge
    from dpcore.tables.output.spending import Spending

FORMAT = 1
WHAT = "the state of a series of dpcore: as secret as the data"
OF_ONE_QUERY = ("step", "state", "confidence", "weight", "groups")
"""Keys of a query that runs of one series may have each for itself; groups are there as they are answered for."""
OF_ONE_RUN = ("input", "output", "ledger", "testing", "column", "query", "privacy")
"""Keys of a job that they may have, or of which a part is compared. All others are those of the series."""
LIMITS = ("max_epsilon", "max_delta", "accounting")
"""What the job may spend; what it spends is in its query."""
ENDED = "Begin another series, which is paid for anew: give its query another name, and a state of its own"


class Series:
    """The series of a job, and the step of this run. As a context manager it keeps other runs from the state.

    Parameters
    ----------
    job : ReleaseJob
        Has one query.
    estimator : Estimator
        Of that query.

    Attributes
    ----------
    id : str
        Identifies the series in its ledger: a digest of what all its runs have in common.
    what : str
        The step in words, for the ledger.
    """

    def __init__(self, job: ReleaseJob, estimator: Estimator) -> None:
        self._step, self._estimator = estimator.section.step_of_series, estimator
        self._file = StateFile("query[0].state", self._step.path)
        self._about = _about(job, estimator)
        self._charge: Charge | None = None
        self._state: dict[str, Any] = {}
        self.id = _digest(self._about)
        self.what = f"step {self._step.number} of {self._step.steps} of {estimator.section.name!r} on {job.input.path}"

    def check(self, publication: Spending) -> None:
        """Raise `JobError` unless this run can make its step, or publish what is stored of it, or was published before."""
        if not publication.names:
            raise JobError("a series goes on from one run of a job to the next: ask it in a job that writes its answers, by dpcore release")
        self._charge = publication.charge
        if self._charge.earlier is None:
            self._load()

    def __enter__(self) -> Self:
        self._file.__enter__()
        try:
            self._load()
        except BaseException:
            self._file.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._file.__exit__(kind, error, trace)

    @property
    def is_stored(self) -> bool:
        """Whether the step was made, by a run that did not publish it or under another output."""
        return bool(self._made == self._step.number)

    def answer(self, estimator: Estimator, total: Any, rng: Stream | None) -> dict[str, Any]:
        """The answer of the step: the one that is stored, or a new one, which then is."""
        self._note()
        if not self.is_stored:
            self._make(estimator, total, rng)
            self._note()
        said = estimator.of_step(self._state["totals"])
        return said if estimator.grouping is not None else {key: values[0] for key, values in said.items()}

    def _make(self, estimator: Estimator, total: Any, rng: Stream | None) -> None:
        kept, answers, totals = estimator.go_on(self._state.get("kept"), total, rng)
        step, before = self._step.number, self._state.get("chain", self.id)
        state = {
            "what": WHAT,
            "format": FORMAT,
            "about": self._about,
            "step": step,
            "label": self._step.label,
            "before": before,
            # Of what is released alone: everyone who can read the ledger can read it.
            "chain": _digest([before, step, answers]),
            "totals": totals,
            # After the last step nothing is needed any more: the state is wiped.
            "kept": kept if step < self._step.steps else None,
        }
        self._file.replace(state)
        self._state = state

    def _note(self) -> None:
        """Record the last step in the ledger, if it is not there."""
        charge = self._of_charge
        if charge.is_recorded and self._made and charge.last_step() != (self._made, self._state["chain"]):
            try:
                charge.note_step(self._made, self._state["chain"])
            except ParameterError:
                raise StorageError(f"another run has gone on from a copy of {self._file}; this one is not published") from None
            except OSError as error:
                said = f"cannot record the step in the ledger{reason(error)}"
                raise StorageError(f"{said}; it is stored, and another run publishes it") from None

    @property
    def _made(self) -> int:
        return int(self._state.get("step", 0))

    @property
    def _last(self) -> str:
        return f"step {self._made} ({self._state['label']})"

    @property
    def _of_charge(self) -> Charge:
        if self._charge is None:
            raise AssertionError("a series is checked before it is run")
        return self._charge

    def _load(self) -> None:
        self._state = self._file.read() or {}
        if self._state:
            try:
                self._check_about()
            except RecursionError:
                raise self._file.damaged() from None
            self._check_shape()
        self._check_ledger()
        self._check_step()

    def _check_about(self) -> None:
        known = self._state.get("about")
        if self._state.get("what") != WHAT or self._state.get("format") != FORMAT or not isinstance(known, dict):
            raise JobError(f"{self._file} is no state that this version of dpcore knows: name that of this series, or a new file")
        if known == self._about:
            return
        new, old = _flat(self._about), _flat(known)
        key = next(key for key in (*new, *old) if (key in new, new.get(key)) != (key in old, old.get(key)))
        said, had = (json.dumps(values[key]) if key in values else "nothing" for values in (new, old))
        raise JobError(
            f"{key} = {said}, but the series of {self._file} was begun with {had}: one job has one state. Set it back, or name another "
            "state and another query.name for a series of its own"
        )

    def _check_shape(self) -> None:
        """Raise `StorageError` unless the state has what this version writes: any program that writes the file can make its digest."""
        state, made = self._state, self._state.get("step")
        if type(made) is not int or not 1 <= made <= self._step.steps:
            raise self._file.damaged()
        texts, totals = [state.get(key) for key in ("label", "before", "chain")], state.get("totals")
        if not all(isinstance(each, str) for each in texts) or not isinstance(totals, list):
            raise self._file.damaged()
        if len(totals) != self._estimator.groups or not all(map(_is_total, totals)):
            raise self._file.damaged()
        kept = state.get("kept")
        if (kept is None) != (made == self._step.steps) or (kept is not None and not self._estimator.can_go_on(kept, made)):
            raise self._file.damaged()

    def _check_ledger(self) -> None:
        """Compare the state with the ledger, if there is one."""
        charge = self._of_charge
        if not charge.is_recorded:
            return
        last, made = charge.last_step(), self._made
        if last is None:
            if made:
                raise JobError(
                    f"{self._file} has step {made}, and the ledger has not been paid for this series: name the ledger that was, as "
                    "ledger.path"
                )
            return
        step, chain = last
        if step > made:
            found = f"has step {made}" if made else "is not there"
            raise JobError(
                f"{self._file} {found}, but step {step} was published: it is an older copy, and would draw a step a second time. {NEWEST}; "
                f"if there is none, the series has ended. {ENDED}"
            )
        agrees = {made: self._state.get("chain", ""), made - 1: self._state.get("before") if made > 1 else ""}
        if step not in agrees or agrees[step] != chain:
            raise JobError(
                f"{self._file} has step {made}, and the ledger has step {step} of another history: one of them is a copy. Restore the "
                "newest of both"
            )

    def _check_step(self) -> None:
        step, made = self._step, self._made
        key = f"query[0].step = {step.label!r}"
        if step.number == made + 1 or (made and step.number == made):
            return
        if step.number < made:
            following = f"The next one is {step.label_of(made + 1)}" if made < step.steps else "It was the last"
            raise JobError(
                f"{key} is step {step.number}, and {self._file} has {self._last}: steps are made once, in order, and the answer of this "
                f"one was published then. {following}"
            )
        if not made:
            raise JobError(
                f"{key} is step {step.number}, and there is no {self._file}: a series begins with {step.label_of(1)}, and goes on with its "
                "state. Restore the state, or run that step first"
            )
        raise JobError(
            f"{key} is step {step.number}, and {self._file} has {self._last}: {step.label_of(made + 1)} comes first. Run it, on a table "
            "without rows if there is nothing to count"
        )


def _about(job: ReleaseJob, estimator: Estimator) -> dict[str, Any]:
    """What all runs of a series have in common."""
    said = canonical(job)
    for stage in (said, said.get("per_unit", {})):
        for joined in stage.get("join", ()):  # each run may have other files, as of its input
            for key in ("path", "format"):
                joined.pop(key, None)
    own = {key: getattr(estimator.section, key) for key in said["query"][0] if key not in OF_ONE_QUERY}
    query = {key: str(value) if isinstance(value, dt.date) else said["query"][0][key] for key, value in own.items()}
    grouping = {} if estimator.grouping is None else estimator.grouping.parameters()
    about = {
        **{key: value for key, value in said.items() if key not in OF_ONE_RUN},  # keys that jobs get later too
        "input": {"dataset": job.input.dataset},
        "privacy": {key: value for key, value in said["privacy"].items() if key not in LIMITS},
        "query[0]": query | grouping | {"epsilon": estimator.section.epsilon, "scale": [noise.scale for noise in estimator.noise]},
        "ledger": "is named" if job.ledger is not None else "is not named",
        "testing": "is there" if job.testing is not None else "is not there",
    }
    found: dict[str, Any] = json.loads(json.dumps(about, default=str))
    return found


def _is_total(value: Any) -> bool:
    """Whether a value can be a total: an integer, not longer than those of a state, or a finite float."""
    return value.bit_length() <= MOST_BITS if type(value) is int else type(value) is float and math.isfinite(value)


def _flat(about: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in about.items():
        found |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) and value else {f"{prefix}{key}": value}
    return found


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
