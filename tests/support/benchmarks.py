"""Made-up results of benchmarks: times that no clock has measured."""

from __future__ import annotations

import random
from typing import Any

from dpcore.bench.results import OURS, Jitter, Results, Row, Timed

MACHINE = {
    "machine": "x86_64",
    "system": "Linux",
    "cpu": {"brand_raw": "A CPU", "count": 2},
    "dpcore": {"cpu_levels_available": ["baseline", "x86_v3"], "threads": 2, "secure_cipher": "aes256"},
}


def timed(
    name: str, kind: str, seconds: float, blocks: int = 9, *, jitter: float = 0.0, seed: int = 0, size: int = 1000, **more: Any
) -> Timed:
    """A side whose blocks differ from `seconds` by up to `jitter`."""
    rng = random.Random(f"{seed} {name}")
    return Timed(name, kind, size, tuple(seconds * (1 + jitter * rng.random()) for _ in range(blocks)), turns=10 * blocks, **more)


def row(
    name: str = "laplace", *, ours: float = 2e-6, bound: float = 1e-6, peer: float = 8e-6, jitter: float = 0.0, seed: int = 0, **more: Any
) -> Row:
    """A row with a peer and a bound."""
    fields = {"group": "noise", "size": 1000, "unit": "value", "threads": 1, "level": "x86_v3", "character": "cache"} | more
    size, blocks = fields["size"], fields.pop("blocks", 9)
    sides = (
        timed("NumPy", "peer", peer, blocks, jitter=jitter, seed=seed, size=size),
        timed("keystream + copy", "bound", bound, blocks, jitter=jitter, seed=seed, size=size, judges=True),
    )
    return Row(name=name, ours=timed(OURS, "ours", ours, blocks, jitter=jitter, seed=seed, size=size, safe=True), others=sides, **fields)


def results(*rows: Row, **more: Any) -> Results:
    """A run with these rows."""
    given = {
        "machine": MACHINE,
        "commit": {"id": None},
        "mode": "quick",
        "noise": Jitter((1.0, 1.01, 1.02)),
        "made": "2026-01-01T00:00:00+00:00",
    }
    return Results(rows=rows, **(given | more))
