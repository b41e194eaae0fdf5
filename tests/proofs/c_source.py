"""The C of the kernels as each CPU level compiles it: preprocessed with the level's macros, and parsed."""

from __future__ import annotations

import ast
import functools
import os
import platform
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pycparser import c_ast, c_parser

ROOT = Path(__file__).resolve().parents[2]
KERNELS = ROOT / "src" / "_kernels"
STUBS = Path(__file__).resolve().parent / "stubs"
INCLUDED = ("dpk_noise.h", "lanes.h", "laplace.inc.c", "gaussian.inc.c", "discrete.inc.c", "release.inc.c", "retries.c", "unit_noise.h")
"""Files that are read together, in the order in which the kernels include them."""
X86 = platform.machine().lower() in {"x86_64", "amd64"}
WITH_AVX2 = ("__SSE2__", "__SSE4_1__", "__POPCNT__", "__AVX2__", "__FMA__")
ELSEWHERE = {
    "baseline": ("__SSE2__",),
    "x86_v3": WITH_AVX2,
    "x86_v4": (*WITH_AVX2, "__AVX512F__", "__AVX512BW__", "__AVX512DQ__", "__AVX512VL__"),
    "aarch64": ("__aarch64__", "__ARM_FEATURE_FMA"),
}
"""Macros of levels for which the compiler of this machine cannot be asked; the sources test no others of them."""


def _defined(level: str) -> tuple[str, ...]:
    return ("-undef", "-D__GNUC__=12", *(f"-D{name}=1" for name in ELSEWHERE[level]))


PORTABLE = ("-undef",)
"""No compiler that has types for vectors: arrays are read one number at a time."""
NATIVE = "baseline" if X86 else "aarch64"
"""What the level `baseline` of this machine's build is."""


class NoCompilerError(Exception):
    """There is no C preprocessor."""


def preprocessor() -> str:
    """The C compiler whose preprocessor reads the sources."""
    for name in (os.environ.get("CC", ""), "cc", "gcc", "clang"):
        if name and shutil.which(name.split()[0]):
            return name.split()[0]
    raise NoCompilerError("no C compiler is installed")


@functools.cache
def levels() -> dict[str, tuple[str, ...]]:
    """The flags of each CPU level, as setup.py has them, and those of aarch64."""
    for each in ast.parse((ROOT / "setup.py").read_text(encoding="utf-8")).body:
        if isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Name) and each.targets[0].id == "LEVEL_FLAGS":
            assert isinstance(each.value, ast.Dict)
            values = [value.orelse if isinstance(value, ast.IfExp) else value for value in each.value.values]
            named = {
                ast.literal_eval(key): tuple(ast.literal_eval(value)) for key, value in zip(each.value.keys, values, strict=True) if key
            }
            return {**(named if X86 else {level: _defined(level) for level in named}), "aarch64": _defined("aarch64")}
    raise AssertionError("setup.py has no LEVEL_FLAGS")


@dataclass(frozen=True)
class Source:
    """One reading of the sources.

    Attributes
    ----------
    level : str
        The CPU level.
    functions, typedefs, constants : dict
        Definitions by name: functions, types, and the initialisers of constants.
    structs : dict
        The fields of each structure type: their names and types.
    """

    level: str
    functions: dict[str, Any]
    typedefs: dict[str, Any]
    constants: dict[str, Any]
    structs: dict[str, list[tuple[str, Any]]]


def preprocessed(kernels: Path, level: str, included: tuple[str, ...] = INCLUDED) -> str:
    """The text that the compiler sees, without attributes."""
    text = "".join(f'#include "{name}"\n' for name in included)
    flags = PORTABLE if level == "portable" else levels()[level]
    folders = [flag for folder in (STUBS, kernels / "include", kernels / "kernels", kernels / "core") for flag in ("-I", str(folder))]
    command = [
        preprocessor(),
        "-E",
        "-P",
        "-std=c11",
        *flags,
        "-nostdinc",
        *folders,
        "-D__attribute__(x)=",
        "-D__STDC_HOSTED__=0",
        "-",
    ]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ValueError(f"the preprocessor fails for {level}: {done.stderr.strip()}")
    return done.stdout


@functools.lru_cache(maxsize=64)
def read(kernels: Path, level: str, included: tuple[str, ...] = INCLUDED) -> Source:
    """Read the sources as a level sees them."""
    tree = c_parser.CParser().parse(preprocessed(kernels, level, included))
    found = Source(level, {}, {}, {}, {})
    for each in tree.ext:
        if isinstance(each, c_ast.FuncDef):
            found.functions[each.decl.name] = each
        elif isinstance(each, c_ast.Typedef):
            found.typedefs[each.name] = each.type
            _note(found, each.type, each.name)
        elif isinstance(each, c_ast.Decl):
            if isinstance(each.type, c_ast.Enum):
                _note(found, each.type, None)
            elif each.init is not None:
                found.constants[each.name] = each
    return found


def _note(found: Source, kind: Any, name: str | None) -> None:
    """Keep the values of an enumeration, and the fields of a structure."""
    inner = kind.type if isinstance(kind, c_ast.TypeDecl) else kind
    if isinstance(inner, c_ast.Enum) and inner.values is not None:
        last: Any = None
        for one in inner.values.enumerators:
            last = one.value if one.value is not None else ("after", last)
            found.constants[one.name] = last
    if isinstance(inner, c_ast.Struct) and inner.decls is not None and name is not None:
        found.structs[name] = [(field.name, field.type) for field in inner.decls]


def comments(kernels: Path, file: str) -> str:
    """The text of a file, with its comments, in one line."""
    return re.sub(r"\s+", " ", (kernels / file).read_text(encoding="utf-8"))
