"""The charge of a job to its ledger: one spend for the whole job, and its state."""

from __future__ import annotations

from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpcore import accounting
from dpcore._dataclasses import dataclass
from dpcore._guarantee import OWN_ROWS
from dpcore.errors import BudgetError, JobError, ParameterError, StorageError, reason
from dpcore.privacy import Privacy
from dpcore.tables.output.job_words import OF_A_JOB, ledger_command
from dpcore.tables.run_ids import run_ids

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dpcore._disk.addresses import Location
    from dpcore._disk.locks import NameLock
    from dpcore._disk.sealed_files import SealedFile
    from dpcore.accounting import Budget, Entry, Ledger, Reservation
    from dpcore.tables.output.job_words import JobWords
    from dpcore.tables.sections import JobFile

FINISHED = ("sealed", "published", "done")
"""States of a run whose output is complete: any process can publish what is sealed."""
ANOTHER_RUN = "name another output.path and another key file"
"""What makes new answers beside a release whose key is kept."""


@dataclass(frozen=True, slots=True)
class Spend:
    """The cost of a job, and its description for the ledger.

    Attributes
    ----------
    what : str
        In words, for the ledger.
    whole : Privacy
        (ε, δ) of the whole job.
    parts : tuple of Privacy or float, optional
        For a ledger that adds ρ up: the ρ of each part, or its (ε, δ) if that is all that is known. Default: the whole.
    queries : tuple of dict, optional
        What is asked, as `recorded` gives it.
    series : str or None, default None
        Identifier of the series of runs that this pays for as a whole; only the first of them is charged.
    commitment : str or None, default None
        Commitment to the key of the noise, of a release that can be replayed.
    """

    what: str
    whole: Privacy
    parts: tuple[Privacy | float, ...] = ()
    queries: tuple[dict[str, Any], ...] = ()
    series: str | None = None
    commitment: str | None = None

    def amount(self, kind: str) -> Privacy | tuple[Privacy | float, ...]:
        """The amount that a ledger of some kind counts."""
        return self.parts if kind == "zcdp" and self.parts else self.whole


class Charge:
    """The charge of a job to its ledger: one reservation, which stays even if the job fails.

    It is made before the first row is read, so that no failure reveals anything about a row without a charge; a job that fails afterwards
    stays charged, and its entry has the class of the failure. Without a ledger every step does nothing.

    Parameters
    ----------
    job : JobFile
        Names the ledger, if there is one.
    spend : Spend
        What the job costs.
    overwrite : bool
        Whether the run is a new one even if the ledger has it already.
    is_repeatable : bool, default True
        Whether the run has an output, by which it is known again.
    words : JobWords, optional
        Words of messages that depend on the door. Default: those for a job file.

    Attributes
    ----------
    runs : tuple of str
        Identify the run, the id of today first: see `run_ids`. None for a run without an output.
    earlier : Entry or None
        The same run, if its output is complete and is not requested again.
    is_recorded : bool
        Whether there is a ledger.
    is_open : bool
        Whether the ledger has been charged for a job that is not done.

    Raises
    ------
    JobError
        If the ledger is for other neighbours, another unit or another data set, or holds another commitment.
    StorageError
        If there is no such ledger.
    BudgetError
        If it does not have what the job spends.
    """

    def __init__(self, job: JobFile, spend: Spend, *, overwrite: bool, is_repeatable: bool = True, words: JobWords = OF_A_JOB) -> None:
        self._job, self._spend, self._asking = job, spend, words
        self._reservation: Reservation | None = None
        self.is_open = False
        self.runs = run_ids(job) if is_repeatable else ()
        self._ledger = _opened(job, words)
        self.is_recorded = self._ledger is not None
        self.earlier: Entry | None = None
        if self._ledger is None:
            return
        found = self._ledger.find(*self.runs) if self.runs and not overwrite else None
        self.earlier = found if found is not None and found.state in FINISHED else None
        self._check_commitment()
        if self.earlier is None:
            self.check()

    @property
    def run(self) -> str | None:
        """The id of the run, that of the earlier run if it has published; None for a run without an output."""
        if self.earlier is not None:
            return self.earlier.run
        return self.runs[0] if self.runs else None

    @property
    def is_committed(self) -> bool:
        """Whether the noise follows from a key that is kept, so that the run has one noise."""
        return self._spend.commitment is not None

    @property
    def to_spend_again(self) -> str:
        """What to do for new answers. A committed run has no others."""
        return ANOTHER_RUN if self.is_committed else "use --overwrite"

    @property
    def ledger_path(self) -> Path | None:
        """Where the ledger is; None if there is none."""
        return None if self._ledger is None else Path(self._ledger.path)

    def check(self) -> None:
        """Raise `BudgetError` if the charge does not fit into the ledger now; spends nothing."""
        if self._ledger is None or self.last_step() is not None:
            return
        amount = self._spend.amount(self._ledger.kind)
        if not self._ledger.fits(amount):
            needs, left = (_words(part) for part in (self._ledger.cost(amount), self._ledger.remaining))
            raise BudgetError(self._asking.too_little(needs, str(self._ledger.path), left))

    def _check_commitment(self) -> None:
        """Raise `JobError` if the ledger will not take the key of the noise; spends nothing."""
        wanted = self._spend.commitment
        if self._ledger is None or wanted is None:
            return
        if self.earlier is not None and self.earlier.commitment == wanted:
            return  # its answers are there
        if self.earlier is not None and self.earlier.commitment is None:
            said = f"entry {self.earlier.id} of the ledger {self._path} has published it without a key file"
            raise JobError(f"this run cannot be committed to any more: {said}. Name another output.path, which makes another run")
        from dpcore.accounting.ledger.commitments import refusal

        entries = self._ledger.entries()
        known = ((entry.id, entry.run, entry.commitment, entry.state) for entry in entries if entry.commitment is not None)
        refused = refusal(known, self.run, wanted)
        if refused is not None:
            raise JobError(f"{refused} (ledger {self._path})")

    def reserve(self, output: Location | None) -> None:
        """Charge the whole job; one without an output is never taken for another run of the same job."""
        if self._ledger is None:
            return
        self._reservation = self._ledger.spend(
            self._spend.amount(self._ledger.kind),
            what=self._spend.what,
            job=None if output is None else str(output.absolute()),
            run=self.runs[0] if self.runs else None,
            unit=self._job.privacy.protected,
            dataset=self._job.input.dataset,
            secure=self._job.secure,
            queries=self._spend.queries,
            series=self._spend.series,
            commitment=self._spend.commitment,
        )
        self.is_open = True

    def last_step(self) -> tuple[int, str] | None:
        """The last step of the series that the ledger knows, with its answer; None if the ledger has not been paid for one."""
        return None if self._ledger is None or self._spend.series is None else self._ledger.last_step(self._spend.series)

    def note_step(self, step: int, answer: str) -> None:
        """Record a step of the series, before its answer is published."""
        if self._ledger is not None and self._reservation is not None and self._spend.series is not None:
            self._ledger.note_step(self._reservation.id, self._spend.series, step, answer)

    def note(self, lock: NameLock) -> None:
        """Note beside an output where its run is recorded."""
        if self._ledger is not None:
            lock.note(str(self._ledger.path))

    def seal(self, files: Sequence[SealedFile], *, overwrite: bool) -> None:
        """Record complete files; from now on any process can publish them."""
        if self._reservation is not None:
            self._reservation.seal(files, overwrite=overwrite)

    def published(self) -> None:
        """Record that all files have their names and that the run is done."""
        if self._reservation is not None:
            self._reservation.published()
        self.done()

    def done(self) -> None:
        """Record that the run is done."""
        if self._reservation is not None:
            self._reservation.done()
        self.is_open = False

    def failed(self, word: str) -> bool:
        """Record the class of a failure; False if that is not possible: the run then stays reserved, which counts the same."""
        try:
            if self._reservation is not None:
                self._reservation.failed(word)
        except OSError:
            return False
        return True

    def finish(self, ledger: str, names: Iterable[Location]) -> None:
        """Publish the files that a dead job has sealed under some names, for any ledger; raise `StorageError` if that is not possible."""
        try:
            other = accounting.Ledger(ledger)
            other.complete()
            waiting = [entry for entry in other.entries() if entry.state == "sealed"]
        except FileNotFoundError:
            return  # The ledger has no entry of that run any more.
        except (OSError, ParameterError) as error:
            raise StorageError(
                f"an earlier job has completed an output that is not published yet, but its ledger {ledger} cannot be opened{reason(error)}"
            ) from None
        wanted = {name.absolute() for name in names}
        for entry in waiting:
            if any(file.path in wanted for file in entry.files):
                what = f"{entry.files[-1].path} of an earlier job (entry {entry.id})"
                raise StorageError(f"{what} is sealed and could not be published: see {_completing(ledger)}")

    def already(self, names: Sequence[Location]) -> str | None:
        """Return the message if this run was published before, by any process; a sealed output is published now.

        Raises
        ------
        JobError
            If the output of that run is gone, or something else has its name.
        StorageError
            If the output is sealed and cannot be published.
        """
        if self.earlier is None or self._ledger is None:
            return None
        if self.earlier.state in {"sealed", "published"}:  # of a run that was killed before it could say that it is done
            try:
                self._ledger.complete()
            except OSError as error:
                if self.earlier.state == "sealed":
                    raise StorageError(f"the ledger {self._path} cannot be written{reason(error)}") from None
            self.earlier = self._ledger.find(*self.runs) or self.earlier
            if self.earlier.state == "sealed":
                raise StorageError(f"{names[-1]} is sealed and could not be published: see {_completing(self._ledger.path)}")
        self._check_output(names)
        return f"already published as {self._earlier_words(names)}: nothing was read, and nothing is spent"

    def foretold(self, names: Sequence[Location]) -> str | None:
        """What a run would do if the ledger has it already; nothing is published, and nothing is written.

        Raises
        ------
        JobError
            If the output of that run is gone, or something else has its name.
        """
        if self.earlier is None:
            return None
        if self.earlier.state == "sealed":
            return f"a run would spend nothing: it would publish {', '.join(map(str, names))}, which a killed run has completed"
        self._check_output(names)
        return f"a run would spend nothing and read nothing: already published as {self._earlier_words(names)}"

    def _earlier_words(self, names: Sequence[Location]) -> str:
        """Where, when and by which entry the run was published."""
        if self.earlier is None:
            raise AssertionError("there is no earlier run")
        names = [file.path for file in self.earlier.files] or names  # how many shards there are may follow from the rows
        when = f"{self.earlier.when.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
        return f"{', '.join(map(str, names))} on {when} (entry {self.earlier.id} of the ledger {self._path})"

    def _check_output(self, names: Sequence[Location]) -> None:
        """Raise `JobError` unless the files of the earlier run are still there."""
        if self.earlier is not None and not _is_output_of(self.earlier):
            raise JobError(
                f"this run was published as {self._earlier_words(names)}, and that is not what is there now. Running it again would spend "
                f"its privacy budget a second time; if that is intended, {self.to_spend_again}"
            )

    def summary(self) -> dict[str, Any] | None:
        """The ledger as it is now, for the document, with the number of this run's entry."""
        if self._ledger is None:
            return None
        from dpcore.tables.ledger_state import ledger_summary

        return ledger_summary(self._ledger, self._path) | {"entry": self.entry}

    @property
    def entry(self) -> int | None:
        """Number of the entry of this run in the ledger: of its own charge, or of the earlier run that has published its output."""
        if self._reservation is not None:
            return self._reservation.id
        return None if self.earlier is None else self.earlier.id

    @property
    def _path(self) -> str:
        return "" if self._job.ledger is None else self._job.ledger.path


def _completing(ledger: str | Path) -> str:
    from dpcore._disk.addresses import argument

    return f"dpcore ledger complete {argument(ledger)}"


def _is_output_of(entry: Entry) -> bool:
    """Whether the files of a run still have the contents that it sealed."""
    from dpcore._disk.sealed_files import content_digest, has_content

    return all(
        content_digest(file.path.resolve()) == file.sha256 if isinstance(file.path, Path) else has_content(file) for file in entry.files
    )


def _words(part: Budget) -> str:
    squares = (f"{name} {value:.6g}" for name, value in (("rho", part.rho), ("mu", part.mu)) if value is not None)
    counted = next(squares, f"epsilon {part.epsilon!r}")
    return f"{counted}, delta {part.delta!r}"


def _opened(job: JobFile, words: JobWords) -> Ledger | None:
    if job.ledger is None:
        return None
    from dpcore.tables.local_paths import check_local

    path = job.ledger.path
    check_local("ledger.path", path)
    try:
        ledger = accounting.Ledger(path)
    except FileNotFoundError:
        raise StorageError(f"ledger.path = {path!r}: no such file; make one with {ledger_command(job, path)}") from None
    except OSError as error:
        raise StorageError(f"{error.filename or path}: {error.strerror or 'the ledger cannot be read'}") from None
    differences, settings = _differences(job, ledger, words)
    if not differences:
        return ledger
    # The ledger's own setting comes first: a second ledger for the same people would spend their budget twice.
    same = f"If the data are those of the ledger, {words.settings(settings)}"
    again = "" if any(True for _ in ledger.entries()) else "It has no entries yet, so it can also be deleted and made again for this. "
    raise JobError(
        f"{'; '.join(differences)}. {same}; a second ledger would spend the budget of the same people twice. {again}"
        f"Only for other data {words.another_ledger(job, path)}"
    )


def _differences(job: JobFile, ledger: Ledger, words: JobWords) -> tuple[list[str], list[str]]:
    """What a job and its ledger say differently about whom the budget protects, and the settings that the ledger needs."""
    agree = (
        ("privacy", "relation", job.total.relation, ledger.relation, "neighbours"),
        ("privacy", job.privacy.key_of_unit, job.privacy.protected, ledger.unit, "units"),
    )
    found, settings = [], []
    for table, key, said, wanted, what in agree:
        if said == wanted:
            continue
        found.append(
            f"{words.key(table, key)} = {said!r}, but the budget of the ledger {ledger.path} is for {wanted!r}: "
            f"guarantees for different {what} do not add up"
        )
        settings.append(words.setting(table, _keys(key, wanted)))
    if job.privacy.protected != ledger.unit:
        found[-1] += job.privacy.called_otherwise(ledger.unit)
    if ledger.dataset is not None and job.input.dataset != ledger.dataset:
        said = "is required" if job.input.dataset is None else f"= {job.input.dataset!r}"
        found.append(f"{words.key('input', 'dataset')} {said}, and the ledger {ledger.path} is for the data set {ledger.dataset!r}")
        settings.append(words.setting("input", {"dataset": ledger.dataset}))
    return found, settings


def _keys(key: str, wanted: str) -> dict[str, str]:
    """The keys that give a key the value that a ledger has; rows without a unit have one of their own."""
    return {key: wanted.removesuffix(OWN_ROWS), "null_unit": "own"} if key == "unit" and wanted.endswith(OWN_ROWS) else {key: wanted}
