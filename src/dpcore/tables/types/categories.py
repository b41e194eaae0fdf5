"""The declared categories of a column, and their codes 0 … k − 1."""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpcore._dataclasses import dataclass
from dpcore.errors import JobError
from dpcore.tables.fields import INT64_MAX
from dpcore.tables.formats.csv import NULLS
from dpcore.tables.types import plain, texts, times
from dpcore.tables.types.slices import stored
from dpcore.tables.types.timed import parsed
from dpcore.tables.types.whole_arrays import VIEW, texts_of_views

if TYPE_CHECKING:
    import numpy.typing as npt

    from dpcore.tables.fields import Category
    from dpcore.tables.randomise_fields import BinaryColumn, CategoricalColumn

    Mask = npt.NDArray[np.bool_]

INTEGER_TYPES = (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())
TEXT_TYPES = (pa.string(), pa.large_string())
UNKNOWN = -1
"""Code of a value that is none of the categories."""


@dataclass(frozen=True)
class Categories:
    """k categories in the order of their codes.

    Attributes
    ----------
    k : int
        How many.
    labels : pyarrow.Array or None
        Strings, or int64; None if the categories are the codes themselves.
    path : str or None
        The file that they were read from, as text: until the column is known to hold integers.
    are_answers : bool
        Whether the categories are false and true, in this order or the other one; they are then integers here.
    """

    k: int
    labels: pa.Array | None = None
    path: str | None = None
    are_answers: bool = False

    @property
    def are_text(self) -> bool:
        """Whether the categories are strings."""
        return self.labels is not None and pa.types.is_string(self.labels.type)

    @property
    def type(self) -> pa.DataType:
        """Type of a category where the column has none of its own: string, int64 or bool."""
        if self.are_answers:
            return pa.bool_()
        return pa.int64() if self.labels is None else self.labels.type

    def accepts(self, dtype: pa.DataType) -> bool:
        """Whether a column of this type can hold these categories; dictionaries count as what they hold."""
        dtype = value_type(dtype)
        if pa.types.is_null(dtype):
            return True
        if pa.types.is_temporal(dtype):
            return self._times is not None and times.holds(dtype, self._times[0])
        texts, integers = (
            dtype in TEXT_TYPES or dtype == VIEW,
            dtype in INTEGER_TYPES or dtype in plain.FLOATS or pa.types.is_boolean(dtype) or pa.types.is_decimal(dtype),
        )
        if self.path is not None:
            return texts or integers
        return texts if self.are_text else pa.types.is_boolean(dtype) if self.are_answers else integers

    def are_stored_as(self, dtype: pa.DataType) -> bool:
        """Whether a column of this type can hold each of these categories, and others, as it is."""
        dtype = value_type(dtype)
        if self.path is not None:
            return dtype in TEXT_TYPES or dtype in INTEGER_TYPES
        return dtype in (TEXT_TYPES if self.are_text else INTEGER_TYPES)

    @property
    def wanted_to_store(self) -> str:
        """The types that `are_stored_as` takes, in words."""
        text, integers = "string, large_string", "an integer type"
        held = f"{text} or {integers}" if self.path is not None else text if self.are_text else integers
        return f"{held}, or a dictionary of these"

    @property
    def wanted(self) -> str:
        """The types that `accepts` takes, in words."""
        text, integers = (
            "string, large_string, string_view, dates or times for text like 2013-01-31",
            "an integer type, bool, whole numbers of a float or decimal type",
        )
        held = f"{text} or {integers}" if self.path is not None else text if self.are_text else "bool" if self.are_answers else integers
        return f"{held}, or a dictionary of these"

    def for_type(self, dtype: pa.DataType | None) -> Categories:
        """These categories for a column of this type: those of a file become integers if the column's are. None is text.

        Raises
        ------
        JobError
            If the file holds something else, or two of its texts are the same integer.
        """
        if self.path is None or self.labels is None:
            return self
        if (
            dtype is None
            or pa.types.is_temporal(value_type(dtype))
            or value_type(dtype) in TEXT_TYPES
            or value_type(dtype) == VIEW
            or pa.types.is_null(value_type(dtype))
        ):
            return Categories(self.k, self.labels)
        try:
            labels = self.labels.cast(pa.int64())
        except pa.ArrowInvalid:
            position, text = next((i, text) for i, text in enumerate(self.labels.to_pylist()) if not _is_int64(text))
            raise JobError(f"{self.path}: the column holds integers, but category {position} is {text!r}") from None
        from dpcore.tables.category_files import check_distinct

        check_distinct(self.path, labels)
        return _canonical(labels)

    def listed(self) -> list[Category]:
        """All categories."""
        return list(self._listed)

    @cached_property
    def _listed(self) -> list[Category]:
        labels: list[Category] = list(range(self.k)) if self.labels is None else self.labels.to_pylist()
        return [*map(bool, labels)] if self.are_answers else labels

    def code(self, category: object) -> int | None:
        """Code of one category; None if it is none."""
        if self.are_answers:
            return self.listed().index(category) if type(category) is bool and category in self.listed() else None
        if self.labels is None:
            return category if type(category) is int and 0 <= category < self.k else None
        if type(category) is not (str if self.are_text else int):
            return None
        code: int = pc.index(self.labels, pa.scalar(category, self.labels.type)).as_py()
        return code if code >= 0 else None

    def codes(self, values: pa.Array) -> tuple[npt.NDArray[Any], Mask | None]:
        """Codes of an array of a type that `accepts` takes, and where it holds none because the value is missing; None if nowhere.

        A value that is no category has a code outside [0, k). Values that are codes themselves come without a copy. Of the cells of a
        format without types, which are bytes, those count as missing that are no category and `NULLS` lists, or where categories are
        integers hold none.
        """
        if self._times is not None and pa.types.is_temporal(value_type(values.type)):
            numbers = times.numbers(values, self._times[0])
            return pc.fill_null(pc.index_in(numbers, value_set=self._times[1]), UNKNOWN).to_numpy(), null_mask(numbers)
        values = self._plain(values)
        if self.labels is None:
            plain = values.dictionary_decode() if pa.types.is_dictionary(values.type) else values
            return _codes_as_they_are(plain), null_mask(plain)
        if not pa.types.is_dictionary(values.type):
            return self._look_up(values)
        # The dictionary is looked up once, its rows by number; a null has the number behind the last.
        codes, absent = self._look_up(values.dictionary)
        numbers = pc.fill_null(values.indices.cast(pa.int32()), len(codes)).to_numpy()
        absent = np.append(np.zeros(len(codes), np.bool_) if absent is None else absent, True)
        rows_absent = absent[numbers]
        return np.append(codes, np.int32(UNKNOWN))[numbers], rows_absent if rows_absent.any() else None

    def _plain(self, values: pa.Array) -> pa.Array:
        """Values of types that are looked up: integers or text, or a dictionary of these."""
        kind = values.type
        if pa.types.is_null(kind):
            return pa.nulls(len(values), pa.int64() if self.labels is None else self.labels.type)
        if kind == pa.binary() and not self.are_text:
            return texts.answers(values) if self.are_answers else texts.integers(values, self._other_integer, self._other_integer)
        if pa.types.is_dictionary(kind) and (
            kind.value_type == VIEW or not (kind.value_type in TEXT_TYPES or kind.value_type in INTEGER_TYPES)
        ):
            return self._plain(values.dictionary).take(values.indices)
        if kind in plain.FLOATS:
            return plain.whole(values, self._other_integer)
        if pa.types.is_decimal(kind):
            return plain.whole_decimals(values, self._other_integer)
        if kind == VIEW:
            return texts_of_views(values)
        return values.cast(pa.int8()) if pa.types.is_boolean(kind) else values

    @cached_property
    def _times(self) -> tuple[str, pa.Array] | None:
        """The categories as different dates or times of one sort: which one, and their numbers; None if they are none."""
        found = [parsed(label) for label in self.labels.to_pylist()] if self.labels is not None and self.are_text else []
        known = [each for each in found if each is not None]
        sorts = {sort for sort, _ in known}
        if not found or len(known) < len(found) or len(sorts) != 1 or len(set(known)) < len(known):
            return None
        return known[0][0], pa.array([number for _, number in known], pa.int64())

    @cached_property
    def _other_integer(self) -> int:
        """An integer that is no category."""
        listed = () if self.labels is None else set(self.labels.to_pylist())
        return next(number for number in itertools.count(-1, -1) if number not in listed)

    def _look_up(self, values: pa.Array) -> tuple[npt.NDArray[np.int32], Mask | None]:
        searched, own_codes = self._of_type(values.type)
        codes = pc.fill_null(pc.index_in(values, value_set=searched), UNKNOWN).to_numpy()
        if own_codes is not None:
            codes = own_codes[codes]
        absent = null_mask(values)
        if values.type == pa.binary() and (codes == UNKNOWN).any():
            nulls = pa.array([null.encode() for null in NULLS], pa.binary())
            absent = pc.is_in(values, value_set=nulls).to_numpy(zero_copy_only=False) & (codes == UNKNOWN)
        return codes, absent if absent is not None and absent.any() else None

    def _of_type(self, dtype: pa.DataType) -> tuple[pa.Array, npt.NDArray[np.int32] | None]:
        """The categories as values of a type, without those that it cannot hold; and, if some are left out, the codes of the others."""
        if self.labels is None or dtype == self.labels.type:
            return self.labels, None
        if dtype in TEXT_TYPES or dtype == pa.binary():
            return self.labels.cast(dtype), None
        held = _fits(self.labels.to_numpy(), dtype)
        searched = pa.array(self.labels.to_numpy()[held]).cast(dtype)
        # What is not found has number -1, which picks the last.
        return searched, None if held.all() else np.append(np.flatnonzero(held), UNKNOWN).astype(np.int32)

    def all_fit(self, dtype: pa.DataType) -> bool:
        """Whether a column of this type can hold every category."""
        dtype = value_type(dtype)
        if self.are_text or dtype not in INTEGER_TYPES:
            return self.are_text and dtype in TEXT_TYPES
        return bool(_fits(np.array([self.k - 1]) if self.labels is None else self.labels.to_numpy(), dtype).all())

    def values(self, codes: npt.NDArray[Any], dtype: pa.DataType) -> pa.Array:
        """The categories of codes in [0, k), as an array of this type."""
        if self.labels is None:
            return pa.array(codes).cast(dtype)
        return self.labels.cast(dtype).take(pa.array(codes))


def value_type(dtype: pa.DataType) -> pa.DataType:
    """Type of the values of a dictionary; any other type is its own."""
    return dtype.value_type if pa.types.is_dictionary(dtype) else dtype


def integer_view(values: pa.Array) -> npt.NDArray[Any]:
    """The values buffer of an integer array, without a copy; what it holds under a null is arbitrary."""
    return stored(values, str(values.type))


def null_mask(values: pa.Array) -> Mask | None:
    """Return a mask of the nulls of an array; None if there are none."""
    return values.is_null().to_numpy(zero_copy_only=False) if values.null_count else None


def _codes_as_they_are(values: pa.Array) -> npt.NDArray[Any]:
    codes = integer_view(values)
    # From 2^63 on they are beyond every code, and would turn negative.
    return np.minimum(codes, np.uint64(INT64_MAX)).view(np.int64) if codes.dtype == np.uint64 else codes


def _fits(numbers: npt.NDArray[np.int64], dtype: pa.DataType) -> npt.NDArray[np.bool_]:
    limits = np.iinfo(str(dtype))
    return (numbers >= limits.min) & (numbers <= min(int(limits.max), INT64_MAX))


def declared(section: BinaryColumn | CategoricalColumn) -> Categories | None:
    """The categories that a column of a job declares; None for a binary column of booleans or 0 and 1.

    Raises
    ------
    JobError
        If the file that holds them is none of categories.
    StorageError
        If it cannot be read.
    """
    path, k = getattr(section, "categories_file", None), getattr(section, "k", None)
    return declared_by(section.categories, path, k)


def declared_by(listed: tuple[Category, ...] | None, path: str | None = None, k: int | None = None) -> Categories | None:
    """The categories of a list, of a file, or the codes 0 … k − 1, whichever is given; raises like `declared`."""
    if listed is not None and isinstance(listed[0], bool):
        return replace(_canonical(pa.array(map(int, listed), pa.int64())), are_answers=True)
    if listed is not None:
        return _canonical(pa.array(listed, pa.string() if isinstance(listed[0], str) else pa.int64()))
    if path is not None:
        from dpcore.tables.category_files import labels_of

        labels = labels_of(path)
        return Categories(len(labels), labels, path)
    return None if k is None else Categories(k)


def _canonical(labels: pa.Array) -> Categories:
    """The categories 0, 1, …, k − 1 in this order are codes: no table of them is kept or stored."""
    are_codes = pa.types.is_integer(labels.type) and np.array_equal(labels.to_numpy(), np.arange(len(labels)))
    return Categories(len(labels), None if are_codes else labels)


def _is_int64(text: str) -> bool:
    try:
        pa.scalar(text).cast(pa.int64())
    except pa.ArrowInvalid:
        return False
    return True
