"""Plots show what they say: bars as wide as their bins, areas that are counts, labels that fit."""

from __future__ import annotations

import html
import re
import warnings

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from matplotlib.patches import Rectangle

from dpcore.pages import plots
from dpcore.pages.plots import NARROW_WIDTH, WIDTH, frequency_plot, interval_plot, picture
from dpcore.query import bin_axes
from dpcore.query import plots as release_plots
from dpcore.query.bin_axes import axis_of_bins, bin_axis, powers
from dpcore.query.plots import bin_plot, dot_plot, heat_map, quantile_plot

EVEN, UNEVEN, FAR_APART = np.array([0.0, 2.5, 5.0, 7.5]), np.array([-1.0, 0.0, 1.0, 10.0]), np.array([0.0, 1.0, 10.0, 1e6])
TOO_FAR = np.array([10.0**6, 10.0**6 + 1, 10.0**6 + 2, 10.0**7])
COUNTS = np.array([5.0, -2.0, 18.0])


@pytest.fixture
def figures(monkeypatch):
    """The figures that are drawn, the wide one first."""
    seen = []

    def remember(draw, height, title, *, narrow=None):
        def both(figure):
            draw(figure)
            seen.append(figure)

        return picture(both, height, title, narrow=narrow)

    monkeypatch.setattr(plots, "picture", remember)
    monkeypatch.setattr(release_plots, "picture", remember)
    return seen


def bars(figure):
    """Left end, width and height of each bar."""
    (axes,) = figure.axes
    patches = [patch for patch in axes.patches if isinstance(patch, Rectangle)]
    return np.array([(patch.get_x(), patch.get_width(), patch.get_height()) for patch in patches]).T


def test_scales():
    scales = [bin_axis(edges).scale for edges in (EVEN, UNEVEN, FAR_APART, TOO_FAR, np.arange(0, 1, 0.1))]
    assert scales == ["counts", "densities", "powers", "list", "counts"]


def test_bars_of_bins_of_one_width_are_counts(figures):
    bin_plot(bin_axis(EVEN), COUNTS, None, title="even", label="x")
    for figure in figures:
        left, width, height = bars(figure)
        assert left == pytest.approx(EVEN[:-1])
        assert width == pytest.approx(np.diff(EVEN))
        assert height == pytest.approx(COUNTS)
        assert figure.axes[0].get_ylabel() == "rows"
    assert [figure.get_figwidth() for figure in figures] == [WIDTH, NARROW_WIDTH]


def test_areas_of_bins_of_several_widths_are_counts(figures):
    intervals = np.stack([COUNTS - 1, COUNTS + 1], axis=1)
    bin_plot(bin_axis(UNEVEN), COUNTS, intervals, title="uneven", label="x")
    for figure in figures:
        left, width, height = bars(figure)
        assert left == pytest.approx(UNEVEN[:-1])
        assert width == pytest.approx(np.diff(UNEVEN))
        assert width * height == pytest.approx(COUNTS)
        (axes,) = figure.axes
        assert axes.get_ylabel() == "rows per unit of x"
        lines = axes.collections[0].get_segments()
        assert [line[:, 1] * w for line, w in zip(lines, width, strict=True)] == [pytest.approx(pair) for pair in intervals]


def test_many_bins_of_several_widths_are_a_line_of_densities(figures):
    edges = np.concatenate([np.arange(100.0), [101.0, 103.0]])
    counts = np.append(np.full(99, 7.0), [14.0, 14.0])
    bin_plot(bin_axis(edges), counts, None, title="many", label="x")
    (stairs,) = [patch for patch in figures[0].axes[0].patches if hasattr(patch, "get_data")]
    assert stairs.get_data().values == pytest.approx(np.full(101, 7.0))


@pytest.mark.some(2)
@pytest.mark.parametrize(
    "edges",
    [
        FAR_APART,
        np.array([0, 100, 1000, 10_000, 100_000, 1_000_000.0]),
        np.array([0, 10_000, 20_000, 30_000, 50_000, 100_000, 1e9]),
        np.array([0, 0.1, 50, 100]),
        np.array([-1e6, -100, -1, 0, 1, 10, 20, 30, 1e6]),
        np.array([-1e9, -5, 3, 4]),
        np.array([1e-20, 1e-19, 1e20]),
        -np.array([1e6, 10, 1]),
    ],
    ids=str,
)
def test_bars_of_bins_that_are_far_apart_are_as_wide_as_their_bins_on_an_axis_of_powers(edges, figures):
    counts = np.arange(2.0, len(edges) + 1)
    axis = bin_axis(edges)
    assert axis.scale == "powers"
    bin_plot(axis, counts, np.stack([counts - 1, counts + 1], axis=1), title="far", label="x")
    for figure in figures:
        left, width, height = bars(figure)
        assert left == pytest.approx(axis.places[:-1])
        assert width == pytest.approx(np.diff(axis.places))
        assert width * height == pytest.approx(counts)
        assert width.min() >= bin_axes.NARROWEST * (left[-1] + width[-1] - left[0])
        assert figure.axes[0].get_ylabel() == "rows per factor of ten"
        numbered = [float(label.get_text().replace(",", "").replace("−", "-")) for label in figure.axes[0].get_xticklabels()]
        assert set(numbered) <= set(edges.tolist())
        assert (numbered[0], numbered[-1]) == (edges[0], edges[-1])


def test_places_on_an_axis_of_powers():
    assert powers(np.array([-100.0, -10.0, 0.0, 0.5, 1.0, 5.0])).tolist() == pytest.approx(
        [-3.301029995663981, -2.301029995663981, 0, 1, 1.301029995663981, 2]
    )
    assert np.diff(powers(np.array([3.0, 30.0, 300.0]))).tolist() == pytest.approx([1, 1])


def test_what_is_said_about_an_axis():
    both_sides = np.array([-9e5, -1, 2, 3])
    said = [" ".join(bin_axis(edges).notes("x")) for edges in (EVEN, UNEVEN, FAR_APART, TOO_FAR, -FAR_APART[::-1], both_sides)]
    assert said[0] == ""
    assert "number of rows per unit of x" in said[1]
    assert said[2].endswith("number of rows per factor of ten. From 0 to 1 it is linear, and that is as wide as a factor of ten.")
    assert "no bar is as wide as its bin" in said[3]
    assert "From −1 to 0 it is linear" in said[4]
    assert said[5].endswith("From −1 to 1 it is linear, and each half of that is as wide as a factor of ten.")


def test_bins_that_no_axis_shows_are_a_list_of_counts(figures):
    bin_plot(bin_axis(TOO_FAR), COUNTS, None, title="too far", label="x")
    axes = figures[0].axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()][-1] == "1,000,002 to 10,000,000"
    assert [patch.get_width() for patch in axes.patches] == COUNTS.tolist()


def test_bins_of_dates_are_as_wide_as_their_days(figures):
    axis = axis_of_bins({"edges": ["2024-01-01", "2024-02-01", "2024-03-01", "2025-01-01"]})
    bin_plot(axis, COUNTS, None, title="dates", label="day of visit")
    left, width, height = bars(figures[0])
    assert width.tolist() == [31, 29, 306]
    assert width * height == pytest.approx(COUNTS)
    assert left[0] == 19_723
    assert [figure.axes[0].get_ylabel() for figure in figures] == ["rows per day"] * 2
    assert figures[0].axes[0].get_xticklabels()[-1].get_text() == "2025-01-01"
    assert axis_of_bins({"edges": ["PT0S", "PT1H", "PT4H"]}).per_unit("x") == "rows per hour"
    assert axis_of_bins({"edges": ["2024-01-01T00:00:00", "2024-01-01T00:00:01", "2025-01-01T00:00:00"]}).scale == "list"
    assert axis_of_bins({"categories": ["a"]}) is None


def test_neighbouring_bins_of_one_width_share_a_step(monkeypatch, figures):
    monkeypatch.setattr(bin_axes, "MOST_STEPS", 31)
    intervals = np.tile([[1.0, 3.0], [5.0, 7.0]], (31, 1))
    bin_plot(bin_axis(np.arange(63.0)), np.tile([2.0, 6.0], 31), intervals, title="steps", label="x")
    (stairs,) = [patch for patch in figures[0].axes[0].patches if hasattr(patch, "get_data")]
    assert stairs.get_data().values == pytest.approx(np.full(31, 4.0))
    band = figures[0].axes[0].collections[0].get_paths()[0].vertices
    assert (band[:, 1].min(), band[:, 1].max()) == (1, 7)


def test_bins_that_are_too_narrow_share_a_step_of_a_line(figures):
    edges = np.cumsum(np.append(1000.0, np.tile([1e-9, 2.0], 50)))
    counts = np.tile([1.0, 3.0], 50)
    axis = bin_axis(edges)
    assert (axis.scale, len(axis.starts)) == ("powers", 50)
    assert axis.notes("x")[1].startswith("Bins too narrow to see share a step")
    bin_plot(axis, counts, np.stack([counts - 1, counts + 1], axis=1), title="steps", label="x")
    (stairs,) = [patch for patch in figures[0].axes[0].patches if hasattr(patch, "get_data")]
    assert (stairs.get_data().values * np.diff(stairs.get_data().edges)).sum() == pytest.approx(200)


def test_bars_of_categories_are_the_numbers_and_dots_mark_other_bars(figures):
    intervals = np.stack([COUNTS - 1, COUNTS + 1], axis=1)
    frequency_plot(["a", "b", "c"], COUNTS, intervals, title="one", label="rows", percent=False)
    frequency_plot(["a", "b", "c"], COUNTS, intervals, np.abs(COUNTS), title="two", label="rows", percent=False)
    widths = [[patch.get_width() for patch in figure.axes[0].patches] for figure in figures]
    assert widths == [[5, -2, 18]] * 2 + [[5, 2, 18]] * 2
    dots = [[line for line in figure.axes[0].lines if line.get_marker() == "o"] for figure in figures]
    assert [len(lines) for lines in dots] == [0, 0, 1, 1]
    assert dots[2][0].get_xdata().tolist() == COUNTS.tolist()


def test_lines_that_are_too_noisy_do_not_stretch_the_axis_of_dots(figures):
    intervals = np.array([[0.9, 1.1], [1.4, 1.6], [-900.0, 1000.0]])
    dot_plot(["a", "b", "c"], np.array([[1.0], [1.5], [50.0]]), intervals, np.array([False, False, True]), title="dots", label="x")
    for figure in figures:
        (axes,) = figure.axes
        start, stop = axes.get_xlim()
        assert 0.8 < start < 0.9
        assert 1.6 < stop < 1.7
        arrows = {line.get_marker(): line.get_xdata().tolist() for line in axes.lines if line.get_marker() in {"<", ">"}}
        assert arrows == {"<": [start], ">": [stop]}
        assert axes.collections[0].get_segments()[2][:, 0].tolist() == [start, stop]
    dot_plot(["c"], np.array([[50.0]]), intervals[2:], np.array([True]), title="alone", label="x")
    assert figures[-1].axes[0].get_xlim()[0] < -900


@pytest.mark.long
def test_many_names_stand_beside_each_other_on_one_axis(figures):
    names = [f"name {number}" for number in range(200)]
    counts = np.arange(200.0)
    frequency_plot(names, counts, np.stack([counts, counts], axis=1), title="many", label="rows", percent=False)
    for figure, parts in zip(figures, (4, 2), strict=True):
        assert len(figure.axes) == parts
        assert [label.get_text() for axes in figure.axes for label in axes.get_yticklabels()] == names
        assert len({axes.get_xlim() for axes in figure.axes}) == len({axes.get_ylim() for axes in figure.axes}) == 1
        assert [patch.get_width() for axes in figure.axes for patch in axes.patches] == counts.tolist()


def test_the_scale_of_a_map_has_the_colours_of_its_cells(figures):
    values = np.array([[0.0, 25.0], [100.0, np.nan]])
    heat_map(values, ["a", "b"], ["c", "d"], title="map", labels=("x", "y"), texts=values.astype(str), label="rows")
    cells, scale = figures[0].axes
    found = [patch.get_alpha() for patch in cells.patches]
    assert [alpha / found[2] for alpha in found] == pytest.approx([0, 0.5, 1, 0])  # roots
    steps = [(patch.get_x(), patch.get_alpha()) for patch in scale.patches]
    assert scale.get_xlim() == (0, 100)
    assert max(alpha for _, alpha in steps) == pytest.approx(found[2], rel=0.02)
    assert scale.get_xlabel() == "colour: rows"


def test_every_axis_has_a_label(figures):
    interval_plot(0.5, (0.4, 0.6), (0.0, 1.0), percent=True, title="one", label="share of yes")
    quantile_plot(["median"], [3.0], [None], (0.0, 9.0), title="two", label="cost")
    heat_map(np.full((2, 3), 1 / 6), ["a", "b"], ["0", "1", "2", "5"], title="three", labels=("letter", "digit"))
    labels = [(figure.axes[0].get_xlabel(), figure.axes[0].get_ylabel()) for figure in figures[::2]]
    assert labels == [("share of yes", ""), ("cost", ""), ("digit", "letter")]
    # Four names are the edges of three columns, two those of two rows.
    assert figures[4].axes[0].get_xticks().tolist() == [0, 1, 2, 3]
    assert figures[4].axes[0].get_yticks().tolist() == [0.5, 1.5]


def test_labels_are_cut_to_the_room_that_there_is(figures):
    name = "a name of a category that is far too long for any plot"
    frequency_plot([name], COUNTS[:1], COUNTS[:1, None] + [[-1, 1]], title="long", label=name * 3, percent=False)
    lengths = [(len(figure.axes[0].get_yticklabels()[0].get_text()), len(figure.axes[0].get_xlabel())) for figure in figures]
    assert lengths == [(30, 72), (14, 34)]


def test_labels_that_begin_alike_keep_their_ends(figures):
    names = [f"south, district {number}" for number in (28, 29, 30)]
    frequency_plot(names, COUNTS, np.stack([COUNTS, COUNTS], axis=1), title="alike", label="rows", percent=False)
    shown = [[label.get_text() for label in figure.axes[0].get_yticklabels()] for figure in figures]
    assert shown == [names, ["south,…rict 28", "south,…rict 29", "south,…rict 30"]]


def test_a_plot_without_a_narrow_drawing_is_one_that_scrolls():
    drawn = picture(lambda figure: figure.subplots(), 1.0, "alone")
    assert re.findall(r'<svg class="([^"]*)"', drawn) == ["plot alone"]


def test_titles_are_escaped():
    drawn = picture(lambda figure: figure.subplots(), 1.0, 'a "b" <c> & \u202e\x00d')
    (label,) = re.findall(r'aria-label="([^"]*)"', drawn)
    assert html.unescape(label) == 'a "b" <c> & \\u202e\\x00d'


@pytest.mark.parametrize("names", [40, 41, 100])
def test_many_dots_have_room(names):
    """Parts that stand beside each other are not squeezed by what is drawn outside of them."""
    values, labels = np.linspace(1.0, 2.0, names)[:, None], [f"product-{i}" for i in range(names)]
    intervals = np.hstack([values - 0.5, values + 0.5])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        drawn = dot_plot(labels, values, intervals, values[:, 0] > 5, title="many", label="price")
    assert drawn.count(">price</text>") == 2  # wide and narrow
