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
near = program("search_words").NEAR
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
    "objects": {},
    "objnames": {},
}
PROOFS = {
    "docnames": ["exactness-local", "job-groups", "reference/batch"],
    "titles": ["A proof about means", "Groups", "Batch"],
    "alltitles": {"A proof about means": [[0, None]], "Groups": [[1, None]], "Batch": [[2, None]]},
    "indexentries": {},
    "terms": {"mean": [0, 1], "group": [0, 1], "ledger": [1, 2], "k": [0]},
    "titleterms": {"mean": 0, "group": 1, "proof": 0},
    "objects": {"dpcore": [[2, 0, 1, "", "Ledger"]]},
    "objnames": {"0": ["py", "class", "Python class"]},
}
"""A proof has the words in its title; a page that says how to do it has them in its text."""


def test_the_page_whose_title_it_is_comes_first():
    assert site.found(INDEX, "choose epsilon", stem)[0] == "choose-epsilon#choose-epsilon"
    assert site.found(INDEX, "groups", stem)[0] == "job-groups"
    assert site.found(INDEX, "group by", stem)[0] == "job-groups#groups"
    assert site.found(INDEX, "tail", stem)[0] == "heavy-tails"
    assert site.found(INDEX, "unheard of", stem) == []


def searching(index, weight=lambda page, kind: 0):
    """The search of a site."""
    return lambda query: site.found(index, query, stem, frozenset({"of", "by"}), weight)


def test_a_word_that_finds_another_page_is_noticed():
    assert list(site.missed_words({"choose-epsilon": ("choose epsilon",), "job-groups#groups": ("groups",)}, searching(INDEX))) == []
    without = INDEX | {"indexentries": {}, "alltitles": {"Groups": [[2, None]]}, "titleterms": {"epsilon": 1, "choose": 1}}
    assert list(site.missed_words({"choose-epsilon": ("choose epsilon",)}, searching(without))) == [
        "'choose epsilon' finds heavy-tails, and not choose-epsilon"
    ]
    assert list(site.missed_words({"glossary": ("definitions",)}, searching(INDEX))) == ["'definitions' finds None, and not glossary"]


def test_words_that_no_index_has_are_left_out_of_a_query():
    assert searching(PROOFS)("mean by group") == ["exactness-local", "job-groups"]
    assert searching(PROOFS)("group quick") == []
    assert set(searching(PROOFS)("group q")) == {"job-groups", "exactness-local"}, "words of one or two letters may be missing"
    assert searching(PROOFS)("proof of mean 2")[0] == "exactness-local"


def test_pages_that_say_how_come_before_proofs_and_the_reference():
    plain, weighed = searching(PROOFS), searching(PROOFS, site.weights())
    assert plain("mean group")[0] == "exactness-local"
    assert weighed("mean group")[0] == "job-groups"
    assert weighed("a proof about means")[0] == "exactness-local", "who types a title wants that page"
    assert plain("ledger")[0] == "reference/batch#dpcore.Ledger"
    assert weighed("ledger")[:2] == ["job-groups", "reference/batch#dpcore.Ledger"]


def test_a_query_that_finds_a_proof_first_or_not_its_page_is_noticed():
    queries = {"mean group": ("job-groups",)}
    assert list(site.missed_pages(queries, searching(PROOFS, site.weights()))) == []
    assert list(site.missed_pages(queries, searching(PROOFS))) == ["'mean group' finds exactness-local first"]
    missed = "'ledger' finds reference/batch, job-groups, and not glossary"
    assert list(site.missed_pages({"ledger": ("glossary",)}, searching(PROOFS))) == [missed]


def test_every_page_has_at_most_one_weight_and_proofs_the_least():
    import json

    table = json.loads(re.search(r"PAGE_WEIGHTS = (\[.*?\]);", (DOCS / "search_scorer.js").read_text(encoding="utf-8"), re.DOTALL)[1])
    pages = [path.relative_to(DOCS).with_suffix("").as_posix() for path in DOCS.rglob("*.md") if "_build" not in path.parts]
    fitting = {page: [pattern for pattern, _ in table if re.search(pattern, page)] for page in pages}
    assert {page: several for page, several in fitting.items() if len(several) > 1} == {}
    assert [pattern for pattern, _ in table if not any(re.search(pattern, page) for page in pages)] == []
    weight = site.weights()
    assert weight("how-to", "text") > weight("job-groups", "text") > weight("reference/noise", "text") > weight("exactness-local", "text")
    assert weight("exactness-local", "title") == weight("how-to", "title") > 0 == weight("how-to", "index")


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
    assert len(listed) == len(set(listed)) > 120
    assert not set(listed) & set(near)
    assert [page for several in near.values() for page in several if not (DOCS / f"{page}.md").is_file()] == []
    assert {"choose epsilon", "sample size", "missing values", "glossary", "epsilon", "groups", "ledger"} <= set(listed)


@pytest.mark.parametrize("page", ["choose-epsilon", "start-here", "managers", "faq", "glossary"])
def test_pages_have_one_scale_of_epsilon(page):
    text = " ".join((DOCS / f"{page}.md").read_text(encoding="utf-8").split())
    assert "ε up to 1 is strong, 1 to 3 moderate, above 3 weak, above 10 hardly a promise" in text


@pytest.mark.parametrize(
    "page",
    ["start-here", "choose-epsilon", "check-accuracy", "glossary", "tutorial", "tutorial-release", "tutorial-local", "tables", "mechanisms",
     "planning", "job-units", "job-groups", "publication", "managers", "threat-model"],
)  # fmt: skip
def test_pages_for_newcomers_write_epsilon_as_people_type_it(page):
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    assert re.search(r"[Ee]psilon \((?:the )?ε\)|ε \(epsilon\)", text)


def test_pages_that_are_sent_lead_into_no_folder():
    page = (
        '<head></head><p><a href="faq.html#a">Why <em>so</em></a>, <a class="x" href="https://e.org/">there</a>, <a href="#b">here</a>.'
        '</p>\n<p><a class="r" href="faq.html">Questions</a> · <a href="report.html">Report</a></p><footer><p>made</p></footer>'
    )
    assert program("print_pages").to_send(page, "p {}") == (
        "<head><style>@media print { p {} }</style></head>"
        '<p><span>Why <em>so</em></span>, <a class="x" href="https://e.org/">there</a>, <a href="#b">here</a>.</p>\n'
    )
