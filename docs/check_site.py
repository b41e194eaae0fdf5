"""Look at a site that was built: every link must lead somewhere, and the search must find the right page first.

    python docs/check_site.py docs/_build/html

The search is that of the site, computed again: titles, index entries, names of functions and words of the text, with the scores of Sphinx's
script and the weights of pages in `docs/search_scorer.js`.
"""

from __future__ import annotations

import json
import re
import sys
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from search_words import NEAR, WORDS  # noqa: E402  beside this file

TITLE, PARTIAL_TITLE, TERM, PARTIAL_TERM, ENTRY = 15, 7, 5, 2, 100
NAME, PART_OF_NAME, PRIORITIES = 11, 6, {0: 15, 1: 5, 2: -5}
"""Scores of Sphinx's script."""
SCORER = HERE / "search_scorer.js"
SHOWN = 5
"""A reader looks at so many results."""
Found = tuple[int, str, str, str]
"""A result: its score, title, place and kind."""
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


def weights() -> Callable[[str, str], int]:
    """What the scorer of the site adds to the score of a page, by its name and the kind of the result."""
    script = SCORER.read_text(encoding="utf-8")
    whole = int(re.search(r"WHOLE_TITLE = (\d+);", script)[1])  # type: ignore[index]
    table = json.loads(re.search(r"PAGE_WEIGHTS = (\[.*?\]);", script, re.DOTALL)[1])  # type: ignore[index]

    def weight(page: str, kind: str) -> int:
        if kind == "title":
            return whole
        return next((added for pattern, added in table if re.search(pattern, page)), 0) if kind in {"text", "object"} else 0

    return weight


def _objects(index: Mapping[str, Any], asked: str) -> Iterator[Found]:
    """Functions and classes that fit."""
    terms = set(asked.split())
    for term in terms:
        for prefix, entries in index["objects"].items():
            for file, kind, priority, anchor, name in entries:
                whole = f"{prefix}.{name}" if prefix else name
                if term not in whole.lower():
                    continue
                last = whole.lower().rpartition(".")[2]
                score = NAME if term in {whole.lower(), last} else PART_OF_NAME if term in last else 0
                among = f"{prefix} {name} {index['objnames'][str(kind)][2]} {index['titles'][file]}".lower()
                if all(other in among for other in terms - {term}):
                    at = f"{index['objnames'][str(kind)][1]}-{whole}" if anchor == "-" else anchor or whole
                    yield score + PRIORITIES.get(priority, 0), whole, f"{index['docnames'][file]}#{at}", "object"


def _titled(index: Mapping[str, Any], asked: str) -> Iterator[Found]:
    """Titles and main entries of the index that fit."""
    names, titles = index["docnames"], index["titles"]

    def place(file: int, anchor: str | None) -> str:
        return f"{names[file]}#{anchor}" if anchor else str(names[file])

    for title, places in index["alltitles"].items():
        if asked in title.lower() and len(asked) >= len(title) / 2:
            for file, at in places:
                shown = title if titles[file] == title else f"{titles[file]} > {title}"
                yield round(TITLE * len(asked) / len(title)) + (titles[file] == title), shown, place(file, at), "title"
    for entry, places in index["indexentries"].items():
        if asked in entry and len(asked) >= len(entry) / 2:
            for file, at, main in places:
                if main:
                    yield round(ENTRY * len(asked) / len(entry)), titles[file], place(file, at), "index"


def _texts(index: Mapping[str, Any], words: set[str]) -> Iterator[Found]:
    """Pages that have all words, or all but those of one or two letters."""
    scores: dict[int, dict[str, int]] = {}
    for word in words:
        records = [(_files(index["terms"].get(word)), TERM), (_files(index["titleterms"].get(word)), TITLE)]
        for terms, score in ((index["terms"], PARTIAL_TERM), (index["titleterms"], PARTIAL_TITLE)):
            if len(word) > 2 and word not in terms:
                records += [(_files(files), score) for term, files in terms.items() if word in term]
        for files, score in records:
            for file in files:
                scores.setdefault(file, {})[word] = score
    enough = {len(words), sum(len(word) > 2 for word in words)}
    for file, of in scores.items():
        if len(of) in enough:
            yield max(of.values()), index["titles"][file], index["docnames"][file], "text"


def found(
    index: Mapping[str, Any],
    query: str,
    stem: Any,
    stopwords: frozenset[str] = frozenset(),
    weight: Callable[[str, str], int] = lambda page, kind: 0,  # noqa: ARG005
) -> list[str]:
    """The places that a search shows, best first: `page` or `page#anchor`."""
    asked = query.lower().strip()
    words = {stem(word) for word in re.findall(r"\w+", asked) if word not in stopwords and not word.isdigit()}
    results = [*_titled(index, asked), *_objects(index, asked), *_texts(index, words)]
    results = [(score + weight(where.partition("#")[0], kind), title, where, kind) for score, title, where, kind in results]
    ordered = sorted(results, key=lambda result: (-result[0], result[1].lower()))
    return list(dict.fromkeys(where for _, _, where, _ in ordered))


def pages_shown(places: list[str]) -> list[str]:
    """The pages of the first results."""
    return list(dict.fromkeys(where.partition("#")[0] for where in places))[:SHOWN]


def missed_words(words: Mapping[str, tuple[str, ...]], search: Callable[[str], list[str]]) -> Iterator[str]:
    """Words that do not find their place first."""
    wanted: dict[str, set[str]] = {}
    for where, listed in words.items():
        for word in listed:
            wanted.setdefault(word, set()).add(where.partition("#")[0])
    for word, pages in wanted.items():
        first = next(iter(pages_shown(search(word))), None)
        if first not in pages:
            yield f"{word!r} finds {first}, and not {', '.join(sorted(pages))}"


def missed_pages(queries: Mapping[str, tuple[str, ...]], search: Callable[[str], list[str]]) -> Iterator[str]:
    """Queries whose pages are not among those that a reader looks at, or are below a proof."""
    for query, pages in queries.items():
        shown = pages_shown(search(query))
        if missing := [page for page in pages if page not in shown]:
            yield f"{query!r} finds {', '.join(shown)}, and not {', '.join(missing)}"
        elif shown[0].startswith(("exactness", "reference/")):
            yield f"{query!r} finds {shown[0]} first"


def main() -> int:
    """Print what is wrong; 1 if anything is."""
    from sphinx.search.en import SearchEnglish

    site = Path(sys.argv[1])
    language, index, weight = SearchEnglish({}), search_index(site), weights()

    def search(query: str) -> list[str]:
        return found(index, query, lambda word: language.stem(word.lower()), frozenset(language.stopwords), weight)

    wrong = [*broken_links(site), *missed_words(WORDS, search), *missed_pages(NEAR, search)]
    for line in wrong:
        sys.stdout.write(f"{line}\n")
    sys.stdout.write(f"{len(list(site.rglob('*.html')))} pages looked at; {len(wrong)} mistakes\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
