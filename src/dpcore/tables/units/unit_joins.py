"""Another private table, of which one row for each unit is made and joined to the rows of the same units.

A row gets what was made of the rows of its own unit. Rows that name no unit get nothing, and no unit has several rows on the other
side, because they are made by grouping and not tested. So what one unit has in all tables together decides about its own rows
alone, and neighbouring sets of tables differ in the rows of one unit, as those of one table do.
"""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dpcore._dataclasses import dataclass
from dpcore.tables.rows import rows_of_batch
from dpcore.tables.sql.allowed import LONGEST_CELL
from dpcore.tables.sql.arrow_values import TEXTS, database_type, readable
from dpcore.tables.types.whole_arrays import decoded
from dpcore.tables.units.contributions import compared, compared_type
from dpcore.tables.units.unit_index import UnitIndex

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from dpcore.tables.inputs import Inputs
    from dpcore.tables.sql.derivation import Derivation
    from dpcore.tables.units.unit_rows import MadeRows, UnitRecipe

    Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class UnitJoin:
    """A private table on its way to the rows of another one: a plan knows its types, and a run makes its rows.

    Attributes
    ----------
    key : str
        The column of units of the rows that it is joined to.
    unit_type : pyarrow.DataType
        Its type.
    of_made_rows : bool
        Whether these are rows that were made of units, so that long names are digests already.
    is_inner : bool
        Whether rows of units that it does not have are left out.
    source : Inputs
        The table.
    recipe : UnitRecipe
        What is made of its rows.
    after : Derivation
        What is derived of the rows that are made.
    columns : dict
        What is joined: without rows in a plan, and with those of all units in a run.
    index : UnitIndex or None
        The units of these rows, in a run.
    """

    key: str
    unit_type: pa.DataType
    of_made_rows: bool
    is_inner: bool
    source: Inputs = field(repr=False)
    recipe: UnitRecipe = field(repr=False)
    after: Derivation = field(repr=False)
    columns: dict[str, pa.Array] = field(repr=False)
    index: UnitIndex | None = field(default=None, repr=False)

    @property
    def row_bytes(self) -> int:
        """The most bytes of text that one row may get. It follows from the types alone, not from how long texts are."""
        return LONGEST_CELL * sum(column.type in TEXTS for column in self.columns.values())

    def of(self, cells: pa.Array) -> tuple[dict[str, pa.Array], Mask | None]:
        """The columns for rows of these units, and which rows stay; None if all do."""
        if self.index is None:
            if len(cells):
                raise AssertionError("no run has made these rows")
            return dict(self.columns), None
        units = decoded(cells).cast(self.unit_type)
        places = self.index.places(_as_compared(units) if self.of_made_rows else compared(units))
        absent = places < 0
        chosen = pa.array(places, mask=absent)
        found = {name: column.take(chosen) for name, column in self.columns.items()}
        return found, ~absent if self.is_inner and absent.any() else None

    def holding(self, made: MadeRows) -> UnitJoin:
        """The same with rows that were made, all of them in memory."""
        units: list[pa.Array] = []
        found: dict[str, list[pa.Array]] = {name: [] for name in self.columns}
        for batch in self._derived(made):
            units.append(_as_compared(batch.column(self.recipe.unit)))
            for name, cells in found.items():
                cells.append(held(batch.column(name)))
        columns = {name: pa.concat_arrays(cells) if cells else self.columns[name] for name, cells in found.items()}
        index = UnitIndex(pa.concat_arrays(units) if units else pa.array([], compared_type(self.recipe.named_type)))
        return replace(self, columns=columns, index=index)

    def _derived(self, made: MadeRows) -> Iterator[pa.RecordBatch]:
        with self.after.opened() as deriving:
            for whole in made:
                for start in range(0, len(whole), self.after.most_rows):
                    derived = deriving.of(rows_of_batch(whole.slice(start, self.after.most_rows)))
                    batch = derived.rows.batch
                    yield batch if derived.passes is None else batch.filter(pa.array(derived.passes))


def held(cells: Any) -> pa.Array:
    """Cells of a column that is joined, as expressions have them."""
    kind = database_type(cells.type)
    if kind is None:
        raise AssertionError(cells.type)
    cells = readable(cells, kind)
    # Large, as the texts of all units are in one array.
    return decoded(cells).cast(pa.large_string()) if kind == "VARCHAR" else cells


def _as_compared(units: pa.Array) -> pa.Array:
    """Units of rows that were made, which `compared` has seen, as it gave them."""
    return units.view(compared_type(units.type))
