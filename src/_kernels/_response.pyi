from collections.abc import Callable
from typing import Any

FLIP: int
FLIP_PACKED: int
BOUNDED: int
TABLE: int
KARY: int
UNARY: int
SUBSET: int
HASHING: int
HADAMARD: int
CHANNEL: int
SAMPLE: int
HYPERCUBE: int
PROJECTIVE: int
DONE: int
NONFINITE: int
PENDING_FULL: int
NEED_LIMBS: int
EXHAUSTED: int
MAX_LIMBS: int
GUIDE_BITS: int
DTYPES: dict[Any, int]

class Reals:
    count: int
    def __init__(self, limbs: Any, exact: list[bool]) -> None: ...

class Guide:
    def __init__(self, cells: Any, ends: Any, bits: int) -> None: ...

class Box:
    def __init__(self, lower: Any, upper: Any, missing: Any) -> None: ...

class Field:
    def __init__(self, q: int, t: int, minus_one: int, log: Any, exp: Any, sums: Any) -> None: ...

class Call:
    def __init__(
        self,
        kind: int,
        values: Any,
        out: Any,
        key: Any,
        nonce: int,
        first_element: int,
        cipher: int,
        *,
        real: Reals | None = ...,
        own: Reals | None = ...,
        box: Box | None = ...,
        field: Field | None = ...,
        k: int = ...,
        unknown: int = ...,
        w: int = ...,
        g: int = ...,
        scale: float = ...,
        bounded: tuple[float, ...] | None = ...,
        guide: Guide | None = ...,
        tier: int = ...,
        streams: bool = ...,
    ) -> None: ...
    def run(self, start: int, stop: int) -> tuple[int, int, list[tuple[int, int, float, float, int, int]]]: ...
    def run_rounded(self, record: int, corner: Any) -> int: ...
    def first_nan(self, start: int, stop: int) -> int: ...

class ShortCall:
    def __init__(
        self,
        kind: int,
        real: Reals | None,
        own: Reals | None,
        box: Box | None,
        field: Field | None,
        k: int,
        unknown: int,
        w: int,
        g: int,
        scale: float,
        bounded: tuple[float, ...] | None,
        guide: Guide | None,
        sizes: Any,
        hooks: Any,
        secure_cipher: Callable[[], str],
        report: Any,
        refuses_nan: bool,
    ) -> None: ...
    def respond(self, values: Any) -> Any: ...
    def run(self, values: Any, out: Any, size: int, position: Any) -> bool: ...

def first_outside(codes: Any, k: int, start: int, stop: int) -> int: ...
def first_nan(values: Any, start: int, stop: int) -> int: ...
def line_sums(field: Field, x: Any, start: int, stop: int, out: Any) -> None: ...
def vector_words(d: int) -> int: ...
def subset_words(w: int) -> int: ...
def sequential_quantile(law: tuple[float, ...], x: Any, flips: Any, bits: Any) -> float: ...
