"""Release jobs that cannot run end with exit code 2, say what is wrong, and write nothing; those that can explain themselves."""

from __future__ import annotations

import json
import time
from decimal import Decimal
from fractions import Fraction

import pyarrow as pa
import pytest

from dpcore.accounting import Ledger, rho_pure
from dpcore.errors import JobError
from dpcore.jobs.release_job import load_release_job, parse_release_job
from dpcore.query.fields import even_edges
from dpcore.query.kinds import QUERY_SECTIONS
from dpcore.query.written_plans import make_release_plan
from support.jobs import edit, refused, write_table
from support.releases import QUERIES, Counter, clinic

ALL_VISITS = {"kind": "count", "column": "visits", "lower": 0, "upper": 100}
"""A count of all rows that is not declared to be one: their number alone is public and costs nothing."""
GROUPS = {"group_by": "region", "groups": ["east", "west"]}


@pytest.fixture
def place(tmp_path, capsys):
    place = Counter(tmp_path, capsys)
    write_table(clinic(30), place.source)
    place.write_release()
    return place


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("version = 1", "version = 2", ["version = 2", "must be 1"]),
        ("version = 1", "version = 1\nkeep = []", ["keep: unknown key", "allowed here: version, input, ledger, testing, output, privacy"]),
        ("[input]", "[input]\nformt = 'csv'", ["input.formt: unknown key", "did you mean 'format'"]),
        ("[output]", "[output]\ncompression = 'zstd'", ["output.compression: unknown key; allowed here: path"]),
        ("[output]", "[output]\nrelation = 'replace'", ["output.relation: unknown key", "relation belongs in [privacy]"]),
        ("[privacy]", "[privacy]\nrelation = 'swap'", ["privacy.relation = 'swap'", "must be 'replace' or 'add_remove'"]),
        ("[privacy]", "[privacy]\nunit = 'person'", ["max_rows_per_unit is required with unit = 'person'"]),
        ("[privacy]", "[privacy]\nmax_rows_per_unit = 2", ["max_rows_per_unit is for jobs whose unit is a column"]),
        ("[privacy]", "[privacy]\nmax_groups_per_unit = 2", ["max_groups_per_unit is for jobs whose unit is a column"]),
        (
            "[privacy]",
            "[privacy]\nunit = 'person'\nmax_rows_per_unit = 2\nmax_groups_per_unit = 2",
            ["privacy.max_groups_per_unit needs one group_by with the same groups", "no [[query]] has one"],
        ),
        ("[testing]", "[[column]]\nname = 'a'\n[testing]", ["column: no [[query]] names 'a'"]),
        ("[testing]", "[ledger]\nbudget = 3\n[testing]", ["ledger.budget: unknown key", "ledger.path is required"]),
        (
            'kind = "count"',
            'kind = "average"',
            ["query[0].kind = 'average' is unknown: must be one of 'count', 'count_distinct', 'histogram', 'sum'", '; write kind = "mean"'],
        ),
        ('kind = "count"', 'kind = "topk"', ["query[0].kind = 'topk' is unknown", "'median', 'top_s'", '; write kind = "top_s"']),
        ('kind = "count"', 'kind = "median"\nq = 0.5', ["query[0].q: unknown key", "query[0].grid is required"]),
        ('kind = "count"', 'kind = "laplace"', ["query[0].kind = 'laplace' is unknown"]),
        ("epsilon = 1.0", "eps = 1.0", ["query[0].eps: unknown key", "; write epsilon in its place"]),
        ('kind = "count"\n', "", ["query[0].kind is required: one of 'count'"]),
        ('name = "rows"\n', "", ["query[0].name is required"]),
        ('name = "rows"', 'name = "visits"', ["2 [[query]] entries are named 'visits'"]),
        ("epsilon = 1.0", "epsilon = 0", ["query[0].epsilon", "epsilon must be positive, got 0", "(query 'rows')"]),
        ("epsilon = 1.0", "epsilon = 1.0\ndelta = 1.0", ["query[0].delta", "delta must be in [0.0, 1.0)"]),
        (
            "epsilon = 1.0",
            "epsilon = 1.0\ncolour = 3",
            ["query[0].colour: unknown key; allowed here: name, kind, epsilon, weight, delta, confidence"],
        ),
        ("confidence = 0.999999", "confidence = 95", ["query[0].confidence", "confidence must be in (0.0, 1.0)", "got 95"]),
    ],
)
def test_mistakes_in_the_job_file(place, old, new, words):
    edit(place, old, new)
    refused(place, *words)


COUNT, CELLS = {"kind": "count", "column": "visits"}, {"kind": "histogram", "column": "region"}
SUM = {"kind": "sum", "column": "visits", "lower": 0, "upper": 9}
MEDIAN = {"kind": "quantile", "column": "cost", "q": 0.5, "grid": [1, 2]}
TOP = {"kind": "top_s", "column": "region", "s": 1, "candidates": ["a", "b"]}


@pytest.mark.some(15)
@pytest.mark.parametrize(
    ("query", "words"),
    [
        (COUNT, ["a count with a column needs either categories = [...] or lower and upper, or missing", "neither was given"]),
        ({**COUNT, "categories": [1], "lower": 0, "upper": 1}, ["both were given"]),
        ({**COUNT, "lower": 0}, ["lower = 0.0 and upper = None must both be given"]),
        ({**COUNT, "lower": 2, "upper": 1}, ["lower = 2.0 and upper = 1.0 must both be given, and lower ≤ upper"]),
        ({"kind": "count", "lower": 0, "upper": 1}, ["column is required with categories, lower or upper"]),
        ({**COUNT, "categories": []}, ["categories must be a list of at least one string, or of at least one integer, got []"]),
        ({**COUNT, "categories": [1, "a"]}, ["item 1 is 'a'"]),
        (CELLS, ["histogram needs one of categories", "none was given", "never from the data"]),
        ({**CELLS, "k": 3, "edges": [0, 1]}, ["k and edges were given"]),
        ({**CELLS, "k": 2**21}, ["k must be at most 1048576, got 2097152"]),
        ({**CELLS, "categories": ["a", "b"], "missing": "c"}, ["missing must be one of the categories ['a', 'b'], got 'c'"]),
        ({**CELLS, "categories": ["a", "b"], "missing": True}, ["missing must be one of the categories ['a', 'b'], got True"]),
        ({**CELLS, "edges": [0, 1], "missing": 10**400}, ["must be a string or a finite number, got 1000"]),
        ({**CELLS, "k": 4, "unknown": 4}, ["unknown must be a code in [0, k − 1] = [0, 3], got 4"]),
        ({**CELLS, "edges": [0, 1], "unknown": 1}, ["unknown is for categories; numbers outside the bins count in the first or last one"]),
        ({**CELLS, "edges": [0, 1], "missing": "a"}, ["missing must be a number, which then counts in its bin, or \"skip\", got 'a'"]),
        ({**CELLS, "edges": [0]}, ["edges must be a list of at least two numbers, or a table {start, stop, step}, got [0]"]),
        ({**CELLS, "edges": [0, 2, 1]}, ["edges must increase, but edges[2] = 1.0 follows 2.0"]),
        ({**CELLS, "edges": [0, "x"]}, ["edges[1] must be a real number, got 'x'"]),
        ({**CELLS, "edges": {"start": 0, "stop": 1}}, ["edges as a table has the keys start, stop and step, got start, stop"]),
        (
            {**CELLS, "edges": {"start": 0, "stop": 1, "step": 0}},
            ["edges: step = 0.0 must be positive, and stop = 1.0 at least start + step"],
        ),
        ({**CELLS, "edges": {"start": 0, "stop": 1, "step": 1e-9}}, ["edges must have at most 1048576 numbers, got 1000000001 of them"]),
        ({**CELLS, "edges": {"start": 1e17, "stop": 1e17 + 64, "step": 1}}, ["edges: step = 1.0 is too small for float64 at start"]),
        ({**CELLS, "bins": [0, 1]}, ["query[0].bins: bins is a number of bins; write edges = [0, 1] for bins with these edges"]),
        ({**CELLS, "bins": list(range(9))}, ["write edges = [0, 1, 2, 3, ...] for bins"]),
        ({**CELLS, "bins": {"start": 0, "stop": 1, "step": 1}}, ["write edges = {start = 0, stop = 1, step = 1} for bins"]),
        ({**CELLS, "bins": ["x" * 10**5] * 9}, ["write edges = ['xxxxxxxxxxxx...xxxxxxxxxxxxx', "]),
        ({**CELLS, "bins": 5}, ["bins = N needs lower and upper: the bins have equal width between them"]),
        ({**CELLS, "bins": 0, "lower": 0, "upper": 1}, ["bins must be in [1, 1048575], got 0"]),
        ({**CELLS, "bins": 5, "lower": 1, "upper": 0}, ["lower = 1.0 must be less than upper = 0.0"]),
        ({**CELLS, "bins": 5, "lower": 1e16, "upper": 1e16 + 4}, ["bins = 5 is too many for float64 between lower = 1e+16"]),
        ({**CELLS, "k": 5, "lower": 1}, ["lower without bins = N: histogram has no bins of equal width"]),
        ({**SUM, "lower": 9}, ["lower = 9.0 must be less than upper = 9.0"]),
        ({**SUM, "missing": 10}, ["missing must be in [lower, upper] = [0.0, 9.0], got 10.0"]),
        ({**SUM, "upper": 1e300}, ["upper must be in", "got 1e+300"]),
        (
            {**SUM, "group_by": "region"},
            ["group_by, a column, and groups = [...], its declared values, belong together; only group_by was given"],
        ),
        ({**SUM, "group_by": "region", "groups": []}, ["groups must be a list of at least one string"]),
        ({**MEDIAN, "q": 0}, ["q must be a number in (0, 1) with at most 6 decimals, or a list of such, got 0"]),
        ({**MEDIAN, "q": 0.12345678}, ["q must be a number in (0, 1) with at most 6 decimals"]),
        ({**MEDIAN, "q": []}, ["q must be a number in (0, 1)"]),
        ({**MEDIAN, "q": [0.5, 0.25]}, ["q must increase, got [0.5, 0.25]"]),
        ({**MEDIAN, "q": [i / 1000 for i in range(1, 300)]}, ["q must have at most 255 levels, got 299 of them"]),
        (
            {**MEDIAN, "grid": {"start": 0, "stop": 1e6, "step": 1}, "group_by": "region", "groups": ["a", "b"]},
            ["grid must have at most 1048576 points for all groups together, got 2000002"],
        ),
        ({**MEDIAN, "delta": 1e-6}, ["query[0].delta", "delta must be in [0.0, 0.0], got 1e-06"]),
        ({**MEDIAN, "grid": 3}, ["grid must be a list of at least two numbers"]),
        ({**TOP, "s": 3}, ["s must be at most the number of candidates, 2, got 3"]),
        ({**TOP, "s": 0}, ["s must be in [1, 1048576], got 0"]),
        ({**TOP, "k": 5}, ["top_s needs one of candidates", "candidates and k were given"]),
        ({**TOP, "method": "best"}, ["query[0].method = 'best': must be 'gumbel', 'peeling' or 'oneshot_laplace'"]),
        ({**TOP, "method": "oneshot_laplace"}, ["query[0] ('x', top_s): epsilon must be in (0, 0.2)"]),
        (
            ALL_VISITS | {"epsilon": 1e-13},
            ["query[0] ('x', count)", "must give a noise scale"],
        ),
    ],
)
def test_mistakes_in_a_query(place, query, words):
    place.write_release({"x": query})
    refused(place, *words)


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({**SUM, "column": "visit"}, ["there is no column 'visit'", "Did you mean 'visits'?"]),
        ({**SUM, "column": "region"}, ["column 'region' has type string, but 'x' (sum) takes one of halffloat, float, double", "bool"]),
        ({**TOP, "column": "cost"}, ["column 'cost' has type double, but 'x' (top_s with these categories) takes string"]),
        (
            {**CELLS, "categories": [1, 2]},
            ["column 'region' has type string, but 'x' (histogram with these categories) takes an integer type"],
        ),
        ({**SUM, "group_by": "state", "groups": ["a"]}, ["there is no column 'state'"]),
        ({**SUM, "group_by": "cost", "groups": ["a"]}, ["column 'cost' has type double, but group_by of 'x' takes"]),
    ],
)
def test_columns_that_do_not_fit(place, query, words):
    place.write_release({"x": query})
    refused(place, *words)


def test_files_that_do_not_fit_each_other(place):
    place.source = place.folder / "in"
    write_table(clinic(5), place.source / "a.parquet")
    write_table(clinic(5).drop_columns(["cost"]), place.source / "b.parquet")
    place.write_release()
    refused(place, "b.parquet: there is no column 'cost'")
    write_table(clinic(5).drop_columns(["person"]), place.source / "b.parquet")
    place.write_release({"x": {**MEDIAN, "column": "visits"}}, privacy={"unit": "person", "max_rows_per_unit": 1})
    refused(place, "b.parquet: there is no column 'person'")


def test_two_columns_with_one_name(place):
    table = pa.table([pa.array([1]), pa.array([2])], names=["visits", "visits"])
    write_table(table, place.source)
    place.write_release({"x": SUM})
    refused(place, "2 columns are named 'visits'")


def test_a_csv_column_that_is_read_in_two_ways(place):
    place.source = write_table(clinic(5), place.folder / "in.csv")
    place.write_release({"a": {**CELLS, "column": "visits", "categories": ["1", "2"], "missing": "1", "unknown": "2"}, "b": SUM})
    texts = place.answered()["a"]["value"]
    place.write_release({"a": {**CELLS, "column": "visits", "categories": [1, 2], "missing": 1, "unknown": 2}, "b": SUM})
    assert place.answered()["a"]["value"] == texts


def test_groups_of_a_unit_are_one_column(place):
    grouped = {"a": SUM | {"group_by": "region", "groups": ["east"]}, "b": SUM | {"group_by": "region", "groups": ["east", "west"]}}
    place.write_release(grouped, privacy={"unit": "person", "max_rows_per_unit": 3, "max_groups_per_unit": 2})
    refused(place, "privacy.max_groups_per_unit needs one group_by with the same groups in all grouped queries, but there are several")
    place.write_release(grouped, privacy={"unit": "person", "max_rows_per_unit": 3})
    assert place.release().code == 0


def test_units_that_are_no_units(place):
    place.write_release(privacy={"unit": "cost", "max_rows_per_unit": 1})
    refused(place, "privacy.unit = 'cost' has type double; a unit is an integer, a string, a date or a timestamp")


def test_categories_in_files(place):
    listed = place.folder / "listed.csv"
    listed.write_text("region\nnorth\neast\n")
    place.write_release({"x": {**CELLS, "categories_file": str(listed), "missing": "south"}})
    refused(place, "query[0] ('x', histogram): missing must be one of the categories, got 'south'")
    place.write_release({"x": {"kind": "top_s", "column": "region", "candidates_file": str(listed), "s": 3}})
    refused(place, "query[0] ('x'): s must be at most the number of candidates, 2, got 3")
    listed.write_text("region\n")
    refused(place, "between 2 and 16777216 categories are needed")


def test_over_budget(place):
    place.write_release(privacy={"max_epsilon": 7.5})
    refused(place, "the job spends epsilon = 8.0, but privacy.max_epsilon = 7.5: 0.0 (rows) + 1.0 (in the east)")
    place.write_release({"x": ALL_VISITS | {"delta": 1e-6}}, privacy={"max_delta": 0.0})
    refused(place, "the job spends delta = 1e-06, but privacy.max_delta = 0.0")
    place.write_release(
        {str(i): ALL_VISITS | {"epsilon": 0.1} for i in range(12)},
        privacy={"max_epsilon": 1.0},
    )
    refused(place, "epsilon = 1.2", "… (2 more queries)")
    place.write_release(
        {str(i): ALL_VISITS | {"epsilon": 0.1} for i in range(3)},
        privacy={"max_epsilon": 0.3},
    )
    assert place.release().code == 0


def test_an_output_in_the_way(place):
    assert place.release().code == 0
    before = place.target.read_bytes()
    refused(place, "out/answers.json' exists", "a second time", "--overwrite")
    assert place.target.read_bytes() == before
    assert place.release("--overwrite").code == 0
    place.target = place.source
    place.write_release()
    refused(place, "is the same file as input.path")
    place.target = place.folder
    place.write_release()
    refused(place, "is a folder; name a file")


# What it says


def test_a_dry_run_prints_the_plan_and_touches_nothing(place):
    before = sorted(place.folder.rglob("*"))
    done = place.release("--dry-run", "--table")
    assert done.code == 0
    for words in (
        "in.parquet (parquet, 1 file, 30 rows)",
        "answers.json (JSON)",
        "budget  epsilon 8.0 of 1000000000.0",
        "the guarantee protects one row",
        "their contents are protected",
        "Dry run: only the schema was read",
    ):
        assert words in done.out, words
    lines = {line.split("  ")[0]: line.split() for line in done.out.splitlines()}
    assert lines["rows"][1:] == ["count", "–", "0", "0", "none:", "public", "–", "–", "0"]
    assert lines["regions"][-4:] == ["laplace", "2", "2", "2.799"]
    assert lines["visits"][-4:] == ["laplace", "20", "20", "28.28"]
    assert lines["mean cost"][-4:] == ["laplace", "80", "80", "3.771"]
    assert lines["quartiles"][-4:] == ["gumbel", "1", "6", "–"]
    assert sorted(place.folder.rglob("*")) == before
    assert place.release("--dry-run", "--report", place.folder / "report").code == 2


def test_a_dry_run_reads_no_row(place):
    place.source.write_bytes(place.source.read_bytes().replace(b"north", b"\xff\xff\xff\xff\xff"))
    assert place.release("--dry-run").code == 0


def test_a_dry_run_for_units_and_private_numbers_of_rows(place):
    place.write_release(privacy={"unit": "person", "max_rows_per_unit": 3, "relation": "add_remove"})
    done = place.release("--dry-run", "--table")
    for words in (
        "protects one 'person', with all its rows",
        "unit    at most 3 rows of each person, chosen at random; for one of each: max_rows_per_unit = 1, or [per_unit]",
        "Even whether one 'person' was in the table is protected",
    ):
        assert words in done.out, words
    lines = {line.split("  ")[0]: line.split() for line in done.out.splitlines()}
    assert lines["mean cost"][-4:] == ["laplace", "120", "240", "–"]


@pytest.mark.parametrize("privacy", [{"unit": "person", "max_rows_per_unit": 3}, {"relation": "add_remove"}])
def test_a_private_number_of_rows_is_not_printed(place, privacy):
    """Standard error goes into logs, and a plan to those who approve it."""
    for public in (True, False):
        place.write_release(privacy={} if public else privacy)
        plan, done = place.release("--dry-run", "--table"), place.release("--overwrite")
        assert done.code == 0
        assert ("30 rows" in plan.out) == ("30 rows" in done.err) == public, (plan.out, done.err)
        assert "100%" in done.err


def test_what_a_plan_says_about_errors_is_what_the_answers_say(place):
    queries = {name: query for name, query in QUERIES.items() if query["kind"] != "quantile"}
    place.write_release(queries)
    plan = make_release_plan(load_release_job(place.job))
    answered = place.answered()
    for answer in plan.estimators:
        assert answer.expected_error(30) == answered[answer.section.name]["stderr"], answer.section.name
    place.write_release(queries, privacy={"relation": "add_remove"})
    private_mean = make_release_plan(load_release_job(place.job), overwrite=True).estimators[list(queries).index("mean cost")]
    assert private_mean.expected_error(30) is None


@pytest.mark.parametrize("privacy", [{}, {"relation": "add_remove"}, {"unit": "person", "max_rows_per_unit": 2}])
def test_rho_of_every_query_is_within_that_of_its_epsilon(place, privacy):
    """And a choice, which is bounded-range, costs a quarter of it at most."""
    grouped = {"grouped " + name: QUERIES[name] | GROUPS for name in ("rows", "visits", "mean cost", "quartiles")}
    place.write_release(QUERIES | grouped, privacy=privacy, epsilon=0.1)
    for answer in make_release_plan(load_release_job(place.job)).estimators:
        share = 0.25 if answer.section.kind == "quantile" else 1.0
        free = answer.section.name == "rows" and not privacy
        assert (answer.rho == 0) if free else (0 < answer.rho <= rho_pure(0.1) * share * (1 + 1e-9)), answer.section.name
    only_chosen = QUERIES["codes"] | {"values": False}
    place.write_release({"x": only_chosen}, privacy=privacy, epsilon=0.1)
    (answer,) = make_release_plan(load_release_job(place.job)).estimators
    assert answer.rho == pytest.approx(3 * (0.1 / 3) ** 2 / 8, rel=1e-3)
    place.write_release({"x": only_chosen | {"method": "oneshot_laplace", "delta": 1e-3}}, privacy=privacy, epsilon=0.1)
    (answer,) = make_release_plan(load_release_job(place.job)).estimators
    assert answer.rho is None


@pytest.mark.parametrize("delta", [1e-6, 1e-3])
def test_rho_of_gaussian_noise_is_that_of_its_scale(place, delta):
    names = ("rows", "regions", "visits", "mean cost")
    place.write_release({name: QUERIES[name] | {"delta": delta} for name in names})
    for answer in make_release_plan(load_release_job(place.job)).estimators:
        assert answer.rho == pytest.approx(sum(each.sensitivity**2 / (2 * each.scale**2) for each in answer.noise), rel=1e-9)


def test_the_end_of_a_run_is_told_on_standard_error(place):
    place.write_release(key=None)
    done = place.release()
    assert json.loads(done.out)["secure"] is True
    for words in ("answers.json: 9 queries answered", "spent epsilon = 8.0, delta = 0.0: the guarantee", "spends this budget again"):
        assert words in done.err, words
    assert "NOT PRIVATE" not in done.err


def test_help_has_a_job_that_runs(place):
    done = place.dpcore("release", "--help")
    start = done.out.index("    version = 1")
    text = done.out[start : done.out.index("Kinds, and what each needs")]
    write_table(clinic(50), place.folder / "visits.parquet")
    table = clinic(50)
    table = table.set_column(2, "cost", table["cost"].fill_null(0.0))
    write_table(table.set_column(3, "region", table["region"].fill_null("north")), place.folder / "visits.parquet")
    text = text.replace('"visits.parquet"', json.dumps(str(place.folder / "visits.parquet")))
    text = text.replace('"out/visits.json"', json.dumps(str(place.target)))
    text = text.replace('"visits.ledger"', json.dumps(str(place.folder / "visits.ledger")))
    Ledger.create(place.folder / "visits.ledger", epsilon=4.0, relation="add_remove", unit="person")
    place.job.write_text(text, encoding="utf-8")
    done = place.release()
    assert done.code == 0, done.said
    assert json.loads(done.out)["ledger"]["remaining"] == {"epsilon": 1.0, "delta": 0.0}


@pytest.mark.long
def test_the_report(place):
    pytest.importorskip("jinja2")
    pytest.importorskip("matplotlib")
    done = place.release("--report", place.folder / "report")
    assert done.code == 0, done.said
    assert sorted(path.name for path in (place.folder / "report").iterdir()) == ["answers.html", "answers.json"]
    assert json.loads((place.folder / "report/answers.json").read_text(encoding="utf-8")) == json.loads(done.out)


def test_help_lists_the_command(place):
    assert "release" in place.dpcore("--help").out
    text = place.dpcore("release", "--help").out
    assert "--dry-run" in text
    assert "First check that your numbers parse" in text
    words = [
        *QUERY_SECTIONS,
        "where",
        "[[derive]]",
        "[[lookup]]",
        "max_sum_per_unit",
        "bounds",
        '"private"',
        '"skip"',
        "weight",
        "accounting",
    ]
    assert [word for word in words if word not in text.partition("Kinds, and what each needs")[2]] == []


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"kind": "quantile", "column": "cost", "q": 0.5, "grid": [0, 1], "missing": 0}, "must give a noise scale in"),
        (ALL_VISITS, "epsilon"),
        ({"kind": "top_s", "column": "visits", "s": 1, "k": 3}, "must give a noise scale in"),
    ],
)
def test_noise_beyond_its_range_is_refused_before_anything_is_spent(place, query, words):
    ledger = Ledger.create(place.folder / "budget.ledger", epsilon=1.0)
    place.write_release({"x": query}, epsilon=1e-300, ledger=ledger.path)
    refused(place, words)
    assert list(ledger.entries()) == []


@pytest.mark.long
@pytest.mark.parametrize(("lower", "upper"), [(0.1, 0.7), (-1e308, 1.7e308), (-1e-300, 1e300), (-3, 2**53)])
def test_as_many_bins_as_allowed_have_exact_edges_at_once(lower, upper):
    start = time.process_time()
    edges = even_edges(2**20 - 1, lower, upper)
    assert time.process_time() - start < 4  # a plan asks for them several times
    first, last = (Fraction(Decimal(repr(end))) for end in (lower, upper))
    assert (edges[0], edges[-1], len(edges)) == (lower, upper, 2**20)
    for i in range(0, len(edges), 9999):
        assert edges[i] == float(first + (last - first) * Fraction(i, 2**20 - 1))


def test_an_output_with_the_name_of_metadata_is_not_written_over(place):
    """That of a Parquet table, which has none beside it."""
    place.target = place.target.parent / "made.parquet.dpcore.json"
    place.target.parent.mkdir()
    place.target.write_text("mine")
    place.write_release({"x": place.synthetic()})
    refused(place, "output.path = ", "exists")
    assert place.target.read_text() == "mine"


@pytest.mark.parametrize("half", ["\ud800", "visits\udcff"])
def test_half_of_a_surrogate_pair_in_a_document(half):
    document = {"version": 1, "input": {"path": "t.csv"}, "output": {"path": "o.json"}, "privacy": {"max_epsilon": 1.0}}
    with pytest.raises(JobError, match=r"query\[0\].name = .*: must be a string that UTF-8 can hold") as caught:
        parse_release_job({**document, "query": [{"name": half, "kind": "count", "epsilon": 1.0}]})
    str(caught.value).encode()
