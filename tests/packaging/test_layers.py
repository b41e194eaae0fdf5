"""Imports run one way: the lists of layers are complete, and no import closes a circle, not even one for types."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

import pytest

pytestmark = pytest.mark.source_tree

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "src"


CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
LAYERS = {contract["id"]: contract for contract in CONTRACTS if contract["type"] == "layers"}
USES_KEYED_STREAMS = {"frames", "interop", "pytest_plugin", "query", "reproduce", "spark", "tables"}
"""Studies, jobs with a test key, and what serves tests."""

FACE = {
    "backend",
    "document",
    "in_memory",
    "kinds",
    "local_backend",
    "methods",
    "page",
    "plan",
    "prose",
    "questions",
    "request",
    "run",
    "view",
    "planning",
    "rehearsal",
    "verification",
    "written_plans",
}
"""The modules of the engine that others import, as its docstring lists them."""


def modules_in(package: str) -> set[str]:
    """Modules and packages that lie in a package, by their own names."""
    folder = SOURCES / package.replace(".", "/")
    files = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    return files | {path.parent.name for path in folder.glob("*/__init__.py")}


def listed_in(contract: dict) -> list[str]:
    """Modules in the layers of a contract; one in parentheses need not be in the source tree."""
    return [name.strip() for layer in contract["layers"] for name in layer.replace("|", ":").split(":")]


def unplaced(contract: dict) -> dict[str, set[str]]:
    """What a list of layers has twice, leaves out, or has without need."""
    (package,) = contract["containers"]
    listed, ignored, there = listed_in(contract), set(contract.get("exhaustive_ignores", [])), modules_in(package)
    required = {name for name in listed if not name.startswith("(")}
    found = {
        "twice": {name for name in listed if listed.count(name) > 1} | required & ignored,
        "left out": there - required - ignored,
        "gone": (required | ignored) - there,
    }
    return {word: names for word, names in found.items() if names}


@pytest.mark.parametrize("name", LAYERS)
def test_every_module_has_its_layer(name):
    assert LAYERS[name]["exhaustive"]
    assert unplaced(LAYERS[name]) == {}


def test_every_file_lies_below_a_layer():
    """The package as a whole, and the rooms whose insides are ordered; their lists are checked above."""
    assert {"layers", "query", "jobs", "minimax", "accounting", "ledger"} <= LAYERS.keys()
    known = {name.strip("()") for name in listed_in(LAYERS["layers"])} | set(LAYERS["layers"]["exhaustive_ignores"])
    files = [path.relative_to(SOURCES / "dpcore") for path in (SOURCES / "dpcore").rglob("*.py")]
    assert {path.as_posix() for path in files if path.parts[0].removesuffix(".py") not in known} == {"__init__.py"}
    # A folder of modules that is no package would be in no list, and not in the wheel.
    assert {path.parent.as_posix() for path in files if not (SOURCES / "dpcore" / path.parent / "__init__.py").exists()} == set()


def test_a_module_without_a_layer_is_found():
    contract = LAYERS["layers"]
    without = contract | {"layers": [layer for layer in contract["layers"] if layer != "minimax"]}
    assert unplaced(without) == {"left out": {"minimax"}}
    assert unplaced(contract | {"layers": [*contract["layers"], "pages", "nowhere"]}) == {"twice": {"pages"}, "gone": {"nowhere"}}


def names_of(contract: str, key: str) -> set[str]:
    (found,) = [each for each in CONTRACTS if each["id"] == contract]
    return {name.removeprefix("dpcore.") for name in found[key]}


def test_lists_of_what_is_forbidden_are_complete():
    """A new module is forbidden to the leaves, and keyed streams are to it, unless it is listed here."""
    leaves = set(LAYERS["layers"]["exhaustive_ignores"]) - {"testing"}
    assert names_of("leaves", "source_modules") == leaves
    assert names_of("leaves", "forbidden_modules") == modules_in("dpcore") - leaves
    assert names_of("keyed-streams", "source_modules") == modules_in("dpcore") - USES_KEYED_STREAMS - {"testing"}


def imports() -> dict[str, set[str]]:
    """For each module, what it imports of dpcore: at its top, inside of functions, and for types."""
    files = {".".join(path.relative_to(SOURCES).with_suffix("").parts): path for path in (SOURCES / "dpcore").rglob("*.py")}
    modules = {name.removesuffix(".__init__"): path for name, path in files.items()}
    found: dict[str, set[str]] = {}
    for name, path in modules.items():
        wanted = set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                wanted |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                inner = {f"{node.module}.{alias.name}" for alias in node.names}
                wanted |= inner & modules.keys() | ({node.module} if inner - modules.keys() else set())
        found[name] = (wanted & modules.keys()) - {name}
    return found


def circles(graph: dict[str, set[str]]) -> set[frozenset[str]]:
    """Modules that reach themselves, together with those that they share a circle with."""
    reached = {name: reachable(graph, name) for name in graph}
    cyclic = [name for name in graph if name in reached[name]]
    return {frozenset(other for other in cyclic if other in reached[name] and name in reached[other]) for name in cyclic}


def reachable(graph: dict[str, set[str]], start: str) -> set[str]:
    seen: set[str] = set()
    waiting = list(graph[start])
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting += graph[name]
    return seen


@pytest.mark.long
def test_no_circle_of_imports():
    assert [sorted(circle) for circle in circles(imports())] == []


@pytest.mark.long
def test_a_circle_is_found_even_one_for_types():
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == {frozenset("abc")}
    assert "dpcore.tables.inputs" in imports()["dpcore.tables.units.contributions"]  # which is for types


@pytest.mark.long
def test_documents_are_measured_without_jobs():
    graph = imports()
    for name in graph:
        if name.startswith("dpcore.reproduce"):
            assert not {other for other in reachable(graph, name) if other.startswith("dpcore.batch")}, name


def rooms_of_the_engine(text: str) -> set[str]:
    """The modules of the engine that a source imports, for types too."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module is not None and f"{node.module}.".startswith("dpcore.query."):
            below = node.module.split(".")[2:]
            found |= {below[0]} if below else {alias.name for alias in node.names}
    return found


def test_the_engine_is_asked_through_its_face():
    """Job files, frames, Spark and tools; the face stays short."""
    outside = [path for path in (SOURCES / "dpcore").rglob("*.py") if "query" not in path.relative_to(SOURCES / "dpcore").parts[:1]]
    found = {path.as_posix(): rooms_of_the_engine(path.read_text(encoding="utf-8")) - FACE for path in outside}
    assert {path: rooms for path, rooms in found.items() if rooms} == {}
    docstring = ast.get_docstring(ast.parse((SOURCES / "dpcore" / "query" / "__init__.py").read_text(encoding="utf-8")))
    assert docstring is not None
    assert all(f"`{name}`" in docstring for name in FACE)
    assert len(FACE) <= 17


def test_an_import_behind_the_face_would_be_found():
    text = (
        "from dpcore.query import groups, kinds\ndef f():\n    from dpcore.query.kinds.mean import M\n    from dpcore.query.reads import R"
    )
    assert rooms_of_the_engine(text) - FACE == {"groups", "reads"}
