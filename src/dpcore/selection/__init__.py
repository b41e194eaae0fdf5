"""Noisy selection: which of many scores is largest, and which keys of a table may be named.

`select_partitions` decides about keys that are not public, by how many units have each. The other functions choose among scores that are
listed in advance: each adds noise to every score and releases the index (or the label) of the largest sum, or of the s largest. The sums
are compared as real numbers: where two floating-point sums are too close, further random bits decide, so the choice is that of the ideal
mechanism. The noisy scores themselves are never released; `top_s(..., values=True)` draws fresh noise for the numbers it returns.

Sensitivity is Δ = ``max |u_i(x) − u_i(x')|`` over indices i and neighbours x, x': the ℓ∞ sensitivity of the scores. docs/selection.md
compares the functions; docs/exactness-selection.md derives what the kernels rely on, docs/exactness-partitions.md the same for
partitions.
"""

from dpcore.selection._calls import Noise
from dpcore.selection._partition_rules import PartitionMethod
from dpcore.selection._plan import Method
from dpcore.selection.argmax import exponential_mechanism, noisy_argmax, permute_and_flip
from dpcore.selection.partitions import partition_probability, select_partitions
from dpcore.selection.several import Selection, top_s

__all__ = [
    "Method",
    "Noise",
    "PartitionMethod",
    "Selection",
    "exponential_mechanism",
    "noisy_argmax",
    "partition_probability",
    "permute_and_flip",
    "select_partitions",
    "top_s",
]


def __dir__() -> list[str]:
    return __all__
