"""Makes randhie.parquet from the table that statsmodels distributes; run once, with statsmodels installed.

Run as `python examples/make_randhie.py`.
"""

from __future__ import annotations

import math
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from statsmodels.datasets import randhie

TARGET = Path(__file__).with_name("randhie.parquet")
HEALTH = {"hlthg": "good", "hlthf": "fair", "hlthp": "poor"}


def health(indicators: dict[str, list[int]]) -> pa.DictionaryArray:
    """One category per row; a row without any indicator is the omitted category, excellent."""
    categories = ["excellent", *HEALTH.values()]
    codes = [good + 2 * fair + 3 * poor for good, fair, poor in zip(*indicators.values(), strict=True)]
    if any(code not in range(4) for code in codes) or any(sum(row) > 1 for row in zip(*indicators.values(), strict=True)):
        raise ValueError("a row has more than one health indicator")
    return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int8()), pa.array(categories))


def coinsurance(logarithms: list[float]) -> pa.Array:
    """The rate in whole per cent of ln(rate + 1)."""
    return pa.array([round(math.expm1(logarithm)) for logarithm in logarithms], pa.int64())


def main() -> None:
    """Read, add the two categories, write."""
    source = randhie.load_pandas().data
    table = pa.Table.from_pandas(source, preserve_index=False).replace_schema_metadata(None)
    table = table.append_column("health", health({name: table[name].to_pylist() for name in HEALTH}))
    table = table.append_column("coins", coinsurance(table["lncoins"].to_pylist()))
    pq.write_table(table, TARGET, compression="zstd", row_group_size=8192)


if __name__ == "__main__":
    main()
