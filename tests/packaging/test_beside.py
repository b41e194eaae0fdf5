"""The page about other tools counts the programs as they are."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

pytestmark = pytest.mark.source_tree

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/beside-other-tools.md"
NAMES = {"dpcore": "dpcore", "opendp": "OpenDP", "tumult": "Tumult", "pipelinedp": "PipelineDP"}


@pytest.fixture(scope="module")
def programs():
    pytest.importorskip("duckdb")
    return runpy.run_path(str(ROOT / "benchmarks/tables_beside_peers.py"))


@pytest.mark.parametrize(
    ("question", "section", "tool"),
    [("release", "# Beside other tools", tool) for tool in NAMES]
    + [("persons", "## One row for each person", tool) for tool in ("dpcore", "opendp", "tumult")],
)
def test_lines_and_words_of_the_programs_are_those_of_the_page(programs, question, section, tool):
    size = programs["size"](programs["BESIDE"] / f"{tool}_{question}.py")
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    row = next(line for line in lines[lines.index(section) :] if line.startswith(f"| {NAMES[tool]}"))
    assert re.search(rf"\| {size['lines']} \| {size['words and signs']} \|", row), (size, row)


def test_a_layout_changes_lines_but_no_words(programs, tmp_path):
    short, long = tmp_path / "short.py", tmp_path / "long.py"
    short.write_text("def release():\n    return [1, 2]\n", encoding="utf-8")
    long.write_text("def release():\n    # a list\n\n    return [\n        1,\n        2\n    ]\n", encoding="utf-8")
    assert programs["size"](short) == {"lines": 1, "words and signs": 6}
    assert programs["size"](long) == {"lines": 5, "words and signs": 6}
