"""Every header, and every part of what is compiled once a level, brings in what it uses: it can be included first and alone."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.source_tree

KERNELS = Path(__file__).resolve().parents[2] / "src" / "_kernels"
HEADERS = sorted(KERNELS.rglob("*.h"))
PARTS = sorted(path for path in KERNELS.rglob("*.inc.c") if path.name != "all.inc.c")
FAMILIES = ("noise", "release", "response", "search", "selection", "sums")


def complaints(path: Path) -> str:
    """What a compiler says of a file by itself."""
    flags = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-Wno-unused", "-Wno-psabi", f"-I{KERNELS / 'include'}"]
    command = ["cc", *flags, "-fsyntax-only", "-x", "c", str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60).stderr


def test_every_family_has_a_header() -> None:
    names = {path.name for path in HEADERS}
    assert {"dpk.h", "dpk_kernels.h", *(f"dpk_{family}.h" for family in FAMILIES)} <= names


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
@pytest.mark.parametrize("path", [*HEADERS, *PARTS], ids=lambda path: path.name)
def test_a_file_needs_nothing_before_it(path: Path) -> None:
    assert complaints(path) == ""


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_a_header_that_needs_another_before_it_is_found(tmp_path: Path) -> None:
    text = (KERNELS / "include" / "dpk_response.h").read_text()
    (tmp_path / "broken.h").write_text(text.replace('#include "dpk.h"\n', "").replace('#include "dpk_uniform.h"\n', ""))
    assert "dpk_real" in complaints(tmp_path / "broken.h")
