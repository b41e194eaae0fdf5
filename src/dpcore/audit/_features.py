"""Features: the numbers that an audit computes from outputs, by the kind of mechanism."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dpcore import _backend, local
from dpcore.audit._events import Feature, Partition
from dpcore.audit._low_bits import reachable, representable, trailing_zeros
from dpcore.audit._runs import Source, codes_of_rows
from dpcore.audit._words import Piece, code_words, inverse_words, sum_words, support_words, zeros_words
from dpcore.errors import ParameterError, ParameterTypeError

Array = npt.NDArray[Any]
Event = Callable[[Array], Array]

FAMILIES = ("values", "low_bits")
WIDEST = 32
"""Largest number of numbers in an output without a known direction in which the inputs differ."""
COORDINATES, LOW_BIT_COORDINATES, PAIRED = 8, 2, 4
"""Numbers of an output that are examined alone, for their low bits, and in pairs."""
BOTH = 16
"""Approximate number of cells of each of two numbers that are examined together."""
LOW_BIT_MARGIN = 0.02
"""By how much an event of low bits must prove more than a plain event."""
LONGEST_ROW = 256
"""Largest number of bytes of a row of discrete numbers that is also examined as a whole."""


def make_features(source: Source, outputs: Array, events: Sequence[str | Event] | None) -> list[Feature]:
    """Return the features for `events`, checked on a few outputs."""
    wanted: Sequence[str | Event] = FAMILIES if events is None else events
    if isinstance(wanted, str) or callable(wanted) or not len(wanted):
        raise ParameterTypeError(f"events must be a sequence of {_CHOICES}, got {events!r}")
    features: list[Feature] = []
    for event in wanted:
        if callable(event):
            features.append(_checked(event, outputs))
        elif event in FAMILIES:
            own = any(callable(other) for other in wanted)
            features += _values(source, outputs, may_be_none=own) if event == "values" else _low_bits(source, outputs)
        else:
            raise ParameterError(f"events must hold {_CHOICES}, got {event!r}")
    if not features:
        raise ParameterError(
            f"events must fit outputs of dtype {outputs.dtype} and shape {outputs.shape[1:]}, got {events!r}; give {_CHOICES}"
        )
    return features


_CHOICES = "'values', 'low_bits' and functions that take outputs and return a bool or a number for each run"


def _checked(event: Event, outputs: Array) -> Feature:
    name = getattr(event, "__name__", type(event).__name__)

    def of(block: Array) -> Array:
        found = np.asarray(event(block))
        if found.shape != (len(block),) or found.dtype.kind not in "biuf":
            raise ParameterError(
                f"events must return a bool or a number for each run, got {found.dtype} {found.shape} from {name} for {len(block)} runs"
            )
        return found

    is_bool = of(outputs).dtype.kind == "b"
    words = code_words({1: f"{name}(output) is true", 0: f"{name}(output) is false"}) if is_bool else None
    return Feature(f"{name}(output)", of, where="own", words=words)


# Values


def _values(source: Source, outputs: Array, *, may_be_none: bool) -> list[Feature]:
    found = _support(source)
    if outputs.dtype.names is not None:
        return found + [_field(name) for name in outputs.dtype.names] + [Feature("the code of the output", codes_of_rows)]
    if outputs.ndim == 1:
        return [_whole(source)]
    width = math.prod(outputs.shape[1:])
    found += _directions(source, outputs)
    if width > WIDEST and not found:
        if may_be_none:
            return []
        raise ParameterError(
            f"mechanism must return at most {WIDEST} numbers in a run, got {width}; for more, give events=[statistic] with a function that "
            "takes outputs and returns a number for each run"
        )
    discrete = outputs.dtype.kind in "bui" or isinstance(source.mechanism, SEQUENTIAL)
    if discrete and width * outputs.itemsize <= LONGEST_ROW:
        found.append(Feature("the code of the output", codes_of_rows))
    coordinates = _coordinates(source, outputs)
    found += [_coordinate(j) for j in coordinates]
    pairs = list(itertools.combinations(coordinates[:PAIRED], 2)) if width <= WIDEST or not discrete else []
    return found + [_difference(i, j) for i, j in pairs] + [_together(i, j, outputs) for i, j in pairs]


SEQUENTIAL = (local.SequentialChannel, local.SequentialQuantile)


def _points(source: Source) -> tuple[float, ...]:
    """The inputs, if they are numbers."""
    numbers = [float(x) for x in source.inputs if np.ndim(x) == 0 and np.asarray(x).dtype.kind in "iuf"]
    return tuple(x for x in numbers if math.isfinite(x) and abs(x) < 2.0**62)


def _whole(source: Source) -> Feature:
    return Feature("the output", lambda block: block, _points(source))


def _field(name: str) -> Feature:
    return Feature(f"the field {name!r} of the output", lambda block: block[name])


def _coordinate(j: int) -> Feature:
    return Feature(f"number {j} of the output", lambda block: block.reshape(len(block), -1)[:, j])


def _difference(i: int, j: int) -> Feature:
    def of(block: Array) -> Array:
        flat = block.reshape(len(block), -1)
        left, right = flat[:, i], flat[:, j]
        return left - right if block.dtype.kind == "f" else left.astype(np.int64) - right.astype(np.int64)

    return Feature(f"number {i} minus number {j} of the output", of)


def _together(i: int, j: int, outputs: Array) -> Feature:
    """The cells of two numbers together; a few outputs determine the cells."""
    first, second = _coordinate(i), _coordinate(j)
    rows, columns = (Partition.of(of.values(outputs), (), distinct=BOTH, quantiles=BOTH) for of in (first, second))

    def of(block: Array) -> Array:
        return rows.codes(first.values(block)) * columns.cells + columns.codes(second.values(block))

    return Feature(f"{columns.cells}·(cell of number {i}) + (cell of number {j}) of the output", of)


def _matched(source: Source, outputs: Array) -> tuple[Array, Array] | None:
    """The two inputs as floats, if they are arrays of the outputs' shape, as for noise that is added to answers."""
    first, second = (np.asarray(x) for x in source.inputs)
    if first.shape != outputs.shape[1:] or second.shape != first.shape or {first.dtype.kind, second.dtype.kind} - set("iuf"):
        return None
    return first.astype(np.float64).reshape(-1), second.astype(np.float64).reshape(-1)


def _coordinates(source: Source, outputs: Array) -> list[int]:
    """The numbers to examine. Those in which the inputs differ come first."""
    width = math.prod(outputs.shape[1:])
    matched = _matched(source, outputs)
    moved = np.zeros(width, np.bool_) if matched is None else matched[0] != matched[1]
    if isinstance(source.mechanism, SEQUENTIAL):
        return [*range(min(COORDINATES, width)), *range(max(COORDINATES, width - 1), width)]
    return [int(j) for j in np.argsort(~moved, kind="stable")[:COORDINATES]]


def _directions(source: Source, outputs: Array) -> list[Feature]:
    """The projection on the difference of the inputs, and the likelihood ratio of Laplace noise."""
    matched = _matched(source, outputs)
    if matched is None or (matched[0] == matched[1]).all():
        return []
    moved = np.flatnonzero(matched[0] != matched[1])
    before, after = matched[0][moved], matched[1][moved]

    def part(block: Array) -> Array:
        return block.reshape(len(block), -1)[:, moved].astype(np.float64)

    return [
        Feature("the inner product ⟨output, x1 − x0⟩", lambda block: part(block) @ (after - before)),
        Feature(
            "the difference ‖output − x0‖₁ − ‖output − x1‖₁",
            lambda block: (np.abs(part(block) - before) - np.abs(part(block) - after)).sum(axis=1),
        ),
    ]


# Reports of local mechanisms: which of the two records a report supports


def _support(source: Source) -> list[Feature]:
    """Compute which of the two records a report supports, as two bits."""
    supports = _supports(source.mechanism)
    if supports is None:
        return []
    x0, x1 = (_category(source.mechanism, x) for x in source.inputs)
    words = code_words(support_words())
    return [Feature("support", lambda block: 2 * supports(block, x0).astype(np.int64) + supports(block, x1), words=words)]


def _category(mechanism: Any, x: Any) -> int:
    labels = mechanism.categories or ()
    code = labels.index(x) if x in labels else -1 if labels and not isinstance(x, int | np.integer) else int(x)
    return code if 0 <= code < mechanism.k or mechanism.unknown is None else int(mechanism.unknown)


def _supports(mechanism: Any) -> Callable[[Array, int], Array] | None:
    """Whether reports support a category, in separate code, so that the audit does not use the kernels that it audits."""
    if isinstance(mechanism, local.UnaryEncoding | local.SubsetSelection):
        return lambda rows, v: (rows[:, v // 8] >> np.uint8(v % 8)) & np.uint8(1)
    if isinstance(mechanism, local.HadamardResponse):

        def agrees(reports: Array, v: int) -> Array:
            found: Array = _parity(reports["row"] & np.uint32(v)) ^ reports["bit"]
            return found

        return agrees
    if isinstance(mechanism, local.ProjectiveGeometryResponse):
        lines: dict[int, Array] = {}

        def on_hyperplane(reports: Array, v: int) -> Array:
            if v not in lines:
                lines[v] = mechanism.hyperplane(v)
            return np.isin(reports, lines[v])

        return on_hyperplane
    if isinstance(mechanism, local.LocalHashing):
        prime, g = np.uint64(_backend.HASH_PRIME), np.uint64(mechanism.g)

        def hashed(reports: Array, v: int) -> Array:
            a, b = reports["seed"] & np.uint64(2**31 - 1), reports["seed"] >> np.uint64(31)
            found: Array = (a * np.uint64(v) + b) % prime % g == reports["code"]
            return found

        return hashed
    return None


def _parity(words: Array) -> npt.NDArray[np.bool_]:
    folded = words.copy()
    for shift in (16, 8, 4, 2, 1):
        folded ^= folded >> np.uint32(shift)
    return (folded & np.uint32(1)).astype(np.bool_)


# Low bits


def _low_bits(source: Source, outputs: Array) -> list[Feature]:
    if isinstance(source.mechanism, SEQUENTIAL):
        return []
    if outputs.dtype.names is not None:
        return [_last_bits(_field(name)) for name in outputs.dtype.names if outputs.dtype[name].kind in "iu"]
    columns = [_coordinate(j) for j in _coordinates(source, outputs)[:LOW_BIT_COORDINATES]] if outputs.ndim > 1 else [_whole(source)]
    if outputs.dtype.kind != "f":
        return [_last_bits(column) for column in columns] if outputs.dtype.itemsize > 1 else []
    if outputs.ndim == 1:
        return _low_bits_of(columns[0], columns[0].points, source)
    matched = _matched(source, outputs)
    found = []
    for j, column in zip(_coordinates(source, outputs), columns, strict=False):
        found += _low_bits_of(column, () if matched is None else (float(matched[0][j]), float(matched[1][j])), source)
    return found


def _last_bits(integer: Feature) -> Feature:
    return Feature(f"{integer.name} modulo 256", lambda block: integer.values(block) & 255, (), LOW_BIT_MARGIN, "low_bits")


def _low_bits_of(column: Feature, inputs: tuple[float, ...], source: Source) -> list[Feature]:
    """Features of the low bits of one float of the output."""
    name, wide = column.name, column.values

    def feature(of: Event, words: Callable[[Sequence[Piece]], str]) -> Feature:
        return Feature(name, of, (), LOW_BIT_MARGIN, "low_bits", words)

    found = [feature(lambda block: trailing_zeros(wide(block)), zeros_words(name))]
    if len(inputs) != 2 or inputs[0] == inputs[1]:
        return found
    x0, x1 = inputs
    found.append(feature(lambda block: representable(wide(block), x0, x1), sum_words(name)))
    scale = _laplace_scale(source, abs(x1 - x0))
    if scale is not None:
        found.append(feature(lambda block: reachable(wide(block), x0, x1, scale), code_words(inverse_words(name, scale))))
    return found


def _laplace_scale(source: Source, distance: float) -> float | None:
    """The scale of Laplace noise: that of the mechanism, or the one that the claim needs."""
    own = getattr(source.mechanism, "scale", None)
    if isinstance(own, float) and own > 0:
        return own
    epsilon = source.privacy.epsilon if source.privacy is not None else 0.0
    return distance / epsilon if 0 < epsilon < math.inf else None
