"""The protocol at the size of a cluster: 10⁵ tasks with retries, speculation and lost executors, in one process without Spark."""

from __future__ import annotations

import itertools

import pytest

from dpcore.errors import StorageError
from dpcore.spark.noise_keys import batch_key
from support.cluster_simulation import MECHANISM, Cluster, problems


@pytest.mark.parametrize("named", [True, False])
def test_every_record_of_many_tasks_is_published_once_with_one_noise(named):
    cluster = Cluster(100_000, seed=18, named=named)
    assert problems(cluster, cluster.run()) == []
    assert min(cluster.counts["failed"], cluster.counts["speculated"], cluster.counts["ignored"]) > 1000
    assert cluster.counts["lost"] > 50


def test_a_driver_that_accepts_every_attempt_is_stopped():
    with pytest.raises(StorageError, match="two answers"):
        Cluster(2_000, seed=1, accepts_all=True).run()


class FreshNoise(Cluster):
    """A broken twin: each attempt draws anew."""

    def noise(self, attempt):
        self._next = getattr(self, "_next", None) or itertools.count()
        return next(self._next)


class PlacesAlone(Cluster):
    """A broken twin: noise that follows from the place of the batch."""

    def noise(self, attempt):
        return bytes(self.key.derived("noise", [attempt.partition.to_bytes(8, "little")]))


class ValuesAlone(Cluster):
    """A broken twin: noise that follows from the values of the batch."""

    def noise(self, attempt):
        import numpy as np
        import pyarrow as pa

        return bytes(batch_key(self.key, MECHANISM, [], pa.array(self.values(attempt.partition)[np.array(attempt.order)])))


@pytest.mark.parametrize(
    ("twin", "problem"),
    [
        (FreshNoise, "two noises for the same rows in the same order"),
        (PlacesAlone, "one noise on two values"),
        (ValuesAlone, "two batches share their noise"),
    ],
)
def test_broken_protocols_are_found(twin, problem):
    cluster = twin(2_000, seed=3)
    assert problem in problems(cluster, cluster.run())


def test_who_shares_noise_does_not_depend_on_values_where_rows_have_names():
    """Which attempts share their noise is the same for two tables that differ in every record; without names it is not."""

    def pattern(named: bool, scale: float):
        cluster = Cluster(3_000, seed=7, shuffled=1.0, named=named)
        values = cluster.values
        cluster.values = lambda partition: values(partition) * scale
        cluster.run()
        shared = []
        for partition in sorted(cluster.drawn):
            noises = [noise for _, noise in cluster.drawn[partition]]
            shared.append([noises.index(noise) for noise in noises])
        return shared

    assert pattern(named=True, scale=1.0) == pattern(named=True, scale=0.0)
    assert pattern(named=False, scale=1.0) != pattern(named=False, scale=0.0)
