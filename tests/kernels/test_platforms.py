"""One answer everywhere: a C driver prints digests of all kernels, natively at every level and, where the tools are, as aarch64."""

from __future__ import annotations

import platform
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

pytestmark = pytest.mark.source_tree

ROOT = Path(__file__).parents[2]
KERNELS = ROOT / "src" / "_kernels"
COMMON = ["-std=c11", "-O3", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", f"-I{KERNELS / 'include'}"]
X86_LEVELS = {"x86_v3": ["-march=x86-64-v3", "-maes"], "x86_v4": ["-march=x86-64-v4", "-mprefer-vector-width=512", "-maes", "-mvaes"]}
DRIVERS = (
    "digest.c", "digest_responses.c", "digest_selection.c", "digest_sums.c", "digest_search.c", "digest_release.c", "digest_constant.c",
)  # fmt: skip


@dataclass(frozen=True)
class Toolchain:
    """A compiler, its flags, and the kernels that it has compiled."""

    compiler: str
    flags: tuple[str, ...]
    objects: tuple[Path, ...]

    @classmethod
    def of(cls, folder: Path, compiler: str, *, x86: bool, extra: tuple[str, ...] = ()) -> Toolchain:
        """Compile every level of the platform, and what is compiled once."""
        flags = (*COMMON, *extra, *(["-DDPK_X86"] if x86 else []))
        sources = {KERNELS / "isa" / f"{level}.c": more for level, more in ({"baseline": []} | (X86_LEVELS if x86 else {})).items()}
        sources |= {source: [] for source in sorted((KERNELS / "core").glob("*.c"))}
        for source, more in sources.items():
            command = [compiler, *flags, *more, "-c", str(source), "-o", str(folder / f"{source.stem}.o")]
            subprocess.run(command, check=True, timeout=300)
        return cls(compiler, flags, tuple(folder / f"{source.stem}.o" for source in sources))

    def build(self, folder: Path, driver: str) -> Path:
        """Make the program of a driver."""
        program = folder / "digest"
        command = [self.compiler, *self.flags, str(Path(__file__).with_name(driver)), *map(str, self.objects), "-lm", "-o", str(program)]
        subprocess.run(command, check=True, timeout=300)
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
def toolchain(tmp_path_factory: pytest.TempPathFactory) -> Toolchain:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or platform.system() != "Linux":
        pytest.skip("needs a C compiler on Linux")
    return Toolchain.of(tmp_path_factory.mktemp("kernels"), compiler, x86=platform.machine() in {"x86_64", "AMD64"})


@pytest.fixture(scope="module", params=DRIVERS)
def native(
    request: pytest.FixtureRequest, toolchain: Toolchain, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, dict[str, list[str]]]:
    return request.param, digests(str(toolchain.build(tmp_path_factory.mktemp("native"), request.param)))


def without_tier(line: str) -> str:
    """A digest line with the name of its tier removed."""
    name, _, _, rest = line.split(" ", 3)
    return f"{name} {rest}"


@pytest.mark.some(2)
def test_levels_agree(native: tuple[str, dict[str, list[str]]]) -> None:
    levels = native[1]
    expected = {
        "digest.c": 12,
        "digest_responses.c": 19,
        "digest_selection.c": 11,
        "digest_sums.c": 12,
        "digest_search.c": 13,
        "digest_release.c": 7,
        "digest_constant.c": 5,
    }
    assert len(levels["baseline"]) == expected[native[0]]
    assert all(" status 0 " in line for line in levels["baseline"])
    assert all(lines == levels["baseline"] for lines in levels.values())


def test_tiers_agree(native: tuple[str, dict[str, list[str]]]) -> None:
    lines = native[1]["baseline"]
    if native[0] == "digest.c":
        assert len({line.split()[-1] for line in lines}) == 6
        assert [without_tier(line) for line in lines[::2]] == [without_tier(line) for line in lines[1::2]]
    elif native[0] == "digest_selection.c":
        assert all(lines[i] == lines[i + 1] for i in (0, 3, 6))  # pruned and unpruned
        assert len(set(lines)) == len(lines) - 3
    elif native[0] in {"digest_sums.c", "digest_release.c", "digest_constant.c"}:
        assert len({line.split()[-1] for line in lines}) == len(lines)
    elif native[0] == "digest_search.c":
        answers = [line.split()[-1] for line in lines]
        assert all(answers[i] == answers[i + 1] for i in (0, 2, 5))  # with and without the tests in float
        assert len(set(answers)) == len(lines) - 3
    else:
        bounded = [line for line in lines if line.startswith("bounded ")]
        assert len(bounded) == 2
        assert bounded[0] == bounded[1]
        channel = [line for line in lines if line.startswith("channel ")]
        assert len(channel) == 2
        assert channel[0] == channel[1]
        signs = [line for line in lines if line.startswith("hypercube ")]
        assert signs[0] == signs[1]
        assert len(set(lines)) == len(lines) - 3


def test_both_widths_of_aes_give_the_same_words(toolchain: Toolchain, tmp_path: Path) -> None:
    if "-DDPK_X86" not in toolchain.flags:
        pytest.skip("one width")
    said = subprocess.run([toolchain.build(tmp_path, "ciphers.c")], check=True, capture_output=True, text=True, timeout=60).stdout
    if said != "equal\n":
        pytest.skip("this CPU has one width")


@pytest.fixture(scope="module")
def cross(tmp_path_factory: pytest.TempPathFactory) -> tuple[Toolchain, str]:
    """The toolchain of aarch64, and what runs its programs."""
    compiler, emulator = shutil.which("aarch64-linux-gnu-gcc"), shutil.which("qemu-aarch64")
    if compiler is None or emulator is None:
        pytest.skip("needs Debian's gcc-aarch64-linux-gnu and qemu-user")
    return Toolchain.of(tmp_path_factory.mktemp("cross"), compiler, x86=False, extra=("-static",)), emulator


@pytest.mark.long
def test_aarch64_gives_the_same_digests(native: tuple[str, dict[str, list[str]]], cross: tuple[Toolchain, str], tmp_path: Path) -> None:
    toolchain, emulator = cross
    assert digests(emulator, str(toolchain.build(tmp_path, native[0]))) == {"baseline": native[1]["baseline"]}
