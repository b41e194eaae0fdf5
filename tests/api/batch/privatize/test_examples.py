"""The sample data is what its provenance says, and the demo runs on it."""

from __future__ import annotations

import itertools
import json
import re
import shutil
import subprocess
import sys
import tomllib

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from dpcore.batch import load_job, make_release_plan, release
from dpcore.cli import run
from dpcore.jobs.release_job import load_release_job

pytestmark = pytest.mark.source_tree


def test_the_health_column_restates_its_indicators(repository):
    table = pq.read_table(repository / "examples/randhie.parquet")
    assert len(table) == 20_190
    for category, indicator in {"good": "hlthg", "fair": "hlthf", "poor": "hlthp"}.items():
        assert pc.equal(table["health"].cast("string"), category).cast("int64").equals(table[indicator])
    assert set(table["health"].unique().to_pylist()) == {"excellent", "good", "fair", "poor"}


def test_the_coins_column_restates_its_logarithm(repository):
    table = pq.read_table(repository / "examples/randhie.parquet")
    coins = table["coins"].to_numpy()
    assert set(coins.tolist()) == {0, 25, 50, 95, 100}
    assert np.abs(np.log1p(coins) - table["lncoins"].to_numpy()).max() < 1e-5


def test_the_job_shows_several_kinds_of_mechanisms_within_its_budget(repository):
    job = load_job(repository / "examples/job.toml")
    assert {column.mechanism for column in job.column} == {"bounded_mean", "laplace", "binary", "kary", "unary"}
    assert job.total.epsilon == job.privacy.max_epsilon == 6.0
    assert job.secure


def test_the_release_shows_every_kind_within_its_budget(repository):
    job = load_release_job(repository / "examples/release.toml")
    assert {query.kind for query in job.query} == {"count", "histogram", "mean", "std", "sum", "quantile", "top_s"}
    assert job.total.epsilon == job.privacy.max_epsilon == 3.0
    assert job.secure
    assert job.ledger is not None


def test_the_job_with_groups_runs_within_its_budget(repository, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(repository)
    text = (repository / "examples/groups.toml").read_text(encoding="utf-8")
    (tmp_path / "job.toml").write_text(text.replace("out/", f"{tmp_path}/"), encoding="utf-8")
    assert run(["ledger", "create", str(tmp_path / "randhie.ledger"), "--epsilon", "2"]) == 0
    assert run(["release", str(tmp_path / "job.toml")]) == 0, capsys.readouterr().err
    queries = json.loads((tmp_path / "randhie-groups.json").read_text(encoding="utf-8"))["queries"]
    assert [len(query["value"]) for query in queries] == [20, 4, 3]
    assert queries[0]["groups"]["coins"][:6] == [0, 25, 50, 95, 100, 0]
    assert len(queries[2]["value"][0]) == 4


EARLIER = ("out/randhie.ledger", "out/randhie-private.parquet", "out/randhie-release.json", "out/demo/other.ledger")


@pytest.fixture(scope="module")
def demo(repository, tmp_path_factory):
    """A folder in which the demo ran, and what it said."""
    folder = tmp_path_factory.mktemp("demo")
    shutil.copytree(repository / "examples", folder / "examples")
    for name in EARLIER:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("of somebody else")
    done = subprocess.run([sys.executable, folder / "examples/demo.py"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder, done.stdout, done.stderr


@pytest.mark.long
def test_the_demo_touches_nothing_but_its_own_files(demo):
    folder, said, _ = demo
    assert [(folder / name).read_text() for name in EARLIER] == ["of somebody else"] * len(EARLIER)
    assert sorted(path.name for path in (folder / "out").iterdir()) == sorted({name.split("/")[1] for name in EARLIER})
    assert "dpcore ledger create out/demo/randhie.ledger" in said


def test_the_demo_shows_truth_estimate_and_interval(demo):
    folder, said, _ = demo
    said = said[: said.index("A curator holds the data")]
    assert "out/demo/randhie-private.parquet" in said
    assert "a person with k rows is protected at k·ε" in said
    assert all(word in said for word in ("mdvis", "disea", "hlthg", "excellent", "coins", "95 % interval", "one in twenty misses"))
    lines = re.findall(r"(\d\.\d{3}|1\d\.\d{3}) +(−?-?\d+\.\d{3}) +(-?\d+\.\d{3}) to (-?\d+\.\d{3})", said)
    assert len(lines) == 12
    # Each estimate is within five standard errors of the truth, up to the last digit shown.
    assert all(
        abs(float(value) - float(true)) <= 5 / 1.96 / 2 * (float(upper) - float(lower)) + 0.002 for true, value, lower, upper in lines
    )
    assert len(pq.read_table(folder / "out/demo/randhie-private.parquet")) == 20_190
    assert "excellent" in (folder / "out/demo/randhie-private-estimate.html").read_text(encoding="utf-8")


def test_the_demo_releases_with_a_ledger_that_refuses_the_second_run(demo):
    folder, said, complained = demo
    said = said[said.index("A curator holds the data") :]
    assert re.search(r"^budget +epsilon 5, delta 0$", said, re.MULTILINE)
    assert re.search(r"^spent +epsilon 3, delta 0$", said, re.MULTILINE)
    assert re.search(r"^remaining +epsilon 2, delta 0$", said, re.MULTILINE)
    assert "the job needs epsilon 3.0, delta 0.0, but the ledger" in complained
    assert "ε = 3 for all answers together, where the private rows above took 6." in said
    for words in ("seen a doctor", "self-rated health", "visits", "mean visits", "chronic diseases", "coinsurance rates"):
        assert words in said, words
    page = (folder / "out/demo/randhie-release.html").read_text(encoding="utf-8")
    assert "The ledger after this job" in page
    assert "excellent" in page


def test_the_released_numbers_are_near_the_truth(demo):
    folder, _, _ = demo
    released = json.loads((folder / "out/demo/randhie-release.json").read_text(encoding="utf-8"))
    answers = {query["name"]: query for query in released["queries"]}
    table = pq.read_table(folder / "examples/randhie.parquet")
    visits, diseases, coins = (table[name].to_numpy() for name in ("mdvis", "disea", "coins"))
    health = np.asarray(table["health"].cast("string").to_pylist())
    truths = {
        "seen a doctor": (visits > 0).sum(),
        "self-rated health": [int((health == name).sum()) for name in ("excellent", "good", "fair", "poor")],
        "visits": [((visits >= low) & (visits < high)).sum() for low, high in itertools.pairwise([0, 1, 2, 3, 5, 10, 20, 40, 1000])],
        "mean visits": np.minimum(visits, 50).mean(),
        "chronic diseases in all": np.minimum(diseases, 60).sum(),
        "frequent coinsurance rates": [(coins == rate).sum() for rate in (0, 25)],
    }
    assert answers["frequent coinsurance rates"]["value"] == [0, 25]
    for name, truth in truths.items():
        found = np.asarray(answers[name].get("counts", answers[name]["value"]))
        # Laplace noise exceeds 12 standard deviations with probability 4e-8.
        assert np.abs(found - truth).max() <= 12 * answers[name]["stderr"], name
    for level, value in zip(answers["chronic diseases"]["q"], answers["chronic diseases"]["value"], strict=True):
        below, up_to = (diseases <= value - 0.5).sum(), (diseases <= value).sum()
        # Off by more than 16 ln(121/10^-8) rows with probability 10^-8.
        assert below - 372 <= level * 20_190 <= up_to + 372


@pytest.mark.long
def test_the_example_of_a_synthetic_table(repository, tmp_path, monkeypatch, capsys):
    """What docs/job-synthetic.md shows of it is what it says, and the table it makes is like the data."""
    document = (repository / "docs/job-synthetic.md").read_text(encoding="utf-8")
    example = tomllib.loads((repository / "examples/synthetic.toml").read_text(encoding="utf-8"))
    shown = [tomllib.loads(text) for text in re.findall(r"^```toml\n(.*?)^```$", document, re.MULTILINE | re.DOTALL)]
    assert {"query": example["query"]} in shown
    shutil.copytree(repository / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    assert run(["ledger", "create", "out/randhie.ledger", "--epsilon", "5"]) == 0
    assert run(["release", "examples/synthetic.toml", "--report", "out"]) == 0
    assert "out/randhie-synthetic.parquet: synthetic rows of 'made-up people'" in capsys.readouterr().err
    table, data = pq.read_table("out/randhie-synthetic.parquet"), pq.read_table("examples/randhie.parquet")
    assert len(table) == len(data) == 20_190
    assert dict(zip(table.column_names, map(str, table.schema.types), strict=True)) == {
        "health": "string", "mdvis": "int64", "coins": "int64", "disea": "double",
    }  # fmt: skip
    pairs = [
        [
            f"{health} {visits >= 5}"
            for health, visits in zip(each["health"].cast("string").to_pylist(), each["mdvis"].to_pylist(), strict=True)
        ]
        for each in (table, data)
    ]
    # Noise of scale 2 in a few dozens of cells, and binomial draws: 8 standard deviations of the latter, and a few hundred beside.
    for label in set(pairs[1]):
        found, truth = (each.count(label) for each in pairs)
        assert abs(found - truth) <= 8 * np.sqrt(truth) + 100, label


def test_the_job_with_conditions_runs_as_it_stands(repository, tmp_path, monkeypatch):
    shutil.copytree(repository / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    document = release(make_release_plan(load_release_job("examples/visits.toml")))
    assert [query["kind"] for query in document["queries"]] == ["mean", "histogram", "count"]
    assert document["privacy"] == {"epsilon": 2.0, "delta": 0.0}
    assert document["queries"][2]["where"] == "disea > 10 AND plan = 'free'"
    assert 500 < sum(document["queries"][1]["value"]) < 3000


@pytest.mark.long
def test_the_example_of_private_groups(repository, tmp_path, monkeypatch, capsys):
    """What docs/job-groups.md shows of it is what it says, and it names the common numbers of visits."""
    document = (repository / "docs/job-groups.md").read_text(encoding="utf-8")
    example = tomllib.loads((repository / "examples/private-groups.toml").read_text(encoding="utf-8"))
    shown = [tomllib.loads(text) for text in re.findall(r"^```toml\n(.*?)^```$", document, re.MULTILINE | re.DOTALL)]
    assert {"query": example["query"][:2]} in shown
    shutil.copytree(repository / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    assert run(["release", "examples/private-groups.toml", "--dry-run", "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert plan["queries"][0]["half_released_at"] == 36
    assert run(["release", "examples/private-groups.toml", "--report", "out"]) == 0
    keys, rows, diseases = json.loads(capsys.readouterr().out)["queries"]
    visits = pq.read_table("examples/randhie.parquet")["mdvis"].to_numpy()
    values, counts = np.unique(visits, return_counts=True)
    # A count of 80 is released with probability 1, one of 1 with probability 5e-9.
    assert set(values[counts >= 80].tolist()) <= set(keys["value"]) <= set(values[counts > 1].tolist())
    assert keys["value"] == sorted(keys["value"]) == rows["groups"] == diseases["groups"]
    truth = dict(zip(values.tolist(), counts.tolist(), strict=True))
    assert max(abs(value - truth[key]) for key, value in zip(keys["value"], rows["value"], strict=True)) <= 80
    assert "numbers of visits" in (tmp_path / "out/randhie-visits.html").read_text(encoding="utf-8")
