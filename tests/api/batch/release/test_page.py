"""The page of a release: every answer with its error, what was spent and for whom, on one self-contained page."""

from __future__ import annotations

import functools
import json
import re
import sys

import numpy as np
import pytest

pytest.importorskip("jinja2")
pytest.importorskip("matplotlib")

from dpcore import pages
from dpcore.errors import JobError, StorageError
from dpcore.query.page import ReleasePages
from dpcore.query.plots import label_levels
from dpcore.query.prose import bin_names, quantile_name
from support.releases import document, page_of
from support.releases import entry as query

DISTRICTS = [f"district {number:03d}" for number in range(1000)]

COUNT = query("people", "count", 20187, stderr=2.5, column=None)
HEALTH = query(
    "by health", "histogram", [11021, 7345, -3, 299], stderr=1.5, categories=["excellent", "good", "fair", "poor"], column="health"
)
BINS = query("visit bins", "histogram", [900, 75, 4], stderr=[1.5] * 3, edges=[0, 5, 10, 50])
LARGE = query("districts", "histogram", list(range(1000)), stderr=[5.0] * 1000, categories=DISTRICTS, column="district")
FINE = query("ages", "histogram", list(range(200)), stderr=5.0, edges=list(range(201)))
SUM = query("visits in all", "sum", 57812.25, stderr=70.5, lower=0, upper=50, missing=0)
MEAN = query("mean visits", "mean", 2.86041, stderr=0.0035, lower=0, upper=50)
QUANTILES = query("quartiles", "quantile", [0.0, 1.0, 4.0, 15.0], q=[0.25, 0.5, 0.75, 0.99], grid=list(range(51)))
TOP = query(
    "frequent", "top_s", ["district 012", "district 440"], stderr=[8.0, 8.0], interval=[[1985, 2015], [1970, 2000]], counts=[2000, 1985]
)
CHOSEN = query("only chosen", "top_s", ["district 012"], candidates=DISTRICTS)
EVERY = [COUNT, HEALTH, BINS, LARGE, FINE, SUM, MEAN, QUANTILES, TOP, CHOSEN]
LEDGER = {
    "path": "budget.ledger",
    "kind": "basic",
    "budget": {"epsilon": 20.0, "delta": 1e-5},
    "spent": {"epsilon": 12.5, "delta": 2e-6},
    "remaining": {"epsilon": 7.5, "delta": 8e-6},
}


@pytest.fixture
def page(tmp_path):
    return functools.partial(page_of, tmp_path)


def plots(text):
    """How many plots a page has."""
    return text.count('<svg class="plot wide"')


@pytest.mark.long
def test_both_files_are_written_and_replaced(tmp_path):
    pages = ReleasePages(tmp_path / "deep/report", "release")
    for content in (document(COUNT), document(*EVERY)):
        pages.write(content)
        assert sorted(path.name for path in (tmp_path / "deep/report").iterdir()) == ["release.html", "release.json"]
        assert json.loads(pages.paths[0].read_text(encoding="utf-8")) == content


@pytest.mark.long
def test_the_page_needs_nothing_but_itself(page):
    text = page(*EVERY, ledger=LEDGER)
    assert not re.search(r"https?:|//|src=|@import|url\((?!#)|<link", text)
    assert "prefers-color-scheme: dark" in text
    assert "@media print" in text
    assert all(f'href="#query-{number}"' in text and f'id="query-{number}"' in text for number in range(1, 11))
    # The last one has no numbers; each plot is drawn for wide and for narrow screens.
    assert text.count("<svg") == text.count("</svg>") == 2 * plots(text) == 18


@pytest.mark.long
def test_every_colour_is_a_variable_of_the_page(page):
    text = page(*EVERY, ledger=LEDGER)
    assert set(re.findall(r"var\((--[a-z-]+)\)", text)) <= set(re.findall(r"(--[a-z-]+):", text))
    for svg in re.findall(r"<svg.*?</svg>", text):
        assert not re.search(r"#[0-9a-f]{6}\b", re.sub(r"url\(#\w+\)|href=\"#\w+\"|id=\"\w+\"", "", svg))
        assert "DejaVu" not in svg


@pytest.mark.long
def test_the_same_release_makes_the_same_page_but_for_its_date(tmp_path, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    for name in ("a", "b"):
        ReleasePages(tmp_path / name, "release").write(document(*EVERY, ledger=LEDGER))
    assert (tmp_path / "a/release.html").read_bytes() == (tmp_path / "b/release.html").read_bytes()


def test_with_a_ledger_the_same_job_again_spends_nothing(page):
    text = page(COUNT, ledger=LEDGER)
    assert "The same job again spends nothing" in text
    assert "spends again.</p>" in text
    assert "on the same data spends again" not in text
    asked = page(COUNT, ledger=LEDGER, run=None)  # a question to a frame, which has no output to publish again
    assert "spends nothing" not in asked
    assert "Asking again draws new noise and spends again.</p>" in " ".join(asked.split())


def test_a_category_is_in_quotes(page):
    assert "Missing values count as “none”." in page(HEALTH | {"categories": ["none", "some", "more", "all"], "missing": "none"})


def test_what_was_asked_spent_and_answered(page):
    text = page(*EVERY)
    for words in (
        '<span class="value">&epsilon;&nbsp;=&nbsp;5</span> <span class="muted">&delta;&nbsp;=&nbsp;0</span>',
        "The guarantee protects one row; a person with k rows is protected at k·ε.",
        "Whatever one row says, these results would be at most 149 times as likely as with any other row in its place.",
        "Suppose that somebody knows all other rows and guesses the data of this one. These results change the odds of the guess by a "
        "factor "
        "of at most 149.",
        "The number of rows is public; their contents are protected.",
        "How many values they change is not released",
        "Running the job again on the same data spends again.",
        "How many rows there are.",
        "How many rows fall into each declared value of health.",
        "How many rows fall into each bin of visits.",
        "Quantiles of visits.",
        "Chosen from a grid of 51 points.",
        "The 2 most frequent of the declared values of visits.",
        "1,000 candidates were declared.",
        "Values below 0 count as 0, values above 50 as 50; missing values count as 0.",
        "Standard error of each: 1.5.",
        '<span class="value">20,187</span>',
        "95 % interval 20,182 to 20,192; standard error 2.5",
        '<span class="value">57,812</span>',
        "95 % interval 57,671 to 57,953",
        '<span class="value">2.8604</span>',
        "The axis shows only a part of the possible range, 0 to 50.",
        '<td class="name whole">fair</td><td class="number">−3</td><td class="number">−6 to 0</td>',
        '<td class="name whole">10 to 50</td><td class="number">4</td>',
        '<td class="name whole">upper quartile</td><td class="number">4</td>',
        '<td class="name whole">place 1</td><td class="name whole">district 012</td><td class="number">2,000</td>'
        '<td class="number">1,985 to 2,015</td>',
        "A count below 0 comes from the noise of an empty or nearly empty part.",
        "About one in twenty of the 95 % intervals does not contain the true value. The results do not show which.",
    ):
        assert words in text, words
    assert re.search(r">total<.*5</td>.*</tfoot>", text)
    assert "NOT PRIVATE" not in text
    assert "ledger" not in text


@pytest.mark.long
def test_a_thousand_categories_stay_readable(page):
    text = page(LARGE)
    above, svg = "The 200 largest of 1,000 numbers are drawn.", text[text.index("<svg") : text.index("</svg>")]
    assert text.index("<h2>districts") < text.index(above) < text.index("<svg")
    assert "of all 95 % intervals, about 50 do not contain the true value" in text
    assert re.findall(r'<td class="name whole">(district \d{3})', text) == DISTRICTS
    assert set(re.findall(r">(district \d{3})<", svg)) == set(DISTRICTS[800:])


@pytest.mark.long
def test_categories_beyond_what_a_page_can_hold_are_in_the_json_alone(page):
    labels = [f"c{number}" for number in range(6000)]
    text = page(query("many", "histogram", [1] * 6000, stderr=[1.0] * 6000, categories=labels))
    assert text.index("The first 1,000 of 6,000 rows; the JSON file has all.") < text.index(">c999<")
    assert "c1000" not in text


def test_many_bins_are_a_line_with_a_band(page):
    text = page(FINE)
    assert "95 % intervals</span>" in text
    assert 'role="region" aria-label="ages: 200 rows"' in text
    assert "199 to 200" in text


@pytest.mark.long
def test_more_bins_than_a_screen_has_columns(page):
    text = page(query("fine", "histogram", list(range(2500)), stderr=5.0, edges=list(range(2501))))
    assert "Each step of the line is the mean of 3 neighbouring bins" in text
    assert len(text[text.index("<svg") : text.index("</svg>")]) < 200_000
    assert "mean of" not in page(FINE)


def test_bins_of_very_different_widths_and_bins_alone(page):
    wide = query("wide", "histogram", [5, 6, 7], stderr=[1.0] * 3, edges=[0, 1, 10, 1e6])
    one = query("one", "histogram", [5], edges=[0.5, 1.5])
    text = page(wide, one)
    assert "10 to 1,000,000" in text
    assert "0.5 to 1.5" in text
    assert ">1,000,000<" in text[text.index("<svg") : text.index("</svg>")]


def test_counts_of_some_rows(page):
    text = page(
        query("high", "count", 12, stderr=1.0, lower=10, upper=50),
        query("ill", "count", 12, stderr=1.0, categories=["fair", "poor"]),
        query("poor", "count", 12, stderr=1.0, categories=["poor"]),
    )
    assert "How many rows have visits from 10 to 50." in text
    assert "How many rows have visits equal to one of fair, poor." in text
    assert "How many rows have visits equal to poor." in text
    assert "values above" not in text


def test_the_unit_and_its_bound_in_words(page):
    text = page(COUNT, unit="person", max_rows_per_unit=3, max_groups_per_unit=2, relation="add_remove")
    assert "The guarantee protects one &#39;person&#39;, with all its rows; at most 3 rows and at most 2 groups of each were used" in text
    assert (
        "Whether or not the rows of one &#39;person&#39; are in the data, these results would be at most 1.65 times as likely as "
        "in the other case." in text
    )
    assert "guesses whether this one is in the table" in text
    assert "Even whether one &#39;person&#39; was in the table is protected." in text
    assert "at most the declared number of rows for each person" in text


def test_what_is_public_when_a_unit_is_replaced(page):
    public = "The number of different &#39;person&#39; values is public; the contents of their rows are protected."
    assert public in page(COUNT, unit="person")
    assert "at most 1 row of each was used" in page(COUNT, unit="person", max_rows_per_unit=1)


def test_a_keyed_release_is_marked(page):
    assert "NOT PRIVATE: the noise comes from the key in [testing]" in page(COUNT, secure=False)


def test_delta_is_shown_and_weakens_the_sentence(page):
    spent = {"epsilon": 0.5, "delta": 1e-6}
    text = page(query("people", "count", 3, stderr=1.0, privacy=spent), privacy=spent)
    assert '<span class="muted">&delta;&nbsp;=&nbsp;1e-06</span>' in text
    assert "in its place. δ = 1e-06 is a tiny probability with which the ε promise may fail." in text
    assert "a person with k rows is protected at k·ε and k·e^((k−1)ε)·δ." in text
    # A factor alone would promise too much.
    assert "Suppose that" not in text


@pytest.mark.long
def test_the_ledger(page):
    text = page(*EVERY, ledger=LEDGER)
    assert "The ledger after this job" in text
    # 20 allowed, 12.5 spent with the 5 of this job.
    assert 'class="earlier" style="width: 37.50%"' in text
    assert 'class="job" style="width: 25.00%"' in text
    cells = re.findall(r'<td class="number">([^<]*)</td>', text[text.index("<td>ε</td>") :])
    assert cells[:8] == ["20", "5", "12.5", "7.5", "1e-05", "0", "2e-06", "8e-06"]


def test_a_ledger_that_adds_rho(page):
    budget = {"rho": 0.06, "delta": 1e-7}
    spent, left = {"rho": 0.015, "delta": 0.0}, {"rho": 0.045, "delta": 1e-7}
    text = page(COUNT, ledger=LEDGER | {"kind": "zcdp", "budget": budget, "spent": spent, "remaining": left})
    assert "it adds up ρ, and the δ of releases that may fail" in text
    assert 'class="earlier" style="width: 25.00%"' in text
    assert 'class="job"' not in text
    cells = re.findall(r'<td class="number">([^<]*)</td>', text[text.index("<td>ρ</td>") :])
    assert cells[:8] == ["0.06", "–", "0.015", "0.045", "1e-07", "–", "0", "1e-07"]


def test_an_empty_budget_and_one_that_is_used_up(page):
    nothing = {"epsilon": 0.0, "delta": 0.0}
    assert 'class="earlier" style="width: 0.00%"' in page(
        COUNT, ledger=LEDGER | {"budget": nothing, "spent": nothing, "remaining": nothing}
    )
    full = page(COUNT, ledger=LEDGER | {"spent": LEDGER["budget"], "remaining": nothing})
    assert 'class="earlier" style="width: 97.50%"' in full
    assert 'class="job" style="width: 2.50%"' in full


def test_the_noise_in_words(page):
    drawn = [{"law": "discrete_laplace", "sensitivity": 2, "scale": 4.0}] * 3 + [{"law": "gumbel", "sensitivity": 1.5, "scale": 16.123456}]
    text = page(query("noisy", "count", 5, noise=drawn))
    assert "Discrete Laplace noise of scale 4, for a sensitivity of 2; Gumbel noise of scale 16.12, for a sensitivity of 1.5." in text


def test_confidences_may_differ(page):
    text = page(COUNT, query("sure", "count", 5, stderr=1.0, confidence=0.99, column=None))
    assert "About one in twenty of the 95 % intervals and about one in a hundred of the 99 % intervals do not contain the true" in text
    assert "99 % interval 3 to 7" in text
    assert '<th scope="col" class="number"> interval</th>' in text


def test_answers_without_intervals(page):
    text = page(query("plain", "count", 5, column=None), query("bare", "histogram", [5, 6], categories=["a", "b"]), QUANTILES)
    assert "How to read the intervals" not in text
    assert '<span class="value">5</span> <span class="muted"></span></p>' in text


STRANGE = ["<script>alert(1)</script>", "$\\frac{1}{2}$", "日本語 \U0001f600", "new\nline\x00", "a" * 200, "{{ 7 * 7 }}", "&amp;", " "]


def test_strange_names(page):
    name = "<b>[red]$x_1$</b> {{ 1 }}"
    strange = query(name, "histogram", list(range(8)), stderr=[1.0] * 8, categories=STRANGE, column=name, note=name)
    text = page(
        strange, query("top", "top_s", STRANGE, candidates=STRANGE, column=name), QUANTILES | {"name": name}, COUNT | {"name": name}
    )
    assert text.count("<script") == 1
    assert "<b>[red]" not in text
    assert "{{ 7 * 7 }}" in text
    assert "日本語" in text


@pytest.mark.long
def test_noise_that_cannot_be_seen(page):
    sure = {"stderr": 1e-150, "q": 0.5}
    text = page(
        query("count", "count", 5, interval=[5, 5], column=None, **sure),
        query("sum", "sum", 0.0, interval=[0.0, 0.0], lower=-1, upper=1, **sure),
        query("mean", "mean", 0.5, interval=[0.5, 0.5], lower=0, upper=1, **sure),
        query("histogram", "histogram", [0, 0], interval=[[0, 0], [0, 0]], categories=["a", "b"], **sure),
        query("bins", "histogram", [0, 0], interval=[[0, 0], [0, 0]], edges=[0, 1, 2], **sure),
        query("fine", "histogram", [0] * 100, interval=[[0, 0]] * 100, edges=list(range(101)), **sure),
    )
    assert plots(text) == 6
    assert '<span class="value">5</span>' in text


@pytest.mark.some(2)
@pytest.mark.parametrize("value", [0, -1e-12, 1e300, 10**17 + 1])
def test_numbers_of_any_size(page, value):
    text = page(query("sum", "sum", value, stderr=abs(value) / 10 + 1e-12, lower=-1e300, upper=1e300))
    assert plots(text) == 1


def test_one_point_and_equal_quantiles(page):
    alone = query("median", "quantile", 3.0, q=0.5, grid=[3.0, 3.5])
    equal = query("equal", "quantile", [3.0, 3.0, 3.0], q=[0.25, 0.5, 0.75], interval=[[2, 3], None, [3, 4]])
    text = page(alone, equal)
    assert "The median of visits." in text
    assert "2 to 3" in text


def test_how_far_a_quantile_can_be_off(page):
    text = page(query("quartiles", "quantile", [1.0, 4.0], q=[0.25, 0.75], grid=[0.0, 50.0], rank_error=[11.2, 30.5]))
    assert "Among the rounded values each is off by at most 31 rows in rank, with a probability of 95 %." in text


def test_a_mean_of_nothing(page):
    text = page(query("mean", "mean", None, note="the table has no rows, and so no mean", lower=0, upper=1))
    assert '<span class="value">none</span>' in text
    assert "the table has no rows, and so no mean" in text


SITES = {"group_by": "site", "groups": ["north", "south", "west"]}


def test_an_answer_for_each_group(page):
    intervals, notes = [[1.5, 3.5], None, [-4.0, -2.0]], [None, "no rows", None]
    text = page(
        query("mean by site", "mean", [2.5, None, -3.0], stderr=[0.5, None, 0.5], interval=intervals, note=notes, **SITES),
        query("some by site", "count", [5, 6, -7], stderr=[1.0] * 3, categories=["x"], **SITES),
        query("nothing", "mean", [None] * 3, **SITES),
    )
    assert "The mean of visits, in each of 3 declared groups by site." in text
    assert "How many rows have visits equal to x, in each of 3 declared groups by site." in text
    assert "3 groups, the largest north: 2.5" in text
    assert '<td class="name whole">south</td><td class="number">–</td><td class="number">–</td><td class="number share">–</td>' in text
    assert (
        '<td class="name whole">west</td><td class="number">−3</td><td class="number">−4 to −2</td><td class="number share">33 %</td>'
        in text
    )
    assert '<p class="muted small">no rows</p>' in text
    assert text.count("A count below 0") == 1
    assert plots(text) == 2
    assert "Standard error of each: 1.0." in text


def test_quantiles_of_each_group(page):
    several = query("quartiles", "quantile", [[1.0, 4.0]] * 3, q=[0.25, 0.75], grid=[0, 9], rank_error=[[9.5, 30.5]] * 3, **SITES)
    single = query("medians", "quantile", [1.0, 2.0, -3.5], q=0.5, grid=[0, 9], rank_error=[9.5] * 3, **SITES)
    text = page(several, single)
    headings = ["site", "lower quartile", "upper quartile"]
    assert re.findall(r"<th[^>]*>([^<]*)</th>", text[text.index(">site</th>") - 30 :])[:3] == headings
    assert '<td class="name whole">south</td><td class="number">1</td><td class="number">4</td>' in text
    assert '<td class="name whole">west</td><td class="number">−3.5</td>' in text
    assert plots(text) == 2
    assert "each is off by at most 31 rows in rank" in text
    assert "The median of visits, in each of 3 declared groups by site." in text


def test_a_set_has_no_order(page):
    text = page(CHOSEN | {"method": "oneshot_laplace"}, CHOSEN | {"method": "gumbel"})
    assert text.count("A set, in no particular order.") == text.count("In the order in which they were chosen.") == 1


def test_labels_of_quantiles_cover_no_other():
    assert label_levels(["a" * 10] * 3, [0.1, 0.5, 0.9], 0.013) == [0, 0, 0]
    assert label_levels(["a" * 10] * 3, [0.5, 0.5, 0.5], 0.013) == [0, 1, 2]
    assert label_levels(["a" * 10] * 3, [0.5, 0.1, 0.52], 0.013) == [0, 0, 1]


def test_names_of_quantiles_and_bins():
    assert [quantile_name(level) for level in (0.5, 0.25, 0.999, None)] == ["median", "lower quartile", "99.9 %", "quantile"]
    assert bin_names(np.array([0.0, 2.5, 1000.0])) == ["0 to below 2.5", "2.5 to 1,000"]


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot make the folder"):
        ReleasePages(tmp_path / "file/report", "release")


def test_without_the_extra(tmp_path, monkeypatch):
    monkeypatch.delattr(pages, "plots")
    monkeypatch.setitem(sys.modules, "dpcore.pages.plots", None)
    with pytest.raises(JobError, match="needs the extra `report`"):
        ReleasePages(tmp_path, "release")


TWO = {"group_by": ["site", "age"], "groups": {"site": ["n", "n", "s", "s"], "age": [[0.0, 18.0], [18.0, 65.0]] * 2}}


def test_groups_of_two_columns_are_a_table_and_a_map(page):
    text = page(query("mean", "mean", [2.5, 1.25, -3.0, 7.0], stderr=[0.5] * 4, interval=[[0.0, 9.0]] * 4, **TWO))
    assert "The mean of visits, in each of 4 declared groups by site and age." in text
    assert '<td class="name whole">s</td><td class="name whole">0 to below 18</td><td class="number">−3</td>' in text
    assert '<td class="name whole">n</td><td class="name whole">18 to 65</td>' in text
    assert "colour: mean of visits" in text
    assert plots(text) == 1


@pytest.mark.parametrize("ages", [["x", "x", "y", "y"], ["x", "y", "y", "x"]])
def test_groups_that_are_not_all_combinations_are_a_list(page, ages):
    size, groups = 4, {"site": ["n", "s", "n", "s"] if ages[0] == ages[1] else ["n", "n", "s", "s"], "age": ages}
    text = page(query("n", "count", [1] * size, stderr=[1.0] * size, interval=[[0, 2]] * size, group_by=list(groups), groups=groups))
    assert "colour:" not in text
    assert ">s, x<" in text[text.index("<svg") :]
    assert '<td class="name whole">s</td><td class="name whole">x</td>' in text


def test_cells_and_places_of_each_group(page):
    cells = query("cells", "histogram", [[1, -2]] * 4, edges=[0, 1, 2], stderr=[1.0] * 4, interval=[[[0, 2], [-3, -1]]] * 4, **TWO)
    top = query("top", "top_s", [["a", 7]] * 4, s=2, candidates=5, stderr=[None] * 4, interval=[None] * 4, **TWO)
    text = page(cells, top)
    names = ["s", "0 to below 18", "1 to 2"]
    row = "".join(f'<td class="name whole">{name}</td>' for name in names)
    assert f'{row}<td class="number">−2</td><td class="number">−3 to −1</td><td class="number share">50 %</td>' in text
    assert '<th scope="col" data-sort>place 2</th>' in text
    assert '<td class="name whole">s</td><td class="name whole">18 to 65</td><td class="number">a</td><td class="number">7</td>' in text
    assert "The 2 most frequent of the declared values of visits, in each of 4 declared groups by site and age." in text
    assert plots(text) == 1


@pytest.mark.long
def test_many_groups_do_not_fill_the_page(page):
    size = 100
    groups = {"group_by": ["a", "b"], "groups": {"a": np.repeat(np.arange(size), size).tolist(), "b": list(range(size)) * size}}
    text = page(query("n", "count", list(range(size**2)), stderr=[1.0] * size**2, interval=[[0, 2]] * size**2, **groups))
    assert "in each of 10,000 declared groups by a and b" in text
    assert "99, 99" in text
    assert "The first 1,000 of 10,000 rows; the JSON file has all." in text
    assert len(text) < 600_000
