"""Opacus with exact noise: the sum of clipped gradients gets Gaussian noise of dpcore, for the sensitivity that float32 leaves it.

Two lines serve a program: ``from dpcore.interop import opacus`` and ``opacus.install()``. docs/interop/opacus.md says which optimizers are
served, what is proved, and what is not.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import MethodType
from typing import Any, Literal, TypeVar

from dpcore._exact.intervals import fraction_up
from dpcore._validation import check_integer
from dpcore.errors import ParameterError, ParameterTypeError
from dpcore.interop._installation import Installation, Installed, Replacement
from dpcore.interop._peers import Peer
from dpcore.interop.opacus import _bounds, _optimizers

__all__ = ["PEER", "install", "secure", "sensitivity_factor", "uninstall"]

PEER = Peer(module="opacus", distribution="opacus", tested=("1.6",), extra="peer-opacus")
"""Opacus, and the versions that the tests ran with."""

EngineT = TypeVar("EngineT")


def _options(sensitivity: str, max_samples: int | None) -> _optimizers.Options:
    if sensitivity not in ("proved", "nominal"):
        raise ParameterError(f"sensitivity must be 'proved' or 'nominal', got {sensitivity!r}")
    if max_samples is not None:
        max_samples = check_integer("max_samples", max_samples, low=1, high=_bounds.MAX_SAMPLES)
    return _optimizers.Options("proved" if sensitivity == "proved" else "nominal", max_samples)


def _replacements(*, sensitivity: str, max_samples: int | None) -> Iterator[Replacement]:
    for owner, name, new in _optimizers.replaced(_options(sensitivity, max_samples)):
        yield Replacement(owner, name, new)


_INSTALLATION = Installation(PEER, _replacements)


def install(*, sensitivity: Literal["proved", "nominal"] = "proved", max_samples: int | None = None) -> Installed:
    r"""Let every optimizer of Opacus in this process draw its noise from dpcore.

    Parameters
    ----------
    sensitivity : {"proved", "nominal"}, default "proved"
        "proved": dpcore clips and adds the gradients as well, and the noise is made for `sensitivity_factor` times the clipping bound.
        "nominal": Opacus clips, and its clipping bound is believed. This serves ghost clipping, too.
    max_samples : int, optional
        Largest number of samples of a step, in [1, 2^24]. It must not depend on the records. By default it is derived from the expected
        batch size, so that a Poisson batch exceeds it with probability at most 2^-64.

    Returns
    -------
    Installed
        A context manager: leaving it restores Opacus, unless somebody else has installed as well.

    Raises
    ------
    ModuleNotFoundError
        If Opacus is not installed.
    ParameterError, ParameterTypeError
        If an argument does not fit, or other options are installed.
    ForeignPatchError
        If another library has replaced one of the methods.

    Notes
    -----
    Guarantee: with "proved", each step is the Gaussian mechanism with Opacus' `noise_multiplier`, exactly, for neighbours that differ by
    one sample: the gradients released are the correctly rounded values of sum + noise. So Opacus' accountants state what holds.

    Cost: 0.2 ms a process. A step costs less than without, because the noise does.

    Source: Abadi et al. (2016), Algorithm 1; Balle & Wang (2018), Theorem 8.

    Examples
    --------
    >>> from dpcore.interop import opacus
    >>> with opacus.install():  # doctest: +SKIP
    ...     train(model, optimizer, loader)
    """
    _options(sensitivity, max_samples)
    return _INSTALLATION.install(sensitivity=sensitivity, max_samples=max_samples)


def uninstall() -> None:
    """Restore the methods of Opacus; do nothing if none is replaced.

    Raises
    ------
    ForeignPatchError
        If another library has replaced one of them since. Nothing is changed then.

    Notes
    -----
    Optimizers of an engine that `secure` has treated stay with dpcore.

    Cost: microseconds.

    Examples
    --------
    >>> from dpcore.interop import opacus
    >>> opacus.uninstall()
    """
    _INSTALLATION.uninstall()


def secure(engine: EngineT, *, sensitivity: Literal["proved", "nominal"] = "proved", max_samples: int | None = None) -> EngineT:
    r"""Let the optimizers that one `PrivacyEngine` makes from now on draw their noise from dpcore.

    Parameters
    ----------
    engine : opacus.PrivacyEngine
        Made with ``secure_mode=False``, its default: ``secure_mode=True`` needs torchcsprng, which current versions of torch cannot load.
    sensitivity : {"proved", "nominal"}, default "proved"
        As in `install`.
    max_samples : int, optional
        As in `install`.

    Returns
    -------
    PrivacyEngine
        The same engine.

    Raises
    ------
    ModuleNotFoundError
        If Opacus is not installed.
    ParameterError, ParameterTypeError
        If `engine` is no `PrivacyEngine`, or is in secure mode, or another argument does not fit. The `make_private` of the engine raises
        `ParameterError` for optimizers that are not served.

    Notes
    -----
    Guarantee and cost: those of `install`, for the optimizers of this engine.

    Examples
    --------
    >>> from dpcore.interop import opacus
    >>> engine = opacus.secure(PrivacyEngine())  # doctest: +SKIP
    """
    options = _options(sensitivity, max_samples)
    PEER.require()
    from opacus import PrivacyEngine

    if not isinstance(engine, PrivacyEngine):
        raise ParameterTypeError(f"engine must be an opacus.PrivacyEngine, got {type(engine).__name__}")
    if engine.secure_mode:
        raise ParameterError("engine must be made with secure_mode=False: dpcore draws from the operating system instead of torchcsprng")
    kind: Any = type(engine)
    prepare = kind._prepare_optimizer

    def _prepare_optimizer(self: Any, **arguments: Any) -> Any:
        return _bind(prepare(self, **arguments), options)

    engine._prepare_optimizer = MethodType(_prepare_optimizer, engine)
    return engine


def _bind(optimizer: Any, options: _optimizers.Options) -> Any:
    """Set on one optimizer the methods that `install` gives the classes."""
    methods = {(owner, name): new for owner, name, new in _optimizers.replaced(options)}
    for name in ("pre_step", "clip_and_accumulate", "add_noise"):
        owner = next(kind for kind in type(optimizer).__mro__ if name in vars(kind))
        if (owner, name) in methods:
            setattr(optimizer, name, MethodType(methods[owner, name], optimizer))
    _optimizers.check_served(optimizer, options)
    return optimizer


def sensitivity_factor(parameters: int, samples: int) -> float:
    r"""Return by how much float32 may raise the ℓ2 sensitivity of a sum of clipped gradients that dpcore makes.

    Parameters
    ----------
    parameters : int
        Numbers in all parameters of the model, in [1, 2^33].
    samples : int
        Largest number of samples of a step, in [1, 2^24].

    Returns
    -------
    float
        F ≥ 1: the sums of two data sets that differ by one sample are at most F times the clipping bound apart.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a number is out of its range.

    Notes
    -----
    Guarantee: F = (1 + 2052u)(1 + (d + 4)/2^53)(1 + 2n·hu/(1 − hu))(1 + 2^-28), rounded up, where u = 2^-24, d is `parameters`, n is
    `samples` and h = 66 + ⌈log2⌈n/64⌉⌉. docs/interop/opacus.md has the proof.

    Cost: microseconds.

    Source: Higham (2002), Section 3.1.

    Examples
    --------
    >>> from dpcore.interop import opacus
    >>> round(opacus.sensitivity_factor(1_000_000, 256), 5)
    1.0022
    """
    parameters = check_integer("parameters", parameters, low=1, high=_bounds.MAX_PARAMETERS)
    samples = check_integer("samples", samples, low=1, high=_bounds.MAX_SAMPLES)
    return fraction_up(_bounds.inflation(parameters, samples))


def __dir__() -> list[str]:
    return __all__
