"""The hidden folders of a job on Spark are for its owner alone where driver and executors are one user; the output has its usual rights."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dpcore.spark import own_files, privatize
from dpcore.spark.workers import Workers
from support.spark_noise import is_complete, job, rows_of, write_input


@pytest.fixture(scope="module")
def people(spark, tmp_path_factory):
    return spark.read.parquet(write_input(tmp_path_factory.mktemp("people") / "in"))


@pytest.fixture
def usual_umask():
    """The one that most systems have."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def rights(folder: Path) -> int:
    return folder.stat().st_mode & 0o777


def written(people, folder: Path, committer: str) -> dict[str, set[int]]:
    """Rights of the hidden folders while the job runs."""
    seen: dict[str, set[int]] = {".spill": set(), ".tmp": set()}

    def look(done, total):
        for ending, found in seen.items():
            for hidden in folder.parent.glob(f".{folder.name}.*{ending}"):
                found.add(rights(hidden))

    privatize(people, job()).write(folder, committer=committer, progress=look)
    assert is_complete(rows_of(folder))
    return seen


@pytest.mark.parametrize("committer", ["dpcore", "spark"])
def test_hidden_folders_are_for_the_owner_alone(people, tmp_path, usual_umask, committer):
    assert written(people, tmp_path / "out", committer) == {".spill": {0o700}, ".tmp": {0o700}}
    assert rights(tmp_path / "out") == 0o755
    assert {rights(path) for path in (tmp_path / "out").iterdir()} == {0o644}


def test_executors_of_another_user_can_write_as_the_umask_says(people, tmp_path, usual_umask, monkeypatch):
    monkeypatch.setattr(own_files, "check_workers", lambda spark: Workers({}, have_own_user=False))
    os.umask(0o007)
    assert written(people, tmp_path / "out", "dpcore") == {".spill": {0o770}, ".tmp": {0o770}}
    assert rights(tmp_path / "out") == 0o770
