"""The methods that ask queries: each kind says what its own are. `_methods.pyi`, which `make stubs` writes, has them for type checkers."""

from __future__ import annotations

from dpcore.frames.asking import Asks
from dpcore.query.kinds import METHODS

Methods = type(
    "Methods", (), {"__module__": __name__, "__doc__": "The queries that a table answers.", **{name: Asks() for name in METHODS}}
)
