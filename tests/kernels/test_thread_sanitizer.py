"""ThreadSanitizer over the C core: it reports nothing, and it reports a deliberate race. `make tsan` does it under Python."""

from __future__ import annotations

import platform
import shutil
import subprocess
from dataclasses import dataclass
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


# Orders of loads and stores. The sanitizer judges by those that the source asks for, so it sees on x86-64 what only another machine would
# carry out otherwise.

SHARING = ("bitgen.c", "forks.c")
"""Sources that use atomics.h."""
ORDERS: dict[str, tuple[str, str, str]] = {
    "the lock is let go of without an order": ("atomics.h", "(p, value, __ATOMIC_RELEASE)", "(p, value, __ATOMIC_RELAXED)"),
    "the lock is taken without an order": (
        "atomics.h", "0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)", "0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)",
    ),
    "the place is read before its owner is known": (
        "bitgen.c",
        "    if (dpk_load(&b->owner) != thread_now() || !is_ours(s, b)) return rare_uint64(b);\n    const uint32_t place = s->place;\n",
        "    const uint32_t place = s->place;\n    if (dpk_load(&b->owner) != thread_now() || !is_ours(s, b)) return rare_uint64(b);\n",
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Instrumented:
    """The core for ThreadSanitizer, but for what shares words among threads."""

    compiler: str
    flags: tuple[str, ...]
    objects: tuple[str, ...]

    def said(self, folder: Path, change: tuple[str, str, str] | None) -> subprocess.CompletedProcess[str]:
        """What threads on one secure generator print, with a text of a source replaced."""
        core, program = folder / "core", folder / "stress"
        core.mkdir()
        for name in (*SHARING, "atomics.h"):
            text = (KERNELS / "core" / name).read_text()
            if change is not None and name == change[0]:
                assert text.count(change[1]) == 1
                text = text.replace(change[1], change[2])
            (core / name).write_text(text)
        sources = [str(Path(__file__).with_name("stress_bits.c")), *(str(core / name) for name in SHARING)]
        command = [self.compiler, *self.flags, *sources, *self.objects, "-lm", "-lpthread", "-o", str(program)]
        subprocess.run(command, check=True, timeout=300)
        return subprocess.run([str(program)], capture_output=True, text=True, timeout=600, check=False)


@pytest.fixture(scope="module")
def instrumented(tmp_path_factory: pytest.TempPathFactory) -> Instrumented:
    compiler = shutil.which("gcc")
    if compiler is None or platform.system() != "Linux":
        pytest.skip("needs gcc on Linux")
    folder, objects = tmp_path_factory.mktemp("instrumented"), []
    sources = [KERNELS / "isa" / "baseline.c", *(path for path in sorted((KERNELS / "core").glob("*.c")) if path.name not in SHARING)]
    for source in sources:
        objects.append(str(folder / f"{source.stem}.o"))
        subprocess.run([compiler, *FLAGS, "-c", str(source), "-o", objects[-1]], check=True, timeout=300)
    (folder / "nothing.c").write_text("int main(void) { return 0; }\n")
    probe = subprocess.run([compiler, *FLAGS, str(folder / "nothing.c"), "-o", str(folder / "nothing")], check=False, timeout=300)
    if probe.returncode:
        pytest.skip("needs the runtime of ThreadSanitizer")
    return Instrumented(compiler, tuple(FLAGS), tuple(objects))


def test_threads_draw_different_words_of_one_generator_without_a_race(instrumented: Instrumented, tmp_path: Path) -> None:
    done = instrumented.said(tmp_path, None)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "36000 words, 36000 different\n"


@pytest.mark.parametrize("change", ORDERS)
def test_an_order_that_is_missing_is_reported(change: str, instrumented: Instrumented, tmp_path: Path) -> None:
    done = instrumented.said(tmp_path, ORDERS[change])
    assert done.returncode != 0
    assert "data race" in done.stderr
