"""Every public name is documented, its parameters are named, and the examples in docstrings run."""

from __future__ import annotations

import ast
import doctest
import functools
import importlib
import inspect
import pkgutil
import re
from pathlib import Path

import pytest

import dpcore

OPTIONAL = {"pyarrow", "click", "rich", "pydantic", "duckdb", "matplotlib", "jinja2"}


def import_module(name: str):
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in OPTIONAL:
            pytest.skip(f"{name} needs an extra that is not installed")
        raise


MODULES = sorted(
    ["dpcore", *(info.name for info in pkgutil.walk_packages(dpcore.__path__, "dpcore.") if not info.name.startswith("dpcore._kernels"))]
)
PUBLIC_MODULES = [name for name in MODULES if not any(part.startswith("_") for part in name.split("."))]


def public_members(module):
    """Functions and classes that the module defines and shows."""
    for name, member in vars(module).items():
        if name.startswith("_") or getattr(member, "__module__", None) != module.__name__:
            continue
        if inspect.isfunction(member) or inspect.isclass(member):
            yield name, member


@functools.cache
def documented_in_bases(package):
    """Names of methods that some class of a package documents, for type checkers alone too: who overrides one says what its base says."""
    folder = Path(importlib.import_module(package).__file__).parent
    functions = [
        function
        for path in folder.rglob("*.py")
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(function, ast.FunctionDef)
    ]
    return {function.name for function in functions if ast.get_docstring(function)}


def undocumented(module):
    package = ".".join(module.__name__.split(".")[:2])
    for name, member in public_members(module):
        if not inspect.getdoc(member):
            yield f"{module.__name__}.{name}"
        if inspect.isclass(member):
            for attribute, value in list(vars(member).items()):
                function = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
                if inspect.isfunction(function) and not attribute.startswith("_") and not inspect.getdoc(getattr(member, attribute)):
                    if attribute in documented_in_bases(package):
                        continue
                    yield f"{module.__name__}.{name}.{attribute}"


@pytest.mark.some(69)
@pytest.mark.parametrize("name", PUBLIC_MODULES)
def test_every_public_name_has_a_docstring(name):
    module = import_module(name)
    assert module.__doc__
    assert list(undocumented(module)) == []


@pytest.mark.parametrize("name", [name for name in dpcore.__all__ if name != "__version__"])
def test_every_exported_name_has_a_docstring(name):
    assert inspect.getdoc(getattr(dpcore, name))


def documented_parameters(docstring: str) -> set[str]:
    """The names that the numpydoc section `Parameters` lists."""
    section = re.search(r"^Parameters\n-+\n(.*?)(?=^\S[^\n]*\n-{3,}\n|\Z)", docstring, re.MULTILINE | re.DOTALL)
    if section is None:
        return set()
    heads = re.findall(r"^([*\w][\w*, ]*?)(?: ?:.*)?$", section[1], re.MULTILINE)
    return {name.strip(" *") for head in heads for name in head.split(",")}


PACKAGES = (
    "dpcore.noise", "dpcore.sums", "dpcore.mechanisms", "dpcore.selection", "dpcore.local", "dpcore.accounting", "dpcore.distributions",
    "dpcore.inference", "dpcore.blackwell", "dpcore.audit", "dpcore.minimax", "dpcore.minimax.losses", "dpcore.privacy", "dpcore.rng",
    "dpcore.testing", "dpcore.reproduce", "dpcore.bench", "dpcore.batch",
    "dpcore.frames",
)  # fmt: skip
"""Where public names stand: each has `__all__`."""


def sections(docstring: str) -> set[str]:
    """The numpydoc sections of a docstring, and `Guarantee` and `Cost`, which are paragraphs of its notes."""
    found = set(re.findall(r"^(\w[\w ]*)\n-{3,}$", docstring, re.MULTILINE))
    return found | {name for name in ("Guarantee", "Cost") if re.search(rf"^{name}: ", docstring, re.MULTILINE)}


def signature(function) -> dict[str, inspect.Parameter]:
    return {name: parameter for name, parameter in inspect.signature(function).parameters.items() if name not in ("self", "cls")}


def missing_parameters(function, *docstrings: str) -> list[str]:
    documented = set().union(*(documented_parameters(text) for text in docstrings))
    return [f"parameter {name}" for name in signature(function) if name not in documented]


def parameters_of_others(function, docstring: str) -> list[str]:
    """Parameters that a docstring names and the function does not take."""
    taken = signature(function)
    return [f"no parameter {name}" for name in sorted(documented_parameters(docstring) - set(taken))]


def lacks_of_function(function) -> list[str]:
    """What the docstring lacks of: what to give, what comes back, what can fail, the guarantee, the cost, an example."""
    text = inspect.getdoc(function) or ""
    wanted = {"Returns", "Cost", "Examples"} | ({"Parameters", "Raises"} if signature(function) else set())
    wanted |= {"Guarantee"} if "rng" in signature(function) else set()
    return [*missing_parameters(function, text), *parameters_of_others(function, text), *sorted(wanted - sections(text))]


def lacks_of_class(member: type) -> list[str]:
    """As for functions. A class with `Attributes` is a result: others make it. One with `Parameters` is made by the user."""
    if issubclass(member, Exception):
        return []
    if hasattr(member, "model_rebuild"):
        member.model_rebuild()  # a table of a job file knows its keys when it is first used
    text = inspect.getdoc(member) or ""
    found = sections(text)
    if getattr(member, "_is_protocol", False):
        return []
    if "Parameters" in found:
        lacks = [*missing_parameters(member, text), *sorted({"Raises", "Examples"} - found)]
    else:
        attributes = text.replace("Attributes\n", "Parameters\n", 1)
        lacks = missing_parameters(member, attributes) if "Attributes" in found else ["Parameters or Attributes"]
    for name, value in list(vars(member).items()):
        function = getattr(value, "__func__", value)
        if name.startswith("_") or not inspect.isfunction(function) or not function.__module__.startswith("dpcore"):
            continue  # pydantic adds functions of its own
        described = inspect.getdoc(getattr(member, name)) or ""
        lacks += [f"{name}: {lack}" for lack in missing_parameters(function, described) + parameters_of_others(function, described)]
        if inspect.signature(function).return_annotation not in ("None", None) and "Returns" not in sections(described):
            lacks.append(f"{name}: Returns")
        if "rng" in signature(function) and "Guarantee" not in sections(described) | found:
            lacks.append(f"{name}: Guarantee")
    return lacks


def lacks(package: str) -> dict[str, list[str]]:
    """For each public name of a package what its docstring lacks."""
    module = import_module(package)
    found = {}
    for name in module.__all__:
        member = getattr(module, name)
        if inspect.isclass(member):
            found[name] = lacks_of_class(member)
        elif inspect.isfunction(member):
            found[name] = lacks_of_function(member)
    return {name: missing for name, missing in found.items() if missing}


@pytest.mark.parametrize("package", PACKAGES)
def test_docstrings_have_all_sections(package):
    assert lacks(package) == {}


@pytest.mark.parametrize("package", ["dpcore", "dpcore.errors", "dpcore.pages", *PACKAGES])
def test_only_public_names_are_listed(package):
    module = import_module(package)
    assert sorted(dir(module)) == sorted(module.__all__)
    assert [name for name in module.__all__ if not hasattr(module, name)] == []


def without_sections(values, *, rng=None):
    """Do something."""
    return values, rng


def test_a_docstring_without_sections_is_found():
    assert lacks_of_function(without_sections) == [
        "parameter values", "parameter rng", "Cost", "Examples", "Guarantee", "Parameters", "Raises", "Returns",
    ]  # fmt: skip


@pytest.mark.some(50)
@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_run(name):
    module = import_module(name)
    result = doctest.testmod(module, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE, verbose=False)
    assert result.failed == 0
