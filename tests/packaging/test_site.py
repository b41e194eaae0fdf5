"""What looks at the site that was built: links that lead nowhere are found, and so are words that find the wrong page."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.source_tree

DOCS = Path(__file__).resolve().parents[2] / "docs"


def program(name: str):
    """A program of the documentation, as a module."""
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


words = program("search_words").WORDS
site = program("check_site")


def stem(word: str) -> str:
    """Words as they are."""
    return word


INDEX = {
    "docnames": ["choose-epsilon", "heavy-tails", "job-groups", "glossary"],
    "titles": ["Choose epsilon (ε)", "A mean with heavy tails", "Groups", "Glossary"],
    "alltitles": {
        title: [[place, None]] for place, title in enumerate(["Choose epsilon (ε)", "A mean with heavy tails", "Groups", "Glossary"])
    },
    "indexentries": {"choose epsilon": [[0, "choose-epsilon", True]], "group by": [[2, "groups", True]]},
    "terms": {"choose": [0, 1], "epsilon": [0, 1, 3], "groups": [1, 2], "tail": 1},
    "titleterms": {"choose": 0, "epsilon": 0, "groups": 2, "tails": 1},
}


def test_the_page_whose_title_it_is_comes_first():
    assert site.found(INDEX, "choose epsilon", stem)[0] == "choose-epsilon#choose-epsilon"
    assert site.found(INDEX, "groups", stem)[0] == "job-groups"
    assert site.found(INDEX, "group by", stem)[0] == "job-groups#groups"
    assert site.found(INDEX, "tail", stem)[0] == "heavy-tails"
    assert site.found(INDEX, "unheard of", stem) == []


def test_a_word_that_finds_another_page_is_noticed():
    assert list(site.missed_words(INDEX, {"choose-epsilon": ("choose epsilon",), "job-groups#groups": ("groups",)}, stem)) == []
    without = INDEX | {"indexentries": {}, "alltitles": {"Groups": [[2, None]]}, "titleterms": {"epsilon": 1, "choose": 1}}
    assert list(site.missed_words(without, {"choose-epsilon": ("choose epsilon",)}, stem)) == [
        "'choose epsilon' finds heavy-tails, and not choose-epsilon"
    ]
    assert list(site.missed_words(INDEX, {"glossary": ("definitions",)}, stem)) == ["'definitions' finds None, and not glossary"]


@pytest.mark.parametrize(
    ("link", "broken"),
    [
        ("other.html", False),
        ("other.html#here", False),
        ("#there", False),
        ("https://example.org/nothing", False),
        ("picture.svg?version=1", False),
        ("lost.html", True),
        ("other.html#gone", True),
        ("#gone", True),
    ],
)
def test_a_link_that_leads_nowhere_is_noticed(tmp_path, link, broken):
    (tmp_path / "index.html").write_text(f'<p id="there"><a href="{link}">a</a></p>')
    (tmp_path / "other.html").write_text('<h1 id="here">b</h1>')
    (tmp_path / "picture.svg").write_text("<svg/>")
    assert bool(list(site.broken_links(tmp_path))) is broken


def test_words_lead_to_pages_that_exist_and_each_page_has_its_own():
    pages = {place.partition("#")[0] for place in words}
    assert [page for page in pages if not (DOCS / f"{page}.md").is_file()] == []
    listed = [word for several in words.values() for word in several]
    assert len(listed) == len(set(listed)) > 90
    assert {"choose epsilon", "sample size", "missing values", "glossary", "epsilon", "groups", "ledger"} <= set(listed)


@pytest.mark.parametrize(
    "page",
    ["start-here", "choose-epsilon", "check-accuracy", "glossary", "tutorial", "tutorial-release", "tutorial-local", "tables", "mechanisms",
     "planning", "job-units", "job-groups", "publication", "managers", "threat-model"],
)  # fmt: skip
def test_pages_for_newcomers_write_epsilon_as_people_type_it(page):
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    assert re.search(r"[Ee]psilon \((?:the )?ε\)|ε \(epsilon\)", text)
