"""The page of a release: a template that fills the frame of all pages."""

from __future__ import annotations

BODY = """{% extends "frame" %}
{% block title %}{{ name }}: private release{% endblock %}
{% block style %}
{% include "plot style" %}
.asked { margin: .1rem 0 0; }
.spending { display: flex; height: 1rem; margin: .9rem 0 .4rem; background: var(--faint); border: 1px solid var(--line);
  border-radius: .3rem; overflow: hidden; }
.spending i { display: block; height: 100%; }
.spending .earlier { background: var(--soft); }
.spending .job { background: var(--accent); }
.legend .box { width: .8rem; height: .8rem; border: 1px solid var(--line); }
.legend .box.earlier { background: var(--soft); }
.legend .box.job { background: var(--accent); }
.legend .box.left { background: var(--faint); }
.glance td.name { min-width: 6rem; }
@media screen and (max-width: 44rem) { .glance .what { display: none; } }
details { margin: .9rem 0 0; }
summary { color: var(--accent); cursor: pointer; }
tfoot td { border-top: 1px solid var(--ink); border-bottom: 0; font-weight: 650; }
@media print { details:not([open]) { display: none; } }
{% endblock %}
{% macro table_of(rows, query, heading) %}
<div class="wide"><table>
<thead><tr><th>{{ heading }}</th><th class="number">released</th>
{% if query.with_intervals %}<th class="number">{{ query.confidence }} interval</th>{% endif %}</tr></thead>
<tbody>
{% for row in rows %}
<tr><td class="name">{{ row.label }}</td><td class="number">{{ row.value }}</td>
{%- if query.with_intervals %}<td class="number">{{ row.interval or "–" }}</td>{% endif %}</tr>
{% endfor %}
</tbody>
</table></div>
{% endmacro %}
{% block main %}
<p class="eyebrow">Private release</p>
<h1>{{ name }}</h1>
<p class="facts">{{ queries|length }} quer{{ "y" if queries|length == 1 else "ies" }}
{%- if report.rows is defined and report.rows is not none %} about {{ "{:,}".format(report.rows) }} rows{% endif %}
{%- if levels|length == 1 %}, {{ levels[0].percent }} intervals{% endif %}</p>
{% if not report.secure %}<div class="card alarm"><p>{{ alarm }}</p></div>{% endif %}

<section class="card">
<h2>At a glance</h2>
<div class="wide"><table class="glance">
<thead><tr><th>query</th><th class="what">what</th><th class="number">&epsilon;</th><th class="number">&delta;</th>
<th class="number">released</th><th class="number">{{ levels[0].percent if levels|length == 1 else "" }} interval</th></tr></thead>
<tbody>
{% for query in queries %}
<tr><td class="name"><a href="#{{ query.anchor }}">{{ query.name }}</a></td>
<td class="what">{{ query.kind }}{% if query.summary %}: {{ query.summary }}{% endif %}</td>
<td class="number">{{ query.epsilon }}</td><td class="number">{{ query.delta or "0" }}</td>
<td class="number">{{ query.value }}</td><td class="number">{{ query.interval or "–" }}</td></tr>
{% endfor %}
</tbody>
<tfoot><tr><td>total</td><td class="what"></td><td class="number">{{ report.privacy.epsilon|rounded_up }}</td>
<td class="number">{{ report.privacy.delta|rounded_up }}</td><td></td><td></td></tr></tfoot>
</table></div>
</section>

<section class="card statement">
<p>{{ statement }}</p>
<p>{{ factor }}</p>
<p class="small muted">{{ neighbours }} All answers were computed from the table by whoever holds it, and only these
numbers{{ " and tables" if queries|selectattr("form", "equalto", "table")|list }} left it. Running the job again on the same data spends
again.</p>
</section>

{% if ledger %}
<section class="card">
<h2>The ledger after this job</h2>
<p class="how">{% if ledger.path %}<code>{{ ledger.path }}</code>{% endif %}
{%- if ledger.kind == "zcdp" %}; ρ adds up, and so does the δ of releases that may fail{% elif ledger.kind %}; ε and δ add up{% endif %}</p>
<div class="spending" role="img" aria-label="{{ ledger.shares.earlier }} per cent of the budget {% if ledger.shares.job -%}
was spent before this job, {{ ledger.shares.job }} per cent by it{% else %}is spent{% endif %}">
<i class="earlier" style="width: {{ ledger.shares.earlier }}%"></i>
{% if ledger.shares.job %}<i class="job" style="width: {{ ledger.shares.job }}%"></i>{% endif %}
</div>
<p class="legend"><span><i class="box earlier"></i>spent{{ " before" if ledger.shares.job }}</span>
{% if ledger.shares.job %}<span><i class="box job"></i>this job</span>{% endif %}
<span><i class="box left"></i>left</span></p>
<div class="wide"><table>
<thead><tr><th></th><th class="number">budget</th><th class="number">this job</th><th class="number">spent</th>
<th class="number">left</th></tr></thead>
<tbody>
{% for row in ledger.rows %}
<tr><td>{{ row.symbol }}</td><td class="number">{{ row.budget }}</td><td class="number">{{ row.job }}</td>
<td class="number">{{ row.spent }}</td><td class="number">{{ row.remaining }}</td></tr>
{% endfor %}
</tbody>
</table></div>
</section>
{% endif %}

{% if levels %}
<section class="card">
<h2>How to read the intervals</h2>
<p>Noise was added on purpose, and the interval says how much it may have moved the answer.
{% for level in levels %}
{{ "Of" if loop.first else "of" }} {{ level.percent }} intervals about {{ level.misses }} misses the true
value{{ ";" if not loop.last else ":" }}
{% endfor %}
which one, nobody can tell. Who looks at many numbers should ask for a higher confidence.</p>
<p>The true value is that of the rows as the job declared them: clamped, with missing and unknown values replaced
{%- if report.unit != "row" %}, and with at most the declared number of rows for each {{ report.unit }}{% endif %}. The interval
does not say what those declarations cut off.</p>
</section>
{% endif %}

{% for query in queries %}
<section class="card{% if query.rows and query.rows|length > 12 %} long{% endif %}" id="{{ query.anchor }}">
<h2>{{ query.name }}</h2>
<p class="asked">{{ query.asked }}.</p>
<p class="how">&epsilon; = {{ query.epsilon }}{% if query.delta %}, &delta; = {{ query.delta }}{% endif %}. {{ query.declared }}
{%- if query.stderr and query.form in parts %} Standard error of each: {{ query.stderr }}.{% endif %}</p>
{% if query.form == "number" %}
<p class="headline"><span class="value">{{ query.value }}</span>{% if query.interval %}<span class="muted">{{ query.confidence }} interval
{{ query.interval }}{% if query.stderr %}; standard error {{ query.stderr }}{% endif %}</span>{% endif %}</p>
{% if query.plot %}<figure>{{ query.plot|safe }}</figure>{% endif %}
{% if query.part_of %}<p class="muted small">The axis shows only a part of the possible range, {{ query.part_of }}.</p>{% endif %}
{% elif query.form in parts %}
{% if query.plot %}<figure>
<p class="legend">
{% if query.banded %}
<span><i class="bar"></i>{{ query.confidence }} intervals</span><span><i class="dash"></i>released {{ query.counts }}</span>
{% else %}
<span><i class="dot"></i>released</span>
{% if query.with_intervals %}<span><i class="line"></i>{{ query.confidence }} interval</span>{% endif %}
{% endif %}
</p>
{{ query.plot|safe }}
</figure>{% endif %}

{% if query.merged > 1 %}<p class="muted small">Each step of the line is the mean of {{ "{:,}".format(query.merged) }} neighbouring bins,
and the band holds all of their intervals.</p>{% endif %}
{% if query.negative %}<p class="muted small">A count below 0 is the noise of an empty or nearly empty part. It is left as it is, because
sums over many parts would otherwise come out too large.</p>{% endif %}
{% if query.hidden and query.form != "bins" %}<p class="muted small">The {{ query.bars }} largest {{ query.counts }} are drawn,
{{ "{:,}".format(query.hidden) }} are not; the JSON file beside this page has all.
{%- if query.expected_misses %} Among so many, the largest are partly there by chance: about {{ query.expected_misses }} of all
{{ query.confidence }} intervals miss.{% endif %}</p>{% endif %}
{% if query.rows %}{{ table_of(query.rows, query, parts[query.form]) }}{% endif %}
{% if query.all_rows %}<details><summary>All {{ "{:,}".format(query.total) }} {{ query.form }}, in the order of the job</summary>
{{ table_of(query.all_rows, query, parts[query.form]) }}</details>{% endif %}
{% elif query.form == "quantiles" %}
<figure>{{ query.plot|safe }}</figure>
<div class="wide"><table>
<thead><tr><th>quantile</th><th class="number">released</th>
{% if query.with_intervals %}<th class="number">{{ query.confidence }} interval</th>{% endif %}</tr></thead>
<tbody>
{% for row in query.rows %}
<tr><td>{{ row.label }}</td><td class="number">{{ row.value }}</td>
{%- if query.with_intervals %}<td class="number">{{ row.interval or "–" }}</td>{% endif %}</tr>
{% endfor %}
</tbody>
</table></div>
{% if query.ranks %}<p class="muted small">A quantile has no interval on its own scale: how far it is off depends on how close the values
lie there. In ranks each is off by at most {{ query.ranks }}, with a probability of {{ query.confidence }}.</p>{% endif %}
{% elif query.form == "lines" %}
<div class="wide"><table>
<thead><tr><th>group</th>{% for level in query.levels %}<th class="number">{{ level }}</th>{% endfor %}</tr></thead>
<tbody>
{% for line in query.lines %}
<tr><td class="name">{{ line.label }}</td>{% for value in line["values"] %}<td class="number">{{ value }}</td>{% endfor %}</tr>
{% endfor %}
</tbody>
</table></div>
{% if query.ranks %}<p class="muted small">In ranks each is off by at most {{ query.ranks }}, with a probability of
{{ query.confidence }}.</p>{% endif %}

{% elif query.form == "table" %}
<p class="headline"><span class="value">{{ query.value }}</span><span class="muted">in <code>{{ query.path }}</code></span></p>
<p>No row was copied from the data: all were drawn from noisy counts, and drawing costs nothing.</p>
<p class="legend">
<span><i class="dot"></i>noisy count</span><span><i class="line"></i>two standard errors of the noise</span>
<span><i class="bar"></i>what rows are drawn by, scaled to the number of rows in the data</span>
</p>
{% for column in query.columns %}
<h3>{{ column.name }}</h3>
<p class="how">Standard error of each count: {{ column.stderr }}{% if column.inside %}; {{ column.inside }}{% endif %}.
{%- if column.hidden %} {{ "{:,}".format(column.hidden) }} less frequent categories are not drawn.{% endif %}
{%- if column.banded %} The band is that of the noisy counts, the line is what rows are drawn by.{% endif %}</p>
<figure>{{ column.plot|safe }}</figure>
{% endfor %}
{% if query.hidden %}<p class="muted small">{{ query.hidden }} more columns are not drawn; the JSON file beside this page has
them.</p>{% endif %}
{% for map in query.maps %}
<h3>{{ map.name }}</h3>
<figure>{{ map.plot|safe }}</figure>
{% endfor %}
{% if query.hidden_maps %}<p class="muted small">{{ query.hidden_maps }} more pair{{ "s" if query.hidden_maps > 1 }} of columns
{{ "are" if query.hidden_maps > 1 else "is" }} not drawn; the JSON file beside this page has the shares.</p>{% endif %}
<p class="muted small">Noise goes into every cell, the empty ones included, and counts below 0 are cut to 0: where bars stand higher than
their dots, cells have few rows, and the table is more even than the data. Joint columns keep what they have to do with each other, columns
that are drawn independently do not. Statistics of the table are no better than the noisy counts, however many rows it has.</p>

{% elif query.form == "chosen" %}
<div class="wide"><table>
<thead><tr><th class="number">place</th><th>value</th>{% if query.with_counts %}<th class="number">released count</th>
<th class="number">{{ query.confidence }} interval</th>{% endif %}</tr></thead>
<tbody>
{% for row in query.rows %}
<tr><td class="number">{{ row.place }}</td><td class="name">{{ row.label }}</td>
{%- if query.with_counts %}<td class="number">{{ row.value }}</td>
<td class="number">{{ row.interval or "–" }}</td>{% endif %}</tr>
{% endfor %}
</tbody>
</table></div>
<p class="muted small">
{% if query.ordered %}In the order in which they were chosen. Noise decided close calls: values of nearly the same frequency may have
changed places, or one of them may be absent.
{% else %}A set, in no particular order. Noise decided close calls: of values of nearly the same frequency one may be absent.
{% endif %}</p>
{% endif %}
{% if query.noise %}<p class="muted small">{{ query.noise }}</p>{% endif %}
{% if query.note %}<p class="muted small">{{ query.note }}</p>{% endif %}
</section>
{% endfor %}
{% endblock %}
{% block footer %}The JSON file beside this page holds every number in full.{% endblock %}
"""
