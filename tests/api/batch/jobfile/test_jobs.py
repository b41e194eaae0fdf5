"""Everything that a job file or the installation can get wrong ends with exit code 2, says what, and writes nothing."""

from __future__ import annotations

import sys

import pytest

from dpcore._extras import BELOW, install
from dpcore.batch import JobError, load_job, make_plan, parse_job
from dpcore.errors import BudgetError
from support.jobs import COLUMNS, Workplace, edit, job_text, people, refused, start, write_table

VISITS, COST, INCOME = COLUMNS["visits"], COLUMNS["cost"], COLUMNS["income"]
MEAN = {"mechanism": "bounded_mean", "epsilon": 1.0, "lower": 0.0, "upper": 9.0}
ANSWER = {"mechanism": "binary", "epsilon": 1.0}
KARY = {"mechanism": "kary", "epsilon": 1.0, "categories": ["a", "b", "c"]}
CODES = {"mechanism": "hadamard", "epsilon": 1.0, "k": 3}
CHANNEL = {**KARY, "mechanism": "binary_channel", "phi": [1.0, 0.0, -1.0]}


@pytest.fixture
def place(tmp_path, capsys):
    place = Workplace(tmp_path, capsys)
    write_table(people(20), place.source)
    place.write_job()
    return place


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("version = 1", "version = 2", ["version = 2", "must be 1"]),
        ("version = 1\n", "", ["version is required: write version = 1 at the top of the file"]),
        ("version = 1", "version = 1\ncolour = 3", ["colour: unknown key", "allowed here: version, input, ledger, testing, keep, output"]),
        ("[input]", "[[query]]\nkind = 'count'\n[input]", ["query: unknown key", "a job with [[query]] is for dpcore release"]),
        ("[input]", "[input]\nformt = 'csv'", ["input.formt: unknown key", "allowed here: path, format", "did you mean 'format'"]),
        ("[output]", "[output]\nkeep = ['state']", ["output.keep: unknown key", "keep belongs at the top of the file"]),
        ("[output]", "[output]\nmax_epsilon = 3", ["output.max_epsilon: unknown key", "max_epsilon belongs in [privacy]"]),
        ("[output]", "[output]\ncompression = 'zip'", ["output.compression = 'zip'", "'zstd'"]),
        ("[output]", "[output]\nformat = 'xlsx'", ["output.format = 'xlsx'", "'parquet', 'csv' or 'arrow'"]),
        ("max_epsilon = 4.0", "max_epsilon = -1", ["privacy.max_epsilon: ", "max_epsilon must be positive, got -1"]),
        ("max_epsilon = 4.0", "max_epsilon = 'four'", ["privacy.max_epsilon", "'four'"]),
        ("max_epsilon = 4.0", "max_epsilon = nan", ["max_epsilon must be positive and finite, got nan"]),
        ("max_epsilon = 4.0\n", "", ["privacy.max_epsilon is required"]),
        ("max_delta = 2e-06", "max_delta = 1.0", ["max_delta must be in [0.0, 1.0)", "got 1.0"]),
        ("[privacy]", "[privacy]\nmax_rows_per_unit = 3", ["max_rows_per_unit is for jobs whose unit is a column"]),
        ("[privacy]", "[privacy]\nunit = 'person'", ["max_rows_per_unit is required with unit = 'person'"]),
        ("[privacy]", "[privacy]\nunit = 'person'\nmax_rows_per_unit = 0", ["max_rows_per_unit must be in [1, ", "got 0"]),
        ('key_hex = "00', 'key_hex = "zz', ["testing.key_hex", "64 hexadecimal digits"]),
        ('"discrete_laplace"', '"laplac"', ["column[0].mechanism = 'laplac' is unknown", "'discrete_gaussian'", "did you mean 'laplace'"]),
        ('mechanism = "discrete_laplace"\n', "", ["column[0].mechanism is required"]),
        ("epsilon = 1.0\nlower = 0\n", "epsilon = 0\nlower = 0\n", ["column[0].epsilon", "epsilon must be positive, got 0"]),
        ("epsilon = 1.0\nlower = 0\n", "epsilon = true\nlower = 0\n", ["column[0].epsilon", "must be a real number, got True"]),
        ("epsilon = 1.0\nlower = 0\n", "epsilon = inf\nlower = 0\n", ["column[0].epsilon", "got inf"]),
        ("epsilon = 1.0\nlower = 0\n", "lower = 0\n", ["column[0].epsilon is required (column 'visits')"]),
        ("lower = 0\n", "lower = 0\ndelta = 1e-6\n", ["column[0].delta: unknown key", "name, mechanism, epsilon, lower, upper, missing"]),
        ("lower = 0\n", "lower = 0.5\n", ["column[0].lower", "lower must be an integer, got 0.5"]),
        ("lower = 0\n", "lower = 20\n", ["column[0]", "lower = 20 must be less than upper = 20"]),
        ("missing = 0\n", "missing = 21\n", ["column[0]", "missing must be in [lower, upper] = [0, 20], got 21"]),
        ("lower = 0.0\n", "lower = -inf\n", ["column[2].lower", "lower must be in", "got -inf"]),
        ("delta = 1e-06\n", "", ["column[1].delta is required"]),
        ("delta = 1e-06\n", "delta = 0.0\n", ["column[1].delta", "delta must be in (0.0, 1.0)", "got 0.0"]),
        ("upper = 20\n", "", ["column[0].upper is required"]),
        ('name = "age"', 'name = "visits"', ["2 [[column]] entries are named 'visits'"]),
        ("keep = []", 'keep = ["visits"]', ["keep: 'visits' is also a [[column]]"]),
        ("keep = []", 'keep = ["state", "state"]', ["keep names 'state' 2 times"]),
        ("keep = []", "keep = 3", ["keep = 3", "must be a list"]),
        ("keep = []", "keep = [3]", ["keep[0] = 3", "must be a string"]),
        ("[[column]]", "[column]", ["is not valid TOML"]),  # of which the file then has two kinds
        ("[input]", "[[input]]", ["[[input]] has double brackets; write [input]: a job has one"]),
        ('"discrete_laplace"', '"Randomised response"', ['; write mechanism = "binary" for two answers, or "kary" for more']),
        ('"discrete_laplace"', '"median"', ["column[0].mechanism = 'median' is unknown"]),
        ("lower = 0\n", "min = 0\n", ["column[0].min: unknown key", "; write lower in its place"]),
        ("[output]", "[output", ["is not valid TOML", "line 5"]),
    ],
)
def test_mistakes_in_the_job_file(place, old, new, words):
    edit(place, old, new)
    refused(place, *words)


LIST = "categories must be a list of at least two strings, or of at least two integers"


@pytest.mark.parametrize(
    ("column", "words"),
    [
        (
            {"mechanism": "kary", "epsilon": 1.0},
            ["column[0]: kary needs one of categories = [...]", "none was given", "never from the data"],
        ),
        ({**KARY, "k": 3}, ["column[0]: kary needs one of", "categories and k were given"]),
        ({**KARY, "k": 3, "categories_file": "x.csv"}, ["categories and categories_file and k were given"]),
        ({**KARY, "categories": ["a"]}, ["column[0].categories", LIST, "got ['a']"]),
        ({**KARY, "categories": "abc"}, [LIST, "got 'abc'"]),
        ({**KARY, "categories": ["a", 1]}, [LIST, "item 1 is 1"]),
        ({**KARY, "categories": [True, False]}, [LIST, "item 0 is True"]),
        ({**KARY, "categories": [1.0, 2.0]}, [LIST, "item 0 is 1.0"]),
        ({**KARY, "categories": [0, 2**63]}, [LIST, "that 64 bits hold; item 1 is 9223372036854775808"]),
        ({**KARY, "categories": ["a", "b", "a"]}, ["categories must be distinct, but 'a' is listed 2 times"]),
        ({**KARY, "missing": "d"}, ["column[0]: missing must be one of the categories ['a', 'b', 'c'], got 'd'"]),
        ({**KARY, "unknown": 0}, ["column[0]: unknown must be one of the categories", "got 0"]),
        ({**KARY, "unknown": 0.5}, ["column[0].unknown: must be one of the categories, a string or an integer, got 0.5"]),
        (
            {**KARY, "lower": 0},
            ["column[0].lower: unknown key; allowed here: name, mechanism, epsilon, categories, categories_file, k, missing"],
        ),
        ({**KARY, "category": ["a", "b"]}, ["column[0].category: unknown key", "did you mean 'categories'?"]),
        ({**KARY, "mechanism": "karry"}, ["column[0].mechanism = 'karry' is unknown", "'hadamard'", "did you mean 'kary'?"]),
        ({**CODES, "k": 1}, ["column[0].k: k must be in [2, 16777216], got 1"]),
        ({**CODES, "k": 2**24 + 1}, ["k must be in [2, 16777216], got 16777217"]),
        ({**CODES, "k": "3"}, ["column[0].k", "'3'"]),
        ({**CODES, "missing": 3}, ["missing must be a code in [0, k − 1] = [0, 2], got 3"]),
        ({**CODES, "unknown": "a"}, ["unknown must be a code in [0, k − 1] = [0, 2], got 'a'"]),
        ({**CODES, "method": "optimal"}, ["column[0].method: unknown key"]),
        ({**CODES, "mechanism": "unary", "method": "best"}, ["column[0].method = 'best': must be 'optimal' or 'symmetric'"]),
        ({**CHANNEL, "phi": [1.0, 2.0]}, ["column[0]: phi must have one number for each category: 2 for 3 categories"]),
        ({**CHANNEL, "phi": [1.0]}, ["phi must have one number for each category: 1 for 3 categories"]),
        ({**CHANNEL, "phi": [1.0, "x", 0.0]}, ["column[0].phi[1]: phi must be a real number, got 'x'"]),
        ({**CHANNEL, "phi": 3}, ["column[0].phi = 3: must be a list"]),
        ({**KARY, "mechanism": "binary_channel"}, ["column[0].phi is required"]),
        ({**MEAN, "lower": 9.0}, ["lower = 9.0 must be less than upper = 9.0"]),
        ({**MEAN, "missing": 10.0}, ["missing must be in [lower, upper] = [0.0, 9.0], got 10.0"]),
        ({**MEAN, "unknown": 1.0}, ["column[0].unknown: unknown key"]),
        ({**ANSWER, "missing": 2}, ['column[0]: missing must be false or true, or "skip", got 2']),
        ({**ANSWER, "unknown": "yes"}, ["unknown must be false or true, got 'yes'"]),
        ({**ANSWER, "k": 2}, ["column[0].k: unknown key"]),
        ({**ANSWER, "categories": ["no"]}, ["categories of a binary column are [false_value, true_value], got ['no']"]),
        ({**ANSWER, "categories": ["no", "yes", "other"]}, ["categories of a binary column are [false_value, true_value]"]),
        ({**ANSWER, "categories": ["no", "no"]}, ["categories must be distinct"]),
        ({**ANSWER, "categories": ["no", "yes"], "missing": True}, ["missing must be 'no' or 'yes', or \"skip\", got True"]),
        ({**ANSWER, "categories": [1, 2], "missing": "1"}, ["missing must be 1 or 2, or \"skip\", got '1'"]),
    ],
)
def test_mistakes_in_a_column(place, column, words):
    place.write_job({"x": column})
    refused(place, *words, "(column 'x')")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("a,b\n1,2\n", "categories are one column with a header, but this file has 2 columns"),
        ("", "the first line must be a header"),
        ("name\n", "between 2 and 16777216 categories are needed, but below the header there are 0"),
        ("name\na\n", "below the header there are 1"),
        ("name\na\nb\na\n", "categories must be distinct, but 'a' is listed 2 times"),
        ("name\na\n\nb\n", "category 1 (counted from 0 below the header) is empty"),
        ("name\na\nb,c\n", "categories are UTF-8 text, one a line below a header"),
        (b"name\na\n\xff\xfe\n", "categories are UTF-8 text, one a line below a header"),
        (b"\xff\n\x80\n", "the header is not comma-separated UTF-8 text"),
    ],
)
def test_mistakes_in_a_file_of_categories(place, content, words):
    listed = place.folder / "listed.csv"
    listed.write_bytes(content if isinstance(content, bytes) else content.encode())
    place.write_job({"note": {"mechanism": "kary", "epsilon": 1.0, "categories_file": str(listed)}})
    refused(place, f"{listed}: ", words)


def test_a_file_of_categories_does_not_fit_the_column(place):
    listed = place.folder / "listed.csv"
    column = {"mechanism": "kary", "epsilon": 1.0, "categories_file": str(listed)}
    for content, changes, words in [
        ("a\nb\n", {}, [f"{listed}: the column holds integers, but category 0 is 'a'"]),
        ("1\nx y\n", {}, ["the column holds integers, but category 1 is 'x y'"]),
        ("1\n99999999999999999999\n", {}, ["the column holds integers, but category 1 is '99999999999999999999'"]),
        ("1\n01\n", {}, [f"{listed}: categories must be distinct, but 1 is listed 2 times"]),
        ("1\n2\n", {"unknown": 3}, ["column[0] ('visits', kary): unknown must be one of the categories, got 3"]),
        ("1\n2\n", {"missing": "1"}, ["missing must be one of the categories, got '1'"]),
    ]:
        listed.write_text("name\n" + content)
        place.write_job({"visits": {**column, **changes}})
        refused(place, *words)
    place.write_job({"note": {**column, "unknown": "3"}})
    refused(place, "column[0] ('note', kary): unknown must be one of the categories, got '3'")
    place.write_job({"income": column})
    refused(place, "column 'income' has type double, but kary with these categories takes string, large_string or an integer type")


def test_phi_and_a_file_of_categories(place):
    listed = place.folder / "listed.csv"
    listed.write_text("name\na\nb\n")
    place.write_job({"note": {"mechanism": "binary_channel", "epsilon": 1.0, "categories_file": str(listed), "phi": [1.0, 2.0, 3.0]}})
    refused(place, "column[0] ('note', binary_channel): phi must have one number for each category: 3 for 2 categories")


def test_no_file_of_categories(place):
    place.write_job({"note": {"mechanism": "kary", "epsilon": 1.0, "categories_file": str(place.folder / "nowhere.csv")}})
    done = place.privatize()
    assert (done.code, done.out) == (4, "")
    assert "nowhere.csv: cannot be read: No such file or directory" in done.err


def test_every_mistake_is_listed_at_once(place):
    edit(place, "version = 1", "version = 2\ncolour = 3")
    edit(place, "upper = 20", "upper = 'twenty'")
    refused(place, "version = 2", "colour: unknown key", "column[0].upper")


@pytest.mark.parametrize("missing", ["[input]", "[output]", "[privacy]"])
def test_a_table_is_missing(place, missing):
    lines = place.job.read_text().splitlines()
    first = lines.index(missing)
    last = next(i for i in range(first + 1, len(lines)) if lines[i].startswith("["))
    place.job.write_text("\n".join(lines[:first] + lines[last:]))
    refused(place, f"{missing} is required: a table with ")


def test_no_column(place):
    text = place.job.read_text()
    place.job.write_text(text[: text.index("[[column]]")])
    refused(place, "[[column]] is required: a job has one for each column")


def test_several_columns_in_single_brackets(place):
    place.write_job()
    place.job.write_text(place.job.read_text().replace("[[column]]", "[column]"))
    refused(place, "is not valid TOML", "write [[column]], with double brackets, above each column")


def test_a_column_in_single_brackets(place):
    place.write_job({"visits": VISITS})
    edit(place, "[[column]]", "[column]")
    refused(place, "[column] has single brackets; write [[column]] above each column: a job may have several")


def test_a_job_that_is_not_text(place):
    place.job.write_bytes(b"\xff\xfe\x00")
    refused(place, "is not UTF-8 text")


def test_epsilon_over_budget(place):
    edit(place, "max_epsilon = 4.0", "max_epsilon = 3.9")
    refused(place, "spends epsilon = 4.0, but privacy.max_epsilon = 3.9", "1.0 (visits) + 1.0 (age)")


def test_delta_over_budget(place):
    edit(place, "max_delta = 2e-06", "max_delta = 1.9e-6")
    refused(place, "spends delta = 2e-06, but privacy.max_delta = 1.9e-06", "1e-06 (age)")


def test_delta_is_not_allowed_by_default(place):
    edit(place, "max_delta = 2e-06\n", "")
    refused(place, "privacy.max_delta = 0.0")


def test_rows_per_unit_count_in_the_budget(place):
    place.write_job(privacy={"max_epsilon": 4.0, "max_delta": 1e-5, "unit": "person", "max_rows_per_unit": 3})
    refused(place, "spends epsilon = 12.0", "times 3 rows per 'person'")


def test_a_sum_of_decimals_is_the_sum_that_was_written():
    columns = {name: {**INCOME, "epsilon": epsilon} for name, epsilon in (("a", 0.1), ("b", 0.2))}
    document = {
        "version": 1,
        "input": {"path": "a.csv"},
        "output": {"path": "b.csv"},
        "privacy": {"max_epsilon": 0.3},
        "column": [{"name": name, **column} for name, column in columns.items()],
    }
    assert parse_job(document).total.epsilon == 0.3
    document["privacy"] = {"max_epsilon": 0.29999999999999993}
    with pytest.raises(BudgetError):
        parse_job(document)


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"x": {**COST, "delta": 1e-300, "upper": 1e308, "lower": -1e308}}, ["column[0] ('x', gaussian)", "lower must be in"]),
        ({"x": {**VISITS, "lower": -(2**62), "upper": 2**62}}, ["column[0] ('x', discrete_laplace)"]),
        ({"x": {**VISITS, "epsilon": 1e12}}, ["column[0] ('x', discrete_laplace)"]),
        ({"x": {**INCOME, "lower": -1e200, "upper": 1e200}}, ["column[0] ('x', laplace): lower and upper are too far apart for estimates"]),
        ({"x": {**MEAN, "lower": -1e160, "upper": 1e160}}, ["column[0] ('x', bounded_mean): lower and upper are too far apart"]),
        ({"x": {**CHANNEL, "phi": [1e200, 0, 0]}}, ["column[0] ('x', binary_channel): the numbers in phi are too far apart"]),
        ({"x": {**CHANNEL, "phi": [0, 0, 0]}}, ["column[0] ('x', binary_channel): phi must be", "not all zero"]),
        ({"x": {**KARY, "epsilon": 800}}, ["column[0] ('x', kary): epsilon must be in", "700.0", "got 800.0"]),
        ({"x": {**KARY, "epsilon": 1e-9}}, ["column[0] ('x', kary): epsilon must be in", "got 1e-09"]),
    ],
)
def test_ranges_that_a_mechanism_refuses(place, columns, words):
    place.write_job(columns, privacy={"max_epsilon": 1e13, "max_delta": 0.5})
    refused(place, *words)


def test_usage_errors(place):
    assert place.dpcore("privatise").code == 2
    assert place.dpcore("privatize").code == 2
    assert place.dpcore("privatize", place.job, "--threads", "0").code == 2
    assert place.dpcore("privatize", place.job, "--dry-run", "--report", place.folder).code == 2
    assert place.left_behind() == []


@pytest.mark.parametrize("absent", ["pyarrow", "click", "rich", "pydantic"])
def test_without_the_extra_the_command_says_what_to_install(absent):
    script = f"""
import importlib.util, sys
find_spec = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == {absent!r} else find_spec(name, *rest)
sys.modules[{absent!r}] = None
from dpcore.cli import main
main()
"""
    process = start("info", script=script)
    out, err = process.communicate()
    assert (process.returncode, out) == (2, "")
    assert install("batch", gap=BELOW) in err
    assert absent in err


def test_a_report_without_jinja2(place, monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    refused(place, install("report"), arguments=["--report", str(place.folder / "report")])


def test_the_library_raises_what_the_command_reports(place):
    place.write_job({"vists": VISITS})
    with pytest.raises(JobError, match="there is no column 'vists'"):
        make_plan(load_job(place.job))
    place.job.write_text(job_text("a.csv", "b.csv", {"x": {**INCOME, "epsilon": -1}}))
    with pytest.raises(JobError, match="epsilon must be positive, got -1"):
        load_job(place.job)
