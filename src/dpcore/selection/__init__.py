"""Noisy selection: which of many scores is largest, without saying how large any of them is.

Each function adds noise to every score and releases the index of the largest sum, or of the s largest. The sums are compared as real
numbers: two contenders whose floating-point sums are too close are told apart by further random bits, so what is released is the choice of
the ideal mechanism. The noisy scores themselves are never released; `top_s(..., values=True)` draws fresh noise for the numbers it gives.

Sensitivity is Δ = ``max |u_i(x) − u_i(x')|`` over indices i and neighbours x, x': the ℓ∞ sensitivity of the scores. docs/selection.md
compares the functions; docs/exactness-selection.md derives what the kernels rely on.
"""

from dpcore.selection._calls import Noise
from dpcore.selection._plan import Method
from dpcore.selection.argmax import exponential_mechanism, noisy_argmax, permute_and_flip
from dpcore.selection.several import Selection, top_s

__all__ = ["Method", "Noise", "Selection", "exponential_mechanism", "noisy_argmax", "permute_and_flip", "top_s"]


def __dir__() -> list[str]:
    return __all__
