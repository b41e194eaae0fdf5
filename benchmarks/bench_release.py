"""Releases of distributions and private tests: the groups below, as `dpcore bench --only GROUP` runs them."""

from __future__ import annotations

from typing import Any

GROUPS = ("distributions",)


def test(item: Any, level: str, measure: Any) -> None:
    measure(item, level)
