"""The documents tell the truth: their examples run, their commands exist, their links lead somewhere, every module has its page."""

from __future__ import annotations

import doctest
import importlib.util
import pkgutil
import re
import runpy
import shlex
import sys
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

import pytest

import dpcore

pytestmark = pytest.mark.source_tree

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")])
BEHIND_FACES = {"dpcore.jobs", "dpcore.query", "dpcore.tables"}
"""What `dpcore.batch`, `dpcore.frames` and `dpcore.spark` are made of: their names are not public."""
MODULES = {"dpcore." + info.name for info in pkgutil.iter_modules(dpcore.__path__) if not info.name.startswith("_")} - BEHIND_FACES

_spec = importlib.util.spec_from_file_location("pictures", ROOT / "docs" / "pictures.py")
pictures = importlib.util.module_from_spec(_spec)
sys.modules["pictures"] = pictures  # where its dataclass looks for its annotations
_spec.loader.exec_module(pictures)

identify = pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())


def blocks(document: Path, language: str) -> list[tuple[int, str]]:
    """First line number and text of every fenced block in a language."""
    text = document.read_text(encoding="utf-8")
    found = re.finditer(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [(text.count("\n", 0, match.start(1)), match[1]) for match in found]


@pytest.mark.some(11)
@identify
def test_examples_run(document, monkeypatch):
    monkeypatch.chdir(ROOT)
    parser = doctest.DocTestParser()
    runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    names: dict[str, object] = {}
    with pictures.own_settings():
        for line, text in blocks(document, "pycon"):
            example = parser.get_doctest(text, names, document.name, str(document), line)
            runner.run(example, clear_globs=False)
            # What one block defines, the next one on the page may use.
            names = example.globs
    assert runner.summarize(verbose=False).failed == 0


@pytest.mark.some(2)
@identify
def test_python_blocks_are_programs_that_run(document, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    programs = pictures.run(document)
    for program, printed in programs:
        assert program.shown is None or pictures.prints(program.shown, printed), f"line {program.line}: {printed}"
    text = document.read_text(encoding="utf-8")
    if not programs:
        return  # its pictures are drawn by another page
    shown = set(re.findall(r"\]\(images/([^)]+)\)", text))
    embedded = re.findall(r'(?:src|href)="(gallery/[^"]+)"', text)
    assert [name for name in embedded if not (tmp_path / name).is_file()] == []
    drawn = pictures.drawn(tmp_path)
    elsewhere = ("floors", "meeting-bounds")  # which test_architecture.py and test_meeting_bounds.py compare
    assert set(drawn) == {name for name in shown if not name.startswith(elsewhere)}
    # What `python docs/pictures.py` would write.
    assert [name for name, svg in drawn.items() if not pictures.alike(svg, (document.parent / "images" / name).read_text())] == []


def test_words_of_one_run_are_compared_and_its_numbers_are_not():
    assert pictures.prints("one run:\nvisits 1,203 to 1,310\n", "visits 987 to -3.5\n")
    assert not pictures.prints("one run:\nvisits 1,203 to 1,310\n", "visits 1,203\n")
    assert not pictures.prints("one run:\nvisits 1,203\n", "patients 1,203\n")
    assert not pictures.prints("visits 1,203\n", "visits 1,204\n")


def test_pictures_that_differ_are_not_alike():
    first, *others = (path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs" / "images").glob("*.svg")))
    assert pictures.alike(first, re.sub(r'id="[^"]*"', 'id="a"', first.replace(".5", ".6")))
    assert not pictures.alike(first, first.replace("\nL ", "\nM ", 1))
    assert not pictures.alike(first, re.sub(r"\nL (\d+)\.", lambda found: f"\nL {int(found[1]) + 2}.", first, count=1))
    assert not any(pictures.alike(first, other) for other in others)
    older = pictures.VERSION.sub("Matplotlib v3.8", first)
    assert pictures.alike(first, older.replace("\nL ", "\nM ", 1))
    assert not pictures.alike(first, re.sub(r"([a-z])</text>", r"\1s</text>", older))


def test_every_picture_is_shown():
    shown = {name for document in DOCUMENTS for name in re.findall(r"\]\((?:docs/)?images/([^)]+)\)", document.read_text(encoding="utf-8"))}
    assert {path.name for path in (ROOT / "docs" / "images").iterdir()} == shown


@identify
def test_make_targets_exist(document):
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    text = document.read_text(encoding="utf-8")
    used = set(re.findall(r"`make ([a-z0-9-]+)", text))
    for language in ("console", "sh"):
        used |= {name for _, block in blocks(document, language) for name in re.findall(r"^(?:\$ )?make ([a-z0-9-]+)", block, re.MULTILINE)}
    assert used <= targets


def links(document: Path) -> list[str]:
    """Links of a page into the repository, outside of its code."""
    text = re.sub(r"^```.*?^```$", "", document.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return [link for link in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in link and not link.startswith("mailto:")]


@identify
def test_links_lead_to_files(document):
    targets = [link.partition("#")[0] for link in links(document)]
    assert [target for target in targets if target and not (document.parent / target).exists()] == []


def anchors(text: str) -> set[str]:
    """The anchors that GitHub gives to the headings of a page, and those that the page names itself."""
    text = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    found = set(re.findall(r'<a id="([^"]+)">', text))
    times: dict[str, int] = {}
    for heading in re.findall(r"^#{1,6} +(.*?) *#*$", text, re.MULTILINE):
        shown = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").replace("*", "")
        slug = re.sub(r"[^\w\- ]", "", shown.lower()).replace(" ", "-")
        found.add(slug if slug not in times else f"{slug}-{times[slug]}")
        times[slug] = times.get(slug, 0) + 1
    return found


@identify
def test_links_lead_to_headings_on_github_too(document):
    wrong = []
    for link in links(document):
        target, _, anchor = link.partition("#")
        page = document.parent / target if target else document
        if anchor and page.suffix == ".md" and urllib.parse.unquote(anchor) not in anchors(page.read_text(encoding="utf-8")):
            wrong.append(link)
    assert wrong == []


def test_anchors_are_those_of_github():
    headings = "# What epsilon (ε) means\n## `dpcore plan JOB`\n## A [link](x.md), twice\n## A link, twice\n"
    text = headings + '```\n# no heading\n```\n<a id="old"></a>\n'
    assert anchors(text) == {"what-epsilon-ε-means", "dpcore-plan-job", "a-link-twice", "a-link-twice-1", "old"}
    assert "what-means" not in anchors("## What ε means\n")


@pytest.mark.parametrize("module", sorted(MODULES))
def test_every_module_has_a_page(module):
    pages = (ROOT / "docs" / "reference").glob("*.md")
    assert any(re.search(rf"automodule:: {re.escape(module)}$", page.read_text(encoding="utf-8"), re.MULTILINE) for page in pages)


def test_every_name_of_releases_is_on_their_page():
    text = (ROOT / "docs" / "reference" / "distributions.md").read_text(encoding="utf-8")
    members = re.search(r"automodule:: dpcore.distributions\n   :members: (.*)", text)[1].split(", ")
    assert sorted([*members, *re.findall(r"auto(?:class|function):: dpcore\.distributions\.(\w+)", text)]) == sorted(
        dpcore.distributions.__all__
    )


@pytest.mark.parametrize(
    "page",
    [
        "start-here",
        "tutorial",
        "tutorial-local",
        "tutorial-release",
        "tutorial-tables",
        "tutorial-people",
        "how-to",
        "threat-model",
        "memory",
        "speed",
        "stability",
        "platforms",
        "exactness",
        "exactness-local",
        "exactness-selection",
        "exactness-partitions",
        "mechanisms",
        "selection",
        "accounting",
        "local",
        "inference",
        "distributions",
        "mechanisms-as-experiments",
        "minimax",
        "heavy-tailed-mean",
        "private-regression",
        "exactness-minimax",
        "exactness-density",
        "exactness-ks",
        "exactness-tests",
        "exactness-adaptive",
        "exactness-lower-bounds",
        "auditing",
        "batch",
        "tables",
        "reproduce",
        "literature",
        "choose-epsilon",
        "check-accuracy",
        "glossary",
        "gallery",
        "managers",
        "faq",
        "publication",
        "from-suppression",
        "migrate/index",
        "proofs",
        "report",
    ],
)
def test_pages_of_the_contract_exist_and_are_listed(page):
    assert (ROOT / "docs" / f"{page}.md").is_file()
    assert page in set(listed("index"))


def listed(page: str) -> Iterator[str]:
    """The pages that the trees below a page list, each with those below it."""
    path = ROOT / "docs" / f"{page}.md"
    for tree in re.findall(r"^```\{toctree\}\n(.*?)^```$", path.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
        names = re.findall(r"^(?!:)(\S+)$", tree, re.MULTILINE)
        if ":glob:" in tree:
            names = sorted(each.stem for each in path.parent.glob("*.md") if each != path)
        for name in names:
            child = (path.parent / name).relative_to(ROOT / "docs").as_posix()
            yield child
            yield from listed(child)


def test_every_page_is_listed_once():
    pages = {page.relative_to(ROOT / "docs").with_suffix("").as_posix() for page in (ROOT / "docs").rglob("*.md")}
    assert sorted(listed("index")) == sorted(pages - {"index"})


def test_index_has_five_parts():
    captions = re.findall(r"^:caption: (.*)$", (ROOT / "docs" / "index.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert captions == ["Start here", "Decide and report", "How-to", "Reference", "Explanation"]


def test_readme_is_one_screen():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 80


def speed_tables():
    """The program that writes the tables."""
    return runpy.run_path(str(ROOT / "docs" / "speed_tables.py"))


@pytest.mark.parametrize("page", ["docs/speed.md", "docs/report.md", "README.md"])
def test_tables_of_speed_agree_with_the_stored_run(page):
    pytest.importorskip("jinja2")
    program = speed_tables()
    text = (ROOT / page).read_text(encoding="utf-8")
    assert program["BLOCK"].findall(text)
    assert program["rewritten"](text, program["stored"]()) == text, "make speed-table writes the tables anew"


def test_every_table_of_speed_is_on_a_page():
    program = speed_tables()
    shown = [found["name"] for path in program["PAGES"] for found in program["BLOCK"].finditer(path.read_text(encoding="utf-8"))]
    assert sorted(set(shown)) == sorted(program["TABLES"])


def test_a_table_that_was_changed_by_hand_is_found():
    program = speed_tables()
    results = program["stored"]()
    text = "<!-- speed: machine -->\nfaster than light\n<!-- end of machine -->\n"
    assert program["rewritten"](text, results) != text


def test_targets_are_mentioned_on_the_speed_page_only():
    pages = [path for path in [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"] if path.name not in {"speed.md", "literature.md"}]
    words = re.compile(r"\b(?:targets? of the project|performance (?:goal|target)s?|speed (?:goal|target)s?)\b", re.IGNORECASE)
    assert [path.name for path in pages if words.search(path.read_text(encoding="utf-8"))] == []


def test_job_file_of_the_readme_is_the_example_and_runs(monkeypatch, tmp_path):
    pytest.importorskip("pyarrow")
    from dpcore.cli import run

    ((_, shown),) = blocks(ROOT / "README.md", "toml")
    assert shown == (ROOT / "examples" / "health.toml").read_text(encoding="utf-8")
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    assert run(["release", "examples/health.toml", "--dry-run"]) == 0
    assert run(["release", "examples/health.toml", "--report", "out"]) == 0
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["health.html", "health.json"]


def test_what_pages_show_of_a_plan_is_what_the_command_prints(monkeypatch, capsys):
    pytest.importorskip("click")
    from dpcore.cli import run

    monkeypatch.chdir(ROOT)
    printing = re.compile(r"^\$ dpcore (plan examples/[^#\n]*).*\n(?:```\n\n```text\n((?:.*\n)*?)```$)?", re.MULTILINE)
    shown = [found.groups("") for document in DOCUMENTS for found in printing.finditer(document.read_text(encoding="utf-8"))]
    assert any(output for _, output in shown)
    for arguments, output in shown:
        assert run([*shlex.split(arguments), "--table"]) == 0
        printed = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
        for line in output.splitlines():
            assert line.rstrip() in printed


def test_readme_names_commands_that_exist():
    pytest.importorskip("click")
    from dpcore import cli

    text = "".join(block for _, block in blocks(ROOT / "README.md", "console"))
    named = set(re.findall(r"^\$ dpcore ([a-z-]+)", text, re.MULTILINE))
    assert named
    assert named <= set(cli.command_group().commands)
