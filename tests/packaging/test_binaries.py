"""What the library of kernels shows to the dynamic linker: a symbol a module, no library beyond the C runtime. And how large it is."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path

import pytest

import dpcore

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads ELF")

KERNELS = Path(dpcore.__file__).parent / "_kernels"
MODULES = {path.stem for path in KERNELS.glob("*.pyi")}
C_RUNTIME = ("libc.", "libm.", "libpthread.", "libgcc_s.", "ld-linux")


@pytest.fixture(scope="module")
def library():
    elffile = pytest.importorskip("elftools.elf.elffile")
    (path,) = KERNELS.glob("*.so")
    with path.open("rb") as stream:
        yield elffile.ELFFile(stream)


def test_only_initialisers_of_modules_are_exported(library):
    defined = {
        symbol.name
        for symbol in library.get_section_by_name(".dynsym").iter_symbols()
        if symbol["st_shndx"] != "SHN_UNDEF" and symbol["st_info"]["bind"] != "STB_LOCAL"
    }
    # The linker of some systems adds these two to every library.
    assert defined - {"_init", "_fini"} == {f"PyInit_{name}" for name in MODULES | {"_library", "_shared"}}


def test_no_runtime_library_is_needed_beyond_c(library):
    needed = [tag.needed for tag in library.get_section_by_name(".dynamic").iter_tags("DT_NEEDED")]
    assert [name for name in needed if not name.startswith(C_RUNTIME)] == []


def test_stack_is_not_executable(library):
    (stack,) = (segment for segment in library.iter_segments("PT_GNU_STACK"))
    assert stack["p_flags"] & 1 == 0


@pytest.mark.skipif(bool(os.environ.get("DPCORE_SANITIZE")), reason="instrumented code is large, and is read by debuggers")
def test_the_library_is_small(library):
    """The code of every level once, and nothing for a debugger: 6.8 MB, and 29.6 MB with debug sections, when each module had its own."""
    assert [section.name for section in library.iter_sections() if section.name.startswith((".debug", ".zdebug", ".symtab"))] == []
    library.stream.seek(0, 2)
    assert library.stream.tell() <= 2_800_000


def test_modules_come_from_the_library():
    for name in MODULES:
        module = importlib.import_module(f"dpcore._kernels.{name}")
        assert Path(module.__file__).name.startswith("_library.")
    with pytest.raises(ImportError, match="_nothing"):
        importlib.import_module("dpcore._kernels._nothing")
