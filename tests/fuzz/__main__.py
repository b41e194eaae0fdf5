"""The fuzzer: `make fuzz`, or `python -m fuzz` in the folder of the tests.

    python -m fuzz --minutes 10                 all targets, so many minutes of CPU together
    python -m fuzz --minutes 10 --only csv,jobs some of them
    python -m fuzz csv FILE...                  what becomes of inputs, each in a line: how a finding is seen again
    python -m fuzz --keep csv                   take inputs of the last runs into the corpus that reach lines which it does not reach

A target ends at its first finding. The exit code is 1 if there is one.
"""

from __future__ import annotations

import argparse
import sys
import traceback
from pathlib import Path

from fuzz import running
from fuzz.registry import TARGETS, inputs, target_class
from fuzz.target import FoundError, attempt


def again(name: str, files: list[Path]) -> int:
    """Run inputs once, and print what becomes of each."""
    found = 0
    with running.folder() as folder:
        target = target_class(name)(folder)
        for path in files:
            try:
                outcome = attempt(target, path.read_bytes(), limits=True)
            except FoundError as error:
                traceback.print_exc()
                print(f"{path}: FINDING: {error}")
                found += 1
            else:
                print(f"{path}: {f'{outcome.refusal}: {outcome.message}' if outcome.refusal else 'accepted'}")
    return int(found > 0)


def main() -> int:
    """Do what is asked for."""
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", nargs="?", choices=TARGETS, help="a target, for inputs that are run once")
    parser.add_argument("files", nargs="*", type=Path, help="the inputs; the corpus by default")
    parser.add_argument("--minutes", type=float, default=10.0, help="minutes of CPU for all targets together (10)")
    parser.add_argument("--only", default=",".join(TARGETS), help="targets, with commas between them")
    parser.add_argument("--plain", action="store_true", help="mutate the corpus without the guidance of atheris; goes on behind a finding")
    parser.add_argument("--out", type=Path, default=Path("out/fuzz"), help="a folder for new inputs and findings (out/fuzz)")
    parser.add_argument("--keep", choices=TARGETS, help="add to the corpus of a target")
    parser.add_argument("--worker", choices=TARGETS, help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=float, default=60.0, help=argparse.SUPPRESS)
    parser.add_argument("--place", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        running.work(given.worker, given.seconds, given.out, given.place)
        return 0
    if given.keep:
        from fuzz import corpus

        return corpus.keep(given.keep, given.out / given.keep / "inputs")
    if given.target:
        return again(given.target, given.files or inputs(given.target))
    names = [name for name in given.only.split(",") if name]
    if wrong := [name for name in names if name not in TARGETS]:
        parser.error(f"--only names {wrong[0]!r}; targets are {', '.join(TARGETS)}")
    if given.plain:
        return max(running.plain(name, given.minutes * 60 / len(names), given.out / name) for name in names)
    return running.run(names, given.minutes, given.out)


if __name__ == "__main__":
    sys.exit(main())
