"""The threat model promises nothing that no test would miss."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.source_tree

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "threat-model.md"
HEAD = ["Promise", "How it is kept", "What fails if it breaks"]
TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def tables(text: str) -> list[list[list[str]]]:
    """The cells of every table, its head first."""
    found = [table.splitlines() for table in re.findall(r"(?:^\|.*\|\n)+", text, re.MULTILINE)]
    return [[[cell.strip() for cell in line.strip("|").split("|")] for line in table if set(line) - set("|- ")] for table in found]


def promises(text: str) -> list[list[str]]:
    """The rows of the tables of promises."""
    return [row for head, *rows in tables(text) if head == HEAD for row in rows]


def missing_tests(text: str, root: Path) -> list[str]:
    """Promises without a test, and tests that do not exist."""
    wrong = []
    for promise, _, tests in promises(text):
        named = TEST.findall(tests)
        if not named:
            wrong.append(promise)
        wrong += [f"{file}::{name}" for file, name in named if name not in functions(root / file)]
    return wrong


def functions(file: Path) -> set[str]:
    """Names of the tests in a file."""
    if not file.is_file():
        return set()
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}


def test_every_promise_has_a_test_that_exists():
    text = PAGE.read_text(encoding="utf-8")
    assert len(promises(text)) >= 40
    assert all(len(row) == len(HEAD) for row in promises(text))
    assert missing_tests(text, ROOT) == []


def test_a_promise_without_a_test_is_noticed():
    head = "| " + " | ".join(HEAD) + " |\n|---|---|---|\n"
    own = "`tests/packaging/test_threat_model.py::test_a_promise_without_a_test_is_noticed`"
    assert missing_tests(f"{head}| kept | so | {own} |\n", ROOT) == []
    assert missing_tests(f"{head}| hoped for | somehow | – |\n", ROOT) == ["hoped for"]
    gone = "tests/packaging/test_threat_model.py::test_gone"
    assert missing_tests(f"{head}| kept once | so | `{gone}` |\n", ROOT) == [gone]


def test_only_tables_promise():
    """Outside the tables stand the claim itself and what is not promised; a sentence that promises belongs into a table."""
    text = PAGE.read_text(encoding="utf-8")
    sections = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    for section in sections:
        title, _, body = section.partition("\n")
        if title.startswith(("The claim", "What is not promised")):
            continue
        prose = [line for line in body.splitlines() if line and not line.startswith("|")]
        assert len(" ".join(prose)) <= 200, title  # a line that introduces the table
