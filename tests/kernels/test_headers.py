"""Every header, and every part of what is compiled once a level, brings in what it uses; files of the core use each other one way."""

from __future__ import annotations

import re
import shutil
import subprocess
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

pytestmark = pytest.mark.source_tree

KERNELS = Path(__file__).resolve().parents[2] / "src" / "_kernels"
HEADERS = sorted(KERNELS.rglob("*.h"))
PARTS = sorted(path for path in KERNELS.rglob("*.inc.c") if path.name != "all.inc.c")
FAMILIES = ("bitgen", "noise", "release", "response", "search", "selection", "sums")


def complaints(path: Path) -> str:
    """What a compiler says of a file by itself."""
    flags = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-Wno-unused", "-Wno-psabi", f"-I{KERNELS / 'include'}"]
    command = ["cc", *flags, "-fsyntax-only", "-x", "c", str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60).stderr


def test_every_family_has_a_header() -> None:
    names = {path.name for path in HEADERS}
    assert {"dpk.h", "dpk_kernels.h", *(f"dpk_{family}.h" for family in FAMILIES)} <= names


@pytest.mark.some(21)
@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
@pytest.mark.parametrize("path", [*HEADERS, *PARTS], ids=lambda path: path.name)
def test_a_file_needs_nothing_before_it(path: Path) -> None:
    assert complaints(path) == ""


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_a_header_that_needs_another_before_it_is_found(tmp_path: Path) -> None:
    text = (KERNELS / "include" / "dpk_response.h").read_text()
    (tmp_path / "broken.h").write_text(text.replace('#include "dpk.h"\n', "").replace('#include "dpk_uniform.h"\n', ""))
    assert "dpk_real" in complaints(tmp_path / "broken.h")


def used_files(sources: dict[str, str]) -> dict[str, set[str]]:
    """Which files of the core each of them calls into."""
    defined = re.compile(r"^(?!static|typedef)\w[\w *]*\b(dpk_\w+)\([^;{]*\{", re.MULTILINE)
    homes = {name: file for file, text in sources.items() for name in defined.findall(text)}
    return {
        file: {homes[name] for name in re.findall(r"\bdpk_\w+", text) if homes.get(name, file) != file} for file, text in sources.items()
    }


def test_files_of_the_core_call_each_other_one_way() -> None:
    sources = {
        path.name: re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.DOTALL)
        for path in (KERNELS / "core").glob("*.c")
        if path.name != "entries.c"
    }
    used = used_files(sources)
    assert {"categories.c", "planes.c", "codes.c"} <= used["response.c"]
    assert tuple(TopologicalSorter(used).static_order())
    with pytest.raises(CycleError):
        tuple(TopologicalSorter(used_files({**sources, "codes.c": sources["codes.c"] + "dpk_response_run();"})).static_order())
