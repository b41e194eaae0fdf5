"""The list of materials that the wheel brings (PEP 770, CycloneDX): it is well formed, and says what is there."""

from __future__ import annotations

import copy
import hashlib
import importlib.metadata
import json
import re
from pathlib import Path
from uuid import UUID

import pytest

import dpcore

INSTALLED = Path(dpcore.__file__).parent


@pytest.fixture(scope="module")
def bill():
    (path,) = INSTALLED.parent.glob("dpcore-*.dist-info/sboms/dpcore.cdx.json")
    return json.loads(path.read_text(encoding="utf-8"))


def test_it_is_about_this_version(bill):
    assert (bill["bomFormat"], bill["specVersion"], bill["version"]) == ("CycloneDX", "1.6", 1)
    assert UUID(bill["serialNumber"]).version == 5
    subject = bill["metadata"]["component"]
    assert (subject["name"], subject["version"]) == ("dpcore", dpcore.__version__)
    assert subject["purl"] == f"pkg:pypi/dpcore@{dpcore.__version__}"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", bill["metadata"].get("timestamp", "2026-01-01T00:00:00Z"))


def test_every_reference_leads_to_one_component(bill):
    components = [bill["metadata"]["component"], *bill["components"]]
    references = [each["bom-ref"] for each in components]
    assert len(set(references)) == len(references)
    assert sorted(each["ref"] for each in bill["dependencies"]) == sorted(references)
    assert {other for each in bill["dependencies"] for other in each.get("dependsOn", [])} == set(references) - {"dpcore"}


def test_digests_are_those_of_what_is_installed(bill):
    """Of the sources that the kernels were compiled from, and of the data; nothing else in the package is of somebody else."""
    from dpcore._kernels import sources

    said = {each["name"]: each["hashes"][0]["content"] for each in bill["components"] if "hashes" in each}
    data = (INSTALLED / "reproduce" / "data" / "visits.npz").read_bytes()
    assert said == {"dpcore-kernels": sources.DIGEST, "visits.npz": hashlib.sha256(data).hexdigest()}
    suffixes = {".py", ".pyi", ".pyc", ".so", ".pyd", ".typed", ".j2", ".toml"}
    others = [path.name for path in INSTALLED.rglob("*") if path.is_file() and path.suffix not in suffixes]
    assert others == ["visits.npz"]


def test_what_is_installed_beside_it_is_what_pip_installs(bill):
    beside = {each["name"]: each["description"].rpartition(": ")[2] for each in bill["components"] if each.get("scope") == "required"}
    required = {re.match(r"[\w-]+", line)[0]: line for line in importlib.metadata.requires("dpcore") if "extra ==" not in line}
    assert beside == required
    (cython,) = (each for each in bill["components"] if each["name"] == "Cython")
    assert re.fullmatch(r"3\.\d+.*", cython["version"])


def test_it_follows_the_schema(bill):
    """And the schema is one that refuses."""
    validation = pytest.importorskip("cyclonedx.validation.json")
    schema = pytest.importorskip("cyclonedx.schema")
    validator = validation.JsonStrictValidator(schema.SchemaVersion.V1_6)
    assert validator.validate_str(json.dumps(bill)) is None
    for spoil in (
        lambda made: made.pop("bomFormat"),
        lambda made: made["components"][0].update(type="code"),
        lambda made: made.update(x=1),
    ):
        wrong = copy.deepcopy(bill)
        spoil(wrong)
        assert validator.validate_str(json.dumps(wrong)) is not None
