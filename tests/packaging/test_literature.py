"""Every citation leads to docs/literature.md, and every work there is cited: a reader finds each theorem without asking anybody."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.source_tree

ROOT = Path(__file__).resolve().parents[2]
LITERATURE = ROOT / "docs" / "literature.md"
SUFFIXES = {".py", ".pyi", ".pyx", ".pxd", ".pxi", ".c", ".h", ".inc", ".md", ".toml", ".ipynb", ".j2"}

NAME = r"(?:\b[A-Z][\w'-]+|\bal\.|\bexperiments|\binference)"
"""The last word of a work's authors, or of its title where nobody knows them."""
WHEN = r"(?:1[89]\d\d|20\d\d|lecture \d+|chapter \d+)"
NARRATIVE = re.compile(rf"({NAME}) \(({WHEN})\)")
"""As in "Warner (1965)"."""
PARENTHETICAL = re.compile(rf"({NAME}), ({WHEN})(?=[,;] (?!\d)|\))")
"""As in "(Warner, 1965, Section 2)"."""
STANDARD = re.compile(r"\b(RFC \d+|FIPS \d+|SP 800-\w+|DLMF)\b")
KEY = re.compile(r"^- \*\*(.+?)\.\*\*", re.MULTILINE)

LABEL = re.compile(
    r"\b(Satz|Aufgaben?|Beispiele?|Korollare?|Bemerkung(?:en)?|Abbildung(?:en)?) \d|"
    r"\b(Theorems?|Thm|Lemmas?|Claims?|Corollary|Propositions?|Algorithms?|Eq\.) \d+(\.\d+)*\b"
)
"""A numbered label, of which the page must say whose it is."""
OWN = re.compile(r"^\*\*Lemma \d|docs/exactness-\w+\.md", re.MULTILINE)
"""Of a page with lemmas of its own, or of a text that says on which page they are."""
UNRESOLVED = {
    "a document by its number": r"[Dd]ocuments? 00\d|\b00[0-4],? (?:Thm|Theorem|Lemma|Satz|Kor|Aufgabe|Beispiel|Definition|Sec)",
    "an address of a preprint": r"arXiv",
    "a venue in place of a key": r"\b(?:STOC|FOCS|CCS|NeurIPS|ICML|AISTATS|USENIX Security|UAI|JMLR|ICDE|S&P|TCC),? \d{4}\b",
    "authors with a bare year": r"\b[A-Z]\w+ (?:and|&) [A-Z]\w+,? (?:1[89]|20)\d\d\b(?![,;)])",
    "authors joined by a word": r"\b[A-Z]\w+ and [A-Z]\w+(?:,? \(?(?:1[89]|20)\d\d\b)",
    "authors without a year": r"\bet al\.(?!,? \(?\d{4})",
}
ALLOWED = {"Wolfowitz and Massart (1990"}
"""Names of an inequality, the last of which is the author of the work."""


def keys(text: str) -> list[str]:
    """The works of docs/literature.md, as they are cited."""
    return KEY.findall(text)


def flat(text: str) -> str:
    """A text on one line, without what begins the lines of a comment."""
    return re.sub(r"\s*\n\s*(?:(?:#+|\*|//) )?\s*", " ", text)


def _resolve(before: str, when: str, works: set[str]) -> str | None:
    """The work whose authors a text ends with; a name after a comma or an ampersand is only a part of the authors."""
    fitting = [work for work in works if work.endswith(f" ({when})") and before.endswith(work.removesuffix(f" ({when})"))]
    work = max(fitting, key=len, default=None)
    if work is None:
        return None
    rest = before.removesuffix(work.removesuffix(f" ({when})"))
    return None if rest.endswith("& ") or rest[-1:].isalnum() else work


def cited(text: str, works: set[str]) -> Iterator[tuple[str, str | None]]:
    """Each citation of a text, and the work that it leads to or None."""
    line = flat(text)
    for pattern in (NARRATIVE, PARENTHETICAL):
        for found in pattern.finditer(line):
            yield line[max(0, found.start() - 40) : found.end()], _resolve(line[: found.end(1)], found[2], works)
    for found in STANDARD.finditer(line):
        yield found[1], found[1] if found[1] in works else None


def complaints(text: str, works: set[str]) -> list[str]:
    """What of a text nobody outside could find."""
    found = [f"unknown work: {citation}" for citation, work in cited(text, works) if work is None]
    line = flat(text)
    for allowed in ALLOWED:
        line = line.replace(allowed, "")
    found += [f"{what}: {match[0]}" for what, pattern in UNRESOLVED.items() for match in re.finditer(pattern, line)]
    if (label := LABEL.search(line)) and not OWN.search(text) and all(work is None for _, work in cited(text, works)):
        found.append(f"a label without its work: {label[0]}")
    return found


def sources(*folders: str) -> list[Path]:
    """Texts that people wrote; generated C is not among them."""
    found = [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md"]
    for folder in folders:
        found += [path for path in sorted((ROOT / folder).rglob("*")) if path.suffix in SUFFIXES]
    return [path for path in found if not path.with_suffix(".pyx").is_file() or path.suffix != ".c"]


WORKS = set(keys(LITERATURE.read_text(encoding="utf-8")))
TEXTS = [path for path in sources("src", "docs", "benchmarks", "examples", "tests") if path not in (LITERATURE, Path(__file__).resolve())]


@pytest.mark.long
def test_every_citation_leads_to_a_work():
    found = {path.relative_to(ROOT).as_posix(): complaints(path.read_text(encoding="utf-8"), WORKS) for path in TEXTS}
    assert {path: bad for path, bad in found.items() if bad} == {}


@pytest.mark.long
def test_every_work_is_cited():
    found = {work for path in TEXTS for _, work in cited(path.read_text(encoding="utf-8"), WORKS)}
    assert sorted(WORKS - found) == []


def test_every_work_stands_once_and_in_order():
    five, _, others = LITERATURE.read_text(encoding="utf-8").partition("## Papers, books and standards")
    for part, least in ((five, 5), (others, 60)):
        found = keys(part)
        assert len(found) >= least
        assert found == sorted(set(found), key=str.casefold)
        assert all(entry.count("Taken: ") == 1 for entry in KEY.split(part)[2::2])
    assert not set(keys(five)) & set(keys(others))


@pytest.mark.long
def test_labels_are_translated():
    text = LITERATURE.read_text(encoding="utf-8")
    for path in TEXTS:
        for label in LABEL.finditer(flat(path.read_text(encoding="utf-8"))):
            if label[1]:
                assert re.search(rf"^\| [^|]*\b{label[1]}\b", text, re.MULTILINE), f"{path}: {label[1]}"


@pytest.mark.parametrize(
    "text",
    [
        "Source: Steinberger (2031), Satz 3.13.",
        "Source: Nobody & Balle (2018), Theorem 8.",
        "# Source: Foo & Wang\n# (2018), Algorithm 2.",
        "as shown (Nobody, 1999, Theorem 1)",
        "Mechanisms as experiments (2015)",
        "Stemmer (lecture 7), Claim 6",
        "RFC 9999",
        "document 003, Theorem 4",
        "000 Kor. 1.10 in its right form",
        "Bun & Steinke (2016), arXiv:1605.02065",
        "McSherry and Talwar, FOCS 2007",
        "Balle and Wang (2018)",
        "Bun & Steinke 2016 has it",
        "Wang et al. have it",
        "Satz 3.13 says so.",
        "By Theorem 3.2 nothing is consistent.",
    ],
)
def test_a_citation_that_leads_nowhere_is_found(text):
    assert complaints(text, WORKS)


@pytest.mark.parametrize(
    "text",
    [
        "Steinberger (2019), Satz 3.13; Balle & Wang (2018), Theorem 8; Stemmer (lecture 6), Claim 6.",
        "(Balle & Wang, 2018, Theorem 8; Private inference, chapter 9)",
        "# after Canonne, Kamath &\n# Steinke (2020), Theorem 7, and Wang et al.\n# (2017), of RFC 8439",
        "the years (2018) and f(2000), 10, 1999",
    ],
)
def test_a_citation_that_leads_to_a_work_is_not_complained_of(text):
    assert complaints(text, WORKS) == []
