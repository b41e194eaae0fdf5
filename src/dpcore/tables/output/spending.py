"""The charge of a run, from its plan to its end: what every run does, whether it writes files or not."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Literal, Self

from dpcore._disk.signals import Deferred
from dpcore.errors import JobError, PublishedError, StorageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import TracebackType

    from dpcore._disk.addresses import Location
    from dpcore._disk.sealed_files import SealedFile
    from dpcore.tables.output.charge import Charge

State = Literal["planned", "reserved", "sealed", "published", "done"]


class Spending:
    """What one job spends. As a context manager it sees to the ledger if the job fails.

    Parameters
    ----------
    names : sequence of Path or Address
        The files that the job writes.
    charge : Charge
        What the ledger is to pay.

    Attributes
    ----------
    names, charge
        As given.
    state : str
        How far the job is.
    """

    def __init__(self, names: Sequence[Location], charge: Charge) -> None:
        self.names, self.charge = tuple(names), charge
        self.state: State = "planned"

    @contextlib.contextmanager
    def truth(self) -> Iterator[None]:
        """Turn any error after the files are published into a `PublishedError`."""
        try:
            yield
        except PublishedError:
            raise
        except BaseException as error:
            if self.state in {"published", "done"} and not isinstance(error, GeneratorExit):
                raise PublishedError(self.names) from error
            raise

    def __enter__(self) -> Self:
        said = self.already()
        if said is not None:
            raise JobError(said)
        try:
            with Deferred():
                self._take_names()
        except BaseException:
            self._clean_up()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        with Deferred():
            spent = error is not None and self.state == "reserved"
            if error is not None and spent and self.charge.is_recorded:
                from dpcore.accounting.ledger.states import reason_of

                self.charge.failed(reason_of(error))
            self._clean_up()
        if spent and self.charge.is_recorded and isinstance(error, StorageError):
            raise StorageError(f"{error}. The charge of this run stays in the ledger (entry {self.charge.entry})") from None

    def already(self) -> str | None:
        """The message if an earlier run was published, so that nothing is left to do. See `Charge.already`."""
        return self.charge.already(self.names)

    def reserve(self) -> None:
        """Charge the ledger: from here on the budget is spent, even if the job fails."""
        with Deferred():
            self.charge.reserve(self.names[-1] if self.names else None)
            self.state = "reserved"

    def publish(self, files: Sequence[SealedFile]) -> None:
        """Let the ledger know that the answers exist; of files, show them."""
        raise NotImplementedError

    def _take_names(self) -> None:
        """Keep other jobs from the names."""

    def _clean_up(self) -> None:
        """Leave files or nothing."""
