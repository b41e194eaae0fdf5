"""Compilers of this machine and of others, the kernels that they make, and what runs their programs."""

from __future__ import annotations

import platform
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
KERNELS = ROOT / "src" / "_kernels"
DRIVERS_AT = ROOT / "tests" / "kernels"
COMMON = ["-std=c11", "-O3", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", f"-I{KERNELS / 'include'}"]
X86_LEVELS = {"x86_v3": ["-march=x86-64-v3", "-maes"], "x86_v4": ["-march=x86-64-v4", "-mprefer-vector-width=512", "-maes", "-mvaes"]}


@dataclass(frozen=True)
class Toolchain:
    """A compiler, its flags, the kernels that it has compiled, and what comes before the name of a program to run it."""

    compiler: str
    flags: tuple[str, ...]
    objects: tuple[Path, ...]
    runner: tuple[str, ...] = ()

    @classmethod
    def of(cls, folder: Path, compiler: str, *, x86: bool, extra: tuple[str, ...] = (), runner: tuple[str, ...] = ()) -> Toolchain:
        """Compile every level of the platform, and what is compiled once."""
        flags = (*COMMON, *extra, *(["-DDPK_X86"] if x86 else []))
        sources = {KERNELS / "isa" / f"{level}.c": more for level, more in ({"baseline": []} | (X86_LEVELS if x86 else {})).items()}
        sources |= {source: [] for source in sorted((KERNELS / "core").glob("*.c"))}
        for source, more in sources.items():
            command = [compiler, *flags, *more, "-c", str(source), "-o", str(folder / f"{source.stem}.o")]
            subprocess.run(command, check=True, timeout=300)
        return cls(compiler, flags, tuple(folder / f"{source.stem}.o" for source in sources), runner)

    def build(self, folder: Path, driver: str, replaced: Path | None = None) -> Path:
        """Make the program of a driver; `replaced` is a source that takes the place of the one of its name."""
        program = folder / "digest"
        objects = [str(each) for each in self.objects if replaced is None or each.stem != replaced.stem]
        if replaced is not None:
            objects.append(str(replaced))
        core = f"-I{KERNELS / 'core'}"
        command = [self.compiler, *self.flags, core, str(DRIVERS_AT / driver), *objects, "-lm", "-o", str(program)]
        subprocess.run(command, check=True, timeout=300)
        return program

    def said(self, program: Path, *, timeout: int = 600) -> str:
        """What a program prints."""
        command = [*self.runner, str(program)]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=timeout).stdout


def is_x86() -> bool:
    """Whether this machine has x86-64."""
    return platform.machine() in {"x86_64", "AMD64"}


def native(folder: Path) -> Toolchain:
    """The toolchain of this machine."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or platform.system() != "Linux":
        pytest.skip("needs a C compiler on Linux")
    return Toolchain.of(folder, compiler, x86=is_x86())


def aarch64(folder: Path) -> Toolchain:
    """The toolchain of aarch64, whose programs run under emulation."""
    compiler, emulator = shutil.which("aarch64-linux-gnu-gcc"), shutil.which("qemu-aarch64")
    if compiler is None or emulator is None:
        pytest.skip("needs Debian's gcc-aarch64-linux-gnu and qemu-user")
    return Toolchain.of(folder, compiler, x86=False, extra=("-static",), runner=(emulator,))


def musl(folder: Path) -> Toolchain:
    """The toolchain of this machine with musl as the C library."""
    compiler = shutil.which("musl-gcc")
    if compiler is None or platform.system() != "Linux":
        pytest.skip("needs Debian's musl-tools")
    return Toolchain.of(folder, compiler, x86=is_x86(), extra=("-static",))


def digests(output: str) -> dict[str, list[str]]:
    """Lines of each level of what a driver prints."""
    levels: dict[str, list[str]] = {}
    for line in output.splitlines():
        if line.startswith("level "):
            current = levels.setdefault(line.removeprefix("level "), [])
        else:
            current.append(line)
    return levels
