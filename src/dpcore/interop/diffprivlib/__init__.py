"""diffprivlib with the noise of dpcore: the methods that draw are replaced on its own classes, and put back by `uninstall`.

The noise is exact, and so are sums, means and variances of `diffprivlib.tools`; budgets and what models compute remain diffprivlib's.
docs/interop/diffprivlib.md says what is served, whose sensitivity holds in which arithmetic, and why the bounded mechanisms are private.
"""

from __future__ import annotations

from collections.abc import Iterator

from dpcore.errors import ParameterTypeError
from dpcore.interop._installation import Installation, Installed, Replacement
from dpcore.interop._peers import Peer

__all__ = ["PEER", "install", "uninstall"]

PEER = Peer(module="diffprivlib", distribution="diffprivlib", tested=("0.6.6",), extra="peer-diffprivlib")
"""What was tested."""


def _replacements(*, vectorise: bool) -> Iterator[Replacement]:
    from dpcore.interop.diffprivlib import _replaced

    return _replaced.replacements(vectorise=vectorise)


_INSTALLATION = Installation(PEER, _replacements)


def install(*, vectorise: bool = False) -> Installed:
    """Let diffprivlib draw from dpcore, in the whole process, until `uninstall` or the end of a ``with`` block.

    Parameters
    ----------
    vectorise : bool, default False
        Also draw the noise of histograms, and of means, variances, deviations, sums and counts along axes, in one call instead of one per
        number, and let `randomise` of the numeric mechanisms take arrays.

    Returns
    -------
    Installed
        A context manager that restores diffprivlib when its block ends, if nobody else has installed meanwhile.

    Raises
    ------
    ModuleNotFoundError
        If diffprivlib is not installed.
    ParameterError, ParameterTypeError
        If `vectorise` is not a bool, if it is installed with another `vectorise`, or while diffprivlib is being imported.
    ForeignPatchError
        If another library has replaced one of the methods.

    Notes
    -----
    Guarantee: that of each mechanism of diffprivlib, for real numbers as for the floats that it returns. Sensitivities of `tools` hold in
    the arithmetic that computes the statistic; those of models are diffprivlib's.

    Cost: 0.1 s the first time, for imports, and then some milliseconds.

    Examples
    --------
    >>> from dpcore.interop import diffprivlib as backend  # doctest: +SKIP
    >>> with backend.install():  # doctest: +SKIP
    ...     diffprivlib.tools.mean(ages, bounds=(0, 100))
    """
    if not isinstance(vectorise, bool):
        raise ParameterTypeError(f"vectorise must be a bool, got {type(vectorise).__name__}")
    return _INSTALLATION.install(vectorise=vectorise)


def uninstall() -> None:
    """Restore every method and function of diffprivlib; do nothing if none is replaced.

    Raises
    ------
    ForeignPatchError
        If another library has replaced one of them after `install`.

    Notes
    -----
    Cost: less than a millisecond.
    """
    _INSTALLATION.uninstall()


def __dir__() -> list[str]:
    return __all__
