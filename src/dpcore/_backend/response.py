"""Local randomisers, one call each. Arguments are valid. Probabilities are passed as binary expansions that grow when needed."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from dpcore._backend import threads as sizes
from dpcore._backend.hooks import Testing
from dpcore._backend.levels import cipher_code, secure_cipher
from dpcore._backend.memory import contiguous
from dpcore._backend.noise import streams
from dpcore._backend.threads import for_ranges
from dpcore._backend.words import KernelWords, Position, call_words
from dpcore._exact.probability import Probability, logistic_complement, one_of, tilted
from dpcore._kernels import _response
from dpcore.errors import DataError, EntropyError, ParameterError

HASHING_REPORT = np.dtype([("seed", "<u8"), ("code", "<u4")])
"""A report of local hashing: b·2³¹ + a of the hash function, and the randomised code."""
HADAMARD_REPORT = np.dtype([("row", "<u4"), ("bit", "?")])
"""A Hadamard response: the row, and the sign (True is +1)."""
VECTOR_REPORT = np.dtype([("index", "<u4"), ("bit", "?")])
"""A report about one coordinate: which one, and its sign (True is +)."""
_REPORTS = {
    _response.FLIP: np.dtype(np.bool_), _response.BOUNDED: np.dtype(np.bool_), _response.TABLE: np.dtype(np.bool_),
    _response.UNARY: np.dtype(np.uint8), _response.SUBSET: np.dtype(np.uint8), _response.HASHING: HASHING_REPORT,
    _response.HADAMARD: HADAMARD_REPORT, _response.PROJECTIVE: np.dtype(np.uint32), _response.SAMPLE: VECTOR_REPORT,
    _response.HYPERCUBE: np.dtype(np.uint8),
}  # fmt: skip
"""What each kind's reports are, but for k-ary ones, which are what the records are."""
MORE_RESPONSE = 6
FIRST_LIMBS = 8
NAN = math.nan
"""The one NaN that stands for no number, as the same object is its own key."""
LARGEST_WIDTH, SMALLEST_WIDTH = 2.0**1022, 2.0**-960  # the reciprocal is a normal number, even if the thread flushes subnormal ones

Array = npt.NDArray[Any]


@lru_cache(maxsize=1024)
def _reals(probabilities: tuple[Probability, ...], n_limbs: int) -> Any:
    bits = 32 * n_limbs
    rows, exact = [], []
    for p in probabilities:
        floor = min(p.floor(bits), 2**bits - 1)  # probability 1 becomes the largest fraction; equality with it is undecided
        rows.append(np.frombuffer(floor.to_bytes(4 * n_limbs, "big"), ">u4"))
        constant = p.constant
        exact.append(constant is not None and constant < 1 and (constant * 2**bits).denominator == 1)
    return _response.Reals(np.ascontiguousarray(np.stack(rows).astype(np.uint32)), exact)


_ANSWERS = tuple(np.array(answer, np.uint8) for answer in (False, True))
"""The two answers, as the kernels read them. They are read only."""


class Law:
    """One randomiser: a kind of kernel, its probabilities, and the numbers that the kernel needs."""

    def __init__(
        self, kind: int, real: tuple[Probability, ...], own: tuple[Probability, ...], k: int, unknown: int | None, w: int, g: int,
        scale: float, bounded: tuple[float, ...] | None, guide: Any = None, box: Any = None, field: Any = None, *,
        refuses_nan: bool = False,
    ) -> None:  # fmt: skip
        self._kind, self._real, self._own = kind, real, own
        code = -1 if unknown is None else unknown
        self._options: dict[str, Any] = {
            "k": k, "unknown": code, "w": w, "g": g, "scale": scale, "bounded": bounded, "guide": guide, "box": box, "field": field,
        }  # fmt: skip
        probabilities = self._expansions(FIRST_LIMBS)
        self._short = _response.ShortCall(
            kind, *probabilities, box, field, k, code, w, g, scale, bounded, guide, sizes, Testing, secure_cipher, _REPORTS.get(kind),
            refuses_nan,
        )  # fmt: skip
        self.respond: Callable[[Any], Array | Position | None] = self._short.respond
        """Reports of the secure source on an array of few records. If not all are made, the position under which they are; None if none
        is taken."""

    def _expansions(self, n_limbs: int) -> tuple[Any, Any]:
        return _reals(self._real, n_limbs) if self._real else None, _reals(self._own, n_limbs) if self._own else None

    def call(self, values: Array, out: Array, position: Position, n_limbs: int, *, is_fresh: bool) -> Any:
        """A call of the kernels with expansions of this length."""
        key, nonce, first, secure = position
        real, own = self._expansions(n_limbs)
        return _response.Call(
            self._kind, values, out, key, nonce, first, cipher_code(secure=secure), real=real, own=own, tier=Testing.tier,
            streams=streams(values, None if is_fresh else out), **self._options,
        )  # fmt: skip

    def run(
        self, values: Array, out: Array, position: Position, *, size: int, is_fresh: bool, threads: int | None, elements_per_unit: float,
        resolve: Any = None, corner: Any = None,
    ) -> None:  # fmt: skip
        """Run on [0, size); `resolve` decides the pending records, `corner` rounds one. Only a fresh `out` may be begun twice."""
        if is_fresh and size <= sizes.SMALL * elements_per_unit and self._short.run(values, out, size, position):
            return
        first_limbs = Testing.limbs or FIRST_LIMBS
        call = self.call(values, out, position, first_limbs, is_fresh=is_fresh)

        def work(start: int, stop: int) -> None:
            now, n_limbs = call, first_limbs
            while start < stop:
                status, start, pending = now.run(start, stop)
                for fields in pending:
                    resolve(fields)
                if status == _response.PENDING_FULL and corner is not None:
                    status = now.run_rounded(start, corner(start))
                    start += status == _response.DONE
                if status == _response.NONFINITE:
                    first = int(call.first_nan(0, values.size))  # threads meet them in any order
                    refuse_nan(values.shape, first if first >= 0 else start)
                if status == _response.NEED_LIMBS:
                    n_limbs = _longer(n_limbs)
                    now = self.call(values, out, position, n_limbs, is_fresh=is_fresh)
                if status == _response.EXHAUSTED:
                    _refuse_stream()

        for_ranges(work, size, threads, elements_per_unit=elements_per_unit)


@lru_cache(maxsize=1024)
def _law(
    kind: int, real: tuple[Probability, ...] = (), own: tuple[Probability, ...] = (), k: int = 0, unknown: int | None = None, w: int = 0,
    g: int = 0, scale: float = 0.0, bounded: tuple[float, ...] | None = None,
) -> Law:  # fmt: skip
    return Law(kind, real, own, k, unknown, w, g, scale, bounded)


def _longer(n_limbs: int) -> int:
    if n_limbs >= _response.MAX_LIMBS:
        _refuse_stream()
    return min(2 * n_limbs, int(_response.MAX_LIMBS))


def _refuse_stream() -> None:
    raise EntropyError(
        "the random stream repeats a probability's binary expansion for hundreds of bits, so it is not random: check its source"
    )


def refuse_nan(shape: tuple[int, ...], position: int) -> None:
    index = tuple(int(i) for i in np.unravel_index(position, shape)) if shape else ()
    raise DataError(f"records must not hold NaN unless `missing` names a number for it; the number at index {index} is NaN")


def new_array(out: Array | None, shape: tuple[int, ...], dtype: Any) -> Array:
    return np.empty(shape, dtype) if out is None else out


def _bytes_of(array: Array) -> Array:
    return array.view(np.uint8) if array.dtype == np.bool_ else array


def check_lanes(position: Position, lanes: int, size: int) -> None:
    if (position[2] + size) * lanes >= 2**64:
        raise ParameterError(
            f"rng has 2**64 lanes, but {position[2] + size} records with {lanes} lanes each need more; use another stream for some of them"
        )


def first_outside(codes: Array, k: int, threads: int | None = None) -> int:
    """Position in C order of the first code outside [0, k), or -1."""
    if codes.size <= sizes.SMALL:
        return int(_response.first_outside(codes, k, 0, codes.size))
    found: list[int] = []

    def check(start: int, stop: int) -> None:
        position = int(_response.first_outside(codes, k, start, stop))
        if position >= 0:
            found.append(position)

    for_ranges(check, codes.size, threads, elements_per_unit=4)
    return min(found, default=-1)


@lru_cache(maxsize=1024)
def flip_law(p: Probability) -> Law:
    """That of answers, each flipped with probability p."""
    return _law(_response.FLIP, (p,))


def flip_bools(x: Array, p: Probability, position: Position, *, threads: int | None, out: Array | None = None) -> npt.NDArray[np.bool_]:
    """Whether x is not 0, flipped with probability p; any shape."""
    result = new_array(out, x.shape, np.bool_)
    flip_law(p).run(_bytes_of(x), result.view(np.uint8), position, size=x.size, is_fresh=out is None, threads=threads, elements_per_unit=16)
    return result


def flip_answer(answer: bool, p: Probability, position: Position) -> bool:
    """A single answer, flipped with probability p: the report that `flip_bools` makes of an array of it alone."""
    result = np.empty((), np.uint8)
    flip_law(p).run(_ANSWERS[answer], result, position, size=1, is_fresh=True, threads=1, elements_per_unit=16)
    return bool(result)


def flip_packed(
    bits: npt.NDArray[np.uint8], n: int, p: Probability, position: Position, *, threads: int | None, out: Array | None = None
) -> npt.NDArray[np.uint8]:
    """The first n packed bits, each flipped with probability p; the other bits of the last byte become 0."""
    result = new_array(out, ((n + 7) // 8,), np.uint8)
    law = Law(_response.FLIP_PACKED, (p,), (), n, None, 0, 0, 0.0, None)  # not kept: n is that of this call alone
    law.run(bits, result, position, size=n, is_fresh=out is None, threads=threads, elements_per_unit=16)
    return result


@lru_cache(maxsize=1024)
def bounded_law(epsilon: float) -> tuple[float, float, float, float]:
    """2¹⁶q and 2¹⁶(1 − 2q) rounded, and q = 1/(1 + e^ε) as a double-double whose error is below 2^-106 of q."""
    q = logistic_complement(epsilon)
    bits = 256 + max(0, math.ceil(epsilon * 1.5))
    exact = Fraction(q.floor(bits), 2**bits)
    high = float(exact)
    return float(2**16 * exact), float(2**16 * (1 - 2 * exact)), high, float(exact - Fraction(high))


@lru_cache(maxsize=1024)
def _bounding_law(lower: float, upper: float, epsilon: float, missing: float | None, factor: float) -> Law:
    if not SMALLEST_WIDTH <= upper - lower <= LARGEST_WIDTH:
        raise ParameterError(f"upper - lower must be in [2**-960, 2**1022], got {upper - lower!r}")
    start, rise, q_high, q_low = bounded_law(epsilon)
    bounded = (lower, upper, NAN if missing is None else missing, 2.0**-31 * factor, start, rise, q_high, q_low)
    return _law(_response.BOUNDED, bounded=bounded)


def bounding_law(lower: float, upper: float, epsilon: float, missing: float | None) -> Law:
    """True with probability ½(1 + T(x)(e^ε − 1)/(e^ε + 1)), T the clamped x scaled to [−1, 1]."""
    return _bounding_law(lower, upper, epsilon, missing, Testing.bound_factor)


def bounded_response(
    x: Array,
    lower: float,
    upper: float,
    epsilon: float,
    missing: float | None,
    position: Position,
    *,
    threads: int | None,
    out: Array | None = None,
) -> npt.NDArray[np.bool_]:
    """True with probability ½(1 + T(x)(e^ε − 1)/(e^ε + 1)), T the clamped x scaled to [−1, 1]; any shape."""
    law = bounding_law(lower, upper, epsilon, missing)
    result = new_array(out, x.shape, np.bool_)
    bytes_ = result.view(np.uint8)

    def resolve(fields: tuple[int, int, float, float, int, int]) -> None:
        index, element, high, low, piece, _ = fields
        value = missing if missing is not None and math.isnan(high) else high
        result.flat[index] = is_below(tilted_at(value, low, lower, upper, epsilon), piece, call_words(position), element)

    law.run(x, bytes_, position, size=x.size, is_fresh=out is None, threads=threads, elements_per_unit=4, resolve=resolve)
    return result


def tilted_at(high: float, low: float, lower: float, upper: float, epsilon: float) -> Probability:
    """The probability of "+" of one value, exactly."""
    if math.isinf(high):
        t = Fraction(1 if high > 0 else -1)
    else:
        value = min(max(Fraction(high) + Fraction(low), Fraction(lower)), Fraction(upper))
        t = (2 * value - Fraction(lower) - Fraction(upper)) / (Fraction(upper) - Fraction(lower))
    return tilted(epsilon, t)


def is_below(p: Probability, piece: int, words: KernelWords, element: int) -> bool:
    """Whether the uniform number with these first sixteen bits is below p; reads as many further bits as needed."""
    prefix, bits = piece, 16
    for chunk in range(1024):
        for word in words.more(MORE_RESPONSE, element, 0, chunk):
            prefix, bits = prefix << 64 | word, bits + 64
        floor = p.floor(bits)
        if prefix != floor:
            return prefix < floor
        constant = p.constant
        if constant is not None and (constant * 2**bits).denominator == 1:
            return False
    _refuse_stream()
    return False


def table_response(
    codes: Array,
    epsilon: float,
    phi: tuple[Fraction, ...],
    unknown: int | None,
    position: Position,
    *,
    threads: int | None,
    out: Array | None = None,
) -> npt.NDArray[np.bool_]:
    """True with probability ½(1 + φ(x)(e^ε − 1)/(e^ε + 1)) for φ in [−1, 1]; any shape."""
    result = new_array(out, codes.shape, np.bool_)
    probabilities = tuple(tilted(epsilon, t) for t in phi)
    law = _law(_response.TABLE, probabilities, k=len(phi), unknown=unknown)
    law.run(codes, result.view(np.uint8), position, size=codes.size, is_fresh=out is None, threads=threads, elements_per_unit=1)
    return result


@lru_cache(maxsize=1024)
def _kary_scale(epsilon: float, k: int) -> float:
    return math.ldexp(1 / float(one_of(epsilon, k)), -32)


@lru_cache(maxsize=1024)
def kary_law(epsilon: float, k: int, unknown: int | None) -> Law:
    """The code with probability e^ε/(e^ε + k − 1), else one of the others."""
    return _law(_response.KARY, (one_of(epsilon, k),), (), k, unknown, 0, 0, _kary_scale(epsilon, k))


@lru_cache(maxsize=1024)
def unary_law(k: int, p: Probability, q: Probability, unknown: int | None) -> Law:
    """Bit x is true with probability p, each other one of k with probability q."""
    return _law(_response.UNARY, (q,), (p,), k, unknown)


@lru_cache(maxsize=1024)
def subset_law(k: int, w: int, inclusion: Probability, unknown: int | None) -> Law:
    """A random subset of w of k, which holds x with probability `inclusion` and is uniform given that."""
    return _law(_response.SUBSET, (inclusion,), (), k, unknown, w)


@lru_cache(maxsize=1024)
def hashing_law(epsilon: float, k: int, g: int, unknown: int | None) -> Law:
    """A random hash function onto g codes, and the k-ary response of the hashed code."""
    return _law(_response.HASHING, (one_of(epsilon, g),), (), k, unknown, 0, g, _kary_scale(epsilon, g))


@lru_cache(maxsize=1024)
def hadamard_law(k: int, p_flip: Probability, unknown: int | None) -> Law:
    """A random row of the Hadamard matrix, and the sign in column x, flipped with probability `p_flip`."""
    return _law(_response.HADAMARD, (p_flip,), (), k, unknown, 0, 1 << (k - 1).bit_length())


def kary_response(
    codes: Array, epsilon: float, k: int, unknown: int | None, position: Position, *, threads: int | None,
    out: Array | None = None,
) -> Array:  # fmt: skip
    """The code with probability e^ε/(e^ε + k − 1), else one of the others; any shape, the codes' dtype."""
    result = new_array(out, codes.shape, codes.dtype)
    kary_law(epsilon, k, unknown).run(codes, result, position, size=codes.size, is_fresh=out is None, threads=threads, elements_per_unit=2)
    return result


def unary_response(
    codes: Array, k: int, p: Probability, q: Probability, unknown: int | None, position: Position, *, threads: int | None,
    out: Array | None = None,
) -> npt.NDArray[np.uint8]:  # fmt: skip
    """Packed bits: bit x is true with probability p, each other one with probability q."""
    width = (k + 7) // 8
    check_lanes(position, 8 * width, codes.size)
    result = new_array(out, (codes.size, width), np.uint8)
    unary_law(k, p, q, unknown).run(
        codes, result, position, size=codes.size, is_fresh=out is None, threads=threads, elements_per_unit=2 / width
    )
    return result


def subset_response(
    codes: Array, k: int, w: int, inclusion: Probability, unknown: int | None, position: Position, *, threads: int | None,
    out: Array | None = None,
) -> npt.NDArray[np.uint8]:  # fmt: skip
    """Packed bits of a random subset of size w, which holds x with probability `inclusion` and is uniform given that."""
    width = (k + 7) // 8
    check_lanes(position, _response.subset_words(w), codes.size)
    result = new_array(out, (codes.size, width), np.uint8)
    subset_law(k, w, inclusion, unknown).run(
        codes, result, position, size=codes.size, is_fresh=out is None, threads=threads, elements_per_unit=1 / (width + w)
    )
    return result


def hashing_response(
    codes: Array, epsilon: float, k: int, g: int, unknown: int | None, position: Position, *, threads: int | None,
    out: Array | None = None,
) -> Array:  # fmt: skip
    """Seeds of random hash functions onto g codes, and the k-ary responses of the hashed codes; any shape."""
    result = new_array(out, codes.shape, HASHING_REPORT)
    hashing_law(epsilon, k, g, unknown).run(
        codes, _flat_bytes(result), position, size=codes.size, is_fresh=out is None, threads=threads, elements_per_unit=0.25
    )
    return result


def hadamard_response(
    codes: Array, k: int, p_flip: Probability, unknown: int | None, position: Position, *, threads: int | None,
    out: Array | None = None,
) -> Array:  # fmt: skip
    """Random rows of the Hadamard matrix, and the signs in column x, flipped with probability `p_flip`; any shape."""
    result = new_array(out, codes.shape, HADAMARD_REPORT)
    hadamard_law(k, p_flip, unknown).run(
        codes, _flat_bytes(result), position, size=codes.size, is_fresh=out is None, threads=threads, elements_per_unit=0.5
    )
    return result


def _flat_bytes(reports: Array) -> npt.NDArray[np.uint8]:
    """The bytes of contiguous reports, without a copy."""
    return reports.reshape(-1).view(np.uint8)


def sequential_quantile(law: tuple[float, ...], x: Array | None, flips: Array | None, bits: npt.NDArray[np.bool_]) -> float:
    """Fill `bits` with the answers of records x, or replay those there without x; returns the estimate.

    `law` is (q, lower, upper, start, step, what True counts as, what False counts as).
    """
    values = None if x is None else contiguous(x, np.float64)
    return float(_response.sequential_quantile(law, values, None if flips is None else flips.view(np.uint8), bits.view(np.uint8)))
