"""The states of a spend as a table: which event may follow, and the state after it. In every state the spend counts in full."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

from dpcore.errors import DataError, EntropyError, ParameterError, ParameterTypeError

if TYPE_CHECKING:
    from collections.abc import Mapping

State = Literal["reserved", "sealed", "published", "done", "failed"]
Event = Literal["seal", "publish", "finish", "fail"]

START: State = "reserved"
NEXT: Mapping[tuple[State, Event], State] = {
    ("reserved", "seal"): "sealed",
    ("reserved", "finish"): "done",  # a release without output files
    ("reserved", "fail"): "failed",
    ("sealed", "publish"): "published",
    ("sealed", "fail"): "failed",
    ("published", "publish"): "published",
    ("published", "finish"): "done",
    # Another process may have finished the run in the meantime.
    ("done", "publish"): "done",
    ("done", "finish"): "done",
    ("failed", "fail"): "failed",
}
"""The state after an event. Every other pair is refused: "done" and "failed" are final, and a published run cannot fail."""

_REASON = re.compile(r"[a-z][a-z0-9-]{0,31}")


def after(state: State, event: Event) -> State:
    """Return the state after an event, or raise if the event cannot happen now."""
    following = NEXT.get((state, event))
    if following is None:
        raise ParameterError(f"a spend that is {state!r} cannot {event}")
    return following


def check_reason(reason: object) -> str:
    """Return the class of a failure, else raise. It is one word, so that no message, which may reveal data, gets into a ledger."""
    if not isinstance(reason, str):
        raise ParameterTypeError(f"reason must be a str, got {type(reason).__name__}")
    if not _REASON.fullmatch(reason):
        raise ParameterError(
            "reason must be one word of at most 32 characters a-z, 0-9 and -, beginning with a letter: it names a class of failures"
        )
    return reason


def reason_of(error: BaseException) -> str:
    """Return the class of a failure. Its message is not used."""
    if not isinstance(error, Exception):
        return "interrupted"
    classes: tuple[tuple[type[Exception], str], ...] = (
        (EntropyError, "entropy"),
        (DataError, "data"),
        (MemoryError, "memory"),
        (OSError, "storage"),
    )
    return next((word for kind, word in classes if isinstance(error, kind)), "error")
