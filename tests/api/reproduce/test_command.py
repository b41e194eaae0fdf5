"""`dpcore reproduce`: its sections, its files, what a seed means, and that adding a study is adding a file."""

from __future__ import annotations

import html
import importlib.util
import json
import re
from pathlib import Path

import pytest

import dpcore
from dpcore import cli
from dpcore._extras import install
from dpcore.errors import ParameterError, ParameterTypeError
from dpcore.reproduce import Check, Figure, Panel, Section, Series, Setting, Slope, known_studies, registry, run
from dpcore.reproduce.items import known_items
from dpcore.reproduce.mathematics import mathematics
from dpcore.reproduce.sources import SOURCES, place_and_claim

pytest.importorskip("matplotlib")
pytest.importorskip("clarabel")

ROOT = Path(__file__).resolve().parents[3]
SECTIONS = {name: list(study.titles) for name, study in known_studies().items()}
"""Every figure, table and theorem that `dpcore reproduce all` reproduces; the documentation has the same list."""
CHECKS, IDENTITIES = 151, 45
"""Checks of a quick run, and those that must hold exactly or up to rounding: at least so many."""
PLACE = re.compile(
    r"[A-Z][\w &]+ \(\w+( \d)?\), {0}( and {0})?(, [\w -]+)?: [^:]+".format(
        r"(Claim|Definition|Exercise|Figure|Lemma|Section|Theorem|Abbildung|Abschnitt|Aufgabe|Beispiel|Bemerkung|Korollar|Satz) "
        r"(A\.)?\d+(\.\d+)*( [AB])?"
    )
)


def plain(markup: str) -> str:
    return html.unescape(re.sub(r"<[^>]*>", "", markup))


@pytest.fixture(scope="module")
def quick_run(tmp_path_factory):
    """One quick run of everything: exit code, standard output, and the two files."""
    folder = tmp_path_factory.mktemp("reports")
    capture = pytest.MonkeyPatch()
    printed: dict[str, list[str]] = {"out": [], "err": []}
    import click

    capture.setattr(click, "echo", lambda message="", *, err=False, **_: printed["err" if err else "out"].append(str(message)))
    code = cli.run(["reproduce", "all", "--quick", "--report", str(folder)])
    capture.undo()
    return code, printed, folder


@pytest.mark.long
def test_every_section_is_there(quick_run):
    code, printed, _ = quick_run
    assert code == 0
    document = json.loads("".join(printed["out"]))
    found = {study["name"]: [section["title"] for section in study["sections"]] for study in document["studies"]}
    assert found == SECTIONS


def test_sections_are_titled_with_document_and_number():
    assert [title for titles in SECTIONS.values() for title in titles if not PLACE.fullmatch(title)] == []


@pytest.mark.source_tree
def test_the_documentation_lists_every_section():
    text = (ROOT / "docs" / "reproduce.md").read_text(encoding="utf-8")
    found: dict[str, list[str]] = {}
    for study, title in re.findall(r"^\| (?:`([\w-]+)` )?\| ([A-Z].*) \|$", text, re.MULTILINE):
        found.setdefault(study or next(reversed(found)), []).append(title)
    assert found == SECTIONS
    needing = {study.name for study in known_studies().values() if study.extra}
    sentence = re.search(r"the studies (.*) need the extra `minimax`", text)
    assert sentence
    assert set(re.findall(r"`([\w-]+)`", sentence[1])) == needing | {"all"}


@pytest.mark.long
def test_sections_say_what_the_document_says_and_have_figures(quick_run):
    document = json.loads("".join(quick_run[1]["out"]))
    for study in document["studies"]:
        for section in study["sections"]:
            assert len(section["statement"]) > 50 < len(section["setup"])
            assert section["figures"]
            for figure in section["figures"]:
                assert any("theory" in series["role"] for panel in figure["panels"] for series in panel["series"])
            for panel in (panel for figure in section["figures"] for panel in figure["panels"]):
                assert "measured" in {series["role"] for series in panel["series"]}
                assert all(len(series["x"]) == len(series["y"]) >= 2 for series in panel["series"])
                assert all(series["stderr"] is None for series in panel["series"] if "theory" in series["role"])
                assert all(len(series["stderr"]) == len(series["y"]) for series in panel["series"] if series["stderr"] is not None)
            assert all(len(row) == len(table["header"]) for table in section["tables"] for row in table["rows"])


@pytest.mark.long
def test_identities_and_findings_hold(quick_run):
    document = json.loads("".join(quick_run[1]["out"]))
    checks = [check for study in document["studies"] for section in study["sections"] for check in section["checks"]]
    assert len(checks) >= CHECKS
    assert [check["claim"] for check in checks if not check["holds"]] == []
    assert sum(check["kind"] == "identity" for check in checks) >= IDENTITIES
    assert {check["kind"] for check in checks} == {"identity", "finding"}
    # what has a standard error in its limit is measured
    assert not [
        check["claim"] for check in checks if check["kind"] == "identity" and "standard error" in check["limit"] + check["measured"]
    ]


@pytest.mark.long
def test_what_a_key_made_says_so(quick_run):
    _, printed, _ = quick_run
    document = json.loads("".join(printed["out"]))
    assert (document["secure"], document["seed"], document["quick"]) == (False, 0, True)
    assert (document["format"], document["version"]) == (2, dpcore.__version__)
    assert document["command"] == "dpcore reproduce all --seed 0 --quick"
    assert printed["err"][0].startswith("warning: SIMULATED: data and noise come from the seed")
    assert not [line for line in printed["err"][1:] if "warning" in line]


@pytest.mark.long
def test_progress_counts_the_sections(quick_run):
    lines = quick_run[1]["err"][1:-1]
    titles = [title for titles in SECTIONS.values() for title in titles]
    assert len(lines) == len(titles)
    for number, (line, title) in enumerate(zip(lines, titles, strict=True), 1):
        assert re.fullmatch(rf" *{number} of {len(titles)} +\d+\.\d s  {re.escape(title)}", line)


@pytest.mark.long
def test_the_report_is_one_page_and_the_json_of_standard_output(quick_run):
    _, printed, folder = quick_run
    assert sorted(path.name for path in folder.iterdir()) == ["reproduced.html", "reproduced.json"]
    assert (folder / "reproduced.json").read_text(encoding="utf-8") == "".join(printed["out"]) + "\n"
    page = (folder / "reproduced.html").read_text(encoding="utf-8")
    titles = [title for titles in SECTIONS.values() for title in titles]
    places = re.findall(r'id="section-\d+">\n<h3 class="place">(.*?)</h3>\n<p class="claim">(.*?)</p>', page)
    assert [(html.unescape(place), plain(claim)) for place, claim in places] == [
        (place, plain(mathematics(claim))) for place, claim in map(place_and_claim, titles)
    ]
    document = json.loads("".join(printed["out"]))
    sections = [section for study in document["studies"] for section in study["sections"]]
    assert page.count("<svg") / 2 == sum(len(section["figures"]) for section in sections) > len(titles)
    assert page.count("<table>") == sum(len(section["tables"]) for section in sections)
    kinds = [len({check["kind"] for check in section["checks"]}) + bool(section["slopes"]) for section in sections]
    assert page.count('<table class="stack">') == len(SOURCES) + sum(kinds) + len(known_items())
    assert len(
        re.findall(r'<tr><td class="name">(?:<a href="#section-\d+">)?[^<]+(?:</a>)?</td>\n<td data-label="what it says">', page)
    ) == sum(map(len, known_items().values()))
    for source in SOURCES.values():
        assert f"<cite><bdi>{html.escape(source.title)}</bdi></cite>" in page.replace("&#39;", "&#x27;")
        assert source.authors in page
    assert "<dd><code>dpcore reproduce all --seed 0 --quick</code></dd>" in page
    assert f"<dd>dpcore {dpcore.__version__}, stream version" in page
    assert "<h4>Identities</h4>" in page
    assert "<h4>Findings</h4>" in page
    # formulas are set: no caret, no index with an underscore is left in the words
    words = re.sub(r"<svg.*?</svg>|<style>.*?</style>", "", page, flags=re.DOTALL)
    assert re.findall(r".{20}[\^√]\(.{10}|.{20}\^.{10}|\b[A-Za-zα-ω]_\w|\d[eE][-−+]?\d", words) == []
    drawn = re.findall(r"<text[^>]*>.*?</text>", page)
    assert [text for text in drawn if re.search(r"\^|\b[A-Za-zα-ω]_\w|>.*\d[eE][-−+]\d", text)] == []
    assert [text for text in re.findall(r"<text[^>]*>(.*?)</text>", page) if "nan" in text.split()] == []
    assert "SIMULATED" in page
    assert re.findall(r'(?:src|href)="(?!#)[^"]*"|https?://', page) == ['href="reproduced.json"']
    assert "mathdefault" not in page


def test_one_study_has_its_own_name(tmp_path, capsys, made_up):
    assert cli.run(["reproduce", "made-up", "--report", str(tmp_path / "new" / "folder"), "--seed", "3"]) == 0
    assert sorted(path.name for path in (tmp_path / "new" / "folder").iterdir()) == ["made-up.html", "made-up.json"]
    out, err = capsys.readouterr()
    assert "warning: 1 findings do not hold" in err
    assert "warning: 1 identities do not hold, which is a bug in dpcore" in err
    assert "1 of 1 " in err
    document = json.loads(out)
    assert [study["name"] for study in document["studies"]] == ["made-up"]
    assert document["studies"][0]["sections"][0]["setup"] == "seed 3"
    page = (tmp_path / "new" / "folder" / "made-up.html").read_text(encoding="utf-8")
    assert page.count('<td class="broken" data-label="result"><span>does not hold</span></td>') == 2
    assert page.count('<td class="holds" data-label="result"><span>holds</span></td>') == 1
    assert "−1.98" in page


@pytest.mark.parametrize("arguments", [["no-such"], [], ["overfitting", "--seed", "-1"], ["overfitting", "--seed", str(2**64)]])
def test_a_wrong_command_exits_2(arguments, capsys):
    assert cli.run(["reproduce", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err


def test_an_unknown_name_is_answered_with_the_known_ones(capsys):
    assert cli.run(["reproduce", "figure9"]) == 2
    known = ", ".join([*known_studies(), "all"])
    assert f"must be one of {known}, got 'figure9'" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["minimax", "all"])
def test_a_missing_extra_is_named_before_anything_is_measured(name, monkeypatch, capsys):
    known = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda package: None if package == "clarabel" else known(package))
    assert cli.run(["reproduce", name]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err == f"dpcore: the study minimax needs the extra `minimax`: {install('minimax')}\n"
    assert [study.name for study in registry.chosen_studies(["blackwell"])] == ["blackwell"]


def test_a_folder_that_cannot_be_made_costs_nothing(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert cli.run(["reproduce", "all", "--report", str(tmp_path / "file" / "folder")]) == 4
    assert "cannot make the folder" in capsys.readouterr().err


def test_help_names_the_studies(capsys):
    assert cli.run(["reproduce", "--help"]) == 0
    text = capsys.readouterr().out
    listed = re.findall(r"^ {6}([a-z0-9-]+) {2,}(\S.*)$", text.partition("Options:")[0], re.MULTILINE)
    assert listed == [(study.name, study.summary) for study in known_studies().values()]


# The registry


MADE_UP = """
from dpcore.reproduce import Check, Figure, Panel, Section, Series, Slope, Study

TITLE = "Wasserman & Zhou (2010), Figure 1: made up"
CHECKS = Check("p", "1", "0", False), Check("q", "1", "1", True), Check("r", "1", "0", False, "identity")

def sections(setting):
    series = Series("measured", (1.0, 10.0), (2.0, 0.2), (0.1, 0.01)), Series("theory", (1.0, 10.0), (1.0, 0.1), None, "theory")
    figure = Figure("A figure.", (Panel("n", "error", series),))
    slope = Slope("part", "n", -1.98, 0.01, -2.0)
    yield Section(TITLE, "statement", f"seed {setting.seed}", (figure,), (slope,), CHECKS)

STUDY = Study("made-up", "Made up.", (TITLE,), sections)
"""


@pytest.fixture
def made_up(tmp_path, monkeypatch):
    """A study in a file of its own, that nothing else names."""
    folder = tmp_path / "studies"
    folder.mkdir()
    (folder / "made_up_for_a_test.py").write_text(MADE_UP, encoding="utf-8")
    (folder / "no_study.py").write_text("", encoding="utf-8")
    monkeypatch.setattr(registry._package, "__path__", [*registry._package.__path__, str(folder)])


def test_adding_a_study_is_adding_a_file(made_up):
    # in the order of the titles
    names = list(known_studies())
    assert names[names.index("made-up") - 1 :] == ["figure1", "made-up", "rates", "information"]
    findings = run(["made-up"], Setting())
    assert not findings.hold
    assert (findings.broken("identity"), findings.broken("finding")) == (1, 1)
    assert findings.command == "dpcore reproduce made-up --seed 0"
    titles = [section.title for sections in findings.studies.values() for section in sections]
    assert titles == ["Wasserman & Zhou (2010), Figure 1: made up"]


def test_progress_is_called_after_each_section(made_up):
    seen = []
    run(["made-up"], Setting(), progress=lambda done, total: seen.append((done, total)))
    assert seen == [(1, 1)]
    with pytest.raises(ParameterTypeError, match="progress must be a function"):
        run([], Setting(), progress=3)


def test_a_name_that_is_no_study_is_refused():
    with pytest.raises(ParameterError, match="name must be one of"):
        run(["overfitting", "maximin"], Setting())


# Seeds


@pytest.mark.parametrize("seed", [-1, 2**64])
def test_a_seed_out_of_range_is_refused(seed):
    with pytest.raises(ParameterError, match="seed must be in"):
        Setting(seed)


def test_a_seed_that_is_no_integer_is_refused():
    with pytest.raises(ParameterTypeError, match="seed must be an integer"):
        Setting(1.0)


def test_streams_are_told_apart_by_seed_and_by_names():
    streams = [setting.stream(*names) for setting in (Setting(0), Setting(1)) for names in (("a",), ("a", 1), ("a", 2), ("a1",), ("b",))]
    assert len({bytes(stream.position().key) for stream in streams}) == len(streams)
    assert Setting(5).stream("a").position() == Setting(5).stream("a").position()


def test_the_same_seed_gives_the_same_document(monkeypatch):
    from dpcore.reproduce.studies import privacy_cost

    def document(seed):
        return privacy_cost._bounded(Setting(seed, quick=True)).document()

    first = document(4)
    monkeypatch.setenv("DPCORE_NUM_THREADS", "1")
    assert document(4) == first
    assert document(5) != first


def test_a_section_becomes_plain_json():
    section = Section("t", "s", "u", (Figure("c", (Panel("x", "y", (Series("n", (1.0,), (2.0,)),)),)),), (Slope("p", "n", 1.0, 0.1, 1.0),))
    document = section.document()
    assert json.loads(json.dumps(document)) == document
    assert document["figures"][0]["panels"][0]["series"][0]["x"] == [1.0]
    assert Check("p", "1", "2", True).holds
