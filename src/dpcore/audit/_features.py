"""What is computed from outputs in order to tell two inputs apart: features, chosen by what a mechanism releases."""

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
from dpcore.errors import ParameterError, ParameterTypeError

Array = npt.NDArray[Any]
Event = Callable[[Array], Array]

FAMILIES = ("values", "low_bits")
WIDEST = 32
"""Numbers of an output up to which each is looked at; for wider ones there must be a direction to look in."""
COORDINATES, LOW_BIT_COORDINATES, PAIRED = 8, 2, 4
"""Numbers of an output that are looked at on their own, for their low bits, and in pairs."""
BOTH = 16
"""Cells of each of two numbers that are looked at together, about."""
LOW_BIT_MARGIN = 0.02
"""How much more low bits must prove than plain events do to be worth telling."""
LONGEST_ROW = 256
"""Bytes up to which a row of discrete numbers is also looked at as a whole."""


def make_features(source: Source, outputs: Array, events: Sequence[str | Event] | None) -> list[Feature]:
    """The features that `events` asks for, checked on a few outputs."""
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
        raise ParameterError(f"events must find something in outputs of dtype {outputs.dtype} and shape {outputs.shape[1:]}: {_CHOICES}")
    return features


_CHOICES = "'values', 'low_bits' and functions that take outputs and give a bool or a number for each run"


def _checked(event: Event, outputs: Array) -> Feature:
    name = getattr(event, "__name__", type(event).__name__)

    def of(block: Array) -> Array:
        found = np.asarray(event(block))
        if found.shape != (len(block),) or found.dtype.kind not in "biuf":
            raise ParameterError(
                f"events must give a bool or a number for each run; {name} gives {found.dtype} of shape {found.shape} for {len(block)} runs"
            )
        return found

    of(outputs)
    return Feature(f"{name}(output)", of)


# Values


def _values(source: Source, outputs: Array, *, may_be_none: bool) -> list[Feature]:
    found = _support(source)
    if outputs.dtype.names is not None:
        return found + [_field(name) for name in outputs.dtype.names] + [Feature("code of the output", codes_of_rows)]
    if outputs.ndim == 1:
        return [_whole(source)]
    width = math.prod(outputs.shape[1:])
    found += _directions(source, outputs)
    if width > WIDEST and not found:
        if may_be_none:
            return []
        raise ParameterError(
            f"mechanism gives {width} numbers in a run, too many to look at each; give events=[statistic] with a function that takes "
            "outputs and gives a number for each run"
        )
    discrete = outputs.dtype.kind in "bui" or isinstance(source.mechanism, SEQUENTIAL)
    if discrete and width * outputs.itemsize <= LONGEST_ROW:
        found.append(Feature("code of the output", codes_of_rows))
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
    return Feature("output", lambda block: block, _points(source))


def _field(name: str) -> Feature:
    return Feature(f"field {name!r} of the output", lambda block: block[name])


def _coordinate(j: int) -> Feature:
    return Feature(f"number {j} of the output", lambda block: block.reshape(len(block), -1)[:, j])


def _difference(i: int, j: int) -> Feature:
    def of(block: Array) -> Array:
        flat = block.reshape(len(block), -1)
        left, right = flat[:, i], flat[:, j]
        return left - right if block.dtype.kind == "f" else left.astype(np.int64) - right.astype(np.int64)

    return Feature(f"number {i} less number {j} of the output", of)


def _together(i: int, j: int, outputs: Array) -> Feature:
    """The cells of two numbers at once, as they are in a few outputs."""
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
    """The numbers to look at: those first in which the inputs differ."""
    width = math.prod(outputs.shape[1:])
    matched = _matched(source, outputs)
    moved = np.zeros(width, np.bool_) if matched is None else matched[0] != matched[1]
    if isinstance(source.mechanism, SEQUENTIAL):
        return [*range(min(COORDINATES, width)), *range(max(COORDINATES, width - 1), width)]
    return [int(j) for j in np.argsort(~moved, kind="stable")[:COORDINATES]]


def _directions(source: Source, outputs: Array) -> list[Feature]:
    """Where the inputs moved: the projection on it, and the likelihood ratio of Laplace noise."""
    matched = _matched(source, outputs)
    if matched is None or (matched[0] == matched[1]).all():
        return []
    moved = np.flatnonzero(matched[0] != matched[1])
    before, after = matched[0][moved], matched[1][moved]

    def part(block: Array) -> Array:
        return block.reshape(len(block), -1)[:, moved].astype(np.float64)

    return [
        Feature("⟨output, x1 − x0⟩", lambda block: part(block) @ (after - before)),
        Feature("‖output − x0‖₁ − ‖output − x1‖₁", lambda block: (np.abs(part(block) - before) - np.abs(part(block) - after)).sum(axis=1)),
    ]


# Reports of local mechanisms: which of the two records a report supports


def _support(source: Source) -> list[Feature]:
    """What a report says of the two records, two bits."""
    supports = _supports(source.mechanism)
    if supports is None:
        return []
    x0, x1 = (_category(source.mechanism, x) for x in source.inputs)
    return [Feature("2·(supports x0) + (supports x1)", lambda block: 2 * supports(block, x0).astype(np.int64) + supports(block, x1))]


def _category(mechanism: Any, x: Any) -> int:
    code = int(x)
    return code if 0 <= code < mechanism.k or mechanism.unknown is None else int(mechanism.unknown)


def _supports(mechanism: Any) -> Callable[[Array, int], Array] | None:
    """Whether reports support a category; written anew, so that the audit does not rest on the kernels it audits."""
    if isinstance(mechanism, local.UnaryEncoding | local.SubsetSelection):
        return lambda rows, v: (rows[:, v // 8] >> np.uint8(v % 8)) & np.uint8(1)
    if isinstance(mechanism, local.HadamardResponse):

        def agrees(reports: Array, v: int) -> Array:
            found: Array = _parity(reports["row"] & np.uint32(v)) ^ reports["bit"]
            return found

        return agrees
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
    return Feature(f"{integer.name} mod 256", lambda block: integer.values(block) & 255, (), LOW_BIT_MARGIN)


def _low_bits_of(column: Feature, inputs: tuple[float, ...], source: Source) -> list[Feature]:
    """Features of the low bits of one float of the output."""
    name, wide, margin = column.name, column.values, LOW_BIT_MARGIN
    found = [Feature(f"64·(exponent + 1074) + trailing zeros of {name}", lambda block: trailing_zeros(wide(block)), (), margin)]
    if len(inputs) != 2 or inputs[0] == inputs[1]:
        return found
    x0, x1 = inputs
    found.append(Feature(f"whether {name} is x0, x1 plus a float", lambda block: representable(wide(block), x0, x1), (), margin))
    scale = _laplace_scale(source, abs(x1 - x0))
    if scale is not None:
        title = f"whether {name} is x0, x1 plus {scale:g}·ln(v/2⁵²)"
        found.append(Feature(title, lambda block: reachable(wide(block), x0, x1, scale), (), margin))
    return found


def _laplace_scale(source: Source, distance: float) -> float | None:
    """The scale of Laplace noise: the mechanism's own, or what the claim would take."""
    own = getattr(source.mechanism, "scale", None)
    if isinstance(own, float) and own > 0:
        return own
    epsilon = source.privacy.epsilon if source.privacy is not None else 0.0
    return distance / epsilon if 0 < epsilon < math.inf else None
