"""Builds the kernels: C once per CPU level, the Cython modules, and one library of all. Everything else is in pyproject.toml.

Two builds of one commit have the same bytes where Python, compiler, Cython and setuptools are the same, and `SOURCE_DATE_EPOCH` is.
"""

from __future__ import annotations

import copy
import gzip
import hashlib
import json
import os
import platform
import sys
import sysconfig
import tarfile
import tomllib
import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import Cython
import setuptools
from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_clib import build_clib
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

KERNELS = Path("src/_kernels")
HEADERS = [str(p) for p in sorted([*KERNELS.rglob("*.h"), *KERNELS.rglob("*.inc.c"), *KERNELS.rglob("*.pxd"), *KERNELS.rglob("*.pxi")])]
INCLUDE = [str(KERNELS / "include")]
MSVC = sys.platform == "win32"
# The processor that the build is for. It is not this machine's where a compiler builds for another one, and _PYTHON_HOST_PLATFORM says so.
TARGET = sysconfig.get_platform().rsplit("-", 1)[-1].lower()
X86 = (platform.machine().lower() if TARGET == "universal2" else TARGET) in {"x86_64", "amd64"}
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
# What gcc refuses from version 14 on, older compilers refuse here, too.
REFUSED = ["-Werror=incompatible-pointer-types", "-Werror=int-conversion", "-Werror=implicit-function-declaration"]
OF_MODULES = ["/O2"] if MSVC else ["-O2", "-fvisibility=hidden", "-Wno-unused-function", *REFUSED]
# No path of the machine that builds comes into what is built.
SMALL = [] if MSVC or INSTRUMENT else ["-g0", f"-ffile-prefix-map={Path.cwd()}=."]
# Names of functions that no other library calls serve a debugger only.
STRIPPED = ["-Wl,--strip-all"] if sys.platform == "linux" and not INSTRUMENT else []
LEVEL_FLAGS = {
    "baseline": [],
    "x86_v3": ["/arch:AVX2"] if MSVC else ["-march=x86-64-v3", "-maes"],
    "x86_v4": ["/arch:AVX512"] if MSVC else ["-march=x86-64-v4", "-mprefer-vector-width=512", "-maes", "-mvaes"],
}
DIRECTIVES = {"language_level": 3, "freethreading_compatible": True, "binding": False, "show_performance_hints": False}
MODULES = sorted(p.stem for p in KERNELS.glob("*.pyx"))
# What Cython needs for views of memory, once for all modules: it is two thirds of the C of a small one.
SHARED = "_shared"
LEVELS = list(LEVEL_FLAGS) if X86 else ["baseline"]
MACROS = [("DPK_X86", "1")] if X86 else []
Archive = tuple[str, dict[str, Any]]


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


def said(words: str) -> None:
    """Tell whoever waits for a build what it does."""
    print(f"dpcore: {words}", file=sys.stderr, flush=True)


def written_in_c(name: str) -> Path:
    """The C of a Cython module, written again only if what it is made of is another.

    Cython goes by times, also those of its own files, which are new in each environment that pip makes for a build: then every module
    would be written and compiled again with each `pip install`.
    """
    made, noted = KERNELS / f"{name}.c", Path("build", "cython", f"{name}.key")
    key = hashlib.sha256(f"{Cython.__version__} {DIRECTIVES} {SHARED}".encode())
    source = made if name == SHARED else KERNELS / f"{name}.pyx"
    for path in [] if name == SHARED else [source, *sorted(KERNELS.rglob("*.px[di]"))]:
        key.update(path.read_bytes())
    if not (made.exists() and noted.exists() and noted.read_text(encoding="ascii") == key.hexdigest()):
        said(f"writing {made.name}")
        cythonize(
            [Extension(f"dpcore._kernels.{name}", [str(source)])],
            include_path=INCLUDE,
            compiler_directives=DIRECTIVES,
            shared_utility_qualified_name=f"dpcore._kernels.{SHARED}",
            force=True,
            quiet=True,
        )
        noted.parent.mkdir(parents=True, exist_ok=True)
        noted.write_text(key.hexdigest(), encoding="ascii")
    return made


PYTHON = sorted({sysconfig.get_path("include"), sysconfig.get_path("platinclude")})
TOLD = [] if MSVC else [("DPK_BUILD_FLAGS", f'"{" ".join(COMMON)}"')]
# In the order in which a linker takes them: what is called comes after what calls it.
ARCHIVES = [
    *[archive(f"dpk{name}", [written_in_c(name)], OF_MODULES, [], PYTHON) for name in [*MODULES, SHARED]],
    archive("dpk_core", sorted((KERNELS / "core").glob("*.c")), COMMON, TOLD, []),
    *[archive(f"dpk_{level}", [KERNELS / "isa" / f"{level}.c"], COMMON + LEVEL_FLAGS[level], [], []) for level in LEVELS],
]
OF_LEVELS = {f"dpk_{level}" for level in LEVELS}


def processors() -> int:
    """How many compilers run at once: `DPCORE_BUILD_JOBS`, or one for each processor that this process may use."""
    given = os.environ.get("DPCORE_BUILD_JOBS", "")
    if given.isdigit() and int(given):
        return int(given)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class BuildClib(build_clib):
    """`build_clib` that compiles several archives at once, those of the CPU levels first, which take longest, and says which."""

    def build_libraries(self, libraries: list[Archive]) -> None:
        # The compiler of Windows sets itself up with its first file, and is not made for two threads that begin.
        with ThreadPoolExecutor(1 if MSVC else processors()) as pool:
            list(pool.map(self._build, reversed(libraries)))

    def _build(self, library: Archive) -> None:
        name, info = library
        one, compiled = copy.copy(self), self.compiler.compile

        def compile_and_say(sources: list[str], **options: Any) -> list[str]:
            said(f"compiling {name.removeprefix('dpk').removeprefix('_')}{', a CPU level' if name in OF_LEVELS else ''}")
            # `ar` would replace objects where they stand, and keep those of files that are gone: bytes would tell of builds before.
            Path(self.compiler.library_filename(name, output_dir=one.build_clib)).unlink(missing_ok=True)
            return compiled(sources, **options)

        one.compiler = copy.copy(self.compiler)
        one.compiler.compile = compile_and_say
        if PYTHON[0] not in info["include_dirs"]:
            # Nothing of Python is in there: other interpreters take what was compiled by the same command.
            command = " ".join([*getattr(self.compiler, "compiler_so", []), *info["cflags"]]).replace(str(Path.cwd()), ".")
            one.build_temp = str(Path(self.build_temp).parent / f"kernels-{hashlib.sha256(command.encode()).hexdigest()[:12]}")
        build_clib.build_libraries(one, [library])


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


class BdistWheel(bdist_wheel):
    """`bdist_wheel` that adds a list of what the wheel is made of (PEP 770)."""

    def write_wheelfile(self, wheelfile_base: str, *arguments: Any, **options: Any) -> None:
        super().write_wheelfile(wheelfile_base, *arguments, **options)
        folder = Path(wheelfile_base, "sboms")
        folder.mkdir()
        text = json.dumps(bill_of_materials(self.distribution.get_version()), indent=2, ensure_ascii=False)
        (folder / "dpcore.cdx.json").write_text(f"{text}\n", encoding="utf-8")


class Sdist(sdist):
    """`sdist` whose archive depends on its files alone: not on when, by whom and in which order they were packed."""

    def make_archive(self, base_name: str, format: str, *arguments: Any, **options: Any) -> str:  # noqa: A002
        if format != "gztar":
            return super().make_archive(base_name, format, *arguments, **options)
        epoch, path = os.environ.get("SOURCE_DATE_EPOCH"), Path(f"{base_name}.tar.gz")

        def plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
            member.uid = member.gid = 0
            member.uname = member.gname = ""
            member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            member.mtime = int(member.mtime) if epoch is None else int(epoch)
            return member

        path.parent.mkdir(parents=True, exist_ok=True)
        base = Path(options["base_dir"])
        with (
            path.open("wb") as raw,
            gzip.GzipFile("", "wb", fileobj=raw, mtime=int(epoch or 0)) as packed,
            tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as members,
        ):
            for each in [base, *sorted(base.rglob("*"))]:
                members.add(each, recursive=False, filter=plain)
        return str(path)


def kernel_digest() -> str:
    """Of all sources of the kernels, without what Cython makes of them."""
    found = hashlib.sha256()
    for path in sorted(KERNELS.rglob("*")):
        if path.suffix in {".c", ".h", ".pyx", ".pxd", ".pxi"} and not (path.suffix == ".c" and path.parent == KERNELS):
            content = path.read_bytes().replace(b"\r\n", b"\n")
            found.update(f"{path.relative_to(KERNELS).as_posix()} {len(content)}\n".encode() + content)
    return found.hexdigest()


def bill_of_materials(version: str) -> dict[str, Any]:
    """What the wheel is made of and what is installed beside it, as CycloneDX 1.6.

    Inside are the project's own Python and C, what Cython adds to the modules it writes, and a table of real data. NumPy and SciPy are
    installed beside it in a version that pip chooses, so that they have no version here.
    """
    ours = [{"license": {"id": "Apache-2.0"}}]
    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
    data = Path("src/dpcore/reproduce/data/visits.npz").read_bytes()
    inside = [
        {
            "type": "library",
            "bom-ref": "kernels",
            "name": "dpcore-kernels",
            "version": version,
            "description": "C written for dpcore; the digest is that of dpcore/_kernels/sources.py",
            "licenses": ours,
            "hashes": [{"alg": "SHA-256", "content": kernel_digest()}],
        },
        {
            "type": "library",
            "bom-ref": "cython",
            "name": "Cython",
            "version": Cython.__version__,
            "purl": f"pkg:pypi/cython@{Cython.__version__}",
            "description": "its utility code is compiled into the modules that it writes",
            "licenses": [{"license": {"id": "Apache-2.0"}}],
        },
        {
            "type": "data",
            "bom-ref": "visits",
            "name": "visits.npz",
            "description": "ten columns of the RAND Health Insurance Experiment",
            "licenses": [{"license": {"name": "public domain"}}],
            "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(data).hexdigest()}],
        },
    ]
    beside = [
        {
            "type": "library",
            "bom-ref": name,
            "name": name,
            "purl": f"pkg:pypi/{name}",
            "description": f"installed beside the wheel: {requirement}",
            "scope": "required",
        }
        for requirement in project["dependencies"]
        for name in [requirement.partition(">")[0]]
    ]
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    moment = {} if epoch is None else {"timestamp": datetime.fromtimestamp(int(epoch), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")}
    purl = f"pkg:pypi/dpcore@{version}"
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": uuid.uuid5(uuid.NAMESPACE_URL, f"{purl}#{kernel_digest()}").urn,
        "version": 1,
        "metadata": {
            **moment,
            "lifecycles": [{"phase": "build"}],
            "tools": {"components": [{"type": "application", "name": "setuptools", "version": setuptools.__version__}]},
            "component": {
                "type": "library",
                "bom-ref": "dpcore",
                "name": "dpcore",
                "version": version,
                "purl": purl,
                "description": project["description"],
                "licenses": ours,
            },
        },
        "components": inside + beside,
        "dependencies": [
            {"ref": "dpcore", "dependsOn": [each["bom-ref"] for each in inside + beside]},
            *[{"ref": each["bom-ref"]} for each in inside + beside],
        ],
    }


LIBRARY = Extension(
    "dpcore._kernels._library",
    [str(KERNELS / "library" / "library.c")],
    depends=[file for _, info in ARCHIVES for file in info["sources"]] + HEADERS,  # the archives alone would not relink it
    extra_compile_args=OF_MODULES + SMALL + INSTRUMENT,
    extra_link_args=INSTRUMENT + STRIPPED,
)

setup(
    libraries=ARCHIVES,
    ext_modules=[LIBRARY],
    options={"build": {"build_base": f"build/sanitize-{SANITIZER}"}} if INSTRUMENT else {},
    cmdclass={
        "bdist_wheel": BdistWheel,
        "build_clib": BuildClib,
        "build_ext": BuildExt,
        "build_py": BuildPy,
        "sdist": Sdist,
    },
)
