"""What the benchmarks of one session have measured, for the table at its end."""

from __future__ import annotations

from dpcore.bench import Row

ROWS: list[Row] = []
ABSENT: list[str] = []
"""Peers that are not installed."""
