"""Names of dpcore's constructors in OpenDP's context API."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dpcore.errors import ForeignPatchError
from dpcore.interop._installation import Installation, Installed, Replacement
from dpcore.interop.opendp._distributions import make_ks_exponential
from dpcore.interop.opendp._measurements import PEER
from dpcore.interop.opendp._noise import make_gaussian, make_laplace
from dpcore.interop.opendp._responses import make_randomized_response, make_randomized_response_bool
from dpcore.interop.opendp._selection import make_noisy_max, make_noisy_top_k

CONSTRUCTORS = (
    make_laplace,
    make_gaussian,
    make_noisy_max,
    make_noisy_top_k,
    make_randomized_response_bool,
    make_randomized_response,
    make_ks_exponential,
)


def _replacements(*, generator: bool) -> Iterator[Replacement]:
    from opendp.context import constructors
    from opendp.extras._utilities import to_then

    for constructor in CONSTRUCTORS:
        name = constructor.__name__.replace("make_", "dpcore_", 1)
        if name in constructors:
            raise ForeignPatchError(f"{name} is registered in OpenDP's context API already, by another library; remove it first")
        yield Replacement(constructors, name, (to_then(constructor), True))
    if generator:
        from opendp import _lib

        from dpcore.interop.numpy import SecureBitGenerator

        yield Replacement(_lib, "_np_csprng", np.random.Generator(SecureBitGenerator()), homes=("numpy",))


_INSTALLATION = Installation(PEER, _replacements)


def install(*, generator: bool = False) -> Installed:
    """Register the constructors of this package under names in OpenDP's context API: ``context.query().….dpcore_laplace()``.

    Parameters
    ----------
    generator : bool, default False
        Whether `dpcore.interop.numpy.SecureBitGenerator` also replaces the generator of NumPy that OpenDP's ``sklearn`` module draws from.
        OpenDP's own repeats its numbers in processes that were forked after its first use.

    Returns
    -------
    Installed
        A context manager that removes the names when it is left. Without ``with`` they stay until `uninstall`.

    Raises
    ------
    ModuleNotFoundError
        If OpenDP is not installed.
    ForeignPatchError
        If another library has registered one of the names. Nothing is changed then.
    ParameterError
        If the names are there with another `generator`.

    Notes
    -----
    The names are dpcore_laplace, dpcore_gaussian, dpcore_noisy_max, dpcore_noisy_top_k, dpcore_randomized_response_bool,
    dpcore_randomized_response and dpcore_ks_exponential. No measurement of OpenDP is replaced, and no feature is enabled.

    Cost: microseconds, after OpenDP was imported.

    Examples
    --------
    >>> install()  # doctest: +SKIP
    >>> context.query().count().dpcore_laplace().release()  # doctest: +SKIP
    """
    return _INSTALLATION.install(generator=generator)


def uninstall() -> None:
    """Remove the names again; do nothing if there are none.

    Raises
    ------
    ForeignPatchError
        If another library has registered something else under one of them. Nothing is changed then.

    Notes
    -----
    Queries and measurements that were made stay as they are.

    Cost: microseconds.

    Examples
    --------
    >>> uninstall()
    """
    _INSTALLATION.uninstall()
