"""`groups`: not a matter of ε alone. `test_release_neighbours.py` and `test_partitions_privacy.py` have its proofs."""

from __future__ import annotations

ELSEWHERE = {"groups": ("test_release_neighbours.py", "test_partitions_privacy.py")}
LAWS = {"groups": "test_partitions_law.py::test_partitions_are_released_with_their_probabilities"}
