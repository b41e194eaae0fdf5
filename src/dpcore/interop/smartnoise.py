"""SmartNoise SQL: the additive noise of its queries, drawn by dpcore. docs/interop/smartnoise.md."""

from __future__ import annotations

import functools
import importlib
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from dpcore import _backend, accounting, noise
from dpcore.accounting import _calibration
from dpcore.errors import DataError, ParameterTypeError
from dpcore.interop import _entering
from dpcore.interop._installation import Installation, Installed, Replacement
from dpcore.interop._peers import Peer
from dpcore.interop._seeds import stream_of
from dpcore.rng import Stream, resolve

__all__ = ["PEER", "install", "mechanisms", "uninstall"]

PEER = Peer(module="snsql", distribution="smartnoise-sql", tested=("1.0.10",), extra="peer-smartnoise")

LARGEST_SCALE = 10_000_000
"""SmartNoise refuses a query whose noise would have a larger scale than this, and says so itself."""
LEAST, MOST = noise.FLOAT_SCALE
"""Scales that dpcore serves."""

_STREAM = "__dpcore_stream__"
"""The attribute of SmartNoise's ``Mechanisms`` that has the source of all noise while `install(random_state=…)` is in place."""


def install(*, random_state: Any = None) -> Installed:
    """Let dpcore draw the noise of every SmartNoise SQL query in this process.

    Parameters
    ----------
    random_state : None, int, bytes, random.Random, numpy.random.RandomState or numpy.random.Generator, optional
        A seed, with which answers are reproducible and not private. None is the operating system's randomness.

    Returns
    -------
    Installed
        A context manager: SmartNoise is as before when it ends. Without ``with``, until `uninstall`.

    Raises
    ------
    ModuleNotFoundError
        If smartnoise-sql is absent.
    ParameterError
        If this runs while snsql is being imported, or it is installed with another seed.
    ParameterTypeError
        If `random_state` is no seed.
    ForeignPatchError
        If another library has replaced one of the methods.

    Notes
    -----
    Replaced is ``Mechanisms.get_mechanism``, which looks the kind of noise up in ``Mechanisms.classes``: where it finds SmartNoise's own
    ``Laplace`` or ``Gaussian``, queries get a subclass of it. Connections that are open already are served too; classes that you
    have put into ``Mechanisms.classes`` yourself are not touched. ``PrivateReader._get_reader`` and ``_check_pre_aggregated_columns``
    are replaced as well, so that a column of an answer gets its noise in one call.

    Guarantee: the noise has SmartNoise's law, with its scale as a real number rounded up, and is exact. What a person can change
    (sensitivities, which OpenDP computes), which columns get noise, and the odometer are SmartNoise's.

    Cost: about 1 µs a value of a query and 5 µs for each of its columns.

    Examples
    --------
    >>> from dpcore.interop import smartnoise
    >>> with smartnoise.install():  # doctest: +SKIP
    ...     rows = reader.execute("SELECT educ, COUNT(*) AS n FROM PUMS.PUMS GROUP BY educ")
    """
    return _INSTALLATION.install(random_state=random_state)


def uninstall() -> None:
    """Restore the methods of SmartNoise SQL; do nothing if none is replaced.

    Raises
    ------
    ForeignPatchError
        If another library has replaced one of the methods in the meantime; nothing is changed then.
    """
    _INSTALLATION.uninstall()


def mechanisms() -> Any:
    """Return a ``snsql.sql.privacy.Mechanisms`` whose classes are dpcore's, for one connection; nothing is replaced.

    Returns
    -------
    Mechanisms
        For ``Privacy(epsilon=…, delta=…, mechanisms=mechanisms())``. Its `map` can be changed as usual.

    Raises
    ------
    ModuleNotFoundError
        If smartnoise-sql is absent.
    ParameterError
        If this runs while snsql is being imported.

    Notes
    -----
    Cost: about 10 µs after the import of snsql.

    Examples
    --------
    >>> from dpcore.interop import smartnoise
    >>> privacy = Privacy(epsilon=1.0, mechanisms=smartnoise.mechanisms())  # doctest: +SKIP
    """
    PEER.require()
    found = importlib.import_module("snsql.sql.privacy").Mechanisms()
    found.classes = {kind: _served(native) for kind, native in found.classes.items()}
    return found


class ExactNoise:
    """What replaces the methods of SmartNoise's classes of noise; `_compute_noise_scale`, `release` and `accuracy` are their names.

    Attributes
    ----------
    scale : float
        Of the noise.
    epsilon, delta : float
        What the odometer adds for each release.
    """

    kind: Literal["laplace", "gaussian"]
    draw: Callable[..., Any]
    width: Callable[..., float]
    scale: Any
    epsilon: Any
    delta: Any
    lower: Any
    upper: Any
    max_contrib: Any

    if TYPE_CHECKING:  # what SmartNoise's class has

        @property
        def threshold(self) -> float:
            """Which noisy number of persons a group must exceed to be named."""

    def rough_scale(self) -> float:
        """The scale that SmartNoise compares with the largest one, computed as it does."""
        raise NotImplementedError

    def least_scale(self) -> float:
        """The least scale that SmartNoise's search could find, rounded up."""
        raise NotImplementedError

    def _compute_noise_scale(self) -> None:
        if self.scale is None and self._is_usual():
            self.scale = self.least_scale()
        super()._compute_noise_scale()  # type: ignore[misc]  # searches only if there is no scale

    def _is_usual(self) -> bool:
        """Whether the parameters ask for noise; SmartNoise answers for ε = ∞, a sensitivity of 0 and what it refuses."""
        return bool(
            0 < self.epsilon < math.inf
            and -math.inf < self.lower < self.upper < math.inf
            and isinstance(self.max_contrib, _entering.WHOLE)
            and 1 <= self.max_contrib < 2**32
            and LEAST <= self.rough_scale() <= LARGEST_SCALE
        )

    def release(self, vals: Iterable[Any]) -> list[float]:
        """Add fresh noise to every value.

        Parameters
        ----------
        vals : iterable of numbers
            Exact aggregates: integers of any size, floats, fractions and decimals, which all enter exactly; NaN as 0 and infinities as
            the largest floats, as in OpenDP.

        Returns
        -------
        list of float
            Released values.

        Raises
        ------
        DataError
            If one is no number.
        """
        if not LEAST <= self.scale <= MOST:
            return super().release(vals)  # type: ignore[misc,no-any-return]
        if type(vals) is list and len(vals) == 1:  # what a query asks for: cell by cell
            return vals[0] if type(vals[0]) is Drawn else [self._released(_entered(vals[0]))]
        values = list(vals)
        entered = _array(values)
        if entered is None:
            return [self._released(_entered(value)) for value in values]
        return type(self).draw(entered, self.scale, rng=_stream()).tolist()  # type: ignore[no-any-return]

    def _released(self, value: float | Fraction) -> float:
        if isinstance(value, Fraction):
            return _entering.released(self.kind, value, float(self.scale), _stream())
        found = _cell(self.kind, float(self.scale)).release(value, resolve(_stream())) if type(value) is float else None
        return type(self).draw(value, self.scale, rng=_stream()) if found is None else found  # type: ignore[no-any-return]

    def accuracy(self, alpha: float) -> float:
        """Return the half-width within which a released value lies with probability ≥ 1 − alpha.

        Parameters
        ----------
        alpha : float
            In (0, 1).

        Returns
        -------
        float
            Quantile of the noise plus what rounding to the grid adds, rounded up.
        """
        if not (LEAST <= self.scale <= MOST and 0 < alpha < 1):
            return super().accuracy(alpha)  # type: ignore[misc,no-any-return]
        return type(self).width(self.scale, _calibration.tail_probability(alpha, 1), self._rounding())

    def _rounding(self) -> float:
        """How far rounding to the grid of dpcore moves a value at most."""
        return noise.default_grid(self.scale) / 2 if LEAST <= self.scale <= MOST else 0.0


class LaplaceNoise(ExactNoise):
    """Laplace noise of a query: of counts, and of sums of any type."""

    kind = "laplace"
    draw = staticmethod(noise.laplace)
    width = staticmethod(_calibration.laplace_width)

    def rough_scale(self) -> float:
        """(upper − lower)·max_contrib/ε."""
        return float(self.upper - self.lower) * self.max_contrib / self.epsilon  # type: ignore[no-any-return]

    def least_scale(self) -> float:
        """b = Δ₁/ε."""
        sensitivity = sensitivity_of_sum(float(self.lower), float(self.upper), int(self.max_contrib))
        return accounting.laplace_scale(self.epsilon, sensitivity)

    @property
    def threshold(self) -> float:
        """SmartNoise's threshold of the noisy number of persons in a group, no lower than 1 + b·ln(c/2δ) + g/2 for c groups a person.

        SmartNoise's formula has Δ/ε for the scale, which is a little larger, and does not know the grid g of the noise.
        """
        theirs: float = super().threshold
        least = 1 + self.scale * math.log(self.max_contrib / (2 * self.delta))
        return float(max(theirs, least * (1 + 2**-50)) + self._rounding())


class GaussianNoise(ExactNoise):
    """Gaussian noise of a query whose ``Mechanisms.map`` asks for it."""

    kind = "gaussian"
    draw = staticmethod(noise.gaussian)
    width = staticmethod(_calibration.gaussian_width)

    def rough_scale(self) -> float:
        """(upper − lower)·max_contrib·√(2 ln(1.25/δ))/ε; infinite for a δ that SmartNoise refuses."""
        if not 0 < self.delta < 1:
            return math.inf
        factor = math.sqrt(2.0 * math.log(1.25 / self.delta))
        return float(self.upper - self.lower) * self.max_contrib * factor / self.epsilon  # type: ignore[no-any-return]

    def least_scale(self) -> float:
        """The σ of zCDP, from sensitivities of bounds that are rounded to integers, as SmartNoise has it."""
        lower, upper = float(math.floor(self.lower)), float(math.ceil(self.upper))
        sensitivity = sensitivity_of_sum(lower, upper, int(self.max_contrib))
        return accounting.zcdp_discrete_gaussian_scale(self.epsilon, self.delta, sensitivity)

    @property
    def threshold(self) -> float:
        """SmartNoise's threshold of the noisy number of persons in a group, plus what rounding to the grid adds."""
        theirs: float = super().threshold
        return float(theirs + self._rounding())


@functools.lru_cache(maxsize=4096)
def sensitivity_of_sum(lower: float, upper: float, max_contrib: int) -> float:
    """How far `max_contrib` rows move a clamped sum of floats, as OpenDP says to SmartNoise; it adds what float addition may lose."""
    dp = importlib.import_module("opendp.prelude")
    dp.enable_features("floating-point", "contrib")
    rows = (dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.symmetric_distance())
    return (rows >> dp.t.then_clamp((lower, upper)) >> dp.t.then_sum()).map(max_contrib)  # type: ignore[no-any-return]


def _stream() -> Stream | None:
    """Source of the noise in this process; None is the secure one. SmartNoise's class has it: a reload of this module loses nothing."""
    return getattr(getattr(sys.modules.get("snsql.sql.privacy"), "Mechanisms", None), _STREAM, None)


@functools.lru_cache(maxsize=4096)
def _cell(kind: Literal["laplace", "gaussian"], scale: float) -> Any:
    """What adds noise to single floats: its `release(value, stream)`, None where `noise` has to do it."""
    return _backend.short_float_call(kind, scale, noise.default_grid(scale), None)


def _array(values: list[Any]) -> npt.NDArray[Any] | None:
    """Numbers of one type as an array, in which each is what `_entered` makes of it; None if there is no such array."""
    types = set(map(type, values))
    if types == {int}:
        array = np.array(values)
        return array if array.dtype == np.int64 else None
    if len(types) == 1 and issubclass(types.pop(), float):
        array = np.array(values, np.float64)
        return array if np.isfinite(array).all() else None
    return None


def _entered(value: Any) -> int | float | Fraction:
    """A value as it gets noise: a function of this value alone, which refuses no number that OpenDP takes. An int is none of the floats."""
    if type(value) is float and math.isfinite(value):
        return value
    if isinstance(value, str):  # SQLite has numbers as text in columns of any type
        value = _parsed(value)
    try:
        entered = _entering.number(value)
    except ParameterTypeError:
        raise DataError(f"vals must be numbers, got one of type {type(value).__name__}") from None
    return float(entered) if type(entered) is int and abs(entered) <= _entering.EXACT else entered


def _parsed(text: str) -> Decimal | str:
    try:
        return Decimal(text)
    except InvalidOperation:
        return text


SERVED = {"Laplace": LaplaceNoise, "Gaussian": GaussianNoise}
"""SmartNoise's classes, and ours above each."""
for _made in SERVED:
    globals().pop(_made, None)  # a reload leaves those of the classes of before


def __getattr__(name: str) -> Any:
    """Make the classes that mechanisms have, when they are needed: they inherit from snsql's, and are pickled by these names."""
    if name not in SERVED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    native = getattr(importlib.import_module("snsql.sql._mechanisms"), name)
    made = type(name, (SERVED[name], native), {"__module__": __name__, "__doc__": SERVED[name].__doc__})
    return globals().setdefault(name, made)  # of two threads, both get the class of the first


def _served(found: Any) -> Any:
    """Our class in place of SmartNoise's own; anything else, also a subclass of it, as it is."""
    name = getattr(found, "__name__", None)
    if name in SERVED and found is getattr(importlib.import_module("snsql.sql._mechanisms"), name):
        return getattr(sys.modules[__name__], name)
    return found


# Whole columns at once


class Drawn(list[float]):
    """A cell of an answer with its noise, as the list that `release` returns for it."""


def _with_noise(exact: Any, subquery: Any) -> Any:
    """Exact aggregates, a list of names and rows, with noise in the columns of dpcore's mechanisms; anything else as it is."""
    width = len(subquery._select_symbols)
    if type(exact) is not list or len(exact) < 2 or any(len(row) != width for row in exact[1:]):
        return exact
    columns: list[Sequence[Any]] = list(zip(*exact[1:], strict=True))
    for i, symbol in enumerate(subquery._select_symbols):
        if isinstance(symbol.mechanism, ExactNoise) and LEAST <= symbol.mechanism.scale <= MOST:
            released = symbol.mechanism.release([0.0 if value is None else value for value in columns[i]])
            columns[i] = list(map(Drawn, zip(released, strict=True)))
    return [exact[0], *zip(*columns, strict=True)]


def _rows(frame: Any) -> list[Any]:
    """A DataFrame of pandas as SmartNoise has it from a database. It would make one array of all columns, in which integers are floats."""
    return [tuple(frame.columns), *frame.itertuples(index=False, name=None)]


class NoisyReader:
    """A reader of SmartNoise whose answers to one subquery have their noise.

    Parameters
    ----------
    reader : SqlReader
        Of the exact aggregates.
    """

    def __init__(self, reader: Any) -> None:
        self._reader = reader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reader, name)

    def _execute_ast(self, subquery: Any, *args: Any, **kwargs: Any) -> Any:
        return _with_noise(self._reader._execute_ast(subquery, *args, **kwargs), subquery)


def _replacements(random_state: Any) -> Iterator[Replacement]:
    owner = importlib.import_module("snsql.sql.privacy").Mechanisms
    reader = importlib.import_module("snsql.sql.private_reader").PrivateReader
    get_native, get_reader, check = owner.get_mechanism, reader._get_reader, reader._check_pre_aggregated_columns

    @functools.wraps(get_native)
    def get_mechanism(self: Any, *args: Any, **kwargs: Any) -> Any:
        return _served(get_native(self, *args, **kwargs))

    @functools.wraps(get_reader)
    def _get_reader(self: Any, query_ast: Any) -> Any:
        return NoisyReader(get_reader(self, query_ast))

    @functools.wraps(check)
    def _check_pre_aggregated_columns(self: Any, pre_aggregated: Any, subquery: Any) -> Any:
        rows = _rows(pre_aggregated) if hasattr(pre_aggregated, "itertuples") else pre_aggregated
        return _with_noise(check(self, rows, subquery), subquery)

    yield Replacement(owner, "get_mechanism", get_mechanism)
    yield Replacement(reader, "_get_reader", _get_reader)
    yield Replacement(reader, "_check_pre_aggregated_columns", _check_pre_aggregated_columns)
    yield Replacement(owner, _STREAM, stream_of(random_state))


_INSTALLATION = Installation(PEER, _replacements)
