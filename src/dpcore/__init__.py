"""dpcore: exact differential privacy at memory speed."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from dpcore import accounting, inference, local, mechanisms, noise, selection, sums
from dpcore._version import __version__
from dpcore.errors import BudgetError, DataError, DpcoreError, EntropyError, ParameterError, ParameterTypeError
from dpcore.privacy import Privacy
from dpcore.rng import SecureRandom

if TYPE_CHECKING:
    from dpcore import audit, blackwell, distributions, minimax

_ON_FIRST_USE = frozenset({"audit", "blackwell", "distributions", "minimax"})
"""Subpackages that load SciPy."""

__all__ = [
    "BudgetError",
    "DataError",
    "DpcoreError",
    "EntropyError",
    "ParameterError",
    "ParameterTypeError",
    "Privacy",
    "SecureRandom",
    "__version__",
    "accounting",
    "audit",
    "blackwell",
    "distributions",
    "inference",
    "local",
    "mechanisms",
    "minimax",
    "noise",
    "selection",
    "sums",
]


def __getattr__(name: str) -> Any:
    if name in _ON_FIRST_USE:
        return importlib.import_module(f"dpcore.{name}")
    raise AttributeError(f"module 'dpcore' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
