"""What the HTML reports of all commands share: the style, the frame, and the pair of files that `--report DIR` asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpcore._files import AtomicFile, remove_stale
from dpcore._signals import Deferred
from dpcore.errors import JobError, StorageError, reason
from dpcore.pages.numbers import json_text, plain_number, rounded_up
from dpcore.pages.printable import printable_lines

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

EXTRA_MISSING = "--report needs the extra `report`: pip install 'dpcore[report]'"


def _shown(value: object) -> object:
    """What a page shows of a value: text without characters that turn its direction. Markup that a template made is no such text."""
    return printable_lines(value) if type(value) is str else value


def report_paths(folder: Path, name: str, output: Path | None = None) -> tuple[Path, ...]:
    """The files of a report, without the one that the output is already."""
    paths = (folder / f"{name}{ending}" for ending in (".json", ".html"))
    return tuple(path for path in paths if output is None or path.resolve() != output.resolve())


class Pages:
    """A JSON file and an HTML page about one output; made before the work starts, so that a wrong folder costs nothing.

    Parameters
    ----------
    folder : Path
        Made if absent.
    name : str
        Of both files, without their endings.
    body : str
        Template of what the page shows; it fills the block `body` of the frame.
    output : Path, optional
        A file that holds the document already, and so is not written again.

    Raises
    ------
    JobError
        If jinja2 is not installed.
    StorageError
        If the folder cannot be written.
    """

    def __init__(self, folder: Path, name: str, body: str, output: Path | None = None) -> None:
        try:
            from jinja2 import DictLoader, Environment
        except ModuleNotFoundError:
            raise JobError(EXTRA_MISSING) from None
        templates = {"frame": FRAME, "plot style": PLOT_STYLE, "body": body}
        environment = Environment(autoescape=True, loader=DictLoader(templates), trim_blocks=True, lstrip_blocks=True, finalize=_shown)
        environment.filters |= {"plain": plain_number, "rounded_up": rounded_up}
        self._template = environment.get_template("body")
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(f"cannot make the folder {folder}{reason(error)}") from None
        self.paths = report_paths(folder, name, output)
        for path in self.paths:
            remove_stale(path)

    def write(self, document: Mapping[str, Any], **shown: Any) -> None:
        """Write both files, replacing those of an earlier run.

        Parameters
        ----------
        document : mapping
            Content of the JSON file; `report` in the template.
        **shown
            What the template needs beyond it.
        """
        page = self._template.render(report=document, **shown)
        contents = {".json": json_text(document) + "\n", ".html": page + "\n"}
        for path in self.paths:
            with Deferred():
                file = AtomicFile(path)
                try:
                    file.write(contents[path.suffix].encode())
                    file.commit()
                finally:
                    file.abort()


FRAME = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{% block title %}{% endblock %}</title>
<style>
:root {
  color-scheme: light dark;
  --font: system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "Liberation Sans", Arial, sans-serif;
  --page: #f5f6f8; --card: #ffffff; --ink: #1a2029; --muted: #5c6675; --line: #dfe3e9; --grid: #e8ebf0;
  --accent: #1f5fb8; --soft: #bcd3f2; --faint: #eaf1fb; --alarm: #a3241c; --alarm-soft: #fdeceb;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #0f1318; --card: #181e26; --ink: #e6eaf0; --muted: #97a3b4; --line: #2b343f; --grid: #242c36;
    --accent: #7fb2f7; --soft: #2c4a73; --faint: #1a2637; --alarm: #ff9c94; --alarm-soft: #3a1d1c;
  }
}
@media print {
  :root {
    color-scheme: light;
    --page: #ffffff; --card: #ffffff; --ink: #000000; --muted: #444444; --line: #bbbbbb; --grid: #dddddd;
    --accent: #1f5fb8; --soft: #bcd3f2; --faint: #f2f6fc; --alarm: #a3241c; --alarm-soft: #fdeceb;
  }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); font: 1rem/1.55 var(--font); }
main { max-width: 58rem; margin: 0 auto; padding: 2.5rem 1.25rem 4rem; }
.eyebrow { margin: 0; color: var(--muted); font-size: .8rem; letter-spacing: .08em; text-transform: uppercase; }
h1 { margin: .15rem 0 .4rem; font-size: 1.9rem; line-height: 1.2; letter-spacing: -.01em; overflow-wrap: anywhere; }
h2 { margin: 0; font-size: 1.25rem; line-height: 1.3; overflow-wrap: anywhere; }
h3 { margin: 1.6rem 0 .4rem; font-size: 1rem; }
p { margin: .5rem 0; }
.facts { margin: 0 0 1.5rem; color: var(--muted); }
.card { margin: 1.1rem 0; padding: 1.4rem 1.6rem; background: var(--card); border: 1px solid var(--line); border-radius: .6rem; }
.statement { border-left: .35rem solid var(--accent); }
.statement > p:first-child { margin-top: 0; font-size: 1.12rem; }
.statement > :last-child { margin-bottom: 0; }
.alarm { border-color: var(--alarm); background: var(--alarm-soft); color: var(--alarm); font-weight: 600; }
.alarm p { margin: 0; }
.muted { color: var(--muted); }
.small { font-size: .9rem; }
ul { margin: .6rem 0 0; padding-left: 1.2rem; }
li { margin: .2rem 0; }
.wide { overflow-x: auto; }
h2 + .wide { margin-top: .6rem; }
table { width: 100%; border-collapse: collapse; font-size: .95rem; }
th, td { padding: .4rem .9rem .4rem 0; border-bottom: 1px solid var(--line); text-align: left; vertical-align: baseline; }
th:last-child, td:last-child { padding-right: 0; }
th { color: var(--muted); font-size: .85rem; font-weight: 600; }
tbody tr:last-child td { border-bottom: 0; }
th.number, td.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
th.number + th:not(.number), td.number + td:not(.number) { padding-left: .9rem; }
td.name { overflow-wrap: anywhere; }
a { color: var(--accent); text-decoration: none; }
a:hover { text-decoration: underline; }
code { font-size: .92em; }
footer { margin-top: 2rem; color: var(--muted); font-size: .85rem; }
@media print {
  main { max-width: none; padding: 0; }
  .card { break-inside: avoid; border-radius: 0; }
  .card.long { break-inside: auto; }
  .wide { overflow: visible; }
  tr, figure { break-inside: avoid; }
  h2, h3 { break-after: avoid; }
}
{% block style %}{% endblock %}
</style>
</head>
<body>
<main>
{% block main %}{% endblock %}
<footer>Made by dpcore {{ report.version }}. {% block footer %}{% endblock %}</footer>
</main>
</body>
</html>
"""

PLOT_STYLE = """.headline { display: flex; flex-wrap: wrap; align-items: baseline; gap: .3rem 1rem; margin: .9rem 0 .2rem; }
.headline .value { font-size: 2.1rem; font-weight: 650; line-height: 1.1; letter-spacing: -.02em; font-variant-numeric: tabular-nums; }
.how { margin: .15rem 0 0; color: var(--muted); font-size: .9rem; }
.plot { display: block; width: 100%; height: auto; margin: .6rem 0 .2rem; }
.plot * { stroke-linejoin: round; stroke-linecap: butt; }
figure { margin: 0; }
.legend { display: flex; flex-wrap: wrap; gap: .2rem 1.4rem; margin: .9rem 0 0; color: var(--muted); font-size: .85rem; }
.legend span { display: inline-flex; align-items: center; gap: .45rem; }
.legend i { display: inline-block; }
.legend .dot { width: .6rem; height: .6rem; border-radius: 50%; background: var(--accent); }
.legend .bar { width: 1.3rem; height: .7rem; background: var(--soft); }
.legend .dash { width: 1.3rem; height: 0; border-top: 2px solid var(--accent); }
.legend .line { width: 1.3rem; height: .6rem; border: solid var(--ink); border-width: 0 1.5px;
  background: linear-gradient(var(--ink), var(--ink)) center/100% 1.5px no-repeat; }
"""
"""What pages with plots include in the block `style`."""
