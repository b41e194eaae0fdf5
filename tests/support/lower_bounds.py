"""The oldest version of each package that pyproject.toml allows, as constraints of pip: `make test-lowest` installs exactly these."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path
from typing import Any

PYPROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"
REQUIREMENT = re.compile(r"([\w-]+)(?:\[([\w,-]+)\])?\s*(?:[>=]=([\d.]+))?")


def project() -> dict[str, Any]:
    """The table `project` of pyproject.toml."""
    return tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]


def requirements(extras: list[str], declared: dict[str, Any]) -> list[str]:
    """What dpcore and its extras ask for, with the extras that these name."""
    found, todo, seen = list(declared["dependencies"]), list(extras), set(extras)
    while todo:
        for line in declared["optional-dependencies"][todo.pop()]:
            name, inner, _ = REQUIREMENT.match(line).groups()
            if name != "dpcore":
                found.append(line)
                continue
            todo += sorted(set(inner.split(",")) - seen)
            seen |= set(inner.split(","))
    return found


def release(version: str) -> tuple[int, ...]:
    """A version as numbers that can be compared; 1.20 and 1.20.0 are one."""
    return tuple(map(int, [*version.split("."), 0, 0, 0][:4]))


def lower_bounds(extras: list[str], declared: dict[str, Any] | None = None) -> dict[str, str]:
    """The highest of the lower bounds of each package, by its name."""
    bounds: dict[str, str] = {}
    for line in requirements(extras, declared or project()):
        name, _, bound = REQUIREMENT.match(line).groups()
        if bound is None:
            raise ValueError(f"{line!r} has no lower bound")
        if name not in bounds or release(bounds[name]) < release(bound):
            bounds[name] = bound
    return bounds


if __name__ == "__main__":
    print("\n".join(f"{name}=={bound}" for name, bound in sorted(lower_bounds(sys.argv[1].split(",")).items())))
