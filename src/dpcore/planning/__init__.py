"""Planning: how many records, or how much ε, an estimate needs before there are any data.

`sample_size` finds the least n and `epsilon_for` the least ε with which a root mean square error, the width of an interval or the power of
a test meets a target. Both ask what is planned for its error as a function of n and ε (`ErrorCurve`): mechanisms of `dpcore.local` and
linear estimators of `dpcore.minimax` have one, and so do the designs of this module. docs/planning.md has a guide.
"""

from dpcore._error_curves import Aim, ErrorCurve
from dpcore.planning.adaptive import AdaptiveAnswers
from dpcore.planning.answers import Plan, Plannable, epsilon_for, sample_size
from dpcore.planning.distribution_tests import UniformityTest
from dpcore.planning.means import Mean
from dpcore.planning.minimax import BinarySearch, Recipe

__all__ = [
    "AdaptiveAnswers",
    "Aim",
    "BinarySearch",
    "ErrorCurve",
    "Mean",
    "Plan",
    "Plannable",
    "Recipe",
    "UniformityTest",
    "epsilon_for",
    "sample_size",
]


def __dir__() -> list[str]:
    return __all__
