"""The page of the architecture shows the floors that hold, and names files that exist."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from kinds import MODULES

pytestmark = pytest.mark.source_tree

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
_spec = importlib.util.spec_from_file_location("floors", ROOT / "docs" / "floors.py")
floors = importlib.util.module_from_spec(_spec)


@pytest.fixture(scope="module", autouse=True)
def loaded():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "docs"))
        _spec.loader.exec_module(floors)
        yield


@pytest.mark.parametrize("contract", ["layers", "query"])
def test_pictures_are_drawn_from_the_contracts(contract):
    name = floors.PICTURES[contract]
    assert (ROOT / "docs" / "images" / name).read_text(encoding="utf-8") == floors.picture(contract), "run python docs/floors.py"
    assert f"](images/{name})" in PAGE
    shown = re.findall(r"<text[^>]*>([^<]+)</text>", floors.picture(contract))
    assert shown == [module for floor in floors.floors(contract) for module in floor]
    folder = ROOT / "src" / "dpcore" / ("" if contract == "layers" else contract)
    here = {path.stem for path in folder.glob("*") if path.suffix == ".py" or (path / "__init__.py").exists()} - {"__init__"}
    assert set(shown) <= here | {"_kernels"}


def test_named_files_exist():
    named = set(re.findall(r"`((?:[a-z_]+/)+(?:[a-z_]+\.py)?)`", PAGE)) | set(re.findall(r"\(`([a-z_]+\.py)`\)", PAGE))
    assert len(named) > 15
    folders = (ROOT, ROOT / "src" / "dpcore", ROOT / "src" / "dpcore" / "query", ROOT / "src" / "dpcore" / "query" / "kinds")
    assert {name for name in named if not any((folder / name).exists() for folder in folders)} == set()


def test_every_kind_is_near_to_one_that_the_page_names():
    files = set(re.findall(r"`([a-z_]+)\.py`", PAGE))
    assert len(files & MODULES.keys()) >= 8
