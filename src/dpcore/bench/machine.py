"""The machine and the version that a run measures."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from dpcore import _backend
from dpcore._version import __version__
from dpcore.bench.benchmark import PIP

SHOWN = (
    "numpy",
    "scipy",
    "pyarrow",
    "cryptography",
    "randomgen",
    "opendp",
    "diffprivlib",
    *(name.partition(" ")[0] for name in PIP.values()),
)
"""Packages whose versions are recorded."""
SAME = ("cpu", "cores", "machine", "system")
"""What two records of one machine agree in."""


def machine_record() -> dict[str, Any]:
    """Describe the machine in the form of pytest-benchmark, with a part of its own for dpcore. The host's name is left out."""
    return {
        "node": "",
        "processor": platform.processor(),
        "machine": platform.machine(),
        "system": platform.system(),
        "release": "",
        "python_compiler": platform.python_compiler(),
        "python_implementation": platform.python_implementation(),
        "python_implementation_version": platform.python_version(),
        "python_version": platform.python_version(),
        "python_build": list(platform.python_build()),
        "cpu": {"brand_raw": _cpu(), "arch": platform.machine(), "count": os.cpu_count()},
        "dpcore": {"version": __version__, **_backend.info(), "governor": _governor(), "packages": _versions()},
    }


def identity(machine: dict[str, Any]) -> dict[str, Any]:
    """What tells one machine from another.

    Parameters
    ----------
    machine : dict
        What `machine_record` returns.
    """
    cpu = machine.get("cpu", {})
    levels = machine.get("dpcore", {}).get("cpu_levels_available", [])
    values = cpu.get("brand_raw"), cpu.get("count"), machine.get("machine"), machine.get("system")
    return dict(zip(SAME, values, strict=True)) | {"CPU levels": ", ".join(levels)}


def _cpu() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            name, _, value = line.partition(":")
            if name.strip().lower() in {"model name", "hardware", "cpu model"}:
                return value.strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _governor() -> str | None:
    """What decides the frequency of the first CPU, where the system lets it be read."""
    try:
        return Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").read_text(encoding="utf-8").strip()
    except OSError:
        return None


def _versions() -> dict[str, str]:
    found = {}
    for name in SHOWN:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def commit_record() -> dict[str, Any]:
    """The commit of the repository that the command is run in, in the form of pytest-benchmark; without one if it is another program's."""
    nothing = {"id": None, "time": None, "author_time": None, "dirty": None, "project": "dpcore", "branch": None}
    if not Path("src/dpcore/_version.py").is_file():
        return nothing
    head, time, dirty = _git("rev-parse", "HEAD"), _git("log", "-1", "--format=%cI"), _git("status", "--porcelain", "--untracked-files=no")
    if head is None:
        return nothing
    return nothing | {"id": head, "time": time, "author_time": time, "dirty": bool(dirty), "branch": ""}


def _git(*arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", *arguments], capture_output=True, text=True, check=True, timeout=20)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
