"""The time that pages and documents bear."""

from __future__ import annotations

import contextlib
import os
from datetime import UTC, datetime


def now() -> datetime:
    """The time that a page bears: that of SOURCE_DATE_EPOCH if it is a date, so that a page can be made again byte by byte."""
    given = os.environ.get("SOURCE_DATE_EPOCH", "")
    with contextlib.suppress(OverflowError, ValueError, OSError):  # more seconds than the calendar has
        if given.isdecimal():
            return datetime.fromtimestamp(int(given), UTC)
    return datetime.now(UTC)
