"""Programs as a new user writes them: run as they are, and with lines for dpcore, each in a process of its own."""

from __future__ import annotations

import subprocess
import sys


def said(program: str, *lines: str, timeout: float = 300, **names: str) -> list[str]:
    """What a program prints, line by line; with `lines` above it, and with other names for some of its words."""
    for old, new in names.items():
        assert old in program, old
        program = program.replace(old, new)
    text = "\n".join([*lines, program])
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False, timeout=timeout)
    assert done.returncode == 0, done.stderr[-4000:]
    assert "dpcore" not in done.stderr, done.stderr[-4000:]  # no warning of ours, whatever the peer says
    return done.stdout.splitlines()
