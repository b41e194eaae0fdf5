"""Each page of a tool that computes or releases numbers says whose sensitivity holds, and in which arithmetic."""

from __future__ import annotations

from pathlib import Path

import pytest

pytestmark = pytest.mark.source_tree

ROOT = Path(__file__).resolve().parents[2]
SOURCES, PAGES = ROOT / "src" / "dpcore" / "interop", ROOT / "docs" / "interop"
TITLE, HEAD = "## Whose sensitivity, in which arithmetic\n", "| What | Who computes the statistic | Arithmetic | Sensitivity | Holds? |"


def replaced():
    """Names of the modules that replace something of their tool."""
    found = {path for path in SOURCES.rglob("*.py") if "Replacement(" in path.read_text(encoding="utf-8")}
    names = {path.relative_to(SOURCES).parts[0].removesuffix(".py") for path in found}
    return sorted(name for name in names if not name.startswith("_"))


def table_of(text):
    """The rows of the table of a page, without its head."""
    _, _, rest = text.partition(TITLE)
    section, _, _ = rest.partition("\n## ")
    _, found, after = section.partition(HEAD)
    rows = after.splitlines()[2:] if found else []
    end = next((i for i, line in enumerate(rows) if not line.startswith("|")), len(rows))
    return rows[:end]


WITHOUT = {"index", "numpy", "pytest"}
"""Pages of no tool that computes or releases numbers: the index names the last two."""


@pytest.mark.parametrize("name", sorted({path.stem for path in PAGES.glob("*.md")} - WITHOUT))
def test_the_page_of_a_tool_says_whose_sensitivity_holds(name):
    rows = table_of((PAGES / f"{name}.md").read_text(encoding="utf-8"))
    assert len(rows) >= 2
    assert all(row.count("|") == 6 and row.rsplit("|", 2)[1].strip() for row in rows)


def test_every_tool_with_replacements_is_found_and_a_page_without_the_table_is_rejected():
    assert {"diffprivlib", "opacus", "opendp", "pipelinedp", "smartnoise", "tumult"} <= set(replaced())
    assert not set(replaced()) & WITHOUT
    assert table_of("# A tool\n\n## What is served\n") == []
    assert table_of(TITLE + "\nText.\n") == []
