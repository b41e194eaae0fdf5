"""Tumult Core: its additive noise, drawn by dpcore for whole arrays, also in Spark's Python workers. docs/interop/tumult.md."""

from __future__ import annotations

import importlib
import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from importlib import metadata
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcore import noise
from dpcore._dataclasses import dataclass
from dpcore._exact.intervals import fraction_up
from dpcore.interop import _entering
from dpcore.interop._installation import Installation, Installed, Replacement
from dpcore.interop._peers import Peer

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["PEER", "install", "uninstall"]

PEER = Peer(module="tmlt.core", distribution="tmlt.core", tested=("0.19.1", "0.20"), extra="peer-tumult")
SERIES, MECHANISMS = "tmlt.core.measurements.pandas_measurements.series", "tmlt.core.measurements.noise_mechanisms"


@dataclass(frozen=True, slots=True)
class Law:
    """A kind of noise and its scale: all that a worker of Spark has to know.

    Attributes
    ----------
    kind : {"laplace", "gaussian", "discrete_laplace", "discrete_gaussian"}
        Function of `dpcore.noise`.
    scale : float
        b, σ or t, rounded up.
    widens : bool, default True
        Whether real noise takes integers, too, as it does before Tumult Core 0.20.
    """

    kind: str
    scale: float
    widens: bool = True

    @property
    def whole(self) -> bool:
        """Whether the noise is for integers."""
        return self.kind.startswith("discrete")

    def takes(self, dtype: np.dtype[Any]) -> bool:
        """Whether numbers of this type get this noise here. Tumult answers for the others itself."""
        integers, floats = self.whole or self.widens, not self.whole
        return (integers and dtype.kind == "i") or (floats and dtype.kind == "f" and dtype.itemsize in {4, 8})

    def noised(self, values: npt.NDArray[Any], threads: int | None = None) -> npt.NDArray[Any]:
        """Values with noise: int64 for integers, else float64."""
        found: npt.NDArray[Any] = getattr(noise, self.kind)(values, self.scale, threads=threads)
        return found

    def number(self, value: Any) -> int | float:
        """A number with noise. Integers beyond int64 count as its end for integer noise; all others enter exactly."""
        if self.whole:
            return int(getattr(noise, self.kind)(_entering.whole_number(value), self.scale))
        if isinstance(value, float | np.floating) and not np.isfinite(value):
            return float(getattr(noise, self.kind)(float(value), self.scale))  # refuses it
        return _entering.released(self.kind, value, self.scale)  # type: ignore[arg-type]


def install() -> Installed:
    """Let dpcore draw the additive noise of Tumult Core, for the whole process and for the Spark jobs that it plans.

    Returns
    -------
    Installed
        A context manager: Tumult is as before when it ends. Without ``with``, until `uninstall`.

    Raises
    ------
    ModuleNotFoundError
        If tmlt.core is absent.
    ParameterError
        If this runs while tmlt.core is being imported.
    ForeignPatchError
        If another library has replaced one of the methods.

    Notes
    -----
    Tumult Core 0.19.1 and 0.20 are served alike, but that 0.20 refuses numbers of another type than the domain's, such as integers for real
    noise; so they are refused with dpcore, too.

    Replaced are ``AddNoiseToSeries.__call__``, how such a measurement is pickled for a worker of Spark, and ``__call__`` of
    ``AddLaplaceNoise``, ``AddGeometricNoise``, ``AddGaussianNoise`` and ``AddDiscreteGaussianNoise``.

    Guarantee: the output is distributed as the exact law of the scale that Tumult computed, rounded up to a float64; for real values it is
    rounded to a grid after the noise. Sensitivities, budgets and which values get noise are Tumult's. A scale of 0, an infinite one and
    values of another type than the domain's are left to Tumult.

    Cost: a few nanoseconds a value instead of about 100 µs, plus 10 to 100 µs a call. Workers that noise alone do not import tmlt.core.

    Examples
    --------
    >>> from dpcore.interop import tumult
    >>> with tumult.install():  # doctest: +SKIP
    ...     answer = measurement(spark_dataframe)
    """
    return _INSTALLATION.install()


def uninstall() -> None:
    """Restore every method of Tumult Core; do nothing if none is replaced.

    Raises
    ------
    ForeignPatchError
        If another library has replaced one of them in the meantime; nothing is changed then.

    Notes
    -----
    Frames of Spark that were planned before keep dpcore's noise; Spark runs them later.
    """
    _INSTALLATION.uninstall()


# The law of a measurement


def law_of(measurement: Any) -> Law | None:
    """The law of a noise measurement of Tumult, None if Tumult must answer itself: for no noise, infinite noise, or scales beyond ours."""
    kind, parameter = KINDS.get(type(measurement).__name__, (None, ""))
    if kind is None or type(measurement).__module__ != MECHANISMS:
        return None
    exact = _at_least(getattr(measurement, parameter))
    if exact is None:
        return None
    scale = _root_up(exact) if parameter == "sigma_squared" else fraction_up(exact)
    low, high = noise.DISCRETE_SCALE if kind.startswith("discrete") else noise.FLOAT_SCALE
    return Law(kind, scale) if low < scale < high else None


KINDS = {
    "AddLaplaceNoise": ("laplace", "scale"),
    "AddGeometricNoise": ("discrete_laplace", "alpha"),
    "AddGaussianNoise": ("gaussian", "sigma_squared"),
    "AddDiscreteGaussianNoise": ("discrete_gaussian", "sigma_squared"),
}
"""Tumult's classes: the law of their noise and the attribute with its parameter, an ExactNumber."""


def _at_least(number: Any) -> Fraction | None:
    """A positive ExactNumber as a fraction: exactly if it is rational, else its float that Tumult has compared and found no smaller."""
    expression = number.expr
    if expression.is_Rational:
        exact = Fraction(int(expression.p), int(expression.q))
        return exact if exact > 0 else None
    least = number.to_float(round_up=True)
    return Fraction(least) if 0 < least < math.inf else None


def _root_up(square: Fraction) -> float:
    """The least float whose square is no smaller, infinite beyond float64."""
    root = math.sqrt(fraction_up(square))
    if not math.isfinite(root):
        return math.inf
    below = math.nextafter(root, 0.0)
    if Fraction(below) ** 2 >= square:
        return below
    return root if Fraction(root) ** 2 >= square else math.nextafter(root, math.inf)


# The methods of Tumult that are replaced

WIDE: tuple[Any, Any] = (int | np.integer, int | float | np.integer | np.floating)
NARROW: tuple[Any, Any] = (int | np.int64, float)
"""Numbers that integer noise and real noise take: before Tumult Core 0.20, and from then on. Tumult refuses the others itself."""


def _replacements() -> Iterator[Replacement]:
    series = importlib.import_module(SERIES).AddNoiseToSeries
    mechanisms = importlib.import_module(MECHANISMS)
    widens = _widens()
    yield Replacement(series, "__call__", _series_call(series.__call__, widens=widens))
    yield Replacement(series, "__reduce_ex__", _reduce_series)
    for name in KINDS:
        owner = getattr(mechanisms, name)
        yield Replacement(owner, "__call__", _scalar_call(owner.__call__, *(WIDE if widens else NARROW)))


def _widens() -> bool:
    """Whether this Tumult's real noise takes integers: from 0.20 on a number of another type than the domain's is refused."""
    major, minor = metadata.version(PEER.distribution).split(".")[:2]
    return (int(major), int(minor)) < (0, 20)


def _series_call(original: Callable[[Any, Any], Any], *, widens: bool) -> Callable[[Any, Any], Any]:
    def __call__(self: Any, values: Any) -> Any:  # noqa: N807
        """Add noise to each number of a Series, by dpcore."""
        law = law_of(self.noise_measurement)
        if law is None or not _is_plain(replace(law, widens=widens), values):
            return original(self, values)
        return _noised(law, values)

    return __call__


def _scalar_call(original: Callable[[Any, Any], Any], integers: Any, reals: Any) -> Callable[[Any, Any], Any]:
    def __call__(self: Any, value: Any) -> Any:  # noqa: N807
        """Add noise to a number, by dpcore."""
        law = law_of(self)
        if law is None or not isinstance(value, integers if law.whole else reals):
            return original(self, value)
        return law.number(value)

    return __call__


def _is_plain(law: Law, values: Any) -> bool:
    """Whether a Series holds NumPy numbers that the law is for."""
    dtype = values.dtype
    return isinstance(dtype, np.dtype) and law.takes(dtype)


def _noised(law: Law, values: Any, threads: int | None = None) -> Any:
    """A Series with noise, with index and name."""
    noised = law.noised(values.to_numpy(), threads)
    return type(values)(noised, index=values.index, name=values.name)


# What reaches the workers of Spark


def _reduce_series(self: Any, protocol: Any) -> Any:
    """Pickle a measurement so that it is Tumult's own anywhere but in a task of Spark, where dpcore's law is enough."""
    plain = object.__reduce_ex__(self, protocol)
    served = getattr(type(self).__call__, "__module__", None) == __name__
    law = law_of(self.noise_measurement) if served else None
    if law is None:
        return plain
    cloudpickle = importlib.import_module("pyspark.cloudpickle")
    return _unpickled, (replace(law, widens=_widens()), cloudpickle.dumps(plain))


def _unpickled(law: Law, plain: bytes) -> Any:
    """A measurement from a pickle."""
    task = getattr(sys.modules.get("pyspark"), "TaskContext", None)
    return InTask(law, plain) if task is not None and task.get() is not None else _rebuilt(plain)


def _rebuilt(plain: bytes) -> Any:
    """Tumult's measurement from what its own `__reduce_ex__` gave."""
    make, arguments, *rest = importlib.import_module("pickle").loads(plain)
    found = make(*arguments)
    state = rest[0] if rest else None
    if state is not None:
        vars(found).update(state)
    return found


class InTask:
    """A measurement in a task of Spark: the noise is dpcore's, and everything else that of Tumult's measurement, made when it is needed.

    Parameters
    ----------
    law : Law
        Of the noise.
    plain : bytes
        Tumult's measurement, pickled: tmlt.core takes seconds to import, which a worker that adds noise alone need not.
    """

    def __init__(self, law: Law, plain: bytes) -> None:
        self._law, self._plain = law, plain
        self._measurement: Any = None

    def __call__(self, values: Any) -> Any:
        """Add noise to each number of a Series, on one thread: Spark runs a worker for each core."""
        return _noised(self._law, values, threads=1) if _is_plain(self._law, values) else self._tumults()(values)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._tumults(), name)

    def __reduce__(self) -> Any:
        return _unpickled, (self._law, self._plain)

    def _tumults(self) -> Any:
        if self._measurement is None:
            self._measurement = _rebuilt(self._plain)
        return self._measurement


_INSTALLATION = Installation(PEER, _replacements)
