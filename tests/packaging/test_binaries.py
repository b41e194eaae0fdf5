"""What the compiled kernels show to the dynamic linker: one symbol each, and no library beyond the C runtime."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import dpcore

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads ELF")

KERNELS = sorted((Path(dpcore.__file__).parent / "_kernels").glob("*.so"))
C_RUNTIME = ("libc.", "libm.", "libpthread.", "libgcc_s.", "ld-linux")


@pytest.fixture(scope="module", params=KERNELS, ids=lambda path: path.name.split(".")[0])
def library(request):
    elffile = pytest.importorskip("elftools.elf.elffile")
    with request.param.open("rb") as stream:
        yield request.param.name.split(".")[0], elffile.ELFFile(stream)


def test_only_the_module_initialiser_is_exported(library):
    name, elf = library
    defined = {
        symbol.name
        for symbol in elf.get_section_by_name(".dynsym").iter_symbols()
        if symbol["st_shndx"] != "SHN_UNDEF" and symbol["st_info"]["bind"] != "STB_LOCAL"
    }
    # The linker of some systems adds these two to every library.
    assert defined - {"_init", "_fini"} == {f"PyInit_{name}"}


def test_no_runtime_library_is_needed_beyond_c(library):
    _, elf = library
    needed = [tag.needed for tag in elf.get_section_by_name(".dynamic").iter_tags("DT_NEEDED")]
    assert [name for name in needed if not name.startswith(C_RUNTIME)] == []


def test_stack_is_not_executable(library):
    _, elf = library
    (stack,) = (segment for segment in elf.iter_segments("PT_GNU_STACK"))
    assert stack["p_flags"] & 1 == 0


def test_there_is_something_to_read():
    assert KERNELS
