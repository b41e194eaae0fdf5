"""Checks of parameters. Each error names the parameter, its value and the allowed range, and never a value of the data."""

from __future__ import annotations

import math
import numbers
import re
import warnings
from array import array as plain_buffer
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from dpcore.errors import DataError, ParameterError, ParameterTypeError

Rounding = Literal["down", "up", "nearest"]
_WORDS = re.compile("[a-z]+")
_ROUNDED_DOWN = {"epsilon", "delta", "rho"}
_ROUNDED_UP = {"sensitivity", "scale"}
"""Words in the names of parameters of which a smaller, or a larger, number protects more."""
NO_NUMBERS = (bool, np.bool_, np.timedelta64)
"""Types that Python or NumPy counts as integers, but that are not numbers here."""
TINY_NORMAL = 2.0**-1022
MOST_THREADS = 4096
_SEARCHED = 2**16
"""Entries examined at once in a search for the first bad one."""


def check_real(
    name: str,
    value: object,
    *,
    low: float,
    high: float,
    include_low: bool = True,
    include_high: bool = True,
    rounding: Rounding | None = None,
) -> float:
    """Return `value` as a float if it is a real number in the interval, else raise.

    A number that float64 does not hold is rounded towards more privacy. The words of the parameter's name give the direction; `rounding`
    replaces it.
    """
    if type(value) is int and -(2**53) <= value <= 2**53:
        value = float(value)
    elif type(value) is not float:
        value = _rounded(name, value, _direction(name) if rounding is None else rounding)
    inside = (low <= value if include_low else low < value) and (value <= high if include_high else value < high)
    if not inside:
        percent = f": write {value / 100:g} for {value:g} %" if name == "confidence" and high == 1 < value < 100 else ""
        raise ParameterError(f"{name} must be {_demand(value, low, high, include_low, include_high)}, got {value!r}{percent}")
    return value


def _demand(value: float, low: float, high: float, include_low: bool, include_high: bool) -> str:
    """The range, in words if every positive number is valid."""
    if high == math.inf and (low == TINY_NORMAL or (low == 0 and not include_low)) and not 0 < value < math.inf:
        return "positive" if value <= 0 else "positive and finite"
    return f"in {'[' if include_low else '('}{low!r}, {high!r}{']' if include_high else ')'}"


def _direction(name: str) -> Rounding:
    words = set(_WORDS.findall(name))
    return "down" if words & _ROUNDED_DOWN else "up" if words & _ROUNDED_UP else "nearest"


def _nearest(exact: Any) -> float | None:
    """The nearest float64; None if there is no finite one."""
    try:
        number = float(exact)
    except (OverflowError, ValueError):
        return None
    return None if math.isinf(number) and exact not in (math.inf, -math.inf) else number  # a decimal becomes infinite without an error


def _rounded(name: str, value: object, rounding: Rounding) -> float:
    """A real number of any type as a float; decimals, fractions and large integers are compared exactly with the result."""
    if isinstance(value, NO_NUMBERS) or not isinstance(value, (numbers.Real, Decimal)):
        raise ParameterTypeError(f"{name} must be a real number, got {value!r} of type {type(value).__name__}")
    exact: Any = int(value) if isinstance(value, numbers.Integral) else value  # NumPy would compare its integers with a float as floats
    number = _nearest(exact)
    if number is None:
        raise ParameterError(f"{name} must be representable as float64, got {value!r}")
    if math.isnan(number) or number == exact or rounding == "nearest":
        return number
    # A context may forbid both to compare a decimal with a float and to make one of it in any other way.
    given: Any = Decimal.from_float(number) if isinstance(exact, Decimal) else number  # noqa: FURB164
    if rounding == "down":
        return number if given <= exact else math.nextafter(number, -math.inf)
    return number if given >= exact else math.nextafter(number, math.inf)


_PLAIN_KINDS = {np.float64: float, np.float32: float, np.float16: float, np.int64: int, np.int32: int, np.int16: int, np.int8: int,
          np.uint32: int, np.uint16: int, np.uint8: int}  # fmt: skip
"""What single numbers of NumPy are as numbers of Python."""


def plain_number(number: Any) -> Any:
    """A number of NumPy as one of Python; anything else as it is."""
    kind = _PLAIN_KINDS.get(type(number))
    return number if kind is None else kind(number)


def plain_scale(scale: Any) -> Any:
    """A single number as a float, an integer that no float holds rounded up; anything else as it is."""
    number = plain_number(scale)
    if type(number) is not int:
        return number
    return float(number) if -(2**53) <= number <= 2**53 else check_real("scale", number, low=-math.inf, high=math.inf)


def check_positive(name: str, value: object) -> float:
    """Return `value` as a positive, normal, finite float, else raise."""
    return check_real(name, value, low=TINY_NORMAL, high=math.inf, include_high=False)


def check_beta(beta: float | None, confidence: float | None = None) -> float:
    """Return the probability β of missing, which is given itself or as 1 − confidence; warn of a β above 1/2.

    Only the function that the user called may call this: the warning names the line of its caller.
    """
    if confidence is not None:
        if beta is not None:
            raise ParameterError(f"beta or confidence is required, not both, got beta={beta!r} and confidence={confidence!r}")
        confidence = check_real("confidence", confidence, low=0.0, high=1.0, include_low=False, include_high=False)
        missed = 1 - confidence
        return missed if 1 - missed >= confidence else math.nextafter(missed, 0.0)
    if beta is None:
        raise ParameterError("beta or confidence is required: beta=0.05, the probability of missing, or confidence=0.95")
    beta = check_real("beta", beta, low=0.0, high=1.0, include_low=False, include_high=False)
    if beta > 0.5:
        warnings.warn(
            f"beta is the probability of missing, got {beta!r}: for 95 % write beta=0.05",
            UserWarning,
            stacklevel=3,
        )
    return beta


def check_sensitivity(sensitivity: float) -> float:
    """Return a sensitivity as a positive float, rounded up, else raise: one that is too small would break the guarantee."""
    return check_positive("sensitivity", sensitivity)


def check_integer(name: str, value: object, *, low: int, high: int | None = None) -> int:
    """Return `value` as an int if it is an integer in [low, high], else raise."""
    if type(value) is not int and (isinstance(value, NO_NUMBERS) or not isinstance(value, numbers.Integral)):
        raise ParameterTypeError(f"{name} must be an integer, got {value!r} of type {type(value).__name__}")
    number = int(value)
    if number < low or (high is not None and number > high):
        raise ParameterError(f"{name} must be in [{low}, {'∞' if high is None else high}], got {number}")
    return number


def check_threads(threads: object) -> None:
    """Raise unless `threads` is None or a number of threads."""
    if threads is not None:
        check_integer("threads", threads, low=1, high=MOST_THREADS)


def check_choice(name: str, value: object, choices: Sequence[str]) -> str:
    """Return `value` if it is one of the words in `choices`, else raise."""
    if not isinstance(value, str):
        raise ParameterTypeError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}")
    if value not in choices:
        raise ParameterError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}")
    return value


# Arrays

REAL_DTYPES = ("float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint32", "uint16", "uint8")
INTEGER_DTYPES = REAL_DTYPES[3:]
_NAMES = {np.dtype(name): name for name in (*REAL_DTYPES, "uint64", "bool")}
"""Names of dtypes in native byte order. NumPy puts a name together each time it is asked, which takes longer than a kernel's whole call."""


def check_array(
    name: str, value: object, dtypes: Sequence[str], *, advice: str = "", of_text: str = "", exact_columns: bool = False
) -> npt.NDArray[Any]:
    """Return `value` as an array if its dtype is among `dtypes`, in native byte order.

    Masked arrays are refused at any depth, and so are object arrays and integers that would lose digits in an array. The result is a plain
    array, because subclasses index, reduce and multiply by their own rules. `advice` ends the message about floats given for integers,
    `of_text` that about text and objects.
    With `exact_columns`, tables are refused whose columns one array does not hold exactly: where numbers are clamped, that does no harm.
    """
    if type(value) is not np.ndarray:
        table, value = value, _as_array(name, value)
        if exact_columns:
            _check_columns(name, table, value.dtype)
    if _NAMES.get(value.dtype) not in dtypes:
        order = "" if value.dtype.isnative else " in foreign byte order"
        found, said = dtype_words(value.dtype), of_text if value.dtype.kind in "OSTU" else ""
        if value.dtype.kind == "f" and set(dtypes) <= set(INTEGER_DTYPES):
            raise ParameterTypeError(f"{name} must hold integers, got {found}{advice or _WHOLE}")
        raise ParameterTypeError(f"{name} must have one of the dtypes {', '.join(dtypes)}, got {found}{order}{said}")
    return value


def dtype_words(dtype: np.dtype[Any]) -> str:
    """Name of a dtype for messages. NumPy's own names of texts reveal how long the longest one is."""
    return {"U": "str", "S": "bytes"}.get(dtype.kind, dtype.name)


_WHOLE = "; convert whole numbers with .astype(np.int64)"


_ALIKE = {frozenset({float}): "f", frozenset({int}): "i"}
"""Types of the items of a list that need no further look if the array is of this kind: none has a mask or becomes another number."""


def _as_array(name: str, value: object) -> npt.NDArray[Any]:
    if value is None:
        raise ParameterTypeError(f"{name} must be a number or an array of numbers, got None")
    if type(value) is int or type(value) is float:
        return np.array(value)
    if (type(value) is list or type(value) is tuple) and (alike := _ALIKE.get(frozenset(map(type, value)))) is not None:
        array = np.array(value)
        if array.dtype.kind == alike:
            return array
    # What makes an array of itself is asked for it once; of a sequence each item is looked at.
    is_one = hasattr(type(value), "__array__") and not isinstance(value, (list, tuple))
    if not is_one:
        check_unmasked(name, value)
    found: npt.NDArray[Any] | None = None
    try:
        found = np.asanyarray(value)
    except MemoryError:
        raise
    except Exception:  # noqa: S110 - what other libraries say may show a value, and must not be the context of the error below
        pass
    if found is not None and found.dtype == np.object_ and found.ndim == 0 and isinstance(value, Iterable):  # NumPy takes it for one item
        inner = f"{name}.values()" if isinstance(value, Mapping) else name
        raise ParameterTypeError(f"{name} must be a number or an array of numbers, got {type(value).__name__}: write list({inner})")
    if found is None:
        raise ParameterTypeError(f"{name} must be a number or an array of numbers, got {type(value).__name__}")
    check_unmasked(name, found)  # what an object's __array__ gave
    if found.dtype.kind == "f" and not is_one:
        _check_digits(name, value, found.dtype)
    return np.asarray(found)


def check_unmasked(name: str, value: object) -> None:
    """Raise if `value` is a masked array or holds one: its mask would be lost, so the caller has to fill it."""
    if type(value) is np.ndarray:
        return
    for item in _leaves(value):
        if _is_masked(item):
            raise ParameterTypeError(f"{name} must not be a masked array or hold one; its mask would be lost, so fill it first")


def _is_masked(item: object) -> bool:
    if isinstance(item, np.ndarray):
        return isinstance(item, np.ma.MaskedArray) or getattr(item, "mask", None) is not None
    if isinstance(item, _PLAIN) or not hasattr(item, "__array__"):
        interface = None if isinstance(item, _PLAIN) else getattr(item, "__array_interface__", None)
        return isinstance(interface, dict) and interface.get("mask") is not None
    try:
        return _is_masked(np.asanyarray(item))
    except MemoryError:
        raise
    except Exception:
        return False  # the conversion of the whole raises the error


_MOST_DIMENSIONS = 64
_PLAIN = (int, float, complex, str, bytes, bytearray, memoryview, np.generic)


def _leaves(value: object) -> Iterator[object]:
    """The items that NumPy would take from lists and other sequences, at any depth."""
    pending = [iter((value,))]
    while pending and len(pending) <= _MOST_DIMENSIONS + 1:  # deeper items stay objects, which are refused
        for item in pending[-1]:
            if type(item) is float or type(item) is int:
                yield item
            elif _is_nested(item):
                pending.append(iter(item))  # type: ignore[call-overload]
                break
            else:
                yield item
        else:
            pending.pop()


def _is_nested(item: object) -> bool:
    if isinstance(item, (list, tuple)):
        return True
    if isinstance(item, (*_PLAIN, range, np.ndarray, plain_buffer)) or hasattr(item, "__array__") or hasattr(item, "__array_interface__"):
        return False
    return isinstance(item, Sequence) or (hasattr(item, "__len__") and hasattr(item, "__getitem__") and not hasattr(item, "keys"))


def _check_digits(name: str, value: object, dtype: np.dtype[Any]) -> None:
    """Raise if an integer has become another number: NumPy makes it a float beside floats or beside integers of another sign."""
    for position, item in enumerate(_leaves(value)):
        if isinstance(item, (float, np.floating)):
            continue
        whole = np.asanyarray(item)
        if whole.dtype.kind not in "iuO":
            continue
        given = [int(v) for v in whole.ravel().tolist() if isinstance(v, int)]
        if any(abs(v) > 2**53 and (abs(v) >= 2**1023 or int(dtype.type(v)) != v) for v in given):
            raise ParameterTypeError(
                f"{name} must hold integers of at most 64 bits, and next to floats only ones that float64 holds; item {position} is not"
            )


_AMONG_FLOATS = re.compile(r"(bool|boolean|u?int(8|16|32)|float(16|32|64)?|halffloat|double)\b", re.IGNORECASE)
"""Names of types that pandas, polars and Arrow give columns whose numbers float64 holds."""


def _check_columns(name: str, value: object, dtype: np.dtype[Any]) -> None:
    """Raise if `value` is a table with numbers that an array of this dtype need not hold: integers of 64 bits or decimals among floats.

    The types of the columns decide it, and not what is in them.
    """
    if dtype.kind != "f" or isinstance(value, np.ndarray | list | tuple):
        return
    schema = getattr(value, "schema", None)
    types = getattr(value, "dtypes", None) if not hasattr(schema, "types") else schema.types  # type: ignore[union-attr]
    for kind in types if isinstance(types, Sequence) else getattr(types, "array", ()):
        plain = getattr(kind, "subtype", kind) if str(kind).startswith("Sparse") else kind
        if _AMONG_FLOATS.match(str(plain)) is None:
            raise ParameterTypeError(
                f"{name} must have columns that one array of floats holds exactly, got one of {kind} beside floats; give them one type"
            )


def check_out(out: object, dtype: type | np.dtype[Any], shape: tuple[int, ...], *, or_dtype: type | None = None) -> npt.NDArray[Any]:
    """Return `out` if it is a writable array of this dtype, or of the other one, and of this shape, else raise."""
    if type(out) is not np.ndarray and (not isinstance(out, np.ndarray) or _is_masked(out)):
        raise ParameterTypeError(f"out must be a numpy array of dtype {_either(dtype, or_dtype)}, got {type(out).__name__}")
    if not (out.dtype == dtype or (or_dtype is not None and out.dtype == or_dtype)) or not out.dtype.isnative:
        raise ParameterTypeError(f"out must have dtype {_either(dtype, or_dtype)}, got {out.dtype.str}")
    if out.shape != shape:
        raise ParameterError(f"out must have the shape {shape} of the values, got {out.shape}")
    if not out.flags.writeable:
        raise ParameterError("out must be writable, got a read-only array")
    if 0 in out.strides and out.size and any(stride == 0 and n > 1 for stride, n in zip(out.strides, shape, strict=True)):
        raise ParameterError("out must have its own memory for every element, got a broadcast array")
    return out


def _either(dtype: type | np.dtype[Any], other: type | None) -> str:
    return np.dtype(dtype).name if other is None else f"{np.dtype(dtype).name} or {np.dtype(other).name}"


def check_scale(
    value: object, *, low: float, high: float, shape: tuple[int, ...], include_low: bool = True
) -> float | npt.NDArray[np.float64]:
    """Return the noise scale as a float, or as a float64 array that broadcasts to `shape`; every entry in [low, high]."""
    if type(value) is not float:
        check_unmasked("scale", value)
    if type(value) is float or (value.ndim if type(value) is np.ndarray else np.ndim(value)) == 0:  # type: ignore[arg-type]
        number = value.item() if isinstance(value, np.ndarray) else value
        return check_real("scale", number, low=low, high=high, include_low=include_low)
    scales = _scales(check_array("scale", value, REAL_DTYPES))
    least, largest = (scales.min(), scales.max()) if scales.size else (high, low)  # NaN if there is one
    if not ((low <= least if include_low else low < least) and largest <= high):
        inside = (scales >= low if include_low else scales > low) & (scales <= high)
        index = tuple(int(i) for i in np.argwhere(~inside)[0])
        left = "[" if include_low else "("
        raise ParameterError(f"scale must be in {left}{low!r}, {high!r}], got {float(scales[index])!r} at index {index}")
    try:
        if scales.shape != shape:
            np.broadcast_to(scales, shape)
    except ValueError:
        raise ParameterError(f"scale must broadcast to the shape {shape} of the values, got shape {scales.shape}") from None
    return scales


def _scales(given: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Scales as a new array of float64; integers that it does not hold are rounded up, as single ones are."""
    scales = given.astype(np.float64)
    if given.dtype == np.int64:
        large = given > 2**53
        scales[large] = [check_real("scale", number, low=0.0, high=math.inf) for number in given[large].tolist()]
    return scales


def check_finite(name: str, array: npt.NDArray[Any]) -> None:
    """Raise DataError naming the first entry that is NaN or infinite: the same one for any order of the threads."""
    for start in range(0, len(array), _SEARCHED):
        bad = np.flatnonzero(~np.isfinite(array[start : start + _SEARCHED]))
        if len(bad):
            raise DataError(f"{name} must be finite; the one at index {start + int(bad[0])} is not")
