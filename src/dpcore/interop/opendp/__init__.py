"""OpenDP's measurements, drawn by dpcore: constructors with OpenDP's names, for chains, compositions and the context API.

OpenDP's own noise is exact, too; dpcore's takes nanoseconds a value where OpenDP's takes microseconds. The measurements are made by
`opendp.measurements.make_user_measurement`, so OpenDP asks for the features "contrib" and "honest-but-curious". Importing this module
imports nothing of OpenDP. docs/interop/opendp.md is the guide.
"""

from dpcore.interop.opendp._distributions import make_ks_exponential, then_ks_exponential
from dpcore.interop.opendp._measurements import PEER
from dpcore.interop.opendp._noise import make_gaussian, make_laplace, then_gaussian, then_laplace
from dpcore.interop.opendp._registration import install, uninstall
from dpcore.interop.opendp._responses import (
    make_randomized_response,
    make_randomized_response_bool,
    then_randomized_response,
    then_randomized_response_bool,
)
from dpcore.interop.opendp._selection import make_noisy_max, make_noisy_top_k, then_noisy_max, then_noisy_top_k

__all__ = [
    "PEER",
    "install",
    "make_gaussian",
    "make_ks_exponential",
    "make_laplace",
    "make_noisy_max",
    "make_noisy_top_k",
    "make_randomized_response",
    "make_randomized_response_bool",
    "then_gaussian",
    "then_ks_exponential",
    "then_laplace",
    "then_noisy_max",
    "then_noisy_top_k",
    "then_randomized_response",
    "then_randomized_response_bool",
    "uninstall",
]


def __dir__() -> list[str]:
    return __all__
