from typing import Any

class Digits:
    def __init__(self, digits: list[tuple[tuple[int, ...], list[int], list[int], bool]]) -> None: ...

class Noise:
    def __init__(
        self, digits: Digits, values: Any, out: Any, key: Any, nonce: int, first_element: int, cipher: int, *,
        bounds: tuple[float, float, float, int, int, bool] | None = ..., fraction_bits: int = ..., grid: float = ..., least: float = ...,
        most: float = ...,
    ) -> None: ...  # fmt: skip
    def run(self, start: int, stop: int) -> None: ...

class Bits:
    def __init__(self, digits: Digits, bits: Any, out: Any, key: Any, nonce: int, first_element: int, cipher: int) -> None: ...
    def run(self, start: int, stop: int) -> None: ...

class Choice:
    def __init__(
        self, digits: Digits, scores: Any, key: Any, nonce: int, first_element: int, cipher: int, *, grid: float, least: float, most: float,
        largest: float, largest_low: float,
    ) -> None: ...  # fmt: skip
    def largest(self, n: int) -> int: ...
