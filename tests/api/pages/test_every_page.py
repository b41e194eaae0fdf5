"""What holds for every page, whatever it looks like: sound HTML that needs no other file, readable by everybody, with every number."""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import re

import pytest

pytest.importorskip("jinja2")
pytest.importorskip("matplotlib")

import pyarrow as pa

from dpcore import cli
from dpcore.pages.page import Pages
from dpcore.query.plots import DARKEST_NUMBERED
from support.html_pages import Page, numbers
from support.jobs import people, write_table
from support.releases import MADE_UP, QUERIES, clinic, release_text

SECRET = "48151623"
PRIVATIZE = """
version = 1
keep = ["state"]
[input]
path = "people.parquet"
[output]
path = "out/private.parquet"
[privacy]
max_epsilon = 10.0
max_delta = 1e-6
[[column]]
name = "visits"
mechanism = "discrete_gaussian"
epsilon = 1.0
delta = 1e-6
lower = -5
upper = 20
missing = 0
[[column]]
name = "income"
mechanism = "bounded_mean"
epsilon = 1.0
lower = 0
upper = 15_000
missing = 0.0
[[column]]
name = "very_long_name_of_a_column_with_a_code"
mechanism = "kary"
epsilon = 2.5
categories = ["state 1", "state 3", "<b>bold</b>"]
unknown = "state 1"
[[column]]
name = "yes"
mechanism = "binary"
epsilon = 1.0
"""
NAMES = ("private", "private-estimate", "numbers", "table")


def dpcore(*arguments):
    assert cli.run([str(argument) for argument in arguments]) == 0


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A page of each kind with its JSON file, from tables in which a secret word is no declared value."""
    place = tmp_path_factory.mktemp("pages")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        table = people(2000)
        codes = [SECRET if i % 7 == 0 else f"state {i % 5}" for i in range(2000)]
        table = table.append_column("very_long_name_of_a_column_with_a_code", pa.array(codes))
        write_table(table.append_column("yes", pa.array([i % 3 == 0 for i in range(2000)])), place / "people.parquet")
        (place / "privatize.toml").write_text(PRIVATIZE, encoding="utf-8")
        dpcore("privatize", "privatize.toml", "--report", "report")
        dpcore("estimate", "out/private.parquet", "--report", "report")
        clinical = clinic(2000)
        regions = [SECRET if i % 9 == 0 else value for i, value in enumerate(clinical.column("region").to_pylist())]
        write_table(clinical.set_column(clinical.schema.get_field_index("region"), "region", pa.array(regions)), place / "clinic.parquet")
        grouped = {
            "kind": "mean",
            "column": "cost",
            "lower": 0,
            "upper": 100,
            "missing": 0,
            "group_by": "region",
            "groups": ["east", "west"],
        }
        fine = {"kind": "histogram", "column": "cost", "edges": {"start": 0, "stop": 120, "step": 1}, "missing": 30.0}
        (place / "numbers.toml").write_text(
            release_text("clinic.parquet", "out/numbers.json", QUERIES | {"by region": grouped, "fine": fine}, key=None), encoding="utf-8"
        )
        dpcore("release", "numbers.toml", "--report", "report")
        synthetic = {"kind": "synthetic", "output": "out/table.csv", "columns": MADE_UP}
        (place / "table.toml").write_text(release_text("clinic.parquet", "out/table.json", {"made up": synthetic}), encoding="utf-8")
        dpcore("release", "table.toml", "--report", "report")
    return place / "report"


@pytest.fixture(scope="module", params=NAMES)
def page(folder, request):
    return Page((folder / f"{request.param}.html").read_text(encoding="utf-8"))


def test_the_parser_refuses_what_is_not_sound():
    for wrong in ("<p><b></p></b>", "<p>", "</p>", '<p id="a" id="b"></p>'):
        with pytest.raises(ValueError, match=r"close|repeats"):
            Page(wrong)


@pytest.mark.long
def test_the_document_says_what_it_is(page, folder):
    (document,) = page.named("html")
    assert document.attributes["lang"] == "en"
    (title,) = page.named("title")
    assert title.words
    assert [element.attributes["charset"] for element in page.named("meta") if "charset" in element.attributes] == ["utf-8"]
    assert any(element.attributes.get("name") == "viewport" for element in page.named("meta"))
    assert {path.name for path in folder.iterdir()} == {f"{name}.{ending}" for name in NAMES for ending in ("html", "json")}


def test_headings_are_in_order(page):
    levels = [int(element.name[1]) for element in page.named("h1", "h2", "h3", "h4", "h5", "h6")]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
    assert all(element.words for element in page.named("h1", "h2", "h3"))


def test_nothing_is_fetched_and_nothing_runs_but_the_script_that_sorts(page, folder):
    assert page.named("link", "iframe", "object", "embed", "img", "base", "form") == []
    (policy,) = [element.attributes["content"] for element in page.named("meta") if "http-equiv" in element.attributes]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    scripts = ["".join(element.text) for element in page.named("script")]
    digests = [f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'" for script in scripts]
    # What a name on the page could smuggle in does not run: the policy lets one script run, by its digest.
    assert rules.pop("script-src", None) == (digests[0] if digests else None)
    assert rules == {"default-src": "'none'", "style-src": "'unsafe-inline'", "base-uri": "'none'", "form-action": "'none'"}
    assert len(scripts) == bool(page.named("table") and "Private release" in page.shown)
    assert not any(element.attributes for element in page.named("script"))
    assert not any(re.search(r"fetch|XMLHttp|import|eval|innerHTML|document\.write|location", script) for script in scripts)
    for element in page.elements:
        assert not any(name.startswith("on") for name in element.attributes), element
        for name, value in element.attributes.items():
            if name in {"href", "src", "action", "data", "poster"}:
                assert value.startswith("#") or (folder / value).is_file(), element
            elif value is not None and "url(" in value:
                assert "url(#" in value
    for style in page.named("style"):
        assert not re.search(r"@import|url\(|expression", style.words)


def test_names_of_parts_are_unique_and_links_lead_somewhere(page):
    names = [element.attributes["id"] for element in page.elements if "id" in element.attributes]
    assert len(names) == len(set(names))
    referred = {value[1:] for element in page.elements for key, value in element.attributes.items() if key == "href" and value[0] == "#"}
    used = {
        name for element in page.elements for value in element.attributes.values() for name in re.findall(r"url\(#(\w+)\)", value or "")
    }
    assert referred | used <= set(names)


def test_pictures_have_a_text_and_tables_have_headings(page):
    drawings = [element for element in page.named("svg") if "svg" not in element.around]
    for element in drawings:
        assert element.attributes["role"] == "img"
        assert len(element.attributes["aria-label"]) > 10
    # One drawing for wide screens and one for narrow ones.
    assert [one.attributes["aria-label"] for one in drawings[::2]] == [one.attributes["aria-label"] for one in drawings[1::2]]
    assert [one.attributes["class"].split()[-1] for one in drawings] == ["wide", "narrow"] * (len(drawings) // 2)
    for table in page.named("table"):
        assert "scope" not in table.attributes
    assert all(element.attributes.get("scope") == "col" for element in page.named("th"))
    assert len(page.named("thead")) == len(page.named("table"))


def test_nothing_of_the_data_is_on_a_page(page, folder):
    assert SECRET not in page.shown
    assert all(SECRET not in path.read_text(encoding="utf-8") for path in folder.iterdir())


def test_where_it_comes_from(page, folder):
    shown = page.shown
    for name in ("Input", "Made", "Program", "Noise"):
        assert name in [element.words for element in page.named("dt")]
    assert re.search(r"Made ?\d{4}-\d\d-\d\d \d\d:\d\d UTC", shown)
    assert ("out/private.parquet" in shown) or ("clinic.parquet" in shown)
    assert "dpcore " in shown
    for time in page.named("time"):
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", time.attributes["datetime"])
        assert time.attributes["datetime"][:16].replace("T", " ") + " UTC" == time.words
    document = json.loads((folder / f"{page_name(page)}.json").read_text(encoding="utf-8"))
    assert ("from the operating system's random numbers" in shown) == document["secure"]
    assert ("NOT PRIVATE" in shown) == (not document["secure"])


def page_name(page):
    """The name of the JSON file that a page links to."""
    (link,) = [element for element in page.named("a") if element.attributes["href"].endswith(".json")]
    return link.attributes["href"].removesuffix(".json")


def test_what_a_reader_must_know_is_said(page):
    shown = page.shown
    assert re.search(r"at most [\de^.,]+ times as likely", shown)
    assert "The guarantee protects one row; a person with k rows is protected at k·ε" in shown
    if "interval" in shown and "made up" not in shown:
        assert re.search(r"(one in twenty|one in 1,000,000) of the [\d.]+ % intervals does not contain the true value", shown)
    if "made up" not in shown:
        assert re.search(r"How many values .{0,60}(is not (known|released|reported))", shown)


WRITTEN = {"value", "interval", "counts", "consistent", "stderr", "epsilon", "delta", "max_epsilon", "standard_deviation", "rows", "files"}
WRITTEN |= {"lower", "upper", "edges", "rank_error"}
NOISY = {"value", "interval", "counts", "consistent"}
"""Written with as many digits as their standard errors call for: 3.7 is 4 where that is 20."""


def leaves(document, key=None):
    """The numbers of a document that a page shows: those under certain keys; of lists of standard errors it shows the intervals."""
    if isinstance(document, dict):
        for name, value in document.items():
            if name != "stderr" or not isinstance(value, list):
                yield from leaves(value, name if name in WRITTEN else None)
    elif isinstance(document, list):
        for value in document:
            yield from leaves(value, key)
    elif key is not None and isinstance(document, int | float) and not isinstance(document, bool):
        yield key, document


@pytest.mark.parametrize("name", ["private", "private-estimate", "numbers"])
def test_every_number_of_the_json_file_is_on_the_page(folder, name):
    page = Page((folder / f"{name}.html").read_text(encoding="utf-8"))
    document = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    shown = numbers(page.shown)
    missing = [(key, value) for key, value in leaves(document) if not any(n.rounds(up(key, value), is_noisy=key in NOISY) for n in shown)]
    assert missing == []
    assert len(list(leaves(document))) > 15


def up(key, value):
    """Ranks are shown as the next whole number."""
    return -(-value // 1) if key == "rank_error" else value


def test_a_number_that_is_not_there_is_missed():
    shown = numbers("5, −1,234.50 and 12.3 %, 1e-06")
    for value, found in ((5, True), (5.2, False), (-1234.504, True), (-1234.51, False), (0.1234, True), (0.125, False), (1.2e-6, True)):
        assert any(number.rounds(value) for number in shown) == found, value
    assert any(number.rounds(5.2, is_noisy=True) for number in shown)
    assert not any(number.rounds(5.6, is_noisy=True) for number in shown)


# Colours


def luminance(colour):
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return sum(weight * value for weight, value in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one, other):
    bright, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


def blended(colour, ground, opacity):
    mixed = [round(opacity * int(colour[i : i + 2], 16) + (1 - opacity) * int(ground[i : i + 2], 16)) for i in (1, 3, 5)]
    return "#" + "".join(f"{value:02x}" for value in mixed)


def test_text_can_be_read_in_light_in_dark_and_on_paper(page):
    style = " ".join(element.words for element in page.named("style"))
    blocks = [dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", block)) for block in re.findall(r":root \{(.*?)\}", style)]
    assert len(blocks) == 3
    for colours in blocks:
        for text, ground in itertools.product(("ink", "muted", "accent"), ("page", "card")):
            assert contrast(colours[text], colours[ground]) >= 4.5, (text, ground, colours)
        assert contrast(colours["alarm"], colours["alarm-soft"]) >= 4.5
        # Numbers on the strongest cell of a map.
        assert contrast(colours["ink"], blended(colours["accent"], colours["card"], DARKEST_NUMBERED)) >= 4.5
    assert (blocks[2]["page"], blocks[2]["card"]) == ("#ffffff", "#ffffff")
    assert contrast("#000000", "#ffffff") == pytest.approx(21)


def test_a_page_says_what_it_holds(tmp_path):
    class Empty(Pages):
        template = "release"

    with pytest.raises(TypeError, match="content"):
        Empty(tmp_path / "report", "name")  # type: ignore[abstract]
    assert not (tmp_path / "report").exists()
