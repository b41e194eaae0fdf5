"""`synthetic`, which writes a table: it has no groups, and is asked in jobs of its own."""

from __future__ import annotations

from dpcore.query.kinds.synthetic import SyntheticEstimator
from support.parts import noisy

ALONE = {"synthetic": {"kind": "synthetic", "columns": [{"name": "c", "k": 3, "missing": 0, "unknown": 1}]}}
RELEASED = {SyntheticEstimator: lambda answer, total: [noisy(total.all().tolist(), answer.mechanism.scale)]}
LAWS = {"synthetic": "test_release_synthetic_law.py::test_the_noise_of_the_cells"}
