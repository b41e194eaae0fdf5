"""Every public name is documented, its parameters are named, and the examples in docstrings run."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil
import re

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


def undocumented(module):
    for name, member in public_members(module):
        if not inspect.getdoc(member):
            yield f"{module.__name__}.{name}"
        if inspect.isclass(member):
            for attribute, value in vars(member).items():
                function = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
                if inspect.isfunction(function) and not attribute.startswith("_") and not inspect.getdoc(getattr(member, attribute)):
                    yield f"{module.__name__}.{name}.{attribute}"


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


@pytest.mark.parametrize("name", ["dpcore.noise", "dpcore.mechanisms"])
def test_every_parameter_of_the_published_functions_is_documented(name):
    missing = []
    for member_name, member in public_members(import_module(name)):
        if inspect.isclass(member) and issubclass(member, Exception):
            continue
        parameters = set(inspect.signature(member).parameters)
        missing += [f"{member_name}({parameter})" for parameter in sorted(parameters - documented_parameters(inspect.getdoc(member)))]
    assert missing == []


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_run(name):
    module = import_module(name)
    result = doctest.testmod(module, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE, verbose=False)
    assert result.failed == 0
