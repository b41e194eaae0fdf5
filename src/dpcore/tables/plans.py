"""Parts that all plans share: fields, checks of files, and the walk over the schemas of an input."""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from dpcore._dataclasses import dataclass
from dpcore.tables.checks import check_names, type_of_unit
from dpcore.tables.inputs import Inputs
from dpcore.tables.types.decimals import common_type

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from dpcore._disk.addresses import Location
    from dpcore.tables.output.spending import Spending
    from dpcore.tables.pieces import FileInfo
    from dpcore.tables.sections import JobFile
    from dpcore.tables.sources import InputFile


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPlan:
    """Fields of every plan; each kind describes them."""

    job: JobFile
    inputs: Inputs
    read_types: dict[str, pa.DataType]
    output: Location
    rows: int | None
    unit_type: pa.DataType | None
    publication: Spending
    curator: bool = False


@dataclass(slots=True)
class Schemas:
    """The joint facts of the schemas of all files of an input.

    Attributes
    ----------
    inputs : Inputs
        The files.
    unit : str
        The privacy unit: "row", or a column.
    read_types : dict
        Type of each column that is read.
    rows : int or None
        Rows of all files; None if they are not known before the files are read.
    unit_type : pyarrow.DataType or None
        Type of the column that holds the unit.
    """

    inputs: Inputs
    unit: str
    read_types: dict[str, pa.DataType] = field(default_factory=dict)
    rows: int | None = 0
    unit_type: pa.DataType | None = None

    def inspected(self, names: Sequence[str], *, curator: bool) -> Iterator[tuple[InputFile, FileInfo]]:
        """Yield each file that is not like the one before it, with its schema, which has these columns; then note the type of its unit.

        The rows of all files are noted.
        """
        unit = [] if self.unit == "row" else [self.unit]
        before: FileInfo | None = None
        for path in self.inputs.paths:
            info = self.inputs.inspect(path)
            if before is None or not info.is_like(before):
                check_names(info, path, [*names, *unit], curator=curator)
                yield path, info
                if unit:
                    self.unit_type = type_of_unit(info, path, self.unit, self.unit_type)
            before = info
            self.rows = None if self.rows is None or info.rows is None else self.rows + info.rows


def with_values(infos: Sequence[FileInfo], names: Iterable[str]) -> FileInfo:
    """The first file, with the type of each column in the first file in which it is not null throughout; of decimals that of all files."""
    first = infos[0]
    if first.schema is None:
        return first
    schema = first.schema
    for name in dict.fromkeys(names):
        kinds = [info.types[name] for info in infos if info.types is not None and not pa.types.is_null(info.types[name])]
        place = first.names.index(name)
        schema = schema.set(place, schema.field(place).with_type(common_type(kinds)))
    return replace(first, schema=schema)
