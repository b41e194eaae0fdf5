"""Kernels run in threads with little room: musl gives a thread 128 KiB where glibc gives 8 MiB."""

from __future__ import annotations

import subprocess
import sys

import pytest

from support.kernels import LEVELS

MUSL = 128 << 10
"""Bytes of a thread's stack on musl, unless a program asks for more."""
PROGRAM = """
import sys, threading
import numpy as np
from dpcore import _backend, distributions, local, noise, selection, sums
from dpcore.interop.numpy import SecureBitGenerator

level, size = sys.argv[1], int(sys.argv[2])
_backend.select_level(level)
x, codes = np.linspace(-3.0, 3.0, 5000), np.arange(5000) % 7
scales = np.tile([1.0, 2.0, 300.0, 1e4], 1250)
TASKS = {
    "on the pool": lambda: noise.laplace(np.tile(x, 80), 1.0, threads=3),
    "gaussian": lambda: noise.gaussian(x, scales),
    "integers": lambda: [noise.discrete_laplace(codes, 2.0), noise.discrete_gaussian(codes, scales)],
    "numbers": lambda: [noise.laplace(1.0, 1.3), noise.discrete_gaussian(3, 2.5), noise.discrete_gaussian(3, 1e5)],
    "responses": lambda: [
        mechanism.privatize(codes)
        for mechanism in (
            local.KaryResponse(1.0, k=7), local.UnaryEncoding(1.0, k=7), local.SubsetSelection(1.0, k=7), local.LocalHashing(1.0, k=7),
            local.HadamardResponse(1.0, k=7), local.ProjectiveGeometryResponse(1.0, k=40),
        )
    ],
    "vectors": lambda: local.VectorMean(1.0, -3.0, 3.0, d=1000, method="hypercube").privatize(x.reshape(-1, 1000)),
    "bits": lambda: [local.BinaryResponse(1.0).privatize(codes > 3), local.BoundedMean(1.0, -3.0, 3.0).privatize(x)],
    "selection": lambda: [selection.exponential_mechanism(x, 1.0, sensitivity=1.0), selection.top_s(x, s=5, epsilon=1.0, sensitivity=1.0)],
    "sums": lambda: sums.clamped_sum(np.tile(x, (3, 1)), -1.0, 1.0),
    "series": lambda: distributions.orthogonal_series(np.abs(x) / 3.0, 1.0, terms=4, bounds=(0.0, 1.0)),
    "words": lambda: np.random.Generator(SecureBitGenerator()).integers(0, 100, 10_000),
}
done = []


def run():
    for name, task in TASKS.items():
        task()
        done.append(name)


run()  # what is loaded and looked up at first use takes room that is not the kernels'
_backend.threads._pool.dismiss()
done.clear()
threading.stack_size(size)
thread = threading.Thread(target=run)
thread.start()
thread.join()
assert done == list(TASKS), done
print("done")
"""


@pytest.mark.parametrize("level", LEVELS)
def test_every_kernel_fits_a_thread_of_musl(level: str) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM, level, str(MUSL)], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout == "done\n"
