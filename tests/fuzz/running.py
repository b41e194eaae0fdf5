"""Runs targets under atheris, one after the other, each in a process that may die; reports what they reached."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fuzz.registry import CORPUS, inputs, target_class
from fuzz.target import FoundError, attempt

if TYPE_CHECKING:
    from collections.abc import Iterator

STRUCTURED = 0.6
"""Share of the mutations that know the structure of an input, where a target has such."""
HANG_SECONDS, MEGABYTES = 120, 4096
COVERED = re.compile(rb"cov: (\d+) ft: (\d+) corp: (\d+)")


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    """A folder for the files of a target: in memory where that is possible, since nothing here is about the disk."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="dpcore-fuzz-", dir=memory if os.access(memory, os.W_OK) else None) as name:
        yield Path(name)


# One target, in a process of its own


def work(name: str, seconds: float, out: Path, place: Path) -> None:
    """Fuzz a target for so many seconds of CPU, with its files in `place`. The process ends here."""
    import atheris

    found, stats = out / "inputs", out / "stats.json"
    found.mkdir(parents=True, exist_ok=True)
    with atheris.instrument_imports(include=["dpcore"]):
        # Modules are loaded when they are needed: the corpus loads what its target reaches.
        target = target_class(name)(place)
        for path in inputs(name):
            attempt(target, path.read_bytes())
    warnings.simplefilter("error")
    counts: dict[str, Any] = {"runs": 0, "accepted": 0, "refused": {}}
    start, told = time.process_time(), 0.0

    def one(data: bytes) -> None:
        nonlocal told
        counts["runs"] += 1
        used = time.process_time() - start
        if used >= told or used >= seconds:
            told = used + 1
            stats.write_text(json.dumps({**counts, "seconds": used}), encoding="utf-8")
            if used >= seconds:
                # libFuzzer has no call that ends it; what it found is on the disk.
                os._exit(0)
        outcome = attempt(target, data, limits=True)
        if outcome.refusal:
            counts["refused"][outcome.refusal] = counts["refused"].get(outcome.refusal, 0) + 1
        else:
            counts["accepted"] += 1

    def mutated(data: bytes, most: int, seed: int) -> bytes:
        rng = random.Random(seed)
        changed = target.mutated(data, rng) if rng.random() < STRUCTURED else None
        if changed is None or len(changed) > most:
            return bytes(atheris.Mutate(data, most))
        return changed

    words = out / "words"
    words.write_bytes(b"".join(b'"%s"\n' % _escaped(word) for word in dict.fromkeys(target.words) if word))
    arguments = [
        sys.argv[0], str(found), str(CORPUS / name), f"-max_len={target.longest}", f"-timeout={HANG_SECONDS}", f"-rss_limit_mb={MEGABYTES}",
        f"-artifact_prefix={out}/finding-", "-len_control=0", *([f"-dict={words}"] if target.words else []),
    ]  # fmt: skip
    atheris.Setup(arguments, one, custom_mutator=mutated)
    atheris.Fuzz()


def _escaped(word: str) -> bytes:
    return b"".join(bytes([each]) if 32 <= each < 127 and each not in b'"\\' else b"\\x%02x" % each for each in word.encode())


# Without libFuzzer


def plain(name: str, seconds: float, out: Path) -> int:
    """Mutate the corpus of a target for so many seconds of CPU, guided by nothing: for where atheris has no wheel, and for a first look."""
    out.mkdir(parents=True, exist_ok=True)
    rng, findings, runs, accepted = random.Random(time.time_ns()), set[str](), 0, 0
    with folder() as place, warnings.catch_warnings():
        warnings.simplefilter("error")
        target = target_class(name)(place)
        pool = [path.read_bytes() for path in inputs(name)]
        start = time.process_time()
        while time.process_time() - start < seconds:
            data = rng.choice(pool)
            for _ in range(rng.choice((1, 1, 2, 4))):
                data = (target.mutated(data, rng) if rng.random() < STRUCTURED else None) or _other_bytes(data, target.words, rng)
            runs += 1
            try:
                accepted += not attempt(target, data[: target.longest], limits=True).refusal
            except FoundError as error:
                if (said := str(error)[:60]) not in findings:
                    findings.add(said)
                    path = out / f"finding-{len(findings)}-{rng.randrange(10**9)}"
                    path.write_bytes(data[: target.longest])
                    print(f"{name}: FINDING: {error}\n    PYTHONPATH=tests {sys.executable} -m fuzz {name} {path}", flush=True)
    print(f"{name}: {runs} inputs, {accepted} accepted, {len(findings)} findings", flush=True)
    return int(bool(findings))


def _other_bytes(data: bytes, words: tuple[str, ...], rng: random.Random) -> bytes:
    """The input with a few bytes changed, taken out or put in."""
    at = rng.randrange(len(data) + 1)
    end = at + rng.choice((0, 1, 2, 4, 16))
    new = rng.choice((b"", rng.randbytes(rng.choice((1, 1, 2, 8))), data[at : at + 8] * 2, rng.choice(words or ("",)).encode()))
    return data[:at] + new + data[end:] or b"\0"


# All of them


def run(names: list[str], minutes: float, out: Path) -> int:
    """Fuzz each target for its share of the time, and print a table."""
    seconds = minutes * 60 / max(len(names), 1)
    print(f"{len(names)} targets, {seconds:.0f} seconds of CPU each; new inputs go to {out}", flush=True)
    lines, findings = [], 0
    for name in names:
        line, found = _run(name, seconds, out / name)
        print(line, flush=True)
        lines.append(line)
        findings += found
    print(f"\n{findings} findings" if findings else "\nno finding")
    return int(findings > 0)


def _run(name: str, seconds: float, out: Path) -> tuple[str, int]:
    out.mkdir(parents=True, exist_ok=True)
    (out / "stats.json").unlink(missing_ok=True)
    before = set(out.glob("finding-*"))
    command = [sys.executable, "-m", "fuzz", "--worker", name, "--seconds", str(seconds), "--out", str(out.resolve())]
    with (out / "log").open("wb") as log, folder() as place:
        command += ["--place", str(place)]
        code = subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, check=False).returncode
    said = json.loads((out / "stats.json").read_text(encoding="utf-8")) if (out / "stats.json").exists() else {"runs": 0, "seconds": 0.0}
    reached = COVERED.findall((out / "log").read_bytes())
    covered, features, kept = map(int, reached[-1]) if reached else (0, 0, 0)
    used = float(said["seconds"])
    line = (
        f"{name:12} {said['runs']:8} inputs in {used / 60:6.1f} minutes of CPU ({said['runs'] / max(used, 1):6.0f} a second), "
        f"{said.get('accepted', 0)} accepted, {covered} branches, {features} features, {kept} inputs kept"
    )
    if code == 0:
        return line, 0
    new = sorted(set(out.glob("finding-*")) - before)
    tail = (out / "log").read_bytes()[-3000:].decode(errors="replace")
    again = f"PYTHONPATH=tests {sys.executable} -m fuzz {name} {' '.join(map(str, new)) or 'the corpus'}"
    return f"{line}\n{tail}\nFINDING in {name} (exit {code}); again:\n    {again}", 1
