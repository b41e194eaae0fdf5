"""The programs of docs/interop/opacus.md, and what the page says of numbers and pickles."""

from __future__ import annotations

import doctest
import pickle
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("opacus", reason="make test-interop PEER=opacus")

import torch

from dpcore.bench.benchmark import Plan
from dpcore.bench.interop import opacus as rows
from dpcore.interop import opacus
from dpcore.interop.opacus import _bounds
from support.opacus_steps import optimizer_with

PAGE = Path(__file__).resolve().parents[2] / "docs" / "interop" / "opacus.md"


@pytest.fixture
def page():
    if not PAGE.exists():
        pytest.skip("needs the repository")
    return PAGE.read_text(encoding="utf-8")


def test_the_programs_run_and_differ_by_two_lines(page):
    before, after, _ = re.findall(r"```py\n(.*?)```", page, re.DOTALL)
    assert [line for line in after.splitlines() if line not in before.splitlines()] == [
        "from dpcore.interop import opacus", "opacus.install()",
    ]  # fmt: skip
    for program in (before, after):
        found = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, check=True)
        assert re.fullmatch(r"epsilon = \d\.\d\d\n", found.stdout)


def test_the_examples_are_right(page):
    example = doctest.DocTestParser().get_doctest(page, {"opacus": opacus}, "opacus.md", str(PAGE), 0)
    assert example.examples
    assert doctest.DocTestRunner().run(example).failed == 0


def test_the_table_of_factors_is_right(page):
    sizes, factors = (re.search(rf"^\| {name} \| (.*) \|$", page, re.MULTILINE)[1].split(" | ") for name in ("b", "F at 10⁷ parameters"))
    for size, factor in zip(sizes, factors, strict=True):
        limit = _bounds.samples_limit(int(size.replace(",", "")), 1)
        digits = len(factor.partition(".")[2])
        assert f"{opacus.sensitivity_factor(10**7, limit):.{digits}f}" == factor
    assert (_bounds.samples_limit(64, 1), _bounds.samples_limit(4096, 1)) == (158, 4715)


def test_a_pickled_optimizer_has_nothing_of_dpcore_in_it():
    """It is not read again: that breaks every optimizer of Opacus in the process, with and without dpcore."""
    optimizer, _ = optimizer_with([torch.ones(4, 3)])
    with opacus.install():
        optimizer.step()
        written = pickle.dumps(optimizer)
    assert b"dpcore" not in written
    native, _ = optimizer_with([torch.ones(4, 3)])
    native.step()
    assert vars(native).keys() == vars(optimizer).keys() - {"_dpcore_step"}


@pytest.mark.filterwarnings("ignore:Full backward hook")
def test_the_benchmarks_check_their_answers(monkeypatch):
    monkeypatch.setattr(rows, "LARGE", 64)
    for row in rows.benchmarks(Plan(size=1, largest=1, cores=1, quick=True)):
        inputs = row.inputs()
        for prepare in (row.ours, row.sides[0].prepare):
            row.check(inputs, prepare(inputs)())
