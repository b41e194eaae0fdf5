"""The optimal binary channel of a model, with a certificate."""

from __future__ import annotations

import math
from dataclasses import field
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from dpcore._dataclasses import dataclass
from dpcore._html import facts_table
from dpcore._validation import REAL_DTYPES, check_array, check_integer
from dpcore.errors import DpcoreError, ParameterError, ParameterTypeError
from dpcore.local import BinaryChannel
from dpcore.local._one_bit import expansion
from dpcore.local._parameters import check_epsilon
from dpcore.minimax._progress import Progress, Steps
from dpcore.minimax.programs.frames import Frame
from dpcore.minimax.spaces import certified
from dpcore.minimax.spaces.matrices import Array
from dpcore.minimax.spaces.models import Model
from dpcore.minimax.spaces.moduli import Modulus, Pair, largest_difference_tv, modulus_of, nearest_pair, whole_range
from dpcore.minimax.spaces.products import MOST_RECORDS
from dpcore.privacy import LocallyGuaranteed, Privacy

CONSTANT = 1e-13
"""A modulus below this share of the functional's largest value counts as 0."""
FLAT = 1e-9
"""A slope that adds less than this share of the modulus over the whole radius counts as 0."""
SLACK = 1e-6
"""How far Φ_φ(2η) may exceed ω(η), relatively."""
STAGES = 3
"""Programs, or small groups of them, that one attempt at a channel solves."""


@dataclass(frozen=True, slots=True)
class Interpolated:
    """A function of a number that is linear between the points of a model and constant beyond them.

    Attributes
    ----------
    points, values : tuple of float
        Ascending points, and the values there.
    """

    points: tuple[float, ...]
    values: tuple[float, ...]

    def __call__(self, records: Array) -> Array:
        numbers = check_array("records", records, (*REAL_DTYPES, "uint64"))
        return np.asarray(np.interp(numbers, self.points, self.values), np.float64)


@dataclass(frozen=True, slots=True)
class Certificate:
    r"""The proof that a binary channel is optimal among binary channels: Φ_φ(2η) ≤ ω(η), Steinberger (2019), Satz 3.13.

    Attributes
    ----------
    radius : float
        η = n^{−1/2}(e^ε + 1)/(e^ε − 1).
    modulus : float
        A lower bound of ω(η), the total variation modulus: two members of the model attain it. Under every ε-private channel with two
        outcomes, the probabilities of an outcome at these two members differ by at most n^{−1/2}.
    attained : float
        An upper bound of Φ_φ(2η) = max{θ(p1) − θ(p0): \|E_p1 φ − E_p0 φ\| ≤ 2η}, by weak duality: members whose θ differ by more have
        probabilities of an outcome that differ by more than n^{−1/2} under this channel. It is at least `modulus`.

    Notes
    -----
    The comparison is with channels of two outcomes. Channels with more outcomes can resolve less than `modulus`; from e^ε > √3 on there is
    a model in which they do. What no channel can do is the subject of `lower_bound`.
    """

    radius: float
    modulus: float
    attained: float

    def __post_init__(self) -> None:
        """Put the bounds in order: `attained` is proved, and no channel attains less than the modulus. See `Modulus`."""
        object.__setattr__(self, "modulus", min(self.modulus, self.attained))

    @property
    def ratio(self) -> float:
        """attained/modulus, at least 1."""
        return self.attained / self.modulus

    @property
    def holds(self) -> bool:
        """Whether attained ≤ modulus·(1 + 1e-6), that is, whether the channel is proved optimal among binary channels."""
        return self.attained <= self.modulus * (1 + SLACK)

    def in_units(self, frame: Frame) -> Certificate:
        """Convert a certificate of a model's standard form to the units of the model.

        Parameters
        ----------
        frame : Frame
            The model's `frame`.

        Returns
        -------
        Certificate
            Its bounds are rounded outwards.
        """
        return Certificate(self.radius, frame.difference(self.modulus), frame.difference(self.attained) * (1 + 2.0**-50))


@dataclass(frozen=True, slots=True, eq=False)
class OptimalChannel(LocallyGuaranteed):
    """A binary channel that is optimal among binary channels for n records of a model, with the proof.

    Attributes
    ----------
    channel : BinaryChannel
        Privatizes codes 0 … X − 1 of the points of the model (`Model.codes`). The largest magnitude of its table φ is 1.
    certificate : Certificate
        The proof.
    p0, p1 : ndarray of float64, shape (X,)
        The two members at total variation distance at most η whose θ differ most. They are the hardest to distinguish.
    n : int
        Number of records the channel is optimal for.
    points : ndarray of float64, or None
        The points of the model.
    """

    channel: BinaryChannel
    certificate: Certificate
    p0: Array = field(repr=False)
    p1: Array = field(repr=False)
    n: int
    points: Array | None = field(repr=False)

    @property
    def privacy(self) -> Privacy:
        """The guarantee of one report, (ε, 0)."""
        return self.channel.privacy

    def for_records(self) -> BinaryChannel:
        """Make the channel that takes records as they are, instead of codes of points.

        Returns
        -------
        BinaryChannel
            Its φ is linear between the points of the model and constant beyond them. Its reports fit the estimators of this channel.

        Raises
        ------
        ParameterError
            If the points of the model are unknown, or are not numbers.

        Notes
        -----
        Between two neighbouring points, a report has the law that it would have if the record moved to one of them at random, with
        probabilities that keep its mean. So a distribution of records becomes one on the grid with the same mean. Rounding records to the
        nearest point (`Model.codes`) moves the mean by up to half a spacing instead.
        Guarantee: P(report | x) ≤ e^ε·P(report | x') for all records x, x', exactly, as for `channel`.

        Examples
        --------
        >>> import numpy as np
        >>> from dpcore.minimax import Model, optimal_channel
        >>> optimal = optimal_channel(Model.moment(np.linspace(-8.0, 8.0, 33), kappa=2.0, C=1.0), 1.0, n=1000)
        >>> optimal.for_records().privatize([0.1, -0.3, 12.0]).shape
        (3,)
        """
        if self.points is None or self.points.ndim != 1:
            raise ParameterError("the model must have points that are numbers; use `channel` with the codes of its points")
        order = np.argsort(self.points, kind="stable")
        phi = np.array(self.channel.phi)
        table = Interpolated(tuple(self.points[order].tolist()), tuple(phi[order].tolist()))
        return BinaryChannel(self.channel.epsilon, table, bound=self.channel.norm)

    def _repr_html_(self) -> str:
        certificate, phi = self.certificate, np.array(self.channel.phi)
        rows = (
            ("privacy of one report", f"ε = {self.channel.epsilon:g}"),
            ("records", f"{self.n:,}"),
            ("φ", f"{len(phi)} values from {phi.min():.4g} to {phi.max():.4g}"),
            ("no private one-bit channel resolves differences of θ below", f"{certificate.modulus:.4g}"),
            ("this channel resolves all above", f"{certificate.attained:.4g}"),
            ("proved optimal among one-bit channels", "yes" if certificate.holds else "no"),
        )
        return facts_table("Optimal binary channel", rows)


def optimal_channel(model: Model, epsilon: float, *, n: int, progress: Progress | None = None) -> OptimalChannel:
    r"""Find the binary channel that resolves the smallest differences of θ with n records under ε-privacy, and prove it.

    Parameters
    ----------
    model : Model
        The model. Its functional must not be constant.
    epsilon : float
        Privacy loss of one report, in [2^−20, 700].
    n : int
        Number of records, in [1, 2^53].
    progress : callable, optional
        Called as progress(done, total) as programs are solved.

    Returns
    -------
    OptimalChannel
        The channel, given by a function φ with values in [−1, 1], and a certificate that holds.

    Raises
    ------
    ParameterError, ParameterTypeError
        If an argument is outside its range or of the wrong type, or if the functional is constant.
    DpcoreError
        If no certificate was found, because the linear programs are badly scaled. A channel without a certificate is never returned.

    Notes
    -----
    Let z0 = (e^ε + 1)/(e^ε − 1) and η = z0 n^{−1/2}. In the program of `modulus_tv`, let w be the duals of p1 − p0 ≤ t and λ that of
    Σt ≤ η. Then φ = 2w/λ − 1. Every pair with \|E_p1 φ − E_p0 φ\| ≤ 2η has θ(p1) − θ(p0) ≤ ω(η), so the Hellinger modulus of the reports
    at n^{−1/2} is at most the total variation modulus of the records at η. Under any ε-private channel with two outcomes, some pair with
    θ(p1) − θ(p0) = ω(η) has probabilities of an outcome within n^{−1/2}, so no such channel resolves less. Channels with more outcomes
    may, if e^ε > √3.
    Cost: five linear programs, and five larger ones if the first do not give a certificate; 0.1 s for 500 points.
    Source: Steinberger (2019), Satz 3.13, whose proof shows that such a φ exists.

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
    steps = Steps(progress, 2 * STAGES)
    standard = model.standard
    found = _found(standard, model.f, radius, steps, refined=False)
    if not found.certificate.holds:
        found = _found(standard, model.f, radius, steps, refined=True)
    if not found.certificate.holds:
        raise DpcoreError(
            f"no channel could be proved optimal: the best one attains {found.certificate.ratio!r} times the modulus, which must be at "
            f"most 1 + {SLACK:.0e}; scale f and the rows of A to similar sizes"
        )
    steps.finish()
    channel, certificate = BinaryChannel(epsilon, tuple(found.phi.tolist())), found.certificate.in_units(model.frame)
    return OptimalChannel(channel, certificate, found.modulus.p0, found.modulus.p1, n, model.points)


class _Found(NamedTuple):
    """φ of a channel, the modulus with its members, and the certificate."""

    phi: Array
    modulus: Modulus
    certificate: Certificate


def _found(model: Model, own: Array, radius: float, steps: Steps, *, refined: bool) -> _Found:
    """Find the best φ. Programs that are `refined` cost four times as much; they help if 1e-10 is not a small distance."""
    pair = largest_difference_tv(model, radius, refined=refined)
    steps.advance()
    modulus = modulus_of(model, radius, pair, refined=refined)
    if not modulus.value > CONSTANT * np.abs(model.f).max():
        raise ParameterError("the functional of the model must not be constant: every distribution then has the same θ")
    steps.advance()
    if pair.slope * min(radius, 1.0) < FLAT * modulus.value:
        # The radius allows the whole range of θ. The hardest pair is then the closest one that spans it.
        pair = nearest_pair(model, modulus.value * (1 - FLAT), refined=refined)
    tried = [
        _Found(phi, modulus, _certificate(model, modulus, phi, pair.slope / 2, refined=refined)) for phi in _directions(model, own, pair)
    ]
    steps.advance()
    return next((each for each in tried if each.certificate.holds), min(tried, key=lambda each: each.certificate.attained))


def _directions(model: Model, own: Array, pair: Pair) -> list[Array]:
    """Return the functions φ that the duals give, with norm 1, the preferred one first."""
    vertex = np.clip(2 * pair.weights / pair.slope - 1, -1.0, 1.0)
    found = [_in_the_middle(model, own, pair, vertex), vertex]
    return [phi / np.abs(phi).max() for phi in found]


def _in_the_middle(model: Model, own: Array, pair: Pair, phi: Array) -> Array:
    """Return the φ in the middle of the range that the multipliers allow. For moments, that is the clipped line.

    A φ is dual feasible if f − μφ ≤ c1 + Aᵀy1 and μφ − f ≤ c0 + Aᵀy0 at every point. Clipping to [−1, 1] stays between the two bounds,
    because they allow one φ in [−1, 1]. At points without mass, every value is allowed. `own` is the functional in the model's own units.
    """
    region, half = model.region, pair.slope / 2
    size = model.size
    if region.image.shape[1] < size or (region.image[:, :size] - sp.eye_array(size)).nnz:
        return phi  # a mixture: its conditions are not about single points
    behind, ahead = ((region.below.T @ duals)[:size] for duals in pair.costs)
    rest = model.f - half * phi
    lower = (model.f - ahead - (rest - ahead).max()) / half
    upper = (model.f + behind + (-rest - behind).max()) / half
    lower, upper = np.where(model.possible, lower, -1.0), np.where(model.possible, upper, 1.0)
    return _rising(own, np.clip((lower + upper) / 2, -1.0, 1.0), np.clip(lower, -1.0, 1.0), np.clip(upper, -1.0, 1.0))


def _rising(f: Array, phi: Array, lower: Array, upper: Array) -> Array:
    """Return a φ between the bounds that never falls where f rises, if there is one, and otherwise φ.

    Far from the hard members, the bounds allow every value, and the middle may fall. That costs nothing within the model, but records of
    other distributions lie there, and records beyond the grid get the last code.
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
    """Bound Φ_φ(2η) by 2ημ + max (f − μφ)·p1 + max (μφ − f)·p0, which holds for every μ ≥ 0, and by the whole range."""
    attained = 2 * min(modulus.radius, 1.0) * slope + certified.spread(model, model.f - slope * phi, refined=refined)
    return Certificate(modulus.radius, modulus.value, min(attained, whole_range(model, refined=refined)))
