"""The part of `pandas.Series` that dpcore uses, so that tests need no pandas."""

from __future__ import annotations

from typing import Any

import numpy as np


class Series:
    """Values with labels."""

    def __init__(self, data: Any, index: Any = None, name: object = None, *, copy: bool = True) -> None:
        self._values = np.array(data) if copy else np.asarray(data)
        self.index = np.arange(len(self._values)) if index is None else np.asarray(index)
        self.name = name

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.array(self._values, dtype) if copy else np.asarray(self._values, dtype)

    def __len__(self) -> int:
        return len(self._values)

    @property
    def ndim(self) -> int:
        """One."""
        return 1

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of values."""
        return self._values.shape

    @property
    def iloc(self) -> Any:
        """The values, by position."""
        return self._values

    def __getitem__(self, label: object) -> Any:
        """The value of a label."""
        return self._values[self.index.tolist().index(label)]

    def to_frame(self) -> Any:
        """What a Series has and an array or an Index has not."""
        raise NotImplementedError
