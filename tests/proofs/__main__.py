"""Checks the lemmas that the kernels' bounds and the engine's sensitivities rest on: `make prove`."""

from __future__ import annotations

import argparse
import fnmatch
import sys
from pathlib import Path

from proofs.c_source import KERNELS
from proofs.catalogue import LEMMAS, outcomes, table
from proofs.lemmas import Context

FAILED, NOT_CHECKED = 1, 2


def main(arguments: list[str] | None = None) -> int:
    """Run from the command line; returns the exit code."""
    parser = argparse.ArgumentParser(prog="proofs", description=__doc__)
    parser.add_argument("names", nargs="*", help="lemmas, or patterns of them; default: all")
    parser.add_argument("--kernels", type=Path, default=KERNELS, help="folder with the sources of the kernels")
    parser.add_argument("--require", action="store_true", help="a lemma that cannot be checked is an error")
    parser.add_argument("--table", action="store_true", help="print the table of the documentation and check nothing")
    given = parser.parse_args(arguments)
    if given.table:
        print(table())
        return 0
    names = [lemma.name for lemma in LEMMAS if not given.names or any(fnmatch.fnmatch(lemma.name, name) for name in given.names)]
    if not names:
        parser.error(f"no lemma is named {' '.join(given.names)}")
    count = {"proved": 0, "failed": 0, "not checked": 0}
    for each in outcomes(Context(given.kernels.resolve()), names):
        count[each.status] = count.get(each.status, 0) + 1
        said = f"\n    {each.said}" if each.status in {"failed", "not checked"} else ""
        print(f"{each.lemma.name:30} {each.status:12} {each.lemma.by[:40]:40} {each.seconds:6.1f} s{said}", flush=True)
    print(", ".join(f"{n} {status}" for status, n in count.items() if n))
    if count["failed"]:
        return FAILED
    return NOT_CHECKED if given.require and count["not checked"] else 0


if __name__ == "__main__":
    sys.exit(main())
