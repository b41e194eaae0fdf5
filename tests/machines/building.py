"""A wheel for a machine that this one is not, and an environment of that machine's Python with the wheel and what it needs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parents[2]
STEERING = ("CC", "CXX", "CFLAGS", "CPPFLAGS", "LDFLAGS", "ARCHFLAGS", "LDSHARED", "VIRTUAL_ENV", "PYTEST_ADDOPTS")
"""Variables that would make another build, or other tests."""
NEEDED = ("test-tools",)
"""Extras without which no test runs."""
WELCOME = ("test", "batch", "accounting", "minimax")
"""Extras of which every package is installed that has a wheel for the machine."""
ABOUT = """
import os, sys, sysconfig
try:
    libc = os.confstr("CS_GNU_LIBC_VERSION")
except (AttributeError, ValueError, OSError):
    libc = "another one"
print("%d.%d" % sys.version_info[:2], sysconfig.get_platform(), libc.partition(" ")[0])
"""


def refuse(message: str) -> NoReturn:
    """End with a message and the code of a wrong call."""
    print(message, file=sys.stderr)
    raise SystemExit(2)


def variables(**more: str) -> dict[str, str]:
    """The variables of a process that nothing of this shell steers."""
    kept = {name: value for name, value in os.environ.items() if name not in STEERING and not name.startswith(("PYTHON", "DPCORE_"))}
    return kept | more


@dataclass(frozen=True)
class Machine:
    """Another machine, of which this one runs programs.

    Attributes
    ----------
    name : str
        The word for it.
    version : str
        The version of its Python, such as "3.11".
    runner : tuple of str
        What comes before the path of its Python: an emulator, or nothing.
    python : Path
        Its Python.
    tags : tuple of str
        Platforms whose wheels it takes, the best first.
    folder : Path
        Where its environment is made.
    """

    name: str
    version: str
    runner: tuple[str, ...]
    python: Path
    tags: tuple[str, ...]
    folder: Path = ROOT

    @property
    def environment(self) -> Path:
        """The folder of its environment."""
        return self.folder / f".venv-{self.name}"

    @property
    def interpreter(self) -> Path:
        """The Python of its environment."""
        return self.environment / "bin" / "python"

    @property
    def packages(self) -> Path:
        """Where its environment has its packages."""
        return self.environment / "lib" / f"python{self.version}" / "site-packages"

    def run(self, *arguments: str, more: dict[str, str] | None = None) -> int:
        """Run its Python in the repository's folder, and return how it ended."""
        return subprocess.run([str(self.interpreter), *arguments], cwd=ROOT, env=variables(**(more or {})), check=False).returncode


def emulated(root: Path) -> Machine:
    """The machine whose system lies in a folder: aarch64, run by QEMU."""
    missing = [package for package, program in (("gcc-aarch64-linux-gnu", "aarch64-linux-gnu-gcc"),) if shutil.which(program) is None]
    emulator = shutil.which("qemu-aarch64") or shutil.which("qemu-aarch64-static")
    if emulator is None:
        missing.append("qemu-user")
    if missing:
        refuse(f"make test-aarch64 needs {' and '.join(missing)}: apt-get install {' '.join(missing)}")
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    wanted = {
        "its Python": root / f"usr/bin/python{version}",
        "the headers of its Python": root / f"usr/include/python{version}/Python.h",
        "what its Python was built with": root / f"usr/lib/python{version}/_sysconfigdata__aarch64-linux-gnu.py",
        "the library of C++, which wheels use": root / "usr/lib/aarch64-linux-gnu/libstdc++.so.6",
    }
    absent = [f"{what} ({path})" for what, path in wanted.items() if not path.exists()]
    if absent:
        refuse(
            f"AARCH64_ROOT={root} must be a Debian system for arm64 with Python {version}, which is this one's version; it lacks "
            f'{", ".join(absent)}: see "Other machines" in CONTRIBUTING.md'
        )
    tags = (*(f"manylinux_2_{minor}_aarch64" for minor in range(36, 16, -1)), "manylinux2014_aarch64", "linux_aarch64")
    return Machine("aarch64", version, (emulator, "-L", str(root)), wanted["its Python"], tags)


def on_musl(python: str) -> Machine:
    """The machine whose Python has musl as its C library."""
    found = shutil.which(python)
    if found is None:
        refuse(f"MUSL_PYTHON={python} is no program")
    said = subprocess.run([found, "-c", ABOUT], capture_output=True, text=True, check=False, env=variables())
    if said.returncode:
        refuse(f"MUSL_PYTHON={python} does not run: {said.stderr.strip()}")
    version, platform, libc = said.stdout.split(maxsplit=2)
    if libc.strip() == "glibc":
        refuse(f"MUSL_PYTHON={python} runs on glibc")
    processor = platform.rpartition("-")[2]
    tags = (f"musllinux_1_2_{processor}", f"musllinux_1_1_{processor}", f"linux_{processor}")
    return Machine("musl", version, (), Path(found), tags)


def made(machine: Machine) -> None:
    """Make the environment, with an interpreter that programs can start as they start any other."""
    shutil.rmtree(machine.environment, ignore_errors=True)
    if not machine.runner:
        subprocess.run([str(machine.python), "-m", "venv", "--without-pip", str(machine.environment)], check=True, env=variables())
        return
    machine.packages.mkdir(parents=True)
    machine.interpreter.parent.mkdir()
    command = " ".join(f'"{word}"' for word in (*machine.runner, "-0", str(machine.interpreter), str(machine.python)))
    machine.interpreter.write_text(f'#!/bin/sh\nexec {command} "$@"\n', encoding="utf-8")
    machine.interpreter.chmod(0o755)
    (machine.environment / "pyvenv.cfg").write_text(
        f"home = {machine.python.parent}\ninclude-system-site-packages = false\nversion = {machine.version}\n", encoding="utf-8"
    )


def pip(machine: Machine, *arguments: str, check: bool = True) -> int:
    """Let the pip of this machine choose wheels for the other one."""
    tag = machine.version.replace(".", "")
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--only-binary=:all:"]
    command += ["--implementation", "cp", "--python-version", machine.version, "--abi", f"cp{tag}", "--abi", "abi3", "--abi", "none"]
    for each in machine.tags:
        command += ["--platform", each]
    quiet = None if check else subprocess.DEVNULL
    return subprocess.run([*command, *arguments], cwd=ROOT, check=check, env=variables(), stdout=quiet, stderr=quiet).returncode


def requirements(*extras: str) -> list[str]:
    """What the package and these extras of it ask for, themselves in the place of extras that they name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found: list[str] = []
    for extra in extras:
        for each in project["optional-dependencies"][extra]:
            if each.startswith("dpcore["):
                found += requirements(*each.removeprefix("dpcore[").removesuffix("]").split(","))
            else:
                found.append(each)
    return list(dict.fromkeys([*project["dependencies"], *found]))


def build_requirements() -> list[str]:
    """What a build asks for."""
    return list(tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]["requires"])


def has_wheels(machine: Machine, bounds: Path, *packages: str) -> bool:
    """Whether packages, and what they need within bounds, have wheels for the machine."""
    asked = ("--dry-run", "--ignore-installed", "--target", str(machine.packages), "--constraint", str(bounds))
    return pip(machine, *asked, *packages, check=False) == 0


def filled(machine: Machine) -> list[str]:
    """Install what tests need, and of what they welcome all that has wheels; returns what has none.

    Without bounds, a package that has none would come as an older release all the same, where another package is content with that.
    """
    needed = [*requirements(*NEEDED), *([] if machine.runner else build_requirements())]
    welcome = [each for each in requirements(*WELCOME) if each not in needed]
    bounds = machine.environment / "bounds.txt"
    bounds.write_text("".join(re.sub(r"\[.*?\]", "", each) + "\n" for each in welcome), encoding="utf-8")
    if not has_wheels(machine, bounds, *welcome):
        welcome = [each for each in welcome if has_wheels(machine, bounds, each)]
    pip(machine, "--target", str(machine.packages), "--constraint", str(bounds), *needed, *welcome)
    return [each for each in requirements(*WELCOME) if each not in (*needed, *welcome)]


def built(machine: Machine, root: Path | None) -> Path:
    """The wheel: compiled by a cross compiler with the settings of the Python in `root`, or by the machine's Python itself."""
    base, wheels = ROOT / "build" / machine.name, ROOT / "build" / f"wheel-{machine.name}"
    shutil.rmtree(wheels, ignore_errors=True)
    python, more = str(machine.interpreter), {}
    if root is not None:
        # This machine's Python runs the build. It takes the compiler, and the names of what it makes, from the settings of the other's.
        python, settings = sys.executable, base / "settings"
        settings.mkdir(parents=True, exist_ok=True)
        name = "_sysconfigdata__aarch64-linux-gnu"
        shutil.copy(root / f"usr/lib/python{machine.version}" / f"{name}.py", settings)
        include = root / "usr" / "include"
        more = {
            "_PYTHON_HOST_PLATFORM": "linux-aarch64",
            "_PYTHON_SYSCONFIGDATA_NAME": name,
            "PYTHONPATH": str(settings),
            "CFLAGS": f"-I{include / f'python{machine.version}'} -idirafter {include}",
        }
    command = [python, "setup.py", "--quiet", "build", "--build-base", str(base), "bdist_wheel", "--dist-dir", str(wheels)]
    subprocess.run(command, cwd=ROOT, check=True, env=variables(**more))
    (wheel,) = wheels.glob("*.whl")
    return wheel
