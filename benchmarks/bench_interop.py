"""dpcore under other tools: the group below, as `dpcore bench --only GROUP` runs it."""

from __future__ import annotations

from typing import Any

GROUPS = ("interop",)


def test(item: Any, level: str, measure: Any) -> None:
    measure(item, level)
