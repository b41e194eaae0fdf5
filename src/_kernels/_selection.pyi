from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

GUMBEL: int
EXPONENTIAL: int
TWO_SIDED: int
DONE: int
NONFINITE: int
PENDING_FULL: int
BLOCK: int
UNIT: int
SPARE_PLACES: int

class Call:
    n_units: int
    stride: int
    def __init__(
        self,
        noise: int,
        scores: npt.NDArray[Any],
        scale: float,
        keep: int,
        step: int,
        key: Any,
        nonce: int,
        first_element: int,
        cipher: int,
        tier: int = ...,
        unpruned: bool = ...,
        bound_factor: float = ...,
    ) -> None: ...
    def use_bounds(self, bounds: npt.NDArray[np.float64]) -> None: ...
    def find_bounds(self, start: int, stop: int) -> int: ...
    def exclude(self, excluded: npt.NDArray[np.int64], newest: int) -> None: ...
    def run(
        self, round_: int, start: int, stop: int, threshold: tuple[float, float] | None, spare: int
    ) -> tuple[int, Any, tuple[float, float] | None, int, int]: ...
    def winners(self, first: int, out: npt.NDArray[np.int64], start: int, stop: int) -> int: ...

def short(
    noise: int,
    scores: npt.NDArray[Any],
    scale: float,
    keep: int,
    rounds: int,
    step: int,
    position: tuple[Any, int, int, bool] | None,
    size: int,
    hooks: Any,
    secure_cipher: Callable[[], str],
) -> npt.NDArray[np.int64] | tuple[Any, int, int, bool] | None: ...
