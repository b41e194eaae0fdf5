"""Selections: the groups below, as `dpcore bench --only GROUP` runs them."""

from __future__ import annotations

from typing import Any

GROUPS = ("selection",)


def test(item: Any, level: str, measure: Any) -> None:
    measure(item, level)
