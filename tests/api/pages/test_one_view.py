"""One view of an answer: page, terminal, notebook and table show the same numbers, the same order and the same marks, from one document."""

from __future__ import annotations

import math
import re
from html.parser import HTMLParser

import pytest

pytest.importorskip("jinja2")
pytest.importorskip("matplotlib")

from dpcore._terminal import print_table
from dpcore.frames.results import Answered, TableResult
from dpcore.jobs.commands import answers_text
from dpcore.pages.page import Provenance
from dpcore.query import view
from dpcore.query.page import ReleasePages
from dpcore.query.view import RULE, TOO_NOISY, View


def query(name, kind, value, **keys):
    found = {"name": name, "kind": kind, "column": "cost", "privacy": {"epsilon": 0.5, "delta": 0.0}, "value": value, "stderr": None}
    return found | {"interval": None, "confidence": 0.95, "noise": [{"law": "laplace", "sensitivity": 1, "scale": 2.0}]} | keys


BY = {"group_by": "region", "groups": ["north", "south", None]}
TWO = {"group_by": ["site", "age"], "groups": {"site": ["n", "n", "s", "s"], "age": [[0.0, 18.0], [18.0, 65.0]] * 2}}
ANSWERS = [
    query("one", "count", 1234, stderr=17.25, interval=[1200, 1268], column=None),
    query("uneven", "mean", 2.34567, stderr=0.1, interval=[2.1, 2.65], lower=0, upper=9),
    query("by region", "mean", [20240.5, 1.5, None], stderr=[3.0, 0.25, None], interval=[[20234, 20246], [0.25, 2.25], None], **BY),
    query("by both", "count", [12, -3, 400, 0], stderr=[4.0] * 4, interval=[[4, 20], [-11, 5], [392, 408], [-8, 8]], **TWO),
    query("cells", "histogram", [90, 7, 0], stderr=5.0, interval=[[80, 100], [-3, 17], [-10, 10]], edges=[0, 5, 10, 50.5]),
    query("cells by region", "histogram", [[9, 1]] * 3, stderr=[2.5] * 3, interval=[[[4, 14], [-4, 6]]] * 3, categories=["a", "b"], **BY),
    query("quartiles", "quantile", [1.0, 4.0, 15.5], q=[0.25, 0.5, 0.75], grid=[0, 99], rank_error=[9.5] * 3),
    query("medians", "median", [1.0, 4.0, 15.5], q=0.5, grid=[0, 99], rank_error=[9.5] * 3, stderr=[None] * 3, **BY),
    query("top", "top_s", ["x", "y"], s=2, counts=[200.25, 3.5], stderr=8.0, interval=[[185.0, 215.5], [-11.75, 18.75]]),
    query("tops", "top_s", [["x", "7"]] * 3, s=2, stderr=[None] * 3, **BY),
    query("modes", "mode", ["x", "y", "x"], candidates=5, behind=3, stderr=[None] * 3, **BY),
    query("mean day", "mean", ["2025-01-03", "2025-02-03", "2025-01-01"], lower="2025-01-01", upper="2025-12-31",
          stderr=["PT3H", "P1D", "P9D"], interval=[["2025-01-01", "2025-01-05"]] * 3, **BY),
]  # fmt: skip
NAMES = [answer["name"] for answer in ANSWERS]


def document(*answers, **keys):
    head = {"format": 1, "version": "1.2.3", "secure": True, "unit": "row", "relation": "replace"}
    return head | {"privacy": {"epsilon": 0.5 * len(answers), "delta": 0.0}, "queries": list(answers)} | keys


class Tables(HTMLParser):
    """The texts of the cells of all tables, and of all else, of HTML; knows nothing of classes."""

    def __init__(self, source):
        super().__init__()
        self.tables, self.words, self._cell = [], [], False
        self.feed(source)

    def handle_starttag(self, tag, attrs):
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in {"td", "th"}:
            self.tables[-1][-1].append("")
            self._cell = True

    def handle_endtag(self, tag):
        self._cell = self._cell and tag not in {"td", "th"}

    def handle_data(self, data):
        if self._cell:
            self.tables[-1][-1][-1] += data.replace("\u00a0", " ")
        else:
            self.words.append(data.replace("\u00a0", " "))


@pytest.fixture
def page(tmp_path):
    def written(*answers, origin=None, name="answers", **keys):
        pages = ReleasePages(tmp_path, name, provenance=Provenance(input=origin))
        pages.write(document(*answers, **keys))
        return (tmp_path / f"{name}.html").read_text(encoding="utf-8")

    return written


def words(*texts):
    """The words of texts, without the commas after them."""
    return [word.rstrip(",;") for word in " ".join(texts).split()]


def on_page(page, answer):
    """The words of each row of the one table of a query; those of its section if it is a single answer."""
    (section,) = re.findall(r'<section[^>]*id="query-1">.*?</section>', page(answer), re.DOTALL)
    parsed = Tables(re.sub(r"<svg.*?</svg>", "", section, flags=re.DOTALL))
    assert len(parsed.tables) <= 1, "one table"
    return [words(*row) for row in parsed.tables[0][1:]] if parsed.tables else [words(*parsed.words)]


def on_terminal(capsys, answer):
    print_table(answers_text.answer_table(document(answer)))
    return [words(line) for line in capsys.readouterr().out.splitlines()[1:]]


def in_notebook(answer):
    (rows,) = Tables(TableResult(Answered("arrow", "a table", document(answer), places=(0,)), 0)._repr_html_()).tables
    return [words(*row) for row in rows[1:]]


@pytest.mark.some(2)
@pytest.mark.parametrize("answer", ANSWERS, ids=NAMES)
def test_all_doors_show_the_same_rows(answer, page, capsys):
    table = TableResult(Answered("arrow", "a table", document(answer), places=(0,)), 0).to_arrow()
    rows = list(View(answer))
    assert table.num_rows == len(rows) == len(View(answer))
    values = table.column("value").to_pylist() if "value" in table.column_names else [None] * len(rows)
    doors = {"terminal": on_terminal(capsys, answer), "notebook": in_notebook(answer), "page": on_page(page, answer)}
    is_wide = len(doors["page"]) < len(rows)  # a line for each group
    for place, (row, value) in enumerate(zip(rows, values, strict=True)):
        assert value is None or str(value) == str(row.value)
        groups = [group for group in row.groups[:1] if group != "no value"]  # a table has an empty cell
        for door, lines in doors.items():
            line = lines[place // len(View(answer).parts) if is_wide and door == "page" else place]
            released = [] if row.value is None else [words(row.shown[0])[0]]
            assert not set(words(*filter(None, [*groups, row.label, row.share]), *released)) - set(line), (door, line)
            assert ("noisy" in line) == row.is_noisy, (door, line)
    assert len(doors["notebook"]) == len(rows)


def test_a_door_that_rounds_by_itself_is_found(monkeypatch, page, capsys):
    answer = ANSWERS[2]
    monkeypatch.setattr(view, "with_digits", lambda numbers, error: [f"{number:.9f}" for number in numbers])
    assert "20240.500000000" in on_terminal(capsys, answer)[0]
    assert "20240.500000000" in in_notebook(answer)[0]
    assert "20240.500000000" in on_page(page, answer)[0]


@pytest.mark.parametrize(
    ("value", "interval", "share", "is_noisy"),
    [
        (100, [50, 150], "50 %", False),  # exactly the limit
        (100, [49, 151], "51 %", True),
        (-100, [-151, -49], "51 %", True),
        (4, [0, 1000], "over 1,000 %", True),
        (0, [-8, 8], "over 1,000 %", True),
        (0, [0, 0], None, False),
        (1000, [990, 1010], "1.0 %", False),
        (10_000, [9901, 10_100], "1.0 %", False),
        (5, None, None, False),
    ],
)
def test_the_rule_of_what_is_too_noisy(value, interval, share, is_noisy):
    (row,) = View(query("q", "count", value, stderr=1.0, interval=interval))
    assert (row.share, row.is_noisy) == (share, is_noisy)
    assert View(query("q", "count", value, stderr=1.0, interval=interval)).marked() == is_noisy


def test_the_rule_needs_the_document_alone_and_stands_on_the_page(page):
    assert TOO_NOISY == 0.5
    text = page(ANSWERS[3])
    assert RULE in " ".join(Tables(text).words)
    assert text.count('<span class="mark">too noisy</span>') == 3
    assert "3 too noisy" in text
    assert "too noisy" not in re.sub(r"<p id=.*?</p>|<style>.*?</style>", "", page(ANSWERS[0]), flags=re.DOTALL).replace(RULE, "")


def test_what_is_exact_or_a_date_has_no_relative_error():
    assert math.isnan(View(query("n", "count", 5, stderr=0.0, interval=[5, 5], noise=[]))[0].relative)
    assert all(math.isnan(row.relative) for row in View(ANSWERS[-1]))


def test_two_hundred_names_are_drawn_and_listed(page):
    names = [f"district {place:03d}" for place in range(200)]
    text = page(query("districts", "histogram", list(range(200)), stderr=5.0, interval=[[0, 10]] * 200, categories=names))
    drawings = re.findall(r"<svg.*?</svg>", text, re.DOTALL)
    assert [set(re.findall(r"district \d{3}", re.sub("aria-label=.*?>", "", each))) for each in drawings] == [set(names)] * 2
    assert [row[0] for row in Tables(re.sub(r"<svg.*?</svg>", "", text, flags=re.DOTALL)).tables[1][1:]] == names
    assert "are drawn" not in text


@pytest.mark.long
def test_a_map_of_two_hundred_groups_names_all_of_them_and_has_a_scale(page):
    sites, ages = [f"s{place:02d}" for place in range(40)], ["a", "b", "c", "d", "e"]
    groups = {"site": [site for site in sites for _ in ages], "age": ages * 40}
    answer = query("n", "count", list(range(200)), stderr=[5.0] * 200, interval=[[n - 9, n + 9] for n in range(200)])
    text = page(answer | {"group_by": ["site", "age"], "groups": groups})
    drawings = re.findall(r"<svg.*?</svg>", text, re.DOTALL)
    assert len(drawings) == 2
    for drawing in drawings:
        shown = re.findall(r"<text[^>]*>([^<]*)</text>", drawing)
        assert set(sites) | set(ages) <= set(shown)
        assert "colour: rows" in shown
        assert {"(5)", "199"} <= set(shown)


def test_dates_of_groups_are_drawn_between_the_first_and_the_last(page):
    drawing = re.search(r"<svg.*?</svg>", page(ANSWERS[-1]), re.DOTALL)[0]
    shown = re.findall(r"<text[^>]*>([^<]*)</text>", drawing)
    assert {"north", "south", "no value", "2025-01-01", "2025-02-03"} == set(shown) - {"mean of cost"}


@pytest.mark.long
def test_numbers_that_are_not_drawn_are_said_above_the_picture(page):
    names = [f"c{place}" for place in range(250)]
    text = page(query("many", "histogram", list(range(250)), stderr=5.0, interval=[[0, 10]] * 250, categories=names))
    assert text.index("<h2>many") < text.index("The 200 largest of 250 numbers are drawn.") < text.index("<svg")


def test_headings_sort_and_can_be_reached_by_keyboard(page):
    text = page(ANSWERS[3])
    (table,) = re.findall(r'<table class="sortable.*?</table>', text, re.DOTALL)
    heads = re.findall(r"<th ([^>]*)>([^<]*)</th>", table)
    assert [name for _, name in heads] == ["site", "age", "released", "95\u00a0% interval", "relative error"]
    assert ["data-sort" in attributes for attributes, _ in heads] == [True, True, True, False, True]
    # Without the script there is no button that does nothing.
    assert "<button" not in text
    (script,) = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    assert 'createElement("button")' in script
    assert "aria-sort" in script


def test_a_long_table_is_a_box_that_the_keyboard_scrolls(page):
    text = page(query("fine", "histogram", [9] * 41, stderr=1.0, interval=[[7, 11]] * 41, edges=list(range(42))))
    assert '<div class="wide tall" tabindex="0" role="region" aria-label="fine: 41 rows">' in text
    assert "tabindex" not in page(ANSWERS[4])


@pytest.mark.long
def test_the_title_says_what_the_page_is_about(page):
    text = page(ANSWERS[0], ANSWERS[1], origin="data/visits-2025.parquet", name="march", unit="person", max_rows_per_unit=2)
    assert "<h1>march: one, uneven</h1>" in text
    assert "<title>march: one, uneven, from visits-2025.parquet, protecting one &#39;person&#39;</title>" in text
    assert "<h1>march: 12 answers</h1>" in page(*ANSWERS, name="march")
    assert "<h1>one</h1>" in page(ANSWERS[0], name="one")


@pytest.mark.long
def test_at_a_glance_says_how_exact_answers_are(page):
    (glance, *_) = Tables(page(*ANSWERS)).tables
    shown = {row[0]: row[-1] for row in glance[1:]}
    assert shown["one"] == "1,200 to 1,268"
    assert shown["by region"] == "typically ± 3.5; 1 too noisy"
    assert shown["by both"] == "typically ± 8; 3 too noisy"
    assert shown["modes"] == "–"


def test_the_largest_number_at_a_glance_can_be_used(page):
    noisy = query("n", "count", [900, 40], stderr=[9.0] * 2, interval=[[0, 1800], [36, 44]], group_by="g", groups=["large", "sure"])
    (glance, *_) = Tables(page(noisy)).tables
    assert glance[1][1] == "count: 2 groups, the largest sure: 40"


def test_few_rows_of_many_groups_are_made():
    size = 10**6
    many = {"group_by": "g", "groups": range(size), "value": [7] * size, "stderr": [2.0] * size, "interval": [[3, 11]] * size}
    result = TableResult(Answered("arrow", "a table", document(query("q", "count", None) | many), places=(0,)), 0)
    made = []
    original = view.Row.__init__

    def counting(self, *args):
        made.append(1)
        original(self, *args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(view.Row, "__init__", counting)
        assert "999,950 more" in result._repr_html_()
        assert "1,000,000 rows of g, value" in repr(result)
        answers_text.answer_table(document(query("q", "count", None) | many))
    assert len(made) < 100
