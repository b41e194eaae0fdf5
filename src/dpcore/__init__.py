"""dpcore: exact differential privacy at memory speed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpcore._version import __version__
from dpcore.errors import BudgetError, DataError, DpcoreError, EntropyError, ParameterError, ParameterTypeError

if TYPE_CHECKING:
    from dpcore import accounting, audit, blackwell, distributions, inference, local, mechanisms, minimax, noise, planning, selection, sums
    from dpcore.frames import PrivateTable, average, total
    from dpcore.privacy import Privacy
    from dpcore.rng import SecureRandom
else:

    def __getattr__(name):  # noqa: ANN001, ANN202
        """Import a public name when it is first used: programs use few of them, and SciPy takes long to load."""
        import importlib

        if name in _ROOMS:
            found = getattr(importlib.import_module(f"dpcore.{_ROOMS[name]}"), name)
            globals()[name] = found
            return found
        if name in __all__ or name in _ROOMS.values():
            return importlib.import_module(f"dpcore.{name}")
        raise AttributeError(f"module 'dpcore' has no attribute {name!r}")


_ROOMS = {"PrivateTable": "frames", "Privacy": "privacy", "SecureRandom": "rng", "average": "frames", "total": "frames"}
"""Where names are that are neither here nor packages of their own."""

__all__ = [
    "BudgetError",
    "DataError",
    "DpcoreError",
    "EntropyError",
    "ParameterError",
    "ParameterTypeError",
    "Privacy",
    "PrivateTable",
    "SecureRandom",
    "__version__",
    "accounting",
    "audit",
    "average",
    "blackwell",
    "distributions",
    "inference",
    "local",
    "mechanisms",
    "minimax",
    "noise",
    "planning",
    "selection",
    "sums",
    "total",
]


def __dir__() -> list[str]:
    return __all__
