"""Where a call of `noise.laplace` spends its time, at each CPU level and size: a table from `perf`, for docs/speed.md.

    python benchmarks/profile_calls.py [SECONDS]

Needs Linux with `perf` (Debian: linux-perf) and the right to use it. Each row is a process of its own that does nothing but the call.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

SIZES = (1, 1_000, 100_000, 100_000_000)
CALL = """
import sys, time
import numpy as np
from dpcore import noise
n, seconds = int(sys.argv[1]), float(sys.argv[2])
values = 0.0 if n == 1 else np.zeros(n)
noise.laplace(values, 1.0, threads=1)
time.sleep(3)  # perf begins to look after that
end, calls = time.perf_counter() + seconds, 0
begin = time.perf_counter()
while time.perf_counter() < end or calls < 2:
    for _ in range(max(1, 20_000 // n)):
        noise.laplace(values, 1.0, threads=1)
        calls += 1
print((time.perf_counter() - begin) / calls)
"""
PARTS = (
    ("key", re.compile(r"getrandom|crng|chacha_(block|permute)|blake2s|get_random|_copy_to_iter|entry_SYSCALL|syscall|__key_expansion")),
    ("system", re.compile(r"fault|clear_(page|huge)|page|folio|vma|mmap|unmap|zap|lru|rmqueue|charge|memcg|irq|pmd|pte")),
    ("keystream", re.compile(r"aes256|chacha20|dpk_bulk_words|dpk_stream_init|keystream")),
    ("transform", re.compile(r"^laplace|exponential|polynomial|log")),
    ("blocks", re.compile(r"dpk_noise_run|run_real|load|store|dpk_span|settle|accurate|fe(get|set)env|dpk_first|nonfinite|memcpy|memmove")),
    ("wiping", re.compile(r"memset|dpk_wipe")),
)


def part_of(symbol: str, library: str) -> str:
    """The part of a call that a symbol belongs to; what is left is Python, NumPy and the binding."""
    if "kernel" in library:
        return "key" if PARTS[0][1].search(symbol) else "system"
    return next((name for name, pattern in PARTS if pattern.search(symbol)), "Python")


def profile(level: str, n: int, seconds: float) -> tuple[float, dict[str, float]]:
    """Seconds a call, and the share of each part."""
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder, "perf.data")
        command = ["perf", "record", "-q", "-D", "2500", "-F", "4999", "-o", str(data), sys.executable, "-c", CALL, str(n), str(seconds)]
        made = subprocess.run(command, env=os.environ | {"DPCORE_ISA": level}, check=True, capture_output=True, text=True)
        report = ["perf", "report", "-i", str(data), "--no-children", "-g", "none", "-F", "overhead,symbol,dso", "-t", "|"]
        lines = subprocess.run(report, check=True, capture_output=True, text=True).stdout.splitlines()
    shares: dict[str, float] = {}
    for line in lines:
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) >= 3 and cells[0].endswith("%"):
            part = part_of(re.sub(r"^\[.\] ", "", cells[1]), cells[2])
            shares[part] = shares.get(part, 0.0) + float(cells[0][:-1])
    return float(made.stdout), shares


def main() -> None:
    from dpcore import _backend

    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 4.0
    names = ["Python", *(name for name, _ in PARTS)]
    print("| level | values | a call |", " | ".join(names), "|")
    print("|---|---|---|" + "---|" * len(names))
    for level in reversed(_backend.available_levels()):
        for n in SIZES:
            took, shares = profile(level, n, seconds)
            total = sum(shares.values())
            text = f"{took * 1e6:.3g} µs" if took < 1e-3 else f"{took * 1e3:.3g} ms" if took < 1 else f"{took:.3g} s"
            print(f"| {level} | {n:,} | {text} |", " | ".join(f"{100 * shares.get(name, 0.0) / total:.0f} %" for name in names), "|")


if __name__ == "__main__":
    main()
