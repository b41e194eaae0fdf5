"""The optimal binary channel of a model, with a certificate."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from dpcore._validation import check_integer
from dpcore.errors import DpcoreError, ParameterError, ParameterTypeError
from dpcore.local import BinaryChannel
from dpcore.local._one_bit import expansion
from dpcore.local._parameters import check_epsilon
from dpcore.minimax.programs.frames import Frame
from dpcore.minimax.spaces import certified
from dpcore.minimax.spaces.matrices import Array
from dpcore.minimax.spaces.models import Model
from dpcore.minimax.spaces.moduli import Modulus, Pair, largest_difference_tv, modulus_of, nearest_pair, whole_range

MOST_RECORDS = 2**53
CONSTANT = 1e-13
"""A modulus below this share of the functional's largest value is rounding."""
FLAT = 1e-9
"""A slope that adds less than this of the modulus over the whole radius counts as none."""
SLACK = 1e-6
"""How far Φ_φ(2η) may be above ω(η), relatively."""


@dataclass(frozen=True, slots=True)
class Certificate:
    r"""What proves a binary channel optimal: Φ_φ(2η) ≤ ω(η), Steinberger (2019), Satz 3.13.

    Attributes
    ----------
    radius : float
        η = n^{−1/2}(e^ε + 1)/(e^ε − 1).
    modulus : float
        ω(η), the total variation modulus, as attained by two members.
    attained : float
        Φ_φ(2η) = max{θ(p1) − θ(p0): \|E_p1 φ − E_p0 φ\| ≤ 2η}, from above, by weak duality.
    """

    radius: float
    modulus: float
    attained: float

    @property
    def ratio(self) -> float:
        """attained/modulus, at least 1 but for rounding."""
        return self.attained / self.modulus

    @property
    def holds(self) -> bool:
        """Whether attained ≤ modulus·(1 + 1e-6)."""
        return self.attained <= self.modulus * (1 + SLACK)

    def brought(self, frame: Frame) -> Certificate:
        """The same in the units of a model that is not in its standard form; bounds stay bounds."""
        return Certificate(self.radius, frame.difference(self.modulus), frame.difference(self.attained) * (1 + 2.0**-50))


@dataclass(frozen=True, slots=True, eq=False)
class OptimalChannel:
    """A binary channel that is optimal for n records of a model, and why.

    Attributes
    ----------
    channel : BinaryChannel
        What privatises the codes 0 … X − 1 of the model's points; its table φ has the norm 1.
    certificate : Certificate
        The proof.
    p0, p1 : ndarray of float64, shape (X,)
        The members at total variation distance at most η whose θ differ most: what the channel has to tell apart.
    """

    channel: BinaryChannel
    certificate: Certificate
    p0: Array = field(repr=False)
    p1: Array = field(repr=False)


def optimal_channel(model: Model, epsilon: float, *, n: int) -> OptimalChannel:
    r"""The binary channel whose reports are, for this functional and n records, the most that ε-privacy allows.

    Parameters
    ----------
    model : Model
        The model; its functional is not constant.
    epsilon : float
        Privacy loss of one report, in [2^−20, 700].
    n : int
        Number of records, in [1, 2^53].

    Returns
    -------
    OptimalChannel
        The channel of a function φ with values in [−1, 1], and a certificate that holds.

    Raises
    ------
    ParameterError, ParameterTypeError
        If an argument is outside its range, or the functional is constant.
    DpcoreError
        If the linear programmes are too badly scaled for a certificate to 1e-6.

    Notes
    -----
    With z0 = (e^ε + 1)/(e^ε − 1), η = z0 n^{−1/2} and the duals w of p1 − p0 ≤ t and λ of Σt ≤ η in the programme of `modulus_tv`,
    φ = 2w/λ − 1. Then every pair with \|E_p1 φ − E_p0 φ\| ≤ 2η has θ(p1) − θ(p0) ≤ ω(η), and so the Hellinger modulus of the reports,
    at n^{−1/2}, is at most the total variation modulus of the records, at η. Source: Steinberger (2019), Satz 3.13, whose proof shows that
    such a φ exists. Cost: five linear programmes.

    Examples
    --------
    >>> from dpcore.minimax import Model, optimal_channel
    >>> found = optimal_channel(Model([0.0, 1.0, 2.0, 4.0]), 1.0, n=100)
    >>> [round(value, 6) for value in found.channel.phi], found.certificate.holds
    ([-1.0, -0.5, 0.0, 1.0], True)
    """
    if not isinstance(model, Model):
        raise ParameterTypeError(f"model must be a Model, got {type(model).__name__}")
    n = check_integer("n", n, low=1, high=MOST_RECORDS)
    radius = expansion(check_epsilon(epsilon)) / math.sqrt(n)
    frame, own, model = model.frame, model.f, model.standard
    found = _found(model, own, radius, refined=False)
    if not found.certificate.holds:
        found = _found(model, own, radius, refined=True)
    if not found.certificate.holds:
        raise DpcoreError(
            f"no channel was certified: the best one attains {found.certificate.ratio!r} times the modulus, not 1 + {SLACK:.0e}"
        )
    phi, modulus = found.phi, found.modulus
    return OptimalChannel(BinaryChannel(epsilon, tuple(phi.tolist())), found.certificate.brought(frame), modulus.p0, modulus.p1)


class _Found(NamedTuple):
    """A channel's φ, what it has to tell apart, and what proves it."""

    phi: Array
    modulus: Modulus
    certificate: Certificate


def _found(model: Model, own: Array, radius: float, *, refined: bool) -> _Found:
    """The best φ; programmes that are `refined` cost four times as much, and decide where 1e-10 is not a small distance."""
    pair = largest_difference_tv(model, radius, refined=refined)
    modulus = modulus_of(model, radius, pair, refined=refined)
    if not modulus.value > CONSTANT * np.abs(model.f).max():
        raise ParameterError("the model's functional must not be constant: there is nothing to tell apart")
    if pair.slope * min(radius, 1.0) < FLAT * modulus.value:
        # The radius reaches all of θ's range: the pair that does so at the least distance is what has to be told apart.
        pair = nearest_pair(model, modulus.value * (1 - FLAT), refined=refined)
    tried = [
        _Found(phi, modulus, _certificate(model, modulus, phi, pair.slope / 2, refined=refined)) for phi in _directions(model, own, pair)
    ]
    return next((each for each in tried if each.certificate.holds), min(tried, key=lambda each: each.certificate.attained))


def _directions(model: Model, own: Array, pair: Pair) -> list[Array]:
    """Functions φ that the duals give, with norm 1, the preferred first."""
    vertex = np.clip(2 * pair.weights / pair.slope - 1, -1.0, 1.0)
    found = [_in_the_middle(model, own, pair, vertex), vertex]
    return [phi / np.abs(phi).max() for phi in found]


def _in_the_middle(model: Model, own: Array, pair: Pair, phi: Array) -> Array:
    """The φ in the middle of what the multipliers leave open: for moments the clipped line, where a vertex of the dual need not rise.

    Dual feasible are the φ with f − μφ ≤ c1 + Aᵀy1 and μφ − f ≤ c0 + Aᵀy0 at every point. Clipping stays between the two bounds, because
    they let one φ in [−1, 1] through. Where no mass is possible, everything is. `own` is the functional in the model's own units.
    """
    region, half = model.region, pair.slope / 2
    size = model.size
    if region.image.shape[1] < size or (region.image[:, :size] - sp.eye_array(size)).nnz:
        return phi  # mixtures: the conditions are not about single points
    behind, ahead = ((region.below.T @ duals)[:size] for duals in pair.costs)
    rest = model.f - half * phi
    lower = (model.f - ahead - (rest - ahead).max()) / half
    upper = (model.f + behind + (-rest - behind).max()) / half
    lower, upper = np.where(model.possible, lower, -1.0), np.where(model.possible, upper, 1.0)
    return _rising(own, np.clip((lower + upper) / 2, -1.0, 1.0), np.clip(lower, -1.0, 1.0), np.clip(upper, -1.0, 1.0))


def _rising(f: Array, phi: Array, lower: Array, upper: Array) -> Array:
    """A φ between the bounds that does not fall where f rises, if there is one, and φ itself where that does not.

    Far beyond the hard members the bounds leave everything open, and the middle may fall back: within the model that costs nothing, but
    records of a distribution outside it lie there, and so does the code of all that is beyond the grid.
    """
    order = np.argsort(f, kind="stable")
    least = np.maximum.accumulate(lower[order])
    most = np.minimum.accumulate(upper[order][::-1])[::-1]
    if (least > most).any():
        return phi
    risen = np.empty_like(phi)
    risen[order] = np.maximum.accumulate(np.clip(phi[order], least, most))
    return risen


def _certificate(model: Model, modulus: Modulus, phi: Array, slope: float, *, refined: bool) -> Certificate:
    """Φ_φ(2η) ≤ 2ημ + max (f − μφ)·p1 + max (μφ − f)·p0 for every μ ≥ 0; and never more than the whole range."""
    attained = 2 * min(modulus.radius, 1.0) * slope + certified.spread(model, model.f - slope * phi, refined=refined)
    return Certificate(modulus.radius, modulus.value, min(attained, whole_range(model, refined=refined)))
