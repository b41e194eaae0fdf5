"""`python -m dpcore.bench`: the speed of dpcore on this machine beside bounds. `make bench` compares it with peers."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from dpcore import _backend
from dpcore.bench.distributions import distribution_bounds
from dpcore.bench.local import local_bounds
from dpcore.bench.means import means_bounds
from dpcore.bench.minimax import minimax_bounds
from dpcore.bench.noise import bounds
from dpcore.bench.selection import selection_bounds
from dpcore.bench.table import as_json, as_text
from dpcore.bench.timing import ROUNDS


def main(arguments: list[str] | None = None) -> int:
    """Measure, print the table, and write JSON with --json."""
    parser = argparse.ArgumentParser(
        prog="python -m dpcore.bench",
        description="Measures the nanoseconds for each value of the noise functions at every CPU level of this machine, beside the time "
        "that any implementation needs: the ChaCha20 keystream of the same words and one copy of the array. It also measures the local "
        "randomisers beside one copy of the records; selections beside an argmax without noise and the kernel that evaluates every score; "
        "exact sums beside the speed of the memory; releases of distributions and private tests beside NumPy and a limit; and, with the "
        "extra minimax, estimates of the minimax engine beside NumPy and a limit.",
    )
    parser.add_argument("--quick", action="store_true", help="use 10^6 values instead of 10^7")
    parser.add_argument("--values", type=int, metavar="N", help="number of values")
    parser.add_argument("--json", type=Path, metavar="PATH", help="also write the rows as JSON")
    options = parser.parse_args(arguments)
    n = options.values if options.values is not None else 10**6 if options.quick else 10**7
    if n < 1:
        parser.error(f"--values must be at least 1, got {n}")
    parts = bounds, local_bounds, selection_bounds, means_bounds, distribution_bounds, minimax_bounds
    rows = [row for part in parts for row in part(n, ROUNDS)]
    sys.stdout.write(as_text(rows) + "\n")
    if options.json:
        options.json.write_text(as_json(rows, _backend.info()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
