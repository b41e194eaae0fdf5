"""Metadata of tables of reports: the sidecar of a CSV, the schemas of Arrow and Parquet files, and manifests of shards."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import ipc

from dpcore.batch import estimate, make_plan, parse_job, privatize
from dpcore.tables.output import metadata
from dpcore.tables.randomise_fields import COLUMN_SECTIONS
from fuzz import json_text
from fuzz.target import FoundError, Target
from support.jobs import KEY, write_table

if TYPE_CHECKING:
    import random

ROWS = 12
THE_TABLE = "the table"
"""Stands for the size and the digest of the table, which a sidecar and a manifest hold."""
CATEGORIES = ["a", "b", "c"]
SECTIONS: dict[str, dict[str, Any]] = {
    "laplace": {"mechanism": "laplace", "lower": 0, "upper": 9, "missing": 0},
    "gaussian": {"mechanism": "gaussian", "delta": 1e-6, "lower": 0, "upper": 9, "missing": 0},
    "discrete": {"mechanism": "discrete_laplace", "lower": 0, "upper": 9, "missing": 0},
    "bounded": {"mechanism": "bounded_mean", "lower": 0, "upper": 9, "missing": 1.5},
    "binary": {"mechanism": "binary", "missing": True},
    "channel": {"mechanism": "binary_channel", "categories": CATEGORIES, "phi": [3, 1.5, -1], "missing": "a"},
    "kary": {"mechanism": "kary", "categories": CATEGORIES, "missing": "a", "unknown": "b"},
    "unary": {"mechanism": "unary", "k": 9, "missing": 0, "unknown": 8},
    "subset": {"mechanism": "subset", "k": 9, "missing": 0, "unknown": 8},
    "hashing": {"mechanism": "hashing", "categories": CATEGORIES, "missing": "a"},
    "hadamard": {"mechanism": "hadamard", "k": 9, "missing": 0, "unknown": 8},
    "projective": {"mechanism": "projective", "k": 9, "missing": 0, "unknown": 8},
}
KEYS = (
    "schema", "fields", "table", "stored", "bytes", "sha256", "format", "mechanism", "epsilon", "delta", "lower", "upper", "k",
    "categories", "missing",
    "unknown", "grid", "phi", "method", "variant", "w", "g", "q", "dimension", "unit", "secure", "stream_version", "version", "kind",
    "shards", "name",
    "rows", "dpcore", "order", "categories_file",
)  # fmt: skip


def answers() -> pa.Table:
    """The table that is privatised."""
    index = np.arange(ROWS)
    texts, codes = pa.array(np.array(CATEGORIES, object)[index % 3]), pa.array(index % 9)
    kinds = {
        "binary": pa.array(index % 2 == 0),
        "laplace": pa.array(index / 2),
        "gaussian": pa.array(index / 2),
        "bounded": pa.array(index / 2),
    }
    return pa.table({name: kinds.get(name, texts if "categories" in section else codes) for name, section in SECTIONS.items()})


class DescribedFiles(Target):
    """JSON behind a line that says where it is put: csv, arrow, spark or manifest."""

    name: ClassVar[str] = "described"
    promise: ClassVar[str] = "estimates are of as many rows as the table has, and memory follows from the file and not from what it claims"
    longest: ClassVar[int] = 8000
    megabytes: ClassVar[int] = 300
    words: ClassVar[tuple[str, ...]] = (
        *KEYS,
        *COLUMN_SECTIONS,
        "null",
        "true",
        "NaN",
        "Infinity",
        "[]",
        "{}",
        "\\u0000",
        "csv\n",
        "arrow\n",
        "spark\n",
        "manifest\n",
    )

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        write_table(answers(), folder / "in.arrow")
        for ending in ("csv", "arrow"):
            privatize(make_plan(parse_job(self._job(folder, ending))), threads=1)
        self._csv, self._sidecar = (folder / "out.csv").read_bytes(), json.loads((folder / "out.csv.dpcore.json").read_bytes())
        with ipc.open_file(folder / "out.arrow") as file:
            self._table = file.read_all()
        for path in folder.iterdir():
            path.unlink()

    def _job(self, folder: Path, ending: str) -> dict[str, Any]:
        columns = [{"name": name, "epsilon": 1.0, **section} for name, section in SECTIONS.items()]
        return {
            "version": 1, "input": {"path": str(folder / "in.arrow")}, "output": {"path": str(folder / f"out.{ending}")},
            "privacy": {"max_epsilon": 99.0, "max_delta": 1e-3}, "testing": {"key_hex": KEY.hex()}, "column": columns,
        }  # fmt: skip

    def seeds(self) -> dict[str, bytes]:
        """Inputs that are accepted, one for each place."""
        said = {**self._sidecar, "table": THE_TABLE}
        shard = {"name": "out-1-of-1.arrow", "rows": ROWS, "bytes": THE_TABLE, "sha256": THE_TABLE}
        manifest = {"format": 1, "kind": "shards", "dpcore": said["schema"], "rows": ROWS, "order": "", "shards": [shard]}
        found = {place: b"%s\n%s" % (place.encode(), json_text.written(said)) for place in ("csv", "arrow", "spark")}
        each = {
            f"csv-{name}": b"csv\n" + json_text.written({**said, "fields": {name: field}, "stored": {}})
            for name, field in said["fields"].items()
        }
        return {**found, **each, "manifest": b"manifest\n" + json_text.written(manifest)}

    def mutated(self, data: bytes, rng: random.Random) -> bytes | None:
        place, _, content = data.partition(b"\n")
        document = json_text.parsed(content)
        if document is None:
            return None
        place = rng.choice((b"csv", b"arrow", b"spark", b"manifest")) if rng.random() < 0.05 else place
        changed = json_text.mutated(
            document, rng, KEYS, (*COLUMN_SECTIONS, *SECTIONS.values(), THE_TABLE, *self._sidecar["fields"].values())
        )
        return place + b"\n" + json_text.written(changed)

    def declares(self, mark: str, data: bytes) -> bool:
        return True  # no data are planted: messages may show metadata

    def is_watched(self, path: Path) -> bool:
        return not path.name.startswith("out")

    def run(self, data: bytes) -> None:
        place, _, content = data.partition(b"\n")
        path = {b"arrow": self._arrow, b"spark": self._spark, b"manifest": self._manifest}.get(place, self._beside_csv)(content)
        found = estimate(path, threads=1)
        if found.rows != ROWS:
            raise FoundError(f"{found.rows} rows are read of {ROWS}")
        for column in found.columns:
            if not np.isfinite(column.estimate.value).all():
                raise FoundError(f"the estimate of {column.column.name!r} is {column.estimate.value}")

    def _beside_csv(self, content: bytes) -> Path:
        path = Path("out.csv")
        path.write_bytes(self._csv)
        Path("out.csv.dpcore.json").write_bytes(_with_table(content, self._csv))
        return path

    def _arrow(self, content: bytes) -> Path:
        path = Path("out.arrow")
        table = self._described(content)
        with ipc.new_file(path, table.schema) as writer:
            writer.write_table(table)
        return path

    def _spark(self, content: bytes) -> Path:
        """Parquet with metadata where Spark has them, which knows those of columns only."""
        document = json_text.parsed(content)
        said = content
        if isinstance(document, dict) and isinstance(fields := document.get("fields"), dict):
            whole = json.dumps(document.get("schema"))
            listed = [{"name": name, "metadata": {"dpcore": json.dumps(field), metadata.TABLE: whole}} for name, field in fields.items()]
            said = json_text.written({"fields": listed})
        pq.write_table(
            self._table.replace_schema_metadata({metadata.SPARK: said}).cast(_without_metadata(self._table.schema, said)), "out.parquet"
        )
        return Path("out.parquet")

    def _manifest(self, content: bytes) -> Path:
        shard = Path("out-1-of-1.arrow")
        with ipc.new_file(shard, self._table.schema) as writer:
            writer.write_table(self._table)
        Path("out.shards.json").write_bytes(_with_table(content, shard.read_bytes()))
        return Path("out.shards.json")

    def _described(self, content: bytes) -> pa.Table:
        """The table with other metadata in its schema."""
        document = json_text.parsed(content)
        fields = document.get("fields") if isinstance(document, dict) else None
        if not isinstance(fields, dict):
            first = self._table.schema.field(0).with_metadata({metadata.KEY: content})
            return self._table.cast(self._table.schema.set(0, first)).replace_schema_metadata({metadata.KEY: content})
        schema = _without_metadata(self._table.schema, None)
        for name, said in fields.items():
            if (at := schema.get_field_index(name)) >= 0:
                schema = schema.set(at, schema.field(at).with_metadata({metadata.KEY: json.dumps(said).encode()}))
        return self._table.cast(schema.with_metadata({metadata.KEY: json.dumps(document.get("schema")).encode()}))


def _without_metadata(schema: pa.Schema, said: bytes | None) -> pa.Schema:
    plain = pa.schema([field.remove_metadata() for field in schema])
    return plain if said is None else plain.with_metadata({metadata.SPARK: said})


def _with_table(content: bytes, table: bytes) -> bytes:
    """The text with the size and the digest of the table where it asks for them."""
    document = json_text.parsed(content)
    entries = (
        [document, *(document.get("shards") or [])]
        if isinstance(document, dict) and isinstance(document.get("shards", []), list)
        else [document]
    )
    found = {"bytes": len(table), "sha256": hashlib.sha256(table).hexdigest()}
    changed = False
    for entry in entries:
        if isinstance(entry, dict):
            if entry.get("table") == THE_TABLE:
                entry["table"], changed = found, True
            for key, value in found.items():
                if entry.get(key) == THE_TABLE:
                    entry[key], changed = value, True
    return json_text.written(document) if changed else content
