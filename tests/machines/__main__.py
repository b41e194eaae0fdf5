"""Build dpcore for a machine that this one is not, and run tests there: `make test-aarch64`, `make test-musl`.

The exit code is that of the first run of pytest that fails.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from machines.building import Machine, built, emulated, filled, made, on_musl, pip, refuse
from machines.chosen import CHOSEN


def installed(machine: Machine, root: Path | None) -> None:
    """Make the environment with the package in it."""
    print(f"== making {machine.environment.name}: Python {machine.version}, wheels for {machine.tags[0]} or older", flush=True)
    made(machine)
    without = filled(machine)
    if without:
        print(f"== without {', '.join(without)}, which have no wheel for it, and without their tests", flush=True)
    print("== compiling the kernels: three minutes of CPU the first time, seconds after that", flush=True)
    wheel = built(machine, root)
    print(f"== installing {wheel.name}", flush=True)
    pip(machine, "--no-deps", "--upgrade", "--target", str(machine.packages), str(wheel))
    if machine.run("-c", "import numpy"):
        refuse(f"NumPy does not load with {machine.python}: its wheels for musl need musl 1.2.4 or later, those for Debian libstdc++6")


def tested(machine: Machine, options: list[str]) -> int:
    """Run the chosen tests, or those that the options name."""
    paths = [each for each in options if each.partition("::")[0].endswith(".py") or Path(each).is_dir()]
    ended = 0
    for part in CHOSEN[machine.name]:
        what = "what was asked for" if paths else part.what
        print(f"== {machine.name}: {what}", flush=True)
        start = time.monotonic()
        tests = () if paths else part.tests
        code = machine.run("-m", "pytest", "-p", "no:cacheprovider", "-n", "0", "--by-file", "-m", part.marks, *tests, *options)
        print(f"== {machine.name}: {what}: {(time.monotonic() - start) / 60:.0f} minutes, exit code {code}", flush=True)
        ended = ended or code
        if paths:
            break
    return ended


def main(arguments: list[str]) -> int:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m machines", description=__doc__)
    parser.add_argument("machine", choices=sorted(CHOSEN))
    parser.add_argument("where", help="aarch64: the folder of its system; musl: its Python")
    parser.add_argument("--keep", action="store_true", help="run the tests in the environment that is there")
    known, options = parser.parse_known_args(arguments)
    root = Path(known.where).resolve() if known.machine == "aarch64" else None
    machine = emulated(root) if root is not None else on_musl(known.where)
    if not (known.keep and machine.interpreter.exists()):
        installed(machine, root)
    return tested(machine, options)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
