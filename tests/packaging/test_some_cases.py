"""The default run takes n cases of tests marked `some(n)`, with each value of each parameter as far as they suffice."""

from __future__ import annotations

import importlib.util
import itertools
from pathlib import Path
from types import SimpleNamespace

import pytest

_spec = importlib.util.spec_from_file_location("settings_of_tests", Path(__file__).resolve().parents[1] / "conftest.py")
conftest = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(conftest)

SIZES = {"level": 3, "law": 4}
CASES = [
    SimpleNamespace(callspec=SimpleNamespace(indices=dict(zip(SIZES, places, strict=True))))
    for places in itertools.product(*map(range, SIZES.values()))
]


@pytest.mark.parametrize("most", [1, 6, 11, 12, 50])
def test_as_many_are_taken_as_are_said(most):
    left_out = conftest._beyond(CASES, most)
    assert len(CASES) - len(left_out) == min(most, len(CASES))


def test_each_value_is_among_those_that_are_taken():
    # The first six have all values: those of the first row, and then the first of each other row.
    left_out = conftest._beyond(CASES, 6)
    taken = [case for case in CASES if all(case is not each for each in left_out)]
    for name, size in SIZES.items():
        assert {case.callspec.indices[name] for case in taken} == set(range(size))


def test_the_first_of_all_cases_would_leave_values_out():
    assert {case.callspec.indices["level"] for case in CASES[:4]} == {0}
