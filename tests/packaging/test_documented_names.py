"""What the documentation of 0.1 names stays: modules, functions, classes and their members, parameters, commands and options.

The lists beside this file were made from the reference, from `__all__` and from the programs on the pages. A later version adds lines for
what it documents. A line goes only with a deprecation that `docs/stability.md` allows.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import inspect
import re
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pydantic")
pytest.importorskip("click")

from dpcore.cli import command_group

FOLDER = Path(__file__).parent
OPTIONAL = {"clarabel", "matplotlib", "jinja2", "pyspark"}
LINE = re.compile(r"(?P<module>module )?(?P<path>[\w.]+)(?P<call>\((?P<parameters>[\w, ]*)\))?")
NAMES = (FOLDER / "documented_names.txt").read_text(encoding="utf-8").splitlines()
COMMANDS = dict(line.split(":") for line in (FOLDER / "documented_commands.txt").read_text(encoding="utf-8").splitlines())
MODULES = [line.removeprefix("module ") for line in NAMES if line.startswith("module ")]
SCRIPTS = {("console_scripts", "dpcore"): "dpcore.cli:main", ("pytest11", "dpcore.pytest_plugin"): "dpcore.pytest_plugin"}


def module_of(line: str) -> str:
    """The longest module that a path begins with."""
    path = line.removeprefix("module ").partition("(")[0]
    return max((module for module in MODULES if f"{path}.".startswith(f"{module}.")), key=len)


def lost(line: str) -> str | None:
    """What a line names and the package does not have; None if it is there."""
    parts = LINE.fullmatch(line)
    assert parts is not None, line
    module = module_of(line)
    found: Any = importlib.import_module(module)
    if parts["module"]:
        return None
    for name in parts["path"].removeprefix(f"{module}.").split("."):
        # A field without a default is no attribute of its class.
        if inspect.isclass(found) and name in {*getattr(found, "__dataclass_fields__", ()), *getattr(found, "model_fields", ())}:
            return None
        try:
            found = getattr(found, name)
        except AttributeError:
            return f"{parts['path']} is gone"
    if isinstance(found, types.ModuleType):
        return f"{parts['path']} is a module, and no longer a name in {module}"
    wanted = [name for name in (parts["parameters"] or "").split(", ") if name]
    has = {} if parts["call"] is None else inspect.signature(found).parameters
    missing = [name for name in wanted if name not in has]
    return f"{parts['path']} has no parameter {', '.join(missing)}" if missing else None


@pytest.mark.some(18)
@pytest.mark.parametrize("module", MODULES)
def test_names_of_a_module_are_there(module):
    try:
        assert [said for line in NAMES if module_of(line) == module and (said := lost(line))] == []
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in OPTIONAL:
            raise
        pytest.skip(f"{module} needs an extra that is not installed")


def test_the_list_is_not_a_short_one():
    assert len(NAMES) > 1300
    assert len(MODULES) > 45
    assert {"dpcore.batch.release(plan, threads, progress, piece_rows)", "dpcore.PrivateTable.mean"} <= {
        line if line.startswith("dpcore.batch.release(") else line.partition("(")[0] for line in NAMES
    }


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("dpcore.noise.laplacian(values)", "dpcore.noise.laplacian is gone"),
        ("dpcore.noise.laplace(values, scales)", "dpcore.noise.laplace has no parameter scales"),
        ("dpcore.frames.PrivateTable.modus", "dpcore.frames.PrivateTable.modus is gone"),
    ],
)
def test_a_name_that_was_lost_is_found(line, said):
    assert lost(line) == said


def test_a_package_in_place_of_a_function_is_found(monkeypatch):
    monkeypatch.setattr("dpcore.batch.release", types.ModuleType("release"))
    (line,) = (line for line in NAMES if line.startswith("dpcore.batch.release("))
    assert lost(line) == "dpcore.batch.release is a module, and no longer a name in dpcore.batch"


LOOKED_UP = (
    "from dpcore.batch import estimate, privatize, release\nprint(*(type(each).__name__ for each in (estimate, privatize, release)))"
)


@pytest.mark.long
@pytest.mark.parametrize("first", ["", "import dpcore.cli; dpcore.cli.run(['--version'])\n"])
def test_functions_of_batch_are_not_hidden_by_packages_of_their_names(first):
    """Whatever was imported before: a package inside of `dpcore.batch` becomes an attribute of it."""
    done = subprocess.run([sys.executable, "-c", first + LOOKED_UP], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "function function function"


# Commands and entry points


def options_of(command: Any, name: str = "dpcore") -> dict[str, set[str]]:
    found = {name: {word for option in command.params for word in (*option.opts, *option.secondary_opts)}}
    for subcommand in getattr(command, "commands", {}).values():
        found |= options_of(subcommand, f"{name} {subcommand.name}")
    return found


def test_commands_and_their_options_are_there():
    found = options_of(command_group())
    assert len(COMMANDS) >= 15
    assert COMMANDS.keys() - found.keys() == set()
    assert {name: set(options.split()) - found[name] for name, options in COMMANDS.items() if set(options.split()) - found[name]} == {}


def test_entry_points_are_those_of_0_1():
    ours = {(point.group, point.name): point.value for point in importlib.metadata.distribution("dpcore").entry_points}
    assert ours == SCRIPTS
    for point in importlib.metadata.distribution("dpcore").entry_points:
        assert point.load() is not None
