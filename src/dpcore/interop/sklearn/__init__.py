"""Private estimators and a local randomiser for scikit-learn: they are cloned, pipelined and cross-validated like its own.

The budget of each estimator is a parameter of its constructor, and each `fit` spends it once. Bounds are parameters as well: nothing is
read from the data that the guarantee does not cover. docs/interop/sklearn.md says what is promised, and which of scikit-learn's checks
cannot pass.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpcore._lazy import found_in
from dpcore.interop._peers import Peer

if TYPE_CHECKING:
    from dpcore.interop.sklearn._checks import expected_failed_checks
    from dpcore.interop.sklearn._counts import PrivateHistogramDensity, PrivateNaiveBayes
    from dpcore.interop.sklearn._linear import PrivateLinearRegression
    from dpcore.interop.sklearn._local import LocalRandomizer
    from dpcore.interop.sklearn._moments import PrivateCovariance, PrivatePCA

__all__ = [
    "PEER",
    "LocalRandomizer",
    "PrivateCovariance",
    "PrivateHistogramDensity",
    "PrivateLinearRegression",
    "PrivateNaiveBayes",
    "PrivatePCA",
    "expected_failed_checks",
]

PEER = Peer(module="sklearn", distribution="scikit-learn", tested=("1.6", "1.7", "1.9"), extra="sklearn")
"""scikit-learn, and the versions that the tests ran with."""

_found = found_in(
    __name__,
    {
        "_checks": "expected_failed_checks",
        "_counts": "PrivateHistogramDensity PrivateNaiveBayes",
        "_linear": "PrivateLinearRegression",
        "_local": "LocalRandomizer",
        "_moments": "PrivateCovariance PrivatePCA",
    },
)


def __getattr__(name: str) -> Any:
    if name in __all__:
        PEER.require()
    return _found(name)


def __dir__() -> list[str]:
    return __all__
