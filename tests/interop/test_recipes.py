"""The recipes of docs/interop/ray-dask-daft.md run as they are, each in a process of its own, and give noise once."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.long, pytest.mark.source_tree]

for package in ("ray", "dask", "daft"):
    pytest.importorskip(package, reason="make test-interop PEER=recipes")

PAGE = Path(__file__).resolve().parents[2] / "docs" / "interop" / "ray-dask-daft.md"
FOUND = """
if __name__ == "__main__":
    rows = {rows}
    ages = [row["age"] for row in rows]
    assert [sorted(row) for row in rows] == [["age", "region"]] * 3, rows
    assert [row["region"] for row in rows] == ["n", "s", "n"], rows
    assert len(set(ages)) == 3 and not {{31.0, 45.0, 50.0}} & set(ages), rows
    assert rows == {rows}
"""
ROWS = {
    "Ray": "reports.take_all()",
    "Dask": "reports.compute().to_dict('records')",
    "Daft": "reports.to_pylist()",
}


def recipe(tool):
    text = PAGE.read_text(encoding="utf-8")
    return re.search(rf"^## {tool}\n.*?^```py\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)[1]


@pytest.mark.parametrize("tool", ROWS)
def test_a_recipe_runs_and_its_result_stays(tool, tmp_path):
    program = tmp_path / "recipe.py"
    program.write_text(recipe(tool) + FOUND.format(rows=ROWS[tool]))
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
