"""The page of `dpcore experiment --report`: for each section what the source says, what was measured, and how far they agree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpcore.errors import JobError
from dpcore.pages.numbers import readable
from dpcore.pages.page import EXTRA_MISSING, Pages
from dpcore.reproduce.setting import SIMULATED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from dpcore.reproduce.results import Section, Slope
    from dpcore.reproduce.run import Findings


class ReproducedPages:
    """The files that `experiment --report DIR` asks for.

    Parameters
    ----------
    folder : Path
        Made if absent.
    name : str
        Of both files, without their endings.

    Raises
    ------
    JobError
        If matplotlib or jinja2 is not installed.
    StorageError
        If the folder cannot be written.
    """

    def __init__(self, folder: Path, name: str) -> None:
        try:
            from dpcore.reproduce import plots
        except ModuleNotFoundError:
            raise JobError(EXTRA_MISSING) from None
        self._plots = plots
        self._pages = Pages(folder, name, BODY)
        self.paths = self._pages.paths

    def write(self, findings: Findings) -> None:
        """Write both files, replacing those of an earlier run."""
        document = findings.document()
        studies = [
            {"name": study.name, "summary": study.summary, "sections": [self._section(section) for section in sections]}
            for study, sections in findings.studies.items()
        ]
        _number(studies)
        self._pages.write(document, studies=studies, alarm=SIMULATED)

    def _section(self, section: Section) -> dict[str, Any]:
        """What the page shows of one section."""
        place, _, claim = section.title.partition(": ")
        figures = [{"caption": figure.caption, "plot": self._plots.figure_plot(figure)} for figure in section.figures]
        slopes = [slope_row(slope) for slope in section.slopes]
        kept = sum(check.holds for check in section.checks)
        return {
            "title": section.title,
            "place": place,
            "claim": claim,
            "section": section,
            "figures": figures,
            "slopes": slopes,
            "own": any(slope.own is not None for slope in section.slopes),
            "verdict": f"{kept} of {len(section.checks)}" if section.checks else "–",
        }


def slope_row(slope: Slope) -> dict[str, str]:
    """One line of the table of slopes."""
    measured, error = readable([slope.measured, slope.stderr], slope.stderr, percent=False)
    theory, own = (None if value is None else f"{value:.2f}".replace("-", "−") for value in (slope.theory, slope.own))
    return {
        "part": slope.part,
        "variable": slope.variable,
        "measured": measured,
        "stderr": error,
        "theory": theory or "",
        "own": own or "–",
    }


def _number(studies: Sequence[Mapping[str, Any]]) -> None:
    sections = [section for study in studies for section in study["sections"]]
    for number, section in enumerate(sections, 1):
        section["anchor"] = f"section-{number}"


BODY = """{% extends "frame" %}
{% block title %}Experiments of the literature{% endblock %}
{% block style %}
{% include "plot style" %}
figcaption { margin: 0 0 .6rem; color: var(--muted); font-size: .85rem; }
.says { border-left: .2rem solid var(--line); padding-left: .8rem; }
.broken { color: var(--alarm); font-weight: 600; }
{% endblock %}
{% block main %}
<p class="eyebrow">Reproduced from the literature</p>
<h1>{{ studies|map(attribute="name")|join(", ") }}</h1>
<p class="facts">Seed {{ report.seed }}{% if report.quick %}, quick: fewer replicates and smaller grids{% endif %}. The same seed gives the
same numbers on every machine.</p>
<div class="card alarm"><p>{{ alarm }}</p></div>

<section class="card">
<h2>At a glance</h2>
<div class="wide"><table>
<thead><tr><th>place</th><th>claim</th><th class="number">promises kept</th></tr></thead>
<tbody>
{% for study in studies %}{% for section in study.sections %}
<tr><td class="name"><a href="#{{ section.anchor }}">{{ section.place }}</a></td><td>{{ section.claim }}</td>
<td class="number">{{ section.verdict }}</td></tr>
{% endfor %}{% endfor %}
</tbody>
</table></div>
</section>

{% for study in studies %}{% for section in study.sections %}
<section class="card long" id="{{ section.anchor }}">
<h2>{{ section.title }}</h2>
<p class="says">{{ section.section.statement }}</p>
<p class="muted">{{ section.section.setup }}</p>
{% for figure in section.figures %}
<figure>{{ figure.plot|safe }}<figcaption>{{ figure.caption }}</figcaption></figure>
{% endfor %}
{% for table in section.section.tables %}
<div class="wide"><table>
<thead><tr>{% for name in table.header %}<th>{{ name }}</th>{% endfor %}</tr></thead>
<tbody>
{% for row in table.rows %}
<tr>{% for cell in row %}<td>{{ cell }}</td>{% endfor %}</tr>
{% endfor %}
</tbody>
</table></div>
<p class="muted small">{{ table.caption }}</p>
{% endfor %}
{% if section.slopes %}
<h3>Slopes in doubly logarithmic axes</h3>
<div class="wide"><table>
<thead><tr><th>part</th><th>in</th><th class="number">measured</th><th class="number">standard error</th><th class="number">theory</th>
{%- if section.own %}<th class="number">estimator's own</th>{% endif %}</tr></thead>
<tbody>
{% for slope in section.slopes %}
<tr><td class="name">{{ slope.part }}</td><td>{{ slope.variable }}</td><td class="number">{{ slope.measured }}</td>
<td class="number">{{ slope.stderr }}</td><td class="number">{{ slope.theory }}</td>
{%- if section.own %}<td class="number">{{ slope.own }}</td>{% endif %}</tr>
{% endfor %}
</tbody>
</table></div>
{% endif %}
{% if section.section.checks %}
<h3>Promises</h3>
<div class="wide"><table>
<thead><tr><th>promise</th><th>measured</th><th>limit</th><th></th></tr></thead>
<tbody>
{% for check in section.section.checks %}
<tr><td class="name">{{ check.promise }}</td><td>{{ check.measured }}</td><td>{{ check.limit }}</td>
<td{% if not check.holds %} class="broken"{% endif %}>{{ "kept" if check.holds else "not kept" }}</td></tr>
{% endfor %}
</tbody>
</table></div>
{% endif %}
{% if section.section.remark %}<p class="muted small">{{ section.section.remark }}</p>{% endif %}
</section>
{% endfor %}{% endfor %}
{% endblock %}
{% block footer %}The JSON file beside this page holds every number in full.{% endblock %}
"""
