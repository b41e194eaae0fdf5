"""Builds the kernels: C once per CPU level, the Cython modules, and one library of all. Everything else is in pyproject.toml."""

from __future__ import annotations

import hashlib
import os
import platform
import sys
import sysconfig
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_clib import build_clib
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

KERNELS = Path("src/_kernels")
HEADERS = [str(p) for p in sorted([*KERNELS.rglob("*.h"), *KERNELS.rglob("*.inc.c"), *KERNELS.rglob("*.pxd"), *KERNELS.rglob("*.pxi")])]
INCLUDE = [str(KERNELS / "include")]
MSVC = sys.platform == "win32"
X86 = platform.machine().lower() in {"x86_64", "amd64"}
# `make sanitize`, `make tsan`: instrumented objects, in build folders of their own so that the ordinary ones stay as they are.
SANITIZERS = {
    "1": ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer", "-g"],
    "thread": ["-fsanitize=thread", "-fno-omit-frame-pointer", "-g"],
}
SANITIZER = os.environ.get("DPCORE_SANITIZE", "")
INSTRUMENT = SANITIZERS.get(SANITIZER, [])

# Contraction stays off: the bounds in docs/exactness.md count every rounding, fused ones where the source says fma.
COMMON = (
    ["/O2", "/std:c11", "/fp:precise"]
    if MSVC
    else ["-std=c11", "-O3", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-fvisibility=hidden", "-Wall", "-Wextra"]
)
# The modules call kernels and do not compute. Python's own flags ask for debug information, which is ten times what runs.
OF_MODULES = ["/O2"] if MSVC else ["-O2", "-fvisibility=hidden"]
SMALL = [] if MSVC or INSTRUMENT else ["-g0"]
LEVEL_FLAGS = {
    "baseline": [],
    "x86_v3": ["/arch:AVX2"] if MSVC else ["-march=x86-64-v3", "-maes"],
    "x86_v4": ["/arch:AVX512"] if MSVC else ["-march=x86-64-v4", "-mprefer-vector-width=512", "-maes", "-mvaes"],
}
MODULES = sorted(p.stem for p in KERNELS.glob("*.pyx"))
LEVELS = list(LEVEL_FLAGS) if X86 else ["baseline"]
MACROS = [("DPK_X86", "1")] if X86 else []
Archive = tuple[str, dict[str, object]]


def archive(name: str, sources: list[Path], flags: list[str], macros: list[tuple[str, str]], include: list[str]) -> Archive:
    """One static library of `build_clib`; the headers make it rebuild when a kernel changes."""
    files = [str(p) for p in sources]
    info = {
        "sources": files,
        "obj_deps": {"": HEADERS},
        "include_dirs": INCLUDE + include,
        "cflags": flags + SMALL + INSTRUMENT,
        "macros": MACROS + macros,
    }
    return name, info


def written_in_c(name: str) -> Path:
    """The C of a Cython module."""
    (made,) = cythonize(
        [Extension(f"dpcore._kernels.{name}", [str(KERNELS / f"{name}.pyx")])],
        include_path=INCLUDE,
        compiler_directives={"language_level": 3, "freethreading_compatible": True, "binding": False},
    )
    return Path(made.sources[0])


PYTHON = sorted({sysconfig.get_path("include"), sysconfig.get_path("platinclude")})
TOLD = [] if MSVC else [("DPK_BUILD_FLAGS", f'"{" ".join(COMMON)}"')]
# In the order in which a linker takes them: what is called comes after what calls it.
ARCHIVES = [
    *[archive(f"dpk{name}", [written_in_c(name)], OF_MODULES, [], PYTHON) for name in MODULES],
    archive("dpk_core", sorted((KERNELS / "core").glob("*.c")), COMMON, TOLD, []),
    *[archive(f"dpk_{level}", [KERNELS / "isa" / f"{level}.c"], COMMON + LEVEL_FLAGS[level], [], []) for level in LEVELS],
]


class BuildExt(build_ext):
    """`build_ext` that builds the C libraries first, which `--inplace` alone does not, and drops what builds of before have left."""

    def run(self) -> None:
        self.run_command("build_clib")
        super().run()
        for path in map(Path, self.get_outputs()):
            for old in path.parent.glob(f"_*{path.suffix}"):
                if old != path:
                    old.unlink()


class BuildPy(build_py):
    """`build_py` that writes beside the kernels which sources they were made from, for `dpcore._version.code_digest`."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            made = Path(self.build_lib, "dpcore", "_kernels", "sources.py")
            made.write_text(f'"""What the kernels were compiled from."""\n\nDIGEST = "{kernel_digest()}"\n', encoding="utf-8")


def kernel_digest() -> str:
    """Of all sources of the kernels, without what Cython makes of them."""
    found = hashlib.sha256()
    for path in sorted(KERNELS.rglob("*")):
        if path.suffix in {".c", ".h", ".pyx", ".pxd", ".pxi"} and not (path.suffix == ".c" and path.parent == KERNELS):
            content = path.read_bytes().replace(b"\r\n", b"\n")
            found.update(f"{path.relative_to(KERNELS).as_posix()} {len(content)}\n".encode() + content)
    return found.hexdigest()


LIBRARY = Extension(
    "dpcore._kernels._library",
    [str(KERNELS / "library" / "library.c")],
    depends=[file for _, info in ARCHIVES for file in info["sources"]] + HEADERS,  # the archives alone would not relink it
    extra_compile_args=OF_MODULES + SMALL + INSTRUMENT,
    extra_link_args=INSTRUMENT,
)

setup(
    libraries=ARCHIVES,
    ext_modules=[LIBRARY],
    options={"build": {"build_base": f"build/sanitize-{SANITIZER}"}} if INSTRUMENT else {},
    cmdclass={"build_ext": BuildExt, "build_clib": build_clib, "build_py": BuildPy},
)
