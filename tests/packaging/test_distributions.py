"""An sdist can be made from the tree and a wheel from that sdist alone, and both hold what they should and nothing more."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import dpcore

pytestmark = pytest.mark.source_tree

SOURCE = re.compile(r"\.(py|pyi|pyx|pxd|c|h|j2|typed)$")
INTERPRETERS = ("cp311", "cp312", "cp313", "cp314", "cp314t")
EPOCH = "1750000000"
"""The time that files in archives have: then two builds have the same bytes."""
PLATFORMS = {
    "linux": ("manylinux_x86_64", "manylinux_aarch64", "musllinux_x86_64", "musllinux_aarch64"),
    "macos": ("macosx_x86_64", "macosx_arm64"),
    "windows": ("win_amd64",),
}


def run(*arguments: str, cwd: Path) -> str:
    # Variables that steer a compiler or setuptools would make another build than the one a user gets.
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("DPCORE_", "PYTHON", "DIST"))}
    environment["SOURCE_DATE_EPOCH"] = EPOCH
    done = subprocess.run([sys.executable, *arguments], cwd=cwd, env=environment, capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout


@pytest.fixture(scope="module")
def sdist(repository, tmp_path_factory):
    folder = tmp_path_factory.mktemp("sdist")
    run("-m", "build", "--sdist", "--no-isolation", "--outdir", str(folder), str(repository), cwd=folder)
    (path,) = folder.glob("*.tar.gz")
    return path


def built(sdist: Path, folder: Path, repository: Path) -> Path:
    """Build a wheel from what an sdist holds, with what the repository has compiled of the same sources."""
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    (tree,) = folder.iterdir()
    for path in filter(Path.is_file, tree.rglob("*")):
        if (twin := repository / path.relative_to(tree)).is_file():
            os.utime(path, (twin.stat().st_atime, twin.stat().st_mtime))
    if (repository / "build").is_dir():
        # Times are those of the repository: what is older than its source is compiled again.
        others = shutil.ignore_patterns("*.py", "*.pyi", "*.j2", "sanitize-*", "bdist*", "wheels")
        shutil.copytree(repository / "build", tree / "build", ignore=others)
        for made in (repository / "src/_kernels").glob("_*.c"):
            shutil.copy2(made, tree / "src/_kernels" / made.name)
    run("-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(tree), cwd=folder)
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def wheel(sdist, repository, tmp_path_factory):
    return built(sdist, tmp_path_factory.mktemp("wheel"), repository)


def names_in(archive: Path) -> set[str]:
    with zipfile.ZipFile(archive) as opened:
        return set(opened.namelist())


@pytest.mark.long
def test_an_sdist_alone_makes_the_same_wheel_offline(sdist, wheel, tmp_path):
    """In another folder, from nothing that was compiled before, without an index: each file has the same bytes, and so has the wheel."""
    run("-m", "pip", "wheel", "--no-build-isolation", "--no-index", "--no-deps", "--wheel-dir", str(tmp_path), str(sdist), cwd=tmp_path)
    (again,) = tmp_path.glob("*.whl")
    assert names_in(again) == names_in(wheel)
    with zipfile.ZipFile(again) as one, zipfile.ZipFile(wheel) as other:
        assert [name for name in one.namelist() if one.read(name) != other.read(name)] == []
    assert again.read_bytes() == wheel.read_bytes()


@pytest.mark.long
def test_two_sdists_of_one_tree_have_the_same_bytes(sdist, repository, tmp_path):
    listed = subprocess.run(["git", "ls-files", "-z", "-co", "--exclude-standard"], cwd=repository, capture_output=True, check=False)
    if listed.returncode:
        pytest.skip("no clone")
    tree = tmp_path / "another" / "and longer place"
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (repository / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(repository / name, tree / name)
            (tree / name).chmod(0o640 | (repository / name).stat().st_mode & 0o100)
    run("-m", "build", "--sdist", "--no-isolation", "--outdir", str(tmp_path), str(tree), cwd=tmp_path)
    (again,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(again) as one, tarfile.open(sdist) as other:
        assert one.getnames() == other.getnames()
        members = zip(one.getmembers(), other.getmembers(), strict=True)
        assert [each.name for each, twin in members if each.get_info() | {"chksum": 0} != twin.get_info() | {"chksum": 0}] == []
    assert again.read_bytes() == sdist.read_bytes()


@pytest.mark.long
def test_sdist_holds_what_a_build_and_the_tests_need(sdist, repository):
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    ours = {path.relative_to(repository).as_posix() for path in (repository / "src").rglob("*") if SOURCE.search(path.name)}
    made = {path.relative_to(repository).as_posix() for path in (repository / "src/_kernels").glob("_*.c")}
    assert len(ours) > 300
    assert ours - made - names == set()
    assert {
        "LICENSE",
        "Makefile",
        "README.md",
        "benchmarks",
        "docs/index.md",
        "examples/demo.py",
        "setup.py",
        "src/_kernels/_noise.pyx",
        "src/_kernels/_noise.pyi",
        "src/_kernels/include/dpk.h",
        "src/dpcore/frames/_methods.pyi",
        "src/dpcore/pages/templates/frame.html.j2",
        "src/dpcore/py.typed",
        "tests/conftest.py",
    } <= names
    made_by_a_build = [name for name in names if re.search(r"\.(so|pyd|o|a|pyc)$|^src/_kernels/[^/]*\.c$|^docs/_build", name)]
    assert made_by_a_build == []


@pytest.mark.long
def test_wheel_holds_the_package_and_nothing_else(wheel, repository):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert {name.split("/")[0] for name in names} == {"dpcore", f"dpcore-{dpcore.__version__}.dist-info"}
    endings = {Path(name).suffix for name in names if name.startswith("dpcore/")}
    assert endings <= {".py", ".pyi", ".so", ".pyd", ".typed", ".j2", ".toml", ".npz"}
    assert {"dpcore/py.typed", "dpcore/_kernels/sources.py"} <= set(names)
    templates = {path.name for path in (repository / "src/dpcore/pages/templates").iterdir()}
    assert {Path(name).name for name in names if name.startswith("dpcore/pages/templates/")} == templates
    assert "frame.html.j2" in templates
    assert {Path(name).name.split(".")[0] for name in names if name.endswith((".so", ".pyd"))} == {"_library"}
    modules = {f"dpcore/_kernels/{path.stem}.pyi" for path in (repository / "src/_kernels").glob("*.pyx")}
    assert {name for name in names if name.endswith(".pyi")} == {*modules, "dpcore/frames/_methods.pyi"}
    assert wheel.stat().st_size <= 3_000_000


@pytest.mark.long
def test_wheel_from_the_sdist_has_the_files_of_the_installed_package(wheel):
    installed = Path(dpcore.__file__).parent
    here = {path.relative_to(installed.parent).as_posix() for path in installed.rglob("*") if path.is_file() and path.suffix != ".pyc"}
    with zipfile.ZipFile(wheel) as archive:
        there = {name for name in archive.namelist() if name.startswith("dpcore/")}
    assert here == there


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="auditwheel reads Linux wheels")
def test_wheel_needs_no_newer_c_library_than_manylinux_2_28(wheel):
    pytest.importorskip("auditwheel")
    report = " ".join(run("-m", "auditwheel", "show", str(wheel), cwd=wheel.parent).split())
    allowed = re.search(r'platform tag: "manylinux_2_(\d+)_', report)
    assert allowed, report
    assert int(allowed[1]) <= 28, report


@pytest.mark.long
@pytest.mark.parametrize("platform", PLATFORMS)
def test_wheels_are_configured_for_every_interpreter_and_platform(platform, repository):
    pytest.importorskip("cibuildwheel")
    printed = run("-m", "cibuildwheel", "--platform", platform, "--print-build-identifiers", str(repository), cwd=repository)
    wanted = {f"{interpreter}-{tag}" for interpreter in INTERPRETERS for tag in PLATFORMS[platform]}
    assert set(printed.split()) == wanted
