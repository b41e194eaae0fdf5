"""How measurements of OpenDP are made of functions of dpcore."""

from __future__ import annotations

import gc
from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Any

from dpcore.errors import ParameterError, ParameterTypeError
from dpcore.interop._peers import Peer
from dpcore.interop.opendp._spaces import Space

if TYPE_CHECKING:
    from opendp.mod import Domain, Measure, Measurement, Metric, _PartialConstructor

PEER = Peer(module="opendp.prelude", distribution="opendp", tested=("0.16",), extra="peer-opendp")
FEATURES = ("contrib", "honest-but-curious")
MOST_HANDED_ON = 2**24
"""Bytes of data and answers that a measurement exchanges with OpenDP before Python looks for what nobody uses any more."""


@cache
def peer() -> ModuleType:
    """OpenDP's prelude."""
    return PEER.require()


class Callback:
    """What OpenDP calls, with the data or with a distance. It cannot be saved.

    Only an `Exception` may leave it: OpenDP frees memory twice and aborts the process if a `KeyboardInterrupt` does.

    OpenDP hands data and answers on by ctypes, whose casts leave them in cycles of references (https://bugs.python.org/issue12836). Python
    frees those by the number of objects and not by their size, which keeps hundreds of large arrays. So they are collected by size here.

    Parameters
    ----------
    function : callable
        From what OpenDP hands over to the answer.
    """

    __slots__ = ("_function", "_handed_on")

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._function, self._handed_on = function, 0

    def __call__(self, argument: Any) -> Any:
        if self._handed_on >= MOST_HANDED_ON:
            self._handed_on = 0
            gc.collect(1)
        try:
            answer = self._function(argument)
        except Exception:
            raise
        except BaseException as error:
            raise RuntimeError(f"stopped by {type(error).__name__}") from None
        self._handed_on += _bytes(argument) + _bytes(answer)
        return answer

    @property
    def __opendp_dict__(self) -> dict[str, Any]:
        raise ParameterTypeError(
            "OpenDP saves measurements of its own constructors only; save the parameters, and make dpcore's measurement again from them"
        )


def _bytes(value: Any) -> int:
    """About what a list or an array holds."""
    return 8 * len(value) if isinstance(value, list) else getattr(value, "nbytes", 0)


def check_features() -> None:
    """Raise if OpenDP would refuse a user measurement. The features are the user's to enable, as they say what is trusted."""
    from opendp.mod import GLOBAL_FEATURES

    missing = [name for name in FEATURES if name not in GLOBAL_FEATURES]
    if missing:
        raise ParameterError(
            f"OpenDP asks for the features {' and '.join(map(repr, FEATURES))} for measurements of other libraries, and "
            f"{' and '.join(map(repr, missing))} is not enabled; if you trust dpcore's functions and privacy maps, call "
            f"dp.enable_features({', '.join(map(repr, FEATURES))}) first"
        )


def check_measure(MO: Any, own: str) -> None:
    """Raise unless OpenDP's argument `MO` is left out, or is the measure of the noise itself, as a type or as an object."""
    if MO is None:
        return
    from opendp.mod import Measure
    from opendp.typing import RuntimeType

    try:
        given = MO.type if isinstance(MO, Measure) else RuntimeType.parse(MO)
    except Exception:
        given = None
    if given != RuntimeType.parse(own):
        raise ParameterError(
            f"MO must be {own!r}, the measure in which this noise has its loss, got {MO!r}; for another, chain a conversion of OpenDP"
        )


def make(space: Space, measure: Measure, draw: Callable[[Any], Any], privacy_map: Callable[[Any], Any], released: str) -> Measurement:
    """Make a measurement; `released` is OpenDP's name of the type of its answers."""
    from opendp.measurements import make_user_measurement

    return make_user_measurement(space.domain, space.metric, measure, Callback(draw), Callback(privacy_map), TO=released)


def then(constructor: Callable[..., Measurement], *args: Any, **options: Any) -> _PartialConstructor:
    """A constructor that waits for the domain and the metric of a chain."""
    peer()
    from opendp.mod import _PartialConstructor as Partial

    def make_in(input_domain: Domain, input_metric: Metric) -> Measurement:
        return constructor(input_domain, input_metric, *args, **options)

    return Partial(make_in)
