"""Records in a memory map are privatised into another one, scores in one are chosen from and summed; what the process keeps for itself
stays small, however many there are.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

MIB = 1 << 20
OWN_MEMORY = """
import sys
import numpy as np
from pathlib import Path

def anonymous():
    status = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in status if line.startswith("RssAnon"))
"""
PROGRAM = (
    OWN_MEMORY
    + """
from dpcore.local import BinaryResponse

n, chunk = int(sys.argv[1]), 50_000_000
records = np.memmap(sys.argv[2], np.bool_, "r", shape=(n,))
reports = np.memmap(sys.argv[3], np.bool_, "w+", shape=(n,))
mechanism, total = BinaryResponse(1.0), None
mechanism.privatize(records[:200_000], out=reports[:200_000])
before = most = anonymous()
for start in range(0, n, chunk):
    part = slice(start, min(start + chunk, n))
    mechanism.privatize(records[part], out=reports[part])
    counted = mechanism.aggregate(reports[part])
    total = counted if total is None else total + counted
    most = max(most, anonymous())
estimate = mechanism.estimate(total).interval(1 - 1e-6)
assert total.n == n and estimate[0] <= 0.0 <= estimate[1], estimate
print(most - before)
"""
)

# All scores are 0 but three: no choice of the noise's brings another one before them.
CHOICES = (
    OWN_MEMORY
    + """
from dpcore import selection, sums

n = int(sys.argv[1])
scores = np.memmap(sys.argv[2], np.float64, "r+", shape=(n,))
places = [n // 7, n // 3, n - 1]
scores[places] = 3e6, 2e6, 1e6
small = np.zeros(200_000)
selection.top_s(small, 1.0, 1.0, s=3), selection.top_s(small, 1.0, 1.0, s=3, method="peeling"), sums.clipped_sum(small, 4e6)
before = most = anonymous()
for method in ("gumbel", "peeling"):
    chosen = selection.top_s(scores, 1.0, 1.0, s=3, method=method)
    assert chosen.indices.tolist() == places, chosen
    most = max(most, anonymous())
assert len(set(selection.top_s(scores, 1.0, 1.0, s=1000).indices.tolist())) == 1000
assert sums.clipped_sum(scores, 4e6).high == 6e6
print(max(most, anonymous()) - before)
"""
)


@pytest.mark.parametrize("n", [10**7, pytest.param(10**9, marks=pytest.mark.long)])
def test_records_of_a_memory_map(n, tmp_path):
    if not Path("/proc/self/status").exists():
        pytest.skip("needs /proc to tell the process's own memory from the files it maps")
    source = tmp_path / "records"
    with source.open("wb") as file:
        file.truncate(n)  # all False, without taking space
    command = [sys.executable, "-c", PROGRAM, str(n), str(source), str(tmp_path / "reports")]
    finished = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert finished.returncode == 0, finished.stderr
    assert int(finished.stdout) < 64 * MIB


@pytest.mark.parametrize("n", [10**6, pytest.param(10**8, marks=pytest.mark.long)])
def test_scores_of_a_memory_map(n, tmp_path):
    if not Path("/proc/self/status").exists():
        pytest.skip("needs /proc to tell the process's own memory from the files it maps")
    source = tmp_path / "scores"
    with source.open("wb") as file:
        file.truncate(8 * n)  # all zero, without taking space
    finished = subprocess.run(
        [sys.executable, "-c", CHOICES, str(n), str(source)], capture_output=True, text=True, check=False, timeout=600
    )
    assert finished.returncode == 0, finished.stderr
    assert int(finished.stdout) < 16 * MIB
