"""Rules of the house that no linter knows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.source_tree

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = (".ci", ".github", "benchmarks", "docs", "examples", "src", "tests")
TEXT = {".py", ".pyi", ".pyx", ".pxd", ".c", ".h", ".md", ".toml", ".yml", ".yaml", ".cfg", ".in", ".txt", ".json", ".csv", ".j2", ""}
MADE = {"_build", "__pycache__"}
MACHINE_PATH = re.compile(r"(?<![\w.])/(?:work|root|home|Users|opt|mnt)/[\w.]")
LONGEST_FILE = 600


def sources() -> list[Path]:
    loose = [path for path in ROOT.iterdir() if path.is_file() and path.name != ".DS_Store"]
    nested = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.is_file()]
    generated = set((ROOT / "src" / "_kernels").glob("*.c"))
    return sorted(path for path in [*loose, *nested] if path.suffix in TEXT and not MADE & set(path.parts) and path not in generated)


def test_no_path_of_a_machine_is_written_down():
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in sources()
        if path != Path(__file__).resolve()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if MACHINE_PATH.search(line)
    ]
    assert found == []


def test_source_files_stay_readable():
    long = [
        f"{path.relative_to(ROOT)}: {lines} lines"
        for path in sources()
        if path.suffix in {".py", ".pyx", ".c", ".h"} and (lines := len(path.read_text(encoding="utf-8").splitlines())) > LONGEST_FILE
    ]
    assert long == []


def test_no_template_that_escapes_the_linters():
    assert [path for path in sources() if path.name.endswith((".src", ".in")) and path.name != "MANIFEST.in"] == []
