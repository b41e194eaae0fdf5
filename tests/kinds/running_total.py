"""`running_total`: a query that is alone in its job, and goes on from run to run. `test_running_total_jobs.py` has its proofs."""

from __future__ import annotations

ELSEWHERE = {"running_total": ("test_running_total_jobs.py", "test_totals_privacy.py")}
LAWS = {"running_total": "test_totals_law.py::test_the_joint_law_of_gaussian_totals"}
