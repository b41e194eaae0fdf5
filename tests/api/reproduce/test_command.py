"""`dpcore reproduce`: its sections, its files, what a seed means, and that adding a study is adding a file."""

from __future__ import annotations

import html
import importlib.util
import json
import re

import pytest

import dpcore
from dpcore import cli
from dpcore.errors import ParameterError, ParameterTypeError
from dpcore.reproduce import Check, Figure, Panel, Section, Series, Setting, Slope, known_studies, registry, run
from dpcore.reproduce.items import known_items
from dpcore.reproduce.mathematics import mathematics
from dpcore.reproduce.sources import SOURCES, place_and_claim

pytest.importorskip("matplotlib")
pytest.importorskip("clarabel")

SECTIONS = {
    "blackwell": [
        "Mechanisms as experiments (2014), Theorem 1: an experiment is more informative exactly if the other one is a garbling of it",
        "Mechanisms as experiments (2014), Theorem 2: a mechanism is private exactly if no test is better than its profile allows",
        "Mechanisms as experiments (2014), Theorem 2, audited: what tests find in outputs stays below what is claimed",
        "Mechanisms as experiments (2014), Theorem 3: testing regions lie inside the region of the guarantee",
        "Mechanisms as experiments (2014), Theorem 4: equal testing regions do not make experiments equal",
        "Mechanisms as experiments (2014), Theorem 2, distributions: a mechanism is private for drawn data exactly if no test is better",
        "Mechanisms as experiments (2014), Theorem 3, distributions: testing regions of drawn data lie inside that of the guarantee",
        "Mechanisms as experiments (2014), Lemma 1: under distributions of data bases the order is kept, and may be made up",
        "Mechanisms as experiments (2014), Theorem 5: testing regions of distributions give no information about the mechanism",
    ],
    "exercises": [
        "Private inference (chapter 9), Exercise 2: the functional mechanism perturbs the coefficients of an objective",
        "Private inference (chapter 9), Exercise 5: private linear regression on simulated and on real data",
        "Private inference (chapter 9), Exercise 6: accuracy of a mean against what it tells about its records",
    ],
    "lemmas": [
        "Private inference (chapter 9), Lemma A.6: what peeling leaves out is hardly larger than what it takes",
        "Private inference (chapter 9), Lemma A.7: how large Laplace noise is",
        "Private inference (chapter 9), Lemma A.8: the distance of product distributions and that of their means",
    ],
    "lower-bounds": [
        "Private inference (chapter 9), Theorem 9.2.1: no private mean has a smaller risk than d²ln(1/δ)/(n²ε²)",
        "Private inference (chapter 9), Lemma A.3: an accurate mean betrays its records",
        "Private inference (chapter 9), Theorem 9.2.3: no private sparse mean has a risk that does not depend on d",
        "Private inference (chapter 9), Lemma A.4: scores of records in the data, and of others",
        "Private inference (chapter 9), Lemma A.5: privacy bounds the scores of records in the data",
    ],
    "privacy-cost": [
        "Private inference (chapter 9), Theorem 9.2.2, bounded values: risk of a private mean",
        "Private inference (chapter 9), Theorem 9.2.2, sub-Gaussian values: risk of a private mean",
        "Private inference (chapter 9), Theorem 9.2.4: risk of a private sparse mean",
    ],
    "tests": [
        "Private inference (chapter 9), Theorem 9.3.1: a private test of the mean of normal records",
        "Private inference (chapter 9), Theorem 9.3.2: the test by Lipschitz extension, on data that can be enumerated",
        "Private inference (chapter 9), Theorem 9.3.4, power: how often the private test of uniformity rejects",
        "Private inference (chapter 9), Theorem 9.3.4, sample size: how many records the private test of uniformity needs",
    ],
    "sample-sizes": [
        "Private inference (chapter 9), Theorem 9.3.2, order: the records that the test by Lipschitz extension needs",
        "Private inference (chapter 9), Theorem 9.3.3: no private test needs fewer records",
    ],
    "minimax": [
        "Steinberger (2019), Abbildung 3.1: the intervals of a binary search of tests",
        "Steinberger (2019), Abbildung 3.2: the course of a binary search of tests",
        "Steinberger (2019), Beispiel 3.6 A: the mean of bounded numbers",
        "Steinberger (2019), Beispiel 3.6 B: the mean of numbers with heavy tails",
        "Steinberger (2019), Beispiel 3.7: the end of a uniform distribution",
        "Steinberger (2019), Beispiel 3.8, density: a smooth density at a point",
        "Steinberger (2019), Beispiel 3.8, derivative: the derivative of a smooth density at a point",
        "Steinberger (2019), Satz 3.13: the best bit of a record",
        "Steinberger (2019), Lemma 3.16: how often a binary search errs by how much",
    ],
    "minimax-channels": [
        "Steinberger (2019), Satz 1.12: private channels have densities that obey the bound at every report",
        "Steinberger (2019), Aufgabe 1.3: normal noise is private for no standard deviation",
        "Steinberger (2019), Aufgabe 3.1: several functionals under one privacy budget",
    ],
    "minimax-bounds": [
        "Steinberger (2019), Satz 2.2: without privacy the risk has the order of the Hellinger modulus",
        "Steinberger (2019), Satz 3.1: no estimator behind a given channel is better than its hardest test",
        "Steinberger (2019), Lemma 3.2: members that are close in any metric cannot be distinguished",
        "Steinberger (2019), Satz 3.10: some estimator behind a given channel attains the order of its modulus",
        "Steinberger (2019), Lemma 3.17: testing affinities of n reports are at most powers of one affinity",
        "Steinberger (2019), Satz 3.13, scope: one bit loses to three outcomes from e^ε = √3 on",
        "Steinberger (2019), Korollar 3.14, scope: from which sample size on the theorem is better than a guess",
        "Steinberger (2019), Aufgabe 3.5, part 3: a modulus that jumps at 0",
    ],
    "minimax-tests": [
        "Steinberger (2019), Satz 2.5: affinities of hulls of products multiply",
        "Steinberger (2019), Satz 2.6: supremum and infimum may be exchanged",
        "Steinberger (2019), Korollar 2.7: the best test of two models errs as often as that of their hardest members",
        "Steinberger (2019), Aufgabe 2.1: some test attains the smallest sum of errors",
        "Steinberger (2019), Aufgabe 2.7: what each report adds to a divergence",
        "Steinberger (2019), Aufgabe 2.8: products are n times as far apart as their factors, at most and sometimes",
    ],
    "privacy-loss": [
        "Stemmer (lecture 6), Claim 3: it is enough that large privacy losses are rare",
        "Stemmer (lecture 6), Claim 4: the mean privacy loss of a private answer is at most 2ε²",
        "Stemmer (lecture 6), Claim 4, two Laplace densities: k answers tell about as much as one with √k times the ε",
    ],
    "overfitting": [
        "Stemmer (lecture 6), Claim 6: private answers stay near the sample's averages",
        "Stemmer (lecture 6), Claim 8: NoisyArgmax finds a query that is nearly the best",
        "Stemmer (lecture 6), Theorem 9: private answers stay near the population's averages",
        "Stemmer (lecture 6), Theorem 10: a query chosen by private answers does not overfit",
    ],
    "generalization": [
        "Stemmer (lecture 6), Theorem 9, corollary: √k/α² records answer k adaptive queries with accuracy α",
        "Stemmer (lecture 6), Theorem 10, power: which mechanisms break the bound 10ε, and why its constant may be 1",
        "Stemmer (lecture 6), Theorem 11: a privately made query is near its population average",
    ],
    "figure1": [
        "Wasserman & Zhou (2010), Figure 1: error of original and of perturbed histograms of Beta(10, 10)",
        "Wasserman & Zhou (2010), Figure 1, bimodal: error of original and of perturbed histograms of a mixture",
    ],
    "information": [
        "Wasserman & Zhou (2010), Theorem 2.4: power and Bayes factor of a test of one record",
        "Wasserman & Zhou (2010), Definition 3.1: consistent and informative releases in three distances",
        "Wasserman & Zhou (2010), Theorem 4.2, plane: KS distance of smoothed histograms of two coordinates",
        "Wasserman & Zhou (2010), Theorem 4.4, KS in the plane: KS distance of perturbed histograms of two coordinates",
        "Wasserman & Zhou (2010), Definition 5.2: small balls in L2, and the accuracy that follows",
        "Wasserman & Zhou (2010), Section 5.2: the mean by the exponential mechanism",
        "Wasserman & Zhou (2010), Lemma 9.3: the covariance of the coefficients is bounded",
    ],
    "rates": [
        "Wasserman & Zhou (2010), Section 1.1, first table: rates of histograms and of the exponential mechanism",
        "Wasserman & Zhou (2010), Section 1.1, second table: rates of orthogonal series",
        "Wasserman & Zhou (2010), Theorem 3.2: no private release is consistent at a point mass",
        "Wasserman & Zhou (2010), Theorem 4.2: KS distance of smoothed histograms",
        "Wasserman & Zhou (2010), Theorem 4.3: squared L2 distance of smoothed histograms",
        "Wasserman & Zhou (2010), Theorem 4.4, L2: squared L2 distance of perturbed histograms",
        "Wasserman & Zhou (2010), Theorem 4.4, KS: KS distance of perturbed histograms",
        "Wasserman & Zhou (2010), Theorem 5.4: KS distance of the exponential mechanism",
        "Wasserman & Zhou (2010), Theorem 6.2: squared L2 distance of the exponential mechanism",
        "Wasserman & Zhou (2010), Theorem 6.3: squared L2 distance of orthogonal series",
    ],
}
"""Every figure, table and theorem that `dpcore reproduce all` reproduces."""
CHECKS, IDENTITIES = 151, 45
"""Checks of a quick run, and those that must hold exactly or up to rounding: at least so many."""
PLACE = re.compile(
    r"[A-Z][\w &]+ \(\w+( \d)?\), "
    r"(Claim|Corollary|Definition|Exercise|Figure|Lemma|Section|Theorem|Abbildung|Aufgabe|Beispiel|Korollar|Satz) "
    r"(A\.)?\d+(\.\d+)*( [AB])?(, [\w -]+)?: [^:]+"
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
def test_every_section_is_there_and_titled_with_document_and_number(quick_run):
    code, printed, _ = quick_run
    assert code == 0
    document = json.loads("".join(printed["out"]))
    found = {study["name"]: [section["title"] for section in study["sections"]] for study in document["studies"]}
    assert found == SECTIONS == {name: list(study.titles) for name, study in known_studies().items()}
    assert all(PLACE.fullmatch(title) for titles in found.values() for title in titles)


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
    assert re.findall(r".{20}[\^√]\(.{10}|.{20}\^.{10}|\b[A-Za-zα-ω]_\w", words) == []
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
    assert err == "dpcore: the study minimax needs the extra `minimax`: pip install 'dpcore[minimax]'\n"
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
