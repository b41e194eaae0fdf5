"""What a page owes to readers with 400 pixels: text of 12 pixels, whole words, tables that scroll and say so, and numbers written one way.

No browser is needed: what a page looks like follows from its style and from the drawings in it.
"""

from __future__ import annotations

import re

import pytest

pytest.importorskip("jinja2")
pytest.importorskip("matplotlib")

import numpy as np

from dpcore.query.page import ReleasePages
from support.html_pages import Page

LEAST = 12.0
"""Pixels."""
REM = 16.0
PHONE = 400.0


def query(name, kind, value, **keys):
    found = {"name": name, "kind": kind, "column": "visits", "privacy": {"epsilon": 0.5, "delta": 0.0}, "value": value, "confidence": 0.95}
    values = np.asarray(keys.get("counts", value), dtype=float) if keys.get("stderr") is not None else None
    ends = None if values is None else np.stack([values - 20_000.125, values + 20_000.125], axis=-1).tolist()
    return found | {"stderr": None, "interval": ends, "noise": [{"law": "laplace", "sensitivity": 12345, "scale": 23456.789}]} | keys


GROUPS = {
    "group_by": ["region_of_the_patient", "age"],
    "groups": {"region_of_the_patient": ["north", "north"], "age": [[0, 20000], [20000, 40000]]},
}
CODES = {"group_by": "code", "groups": [f"C{i}" for i in range(30)]}
QUERIES = [
    query("count", "count", 1234567, stderr=9000.5, column=None),
    query("mean", "mean", -12345.678, stderr=9000.5, lower=-100_000, upper=100_000),
    query("counts by code", "count", list(range(20_000, 20_030)), stderr=[9000.5] * 30, **CODES),
    query("counts by both", "count", [12345, -23456], stderr=[9000.5] * 2, **GROUPS),
    query("far apart", "histogram", [12345, 23456, 34567], stderr=[9000.5] * 3, edges=[0, 1, 10_000, 1e9]),
    query("nearly even", "histogram", [12345, 23456, 34567], stderr=[9000.5] * 3, edges=[0, 10_000, 20_000, 40_000]),
    query("fine", "histogram", list(range(20_000, 20_100)), stderr=[9000.5] * 100, edges=list(range(0, 1_010_000, 10_000))),
    query("categories", "histogram", [12345, 23456], stderr=[9000.5] * 2, categories=["a very long name of a category without end", "b"]),
    query("quartiles", "quantile", [12345.5, 23456.25, 34567.0], q=[0.25, 0.5, 0.75], grid=[0, 100_000], rank_error=[12345.5] * 3),
    query("top", "top_s", ["a", "b"], counts=[12345, 23456], candidates=["a", "b", "c"], stderr=[9000.5] * 2, interval=[[1, 2]] * 2),
]  # fmt: skip
LEDGER = {
    "path": "budget.ledger", "kind": "basic", "budget": {"epsilon": 20000.0, "delta": 1e-5}, "spent": {"epsilon": 12.5, "delta": 2e-6},
    "remaining": {"epsilon": 19987.5, "delta": 8e-6},
}  # fmt: skip


def page_of(folder, queries, **keys):
    """The text of the page of a release, with single spaces."""
    head = {"format": 1, "version": "1.2.3", "secure": True, "unit": "row", "relation": "replace"}
    ReleasePages(folder, "release").write(head | {"privacy": {"epsilon": 5.0, "delta": 0.0}, "queries": queries} | keys)
    return (folder / "release.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    return page_of(tmp_path_factory.mktemp("narrow"), QUERIES, rows=1234567, ledger=LEDGER)


def rules(style, query=None):
    """The rules of a style sheet: of one media query, or outside of all."""
    blocks = re.findall(r"@media ([^{]+)\{((?:[^{}]|\{[^{}]*\})*)\}", style)
    if query is None:
        return re.sub(r"@media [^{]+\{(?:[^{}]|\{[^{}]*\})*\}", "", style)
    return " ".join(inside for name, inside in blocks if name.strip() == query)


def style_of(text):
    (style,) = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
    return re.sub(r"/\*.*?\*/", "", style, flags=re.DOTALL)


def room(style, width):
    """Pixels inside of a card on a screen of this width."""
    phone = rules(style, "screen and (max-width: 40rem)") if width <= 40 * REM else ""

    def side(selector):
        for where in (phone, rules(style)):
            found = re.search(rf"^\s*{re.escape(selector)} \{{[^}}]*padding: [\d.]+rem ([\d.]+)rem", where, re.MULTILINE)
            if found:
                return float(found[1]) * REM
        raise AssertionError(selector)

    return width - 2 * side("main") - 2 * side(".card") - 2


def drawings(text, kind):
    return re.findall(rf'<svg class="plot {kind}".*?</svg>', text, re.DOTALL)


def smallest(svg):
    """The smallest text of a drawing, in its own units."""
    sizes = [float(size) for size in re.findall(r"font(?:-size)?: ([\d.]+)px", svg)]
    assert sizes, "a drawing without text"
    return min(sizes)


def width_of(svg):
    return float(re.search(r'viewBox="0 0 ([\d.]+) ', svg)[1])


def too_small(text, breakpoint_):
    """Text below `LEAST` in drawings: the narrow ones on a phone, the wide ones from the breakpoint on."""
    style = style_of(text)
    found = []
    for kind, screen in (("narrow", PHONE), ("wide", breakpoint_ * REM + 1)):
        assert drawings(text, kind)
        for svg in drawings(text, kind):
            pixels = smallest(svg) * room(style, screen) / width_of(svg)
            found += [(kind, pixels)] if pixels < LEAST else []
    return found


def breakpoint_of(style):
    """The width, in rem, up to which narrow drawings are shown."""
    (found,) = [
        float(width)
        for width, inside in re.findall(r"@media screen and \(max-width: ([\d.]+)rem\) \{((?:[^{}]|\{[^{}]*\})*)\}", style)
        if re.search(r"\.plot\.narrow \{ display: block", inside) and re.search(r"\.plot\.wide \{ display: none", inside)
    ]
    return found


@pytest.mark.long
def test_text_of_plots_has_12_pixels_at_every_width(text):
    assert too_small(text, breakpoint_of(style_of(text))) == []


@pytest.mark.long
def test_a_breakpoint_that_is_too_low_is_found(text):
    assert {kind for kind, _ in too_small(text, 40)} == {"wide"}
    assert {kind for kind, _ in too_small(text.replace("font: 9px", "font: 8px").replace("font-size: 9px", "font-size: 8px"), 49)} >= {
        "narrow"
    }


def test_text_beside_plots_has_12_pixels(text):
    style = style_of(text)
    sizes = [float(size) for size in re.findall(r"font-size: ([\d.]*)rem", style)]
    relative = [float(size) for size in re.findall(r"font-size: ([\d.]*)em", style)]
    in_tables = min(float(size) for size in re.findall(r"\n\s*table \{[^}]*font-size: ([\d.]+)rem", style))
    assert min(sizes) * REM >= LEAST
    assert min(relative) * in_tables * REM >= LEAST
    assert not re.search(r"font-size: [\d.]+(px|%|vw)|font-size: (x+-)?small", style)


def test_no_word_is_broken(text):
    style = style_of(text)
    assert not re.search(r"word-break|hyphens|line-break", style)
    # Only what is no word may break anywhere: paths and digests, and a large number.
    anywhere = re.findall(r"([^{}]+)\{[^}]*overflow-wrap: anywhere", style)
    assert {selector.strip() for selector in anywhere} == {"code", ".headline .value"}
    # Places to break stand after punctuation, before capitals, or in a word that is longer than a line.
    for before, after in re.findall(r"([^<>\s]*)<wbr>([^<>\s]*)", text):
        assert not before[-1:].isalpha() or after[:1].isupper() or len(before) >= 24, (before, after)


def test_tables_scroll_with_a_hint(text):
    style = rules(style_of(text))
    assert len(re.findall(r"<table", text)) == len(re.findall(r'<div class="wide[^>]*>\s*<table', text)) > 5
    (wide,) = re.findall(r"^\.wide \{([^}]*)\}", style, re.MULTILINE)
    assert "overflow-x: auto" in wide
    # The hint: shades that stay, below covers that scroll away with the content.
    assert "background-attachment: local, local, scroll, scroll" in wide
    assert re.findall(r"\bfigure \{[^}]*overflow-x: auto", style)


def test_drawings_fit_their_screens(text):
    for kind, width in (("wide", 6.8 * 72), ("narrow", 3.4 * 72)):
        assert {round(width_of(svg), 3) for svg in drawings(text, kind)} == {round(width, 3)}


def test_bars_of_a_histogram_are_as_wide_as_their_bins_in_the_drawing(text):
    for name, widths in (("nearly even", [1, 1, 2]), ("far apart", [1, 4, 5])):
        (svg,) = re.findall(rf'aria-label="{name}.*?</svg>', text, re.DOTALL)[:1]
        paths = re.findall(r'<path d="([^"]+)"[^>]*style="fill: var\(--soft\)', svg)
        corners = [np.array(re.findall(r"[ML] ([\d.]+) ([\d.]+)", path), dtype=float) for path in paths]
        drawn, heights = np.array([np.ptp(points, axis=0) for points in corners]).T
        assert len(drawn) == 3
        assert drawn / drawn[0] == pytest.approx(widths, rel=1e-3)
        areas = drawn * heights
        assert areas / areas[0] == pytest.approx([1, 23456 / 12345, 34567 / 12345], rel=1e-3)


NUMBER_FREE = re.compile(r"C\d+|\d{4}-\d\d-\d\d \d\d:\d\d UTC|1\.2\.3|e[+-]\d\d")


def test_numbers_are_written_one_way(text):
    page = Page(re.sub(r"<svg.*?</svg>", "", text, flags=re.DOTALL))
    words = [page.shown, *re.findall(r'aria-label="([^"]*)"', text), *re.findall(r"<text[^>]*>([^<]*)</text>", text)]
    for shown in (NUMBER_FREE.sub("", each) for each in words):
        assert not re.search(r"(?<![\d.,])\d{5,}", shown), "thousands are set apart"
        assert not re.search(r"(?<![\w\d])-\d", shown), "a minus sign, no hyphen"
        assert not re.search(r"\d%", shown.replace("\u00a0", " ")), "a space before per cent"
        assert not re.search(r"\d,\d{1,2}(?!\d)|\d,\d{4}", shown), "commas stand between thousands only"
    # The same number is the same text in the table at the top, in its section and beside its plot.
    assert page.shown.count("1,234,567") >= 3


TWO = {"group_by": ["site", "age"], "groups": {"site": ["n", "n", "s", "s"], "age": [[0.0, 18.0], [18.0, 65.0]] * 2}}


def test_groups_that_were_found_are_names_and_no_dates(tmp_path):
    north = query("found", "groups", ["north", "south"], column=None, group_by="site", half_released_at=12)
    both = query("both", "groups", {"a": ["x"], "b": [7]}, column=None, group_by=["a", "b"], half_released_at=12)
    text = page_of(tmp_path, [north, both])
    assert "<p>north · south</p>" in text
    assert "<p>x, 7</p>" in text
    assert '<td class="number words" data-label="released">north, south</td>' in text


def test_dates_stay_on_one_line_and_have_their_error(tmp_path):
    text = page_of(tmp_path, [query("median day", "median", "2024-07-02", rank_error=[15.5], q=0.5, column="day")])
    assert '<span class="whole">2024-07-02</span>' in text
    assert "Among the rounded values it is off by at most 16 rows in rank, with a probability of 95\u00a0%." in text


def test_a_grouped_histogram_says_the_error_of_its_counts(tmp_path):
    cells = query("cells", "histogram", [[1, -2]] * 4, edges=[0, 1, 2], stderr=[2.5] * 4, interval=[[[0, 2], [-3, -1]]] * 4, **TWO)
    assert "Standard error of each: 2.5." in page_of(tmp_path, [cells])


def test_a_number_is_the_same_in_a_map_and_its_tables(tmp_path):
    numbers = query("n", "count", [1234567, 2345678, 3456789, 4567891], stderr=[9.0] * 4, interval=[[0, 1]] * 4, **TWO)
    text = page_of(tmp_path, [numbers])
    assert text.count("1,234,567") == 3  # in the table and in both drawings
    assert "1,230,000" not in text
