"""The suite does not depend on how it is started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = Path(__file__).parents[1] / "conftest.py"
PROBE = """
import os, signal, subprocess, sys

def test_signals_reach_what_a_test_starts():
    child = "import signal; print(*(signal.getsignal(n) != signal.SIG_IGN for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)))"
    found = subprocess.run([sys.executable, "-c", child], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["True"] * 3
    assert not signal.pthread_sigmask(signal.SIG_BLOCK, ()) & {signal.SIGINT, signal.SIGTERM}
"""
NUMBERS = [signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])]


def started_with_signals_ignored(folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the probe as a background job of a shell without job control, or nohup, would: signals ignored, and one of them blocked."""

    def ignore() -> None:
        for number in NUMBERS:
            signal.signal(number, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})

    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--import-mode=importlib", str(folder)]
    return subprocess.run(command, cwd=folder, preexec_fn=ignore, capture_output=True, text=True, check=False)


@pytest.mark.long
@pytest.mark.skipif(os.name == "nt", reason="Windows has no ignored signals that a process inherits")
@pytest.mark.parametrize("restored", [True, False], ids=["with our fixtures", "without"])
def test_ignored_signals_are_restored(tmp_path: Path, restored: bool) -> None:
    (tmp_path / "test_probe.py").write_text(PROBE)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    if restored:
        (tmp_path / "conftest.py").write_text(CONFTEST.read_text())
    found = started_with_signals_ignored(tmp_path)
    # Without the fixtures the probe fails, so it can tell.
    assert found.returncode == (0 if restored else 1), found.stdout + found.stderr
