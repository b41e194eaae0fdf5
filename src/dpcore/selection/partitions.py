"""Selection of partitions: which keys of a table may be named at all."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from dpcore import _backend
from dpcore._exact.pending import MOST_UNITS
from dpcore._validation import INTEGER_DTYPES, check_array, check_choice, check_integer, check_positive, check_real, check_threads
from dpcore.errors import DataError, ParameterError
from dpcore.privacy import Relation
from dpcore.rng import Stream, resolve
from dpcore.selection._partition_rules import METHODS, PartitionMethod, PartitionRule, partition_rule

MOST_PARTITIONS = 2**31 - 1


def select_partitions(
    counts: npt.ArrayLike,
    epsilon: float,
    delta: float,
    *,
    max_partitions: int = 1,
    relation: Relation = "add_remove",
    method: PartitionMethod = "best",
    rng: Stream | None = None,
    threads: int | None = None,
) -> npt.NDArray[np.bool_]:
    r"""Decide for each partition of the data whether its key may be released.

    Group rows by a key that is not public, such as a word or an address, and the mere presence of a key can reveal a person. Count the
    *distinct units* of each key, pass the counts, and publish the keys where the result is true, in an order that does not depend on the
    data (sorted, say), and nothing about the others, not even how many they are. Statistics of the released groups cost a further ε.

    Parameters
    ----------
    counts : array_like of integers, shape (d,)
        Distinct units n of each partition, in [0, 2^62].
    epsilon : float
        Privacy loss ε of the whole call, positive and finite.
    delta : float
        Failure mass δ of the whole call, in (0, 1).
    max_partitions : int, default 1
        Partitions g to which one unit belongs at most, in [1, 2^31). Drop the excess before you count.
    relation : {"add_remove", "replace"}, default "add_remove"
        Whether neighbouring tables differ by the presence of one unit, or by what one unit's rows hold.
    method : {"best", "truncated_geometric", "gaussian"}, default "best"
        "truncated_geometric": each partition alone by the largest probabilities that are possible. "gaussian": a threshold on counts with
        Gaussian noise. "best": the one of them that releases a smaller count with probability ½; this depends on the parameters only.
    rng : Stream, optional
        None is the secure source.
    threads : int, optional
        Number of threads; default min(CPU affinity, cgroup quota, DPCORE_NUM_THREADS).

    Returns
    -------
    ndarray of bool, shape (d,)
        True where the key is released. A partition without units never is.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is outside its range or of the wrong type, or if Gaussian noise has no scale for (ε, δ).
    DataError
        If a count is negative or above 2^62.
    EntropyError
        If the operating system gives no randomness.

    Notes
    -----
    Guarantee: (ε, δ)-differential privacy of the set of released keys. A unit changes m counts by 1, m = g under add_remove and 2g under
    replace, where it leaves g partitions and enters g others. Each decision is (ε/m, δ/m)-private for "truncated_geometric", which
    composes; for "gaussian" the noise is (ε, δ/2)-private for the ℓ2 sensitivity √m, and the at most m partitions that one table has and
    the other has not are released with probability δ/2 at most. Decisions compare real numbers, so that they have exactly this law.

    Cost: 5 ns a partition for "truncated_geometric"; 2 to 500 ms for the first call with new parameters.

    Source: Desfontaines et al. (2022), Theorem 1, which proves that no other rule with (ε, δ)-privacy for one partition a unit releases
    more; Korolova et al. (2009) for thresholds on noisy counts. docs/exactness-partitions.md has the proofs.

    Examples
    --------
    >>> import numpy as np
    >>> keys = np.array(["asthma", "gout", "hives"])
    >>> keys[select_partitions([0, 45_000, 2_100], epsilon=1.0, delta=1e-8)].tolist()
    ['gout', 'hives']
    """
    plain = (
        type(epsilon) is float and type(delta) is float and type(max_partitions) is int and type(relation) is str and type(method) is str
    )
    rule = (_kept_rule if plain else check_rule)(epsilon, delta, max_partitions, relation, method)
    array = check_array("counts", counts, INTEGER_DTYPES)
    if array.ndim != 1:
        raise ParameterError(f"counts must be one-dimensional, got shape {array.shape}")
    check_threads(threads)
    stream = None if rng is None else resolve(rng)
    place = _backend.first_outside(array, MOST_UNITS + 1, threads)
    if place >= 0:
        raise DataError(f"counts must be in [0, 2**62], but the one at index {place} is not")
    return rule.release(array, stream, threads)


def partition_probability(
    count: int,
    epsilon: float,
    delta: float,
    *,
    max_partitions: int = 1,
    relation: Relation = "add_remove",
    method: PartitionMethod = "best",
) -> float:
    r"""Return the probability that `select_partitions` releases a partition.

    Parameters
    ----------
    count : int
        Its number n of distinct units, in [0, 2^62].
    epsilon : float
        Privacy loss ε, positive and finite.
    delta : float
        Failure mass δ, in (0, 1).
    max_partitions : int, default 1
        Partitions to which one unit belongs at most, in [1, 2^31).
    relation : {"add_remove", "replace"}, default "add_remove"
        The neighbours.
    method : {"best", "truncated_geometric", "gaussian"}, default "best"
        As in `select_partitions`.

    Returns
    -------
    float
        The probability; correct to the last digits.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is outside its range or of the wrong type, or if Gaussian noise has no scale for (ε, δ).

    Notes
    -----
    Guarantee: it depends on the parameters only, and so costs nothing.

    Cost: 2 to 500 ms for new parameters, then 0.1 ms.

    Source: Desfontaines et al. (2022), Theorem 1.

    Examples
    --------
    >>> [round(partition_probability(n, 1.0, 1e-5), 6) for n in (0, 1, 2, 10, 12, 20)]
    [0.0, 1e-05, 3.7e-05, 0.128183, 0.760311, 0.999925]
    """
    count = check_integer("count", count, low=0, high=MOST_UNITS)
    return check_rule(epsilon, delta, max_partitions, relation, method).probability(count)


def check_rule(epsilon: object, delta: object, max_partitions: object, relation: Any, method: Any) -> PartitionRule:
    """Check the parameters, and find their rule."""
    epsilon = check_positive("epsilon", epsilon)
    delta = check_real("delta", delta, low=0.0, high=1.0, include_low=False, include_high=False)
    touched = check_integer("max_partitions", max_partitions, low=1, high=MOST_PARTITIONS)
    check_choice("relation", relation, ("add_remove", "replace"))
    check_choice("method", method, METHODS)
    return partition_rule(epsilon, delta, touched, relation, method)


_kept_rule = lru_cache(maxsize=1024)(check_rule)
