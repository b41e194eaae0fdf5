"""PipelineDP: the noise of arrays in `DPEngine.add_dp_noise`, drawn by dpcore in one call an array. docs/interop/pipelinedp.md."""

from __future__ import annotations

import functools
import importlib
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from dpcore import accounting, noise
from dpcore.interop import _entering
from dpcore.interop._installation import Installation, Installed, Replacement
from dpcore.interop._peers import Peer

__all__ = ["PEER", "install", "uninstall"]

PEER = Peer(module="pipeline_dp", distribution="pipeline-dp", tested=("0.3.1",), extra="peer-pipelinedp")
MECHANISMS = "pipeline_dp.dp_computations"

ROUNDINGS = 1 + 2.0**-50
"""More than what PipelineDP's roundings between a standard deviation, b and 1/b can take from a scale: four, of 2^−53 each."""


def install() -> Installed:
    """Let dpcore draw the noise of arrays in PipelineDP, in this process.

    Returns
    -------
    Installed
        A context manager: PipelineDP is as before when it ends. Without ``with``, until `uninstall`.

    Raises
    ------
    ModuleNotFoundError
        If pipeline-dp is absent.
    ParameterError
        If this runs while pipeline_dp is being imported.
    ForeignPatchError
        If another library has replaced ``AdditiveMechanism.add_noise``.

    Notes
    -----
    Replaced is ``AdditiveMechanism.add_noise``, for values that are NumPy arrays of bools, integers or floats. They become float64 arrays
    of the same shape. Single numbers and other arrays get PipelineDP's own noise. Integers beyond int64 count as its end, and long doubles
    are refused: as float64 they may come further apart than their sensitivity says.

    Guarantee: the noise has exactly the law that the mechanism names, with its scale rounded up. Sensitivities, budgets and contribution
    bounds are PipelineDP's.

    Cost: about 3 ns a value and 5 µs an array, and 2 ms once for each new Gaussian mechanism of given ε and δ.

    Examples
    --------
    >>> from dpcore.interop import pipelinedp
    >>> with pipelinedp.install():  # doctest: +SKIP
    ...     released = list(engine.add_dp_noise(histograms, params))
    """
    return _INSTALLATION.install()


def uninstall() -> None:
    """Restore the method of PipelineDP; do nothing if it is not replaced.

    Raises
    ------
    ForeignPatchError
        If another library has replaced ``AdditiveMechanism.add_noise`` in the meantime; nothing is changed then.

    Notes
    -----
    PipelineDP's collections are lazy: what is first read after this call has PipelineDP's own noise.
    """
    _INSTALLATION.uninstall()


# The law of a mechanism


def laplace_scale(mechanism: Any) -> float:
    """The scale b of a ``LaplaceMechanism``: Δ₁/ε, by a relative 2^−50 larger.

    Made from a standard deviation, such a mechanism has a rounded 1/b as its ε, and the result is no smaller than the b it was made from.
    """
    inside = vars(mechanism)["_mechanism"]
    return accounting.laplace_scale(inside.epsilon, inside.sensitivity) * ROUNDINGS


def gaussian_scale(mechanism: Any) -> float:
    """The standard deviation σ of a ``GaussianMechanism``, at least the one that it reports.

    Made from a standard deviation: that one, by a relative 2^−50 larger. Made from ε and δ: the reported one if it provably keeps them, and
    the least that does so otherwise. PipelineDP reports 2·10^−308 for every ε beyond 709, for instance.
    """
    reported, inside = float(mechanism.std), vars(mechanism)["_mechanism"]
    if not inside.epsilon > 0:
        return reported * ROUNDINGS
    return _private_scale(reported, inside.epsilon, inside.delta, float(mechanism.sensitivity))


@functools.lru_cache(maxsize=1024)
def _private_scale(reported: float, epsilon: float, delta: float, sensitivity: float) -> float:
    if reported == math.inf or (reported > 0 and accounting.gaussian_delta(epsilon, reported, sensitivity) <= delta):
        return reported
    return accounting.analytic_gaussian_scale(epsilon, delta, sensitivity)


# What is replaced

Law = tuple[Callable[..., Any], Callable[[Any], float]]
"""A function of `dpcore.noise`, and what finds its scale."""


def _replacements() -> Iterator[Replacement]:
    peer = importlib.import_module(MECHANISMS)
    laws: dict[type, Law] = {
        peer.LaplaceMechanism: (noise.laplace, laplace_scale),
        peer.GaussianMechanism: (noise.gaussian, gaussian_scale),
    }
    yield Replacement(peer.AdditiveMechanism, "add_noise", _add_noise(peer.AdditiveMechanism.add_noise, laws))


def _add_noise(original: Callable[[Any, Any], Any], laws: dict[type, Law]) -> Callable[[Any, Any], Any]:
    @functools.wraps(original)
    def add_noise(self: Any, value: Any) -> Any:
        law = laws.get(type(self)) if _is_plain(value) else None
        if law is None:
            return original(self, value)
        draw, scale_of = law
        scale, (least, most) = scale_of(self), noise.FLOAT_SCALE
        return draw(_entering.array("value", value), scale) if least <= scale <= most else original(self, value)

    return add_noise


def _is_plain(value: Any) -> bool:
    """Whether this is an array of numbers that has no mask and no methods of its own: PipelineDP answers for everything else."""
    return type(value) in {np.ndarray, np.memmap} and value.dtype.kind in "biuf"


_INSTALLATION = Installation(PEER, _replacements)
