"""OpenDP for the tests of dpcore.interop.opendp: the version that they are for, its features, and the spaces that they use."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata

import pytest

dp = pytest.importorskip("opendp.prelude", reason="make test-interop PEER=opendp")
if not metadata.version("opendp").startswith("0.16"):
    pytest.skip("other peers need other versions of OpenDP; make test-interop PEER=opendp", allow_module_level=True)

FEATURES = ("contrib", "honest-but-curious")
SUMS = {"laplace": dp.l1_distance, "gaussian": dp.l2_distance}
"""Metrics of many numbers that go with the noise."""


@contextmanager
def features(*names: str) -> Iterator[None]:
    """Exactly these features of OpenDP are enabled."""
    from opendp.mod import GLOBAL_FEATURES

    before = set(GLOBAL_FEATURES)
    GLOBAL_FEATURES.clear()
    GLOBAL_FEATURES.update(names)
    try:
        yield
    finally:
        GLOBAL_FEATURES.clear()
        GLOBAL_FEATURES.update(before)


def atoms(kind="f64"):
    """The domain of all numbers of a type."""
    return dp.atom_domain(T=kind, nan=False) if kind.startswith("f") else dp.atom_domain(T=kind)


def number_space(kind="f64"):
    """Single numbers."""
    return atoms(kind), dp.absolute_distance(T=kind)


def list_space(noise="laplace", kind="f64", size=None):
    """Lists of numbers, with the metric of the noise."""
    return dp.vector_domain(atoms(kind), size), SUMS[noise](T=kind)


def array_space(shape, noise="laplace", kind="f64"):
    """Arrays of NumPy, with the metric of the noise."""
    return dp.numpy.arrayd_domain(shape=shape, T=kind), SUMS[noise](T=kind)


def score_space(kind="f64", *, monotonic=False):
    """Scores of which one is chosen."""
    return dp.vector_domain(atoms(kind)), dp.linf_distance(T=kind, monotonic=monotonic)
