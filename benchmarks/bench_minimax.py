"""The minimax engine: the groups below, as `dpcore bench --only GROUP` runs them."""

from __future__ import annotations

from typing import Any

GROUPS = ("minimax",)


def test(item: Any, level: str, measure: Any) -> None:
    measure(item, level)
