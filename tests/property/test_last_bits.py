"""With a test key all machines release the same bits, though their exponentials, logarithms and SIMD code round differently."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("click")
pytest.importorskip("duckdb")
pytest.importorskip("pandas")

pytestmark = pytest.mark.source_tree
HERE = Path(__file__).resolve().parents[1]


def test_released_numbers_do_not_depend_on_the_last_bits_of_functions():
    # two processes, because what is calibrated is cached
    runs = [
        subprocess.Popen([sys.executable, "-m", "support.last_bits", seed], cwd=HERE, stdout=subprocess.PIPE, text=True) for seed in "01"
    ]
    printed = [run.communicate()[0] for run in runs]
    assert [run.returncode for run in runs] == [0, 0]
    exact, moved = map(json.loads, printed)
    assert [name for name in exact if moved[name] != exact[name]] == []


def test_the_functions_are_moved():
    code = "import math, numpy as np; from support import last_bits; x = [math.exp(i / 7) for i in range(1, 99) if i % 7]; "
    code += "last_bits.perturb(1); y = [math.exp(i / 7) for i in range(1, 99) if i % 7]; "
    code += "print(sum(a != b for a, b in zip(x, y)), max(abs(a - b) / math.ulp(a) for a, b in zip(x, y)), np.hypot(3, 4))"
    told = subprocess.run([sys.executable, "-c", code], cwd=HERE, capture_output=True, text=True, check=True).stdout.split()
    assert 20 < int(told[0]) < 84
    assert told[1:] == ["1.0", "5.0"]
