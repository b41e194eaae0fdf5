"""The page of NumPy: its programs run. The benchmarks of the bit generators check what is drawn."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpcore.bench import Plan
from dpcore.bench.benchmark import installed
from dpcore.bench.interop.numpy import DRAWS, benchmarks

PAGE = Path(__file__).resolve().parents[2] / "docs" / "interop" / "numpy.md"
ITEMS = list(benchmarks(Plan(size=20_000, largest=20_000, cores=1, quick=True)))


@pytest.mark.source_tree
def test_programs_of_the_page_run() -> None:
    before, after, more, *_ = re.findall(r"^```py\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    for program in (before, after + more):
        done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=True, timeout=100)
        assert done.stdout.startswith("500 [0, 1, 2, 3, 4, 5, 6, 7]")
    assert done.stdout.endswith("True\n")
    assert len(set(after.splitlines()) - set(before.splitlines())) == 2


@pytest.mark.parametrize("item", ITEMS, ids=lambda item: item.name)
def test_benchmarks_check_what_is_drawn(item: Any) -> None:
    values = item.ours(None)()
    item.check(None, values)
    for side in item.sides:
        if installed(side.package) and (side.package != "opendp" or installed("randomgen")):  # from which OpenDP draws
            item.check(None, side.prepare(None)())
    with pytest.raises(AssertionError, match="were expected"):
        item.check(None, values + 0.2 * np.ptp(values))


def test_both_generators_are_timed_on_each_function() -> None:
    assert len(ITEMS) == 2 * len(DRAWS)
