from collections.abc import Callable
from typing import Any

LAPLACE: int
GAUSSIAN: int
DISCRETE_LAPLACE: int
GAUSSIAN_TABLE: int
GAUSSIAN_ROUNDED: int
CHACHA20: int
AES256: int
DONE: int
NONFINITE: int
PENDING_FULL: int
DTYPES: dict[Any, int]
INTEGERS: frozenset[Any]
REALS: frozenset[Any]

class Law:
    def __init__(
        self,
        kind: int,
        scale: float,
        grid: float = ...,
        offset: tuple[float, float] = ...,
        short: list[int] | None = ...,
        long: list[int] | None = ...,
        quick: float = ...,
        terms: list[float] | None = ...,
    ) -> None: ...

class Laws:
    def __init__(self, laws: tuple[Law, ...]) -> None: ...

class Call:
    def __init__(
        self,
        kind: int,
        laws: Laws | tuple[Law, ...],
        values: Any,
        out: Any,
        key: Any,
        nonce: int,
        first_element: int,
        cipher: int,
        tier: int = ...,
        bound_factor: float = ...,
        *,
        which: Any = ...,
        scales: Any = ...,
        bounds: tuple[float, float, float, int, int, bool] | None = ...,
        fixed_grid: float = ...,
        streams: bool = ...,
    ) -> None: ...
    def run(self, start: int, stop: int) -> tuple[int, int, list[tuple[int, int, float, float, int, int]]]: ...
    def first_nan(self, start: int, stop: int) -> int: ...
    def first_nonfinite(self, start: int, stop: int) -> int: ...

def number_distinct(scales: Any, which: Any, low: float, high: float) -> tuple[float, ...] | None: ...

class ShortCall:
    def __init__(
        self,
        law: Law,
        bounds: tuple[float, float, float, int, int, bool] | None,
        sizes: Any,
        hooks: Any,
        secure_cipher: Callable[[], str],
        whole: Callable[[Any, Any], Any],
    ) -> None: ...
    def release(self, values: Any, source: Any, out: Any = ...) -> Any: ...
