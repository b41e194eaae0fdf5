"""ThreadSanitizer over the C core: it reports nothing, and it reports a deliberate race. `make tsan` does it under Python."""

from __future__ import annotations

import platform
import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = [pytest.mark.source_tree, pytest.mark.long]

KERNELS = Path(__file__).resolve().parents[2] / "src" / "_kernels"
FLAGS = ["-std=c11", "-O1", "-g", "-w", "-fsanitize=thread", "-ffp-contract=off", f"-I{KERNELS / 'include'}", f"-I{KERNELS / 'core'}"]
X86 = {"x86_v3": ["-march=x86-64-v3", "-maes"], "x86_v4": ["-march=x86-64-v4", "-maes", "-mvaes"]}


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The instrumented stress."""
    compiler = shutil.which("gcc")
    if compiler is None or platform.system() != "Linux":
        pytest.skip("needs gcc on Linux")
    folder, x86 = tmp_path_factory.mktemp("tsan"), platform.machine() in {"x86_64", "AMD64"}
    macro, objects = ["-DDPK_X86"] if x86 else [], []
    for level, more in ({"baseline": []} | (X86 if x86 else {})).items():
        objects.append(str(folder / f"{level}.o"))
        source = str(KERNELS / "isa" / f"{level}.c")
        subprocess.run([compiler, *FLAGS, *macro, *more, "-c", source, "-o", objects[-1]], check=True, timeout=300)
    sources = [str(Path(__file__).with_name("stress_threads.c")), *map(str, sorted((KERNELS / "core").glob("*.c")))]
    command = [compiler, *FLAGS, *macro, *sources, *objects, "-lm", "-lpthread", "-o", str(folder / "stress")]
    done = subprocess.run(command, check=False, timeout=300, capture_output=True, text=True)
    if "cannot find -ltsan" in done.stderr:
        pytest.skip("needs the runtime of ThreadSanitizer")
    done.check_returncode()
    return folder / "stress"


def test_threads_share_kernels_calls_and_the_level_without_a_race(program: Path) -> None:
    done = subprocess.run([str(program)], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("same\n")


def test_a_race_is_reported(program: Path) -> None:
    done = subprocess.run([str(program), "racy"], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode != 0
    assert "data race" in done.stderr
    assert "shared_memo" in done.stderr
