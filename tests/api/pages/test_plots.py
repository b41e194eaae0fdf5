"""Plots show what they say: bars as wide as their bins, areas that are counts, labels that fit."""

from __future__ import annotations

import html
import re

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from matplotlib.patches import Rectangle

from dpcore.batch.release import plots as release_plots
from dpcore.batch.release.plots import bin_plot, bin_scale, heat_map, quantile_plot
from dpcore.pages import plots
from dpcore.pages.plots import NARROW_WIDTH, WIDTH, frequency_plot, interval_plot, picture

EVEN, UNEVEN, FAR_APART = np.array([0.0, 2.5, 5.0, 7.5]), np.array([-1.0, 0.0, 1.0, 10.0]), np.array([0.0, 1.0, 10.0, 1e6])
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
    assert [bin_scale(edges) for edges in (EVEN, UNEVEN, FAR_APART, np.arange(0, 1, 0.1))] == ["counts", "densities", "places", "counts"]


def test_bars_of_bins_of_one_width_are_counts(figures):
    bin_plot(EVEN, COUNTS, None, title="even", label="x")
    for figure in figures:
        left, width, height = bars(figure)
        assert left == pytest.approx(EVEN[:-1])
        assert width == pytest.approx(np.diff(EVEN))
        assert height == pytest.approx(COUNTS)
        assert figure.axes[0].get_ylabel() == "rows"
    assert [figure.get_figwidth() for figure in figures] == [WIDTH, NARROW_WIDTH]


def test_areas_of_bins_of_several_widths_are_counts(figures):
    intervals = np.stack([COUNTS - 1, COUNTS + 1], axis=1)
    bin_plot(UNEVEN, COUNTS, intervals, title="uneven", label="x")
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
    bin_plot(edges, counts, None, title="many", label="x")
    (stairs,) = [patch for patch in figures[0].axes[0].patches if hasattr(patch, "get_data")]
    assert stairs.get_data().values == pytest.approx(np.full(101, 7.0))


def test_bins_too_far_apart_have_one_width(figures):
    bin_plot(FAR_APART, COUNTS, None, title="far", label="x")
    left, width, height = bars(figures[0])
    assert (left.tolist(), width.tolist()) == ([0, 1, 2], [1, 1, 1])
    assert height == pytest.approx(COUNTS)
    assert [text.get_text() for text in figures[0].axes[0].get_xticklabels()] == ["0", "1", "10", "1,000,000"]


def test_neighbouring_bins_share_a_step_by_their_widths(monkeypatch, figures):
    monkeypatch.setattr(release_plots, "MOST_STEPS", 31)
    edges = np.cumsum(np.append(0.0, np.tile([1.0, 3.0], 31)))
    bin_plot(edges, np.tile([2.0, 6.0], 31), None, title="steps", label="x")
    (stairs,) = [patch for patch in figures[0].axes[0].patches if hasattr(patch, "get_data")]
    assert stairs.get_data().values == pytest.approx(np.full(31, 2.0))


def test_bars_of_categories_are_the_numbers_and_dots_mark_other_bars(figures):
    intervals = np.stack([COUNTS - 1, COUNTS + 1], axis=1)
    frequency_plot(["a", "b", "c"], COUNTS, intervals, title="one", label="rows", percent=False)
    frequency_plot(["a", "b", "c"], COUNTS, intervals, np.abs(COUNTS), title="two", label="rows", percent=False)
    widths = [[patch.get_width() for patch in figure.axes[0].patches] for figure in figures]
    assert widths == [[5, -2, 18]] * 2 + [[5, 2, 18]] * 2
    dots = [[line for line in figure.axes[0].lines if line.get_marker() == "o"] for figure in figures]
    assert [len(lines) for lines in dots] == [0, 0, 1, 1]
    assert dots[2][0].get_xdata().tolist() == COUNTS.tolist()


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


def test_a_plot_without_a_narrow_drawing_is_one_that_scrolls():
    drawn = picture(lambda figure: figure.subplots(), 1.0, "alone")
    assert re.findall(r'<svg class="([^"]*)"', drawn) == ["plot alone"]


def test_titles_are_escaped():
    drawn = picture(lambda figure: figure.subplots(), 1.0, 'a "b" <c> & \u202e\x00d')
    (label,) = re.findall(r'aria-label="([^"]*)"', drawn)
    assert html.unescape(label) == 'a "b" <c> & \\u202e\\x00d'
