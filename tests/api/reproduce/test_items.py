"""The list of items of the documents: complete, in order, and true about the package, the studies and the tests."""

from __future__ import annotations

import importlib
import itertools
import pkgutil
import re
import types
from pathlib import Path

import pytest

from dpcore.errors import ParameterError
from dpcore.reproduce import items as room
from dpcore.reproduce.items import Item, known_items, parsed
from dpcore.reproduce.page import item_lists
from dpcore.reproduce.registry import known_studies
from dpcore.reproduce.sources import SOURCES

ROOT = Path(__file__).resolve().parents[3]
OF_DOCUMENTS = Path(__file__).with_name("items_of_documents.txt")
EVERY = [(key, item) for key, items in known_items().items() for item in items]


def headings() -> dict[str, list[str]]:
    """What a reader of the documents wrote down."""
    found: dict[str, list[str]] = {}
    for line in OF_DOCUMENTS.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            current = found.setdefault(line.strip("[]"), [])
        elif line and not line.startswith("#"):
            current.append(line)
    return found


def stated(number: str, known: list[str]) -> str | None:
    """The heading that a number belongs to, which may be that of a part: "Beispiel 3.6, A"."""
    return max((each for each in known if number == each or number.startswith(f"{each}, ")), key=len, default=None)


def mistakes(items: tuple[Item, ...], known: list[str]) -> list[str]:
    """How a list differs from the headings of its document."""
    numbers = [item.number for item in items]
    twice = {number for number in numbers if numbers.count(number) > 1}
    bases = [stated(number, known) for number in numbers]
    found = [f"twice: {number}" for number in sorted(twice)]
    found += [f"not in the document: {number}" for number, base in zip(numbers, bases, strict=True) if base is None]
    found += [f"missing: {number}" for number in known if number not in bases]
    return found or ([] if [base for base, _ in itertools.groupby(bases)] == known else ["out of order"])


@pytest.mark.parametrize("document", known_items())
def test_every_item_of_the_document_is_listed_once_and_in_order(document):
    assert mistakes(known_items()[document], headings()[document]) == []


def test_documents_are_the_five():
    assert set(headings()) == set(SOURCES)
    assert set(known_items()) == set(SOURCES)
    assert len(headings()["Steinberger (2019)"]) == 73


def test_a_list_with_a_mistake_is_found():
    one, two, three, part = (Item(number, "t", "text", reason="r") for number in ("Satz 1.1", "Satz 1.2", "Satz 1.12", "Satz 1.2, A"))
    known = ["Satz 1.1", "Satz 1.2", "Satz 1.12"]
    assert mistakes((one, two, part, three), known) == []
    assert mistakes((one, part, three), known) == []
    assert mistakes((one, three), known) == ["missing: Satz 1.2"]
    assert mistakes((one, three, two), known) == ["out of order"]
    assert mistakes((two, one, part, three), known) == ["out of order"]
    assert mistakes((one, two, two, three), known) == ["twice: Satz 1.2"]
    assert mistakes((one, two, three), known[:2]) == ["not in the document: Satz 1.12"]


def problem(name: str) -> str | None:
    """Why a name is not public, or None."""
    if any(part.startswith("_") for part in name.split(".")):
        return "private"
    try:
        found = pkgutil.resolve_name(name)
        parent = pkgutil.resolve_name(name.rpartition(".")[0])
    except (ImportError, AttributeError) as error:
        return str(error)
    public = getattr(parent, "__all__", None) if isinstance(parent, types.ModuleType) else None
    if public is None or isinstance(found, types.ModuleType):
        return None
    return None if name.rpartition(".")[2] in public else "not in __all__"


def test_names_can_be_imported():
    assert {f"{item.number}: {name}": bad for _, item in EVERY for name in item.where if (bad := problem(name))} == {}


def test_a_name_that_is_not_there_is_found():
    assert problem("dpcore.minimax.tv") is None
    assert problem("dpcore.minimax.Model.moment") is None
    assert problem("dpcore.minimax.lemma") is not None
    assert problem("dpcore.minimax.spaces.models._Program") is not None
    assert problem("dpcore.minimaxx") is not None


def test_sections_are_there():
    pytest.importorskip("clarabel")
    lost = [item.section for key, item in EVERY if item.section and not item.titles()]
    assert lost == []
    of_others = [item.section for key, item in EVERY for title in item.titles() if not title.startswith(key)]
    assert of_others == []
    assert Item("1", "t", "text", section="minimax: Steinberger (2019), Satz 3.1", reason="r").titles() == ()
    assert Item("1", "t", "text", section="maximin: Steinberger (2019), Satz 3.13", reason="r").titles() == ()


OTHER_WORDS = {
    "Corollary of Theorem 9": "Theorem 9, corollary",
    "Figure (two Laplace densities)": "Claim 4, two Laplace densities",
    "Abschnitt 3.2.3": "Beispiel 3.6 A",
    "Section 2.2, claim": "Theorem 3, distributions",
    "Section 6, Eq. 14": "Theorem 6.3",
    "Section 7": "Figure 1, bimodal",
    "Section 8, question 1": "Section 1.1, first table",
}
"""Headings of what has no number, and how the titles name what it is about."""


def test_the_titles_of_its_sections_have_the_number_of_an_item():
    known = headings()
    unnamed = {}
    for key, item in EVERY:
        heading = stated(item.number, known[key]) or ""
        for title in item.titles():
            named = title.removeprefix(f"{key}, ").partition(": ")[0]
            if not re.search(rf"(^|and ){re.escape(OTHER_WORDS.get(heading, heading))}($|[ ,])", named):
                unnamed[item.number] = named
    assert unnamed == {}


def test_every_section_is_of_an_item():
    """A study of something that the documents do not number would be missing from the list."""
    of_items = {title for _, item in EVERY for title in item.titles()}
    lists = tuple(known_items())
    assert [
        title for study in known_studies().values() for title in study.titles if title.startswith(lists) and title not in of_items
    ] == []


@pytest.mark.source_tree
def test_tests_are_there():
    lost = []
    for _, item in EVERY:
        if item.test:
            path, _, name = item.test.partition("::")
            text = (ROOT / path).read_text(encoding="utf-8") if (ROOT / path).is_file() else ""
            lost += [] if re.search(rf"^def {re.escape(name)}\(", text, re.MULTILINE) else [item.test]
    assert lost == []


@pytest.mark.source_tree
def test_the_page_of_the_documentation_is_the_list(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs")
    script = importlib.import_module("items")
    assert script.PAGE.read_text(encoding="utf-8") == script.page(), "run python docs/items.py"


def test_the_report_links_items_to_its_sections():
    title = "Steinberger (2019), Satz 3.13: the best bit of a record"
    found = {list_["source"].key: {row["number"]: row for row in list_["rows"]} for list_ in item_lists({title: "section-4"})}
    rows = found["Steinberger (2019)"]
    assert rows["Satz (theorem) 3.13"]["anchors"] == ["section-4"]
    assert rows["Lemma 3.16"]["anchors"] == []
    assert len(rows) == len(known_items()["Steinberger (2019)"])


GOOD = 'number = "Satz 1.1"\ntitle = "t"\nstate = "complete"\nwhere = ["dpcore.minimax.tv"]\ntest = "tests/a.py::test_b"\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[item]\n", "text must be TOML"),
        ("[[items]]\n", r"\[\[item\]\] only, got items"),
        (f"[[item]]\n{GOOD}\n[[item]]\n{GOOD}sate = 1\n", "item 2: keys must be among .*, got sate"),
        ('[[item]]\nnumber = "Satz 1.1"\n', "item 1: state, title must not be missing"),
        ("[[item]]\n" + GOOD.replace('"complete"', '"done"'), "item 1: state must be one of complete, limit, text, got 'done'"),
        ("[[item]]\n" + GOOD.replace('"t"', "3"), "item 1: values must be texts"),
        ("[[item]]\n" + GOOD.replace('["dpcore.minimax.tv"]', '"dpcore.minimax.tv"'), "item 1: values must be texts"),
        ("[[item]]\n" + GOOD.replace('["dpcore.minimax.tv"]', "[]"), "where and one of section and test must not be empty"),
        ("[[item]]\n" + GOOD.replace("test", "reason"), "where and one of section and test must not be empty"),
        ("[[item]]\n" + GOOD.replace("complete", "limit"), "reason must not be empty where the state of an item is limit: Satz 1.1"),
        ("[[item]]\n" + GOOD.replace('"t"', '""'), "title must not be empty"),
        (f'[[item]]\n{GOOD}section = "minimax"\n', "section must be a study and the start of a title"),
    ],
)
def test_bad_lists_are_refused(text, message):
    with pytest.raises(ParameterError, match=message):
        parsed(text)


def test_a_good_list_is_read():
    (item,) = parsed(f"[[item]]\n{GOOD}")
    assert item == Item("Satz 1.1", "t", "complete", ("dpcore.minimax.tv",), test="tests/a.py::test_b")
    assert parsed("") == ()
    assert dir(room)
