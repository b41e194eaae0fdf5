"""Labels of categories: how strings and categoricals of pandas become codes.

Codes are written to memory that is wiped, and so are the scratch arrays on the way to them. Python's own strings are beyond that.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcore import _backend
from dpcore._validation import INTEGER_DTYPES, NO_NUMBERS, check_array, check_unmasked, dtype_words
from dpcore.errors import ParameterError, ParameterTypeError
from dpcore.local._parameters import MAX_CATEGORIES

if TYPE_CHECKING:
    import numpy.typing as npt

    Codes = npt.NDArray[np.int64]

BLOCK = 1 << 14
LONG = 1 << 26
"""Characters of all labels, each as long as the longest one, up to which they are searched in an array."""
CODES = (
    "; codes 0 … k − 1 are expected: from_categories(epsilon, ['a', 'b']) takes labels, pandas.Categorical(x, ['a', 'b']).codes makes codes"
)
UNKNOWN = -1
"""The code of values that are not one of the labels."""


def check_labels(categories: object) -> tuple[str, ...]:
    """Return the labels as a tuple of strings if they are distinct and at least two, else raise."""
    if isinstance(categories, str) or not isinstance(categories, Iterable):
        raise ParameterTypeError(f"categories must be a sequence of strings, got {type(categories).__name__}")
    labels = tuple(categories)
    for position, label in enumerate(labels):
        if not isinstance(label, str):
            raise ParameterTypeError(f"categories must be strings, got {type(label).__name__} at position {position}")
    if not 2 <= len(labels) <= MAX_CATEGORIES:
        raise ParameterError(f"categories must be between 2 and 2**24 = {MAX_CATEGORIES}, got {len(labels)}")
    if len(set(labels)) < len(labels):
        raise ParameterError(f"categories must be distinct, got {len(set(labels))} different ones of {len(labels)}: list each one once")
    ends = next((position for position, label in enumerate(labels) if label.endswith("\0")), None)
    if ends is not None:
        raise ParameterError(f"categories must not end with a null character, which arrays of strings drop, got one at position {ends}")
    return tuple(map(str.__str__, labels))  # of a member of an enumeration its value, not its name


def check_categories_of(categories: object, k: int) -> tuple[str, ...] | None:
    """Return the labels of k categories, or None if there are none."""
    if categories is None:
        return None
    labels = check_labels(categories)
    if len(labels) != k:
        raise ParameterError(f"categories must be k = {k}, got {len(labels)}")
    return labels


def unknown_code(unknown: object, labels: tuple[str, ...]) -> int | None:
    """Return the code of the label that stands for unknown ones, or None."""
    if unknown is None:
        return None
    if not isinstance(unknown, str):
        raise ParameterTypeError(f"unknown must be one of the categories, got {unknown!r} of type {type(unknown).__name__}")
    if unknown not in labels:
        raise ParameterError(f"unknown must be one of the categories, got {unknown!r}")
    return labels.index(unknown)


def codes_of(records: Any, labels: tuple[str, ...] | None) -> npt.NDArray[Any]:
    """Return records as an array of codes: as they are if they are integers, else by their labels, with `UNKNOWN` for all others."""
    if labels is None:
        return check_array("records", records, INTEGER_DTYPES, of_text=CODES)
    known, own = _categorical(records)
    if own is not None:
        return _of_categorical(known, own, labels)
    array = _array(records)
    if array.dtype.kind == "U" and len(labels) * max(array.itemsize // 4, *map(len, labels)) <= LONG:
        return _of_strings(array, labels)
    if array.dtype.kind in "UOT":
        return _of_objects(array, labels)
    if array.dtype.kind not in "iu":
        found = dtype_words(array.dtype)
        raise ParameterTypeError(f"records must hold labels, which are strings, or codes, which are integers, got {found}")
    return check_array("records", array, INTEGER_DTYPES)


def _array(records: Any) -> npt.NDArray[Any]:
    if isinstance(records, list | tuple) and all(type(item) is str for item in records):
        return np.array(records, object)
    check_unmasked("records", records)
    is_array = hasattr(records, "__array__") and not isinstance(records, str)
    found = np.asarray(records) if is_array else np.asarray(records, object)
    # a generator, a set or a dictionary, which NumPy takes for one item
    if found.ndim == 0 and not is_array and isinstance(records, Iterable) and not isinstance(records, str | bytes):
        raise ParameterTypeError(f"records must be a label, or a list or an array of labels, got {type(records).__name__}")
    if found.dtype.kind == "O" and found.size and all(isinstance(item, _CODES) and not isinstance(item, NO_NUMBERS) for item in found.flat):
        return np.asarray(found.tolist())  # a list of codes
    return found


_CODES = (int, np.integer)


def _categorical(records: Any) -> tuple[Any, Any]:
    """Categories and codes of a categorical of pandas; None if the records are something else, such as a categorical of Polars."""
    known = getattr(getattr(records, "dtype", None), "categories", None)
    if known is None:
        return None, None
    return known, getattr(records.cat if hasattr(records, "cat") else records, "codes", None)


def _of_categorical(known: Any, given: Any, labels: tuple[str, ...]) -> Codes:
    """Codes of a categorical: its own, renumbered. A missing entry has the code −1 there, which finds the last place of the table."""
    own_labels = np.fromiter(known, object, len(known))
    table = np.append(codes_of(own_labels, labels), UNKNOWN)
    own = _backend.wiped_copy(np.asarray(given), np.int64)
    codes = _backend.wiped_empty(own.shape, np.int64)
    np.take(table, own, out=codes, mode="wrap")
    return codes


def _of_strings(array: npt.NDArray[np.str_], labels: tuple[str, ...]) -> Codes:
    """Codes of an array of strings, by a search among the sorted labels."""
    texts = np.array(labels)
    # one type for both, or NumPy would make copies of the block that nobody wipes
    texts = texts.astype(np.result_type(texts, array))
    order = np.argsort(texts)
    texts = texts[order]
    flat, codes = _backend.contiguous(array).reshape(-1), _backend.wiped_empty(array.size, np.int64)
    size = max(1, min(BLOCK, LONG // max(1, texts.itemsize)))
    scratch = _backend.wiped_empty(min(size, flat.size), texts.dtype)
    for start in range(0, flat.size, size):
        found = codes[start : start + size]
        block = scratch[: found.size]
        block[...] = flat[start : start + size]
        places = np.searchsorted(texts, block)
        np.minimum(places, len(texts) - 1, out=places)
        nearest = texts[places]
        other = nearest != block
        np.take(order, places, out=found, mode="clip")  # NumPy's default mode goes through a copy of its own
        found[other] = UNKNOWN
        for used in (places, nearest, other):
            used[...] = np.zeros((), used.dtype)
    return codes.reshape(array.shape)


def _of_objects(array: npt.NDArray[Any], labels: tuple[str, ...]) -> Codes:
    """Codes of an array of Python objects, of which only strings can be labels."""
    index = {label: code for code, label in enumerate(labels)}
    flat, codes = array.reshape(-1), _backend.wiped_empty(array.size, np.int64)
    for start in range(0, flat.size, BLOCK):
        block = flat[start : start + BLOCK].tolist()
        found = (index.get(item, UNKNOWN) if isinstance(item, str) else UNKNOWN for item in block)
        scratch = np.fromiter(found, np.int64, len(block))
        codes[start : start + BLOCK] = scratch
        scratch.fill(0)
    return codes.reshape(array.shape)
