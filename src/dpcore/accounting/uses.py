"""The uses of a mechanism as accounting describes them, and the guarantee of several together."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import TYPE_CHECKING, Literal

from dpcore._dataclasses import dataclass
from dpcore._validation import check_choice
from dpcore.accounting._checks import check_loss, check_uses
from dpcore.errors import ParameterError, ParameterTypeError
from dpcore.privacy import Guaranteed

if TYPE_CHECKING:
    from dpcore.privacy import Privacy

Mechanism = Literal["pure", "approximate", "laplace", "bounded_range", "gaussian", "concentrated"]
MECHANISMS = ("pure", "approximate", "laplace", "bounded_range", "gaussian", "concentrated")
BY_RHO = ("gaussian", "concentrated")


@dataclass(frozen=True, slots=True)
class Uses:
    """A number of uses of one kind of mechanism, with the privacy parameters that accounting needs.

    Parameters
    ----------
    mechanism : str
        - "pure": anything ε-private, such as permute-and-flip, noisy maxima with Laplace noise, discrete Laplace noise, or
          randomised response;
        - "approximate": anything (ε, δ)-private;
        - "laplace": continuous Laplace noise of scale Δ₁/ε, rounded or not;
        - "bounded_range": the exponential mechanism at ε, which is the noisy maximum with Gumbel noise;
        - "gaussian": continuous Gaussian noise, rounded or not, by its ρ = Δ²/2σ² (`rho_gaussian`);
        - "concentrated": anything ρ-zCDP, such as discrete Gaussian noise.
    uses : int, default 1
        Number of uses, in [1, 10^18].
    epsilon : float, default 0.0
        ε of one use, in [0, ∞). Not for "gaussian" and "concentrated".
    delta : float, default 0.0
        δ of one use, in [0, 1). For "approximate" only.
    rho : float, optional
        ρ of one use, in [0, ∞). For "gaussian" and "concentrated" only, and required there.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a value is outside its range, is missing, or does not belong to the mechanism.

    Examples
    --------
    >>> Uses("laplace", uses=10, epsilon=0.1)
    Uses(mechanism='laplace', uses=10, epsilon=0.1, delta=0.0, rho=None)
    """

    mechanism: Mechanism
    _: KW_ONLY
    uses: int = 1
    epsilon: float = 0.0
    delta: float = 0.0
    rho: float | None = None

    def __post_init__(self) -> None:
        check_choice("mechanism", self.mechanism, MECHANISMS)
        object.__setattr__(self, "uses", check_uses(self.uses))
        object.__setattr__(self, "epsilon", check_loss("epsilon", self.epsilon))
        object.__setattr__(self, "delta", check_loss("delta", self.delta, high=1.0))
        by_rho = self.mechanism in BY_RHO
        if by_rho and self.rho is None:
            raise ParameterTypeError(f"rho must be given for mechanism={self.mechanism!r}")
        if not by_rho and self.rho is not None:
            raise ParameterError(f"rho must be left out for mechanism={self.mechanism!r}, which has epsilon, got {self.rho!r}")
        if by_rho and self.epsilon:
            raise ParameterError(f"epsilon must be left out for mechanism={self.mechanism!r}, which has rho, got {self.epsilon!r}")
        if self.delta and self.mechanism != "approximate":
            raise ParameterError(f"delta must be 0 for mechanism={self.mechanism!r}, got {self.delta!r}")
        if self.rho is not None:
            object.__setattr__(self, "rho", check_loss("rho", self.rho))


@dataclass(frozen=True, slots=True)
class Composition(Guaranteed):
    """The guarantee of several uses together; `compose` returns it.

    Attributes
    ----------
    privacy : Privacy
        The guarantee.
    rule : {"basic", "advanced", "optimal", "zcdp", "gaussian", "gdp"}
        The rule that gives it. "gaussian" is the exact δ of Gaussian noise alone, "gdp" that of Gaussian noise beside other uses.
    """

    privacy: Privacy
    rule: str


def check_all_uses(uses: object) -> tuple[Uses, ...]:
    """Return `uses` as a tuple, else raise. A single `Uses` is accepted."""
    every = (uses,) if isinstance(uses, Uses) else tuple(uses)  # type: ignore[arg-type]
    for i, use in enumerate(every):
        if not isinstance(use, Uses):
            raise ParameterTypeError(f"uses[{i}] must be a dpcore.accounting.Uses, got {use!r}")
    return every
