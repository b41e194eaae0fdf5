"""dpcore: exact differential privacy at memory speed."""

from dpcore import accounting, inference, local, mechanisms, noise, selection, sums
from dpcore._version import __version__
from dpcore.errors import BudgetError, DataError, DpcoreError, EntropyError, ParameterError, ParameterTypeError
from dpcore.privacy import Privacy
from dpcore.rng import SecureRandom

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
    "inference",
    "local",
    "mechanisms",
    "noise",
    "selection",
    "sums",
]
