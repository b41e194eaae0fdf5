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


DRIVERS = ("digest.c", "digest_responses.c", "digest_selection.c", "digest_sums.c", "digest_search.c")


def build(folder: Path, compiler: str, driver: str, *, x86: bool, extra: tuple[str, ...] = ()) -> Path:
    """Compile a driver with every level of the platform."""
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
        [compiler, *flags, str(Path(__file__).with_name(driver)), *core, *objects, "-lm", "-o", str(program)], check=True, timeout=300
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


@pytest.fixture(scope="module", params=DRIVERS)
def native(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, list[str]]]:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or platform.system() != "Linux":
        pytest.skip("needs a C compiler on Linux")
    x86 = platform.machine() in {"x86_64", "AMD64"}
    return request.param, digests(str(build(tmp_path_factory.mktemp("native"), compiler, request.param, x86=x86)))


def without_tier(line: str) -> str:
    """A digest line with the name of its tier removed."""
    name, _, _, rest = line.split(" ", 3)
    return f"{name} {rest}"


def test_levels_agree(native: tuple[str, dict[str, list[str]]]) -> None:
    levels = native[1]
    expected = {"digest.c": 10, "digest_responses.c": 14, "digest_selection.c": 11, "digest_sums.c": 8, "digest_search.c": 11}
    assert len(levels["baseline"]) == expected[native[0]]
    assert all(" status 0 " in line for line in levels["baseline"])
    assert all(lines == levels["baseline"] for lines in levels.values())


def test_tiers_agree(native: tuple[str, dict[str, list[str]]]) -> None:
    lines = native[1]["baseline"]
    if native[0] == "digest.c":
        assert len({line.split()[-1] for line in lines}) == 5
        assert [without_tier(line) for line in lines[::2]] == [without_tier(line) for line in lines[1::2]]
    elif native[0] == "digest_selection.c":
        assert all(lines[i] == lines[i + 1] for i in (0, 3, 6))  # pruned and unpruned
        assert len(set(lines)) == len(lines) - 3
    elif native[0] == "digest_sums.c":
        assert len(set(lines)) == len(lines)
    elif native[0] == "digest_search.c":
        answers = [line.split()[-1] for line in lines]
        assert all(answers[i] == answers[i + 1] for i in (0, 2, 5))  # with and without the tests in float
        assert len(set(answers)) == len(lines) - 3
    else:
        bounded = [line for line in lines if line.startswith("bounded ")]
        assert len(bounded) == 2
        assert bounded[0] == bounded[1]
        assert len(set(lines)) == len(lines) - 1


@pytest.mark.long
def test_aarch64_gives_the_same_digests(native: tuple[str, dict[str, list[str]]], tmp_path: Path) -> None:
    compiler, emulator = shutil.which("aarch64-linux-gnu-gcc"), shutil.which("qemu-aarch64")
    if compiler is None or emulator is None:
        pytest.skip("needs Debian's gcc-aarch64-linux-gnu and qemu-user")
    program = build(tmp_path, compiler, native[0], x86=False, extra=("-static",))
    assert digests(emulator, str(program)) == {"baseline": native[1]["baseline"]}
