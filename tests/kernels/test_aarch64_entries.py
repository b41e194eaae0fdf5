"""What `test_entries.py` shows of x86-64, for aarch64 under emulation: entries leave no vector register with anything in it, and set the
floating-point environment, which comes back."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.toolchains import KERNELS, Toolchain, aarch64

pytestmark = [pytest.mark.source_tree, pytest.mark.long]

BROKEN = {
    "as it is": (),
    "no register is cleared": ("    clear_registers();\n", ""),
    "the environment stays the caller's": ('    __asm__ volatile("msr fpcr, xzr" : : : "memory");', "    "),
    "the environment does not come back": ("    set_back(caller);\n", "    (void)caller;\n"),
}


@pytest.fixture(scope="module")
def toolchain(tmp_path_factory: pytest.TempPathFactory) -> Toolchain:
    return aarch64(tmp_path_factory.mktemp("aarch64"))


@pytest.mark.parametrize("change", BROKEN)
def test_entries_clear_registers_and_set_the_environment(change: str, toolchain: Toolchain, tmp_path: Path) -> None:
    text, source = (KERNELS / "core" / "entries.c").read_text(), tmp_path / "entries.c"
    source.write_text(text.replace(*BROKEN[change]) if BROKEN[change] else text)
    assert (source.read_text() == text) == (change == "as it is")
    said = toolchain.said(toolchain.build(tmp_path, "entries_aarch64.c", source))
    found = {name: int(number) for name, number in re.findall(r"(\w+) (\d+)", said)}
    assert found["halves"] == 0
    assert (found["registers"] >= 16) == (change == "no register is cleared")
    assert (found["registers"] == 0) == (change != "no register is cleared")
    assert (found["differ"] == 0) == (change != "the environment stays the caller's")
    assert (found["lost"] > 0) == (change == "the environment does not come back")
