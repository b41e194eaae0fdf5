"""Sessions on other clusters: a standalone one with two machines, workers that die, and secrets that Spark does not show."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from dpcore.accounting import Ledger
from dpcore.errors import JobError, StorageError
from dpcore.spark import release
from dpcore.spark.watching import watched
from dpcore.spark.workers import check_workers
from support.spark import CONF, SPECULATION, Standalone, attempts, executors, kill_executor, run_alone

SPECULATES = """
import json, sys
from pathlib import Path
from dpcore.spark import make_session
from dpcore.spark.watching import watched
from dpcore.spark.workers import check_workers
from support.spark import second_attempt
url, conf = sys.argv[1], json.loads(sys.argv[2])
spark = make_session(url, conf=conf)
levels = check_workers(spark).levels
wait = second_attempt(Path(sys.argv[3]))

def then_wait(batches):
    yield from batches
    wait()

frame = spark.range(0, 800, 1, 8)
rows = watched(spark, lambda: frame.mapInArrow(then_wait, frame.schema).count())
spark.stop()
print(json.dumps({"rows": rows, "answers": sum(levels.values())}))
"""
SHOWN = """
import json, sys, urllib.request
from pathlib import Path
from dpcore.spark import make_session
folder = sys.argv[1]
conf = json.loads(sys.argv[2]) | {"spark.ui.enabled": "true", "spark.ui.port": "0", "spark.log.level": "INFO"}
conf |= {"spark.eventLog.enabled": "true", "spark.eventLog.dir": folder, "spark.eventLog.compress": "false"}
spark = make_session("local-cluster[2,1,1024]", conf=conf)
secret = spark.sparkContext.getConf().get("spark.authenticate.secret")
rows = spark.range(0, 10, 1, 2).count()
pages = []
for page in ("environment/", "jobs/", "executors/", "stages/", f"api/v1/applications/{spark.sparkContext.applicationId}/environment"):
    with urllib.request.urlopen(f"{spark.sparkContext.uiWebUrl}/{page}", timeout=60) as answer:
        pages.append(answer.read().decode())
listed = str(spark.sql("SET -v").collect()) + str(spark.sql("SET").collect())
commands = []
for path in Path("/proc").glob("[0-9]*/cmdline"):
    try:
        commands.append(path.read_bytes().decode(errors="replace"))
    except OSError:
        pass
spark.stop()
events = [path.read_text(errors="replace") for path in Path(folder).rglob("*") if path.is_file()]
print(json.dumps({"secret": secret, "pages": pages, "listed": listed, "commands": commands, "events": events}))
"""


def last_line(done: subprocess.CompletedProcess) -> dict:
    return json.loads(done.stdout.splitlines()[-1])


def test_a_standalone_cluster_of_two_machines_speculates(tmp_path):
    with Standalone(tmp_path / "cluster") as cluster:
        conf = CONF | cluster.conf | SPECULATION | {"spark.local.dir": str(tmp_path / "local")}
        arguments = (cluster.url, json.dumps(conf), str(tmp_path / "attempts"))
        found = last_line(run_alone(SPECULATES, *arguments, PYTHONPATH=str(Path(__file__).resolve().parents[1])))
    assert found["rows"] == 800
    assert found["answers"] >= 4
    assert {"0-0", "0-1"} <= attempts(tmp_path / "attempts")


def test_a_standalone_cluster_needs_its_secret(tmp_path):
    program = "import sys\nfrom dpcore.spark import make_session\nmake_session(sys.argv[1], conf={'spark.driver.memory': '512m'})"
    with socket.create_server(("127.0.0.1", 0)) as there:
        done = run_alone(program, f"spark://127.0.0.1:{there.getsockname()[1]}", check=False)
    assert "JobError: spark.authenticate.secret is not set: a standalone cluster has one secret" in done.stderr


def test_a_killed_executor_is_replaced_and_the_job_goes_on(spark, tmp_path):
    folder = str(tmp_path)
    victims = []

    def marked(batches):
        import pathlib
        import time

        from pyspark import TaskContext

        pathlib.Path(folder, str(TaskContext.get().partitionId())).touch()
        time.sleep(0.3)
        yield from batches

    def kill_when_it_runs(done, total):
        if not victims and list(tmp_path.iterdir()):
            victims.append(kill_executor(spark))

    frame = spark.range(0, 1200, 1, 12)
    assert watched(spark, lambda: frame.mapInArrow(marked, frame.schema).count(), kill_when_it_runs) == 1200
    assert victims
    assert victims[0] not in executors(spark)


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"__init__.py": "raise ImportError"}, r"dpcore cannot be imported by its Python 3\.\S+ \(ImportError\)"),
        (
            {
                "__init__.py": "__version__ = '0.0.1'",
                "_version.py": "__version__ = '0.0.1'",
                "rng.py": "STREAM_VERSION = 1",
                "_backend.py": "selected_level = lambda: 'baseline'",
            },
            r"dpcore 0\.0\.1 \(stream 1\)",
        ),
    ],
)
def test_executors_with_another_dpcore_stop_a_job_before_it_spends(spark, tmp_path, monkeypatch, files, words):
    (tmp_path / "there" / "dpcore").mkdir(parents=True)
    for name, text in files.items():
        (tmp_path / "there" / "dpcore" / name).write_text(text)
    other = tmp_path / "python"
    other.write_text(f'#!/bin/sh\nPYTHONPATH="{tmp_path}/there:$PYTHONPATH" exec {sys.executable} "$@"\n')
    other.chmod(0o700)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(other))
    with pytest.raises(JobError, match=words):
        check_workers(spark)
    query = {"name": "rows", "kind": "count", "epsilon": 1.0}
    job = {"version": 1, "privacy": {"max_epsilon": 1.0}, "output": {"path": str(tmp_path / "answers.json")}, "query": [query]}
    job["ledger"] = {"path": str(tmp_path / "a.ledger")}
    Ledger.create(tmp_path / "a.ledger", epsilon=2.0)
    with pytest.raises(JobError, match="executors do not have the dpcore of the driver"):
        release(spark.range(10), job)
    assert list(Ledger(tmp_path / "a.ledger").entries()) == []
    assert not (tmp_path / "answers.json").exists()


def test_a_worker_that_dies_for_good_ends_the_job_in_words(spark):
    def die(batches):
        import os
        import signal

        os.kill(os.getpid(), signal.SIGKILL)
        yield from batches

    frame = spark.range(0, 100, 1, 2)
    with pytest.raises(StorageError, match=r"the Python of an executor ended unexpectedly, too often; the logs of the workers say why"):
        watched(spark, lambda: frame.mapInArrow(die, frame.schema).count())


def test_the_secret_of_the_network_is_shown_nowhere(tmp_path):
    (tmp_path / "events").mkdir()
    conf = CONF | {"spark.local.dir": str(tmp_path / "local")}
    done = run_alone(SHOWN, str(tmp_path / "events"), json.dumps(conf))
    found = last_line(done)
    secret = found.pop("secret")
    assert re.fullmatch("[0-9a-f]{64}", secret)
    assert len(found["events"]) >= 1
    assert "spark.io.encryption.enabled" in found["pages"][0]
    assert secret not in json.dumps(found) + done.stderr + "".join(done.stdout.splitlines()[:-1])
    work = Path(pyspark.__file__).parent / "work"
    logs = [path for path in work.rglob("std*") if path.is_file()] if work.exists() else []
    assert not any(secret in path.read_text(errors="replace") for path in logs)
