"""Checks of the parameters of all mechanisms, and the values that follow from them."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from dpcore._validation import check_integer, check_positive, check_real
from dpcore.errors import ParameterError
from dpcore.privacy import Privacy


def checked_budget(epsilon: float, delta: float) -> dict[str, float]:
    """Return ε and δ as floats, rounded down as for the scale."""
    return {"epsilon": check_positive("epsilon", epsilon), "delta": check_real("delta", delta, low=0.0, high=1.0)}


def settle(mechanism: Any, parameters: dict[str, float], scale: float, limits: tuple[float, float], *, include_low: bool = True) -> None:
    """Store the checked parameters of a frozen mechanism, and the values that follow from them."""
    low, high = limits
    if not (low <= scale <= high and (include_low or low < scale)):
        given = ", ".join(f"{name}={value!r}" for name, value in parameters.items())
        interval = f"{'[' if include_low else '('}2**{round(math.log2(low))}, 2**{round(math.log2(high))}]"
        raise ParameterError(f"{given} must give a noise scale in {interval}, got scale {scale!r}")
    for name, value in parameters.items():
        object.__setattr__(mechanism, name, value)
    object.__setattr__(mechanism, "scale", scale)
    object.__setattr__(mechanism, "privacy", _privacy(parameters["epsilon"], parameters.get("delta", 0.0), mechanism.relation))


_privacy = lru_cache(maxsize=1024)(Privacy)


@lru_cache(maxsize=4096)
def kept(calibrate: Callable[..., float], **parameters: float) -> float:
    """The scale that a function of `dpcore.accounting` gives for checked parameters."""
    return calibrate(**parameters)


def tail_probability(beta: float, size: int) -> Any:
    """Return 1 − (1−β)^(1/k), the probability for one answer, of a checked β."""
    from dpcore.accounting import _calibration

    return _calibration.tail_probability(beta, check_integer("size", size, low=1))
