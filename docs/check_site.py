"""Look at a site that was built: every link must lead somewhere, and the search must find the right page first.

    python docs/check_site.py docs/_build/html

The search is that of the site, computed again: titles, index entries and words of the text, with the scores of Sphinx's script.
"""

from __future__ import annotations

import json
import re
import sys
import urllib.parse
from collections.abc import Iterator, Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from search_words import WORDS  # noqa: E402  beside this file

TITLE, PARTIAL_TITLE, TERM, PARTIAL_TERM, ENTRY = 15, 7, 5, 2, 100
"""Scores of Sphinx's script."""
ELSEWHERE = re.compile(r"^(?:[a-z]+:|//|#$)")
"""Addresses that do not lead into the site."""


class _Page(HTMLParser):
    """The links and the anchors of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value is None:
                continue
            if name == "id" or (name == "name" and tag == "a"):
                self.anchors.add(value)
            elif name in {"href", "src"} and not ELSEWHERE.match(value):
                self.links.append(value)


def broken_links(site: Path) -> Iterator[str]:
    """Links of all pages to files or anchors that the site does not have, each with its page."""
    pages: dict[Path, _Page] = {}
    for path in sorted(site.rglob("*.html")):
        pages[path.resolve()] = page = _Page()
        page.feed(path.read_text(encoding="utf-8"))
    for path, page in pages.items():
        for link in page.links:
            address, _, anchor = link.partition("#")
            target = (path.parent / urllib.parse.unquote(address.partition("?")[0])).resolve() if address else path
            if target.is_dir():
                target = target / "index.html"
            if not target.is_file():
                yield f"{path.relative_to(site.resolve())}: {link}"
            elif anchor and target in pages and urllib.parse.unquote(anchor) not in pages[target].anchors:
                yield f"{path.relative_to(site.resolve())}: {link} (no such anchor)"


def search_index(site: Path) -> dict[str, Any]:
    """The index that the search reads."""
    text = (site / "searchindex.js").read_text(encoding="utf-8")
    return json.loads(text[text.index("(") + 1 : text.rindex(")")])


def _files(found: Any) -> list[int]:
    return [found] if isinstance(found, int) else list(found or ())


def found(index: Mapping[str, Any], query: str, stem: Any) -> list[str]:
    """The places that a search shows, best first: `page` or `page#anchor`."""
    names, titles, asked = index["docnames"], index["titles"], query.lower().strip()
    results: list[tuple[float, str, str]] = []  # score, title, place

    def place(file: int, anchor: str | None) -> str:
        return f"{names[file]}#{anchor}" if anchor else str(names[file])

    for title, places in index["alltitles"].items():
        if asked in title.lower() and len(asked) >= len(title) / 2:
            results += [(round(TITLE * len(asked) / len(title)) + (titles[file] == title), title, place(file, at)) for file, at in places]
    for entry, places in index["indexentries"].items():
        if asked in entry and len(asked) >= len(entry) / 2:
            results += [(round(ENTRY * len(asked) / len(entry)), titles[file], place(file, at)) for file, at, main in places if main]

    words = {stem(word) for word in re.findall(r"\w+", asked)}
    scores: dict[int, dict[str, int]] = {}
    for word in words:
        records = [(_files(index["terms"].get(word)), TERM), (_files(index["titleterms"].get(word)), TITLE)]
        for terms, score in ((index["terms"], PARTIAL_TERM), (index["titleterms"], PARTIAL_TITLE)):
            if len(word) > 2 and word not in terms:
                records += [(_files(files), score) for term, files in terms.items() if word in term]
        for files, score in records:
            for file in files:
                scores.setdefault(file, {})[word] = score
    results += [(max(of.values()), titles[file], names[file]) for file, of in scores.items() if len(of) == len(words)]
    ordered = sorted(results, key=lambda result: (-result[0], result[1].lower()))
    return list(dict.fromkeys(where for _, _, where in ordered))


def missed_words(index: Mapping[str, Any], words: Mapping[str, tuple[str, ...]], stem: Any) -> Iterator[str]:
    """Words that do not find their place first."""
    wanted: dict[str, set[str]] = {}
    for where, listed in words.items():
        for word in listed:
            wanted.setdefault(word, set()).add(where.partition("#")[0])
    for word, pages in wanted.items():
        first = next((where.partition("#")[0] for where in found(index, word, stem)), None)
        if first not in pages:
            yield f"{word!r} finds {first}, and not {', '.join(sorted(pages))}"


def main() -> int:
    """Print what is wrong; 1 if anything is."""
    from sphinx.search.en import SearchEnglish

    site = Path(sys.argv[1])
    language = SearchEnglish({})
    wrong = [*broken_links(site), *missed_words(search_index(site), WORDS, lambda word: language.stem(word.lower()))]
    for line in wrong:
        sys.stdout.write(f"{line}\n")
    sys.stdout.write(f"{len(list(site.rglob('*.html')))} pages looked at; {len(wrong)} mistakes\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
