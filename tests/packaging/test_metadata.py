"""The installed distribution says about itself what the repository says."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
import tomllib
from pathlib import Path

import pytest

import dpcore
from dpcore import _version

INSTALLED = Path(dpcore.__file__).parent
PEERS = (
    *("pandas22", "recipes", "dbt", "airflow", "diffprivlib", "opacus"),
    *("tumult", "tumult20", "opendp", "smartnoise", "pipelinedp"),
)
EXTRAS = {
    *(
        "batch",
        "report",
        "minimax",
        "accounting",
        "spark",
        "spark-connect",
        "spark35",
        "delta",
        "sklearn",
        "all",
        "test",
        "test-tools",
        "test-stores",
        "test-fuzz",
        "test-spark35",
        "packaging",
        "docs",
        "dev",
        "peers",
        "proofs",
    ),
    *("pandas", "polars"),
    *(f"peer-{name}" for name in PEERS),
}


@pytest.fixture(scope="module")
def metadata() -> importlib.metadata.PackageMetadata:
    return importlib.metadata.metadata("dpcore")


def test_version_is_stated_once_and_agrees_everywhere(metadata):
    assert metadata["Version"] == dpcore.__version__ == _version.__version__
    assert re.fullmatch(r"\d+\.\d+\.\d+((a|b|rc)\d+)?(\.dev\d+)?", dpcore.__version__)


@pytest.mark.source_tree
def test_changelog_opens_with_this_version(repository):
    headings = re.findall(r"^## (\S+)", (repository / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    if ".dev" in dpcore.__version__:  # on the way to the next one, which is not in the list yet
        assert headings[0] == "Unreleased"
        assert tuple(map(int, headings[1].split("."))) < tuple(map(int, dpcore.__version__.partition(".dev")[0].split(".")))
    else:
        assert next(heading for heading in headings if heading != "Unreleased") == dpcore.__version__
        assert headings.index(dpcore.__version__) <= 1  # only what is not released yet stands above it


def test_licence_is_apache_and_shipped(metadata):
    assert metadata["License-Expression"] == "Apache-2.0"
    (licence,) = (path for path in importlib.metadata.files("dpcore") if path.name == "LICENSE")
    text = licence.read_text(encoding="utf-8")
    assert "Apache License" in text
    assert "END OF TERMS AND CONDITIONS" in text


def test_extras_are_those_of_the_contract(metadata):
    assert set(metadata.get_all("Provides-Extra")) == EXTRAS


def test_core_needs_numpy_and_scipy_only(metadata):
    required = [line for line in metadata.get_all("Requires-Dist") if "extra ==" not in line]
    assert sorted(re.match(r"[\w-]+", line)[0] for line in required) == ["numpy", "scipy"]


def test_every_dependency_has_a_lower_bound(metadata):
    loose = [
        line for line in metadata.get_all("Requires-Dist") if not re.search("[>=]=", line.split(";")[0]) and not line.startswith("dpcore[")
    ]
    assert loose == []


def test_command_is_installed():
    (command,) = (entry for entry in importlib.metadata.entry_points(group="console_scripts") if entry.dist.name == "dpcore")
    assert (command.name, command.value) == ("dpcore", "dpcore.cli:main")


def test_types_are_published():
    assert (INSTALLED / "py.typed").is_file()
    compiled = {path.name.split(".")[0] for path in (INSTALLED / "_kernels").iterdir() if path.suffix in {".so", ".pyd"}}
    assert compiled == {"_library"}
    typed = {path.stem for path in (INSTALLED / "_kernels").glob("*.pyi")}
    assert "_noise" in typed
    assert all(importlib.util.find_spec(f"dpcore._kernels.{name}") for name in typed)


@pytest.mark.source_tree
def test_every_package_of_the_source_tree_is_listed(repository):
    settings = tomllib.loads((repository / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    found = {".".join(path.parent.relative_to(repository / "src").parts) for path in (repository / "src" / "dpcore").rglob("__init__.py")}
    assert set(settings["packages"]) == found | {"dpcore._kernels"}
