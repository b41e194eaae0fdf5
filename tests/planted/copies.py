"""A private copy of the installed package with one fault in it; nothing that is installed is changed.

The copy is in an environment of its own, whose other packages are those of an environment that exists: processes that a test starts, with
or without the variables of its own environment, import the copy as well.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from typing import TYPE_CHECKING

from planted.catalogue import KERNELS, ROOT

if TYPE_CHECKING:
    from planted.catalogue import Fault

BUILT = ROOT / "build" / "planted"
"""Kernels with faults, kept for the next run."""
LEFT_OUT = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PYTEST_ADDOPTS", "COVERAGE_PROCESS_START")


def packages_of(environment: Path) -> Path:
    """Where an environment has its packages."""
    return Path(sysconfig.get_path("platlib", "venv", vars={"base": str(environment), "platbase": str(environment)}))


def variables() -> dict[str, str]:
    """The variables of a process that shall see nothing but its own environment."""
    return {key: value for key, value in os.environ.items() if key not in LEFT_OUT}


def made(folder: Path, fault: Fault | None, third_party: Path) -> Path:
    """The interpreter of a new environment with the package, with the fault in it if there is one."""
    venv.EnvBuilder(symlinks=True, with_pip=False).create(folder)
    packages = packages_of(folder)
    # Compiled files keep what they note about their sources, so that nothing but the faulty file is compiled again.
    shutil.copytree(packages_of(ROOT / ".venv") / "dpcore", packages / "dpcore")
    (packages / "others.pth").write_text(f"import site; site.addsitedir({str(packages_of(third_party))!r})\n", encoding="utf-8")
    if fault is not None and fault.is_compiled:
        there, differ = packages / "dpcore" / "_kernels", False
        for built in kernels_with(fault, folder / "tree").iterdir():
            differ = differ or built.read_bytes() != (there / built.name).read_bytes()
            shutil.copy2(built, there / built.name)
        if not differ:
            raise ValueError(f"{fault.file} changes no module: the build did not link it")
    elif fault is not None:
        path = packages / fault.installed
        if path.read_bytes() != (ROOT / fault.file).read_bytes():
            raise ValueError(f"{fault.file} is not what is installed: make .venv/installed-test")
        path.write_text(fault.planted(path.read_text(encoding="utf-8")), encoding="utf-8")
        shutil.rmtree(path.parent / "__pycache__", ignore_errors=True)
    return folder / "bin" / "python"


def kernels_with(fault: Fault, tree: Path) -> Path:
    """A folder with the compiled kernels of this source tree and the fault; built if it is not there."""
    digest = hashlib.sha256(f"{sys.version}{fault.file}{fault.old}{fault.new}".encode())
    sources = sorted(path for path in (ROOT / KERNELS).rglob("*") if path.is_file() and path.suffix in {".c", ".h", ".pyx", ".pxd", ".pxi"})
    for path in [ROOT / "setup.py", *(path for path in sources if path.parent != ROOT / KERNELS or path.suffix != ".c")]:
        digest.update(path.read_bytes())
    target = BUILT / f"{fault.name}-{digest.hexdigest()[:16]}"
    if not target.is_dir():
        _build(fault, tree)
        for old in BUILT.glob(f"{fault.name}-*"):
            shutil.rmtree(old)
        partial = BUILT / f".{fault.name}.{os.getpid()}"
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        suffix = sysconfig.get_config_var("EXT_SUFFIX")
        for built in tree.glob(f"build/lib*/dpcore/_kernels/*{suffix}"):
            shutil.move(built, partial)
        partial.rename(target)
        shutil.rmtree(tree)
    return target


def _build(fault: Fault, tree: Path) -> None:
    """Build a copy of the source tree, whose objects are up to date but for what the fault touches."""
    tree.mkdir()
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE", "MANIFEST.in"):
        shutil.copy2(ROOT / name, tree)
    # Without the modules, since a change of a library of C alone would not link them again.
    left_out = shutil.ignore_patterns("planted", "sanitize-*", "bdist.*", "__pycache__", "*.so")
    for name in ("src", "build"):
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, tree / name, ignore=left_out)
    path = tree / fault.file
    path.write_text(fault.planted(path.read_text(encoding="utf-8")), encoding="utf-8")
    python = ROOT / ".venv" / "bin" / "python"
    kept = {}
    if path.suffix != ".h" and os.name == "posix":  # no object of Cython's depends on other files of the kernels
        compiler = os.environ.get("CC") or sysconfig.get_config_var("CC")
        kept = {"CC": f"{python} {Path(__file__).with_name('compiler.py')}", "PLANTED_CC": compiler}
    done = subprocess.run(
        [python, "setup.py", "-q", "build_ext"],
        cwd=tree,
        env=variables() | kept,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        raise ValueError(f"the kernels with {fault.name} do not build:\n{done.stdout[-2000:]}")
