"""One tool in a process of its own.

Each line of input names a function of the program, `release` or `scales`, and is
answered by a line of JSON with what it gave and cost.

python turn.py PROGRAM TABLE ARGUMENTS
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import resource
import runpy
import sys
import time
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


def family():
    """This process and those that it started."""
    parents = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                parents[int(folder.name)] = int(
                    (folder / "stat").read_text().rpartition(")")[2].split()[1]
                )
            except OSError:
                continue
    found = {os.getpid()}
    while (
        more := {child for child, parent in parents.items() if parent in found} - found
    ):
        found |= more
    return found


def spent():
    """CPU seconds of the family, and the sum of what memory each had at most, in MB."""
    seconds = memory = 0.0
    for process in family():
        try:
            fields = (
                Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
            )
            status = Path(f"/proc/{process}/status").read_text()
        except OSError:
            continue
        seconds += sum(map(int, fields[11:15])) / TICKS
        memory += (
            int(status.partition("VmHWM:")[2].split()[0]) / 1024
            if "VmHWM:" in status
            else 0
        )
    return seconds, memory


def main() -> None:
    script, table, arguments = sys.argv[1:]
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the tool prints does not mix with the answers
    made = runpy.run_path(script)
    versions = {name: importlib.metadata.version(name) for name in made["PACKAGES"]}
    for line in sys.stdin:
        before, started = spent()[0], time.perf_counter()
        try:
            found = made[line.strip()](table, *json.loads(arguments))
            found = list(found.items()) if isinstance(found, dict) else found
            answer = {"found": found}
        except Exception as error:  # what a peer cannot do is a result
            answer = {"error": f"{type(error).__name__}: {error}"}
        wall = time.perf_counter() - started
        after, memory = spent()
        answer |= {
            "versions": versions,
            "wall": wall,
            "cpu": after - before,
            "memory": memory,
        }
        print(json.dumps(answer, default=float), file=answers, flush=True)


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    main()
