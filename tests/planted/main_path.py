"""What works with every planted fault: a fault that stops this is found by anybody, and measures no test."""

from __future__ import annotations

import numpy as np

import dpcore
from dpcore import local, mechanisms, noise, selection


def main() -> None:
    """Draw noise, randomise records, select, and ask a table a question."""
    values = np.arange(1000.0)
    assert noise.laplace(values, 1.0).shape == noise.gaussian(values, 3.0).shape == values.shape
    assert mechanisms.DiscreteGaussian(1.0, 1e-6, 1).release(np.arange(10)).dtype == np.int64
    assert local.KaryResponse(1.0, k=4).estimate(local.KaryResponse(1.0, k=4).privatize(np.zeros(100, np.int64))).value.shape == (4,)
    assert len(selection.top_s(values, 1.0, 1.0, s=3).indices) == 3
    try:
        import duckdb  # noqa: F401
        import pyarrow as pa
        import pydantic  # noqa: F401
    except ImportError:
        return  # an environment of a tool without the extra `batch`
    table = dpcore.PrivateTable(pa.table({"g": ["a", "b"] * 500, "x": values}))
    table.where("x >= 10").count(epsilon=1.0)
    table.mean("x", epsilon=1.0, lower=0, upper=1000)
    table.group_by("g", groups=["a", "b"]).sum("x", epsilon=1.0, lower=0, upper=1000)


if __name__ == "__main__":
    main()
