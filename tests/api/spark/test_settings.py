"""Sessions that are set otherwise than the protocol needs are refused with the setting, its value and what to set. No Java runs here."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import dpcore
from dpcore._version import __version__, code_digest
from dpcore.errors import DataError, JobError, ParameterTypeError
from dpcore.rng import STREAM_VERSION
from dpcore.spark import settings, workers
from dpcore.spark.failures import from_spark, sealed
from dpcore.spark.workers import Stamp, judge, stamp

RIGHT = {
    "spark.io.encryption.enabled": "true",
    "spark.authenticate": "true",
    "spark.network.crypto.enabled": "true",
}
RUNTIME = {"spark.sql.adaptive.enabled": "false"}


class Conf(dict):
    """Settings, static ones as `getAll` and the others as `get`."""

    def getAll(self):
        return list(self.items())


def session(master="local-cluster[2,1,1024]", version="4.3.0", module="pyspark.sql.session", runtime=(), **conf):
    """What looks like a session."""
    static = Conf(RIGHT | {name.replace("_", "."): value for name, value in conf.items()})
    context = type("SparkContext", (), {"master": master, "getConf": lambda self: static})()
    kind = type("SparkSession", (), {"__module__": module})
    made = kind()
    made.sparkContext, made.version, made.conf = context, version, Conf(RUNTIME | dict(runtime))
    return made


def refusal(made) -> str:
    with pytest.raises(JobError) as caught:
        settings.check(made)
    return str(caught.value)


@pytest.mark.parametrize("master", ["local[*]", "local-cluster[2,1,1024]", "yarn", "k8s://https://host", "spark://host:7077"])
def test_what_is_set_right_is_accepted(master):
    settings.check(session(master))


@pytest.mark.parametrize("name", [*RIGHT, "spark.sql.adaptive.enabled"])
def test_each_setting_is_needed(name):
    made = session(runtime={name: "true"} if "sql" in name else {}, **{name: "false"})
    said = refusal(made)
    wanted = "false" if "sql" in name else "true"
    assert f"{name} is '{'true' if 'sql' in name else 'false'}': it must be '{wanted}', because" in said


def test_settings_that_nobody_set_have_the_values_of_spark():
    made = session()
    made.sparkContext.getConf().clear()
    made.conf.clear()
    said = refusal(made)
    for name in (*RIGHT, "spark.sql.adaptive.enabled"):
        assert name in said
    assert "algorithm.version" not in said


def test_one_machine_needs_no_encrypted_network():
    made = session("local[4]", spark_network_crypto_enabled="false", spark_authenticate="false")
    settings.check(made)


def test_tls_encrypts_as_well_since_spark_4_but_asks_for_no_secret(monkeypatch):
    settings.check(session(spark_network_crypto_enabled="false", spark_ssl_rpc_enabled="true"))
    assert "spark.authenticate is 'false'" in refusal(session(spark_authenticate="false", spark_ssl_rpc_enabled="true"))
    old = session(version="3.5.9", spark_network_crypto_enabled="false", spark_ssl_rpc_enabled="true")
    assert "spark.network.crypto.enabled is 'false'" in refusal(old)
    for version, given in [((3, 5), "spark.network.crypto.enabled"), ((4, 0), "spark.authenticate")]:
        monkeypatch.setattr(settings, "spark_version", lambda version=version: version)
        with pytest.raises(JobError, match=f"{given} is 'false'"):
            settings.check_conf({given: "false", "spark.ssl.rpc.enabled": "true"}, "yarn")
    settings.check_conf({"spark.network.crypto.enabled": "false", "spark.ssl.rpc.enabled": "true"}, "yarn")


def test_no_secret_of_a_session_is_on_the_command_line_of_java(monkeypatch):
    """Every user of a machine sees command lines; what Java needs before it starts is there, and no key."""
    pytest.importorskip("pyspark")
    from pyspark import SparkContext, java_gateway

    from dpcore.errors import StorageError
    from dpcore.spark import session as sessions

    seen = {}

    def launch(conf):
        seen.update(conf.getAll())
        raise OSError

    monkeypatch.setattr(sessions, "home", lambda: "/nowhere")
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    monkeypatch.setattr(SparkContext, "_gateway", None)
    monkeypatch.setattr(java_gateway, "launch_gateway", launch)
    names = ["spark.authenticate.secret", "spark.hadoop.fs.s3a.secret.key", "spark.hadoop.fs.s3a.access.key", "spark.ssl.rpc.keyPassword"]
    names += ["spark.hadoop.fs.azure.account.key.store.blob.core.windows.net", "spark.hadoop.fs.s3a.session.token"]
    with pytest.raises(StorageError, match="Java did not start"):
        sessions._started(dict.fromkeys(names, "hush") | {"spark.driver.memory": "1g"}, "name")
    assert seen == {"spark.driver.memory": "1g"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("spark.sql.files.ignoreMissingFiles", "true"),
        ("spark.sql.files.ignoreCorruptFiles", "true"),
    ],
)
def test_files_must_not_be_left_out_silently(name, value):
    assert name in refusal(session(runtime={name: value}))


def test_a_committer_that_shows_unfinished_files_is_refused():
    name = "spark.hadoop.mapreduce.fileoutputcommitter.algorithm.version"
    assert f"{name} is '2'" in refusal(session(**{name: "2"}))


def test_a_pattern_that_shows_secrets_is_refused():
    assert "spark.redaction.regex" in refusal(session(**{"spark.redaction.regex": "(?i)password"}))
    assert "spark.redaction.regex" in refusal(session(**{"spark.redaction.regex": "("}))
    settings.check(session(**{"spark.redaction.regex": "(?i)secret|password"}))


def test_settings_of_a_running_session_come_with_the_call_that_sets_them():
    said = refusal(session(runtime={"spark.sql.adaptive.enabled": "true"}))
    assert said.endswith('spark.conf.set("spark.sql.adaptive.enabled", "false")')


def test_an_old_spark_is_refused():
    assert refusal(session(version="3.4.1")) == "Spark 3.4 is too old: dpcore runs on Spark 3.5 or later"
    settings.check(session(version="3.5.9-amzn-1"))


def test_other_objects_are_refused():
    with pytest.raises(ParameterTypeError, match=r"must be a pyspark\.sql\.SparkSession, got dict"):
        settings.check({})
    with pytest.raises(ParameterTypeError, match="Spark Connect"):
        settings.check_is_session(session(module="pyspark.sql.connect.session"))


@pytest.mark.parametrize("conf", [{"spark.submit.deployMode": "cluster"}, {"spark.kubernetes.submitInDriver": "true"}])
def test_a_ledger_needs_a_disk_that_stays(conf):
    with pytest.raises(JobError, match=r"^\[ledger\] path is 'a.ledger': the driver runs in the cluster"):
        settings.check_durable(session(**conf), "a.ledger")
    settings.check_durable(session(**conf, **{settings.DURABLE: "true"}), "a.ledger")
    settings.check_durable(session(**{"spark.submit.deployMode": "client"}), "a.ledger")


def test_settings_for_a_new_session_must_not_contradict():
    with pytest.raises(JobError, match=r"spark.io.encryption.enabled is 'false'"):
        settings.check_conf({"spark.io.encryption.enabled": "false"}, "local[2]")
    settings.check_conf({"spark.network.crypto.enabled": "false"}, "local[2]")
    with pytest.raises(JobError, match=r"spark.network.crypto.enabled"):
        settings.check_conf({"spark.network.crypto.enabled": "false"}, "yarn")


# Workers

CODE = code_digest()


def report(host, version=__version__, stream=STREAM_VERSION, code=CODE):
    return (host, version, stream, code, "baseline" if version else "ModuleNotFoundError", "3.11.7", 1000)


def test_workers_that_agree_are_accepted():
    judge([report("a"), report("b")])
    stamp().check()


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (report("b", ""), r"b: dpcore cannot be imported by its Python 3\.11\.7 \(ModuleNotFoundError\)"),
        (report("b", "0.0.1"), r"b: dpcore 0\.0\.1 \(stream"),
        (report("b", __version__, STREAM_VERSION + 1), rf"b: dpcore {__version__} \(stream {STREAM_VERSION + 1}, code {CODE[:12]}\)"),
        (report("b", __version__, STREAM_VERSION, "f" * 64), rf"b: dpcore {__version__} \(stream {STREAM_VERSION}, code ffffffffffff\)"),
        (report("b", "0.1.0", 2, ""), r"b: dpcore 0\.1\.0 \(stream 2\), and Python"),
    ],
)
def test_one_that_does_not_agree_stops_the_job(other, words):
    with pytest.raises(JobError, match=words) as caught:
        judge([report("a"), other, other])
    assert len(str(caught.value).splitlines()) == 3


def test_many_hosts_are_not_all_named():
    with pytest.raises(JobError) as caught:
        judge([report(f"host{number}", "") for number in range(100)])
    assert len(str(caught.value).splitlines()) == 11


def test_a_late_executor_is_found_by_its_task():
    with pytest.raises(JobError, match=r"has dpcore .* the driver 0\.0\.0"):
        Stamp("0.0.0", 1).check()
    same = stamp()
    with pytest.raises(
        JobError,
        match=rf"has dpcore {__version__} \(stream {STREAM_VERSION}, code {CODE[:12]}\), "
        rf"the driver {__version__} \(stream {STREAM_VERSION}, code 0000",
    ):
        Stamp(same.version, same.stream, same.secret, "0" * 64).check()


# Two packages of one version

DIGEST = "from dpcore._version import __version__, code_digest; print(__version__, code_digest())"
REPORTED = "import pickle, sys; print(pickle.load(sys.stdin.buffer)(iter(()))[0][1:4])"


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """A copy of the installed package, for changes to it."""
    copied = tmp_path_factory.mktemp("other") / "dpcore"
    shutil.copytree(Path(dpcore.__file__).parent, copied, ignore=shutil.ignore_patterns("__pycache__"))
    return copied


def said_by(package, program=DIGEST, sent=b""):
    environment = os.environ | {"PYTHONPATH": str(package.parent), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([sys.executable, "-c", program], input=sent, capture_output=True, check=True, env=environment)
    return done.stdout.decode().strip()


@pytest.mark.long
def test_two_packages_of_one_version_and_other_code_are_told_apart(package):
    """As an executor reports them: a copy agrees, and one with a line more, one file more, or kernels of other sources does not."""
    cloudpickle = pytest.importorskip("pyspark.cloudpickle")
    sent = cloudpickle.dumps(workers._reporter(0.0))
    reported = ast.literal_eval(said_by(package, REPORTED, sent))
    assert reported == (__version__, STREAM_VERSION, CODE)
    judge([report("b", *reported)])
    for name in ("spark/part_tasks.py", "_kernels/sources.py", "zz_new.py"):
        changed = package / name
        before = changed.read_bytes() if changed.exists() else None
        assert before is not None or name == "zz_new.py"
        changed.write_bytes((before or b"") + b"# changed\n")
        reported = ast.literal_eval(said_by(package, REPORTED, sent))
        assert reported[:2] == (__version__, STREAM_VERSION)
        with pytest.raises(JobError, match=rf"b: dpcore {__version__} \(stream {STREAM_VERSION}, code {reported[2][:12]}\)"):
            judge([report("b", *reported)])
        changed.unlink() if before is None else changed.write_bytes(before)
    assert said_by(package) == f"{__version__} {CODE}"


def test_ends_of_lines_and_what_python_caches_do_not_count(package):
    text = (package / "rng.py").read_bytes()
    (package / "rng.py").write_bytes(text.replace(b"\n", b"\r\n"))
    (package / "__pycache__").mkdir()
    (package / "__pycache__" / "rng.cpython-311.pyc").write_bytes(b"cached")
    assert said_by(package) == f"{__version__} {CODE}"


WITHOUT = """
import pickle, sys
sys.modules["dpcore"] = None
print(pickle.load(sys.stdin.buffer)(iter(())))
"""


def test_the_function_that_asks_needs_no_dpcore():
    cloudpickle = pytest.importorskip("pyspark.cloudpickle")
    sent = cloudpickle.dumps(workers._reporter(0.0))
    done = subprocess.run([sys.executable, "-c", WITHOUT], input=sent, capture_output=True, check=True)
    assert b", '', 0, '', 'ModuleNotFoundError', '3." in done.stdout
    assert workers._reporter(0.0)(iter(()))[0][1:4] == (__version__, STREAM_VERSION, CODE)


# Failures


class FailureError(Exception):
    """As Spark raises."""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x\ndpcore.errors.DataError: {sealed}\n SQLSTATE: 38000\n\tat org", "^column 'age': row 5$"),
        ("ModuleNotFoundError: No module named 'dpcore'", "the Python of an executor has no dpcore"),
        ("java.io.IOException: No space left on device", "a disk of the cluster is full"),
        ("ExecutorLostFailure (executor 3 exited", "an executor was lost too often"),
        ("[CAST_INVALID_INPUT] The value 'secret'", r"\(FailureError\)"),
        ("something that quotes 'secret'", r"\(FailureError\)"),
    ],
)
def test_failures_have_words_and_no_cells(text, words):
    text = text.replace("{sealed}", str(sealed(DataError("column 'age': row 5"), stamp().secret)))
    with pytest.raises(Exception, match=words) as caught:
        raise from_spark(FailureError(text))
    assert "secret" not in str(caught.value)
    assert type(caught.value).__module__ == "dpcore.errors"


def test_errors_of_dpcore_stay_as_they_are():
    error = JobError("as it is")
    assert from_spark(error) is error


def test_java_that_is_gone_is_said():
    class GoneError(Exception):
        def __str__(self):
            raise ConnectionRefusedError

    assert "its Java has ended" in str(from_spark(GoneError()))
