"""What a release uploads, and who may."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.release_files import INTERPRETERS, MOST_BYTES, mistakes

pytestmark = pytest.mark.source_tree

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = ROOT / ".github" / "workflows"
TAGS = (
    "manylinux_2_27_x86_64.manylinux_2_28_x86_64",
    "manylinux_2_28_aarch64",
    "musllinux_1_2_x86_64",
    "musllinux_1_2_aarch64",
    "macosx_10_13_x86_64",
    "macosx_11_0_arm64",
    "win_amd64",
)


@pytest.fixture
def release(tmp_path):
    """A folder with the files of a release, all of them small."""
    (tmp_path / "dpcore-1.2.3.tar.gz").write_bytes(b"")
    for interpreter in INTERPRETERS:
        for platform in TAGS:
            (tmp_path / f"dpcore-1.2.3-{interpreter}-{platform}.whl").write_bytes(b"")
    return tmp_path


def test_a_whole_release_is_taken(release):
    assert mistakes(release, "v1.2.3") == mistakes(release, None) == []
    script = ROOT / "tests" / "support" / "release_files.py"
    for reference, code in (("tag v1.2.3", 0), ("branch main", 0), ("tag v1.2.4", 1)):
        assert subprocess.run([sys.executable, script, release, *reference.split()], check=False, capture_output=True).returncode == code


def test_what_is_wrong_is_said(release):
    assert mistakes(release, "v1.3.0") == ["the tag v1.3.0 is not that of version 1.2.3"]
    (release / "dpcore-1.2.3-cp313-cp313-win_amd64.whl").unlink()
    (release / "dpcore-1.2.3.tar.gz").rename(release / "notes.txt")
    with (release / "dpcore-1.2.3-cp311-cp311-win_amd64.whl").open("wb") as file:
        file.truncate(MOST_BYTES + 1)
    (release / "dpcore-1.2.3-cp311-cp311-linux_x86_64.whl").write_bytes(b"")
    assert [re.sub(r"\\", "", words) for words in mistakes(release, "v1.2.3")] == [
        "0 files are like dpcore-1.2.3.tar.gz",
        "0 files are like dpcore-1.2.3-cp313-cp313-win_amd64.whl",
        "dpcore-1.2.3-cp311-cp311-linux_x86_64.whl is not a file of a release",
        "notes.txt is not a file of a release",
        "dpcore-1.2.3-cp311-cp311-win_amd64.whl has more than 3,000,000 bytes",
    ]
    (release / "dpcore-1.2.4.tar.gz").write_bytes(b"")
    assert mistakes(release, None) == ["files of one version are expected, not of ['1.2.3', '1.2.4']"]


def jobs(workflow: str) -> dict[str, str]:
    """The text of each job of a workflow."""
    text = (WORKFLOWS / workflow).read_text(encoding="utf-8").partition("\njobs:\n")[2]
    parts = re.split(r"^  (\w[\w-]*):$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_only_approved_jobs_may_upload():
    """The index trusts the workflow, so a job that may ask for a token uploads and does nothing else; no secret is anywhere."""
    release = jobs("release.yml")
    assert list(release) == ["build", "check", "testpypi", "pypi"]
    assert {name for name, text in release.items() if "id-token: write" in text} == {"testpypi", "pypi"}
    for name, needed in (("check", "build"), ("testpypi", "check"), ("pypi", "testpypi")):
        assert f"needs: {needed}\n" in release[name]
    for name in ("testpypi", "pypi"):
        assert f"environment: {name}\n" in release[name]
        assert "- run:" not in release[name]
        assert "checkout" not in release[name]
    assert "if: github.ref_type == 'tag'\n" in release["pypi"]
    for path in WORKFLOWS.glob("*.yml"):
        text = path.read_text(encoding="utf-8")
        assert "secrets." not in text, path
        assert "password" not in re.sub("#.*", "", text), path
        assert "\npermissions:\n  contents: read\n" in text, path
        # What a stranger writes into a title or a branch must not become a command.
        assert not re.search(r"run:.*\$\{\{ *github\.", text), path


def test_no_page_installs_from_an_index():
    """No index has the name, so that somebody else could take it: what people install is their clone."""
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]
    assert len(pages) > 80
    lines = [f"{path.name}: {line}" for path in pages for line in path.read_text(encoding="utf-8").splitlines()]
    assert [line for line in lines if re.search(r"pip3? install (-\S+ )*['\"]?dpcore", line)] == []
