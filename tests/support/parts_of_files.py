"""`--part K/M`: the K-th of M parts of the test files, so that tests of hours run in several sittings, or on several machines."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

import pytest


def part(text: str) -> tuple[int, int]:
    """Read K/M, of which K is from 1 to M."""
    found = re.fullmatch(r"([1-9]\d*)/([1-9]\d*)", text)
    if found is None or int(found[1]) > int(found[2]):
        raise pytest.UsageError(f"--part must be K/M with 1 ≤ K ≤ M, such as 1/4, got {text!r}")
    return int(found[1]), int(found[2])


def files_of(chosen: tuple[int, int], files: Iterable[str]) -> set[str]:
    """The files of a part: every M-th in an order that looks random, so that all parts take about as long, and that is always the same."""
    number, parts = chosen
    return set(sorted(set(files), key=lambda file: hashlib.sha256(file.encode()).digest())[number - 1 :: parts])
