"""A compiler that keeps the objects of Cython's modules which a fault does not touch: `setup.py` would compile all of them again.

It is called as the real one, whose words stand in PLANTED_CC.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path


def is_made(arguments: list[str]) -> bool:
    """Whether the object is there and newer than the C file that Cython made."""
    if "-c" not in arguments or "-o" not in arguments:
        return False
    source, made = (Path(arguments[arguments.index(option) + 1]) for option in ("-c", "-o"))
    cython = source.name.startswith("_") and source.with_suffix(".pyx").exists()
    return cython and made.exists() and made.stat().st_mtime >= source.stat().st_mtime


if __name__ == "__main__" and not is_made(sys.argv[1:]):
    words = os.environ["PLANTED_CC"].split()
    os.execvp(words[0], [*words, *sys.argv[1:]])
