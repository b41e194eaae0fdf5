"""One answer everywhere: a C driver prints digests of all kernels, natively at every level and, where the tools are, as aarch64."""

from __future__ import annotations

import platform
import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.source_tree

ROOT = Path(__file__).parents[2]
KERNELS = ROOT / "src" / "_kernels"
COMMON = ["-std=c11", "-O3", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", f"-I{KERNELS / 'include'}"]
X86_LEVELS = {"x86_v3": ["-march=x86-64-v3", "-maes"], "x86_v4": ["-march=x86-64-v4", "-mprefer-vector-width=512", "-maes", "-mvaes"]}


def build(folder: Path, compiler: str, *, x86: bool, extra: tuple[str, ...] = ()) -> Path:
    """Compile the driver with every level of the platform."""
    flags = [*COMMON, *extra, *(["-DDPK_X86"] if x86 else [])]
    sources = {"baseline": []} | (X86_LEVELS if x86 else {})
    objects = []
    for level, level_flags in sources.items():
        objects.append(str(folder / f"{level}.o"))
        subprocess.run(
            [compiler, *flags, *level_flags, "-c", str(KERNELS / "isa" / f"{level}.c"), "-o", objects[-1]], check=True, timeout=300
        )
    core = [str(p) for p in sorted((KERNELS / "core").glob("*.c"))]
    program = folder / "digest"
    subprocess.run(
        [compiler, *flags, str(Path(__file__).with_name("digest.c")), *core, *objects, "-lm", "-o", str(program)], check=True, timeout=300
    )
    return program


def digests(*command: str) -> dict[str, list[str]]:
    """Lines of each level."""
    output = subprocess.run(command, check=True, capture_output=True, text=True, timeout=600).stdout
    levels: dict[str, list[str]] = {}
    for line in output.splitlines():
        if line.startswith("level "):
            current = levels.setdefault(line.removeprefix("level "), [])
        else:
            current.append(line)
    return levels


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or platform.system() != "Linux":
        pytest.skip("needs a C compiler on Linux")
    x86 = platform.machine() in {"x86_64", "AMD64"}
    return digests(str(build(tmp_path_factory.mktemp("native"), compiler, x86=x86)))


def without_tier(line: str) -> str:
    """A digest line with the name of its tier removed."""
    name, _, _, rest = line.split(" ", 3)
    return f"{name} {rest}"


def test_levels_and_tiers_agree(native: dict[str, list[str]]) -> None:
    baseline = native["baseline"]
    assert len(baseline) == 10
    assert len({line.split()[-1] for line in baseline}) == 5
    for lines in native.values():
        assert lines == baseline
    for fast, accurate in zip(baseline[::2], baseline[1::2], strict=True):
        assert without_tier(fast) == without_tier(accurate)


@pytest.mark.long
def test_aarch64_gives_the_same_digests(native: dict[str, list[str]], tmp_path: Path) -> None:
    compiler, emulator = shutil.which("aarch64-linux-gnu-gcc"), shutil.which("qemu-aarch64")
    if compiler is None or emulator is None:
        pytest.skip("needs Debian's gcc-aarch64-linux-gnu and qemu-user")
    program = build(tmp_path, compiler, x86=False, extra=("-static",))
    assert digests(emulator, str(program)) == {"baseline": native["baseline"]}
