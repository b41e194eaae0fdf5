"""`dpcore estimate`: what it prints, which files it takes together, and the page it writes."""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpcore
from dpcore import local
from dpcore._extras import install
from dpcore.batch import JobError, estimate
from dpcore.jobs.estimate import report_name
from dpcore.pages.numbers import json_text, misses, plain_number, readable
from dpcore.pages.plots import percentage, shortened, shown_range
from dpcore.testing import KeyedRandom
from support.jobs import FORMATS, KEY, Workplace, read_table, write_table

COLUMNS = {
    "visits": {"mechanism": "bounded_mean", "epsilon": 1.0, "lower": 0, "upper": 30, "missing": 0},
    "cost": {"mechanism": "gaussian", "epsilon": 1.0, "delta": 1e-6, "lower": 0.0, "upper": 90.0},
    "smoker": {"mechanism": "binary", "epsilon": 1.0},
    "region": {"mechanism": "kary", "epsilon": 2.0, "categories": ["north", "east", "south"], "unknown": "north"},
    "ward": {"mechanism": "hadamard", "epsilon": 2.0, "k": 100},
    "grade": {"mechanism": "binary_channel", "epsilon": 2.0, "categories": ["a", "b"], "phi": [4.0, -1.0]},
}
BUDGET = {"max_epsilon": 100.0, "max_delta": 1e-5}
NOT_PRIVATE = "NOT PRIVATE: the noise comes from the key in [testing]"


def answers(rows):
    index = np.arange(rows)
    return pa.table(
        {
            "visits": index % 40,
            "cost": index % 97 / 1.0,
            "smoker": index % 3 == 0,
            "region": pa.array(["north", "east", "south", "elsewhere"]).take(pa.array(index % 4)),
            "ward": index % 100,
            "grade": pa.array(["a", "b"]).take(pa.array(index % 2)),
            "state": pa.array(["kept"] * rows),
        }
    )


@pytest.fixture
def place(tmp_path, capsys):
    place = Workplace(tmp_path, capsys)
    write_table(answers(3000), place.source)
    return place


def privatized(place, **job):
    place.write_job(COLUMNS, privacy=BUDGET, **job)
    done = place.privatize("--overwrite")
    assert done.code == 0, done.err
    return place


def document(place, *arguments):
    done = place.estimate(*arguments)
    assert done.code == 0, done.err
    return json.loads(done.out)


def test_the_document(place):
    found = document(privatized(place, keep=["state"]))
    assert list(found) == ["format", "version", "path", "files", "privacy", "secure", "rows", "target", "columns"]
    assert (found["format"], found["version"], found["files"], found["rows"]) == (1, dpcore.__version__, 1, 3000)
    assert found["privacy"] == {"epsilon": 9.0, "delta": 1e-6, "unit": "row"}
    assert (found["path"], found["secure"], found["target"]) == (str(place.target), False, "population")
    columns = {column["name"]: column for column in found["columns"]}
    assert list(columns) == list(COLUMNS)
    kinds = dict.fromkeys(("visits", "cost", "grade"), "mean") | {"smoker": "proportion"} | dict.fromkeys(("region", "ward"), "frequencies")
    assert {name: column["kind"] for name, column in columns.items()} == kinds
    for name, column in columns.items():
        assert (column["n"], column["confidence"], column["epsilon"]) == (3000, 0.95, COLUMNS[name]["epsilon"])
        assert column["mechanism"] == COLUMNS[name]["mechanism"]
    assert columns["visits"]["categories"] is None
    assert (columns["visits"]["lower"], columns["visits"]["upper"], columns["visits"]["missing"]) == (0.0, 30.0, 0.0)
    assert (columns["smoker"]["of"], columns["smoker"]["categories"]) == (True, [False, True])
    assert columns["region"]["categories"] == ["north", "east", "south"]
    assert columns["ward"]["categories"] == list(range(100))
    assert columns["grade"]["phi"] == [4.0, -1.0]
    assert np.shape(columns["ward"]["interval"]) == (100, 2)
    assert min(columns["ward"]["value"]) < 0
    assert min(columns["ward"]["consistent"]) == 0
    assert sum(columns["ward"]["consistent"]) == pytest.approx(1)


@pytest.mark.parametrize("target", ["population", "sample"])
@pytest.mark.parametrize("confidence", [0.5, 0.999])
def test_estimates_are_those_of_the_mechanisms(place, confidence, target):
    found = document(privatized(place), "--confidence", confidence, "--target", target)
    table = answers(3000)
    inputs = {
        "visits": (local.BoundedMean(1.0, 0, 30), table["visits"].to_numpy()),
        "cost": (local.LocalGaussian(1.0, 1e-6, 0.0, 90.0), table["cost"].to_numpy()),
        "smoker": (local.BinaryResponse(1.0), table["smoker"].to_numpy()),
        "region": (local.KaryResponse(2.0, k=3, unknown=0), np.arange(3000) % 4),
        "ward": (local.HadamardResponse(2.0, k=100), table["ward"].to_numpy()),
        "grade": (local.BinaryChannel(2.0, (4.0, -1.0)), np.arange(3000) % 2),
    }
    for position, column in enumerate(found["columns"]):
        mechanism, values = inputs[column["name"]]
        reports = mechanism.privatize(values, rng=KeyedRandom(KEY).at(nonce=position))
        expected = mechanism.estimate(reports, target=target)
        for key in ("value", "stderr"):
            assert np.array_equal(column[key], getattr(expected, key)), (column["name"], key)
        assert np.array_equal(column["interval"], expected.interval(confidence)), column["name"]


def test_one_column_twice_asked_for(place):
    found = document(privatized(place), "--column", "ward", "--column", "visits", "--column", "ward")
    assert [column["name"] for column in found["columns"]] == ["ward", "visits"]


@pytest.mark.parametrize("ending", FORMATS)
def test_files_are_taken_together(place, ending):
    place.target = place.folder / f"whole.{ending}"
    whole = document(privatized(place))
    table = answers(3000)
    for name, start, stop in (("a", 0, 1000), ("b", 1000, 1000), ("sub/c", 1000, 2500), ("d", 2500, 3000)):
        place.source = write_table(table.slice(start, stop - start), place.folder / "part.parquet")
        place.target = place.folder / f"parts/{name}.{ending}"
        privatized(place)
    place.target = place.folder / "parts"
    (place.target / "_SUCCESS").touch()
    found = document(place)
    assert (found["files"], found["rows"]) == (4, 3000)
    # Under one key rows 0 … 999 are the same in both.
    place.target = place.folder / f"parts/[ab].{ending}"
    some = document(place)
    assert (some["files"], some["rows"]) == (2, 1000)
    parts = [estimate(place.folder / f"parts/{name}.{ending}") for name in ("a", "sub/c", "d")]
    for position, column in enumerate(found["columns"]):
        weighted = sum(np.asarray(part.columns[position].estimate.value) * part.rows for part in parts) / 3000
        assert np.allclose(column["value"], weighted, rtol=1e-12, atol=1e-12)
        assert np.shape(column["value"]) == np.shape(whole["columns"][position]["value"])


@pytest.mark.parametrize("threads", [1, 3])
def test_threads_do_not_matter(place, threads):
    privatized(place)
    assert document(place, "--threads", threads) == document(place)


@pytest.mark.long
def test_keyed_reports_are_marked(place):
    done = privatized(place).estimate("--report", place.folder / "report")
    assert NOT_PRIVATE in done.err
    assert json.loads(done.out)["secure"] is False
    assert NOT_PRIVATE in (place.folder / "report/private-estimate.html").read_text(encoding="utf-8")
    done = privatized(place, key=None).estimate("--report", place.folder / "report")
    assert "warning" not in done.err
    assert json.loads(done.out)["secure"] is True
    assert "NOT PRIVATE" not in (place.folder / "report/private-estimate.html").read_text(encoding="utf-8")


def test_one_keyed_file_among_others_is_enough(place):
    for name, key in (("a", None), ("b", KEY)):
        place.target = place.folder / f"parts/{name}.parquet"
        privatized(place, key=key)
    place.target = place.folder / "parts"
    assert document(place)["secure"] is False


def test_other_programs_may_change_types_but_not_what_they_mean(place):
    privatized(place)
    table = read_table(place.target)
    region = table.schema.get_field_index("region")
    for kind in (pa.large_string(), pa.dictionary(pa.int32(), pa.string())):
        changed = table.set_column(region, table.schema.field("region").with_type(kind), table["region"].cast(kind))
        pq.write_table(changed, place.folder / "changed.parquet", row_group_size=700)
        assert json_text(estimate(place.folder / "changed.parquet").document()["columns"]) == json_text(
            estimate(place.target).document()["columns"]
        )


def test_help_teaches(place):
    text = place.dpcore("estimate", "--help").out
    words = ("PATH", "--report", "interval", "one in twenty 95 % intervals", "spends nothing", "Exit codes", "frequencies", "dpcore.json")
    for word in words:
        assert word in text, word
    assert "estimate" in place.dpcore("--help").out


def test_several_files_are_named_by_a_glob(place):
    done = place.dpcore("estimate", "a.csv", "b.csv", "c.csv")
    assert done.code == 2
    assert "PATH is one file, folder or glob, got 3; for several files write a glob in quotes: 'out/*.csv'" in " ".join(done.err.split())


def test_privatize_names_the_next_step(place):
    assert f"dpcore estimate {place.target}" in (place.write_job(COLUMNS, privacy=BUDGET) or place.privatize("--table")).out


# The table on a terminal


def test_a_terminal_gets_a_table(place, monkeypatch):
    privatized(place)
    lines = place.estimate("--table", "--confidence", 0.9).out
    assert re.search(r"^visits +mean +\d+\.\d+ +\d+\.\d+ to \d+\.\d+$", lines, re.MULTILINE)
    assert re.search(r"^smoker +share of true +\d+\.\d %", lines, re.MULTILINE)
    assert re.search(r"^region +(north|east|south) +\d+\.\d+ %", lines, re.MULTILINE)
    assert "90 % interval" in lines
    assert "… 92 more" in lines
    assert "3,000 rows; of these intervals about one in ten misses." in lines
    assert json.loads(place.estimate().out)["rows"] == 3000
    monkeypatch.setattr("dpcore._terminal.on_terminal", lambda: True)
    assert "share of true" in place.estimate().out
    assert json.loads(place.estimate("--json").out)["rows"] == 3000


# The page


@pytest.mark.long
def test_the_page(place):
    folder = place.folder / "deep/report"
    privatized(place)
    for _ in range(2):
        done = place.estimate("--report", folder)
        assert done.code == 0, done.err
        assert sorted(path.name for path in folder.iterdir()) == ["private-estimate.html", "private-estimate.json"]
    assert json.loads((folder / "private-estimate.json").read_text(encoding="utf-8")) == json.loads(done.out)
    page = (folder / "private-estimate.html").read_text(encoding="utf-8")
    for words in (
        "The guarantee protects one row; a person with k rows is protected at k·ε",
        "one in twenty",
        "95 % interval",
        "the population that the rows come from",
        "most frequent of 3 categories: ",
        "60 are not; the JSON file beside this page has all",
        "Values below 0 count as 0, values above 30 as 30; missing values count as 0.",
        "Unknown values count as “north”.",
        "3,000 rows in 1 file, 6 columns",
        "prefers-color-scheme: dark",
        "@media print",
    ):
        assert words in " ".join(page.split()), words
    # Each plot is drawn for wide and for narrow screens.
    assert page.count("<svg") == page.count("</svg>") == 2 * 6
    assert page.count('class="card') >= 8
    # One file that needs nothing else, not even a name of a place on the network.
    assert not re.search(r"https?:|//|src=|@import|url\((?!#)|<script|<link", page)
    assert all(f'href="#column-{number}"' in page and f'id="column-{number}"' in page for number in range(1, 7))
    assert len(re.findall(r"<tr><td", page)) == 6 + 3 + 40


@pytest.mark.long
def test_every_colour_of_a_plot_is_a_variable_of_the_page(place):
    privatized(place)
    place.estimate("--report", place.folder)
    page = (place.folder / "private-estimate.html").read_text(encoding="utf-8")
    defined = set(re.findall(r"(--[a-z-]+):", page))
    assert set(re.findall(r"var\((--[a-z-]+)\)", page)) <= defined
    for svg in re.findall(r"<svg.*?</svg>", page, re.DOTALL):
        assert not re.search(r"#[0-9a-f]{6}\b", re.sub(r"url\(#\w+\)|href=\"#\w+\"|id=\"\w+\"", "", svg))
        assert "DejaVu" not in svg


@pytest.mark.long
def test_the_same_estimates_make_the_same_page_but_for_its_date(place, monkeypatch):
    privatized(place)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    pages = []
    for name in ("a", "b"):
        place.estimate("--report", place.folder / name)
        pages.append((place.folder / name / "private-estimate.html").read_bytes())
    assert pages[0] == pages[1]
    assert b"2023-11-14 22:13 UTC" in pages[0]


STRANGE = [
    "<script>alert(1)</script>",
    "$\\frac{1}{2}$",
    "日本語 \U0001f600",
    "new\nline\x00",
    "a" * 200,
    "{{ 7 * 7 }}",
    "&amp; \"quoted\" 'x'",
    " ",
]


def test_strange_names_and_categories(place):
    name = "<b>[red]$x_1$</b> {{ 1 }}"
    write_table(pa.table({name: [*STRANGE, *STRANGE[:3]] * 100}), place.source)
    place.write_job({name: {"mechanism": "kary", "epsilon": 3.0, "categories": STRANGE}}, privacy=BUDGET)
    assert place.privatize().code == 0
    done = place.estimate("--report", place.folder)
    assert done.code == 0, done.err
    assert json.loads(done.out)["columns"][0]["categories"] == STRANGE
    page = (place.folder / "private-estimate.html").read_text(encoding="utf-8")
    assert "<script" not in page
    assert "<b>[red]" not in page
    assert "{{ 7 * 7 }}" in page
    assert "日本語" in page
    plot = page[page.index("<svg") : page.index("</svg>")]
    assert "\x00" not in plot
    assert "a" * 29 + "…" in plot
    assert name in place.estimate("--table").out


def test_a_page_for_one_row_and_one_column(place):
    write_table(answers(1), place.source)
    done = privatized(place, key=None).estimate("--report", place.folder, "--column", "grade", "--target", "sample", "--confidence", 0.9)
    assert done.code == 0, done.err
    page = (place.folder / "private-estimate.html").read_text(encoding="utf-8")
    assert "1 column, 90 % intervals for these rows" in " ".join(page.split())
    assert "one in ten" in page


def test_names_of_reports(tmp_path, monkeypatch):
    assert report_name("out/private.parquet") == "private-estimate"
    assert report_name("out/part-*.parquet") == "part-estimate"
    assert report_name("out/**/*.csv") == "reports-estimate"
    (tmp_path / "year 2024.d").mkdir()
    assert report_name(str(tmp_path / "year 2024.d")) == "year2024.d-estimate"
    monkeypatch.chdir(tmp_path / "year 2024.d")
    assert report_name(".") == "year2024.d-estimate"


@pytest.mark.parametrize("absent", ["jinja2", "matplotlib"])
def test_a_page_without_the_extra(place, monkeypatch, absent):
    privatized(place)
    for name in [name for name in sys.modules if name == absent or name.startswith((f"{absent}.", "dpcore.pages.plots"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, absent, None)
    monkeypatch.delattr(sys.modules["dpcore.pages"], "plots", raising=False)
    done = place.estimate("--report", place.folder / "report")
    assert (done.code, done.out) == (2, "")
    assert install("report") in done.err
    assert place.estimate().code == 0


# Numbers for people


@pytest.mark.parametrize(
    ("values", "stderr", "percent", "expected"),
    [
        ([1234.5678, -0.04], 0.31, False, ["1,234.57", "−0.04"]),
        ([0.361, -0.000_001], 0.0076, True, ["36.10 %", "0.00 %"]),
        ([5e6], 2e4, False, ["5,000,000"]),
        ([0.5], 0.0, False, ["0.500000"]),
        ([1e-9], 1e-10, False, ["0.00000000100"]),
        ([1.5e-14, -2e-15, 0.0], 1e-15, False, ["1.50e-14", "−0.20e-14", "0.00e-14"]),
        ([3e-200, 2.8e-200], 1e-201, False, ["3.00e-200", "2.80e-200"]),
        ([1.25e140, 9e138], 3e138, False, ["1.250e+140", "0.090e+140"]),
        ([5e-324], 5e-324, False, ["4.9e-324"]),
        ([0.0, 0.0], 0.0, False, ["0.000000", "0.000000"]),
        ([1e15, 2e14], 0.0, False, ["1.000000000000e+15", "0.200000000000e+15"]),
    ],
)
def test_digits_follow_the_standard_error(values, stderr, percent, expected):
    assert readable(values, stderr, percent=percent) == expected


@pytest.mark.parametrize(
    ("confidence", "words"), [(0.95, "one in twenty"), (1 - 0.05, "one in twenty"), (0.997, "one in 333"), (0.5, "one in 2.0")]
)
def test_misses_in_words(confidence, words):
    assert misses(confidence) == words


def test_numbers_of_a_job():
    assert [plain_number(value) for value in (None, True, 3, 1e-6, 2.5, 12_345, "a")] == ["–", "true", "3", "1e-06", "2.5", "12,345", "a"]


def test_json_that_people_can_read():
    value = {"a": {"b": [1.5, None]}, "c": [{"d": "é"}, {}], "e": [], "f": {}}
    assert json.loads(json_text(value)) == value
    assert '"b": [1.5, null]' in json_text(value)
    with pytest.raises(ValueError, match="not JSON compliant"):
        json_text([float("nan")])


@pytest.mark.parametrize(
    ("value", "interval", "limits", "holds"),
    [
        (0.5, (0.4, 0.6), (0.0, 1.0), (0.0, 1.0)),
        (0.5, (0.49, 0.51), (0.0, 1.0), (0.44, 0.56)),
        (9.0, (9.0, 9.0), (0.0, 4.0), (0.0, 9.0)),
        (0.01, (0.0, 0.02), (0.0, 1.0), (0.0, 0.07)),
        (-3.0, (-4.0, -2.0), (0.0, 10.0), (-4.0, 10.0)),
    ],
)
def test_the_axis_shows_what_is_possible_or_a_part_of_it(value, interval, limits, holds):
    start, stop = shown_range(value, interval, limits)
    margin = 0.03 * (holds[1] - holds[0])
    assert (start, stop) == pytest.approx((holds[0] - margin, holds[1] + margin))


def test_labels_and_ticks():
    assert shortened("a\x00b\nc") == "a b c"
    assert len(shortened("x" * 99)) == 30
    assert percentage(0.125, 0.005) == "12.5 %"
    assert percentage(-0.2, 0.1) == "−20 %"


# What the library refuses


def test_parameters_of_the_library(place):
    privatized(place)
    with pytest.raises(dpcore.ParameterError, match="confidence must be in"):
        estimate(place.target, confidence=1.0)
    with pytest.raises(dpcore.ParameterError, match="target must be one of"):
        estimate(place.target, target="people")
    with pytest.raises(JobError, match="Did you mean 'region'"):
        estimate(place.target, columns=["regoin"])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--confidence", "1"], "confidence"),
        (["--confidence", "0"], "confidence"),
        (["--target", "people"], "target"),
        (["--threads", "0"], "threads"),
        (["--column", "regoin"], "there are no reports named 'regoin'. Did you mean 'region'?"),
        (["--column", "state"], "column 'state' was kept as it is"),
    ],
)
def test_usage(place, arguments, words):
    done = privatized(place, keep=["state"]).estimate(*arguments)
    assert (done.code, done.out) == (2, "")
    assert words in done.err


# Versions of the stream


def test_a_table_of_the_first_stream_is_read(tmp_path):
    """Written when `stream_version` was 1: 40 rows, whose means the reader of that time gave."""
    copied = Path(shutil.copy(Path(__file__).parent / "tables" / "stream_1.arrow", tmp_path))
    assert json.loads(pa.ipc.open_file(copied).schema.metadata[b"dpcore"])["stream_version"] == 1
    found = {column["name"]: column for column in estimate(copied).document()["columns"]}
    assert found["visits"]["value"] == pytest.approx(19.868895180911966, rel=1e-12)
    assert found["smoker"]["n"] == found["region"]["n"] == 40
