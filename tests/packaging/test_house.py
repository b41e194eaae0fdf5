"""Rules of the house that no linter knows."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.source_tree

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = (".ci", ".github", "benchmarks", "docs", "examples", "src", "tests")
LOOSE = (
    ".clang-format", ".gitignore", ".pre-commit-config.yaml", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "MANIFEST.in", "Makefile",
    "README.md", "SECURITY.md", "pyproject.toml", "setup.py",
)  # fmt: skip
TEXT = {".py", ".pyi", ".pyx", ".pxd", ".c", ".h", ".md", ".toml", ".yml", ".yaml", ".cfg", ".in", ".txt", ".json", ".csv", ".j2", ""}
MADE = {"_build", "__pycache__"}
MACHINE_PATH = re.compile(r"(?<![\w.])/(?:work|root|home|Users|opt|mnt)/[\w.]")
LONGEST_FILE = 500
LONGER_FILES: dict[str, str] = {}
"""Files that may be longer, each with the reason."""
BANNED = re.compile(
    r"document 00\d|\b(?:is|are|was|were) to be\b|\band nothing else\b|\bnobody wants|\bgoals? of ours\b|\b(?:was|were) asked for\b|"
    r"\bagainst (?:its|the) user\b|\bwhoever\b|\bas anyone asks\b|\bnot reached\b|\b(?:says|tells) nothing\b|\bis told in\b|"
    r"\b(?:stands|stood) in\b|\bstands? once\b|\bof ours\b|\bknows? of\b|\bfor nothing\b|\b(?:says?|said) of (?:itself|themselves)\b|"
    r"\b(?:is|are|be) told\b|\b(?:goes|go) with\b|\bwhat is given\b|\bwho pays\b|\bspeaks? of\b|\bsay nothing\b|\bat hand\b|"
    r"\btells? (?:\w+ ){0,4}apart\b|\b(?:of|in) whatever\b|\bin the way\b|\"\"\"(?:Give|Tell|Say) (?!up\b)",
    re.IGNORECASE,
)
"""Phrases that the house does not use: aphorisms, inverted clauses, internal targets, software as a person."""
READ_BY_USERS = ("src/dpcore", "docs", "README.md", "CONTRIBUTING.md", "SECURITY.md", "examples")


def sources() -> list[Path]:
    loose = [path for path in ROOT.iterdir() if path.is_file() and path.name not in (".DS_Store", ".git")]
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


def test_nothing_lies_in_the_root_that_does_not_belong_there():
    """A run in the wrong folder leaves a state, a ledger or an output, which is as secret as the data."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("these are not the files of a clone")
    assert {name.split("/")[0] for name in listed.stdout.splitlines()} == {*FOLDERS, *LOOSE}


def test_source_files_stay_readable():
    long = {
        str(path.relative_to(ROOT)): lines
        for path in sources()
        if path.suffix in {".py", ".pyx", ".c", ".h"} and (lines := len(path.read_text(encoding="utf-8").splitlines())) > LONGEST_FILE
    }
    assert {name: lines for name, lines in long.items() if name not in LONGER_FILES} == {}
    assert LONGER_FILES.keys() <= long.keys()


def banned_phrases(folder: str) -> list[str]:
    """Places in what users read: documents, docstrings, help texts, messages and comments."""
    exempt = {ROOT / "docs" / "literature.md", ROOT / "CHANGELOG.md"}
    here = [
        path
        for path in sources()
        if path.is_relative_to(ROOT / folder) and path not in exempt and path.suffix in {".py", ".md", ".j2", ".toml"}
    ]
    return [
        f"{path.relative_to(ROOT)}:{number}: {match.group()}"
        for path in here
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        for match in BANNED.finditer(line)
    ]


@pytest.mark.some(2)
@pytest.mark.parametrize("folder", READ_BY_USERS)
def test_prose_is_plain(folder):
    assert banned_phrases(folder) == []


def test_no_template_that_escapes_the_linters():
    assert [path for path in sources() if path.name.endswith((".src", ".in")) and path.name != "MANIFEST.in"] == []
