"""Environments of other peers may have versions of a library that its own module was not tested with, and warns of."""

from __future__ import annotations

from importlib import metadata

import pytest

from dpcore.interop._peers import Peer


def only_tested(*peers: Peer) -> None:
    """Skip unless each peer is installed in a version that its module names."""
    for peer in peers:
        pytest.importorskip(peer.module, reason="make test runs it")
        version = metadata.version(peer.distribution)
        if not any(version == known or version.startswith(f"{known}.") for known in peer.tested):
            pytest.skip(f"{peer.distribution} {version}, which belongs to another peer's environment", allow_module_level=True)


def writes_views() -> bool:
    """Whether pyarrow writes columns of views to Parquet."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        pq.write_table(pa.table({"x": pa.array(["a"], pa.string_view())}), pa.BufferOutputStream())
    except pa.ArrowNotImplementedError:
        return False
    return True
