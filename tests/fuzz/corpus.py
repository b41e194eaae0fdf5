"""Chooses inputs for the corpus: the smallest that reach lines of dpcore which the corpus does not reach."""

from __future__ import annotations

import hashlib
import shutil
import sys
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import dpcore
from fuzz.registry import CORPUS, inputs, target_class
from fuzz.running import folder
from fuzz.target import FoundError, attempt

if TYPE_CHECKING:
    from fuzz.target import Target

PACKAGE = str(Path(dpcore.__file__).parent)
Lines = set[tuple[str, int, int]]
MOST_BYTES = 100_000
"""Of the corpus of a target."""
ENDING = ".input"
"""Inputs are bytes of any kind, which no check of texts reads."""


def lines_of(target: Target, data: bytes) -> Lines:
    """The lines of dpcore that an input runs on its thread, each with the one before it; none if it is a finding."""
    found: Lines = set()

    def local(frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            found.add((frame.f_code.co_filename, frame.f_code.co_firstlineno, frame.f_lineno))
        return local

    def called(frame: FrameType, _: str, __: Any) -> Any:
        return local if frame.f_code.co_filename.startswith(PACKAGE) else None

    before = sys.gettrace()
    sys.settrace(called)
    try:
        attempt(target, data)
    except FoundError:
        return set()
    finally:
        sys.settrace(before)
    return found


def keep(name: str, new: Path) -> int:
    """Add inputs to the corpus of a target."""
    (CORPUS / name).mkdir(parents=True, exist_ok=True)
    with folder() as place:
        target = target_class(name)(place)
        for title, data in getattr(target, "seeds", dict)().items():
            (CORPUS / name / f"seed-{title}{ENDING}").write_bytes(data)
        known: Lines = set()
        size = 0
        for path in inputs(name):
            known |= lines_of(target, path.read_bytes())
            size += path.stat().st_size
        print(f"{name}: {len(inputs(name))} inputs of {size} bytes run {len(known)} lines")
        for path in sorted(new.iterdir() if new.is_dir() else (), key=lambda each: (each.stat().st_size, each.name)):
            if size + path.stat().st_size > MOST_BYTES:
                continue
            if more := lines_of(target, path.read_bytes()) - known:
                known |= more
                size += path.stat().st_size
                shutil.copyfile(path, CORPUS / name / f"{hashlib.sha256(path.read_bytes()).hexdigest()[:12]}{ENDING}")
                print(f"  {path.name[:12]}: {len(more)} lines more")
        print(f"{name}: {len(inputs(name))} inputs of {size} bytes run {len(known)} lines")
    return 0
