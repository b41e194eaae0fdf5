"""Imports run one way: the lists of layers are complete, and no import closes a circle, not even one for types."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

import pytest

pytestmark = pytest.mark.source_tree

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "src"


def layer_lists() -> list[dict]:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
    return [contract for contract in contracts if contract["type"] == "layers"]


def modules_in(package: str) -> set[str]:
    """Modules and packages that lie in a package, by their own names."""
    folder = SOURCES / package.replace(".", "/")
    files = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    return files | {path.parent.name for path in folder.glob("*/__init__.py")}


@pytest.mark.parametrize("package", ["dpcore", "dpcore.accounting", "dpcore.accounting.ledger", "dpcore.batch", "dpcore.minimax"])
def test_every_module_has_its_layer(package):
    (contract,) = [contract for contract in layer_lists() if contract["containers"] == [package]]
    assert contract["exhaustive"]
    listed = [name.strip() for layer in contract["layers"] for name in layer.replace("|", ":").split(":")]
    required = {name for name in listed if not name.startswith("(")}
    ignored = set(contract.get("exhaustive_ignores", []))
    assert len(listed) == len(set(listed))
    assert required | ignored == modules_in(package)


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


def test_no_circle_of_imports():
    assert [sorted(circle) for circle in circles(imports())] == []


def test_a_circle_is_found_even_one_for_types():
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == {frozenset("abc")}
    assert "dpcore.batch.tables.inputs" in imports()["dpcore.batch.tables.contributions"]  # which is for types


def test_documents_are_measured_without_jobs():
    graph = imports()
    for name in graph:
        if name.startswith("dpcore.reproduce"):
            assert not {other for other in reachable(graph, name) if other.startswith("dpcore.batch")}, name
