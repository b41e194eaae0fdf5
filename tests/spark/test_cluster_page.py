"""The commands of docs/cluster.md, as a newcomer types them, and what the cluster that they start shows to somebody without its secret."""

from __future__ import annotations

import json
import re
import subprocess
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import pyspark
import pytest

from dpcore._spark_masters import open_submissions
from support.cluster_page import FIRST, OWN, PAGE, SECOND, PageCluster, ask, commands, listening, shown, stream
from support.spark import EXECUTOR, descendants, free_port
from support.spark_jobs import CHARGED, LOCAL, ROWS, people

SPARK = tuple(map(int, pyspark.__version__.split(".")[:2]))
WIDE = ("0.0.0.0", "::")
UNSET = ["spark.authenticate true", "spark.network.crypto.enabled true", "spark.io.encryption.enabled true"]
"""A file that has, beside the secret, nothing about submissions."""
WAITING = """
import sys
from dpcore.spark import make_session
spark = make_session(sys.argv[1])
spark.sparkContext.addFile(sys.argv[2])

def then_wait(batches):
    import os, time
    yield from batches
    while not os.path.exists(sys_argv):
        time.sleep(0.2)

sys_argv = sys.argv[3]
frame = spark.range(0, 64, 1, 4)
print("running", flush=True)
print(frame.mapInArrow(then_wait, frame.schema).repartition(2).count(), flush=True)
spark.stop()
"""


def submission(url: str) -> dict:
    """Ask a master to run a program, without any secret."""
    asked = {
        "action": "CreateSubmissionRequest",
        "appArgs": [],
        "appResource": "file:/nowhere.jar",
        "clientSparkVersion": pyspark.__version__,
        "environmentVariables": {},
        "mainClass": "Nothing",
        "sparkProperties": {"spark.app.name": "a stranger", "spark.master": url, "spark.jars": ""},
    }
    request = urllib.request.Request(f"{url}/v1/submissions/create", json.dumps(asked).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def test_without_the_setting_anybody_runs_programs_from_spark_4_1_on(tmp_path):
    """The twin: a submission is accepted; a session and `dpcore info` say so."""
    port = free_port()
    with PageCluster(tmp_path / "home", [*UNSET, f"spark.master.rest.port {port}", f"spark.driver.host {FIRST}"]) as cluster:
        cluster.start(workers=False)
        deadline = time.monotonic() + 30
        while SPARK >= (4, 1) and not open_submissions([FIRST], port) and time.monotonic() < deadline:
            time.sleep(0.5)
        said = json.loads(cluster.run(f"SPARK_LOCAL_IP={FIRST} dpcore info --json").stdout)
        if SPARK < (4, 1):
            assert open_submissions([FIRST], port) == []
            assert "warning" not in said
            return
        assert submission(f"http://{FIRST}:{port}")["success"]
        assert f"takes programs without a secret at {FIRST}:{port}" in said["warning"]
        program = "import sys; from dpcore.spark import make_session; make_session(sys.argv[1]).stop()"
        started = cluster.run(f"python -c '{program}' {cluster.url}")
        assert started.returncode == 0, started.stderr
        assert re.search(f"UserWarning: a Spark master takes programs without a secret at {FIRST}:{port}", started.stderr)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """The processes that the page starts, with the tables and jobs of somebody who follows it."""
    with PageCluster(tmp_path_factory.mktemp("page") / "home") as cluster:
        people(cluster.home)
        (cluster.home / "job.toml").write_text(LOCAL.replace("out/private.parquet", "out/visits-private.parquet"))
        (cluster.home / "answers.toml").write_text(CHARGED)
        (cluster.home / "shipped.txt").write_text("not private")
        cluster.start()
        yield cluster


def test_the_commands_of_the_page_run_its_jobs(cluster):
    assert [line.split()[1] for line in cluster.jobs] == ["privatize", "estimate", "ledger", "release"]
    for line in cluster.jobs:
        done = cluster.run(line)
        assert done.returncode == 0, f"{line}\n{done.stderr}"
        assert "warning" not in done.stderr
    assert (cluster.home / "out" / "answers.json").is_file()
    shown_again = cluster.run(f"{cluster.jobs[1]} --json")
    assert json.loads(shown_again.stdout)["rows"] == ROWS
    assert (cluster.home / "cluster").stat().st_mode & 0o777 == 0o700
    assert cluster.conf.stat().st_mode & 0o777 == 0o600
    assert "warning" not in json.loads(cluster.run("dpcore info --json").stdout)


def ended(job: subprocess.Popen, seconds: float = 300) -> str:
    """What a job prints until it ends; one that does not end in time is killed."""
    try:
        return job.communicate(timeout=seconds)[0]
    finally:
        if job.poll() is None:
            job.kill()  # its Java ends when nobody holds its input
            job.wait()


def test_every_port_of_the_cluster_asks_for_the_secret_or_is_for_this_machine_alone(cluster):
    end = cluster.home / "end"
    job = cluster.popen(f"python -c '{WAITING}' {cluster.url} shipped.txt {end}")
    try:
        assert job.stdout.readline() == "running\n"
        roles = dict(zip(("master", "worker", "worker 2"), cluster.processes, strict=True)) | {"job": job}
        deadline = time.monotonic() + 120
        while any(not descendants(process.pid, EXECUTOR) for process in cluster.processes[1:]) and time.monotonic() < deadline:
            time.sleep(0.5)
        time.sleep(3)  # the Python of the executors
        places = {place: role for role, process in roles.items() for place in listening(process.pid)}
        with pytest.raises(urllib.error.URLError):
            urllib.request.urlopen(f"http://{FIRST}:6066/", timeout=5)
        files = {"a shipped file": "/files/shipped.txt"}
        with ThreadPoolExecutor(len(places)) as threads:
            found = dict(zip(places, threads.map(lambda place: shown(place, **files), places), strict=True))
        driver = [place for place, seen in found.items() if "a shipped file" in seen]
        assert b"not private" in ask(driver[0], stream("/files/shipped.txt"))
    finally:
        end.touch()
        said = ended(job)
    assert said == "64\n"
    assert {place for place in places if place[0] in WIDE} == set()
    assert {place[0] for place in places} == {OWN, FIRST, SECOND}
    network = {place for place in places if place[0] != OWN}
    assert len(network) >= 1 + 2 + 2 + 2  # the master, the workers, the two of the job, an executor each
    # What the page says of the network: nothing without the secret, but for files that a job ships.
    assert {place: seen for place, seen in found.items() if place in network and seen} == {place: ["a shipped file"] for place in driver}
    assert len(driver) == 1
    assert places[driver[0]] == "job"
    # And of this machine: the pages of master and workers, and no other.
    pages = {place: seen for place, seen in found.items() if place[0] == OWN and seen}
    assert all(seen == ["a page"] for seen in pages.values())
    assert sorted(places[place] for place in pages) == ["master", "worker", "worker 2"]


def test_a_job_that_does_not_end_is_killed():
    job = subprocess.Popen(["sleep", "600"], stdout=subprocess.PIPE, text=True)
    with pytest.raises(subprocess.TimeoutExpired):
        ended(job, 0.1)
    assert job.returncode < 0
    job.stdout.close()


def test_a_cluster_without_the_secret_is_seen(tmp_path):
    """The twin: what looks at ports finds requests that are read, and a page on the network."""
    with PageCluster(tmp_path / "home", ["spark.authenticate false", "spark.master.rest.enabled false"]) as cluster:
        cluster._exports[-1] = f"export SPARK_LOCAL_IP={FIRST}"
        cluster.start(workers=False)
        deadline = time.monotonic() + 60
        while len(places := listening(cluster.processes[0].pid)) < 2 and time.monotonic() < deadline:
            time.sleep(0.5)
        found = {place: shown(place) for place in places}
    assert found.pop((FIRST, cluster.port)) == ["requests are read"]
    assert list(found.values()) == [["a page"]]


def test_the_page_has_a_row_for_every_kind_of_port():
    text = PAGE.read_text(encoding="utf-8")
    rows = [line for line in text.partition("### Ports")[2].partition("###")[0].splitlines() if line.startswith("|")]
    for word in ("7077", "SPARK_WORKER_PORT", "spark.driver.port", "spark.blockManager.port", "8080, 8081", "6066", "4040", "7337"):
        assert sum(word in row for row in rows) == 1, word
    making = "\n".join(commands(text))
    assert "spark.master.rest.enabled false" in making
