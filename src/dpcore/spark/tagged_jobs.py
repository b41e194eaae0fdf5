"""The jobs of one action on a server of Spark Connect, which knows them by a tag."""

from __future__ import annotations

import contextlib
import secrets
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


class Tagged:
    """The jobs of one action: the server knows them by a tag.

    Parameters
    ----------
    session : pyspark.sql.connect.session.SparkSession
        Where they run.
    """

    def __init__(self, session: Any) -> None:
        self._session, self._tag = session, f"dpcore-{secrets.token_hex(8)}"
        self._done = 0.0

    def thread(self, target: Callable[[], None]) -> threading.Thread:
        """A thread for the action."""
        return threading.Thread(target=target)

    @contextlib.contextmanager
    def begun(self) -> Iterator[None]:
        """What the calling thread does inside belongs to the action."""
        self._session.addTag(self._tag)
        self._session.registerProgressHandler(self._look)
        try:
            yield
        finally:
            self._session.removeProgressHandler(self._look)
            self._session.removeTag(self._tag)

    def cancel(self) -> None:
        """End them."""
        self._session.interruptTag(self._tag)

    def fraction(self) -> float:
        """The share of the tasks that are done."""
        return self._done

    def is_alone(self) -> bool:
        """False: a server does not say which executors it has."""
        return False

    def _look(self, stages: Iterable[Any] | None, **_: object) -> None:
        """Take notice of what the server says of its tasks."""
        counts = [(each.num_completed_tasks, each.num_tasks) for each in stages or ()]
        total = sum(tasks for _, tasks in counts)
        self._done = sum(done for done, _ in counts) / total if total else 0.0
